"""Sessions of agents: a run for each, in which calls are judged, handed over and observed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Fault, Misuse, Problem, RunFault, SettingsFault
from handrail.gates.observing import Observation, Observer
from handrail.gates.record import input_digest
from handrail.hooks.approver import HookApprover, until
from handrail.hooks.handed import Handed, Looks, handed_calls
from handrail.hooks.notify import Notifier
from handrail.hooks.payloads import SILENT, Agent, Decided, HookAnswer, Payload, Stage
from handrail.hooks.registry import SessionRecord, SessionRegistry
from handrail.ports import Request
from handrail.runtime import Runtime
from handrail.settings import Loaded, paths
from handrail.settings.stamps import Stamp, stamp
from handrail.words import Call, Decision, Mode, Outcome, Status
from handrail.worlds import Options

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

log = logging.getLogger("handrail.hooks")

BUSY_SECONDS = 2.0  # that a hook waits for the run's lock
# What an agent brings along is its own to offer; `tools.disable` still takes it away.
OFFERED = ("fs", "exec", "http", "search", "agent")
# An agent carries its calls out itself: nobody else makes one of them.
FIXED: Mapping[str, Any] = {"tools.enable": OFFERED, "workspace.allow_absolute": True, "approvals.park": False}
PROBE = "handrail-probe"  # how the session of a try of the hook begins
RESET = "The settings of Handrail have changed while this call waited. Repeat it."


class Session:
    """One session of an agent, and its run while it is open."""

    def __init__(self, agent: Agent, record: SessionRecord, *, aside: bool = False) -> None:
        self.agent, self.record = agent, record
        self._aside = _temporary_folder() if aside else None  # of a run that only tries a hook
        self.used = time.monotonic()
        self._runtime: Runtime | None = None
        self._stamp: Stamp = ()
        self._opening = asyncio.Lock()
        self._working: set[asyncio.Task[Any]] = set()
        self._reset = False
        self.handed: dict[str, Handed] = {}
        self._looks = Looks()

    # ── the run ──────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[Runtime]:
        """Give the open run, under the settings as they are now; RunFault and SettingsFault where there is none."""
        async with self._opening:
            runtime = await self._current()
        task = asyncio.current_task()
        assert task is not None
        self._working.add(task)
        self.used = time.monotonic()
        try:
            yield runtime
        finally:
            self._working.discard(task)
            self.used = time.monotonic()

    async def _current(self) -> Runtime:
        runtime = self._runtime
        if runtime is not None and stamp(runtime.parts.loaded) == self._stamp:
            return runtime
        former = None if runtime is None else runtime.parts.loaded
        if runtime is not None:
            await self._close()
        approver = HookApprover()
        opened = await _entered(Runtime(self._options(former, approver), self.agent.name))
        settings = opened.parts.loaded.settings
        approver.asks = settings.mode is not Mode.HEADLESS
        approver.wait_seconds = settings.approvals.wait_seconds if approver.asks else 0.0
        approver.tell = partial(self._tell_of_request, opened)
        self._runtime = opened
        self._stamp = stamp(opened.parts.loaded)
        self.handed = handed_calls(opened.parts.journal.state.open_calls)
        return opened

    def _options(self, former: Loaded | None, approver: HookApprover) -> Options:
        return Options(
            Path(self.record.workspace),
            run_id=self.record.run,
            approver=approver,
            caller=self.agent.name,
            fixed=FIXED,
            former=former,
            aside=None if self._aside is None else Path(self._aside.name),
        )

    async def _close(self) -> None:
        runtime, self._runtime = self._runtime, None
        self._reset = True
        try:
            for task in tuple(self._working):
                task.cancel()
            if self._working:
                await asyncio.wait(tuple(self._working), timeout=BUSY_SECONDS)
        finally:
            self._reset = False
        self._looks.forget()
        if runtime is not None:
            await runtime.__aexit__(None, None, None)
        if self._aside is not None:
            self._aside.cleanup()

    async def close(self) -> None:
        """Close the run; what is asked for ends unanswered."""
        async with self._opening:
            await self._close()

    @property
    def is_idle(self) -> bool:
        """Say whether nobody works in it."""
        return not self._working

    # ── what hooks ask ───────────────────────────────────────────────────────────────────────

    async def answer(self, payload: Payload, seconds: float) -> HookAnswer:
        """Answer one payload of this session; faults are for the caller to turn into a deny."""
        try:
            async with self.run() as runtime:
                if payload.stage is Stage.BEFORE:
                    return await self._judge(runtime, payload, seconds)
                if payload.stage is Stage.DIALOG:
                    return self._answer_dialog(runtime, payload)
                if payload.stage in (Stage.AFTER, Stage.FAILED):
                    await self._observe(runtime, payload)
                else:
                    self._note(runtime, payload)
                return SILENT
        except asyncio.CancelledError:
            if self._reset:
                return HookAnswer(Decided.DENY, RESET)
            raise

    async def _judge(self, runtime: Runtime, payload: Payload, seconds: float) -> HookAnswer:
        settings = runtime.parts.loaded.settings.hooks
        native = settings.ask == "native" and self.agent.is_asked(payload)
        call = Call(
            payload.tool,
            self._arguments(runtime, payload),
            caller=self.agent.name,
            dialect=self.agent.name,
            agent_call=payload.call,
            agent_asks=native,
        )
        token = until.set(time.time() + seconds)
        try:
            outcome = await runtime.kernel.call(call)
        finally:
            until.reset(token)
        if outcome.error is not None:
            return HookAnswer(Decided.DENY, _why(outcome))
        await self._hand_over(runtime, payload, outcome)
        if outcome.status is Status.PENDING:
            return HookAnswer(Decided.ASK, f"Handrail asks about {payload.tool}: {outcome.content}")
        return HookAnswer(Decided.ALLOW, "allowed by Handrail") if settings.allow else SILENT

    def _arguments(self, runtime: Runtime, payload: Payload) -> dict[str, Any]:
        """Give the arguments of a call with the folder it is made in, and whether the file it writes is missing."""
        root = runtime.kernel.parts.workspace
        cwd = "." if os.path.realpath(payload.cwd) == root else payload.cwd
        file = next((payload.args[name] for name in ("file_path", "absolute_path") if payload.args.get(name)), None)
        there = isinstance(file, str) and os.path.lexists(os.path.join(payload.cwd, file.replace("\0", "")))
        return {**payload.args, "@cwd": cwd, "@missing": not there}

    async def _hand_over(self, runtime: Runtime, payload: Payload, outcome: Outcome) -> None:
        """Remember a call that the agent carries out now; of commands that change things also how files stand."""
        handed = Handed(
            id=outcome.call_id,
            tool=outcome.tool,
            call=payload.call,
            digest=input_digest(payload.args),
            asked=outcome.status is Status.PENDING,
            before=outcome.data["before"],
        )
        self.handed[outcome.call_id] = handed
        if outcome.tool == "run_command" and "defaults.harmless-command" not in outcome.rules:
            await self._looks.look(runtime, outcome.call_id)

    def _answer_dialog(self, runtime: Runtime, payload: Payload) -> HookAnswer:
        """Answer a dialog that the agent would show: deny what policy denies, and else leave it to the person."""
        args = self._arguments(runtime, payload)
        try:
            verdict = runtime.explain(payload.tool, args, dialect=self.agent.name, caller=self.agent.name)
        except Problem as problem:
            return HookAnswer(Decided.DENY, problem.message)
        if verdict.decision is Decision.DENY:
            return HookAnswer(Decided.DENY, f"Denied by Handrail: {verdict.deciding.why}.")
        allowed = verdict.decision is Decision.ALLOW and runtime.parts.loaded.settings.hooks.allow
        return HookAnswer(Decided.ALLOW) if allowed else SILENT

    async def _observe(self, runtime: Runtime, payload: Payload) -> None:
        digest = input_digest(payload.args)
        handed = self._find(payload, digest)
        if handed is None:
            self._note(runtime, payload, f"{payload.tool} ended, and was not asked for before")
            return
        changes, warnings = await self._looks.changes(runtime, handed.id)
        parts = runtime.kernel.parts
        seen = Observation(
            handed.id,
            handed.tool,
            self.agent.name,
            ok=payload.stage is Stage.AFTER and not payload.error,
            args=payload.args,
            response=payload.response,
            message=payload.error,
            duration_ms=payload.duration_ms,
            formers=handed.before,
            changed_input=digest != handed.digest,
            approved=self.agent.name if handed.asked else "",
            reads=_read_whole(handed, payload, runtime),
            wrote_whole=handed.tool == "write_file",
            changes=changes,
            warnings=warnings,
        )
        await Observer(parts).observe(seen)
        self.handed.pop(handed.id, None)

    def _find(self, payload: Payload, digest: str) -> Handed | None:
        """Find the call that a later hook is about: by the agent's id, or by what the tool was given."""
        for handed in self.handed.values():
            if payload.call and handed.call == payload.call:
                return handed
        if payload.call:
            return None
        return next((handed for handed in self.handed.values() if handed.digest == digest), None)

    def _note(self, runtime: Runtime, payload: Payload, message: str = "") -> None:
        parts = runtime.kernel.parts
        said = message or payload.message or payload.source
        told = {"agent": self.agent.name, "event": payload.event, "message": said[:2000]}
        hidden = parts.finisher.hidden(told)
        parts.journal.append("agent.noted", None, hidden)
        parts.journal.flush()
        if payload.stage is Stage.NOTE:
            self._tell(runtime, hidden)

    def _tell_of_request(self, runtime: Runtime, request: Request) -> None:
        """Tell people that a request waits for them."""
        self._tell(runtime, {"agent": self.agent.name, "event": "approval.required", "message": request.reason})

    def _tell(self, runtime: Runtime, news: Mapping[str, Any]) -> None:
        writable = [root.path for root in runtime.parts.files.roots if root.writable]
        about = {"workspace": runtime.kernel.parts.workspace, "run": runtime.run_id}
        Notifier(runtime.parts.loaded, writable).tell({**news, **about})


