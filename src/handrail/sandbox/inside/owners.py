"""As root: shows folders with other owners, so that a program without any rights outside can still work in them.

The owner of a folder on disk becomes, in the sandbox's view of it, the id that the program runs as.
"""

from __future__ import annotations

import os

from handrail.sandbox.inside import calls

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any

_ALL = 0xFFFFFFFF


class OwnerMaps:
    """User namespaces that serve as tables of owners, made once for each owner."""

    def __init__(self) -> None:
        self.server = os.pidfd_open(os.getpid())
        self._made: dict[tuple[int, int, int, int], int] = {}

    def trees(self, spec: dict[str, Any]) -> list[int]:
        """Hold a copy of every folder of the plan, its owner mapped; then of every layer on disk."""
        held: list[int] = []
        layers = [(path, True) for path in spec["layers"] if path]
        try:
            for path, writable in (*spec["owned"], *layers):
                seen = os.stat(path)
                held.append(calls.open_tree(path, deep=True))
                attributes = calls.ATTR_NOSUID | calls.ATTR_NODEV | (0 if writable else calls.ATTR_RDONLY)
                table = self._table(seen.st_uid, seen.st_gid, *spec["outer"])
                calls.set_attributes(held[-1], attributes | calls.ATTR_IDMAP, deep=True, users=table)
        except OSError:
            for fd in held:
                os.close(fd)
            raise
        return held

    def _table(self, uid: int, gid: int, outer_uid: int, outer_gid: int) -> int:
        key = (uid, gid, outer_uid, outer_gid)
        if key not in self._made:
            self._made[key] = _user_namespace(uid_lines(uid, outer_uid), uid_lines(gid, outer_gid))
        return self._made[key]


def uid_lines(owner: int, outer: int) -> str:
    """Map an owner to the outer id and every other id below that to itself."""
    lines = [(0, 0, owner), (owner, outer, 1), (owner + 1, owner + 1, min(outer, _ALL) - owner - 1)]
    return "\n".join(f"{inside} {outside} {count}" for inside, outside, count in lines if count > 0)


def _user_namespace(uids: str, gids: str) -> int:
    """Make a user namespace with a table of ids, held by its descriptor alone."""
    wait, done = os.pipe()
    pid, handle = calls.clone(calls.NEWUSER)
    if pid == 0:
        os.close(done)
        os.read(wait, 1)
        os._exit(0)
    try:
        for name, text in (("uid_map", uids), ("gid_map", gids)):
            fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (done, wait, handle):
            os.close(fd)
        os.waitpid(pid, 0)
