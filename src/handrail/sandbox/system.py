"""What of the machine's own system every program may see: its programs and libraries, and a few files of /etc."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from handrail.sandbox.toolchains import find_toolchains
from handrail.words import noun

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
_ETC_FOLDERS = ("alternatives", "ssl", "pki", "ca-certificates", "crypto-policies", "fonts", "terminfo", "profile.d")
_ETC_FILES = (
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "timezone",
    "locale.alias",
    "locale.conf",
    "services",
    "protocols",
    "mime.types",
    "magic",
    "inputrc",
    "bash.bashrc",
    "profile",
    "os-release",
    "debian_version",
    "gai.conf",
    "host.conf",
    "ca-certificates.conf",
    "login.defs",
)
_MAX_COPIED = 64 * 1024
# Mounts of the kernel's own, which no plan can show.
NEVER = ("/proc", "/sys", "/dev")


@noun
class System:
    """The same for every program: folders shown, links, and small files written anew."""

    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]  # where, to what
    files: tuple[tuple[str, bytes], ...]
    interpreter: tuple[str, ...] = ()  # folders that hold the running interpreter alone
    toolchains: tuple[str, ...] = ()  # those of the folders that lie below the home


@cache
def system() -> System:
    """Look once at what this machine has."""
    folders: list[str] = []
    links: list[tuple[str, str]] = [("/var/tmp", "/tmp"), ("/etc/mtab", "/proc/self/mounts")]  # noqa: S108
    files: list[tuple[str, bytes]] = []
    etc = [f"/etc/{name}" for name in _ETC_FOLDERS] + sorted(map(str, Path("/etc").glob("java-*")))
    for path in (*_PROGRAMS, *etc):
        if os.path.islink(path):
            links.append((path, os.readlink(path)))
        elif os.path.isdir(path):
            folders.append(path)
    for path in (f"/etc/{name}" for name in _ETC_FILES):
        _file(path, folders, links, files)
    interpreter = [path for path in _interpreter() if not is_below(path, folders)]
    found = find_toolchains(os.path.expanduser("~"))
    toolchains = tuple(path for path in found.folders if not is_below(path, folders))
    inside = tuple(path for path in interpreter if os.path.isdir(path) and not os.path.islink(path))
    interpreter = [path for path in interpreter if not is_below(path, toolchains)]
    links += [(path, os.readlink(path)) for path in interpreter if os.path.islink(path)]
    links += [(path, target) for path, target in found.links if not is_below(path, (*folders, *toolchains))]
    interpreter = [path for path in interpreter if not os.path.islink(path)]
    shown = (*folders, *interpreter, *toolchains, *found.files)
    return System(shown, tuple(links), tuple(files), inside, toolchains)


def links(roots: Iterable[str]) -> list[tuple[str, str]]:
    """Give the links but for one that would lead a root astray: /var/tmp, where a root is below it."""
    shown = list(roots)
    return [(path, target) for path, target in system().links if not any(is_below(root, [path]) for root in shown)]


def names(uid: int, gid: int) -> tuple[tuple[str, bytes], ...]:
    """The files that name users and hosts, with nobody in them but the program's own user."""
    users = {0: "root", 65534: "nobody", uid: "root" if uid == 0 else "user"}
    groups = {0: "root", 65534: "nogroup", gid: "root" if gid == 0 else "user"}
    homes = {uid: "/tmp"}  # noqa: S108
    passwd = "".join(f"{name}:x:{n}:{n}::{homes.get(n, '/nonexistent')}:/bin/sh\n" for n, name in users.items())
    return (
        ("/etc/passwd", passwd.encode()),
        ("/etc/group", "".join(f"{name}:x:{n}:\n" for n, name in groups.items()).encode()),
        ("/etc/hosts", b"127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost\n"),
        ("/etc/hostname", b"sandbox\n"),
        ("/etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files\n"),
        ("/etc/resolv.conf", b""),
    )


def _file(path: str, folders: list[str], links: list[tuple[str, str]], files: list[tuple[str, bytes]]) -> None:
    """Copy a small file, show a large one; what cannot be read is left out."""
    try:
        if os.path.islink(path):
            links.append((path, os.readlink(path)))
        elif os.path.isfile(path) and os.access(path, os.R_OK):
            if os.path.getsize(path) > _MAX_COPIED:
                folders.append(path)
            else:
                files.append((path, Path(path).read_bytes()))
    except OSError:
        return


def _interpreter() -> list[str]:
    """Name the parts of the running interpreter: programs, modules and its own library, but not the whole prefix.

    A prefix such as `~/.local` holds much that is none of a program's business.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found: set[str] = set()
    for prefix in {os.path.realpath(path) for path in (sys.base_prefix, sys.base_exec_prefix)}:
        found.add(f"{prefix}/bin")
        for lib in {"lib", sys.platlibdir}:
            found.add(f"{prefix}/{lib}/{version}")
            found |= {str(path) for path in Path(prefix, lib).glob("libpython*")}
    return sorted(path for path in found if os.path.lexists(path))


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders or lies in one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
