"""Tier B: no namespaces. Landlock, a filter of system calls, and a supervisor that outlives all it starts.

Landlock gives rights to folders with all below them and takes none back. So what is protected gets no rule, and
neither does a folder above it, but for listing: there each entry has a rule of its own.
"""

from __future__ import annotations

import os
import stat
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handrail.sandbox import landlock, seccomp
from handrail.sandbox.fork_server import ForkServer
from handrail.sandbox.launching import Child, Confined, SetupFailed
from handrail.sandbox.masks import HIDE, LOCK, Masks, masks
from handrail.sandbox.native import asked, check, common
from handrail.sandbox.plan import GAP_MEMORY, Plan
from handrail.sandbox.system import system

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_DEVICES_ARE_MADE = (1 << 6) | (1 << 11)
_SCOPES = 0b11
_TCP = 0b11
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "hostname")
_PROC = ("cpuinfo", "meminfo", "stat", "uptime", "version", "filesystems", "loadavg", "sys/kernel", "sys/vm")
_MAX_RULES = 20_000
Rule = tuple[bytes, int]

GAPS = (
    "permissions, times and attributes of files that the program's user owns can be changed, outside and locked too",
    "the existence and the attributes of files outside can be asked for, and names in hidden folders be listed",
    "nothing new can be made in a folder that holds a protected path, such as the top of a repository",
    "programs see this machine's name and users and whether a process exists, and can slow one of the same user down",
    "there is no network, not even a local one",
    "pseudo-terminals, shared memory and local sockets by path do not work",
    "scratch folders are measured four times a second, files without a name not counted",
    GAP_MEMORY,
    "the limit of processes counts all that the user has",
)
GAP_SIGNALS = "this kernel's Landlock does not hold back signals to other processes of the same user"
GAP_ROOT = "programs run as root, without capabilities: process limits do not hold, and root's files are their own"


class Supervised:
    """Tier B without any other program."""

    def __init__(self, server: ForkServer, confined: Confined) -> None:
        self.confined = confined
        self._server = server

    def spawn(
        self, plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> Child:
        """Start a program; back once it was executed. Raises SetupFailed, and never runs it otherwise confined."""
        check(plan)
        _possible(plan)
        scratch = tempfile.mkdtemp(prefix="handrail-scratch-")
        try:
            spec = specify(plan, argv, cwd=cwd, env=env, scratch=scratch)
            return self._server.spawn(spec, stdin, stdout, stderr)
        except BaseException:
            _remove(scratch)
            raise

    def close(self) -> None:
        """End the fork server, and with it every program that still runs."""
        self._server.close()


def _possible(plan: Plan) -> None:
    if plan.hosts:
        advice = "Tier A is needed for a network of its own; without it, leave `exec.allowed_hosts` empty."
        raise SetupFailed("network", 0, advice, "tier B cannot hold programs to some hosts")
    if plan.review:
        advice = 'Tier A is needed for it; without it, set `exec.workspace = "direct"`.'
        raise SetupFailed("layers for review", 0, advice, "tier B cannot keep changes apart")


def specify(plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], scratch: str) -> dict[str, Any]:
    """Write down everything the fork server needs to start one program in tier B."""
    homes = {name: scratch for name in ("HOME", "TMPDIR") if env.get(name, "/tmp") == "/tmp"}  # noqa: S108
    copies = _copied(plan, scratch)
    moved = {name: copies[value] for name, value in env.items() if value in copies}
    found = masks(plan)
    return {
        **common(plan),
        **asked(argv, cwd, {**env, **homes, **moved}),
        "tier": "B",
        "scratch_folder": os.fsencode(scratch),
        "landlock": domain(plan, found, scratch),
        "seccomp": seccomp.program(seccomp.Filter(os.uname().machine, network=False, unix=False, ipc=False)),
        "gaps": [f"{path} is a link: what it leads to is protected, the link is not" for path in found.links],
    }


def _copied(plan: Plan, scratch: str) -> dict[str, str]:
    """Write the plan's files into the program's own folder, since nothing can be put elsewhere; where each is now."""
    copies: dict[str, str] = {}
    for path, text in plan.files:
        copies[path] = os.path.join(scratch, f".{os.path.basename(path)}")
        with open(copies[path], "wb") as file:
            file.write(text)
    return copies


def domain(plan: Plan, found: Masks, scratch: str) -> tuple[bytes, list[Rule]]:
    """Give the domain: what it holds back, and the rights below each path."""
    version = landlock.abi()
    if version < 1:
        raise SetupFailed("Landlock", 38, "Use a kernel with Landlock, or one that allows user namespaces.")
    files = struct.unpack_from("=Q", landlock.handled(version))[0]
    fields = [files, *([_TCP] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    everything = files & ~_DEVICES_ARE_MADE & ~_IOCTL
    rules = list(_system(files, dict(found.paths), {*plan.read, *plan.write}))
    rules += [(os.fsencode(path), everything) for path in (scratch, plan.cache) if path]
    for path in sorted({*plan.read, *plan.write}, key=len):
        rights = everything if path in plan.write else _READ
        rules += _below(path, rights, dict(found.paths), {*plan.read, *plan.write} - {path})
        if len(rules) > _MAX_RULES:
            raise SetupFailed(
                "Landlock", 0, "Narrow the roots of the run.", "too many entries stand beside protected ones"
            )
    return struct.pack(f"={len(fields)}Q", *fields), rules


def _system(files: int, found: dict[str, str], roots: set[str]) -> Iterator[Rule]:
    seen = system()
    for path in seen.folders:
        if any(mask.startswith(f"{path}/") for mask in found):
            yield from _below(path, _READ, found, roots)
        else:
            yield os.fsencode(path), _READ if os.path.isdir(path) else _READ & _OF_FILES
    for path in (*(path for path, _ in seen.links), *(path for path, _ in seen.files)):
        if path != "/var/tmp" and os.path.exists(path):  # noqa: S108
            yield os.fsencode(path), _READ if os.path.isdir(path) else _READ & _OF_FILES
    for path in (*(f"/etc/{name}" for name in _ETC), *(f"/proc/{name}" for name in _PROC)):
        if os.path.exists(path):
            yield os.fsencode(path), _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
    for name in _DEVICES:
        yield f"/dev/{name}".encode(), files & (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL)


def _below(path: str, rights: int, found: dict[str, str], others: set[str]) -> Iterator[Rule]:
    """Give rights to a path and all below it but for what is protected."""
    how = found.get(path)
    if how == HIDE:
        return
    if how == LOCK:
        rights &= _READ
    inside = f"{path}/"
    special = any(other.startswith(inside) for other in (*found, *others))
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return
        if not stat.S_ISDIR(mode):
            yield os.fsencode(path), rights & _OF_FILES
        elif not special:
            yield os.fsencode(path), rights
        else:
            yield os.fsencode(path), _READ_DIR
            for name in os.listdir(path):
                if inside + name not in others:
                    yield from _below(inside + name, rights, found, others)
    except FileNotFoundError:
        return


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
