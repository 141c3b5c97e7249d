"""Git repositories and worktrees that a program made, and whether they could make git run programs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence

from handrail.policy.repositories import DECIDING
from handrail.processes.layer import LayerChange
from handrail.sandbox.launching import Upper
from handrail.words import Root, noun
from handrail.workspace.access import READ
from handrail.workspace.beneath import FOLDER, open_walking
from handrail.workspace.git_config import settings_of

# What `git init`, `git clone` and `git sparse-checkout` write: none of it makes git run a program.
_PLAIN = re.compile(
    r"""(?x) core\.(?:repositoryformatversion | filemode | bare | logallrefupdates | ignorecase | precomposeunicode
                      | symlinks | sparsecheckout | sparsecheckoutcone)
    | extensions\.(?:objectformat | refstorage | worktreeconfig | relativeworktrees) | index\.(?:sparse | version)
    | remote\..+\.(?:url | fetch | tagopt) | branch\..+\.(?:remote | merge | rebase)
    | submodule\.active | user\.(?:name | email)"""
)
_HELPER = re.compile(r"::|^\s*-")  # in a URL: a program that fetches, or an option in the stead of one
_CONFIGS = ("config", "config.worktree")
_FURTHER = ("modules", "worktrees")
_TEMPLATES = "/usr/share/git-core/templates"
_MAX_BYTES = 1 << 20
_GIT = ".git"


@noun
class NewRepositories:
    """Repositories and worktrees that are new, as a whole, and run no programs."""

    shown: tuple[str, ...] = ()  # their `.git`
    parts: frozenset[tuple[Root, str]] = frozenset()  # what would be denied elsewhere: config, hooks, links to folders


def find_new(changes: Sequence[LayerChange]) -> NewRepositories:
    """Find the new repositories among changes of layers."""
    by_place = {(change.root, change.path): change for change in changes if not change.left_out}
    shown: list[str] = []
    parts: set[tuple[Root, str]] = set()
    for (root, path), change in by_place.items():
        if change.kind != "mkdir":
            continue
        named_git = path.rpartition("/")[2].casefold() == _GIT
        if found := _repository(change) if named_git else _worktree(change, by_place):
            shown.append(root.shown(path))
            parts.update((root, part) for part in found)
    return NewRepositories(tuple(shown), frozenset(parts))


def why_not_plain(root: str, path: str, only: str = "") -> str:
    """Say what of a repository's folder could make git run programs, or send it elsewhere; empty: nothing.

    `only`: the one name in the folder to look at.
    """
    try:
        handle = os.open(root, FOLDER)
        try:
            folder = open_walking(handle, path, FOLDER)
        finally:
            os.close(handle)
        try:
            return next(_suspects(folder, [only] if only else sorted(os.listdir(folder))), "")
        finally:
            os.close(folder)
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"


def _repository(change: LayerChange) -> tuple[str, ...]:
    """List what of a new repository is let through; nothing where it could run programs."""
    path = change.path
    if why_not_plain(change.upper.path, path):
        return ()
    names = (*_CONFIGS, "hooks", *(f"hooks/{name}" for name in _names(change.upper, f"{path}/hooks")))
    return (path, *(f"{path}/{name}" for name in names))


def _worktree(change: LayerChange, by_place: Mapping[tuple[Root, str], LayerChange]) -> tuple[str, ...]:
    """List what of the registration of a new worktree is let through, and the file in the worktree that leads to it."""
    root, path = change.root, change.path
    above, _, _ = path.rpartition("/")
    if not f"/{above.casefold()}".endswith(f"/{_GIT}/worktrees"):
        return ()
    pointer = _text(change.upper, f"{path}/gitdir")
    common = _text(change.upper, f"{path}/commondir")
    settings = _text(change.upper, f"{path}/config.worktree")
    if pointer is None or common is None or common.strip() != "../.." or (settings and _program_key(settings)):
        return ()
    target = os.path.normpath(os.path.join(root.path, path, pointer.removesuffix("\n")))
    tree = target[len(root.path.rstrip("/")) + 1 :]
    made = by_place.get((root, tree))
    if not target.startswith(f"{root.path.rstrip('/')}/") or made is None or made.kind != "create":
        return ()
    back = (_text(made.upper, tree) or "").removesuffix("\n")
    folder = os.path.dirname(target)
    leads = os.path.normpath(os.path.join(folder, back.removeprefix("gitdir:").strip()))
    if os.path.basename(target) != _GIT or not back.startswith("gitdir:") or leads != f"{root.path}/{path}":
        return ()
    return (f"{path}/gitdir", f"{path}/commondir", f"{path}/config.worktree", tree)


def _suspects(folder: int, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        low = name.casefold()
        if low in _CONFIGS:
            text = _read(folder, name)
            if text is None:
                yield f"{name} cannot be read"
            elif key := _program_key(text):
                yield f"{name} sets {key}"
        elif low == "hooks":
            yield from _hooks(folder, name)
        elif low in _FURTHER:
            yield f"it holds further repositories in {name}"
        elif low in DECIDING:
            yield f"{name} sends git to another folder"


def _hooks(above: int, name: str) -> Iterator[str]:
    """Name hooks that git would run: neither samples nor those that the machine's own git comes with."""
    folder = os.open(name, FOLDER, dir_fd=above)
    try:
        for hook in sorted(os.listdir(folder)):
            text = _read(folder, hook)
            if text is None:
                yield f"{name}/{hook} is no plain file"
            elif not hook.endswith(".sample") and text != _template(hook):
                yield f"{name}/{hook} is a hook"
    finally:
        os.close(folder)


def _template(hook: str) -> str | None:
    try:
        folder = os.open(f"{_TEMPLATES}/hooks", FOLDER)
    except OSError:
        return None
    try:
        return _read(folder, hook)
    finally:
        os.close(folder)


def _program_key(text: str) -> str:
    """Name the first setting that is not known to be harmless; empty: all are."""
    try:
        settings = settings_of(text)
    except ValueError:
        return "something that cannot be read"
    for key, value in settings:
        if _PLAIN.fullmatch(key) is None or (key.endswith(".url") and _HELPER.search(value)):
            return key
    return ""


def _names(upper: Upper, path: str) -> list[str]:
    try:
        return os.listdir(f"{upper.path}/{path}")
    except OSError:
        return []


def _text(upper: Upper, path: str) -> str | None:
    """Read a small file of a layer; None: there is none, or it is no plain file."""
    handle = os.open(upper.path, FOLDER)
    try:
        fd = open_walking(handle, path.rpartition("/")[0] or ".", FOLDER)
    except OSError:
        return None
    finally:
        os.close(handle)
    try:
        return _read(fd, path.rpartition("/")[2])
    finally:
        os.close(fd)


def _read(folder: int, name: str) -> str | None:
    try:
        fd = os.open(name, READ, dir_fd=folder)
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = file.read(_MAX_BYTES + 1)
    return os.fsdecode(data) if len(data) <= _MAX_BYTES else None
