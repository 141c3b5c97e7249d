"""What this process is made of, as far as it lies beneath write roots: nothing that a tool starts may change it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from glob import escape, glob
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path

from handrail.own_imports import OWN_IMPORTS, PACKAGE
from handrail.settings import Loaded
from handrail.settings.files import way_to
from handrail.words import Root, noun

_PARTS = ("bin", "lib", "lib64", "include", "Scripts", "pyvenv.cfg")  # of a virtual environment
_INSTALLED = ("site-packages", "dist-packages")
_ARCHIVES = (".zip", ".egg", ".whl")
_AT_START = ("sitecustomize", "usercustomize")  # modules that every start of this interpreter runs
_STORED = "archive-v0"  # where a cache of uv has the files of packages
ADVICE = "install it apart from projects: `uv tool install handrail` or `pipx install handrail`"


@noun
class OwnCode:
    """The interpreter, libraries and scripts of this process that lie beneath write roots."""

    locked: tuple[str, ...] = ()  # absolute paths, links on the way to them included
    warning: str = ""  # where a write root holds Handrail itself


def find_own_code(roots: Iterable[Root]) -> OwnCode:
    """Find what of this process tools could reach; computed once a runtime."""
    writable = [root.path.rstrip("/") for root in roots if root.writable]
    found: dict[str, None] = {}
    linked = tuple(_linked(writable))
    for path in (*_made_of(writable), *linked):
        found |= dict.fromkeys(name for name in way_to(Path(path)) if _concerns(name, writable))
    kept = [path for path in found if not any(path.startswith(f"{other}/") for other in found if _is_real(other))]
    holder = next((root for root in writable if f"{PACKAGE}/".startswith(f"{root}/")), None)
    warning = _warn_of_links(linked) if linked else ""
    if holder is not None:
        warning = _warn(holder)
    return OwnCode(tuple(sorted(kept)), warning)


def guard_imports(roots: Iterable[Root]) -> OwnCode:
    """Find this process's code, and load nothing for Handrail from beneath the write roots from now on."""
    known = tuple(roots)
    own = find_own_code(known)
    OWN_IMPORTS.protect((root.path for root in known if root.writable), own.locked)
    return own


def write_roots(loaded: Loaded) -> tuple[Root, ...]:
    """List the project's write roots by its settings, without a run."""
    workspace = loaded.settings.workspace
    named = [loaded.workspace, *workspace.write]
    if workspace.root.startswith("/"):
        named.append(workspace.root.partition("/{")[0])
    return tuple(Root(path, os.path.realpath(path), writable=True) for path in dict.fromkeys(named))


def loaded_files(roots: Iterable[Root], own: OwnCode) -> tuple[str, ...]:
    """List files of loaded modules beneath write roots that are not locked: the program that embeds Handrail."""
    writable = tuple(f"{root.path.rstrip('/')}/" for root in roots if root.writable)
    locked = tuple(f"{path}/" for path in own.locked)
    files: dict[str, None] = {}
    for module in list(sys.modules.values()):
        for name in ("__file__", "__cached__"):
            file = getattr(module, name, None)
            if isinstance(file, str) and file:
                files[file] = None
    found = {path for path in _resolve_all(files, writable) if path.startswith(writable)}
    found |= {name for path in tuple(found) for name in _taken_before(path)}
    found |= {path for path in _mapped() if path.startswith(writable)}
    for entry in map(os.path.realpath, sys.path):
        if f"{entry}/".startswith(writable):
            found |= {form for name in _AT_START for form in _forms(f"{entry}/{name}")}
    return tuple(sorted(path for path in found if not f"{path}/".startswith(locked)))


def _forms(module: str) -> Iterator[str]:
    """List the files that Python would take for a module, given its path without a suffix."""
    for suffix in (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES):
        yield f"{module}{suffix}"
        yield f"{module}/__init__{suffix}"


def _taken_before(file: str) -> Iterator[str]:
    """List the files that Python would take instead of a loaded source file from now on: native ones, and a package."""
    stem, suffix = os.path.splitext(file)
    if suffix not in SOURCE_SUFFIXES:
        return
    yield from (f"{stem}{native}" for native in EXTENSION_SUFFIXES)
    if os.path.basename(stem) != "__init__":
        yield from (f"{stem}/__init__{kind}" for kind in (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES, *BYTECODE_SUFFIXES))