def _temporary_folder() -> TemporaryDirectory[str]:
    from tempfile import TemporaryDirectory

    return TemporaryDirectory(prefix="handrail-")


def _read_whole(handed: Handed, payload: Payload, runtime: Runtime) -> str:
    """Name the file that a call read whole; a long one is cut by most agents."""
    if handed.tool != "read_file" or set(payload.args) & {"offset", "limit", "pages", "start_line", "end_line"}:
        return ""
    file = payload.args.get("file_path") or payload.args.get("absolute_path")
    with contextlib.suppress(Problem):
        place = runtime.parts.files.resolve(os.path.join(payload.cwd, str(file)))
        if place.size <= 64 * 1024:
            return place.shown
    return ""


async def _entered(runtime: Runtime) -> Runtime:
    """Open a run; one that another process holds is waited for a moment."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return await runtime.__aenter__()
        except RunFault as fault:
            if fault.code is not Code.RUN_BUSY or time.monotonic() > end:
                raise
        await asyncio.sleep(0.05)


def _why(outcome: Outcome) -> str:
    """Say why a call is denied, to the model: never how it could be approved from there."""
    error = outcome.error
    assert error is not None
    if error.code != Code.APPROVAL_REQUIRED:
        return f"Denied by Handrail ({error.code}): {error.message}"
    reason = (error.details.get("approval") or {}).get("reason", "")
    return f"A person must approve this first: {reason}. Nobody has answered yet; repeat the same call when they have."


class Sessions:
    """All sessions of all agents of an account."""

    def __init__(self) -> None:
        self._registry = SessionRegistry(paths.state_dir() / "hooks" / "sessions")
        self._open: dict[str, Session] = {}

    async def answer(self, agent: Agent, payload: Payload, seconds: float) -> HookAnswer:
        """Answer one payload: whatever goes wrong is a deny that says so."""
        try:
            session = self._session(agent, payload)
            try:
                return await session.answer(payload, seconds)
            finally:
                if session.record.run not in self._open:  # a try of the hook, which leaves nothing
                    await session.close()
        except (Fault, Problem, OSError) as error:
            log.warning("%s %s: %s", agent.name, payload.event, error)
            return HookAnswer(Decided.DENY, f"Handrail cannot decide, so nothing is allowed: {_told(error)}")
        except Exception:
            log.exception("%s %s failed", agent.name, payload.event)
            reason = "Handrail failed in an unforeseen way, so nothing is allowed. The trace is in hooks/daemon.log."
            return HookAnswer(Decided.DENY, reason)

    def _session(self, agent: Agent, payload: Payload) -> Session:
        if not os.path.isdir(payload.cwd):
            raise Misuse(f"the working folder {payload.cwd} of the agent does not exist")
        if payload.session.startswith(PROBE):
            return Session(agent, SessionRecord(f"{agent.name}-probe", os.path.realpath(payload.cwd)), aside=True)
        starts = payload.stage is Stage.START and payload.source in ("startup", "resume")
        record = self._registry.record(agent.name, payload.session, payload.cwd, starts=starts)
        found = self._open.get(record.run)
        if found is None:
            found = self._open[record.run] = Session(agent, record)
        return found

    async def end(self, agent: Agent, payload: Payload) -> None:
        """Close a session that has ended."""
        with contextlib.suppress(Fault, OSError):
            session = self._session(agent, payload)
            self._open.pop(session.record.run, None)
            await session.close()

    async def close_idle(self, seconds: float) -> None:
        """Close the runs of sessions that nobody used for a while; the next hook opens them again."""
        now = time.monotonic()
        for run, session in list(self._open.items()):
            if session.is_idle and now - session.used > seconds:
                del self._open[run]
                await _quietly(session)

    async def close(self) -> None:
        """Close all runs."""
        while self._open:
            await _quietly(self._open.popitem()[1])

    def __len__(self) -> int:
        return len(self._open)


async def _quietly(session: Session) -> None:
    try:
        await session.close()
    except (Fault, Problem, OSError) as error:
        log.warning("closing run %s: %s", session.record.run, error)


def _told(error: Exception) -> str:
    if isinstance(error, Problem):
        return error.message
    if isinstance(error, SettingsFault):
        return f"its settings cannot be taken: {error}"
    return str(error)
