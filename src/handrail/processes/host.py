"""What all programs of a run share: the sandbox chosen once, settings, the watch on files, the jobs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from socket import socket
from typing import Any, Protocol

from handrail.errors import Code, Problem
from handrail.output.redact import Redactor
from handrail.ports import Clock, Limits, Program, Spill, Work
from handrail.processes.effects import Watch
from handrail.processes.sink import Written
from handrail.processes.surroundings import Surroundings
from handrail.processes.text import Room
from handrail.processes.watched import Watched
from handrail.sandbox.callers_path import CallersPath
from handrail.sandbox.launching import READY_SECONDS, Child, Prepare, Sandbox, SetupFailed
from handrail.sandbox.plan import MIB, SCRATCH, Bounds, LayerMaker, Plan, environment, plan_of
from handrail.words import Decision, Json, Root, Touch, TouchKind, Verdict, noun
from handrail.workspace.repositories import RepositoryFinder

PROGRAM_STAGE = "exec"
# Where programs that may reach hosts find the way there: a listener inside, served by the runtime's proxy.
_PROXY = "http://127.0.0.1:3128"
_PROXIED = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _PROXY),
    "NODE_USE_ENV_PROXY": "1",
}
_INSIDE = "localhost,127.0.0.1,::1"  # what a program reaches within its own sandbox
_INSIDE_BY_NAME = "localhost,::1"  # the same, where settings let programs reach services of this machine
Notify = Callable[[str, Sequence[str]], None]


class Served(Protocol):
    """The network of a program while it is served."""

    def describe_refusals(self) -> list[str]:
        """Say once for each host that connections to it were refused, and why."""

    def describe_unanswered(self) -> str:
        """Say which host a person did not allow, and what to do; empty where there was none."""

    def held_seconds(self) -> float:
        """Count the seconds in which connections waited for a person."""


Serve = Callable[[socket, Work], AbstractAsyncContextManager[Served]]

# Lets one program's changes of some roots be kept at a time, in all processes.
Keeping = Callable[[Sequence[Root]], AbstractAsyncContextManager[None]]

# Takes a call and a way to see how far its program is; may give what is to be called when that has ended.
Followed = Callable[[str, Callable[[], Written]], Callable[[], None] | None]


@noun
class Terms:
    """What settings say of programs."""

    bounds: Bounds
    hosts: tuple[str, ...] = ()
    asks_hosts: bool = False
    review: bool = False
    layer_bytes: int = 4096 * MIB  # of what one program changes, where that goes to a layer on disk
    timeout_seconds: float = 120.0
    pass_env: tuple[str, ...] = ()
    max_jobs: int = 16
    kill_output_bytes: int = 1 << 30
    limits: Limits = Limits()
    sockets: tuple[str, ...] = ()
    reaches_machine: bool = False  # 127.0.0.1 is this machine, not the program's own sandbox

    @property
    def proxy(self) -> dict[str, str]:
        """List the variables that lead programs to the proxy."""
        inside = _INSIDE_BY_NAME if self.reaches_machine else _INSIDE
        return {**_PROXIED, "NO_PROXY": inside, "no_proxy": inside}

    @property
    def room(self) -> Room:
        """What may be shown of a program's streams together, with room for what is said about them."""
        limits = self.limits
        lines = max(min(8, limits.max_output_lines), limits.max_output_lines - 20)
        size = max(min(2000, limits.max_output_bytes), limits.max_output_bytes - 3000)
        return Room(lines, size, limits.max_line_chars)


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
        own: tuple[str, ...] = (),
        repositories: RepositoryFinder | None = None,
        around: Surroundings | None = None,
        layers: LayerMaker | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self._choose, self._sandbox, self.roots = choose, None, roots
        self.terms, self.watch, self.redactor, self.spill, self.clock = terms, watch, redactor, spill, clock
        self.scratch, self.count, self.serve = scratch, count, serve
        self.aside = aside  # a folder for files without a name
        self.run_id, self.unfinished = run_id, unfinished  # a folder for notes of what is being kept
        self._given = os.environ if given is None else given
        self._own = own  # paths of the runtime, which no program may see
        self._layers = layers
        self._tidying: set[asyncio.Future[None]] = set()
        self.keeping = keeping
        self.sentries: set[Any] = set()  # of the programs that run
        self.watched = Watched(unfinished, run_id) if unfinished else None
        self.repositories = repositories or RepositoryFinder((), {}, lambda: None)
        self.around = around or Surroundings()
        self.callers_path = CallersPath()  # where beneath roots the person's shell looks for commands

    _sandbox: Sandbox | None
    notify: Notify | None = None  # tells the person what the program of a call left
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
        roots = (*self.roots, Root(SCRATCH, self.scratch, writable=True))
        plan = plan_of(
            verdict,
            roots,
            hosts=terms.hosts,
            asks_hosts=self._asks_hosts,
            review=terms.review and not verdict.direct,
            bounds=terms.bounds,
            sockets=terms.sockets,
            own=self._own,
            cache=self.around.cache,
            files=self.around.files,
            layers=self._layers,
        )
        if program is None or not program.reads:
            return plan
        more = tuple(place.absolute for place in program.reads)
        return replace(plan, read=(*plan.read, *more))

    def plan_for(self, work: Work) -> Plan:
        """The confinement of the programs of a call that was judged."""
        return self.plan(_verdict(work))

    def reviews(self, work: Work) -> bool:
        """Whether what the programs of a call change goes to a layer first."""
        return self.terms.review and not work.direct

    @property
    def _asks_hosts(self) -> bool:
        """Whether programs reach hosts that a person allows: only a network of their own can be held to that."""
        return self.terms.asks_hosts and self.serve is not None and self.sandbox.confined.tier == "A"

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

    def tidy_later(self, act: Callable[[], None]) -> None:
        """Do what nobody has to wait for in a thread; `tidied` waits for it."""
        task = asyncio.get_running_loop().run_in_executor(None, act)
        self._tidying.add(task)
        task.add_done_callback(self._tidying.discard)

    async def tidied(self) -> None:
        """Wait for what was left for later."""
        if self._tidying:
            await asyncio.wait([*self._tidying])

    def warn(self, work: Work, warnings: Sequence[str]) -> None:
        """Tell the person what the program of a call left."""
        if self.notify is not None and warnings:
            self.notify(work.call_id, warnings)

    def close(self) -> None:
        """Let the sandbox go, and with it every program that still runs."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()
        if self._layers is not None:
            self._layers.close()
        if self.watched is not None:
            self.watched.close()

    async def judged(self) -> None:
        """See that nothing stands ready which a running program may not make, before another one starts."""
        for sentry in [*self.sentries]:
            await sentry.now()

    async def spawn(self, work: Work, program: Program, fds: tuple[int, int, int]) -> Child:
        """Start a program; SANDBOX_UNAVAILABLE and NOT_FOUND mean that nothing was run."""
        self._need_server()
        ours = self.around.environment(project=not any(touch.skill for touch in work.touches))
        given = environment(self._given, program.env, self.terms.pass_env, ours=ours)
        cwd = program.cwd.absolute if program.cwd is not None else self.scratch
        sandbox, plan = self.sandbox, self.plan(_verdict(work), program)
        env = given | (self.terms.proxy if plan.listens else {})
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
    return Verdict(Decision.ALLOW, (), tuple(work.excluded), tuple(work.locked), direct=work.direct)


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