def _mapped() -> set[str]:
    """List the files that this process executes, modules or not."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            lines = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    except OSError:
        return set()
    return {line[5] for line in lines if len(line) == 6 and "x" in line[1] and line[5].startswith("/")}


_RESOLVED: dict[str, str] = {}  # files of loaded modules: where their links point


def _resolve_all(files: Iterable[str], writable: tuple[str, ...]) -> Iterator[str]:
    """Follow the links of many files; each of their few folders is followed once.

    A process loads a module once, so each file is resolved once. Files beneath write roots are resolved every time:
    there, an agent can change links.
    """
    folders: dict[str, str] = {}
    for file in files:
        known = _RESOLVED.get(file)
        if known is None or not file.startswith("/") or known.startswith(writable) or file.startswith(writable):
            known = _RESOLVED[file] = _resolve(file, folders)
        yield known


def _resolve(file: str, folders: dict[str, str]) -> str:
    if os.path.islink(file):
        return os.path.realpath(file)
    folder, name = os.path.split(file)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _made_of(writable: Iterable[str]) -> Iterator[str]:
    """List the folders and files that code of this process was and will be loaded from."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)):
        if not os.path.isfile(f"{prefix}/pyvenv.cfg"):
            yield from (f"{prefix}/bin", f"{prefix}/lib/{version}", f"{prefix}/lib64/{version}", f"{prefix}/pyvenv.cfg")
            yield from glob(f"{escape(prefix)}/lib*/libpython*")
        elif any(f"{root}/".startswith(f"{os.path.realpath(prefix)}/") for root in writable):
            yield from (f"{prefix}/{part}" for part in _PARTS)
        else:
            yield prefix
    yield _package()
    yield from _of_the_user()
    for entry in sys.path:
        if os.path.basename(entry.rstrip("/")) in _INSTALLED or entry.endswith(_ARCHIVES) or os.path.isfile(entry):
            yield entry
    started = (sys.executable, getattr(sys, "_base_executable", None), sys.pycache_prefix)
    yield from (path for path in started if path)


def _of_the_user() -> Iterator[str]:
    """Name the folder of the user's own packages; Python takes it at the next start, if it exists by then."""
    site = sys.modules.get("site")
    if getattr(site, "ENABLE_USER_SITE", False) and isinstance(folder := getattr(site, "USER_SITE", None), str):
        yield folder


def _linked(writable: Iterable[str]) -> Iterator[str]:
    """List packages and programs beneath write roots that are hard links of this process's own files.

    uv makes every environment of links to its cache: a program that writes into one would change ours as well.
    """
    others = dict.fromkeys(folder for root in writable for folder in _places_of_packages(root, 2))
    places = [entry for entry in dict.fromkeys((*sys.path, _package())) if entry.rstrip("/").endswith(_INSTALLED)]
    own = {entry.name: entry.path for place in (*places, f"{sys.prefix}/bin") for entry in _entries(place) if others}
    for folder in others:
        for entry in _entries(folder):
            if entry.name in own and _shares(own[entry.name], entry.path):
                yield entry.path


def _places_of_packages(folder: str, depth: int) -> Iterator[str]:
    """List where virtual environments and caches of uv have packages: in a folder, and below it to some depth."""
    if os.path.isfile(f"{folder}/pyvenv.cfg"):
        if os.path.realpath(folder) != os.path.realpath(sys.prefix):
            yield from (f"{folder}/bin", *glob(f"{escape(folder)}/lib/python*/site-packages"))
        return
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name == _STORED:
                yield from (stored.path for stored in _entries(entry.path))
            elif depth:
                yield from _places_of_packages(entry.path, depth - 1)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _files(path: str) -> Iterator[str]:
    """List a file itself, or the files in a folder and below it."""
    if not os.path.isdir(path):
        yield path
    for above, _, names in os.walk(path):
        yield from (f"{above}/{name}" for name in names if not name.endswith(".pyc"))


def _shares(own: str, other: str) -> bool:
    """Tell whether a file, or one in a folder, is the very same as its namesake."""
    for file in _files(own):
        try:
            found = os.lstat(file)
            has_links = found.st_nlink > 1 and stat.S_ISREG(found.st_mode)
            if has_links and os.path.samestat(found, os.lstat(other + file[len(own) :])):
                return True
        except OSError:
            continue
    return False


def _package() -> str:
    """Give the folder that Handrail is installed in; for an editable install the package alone."""
    above = os.path.dirname(PACKAGE)
    try:
        names = os.listdir(above)
    except OSError:
        return PACKAGE
    is_installed = any(name.startswith("handrail-") and name.endswith(".dist-info") for name in names)
    return above if is_installed else PACKAGE


def _concerns(path: str, writable: Iterable[str]) -> bool:
    """Tell whether a path lies beneath a write root, or holds one."""
    return any(path.startswith(f"{root}/") or f"{root}/".startswith(f"{path}/") for root in writable)


def _is_real(path: str) -> bool:
    return not os.path.islink(path)


def _warn_of_links(paths: tuple[str, ...]) -> str:
    return (
        f"{len(paths)} packages and programs such as {paths[0]} are hard links of Handrail's own files, as uv makes "
        f"them: they are locked for tools and programs; install Handrail with files of its own: "
        f"`uv tool install --link-mode copy --reinstall handrail`"
    )


def _warn(root: str) -> str:
    return (
        f"Handrail itself is installed beneath {root}, where tools may write: its files and the virtual environment "
        f"are locked for tools and programs, so nothing can be installed there during a run; {ADVICE}"
    )
