"""A plan as a specification for the fork server: tier A, in namespaces of its own."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from handrail.sandbox import landlock, seccomp
from handrail.sandbox.fork_server import ForkServer
from handrail.sandbox.launching import Child, Confined, SetupFailed
from handrail.sandbox.masks import Masks, masks
from handrail.sandbox.plan import Bounds, Plan
from handrail.sandbox.system import NEVER, names, system

PORT = 3128
_TRIES = 3
_INSIDE = 1000  # the id that root's programs see as their own
_OUTSIDE = 2_000_000_001  # and the one they have: it owns nothing
_CPU, _FSIZE, _DATA, _CORE, _NPROC, _NOFILE = 0, 1, 2, 4, 6, 7
_SCOPES = 0b11
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_DEVICES_ARE_MADE = (1 << 6) | (1 << 11)  # MAKE_CHAR, MAKE_BLOCK
_AS_ROOT = "the workspace cannot be shown with other owners, so programs run as root: process limits do not hold"


class Native:
    """Tier A without any other program: namespaces, a root of its own, Landlock, a filter of system calls."""

    def __init__(self, server: ForkServer, confined: Confined) -> None:
        self.confined = confined
        self._server = server

    def spawn(
        self, plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> Child:
        """Start a program; back once it was executed. Raises SetupFailed, and never runs it otherwise confined."""
        check(plan)
        outer = outside_ids()
        for left in reversed(range(_TRIES)):
            spec = specify(plan, argv, cwd=cwd, env=env, outer=outer)
            try:
                return self._server.spawn(spec, stdin, stdout, stderr)
            except SetupFailed as failure:
                if failure.stage == "owners of the workspace" and outer:
                    outer = None
                elif failure.stage != "masks" or not left:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the fork server, and with it every program that still runs."""
        self._server.close()


def check(plan: Plan) -> None:
    """Refuse roots that no view can be made of."""
    for path in (*plan.read, *plan.write):
        if path in ("/", *NEVER) or path.startswith(tuple(f"{name}/" for name in NEVER)) or not path.startswith("/"):
            raise SetupFailed("plan", 0, "Choose a folder of its own as root.", f"{path} cannot be a root of programs")


def specify(
    plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], outer: tuple[int, int] | None
) -> dict[str, Any]:
    """Write down everything the fork server needs to start one program in tier A."""
    seen = system()
    found = masks(plan)
    uid, gid = (_INSIDE, _INSIDE) if outer else (os.geteuid(), os.getegid())
    binds = _binds(plan, seen.folders)
    return {
        **common(plan, argv, cwd, env),
        "tier": "A",
        "uid": uid,
        "gid": gid,
        "outer": outer,
        "owned": [(path, writable) for path, writable, ours in binds if ours] if outer else [],
        "binds": binds,
        "files": [(os.fsencode(path), text) for path, text in (*seen.files, *names(uid, gid))],
        "links": [(os.fsencode(path), os.fsencode(target)) for path, target in seen.links],
        "masks": [(os.fsencode(path), how) for path, how in found.paths],
        "review": [os.fsencode(path) for path in plan.write] if plan.review else [],
        "scratch": plan.bounds.scratch_bytes,
        "memory": plan.bounds.memory_bytes,
        "landlock": second_wall(plan),
        "seccomp": seccomp.program(seccomp.Filter(os.uname().machine, network=True, unix=True, ipc=True)),
        "gaps": _gaps(found, outer),
    }


def common(plan: Plan, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> dict[str, Any]:
    """What every way of starting a program is told alike."""
    return {
        "argv": [os.fsencode(word) for word in argv],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "cwd": os.fsencode(cwd),
        "limits": limits(plan.bounds),
        "umask": 0o022,
        "confined": True,
        "outer": None,
        "owned": [],
        "review": [],
        "listen": PORT if plan.hosts else 0,
        "bubble": None,
        "bubble_data": [],
        "scratch_folder": None,
        "gaps": [],
    }


def limits(bounds: Bounds) -> list[tuple[int, int]]:
    """The kernel's limits for a program; of address space none, since some programs reserve more than they use."""
    return [
        (_CPU, bounds.cpu_seconds),
        (_FSIZE, bounds.file_bytes),
        (_DATA, bounds.memory_bytes),
        (_CORE, 0),
        (_NPROC, bounds.processes + 1),  # the first process counts
        (_NOFILE, bounds.open_files),
    ]


def _binds(plan: Plan, folders: tuple[str, ...]) -> list[tuple[bytes, bool, bool]]:
    """Every folder shown: path, whether it is for writing, whether it is the plan's; the more specific last."""
    chosen = dict.fromkeys(folders, (False, False))
    chosen |= dict.fromkeys(plan.read, (False, True))
    chosen |= dict.fromkeys(plan.write, (True, True))
    ordered = sorted(chosen.items(), key=lambda item: (item[0].count("/"), item[0]))
    return [(os.fsencode(path), writable, ours) for path, (writable, ours) in ordered]


def second_wall(plan: Plan) -> tuple[bytes, list[tuple[bytes, int]]] | None:
    """A second wall: all is readable that the view shows, and what is for writing writable."""
    version = landlock.abi()
    if version < 1:
        return None
    files = struct.unpack_from("=Q", landlock.handled(version))[0]
    fields = [files, *([0] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    everything = files & ~_DEVICES_ARE_MADE
    devices = files & (_READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL)
    rules = [(b"/", _EXECUTE | _READ_FILE | _READ_DIR), (b"/dev", devices)]
    rules += [(path, everything) for path in (b"/tmp", b"/dev/shm", *map(os.fsencode, plan.write))]
    return struct.pack(f"={len(fields)}Q", *fields), rules


def _gaps(found: Masks, outer: tuple[int, int] | None) -> list[str]:
    gaps = [f"{path} is a link: what it leads to is protected, the link itself can be replaced" for path in found.links]
    return gaps + ([_AS_ROOT] if outer is None and os.geteuid() == 0 else [])


@cache
def outside_ids() -> tuple[int, int] | None:
    """Ids that own nothing, for root to give to its programs; None for other users, who keep their own."""
    if os.geteuid() != 0:
        return None
    uid, gid = _unused("/proc/self/uid_map"), _unused("/proc/self/gid_map")
    return (uid, gid) if uid and gid else None


def _unused(table: str) -> int | None:
    """An id that this user namespace has and that nobody is known to use."""
    with open(table) as lines:
        ranges = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    if any(first <= _OUTSIDE < first + count for first, count in ranges):
        return _OUTSIDE
    first, count = max(ranges, key=lambda item: item[1])
    return first + count - 1 if count > 1 else None
