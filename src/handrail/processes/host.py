"""What all programs of a run share: the sandbox chosen once, settings, the watch on files, the jobs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from socket import socket
from typing import Any

from handrail.errors import Code, Problem
from handrail.output.redact import Redactor
from handrail.ports import Clock, Limits, Program, Spill, Work
from handrail.processes.effects import Watch
from handrail.processes.sink import Written
from handrail.processes.text import Room
from handrail.processes.watched import Watched
from handrail.sandbox.launching import READY_SECONDS, Child, Prepare, Sandbox, SetupFailed
from handrail.sandbox.plan import Bounds, Plan, environment, plan_of
from handrail.words import Decision, Json, Root, Touch, TouchKind, Verdict, noun

PROGRAM_STAGE = "exec"
# Where programs that may reach hosts find the way there: a listener inside, served by the runtime's proxy.
_PROXY = "http://127.0.0.1:3128"
PROXIED = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}
Serve = Callable[[socket, Work], AbstractAsyncContextManager[Any]]  # answers what programs ask of the network

# Takes a call and a way to see how far its program is; may give what is to be called when that has ended.
Followed = Callable[[str, Callable[[], Written]], Callable[[], None] | None]


@noun
class Terms:
    """What settings say of programs."""

    bounds: Bounds
    hosts: tuple[str, ...] = ()
    review: bool = False
    timeout_seconds: float = 120.0
    pass_env: tuple[str, ...] = ()
    max_jobs: int = 16
    kill_output_bytes: int = 1 << 30
    limits: Limits = Limits()

    @property
    def room(self) -> Room:
        """What may be shown of a program's streams together, with room for what is said about them."""
        limits = self.limits
        return Room(
            max(8, limits.max_output_lines - 20), max(2000, limits.max_output_bytes - 3000), limits.max_line_chars
        )


class Host:
    """Where programs of a run are started; makes nothing and probes nothing before the first one."""

    def __init__(
        self,
        choose: Callable[[], Sandbox],
        terms: Terms,
        roots: tuple[Root, ...],
        watch: Watch,
        *,
        redactor: Redactor,
        spill: Spill,
        clock: Clock,
        scratch: str,
        aside: str,
        count: Callable[[], None],
        serve: Serve | None = None,
        given: Mapping[str, str] | None = None,
        run_id: str = "",
        unfinished: str = "",
    ) -> None:
        self._choose, self._sandbox, self.roots = choose, None, roots
        self.terms, self.watch, self.redactor, self.spill, self.clock = terms, watch, redactor, spill, clock
        self.scratch, self.count, self.serve = scratch, count, serve
        self.aside = aside  # a folder for files without a name
        self.run_id, self.unfinished = run_id, unfinished  # a folder for notes of what is being kept
        self._given = os.environ if given is None else given
        self.sentries: set[Any] = set()  # of the programs that run
        self.watched = Watched(unfinished, run_id) if unfinished else None

    _sandbox: Sandbox | None
    followed: Followed | None = None  # told of every program that a call waits for, with a way to see how far it is

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of this run, chosen when first needed and never changed; SANDBOX_UNAVAILABLE."""
        if self._sandbox is None:
            self._sandbox = self._choose()
        return self._sandbox

    def plan(self, verdict: Verdict, program: Program | None = None) -> Plan:
        """The confinement of a call's programs."""
        terms = self.terms
        roots = (*self.roots, Root("run:sandbox", self.scratch, writable=True))  # of programs alone: no tool reaches it
        plan = plan_of(verdict, roots, hosts=terms.hosts, review=terms.review, bounds=terms.bounds)
        if program is None or not program.reads:
            return plan
        more = tuple(place.absolute for place in program.reads)
        return Plan(
            (*plan.read, *more),
            plan.write,
            plan.excluded,
            plan.locked,
            plan.roots,
            plan.hosts,
            plan.review,
            plan.bounds,
        )

    def told(self, verdict: Verdict) -> dict[str, Json]:
        """What events and approvals say of the confinement; SANDBOX_UNAVAILABLE where there is none."""
        self._need_server()
        held = self.sandbox.confined
        return {"tier": held.tier, "backend": held.backend, "gaps": list(held.gaps), **self.plan(verdict).told()}

    def prepare(self, work: Work) -> None:
        """Begin with the sandbox of a call's program while the call itself is being put on record.

        Nothing of the program is known to it, so nothing runs. Not for the first one, which chooses the sandbox.
        """
        prepare: Prepare | None = getattr(self._sandbox, "prepare", None)
        if prepare is None or not any(_is_command(touch) for touch in work.touches):
            return
        let_go = prepare(self.plan(_verdict(work)))
        if let_go is not None:
            asyncio.get_running_loop().call_later(READY_SECONDS, let_go)

    def close(self) -> None:
        """Let the sandbox go, and with it every program that still runs."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()
        if self.watched is not None:
            self.watched.close()

    async def judged(self) -> None:
        """See that nothing stands ready which a running program may not make, before another one starts."""
        for sentry in [*self.sentries]:
            await sentry.now()

    async def spawn(self, work: Work, program: Program, fds: tuple[int, int, int]) -> Child:
        """Start a program; SANDBOX_UNAVAILABLE and NOT_FOUND mean that nothing was run."""
        self._need_server()
        env = environment(self._given, program.env, self.terms.pass_env) | (PROXIED if self.terms.hosts else {})
        cwd = program.cwd.absolute if program.cwd is not None else self.scratch
        sandbox, plan = self.sandbox, self.plan(_verdict(work), program)
        stdin, stdout, stderr = fds
        start = partial(sandbox.spawn, plan, program.argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
        try:
            child = await _whole(start)
        except SetupFailed as failure:
            raise refused(failure, program.argv[0]) from failure
        self.count()
        return child

    @property
    def shown(self) -> str:
        """The sandbox in two words."""
        held = self.sandbox.confined
        return f"{held.backend} {held.tier}"

    def _need_server(self) -> None:
        if self.terms.hosts and self.serve is None:
            raise Problem(
                Code.SANDBOX_UNAVAILABLE,
                "exec.allowed_hosts names hosts, and there is no proxy here that could hold programs to them. "
                "Nothing was run. Empty exec.allowed_hosts to run programs without a network.",
                hosts=list(self.terms.hosts),
            )


def _verdict(work: Work) -> Verdict:
    return Verdict(Decision.ALLOW, (), tuple(work.excluded), tuple(work.locked))


def _is_command(touch: Touch) -> bool:
    """Whether a touch starts a program that needs to see nothing but the roots."""
    return touch.kind is TouchKind.PROC_EXEC and touch.skill is None


async def _whole(start: Callable[[], Child]) -> Child:
    """Start a program from a thread, for it takes milliseconds; cancelled meanwhile, it is ended before we go."""
    starting = asyncio.get_running_loop().run_in_executor(None, start)
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((starting,))
        if starting.exception() is None:
            child = starting.result()
            child.kill()
            await asyncio.shield(child.wait())
        raise


def refused(failure: SetupFailed, program: str) -> Problem:
    """The problem of a program that could not be started: a program that is not there is no fault of the sandbox."""
    if failure.stage == PROGRAM_STAGE and failure.errno == errno.ENOENT:
        return Problem(
            Code.NOT_FOUND, f"There is no program {program} in the sandbox; nothing was run.", program=program
        )
    if failure.stage == PROGRAM_STAGE and failure.errno in (errno.EACCES, errno.ENOEXEC):
        text = f"{program} cannot be executed ({errno.errorcode[failure.errno]}); nothing was run."
        return Problem(Code.IO_ERROR, text, errno=failure.errno)
    return failure
