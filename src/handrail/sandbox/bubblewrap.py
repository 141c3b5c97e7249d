"""Tier A by bubblewrap: the same plan as its command line; the last steps inside are our own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from handrail.own_imports import INTERPRETER, PACKAGE
from handrail.sandbox import seccomp
from handrail.sandbox.executables import find_executable
from handrail.sandbox.fork_server import ForkServer
from handrail.sandbox.inside.bubble import FIRST_DATA
from handrail.sandbox.launching import Child, Confined, SetupFailed
from handrail.sandbox.masks import HIDE, LOCK, Masks, masks
from handrail.sandbox.native import asked, check, common, second_wall, written_by
from handrail.sandbox.plan import Plan
from handrail.sandbox.system import links, names, system

_INSIDE = Path(PACKAGE) / "sandbox" / "inside"
_ID = 1000
_READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
GAP_ROOT = "bubblewrap's programs run with root's own id, without capabilities: process limits do not hold"
GAP_SIGNALS = "a program that a signal ended is told as exit code 128 and that signal's number"
GAP_REVIEW = "changes cannot be kept apart for review"


class Bubblewrap:
    """Tier A by the bubblewrap program."""

    def __init__(self, server: ForkServer, confined: Confined, named: str | None = None) -> None:
        """Take the `bwrap` that settings name, where they name one."""
        self.confined = confined
        self._named = named
        self._server = server

    def spawn(
        self, plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> Child:
        """Start a program; back once it was executed. Raises SetupFailed, and never runs it otherwise confined."""
        check(plan)
        program = find_executable("bwrap", plan.write, self._named)
        if program is None:
            advice = "Install bubblewrap for the whole system, or choose another sandbox."
            raise SetupFailed("bubblewrap", 2, advice, "no bwrap in the system's folders")
        if plan.review:
            raise SetupFailed("layers for review", 0, 'Use `exec.sandbox = "native"` for it.', GAP_REVIEW)
        return self._server.spawn(specify(program, plan, argv, cwd=cwd, env=env), stdin, stdout, stderr)

    def close(self) -> None:
        """End the fork server, and with it every program that still runs."""
        self._server.close()


def specify(program: str, plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> dict[str, Any]:
    """Write down everything the fork server needs to start one program in bubblewrap."""
    found = masks(plan)
    uid, gid = (_ID, _ID) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    files = [*system().files, *names(uid, gid), *plan.files]
    line = _Line(plan, found, uid, gid)
    last = (INTERPRETER, "-I", "-S", "-E", str(_INSIDE), "bubble")
    words = [program, *line.words(files), "--", *last]
    return {
        **common(plan),
        **asked(argv, cwd, env),
        "tier": "bwrap",
        "landlock": second_wall(plan),
        "seccomp": seccomp.program(seccomp.Filter(os.uname().machine, network=True, unix=True, ipc=True)),
        "bubble": [os.fsencode(word) for word in words],
        "bubble_data": [text for _, text in files] + [b""] * line.hidden_files,
        "gaps": [f"{path} is a link: what it leads to is protected, the link is not" for path in found.links],
    }


class _Line:
    """Bubblewrap's arguments for one plan."""

    def __init__(self, plan: Plan, found: Masks, uid: int, gid: int) -> None:
        self._plan, self._found, self._ids = plan, found, (uid, gid)
        self.hidden_files = 0

    def words(self, files: Sequence[tuple[str, bytes]]) -> Iterator[str]:
        """Give them in the order in which bubblewrap carries them out."""
        uid, gid = self._ids
        scratch = str(self._plan.bounds.scratch_bytes)
        yield from ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
        yield from ("--uid", str(uid), "--gid", str(gid), "--hostname", "sandbox", "--clearenv")
        yield from ("--size", scratch, "--perms", "1777", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev")  # noqa: S108
        yield from ("--size", scratch, "--perms", "1777", "--tmpfs", "/dev/shm")  # noqa: S108
        for name in _READ_ONLY_PROC:
            if os.path.exists(f"/proc/{name}"):
                yield from ("--ro-bind", f"/proc/{name}", f"/proc/{name}")
        for path, target in links((*self._plan.read, *self._plan.write)):
            yield from ("--symlink", target, path)
        for place, (path, _) in enumerate(files):
            yield from ("--perms", "0644", "--ro-bind-data", str(FIRST_DATA + place), path)
        yield from self._folders()
        yield from self._masks(FIRST_DATA + len(files))
        yield from ("--remount-ro", "/")

    def _folders(self) -> Iterator[str]:
        chosen = dict.fromkeys((*system().folders, str(_INSIDE), *self._plan.read), "--ro-bind")
        chosen |= dict.fromkeys(written_by(self._plan), "--bind")
        for path, how in sorted(chosen.items(), key=lambda item: (item[0].count("/"), item[0])):
            yield from (how, path, path)

    def _again(self, hidden: str) -> Iterator[str]:
        """The plan's roots below a hidden folder, at their places."""
        for path in sorted((*self._plan.read, *self._plan.write)):
            if path.startswith(f"{hidden}/"):
                yield from ("--bind" if path in self._plan.write else "--ro-bind", path, path)

    def _masks(self, next_data: int) -> Iterator[str]:
        for path, how in self._found.paths:
            if how != HIDE:
                yield from ("--ro-bind" if how == LOCK else "--bind", path, path)
            elif os.path.isdir(path):
                yield from ("--perms", "0555", "--tmpfs", path, *self._again(path), "--remount-ro", path)
            else:
                yield from ("--perms", "0000", "--ro-bind-data", str(next_data + self.hidden_files), path)
                self.hidden_files += 1
