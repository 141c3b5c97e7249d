"""Past sessions of agents as runs: each call as it was made, and as policy judges it now. Nothing is run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from handrail.approvals.account import account
from handrail.errors import Fault, Misuse, Problem
from handrail.gates import record
from handrail.gates.observing import Observation, Observer
from handrail.gates.step import Step
from handrail.gates.writing import Writer
from handrail.hooks.registry import run_name
from handrail.hooks.sessions import FIXED
from handrail.hooks.transcripts import PastCall, PastSession
from handrail.kernel import Parts
from handrail.policy import decide
from handrail.runtime import Runtime
from handrail.settings import paths
from handrail.store.folders import RunFolder, create, moment
from handrail.store.journal import FileJournal
from handrail.words import Call
from handrail.worlds import Options

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
FOLDER_GONE = "the folder that the session worked in is gone, so the call could not be judged"


class PastClock:
    """The time at which something happened, as the transcript has it."""

    def __init__(self, at: float) -> None:
        self.at = at

    def now(self) -> float:
        """Give the moment that is being written down."""
        return self.at

    def monotonic(self) -> float:
        """Give the same."""
        return self.at


@dataclass(slots=True)
class Imported:
    """What came of one transcript."""

    run: str
    calls: int = 0  # that are new in the run
    known: int = 0  # that it had already
    broken: list[tuple[str, int, str]] = field(default_factory=list)
    problem: str = ""


@asynccontextmanager
async def judging(agent: str, workspace: str) -> AsyncIterator[Runtime]:
    """Open a runtime that only judges, in the folder that a session worked in; an empty one where that is gone."""
    with TemporaryDirectory(prefix="handrail-") as aside:
        place = Path(workspace) if _is_there(workspace) else Path(aside, "gone")
        place.mkdir(exist_ok=True)
        options = Options(place, run_id="import", caller=agent, fixed=FIXED, mode="headless", aside=Path(aside))
        async with Runtime(options, agent) as runtime:
            yield runtime


def _is_there(workspace: str) -> bool:
    return workspace.startswith("/") and os.path.isdir(workspace)


async def import_session(session: PastSession) -> Imported:
    """Write a past session down as a run, or add to that run what it does not have yet."""
    run = f"{run_name(session.agent, session.id)}-imported"
    found = Imported(run, broken=session.broken)
    if not session.calls:
        found.problem = "it has no call of a tool"
        return found
    calls = sorted(session.calls.values(), key=lambda call: call.at)
    clock = PastClock(calls[0].at)
    async with judging(session.agent, session.cwd) as runtime:
        folder = create(paths.runs_dir(), run)
        journal = FileJournal.open(folder.path, run, clock)
        try:
            _begin(folder, journal, session, clock)
            known = _calls_in(folder)
            for call in calls:
                if _id(call) in known:
                    found.known += 1
                    continue
                await _write(session, call, journal, clock, runtime)
                found.calls += 1
            clock.at = max(clock.at, *(call.ended or call.at for call in calls))
            journal.append("run.finished", None, {"trace_id": run, "usage": {"calls": len(calls)}})
        finally:
            await journal.close()
    from handrail.store.projections import project

    project(folder.path)
    return found


def _begin(folder: RunFolder, journal: FileJournal, session: PastSession, clock: PastClock) -> None:
    about: dict[str, Any] = {
        "workspace": session.cwd,
        "caller": session.agent,
        "user": account(),
        "imported": {"from": str(session.path), "lines": session.lines, "broken": len(session.broken)},
    }
    fresh = journal.seq == 0
    journal.append("run.started", None, {"trace_id": journal.run_id, **about, "reopened": not fresh})
    if fresh:
        folder.describe({"run_id": journal.run_id, "started": moment(clock.now()), **about, "project": session.cwd})


async def _write(
    session: PastSession, call: PastCall, journal: FileJournal, clock: PastClock, runtime: Runtime
) -> None:
    clock.at = call.at
    parts = _parts(runtime, journal)
    step = Step(_asked(session, call, runtime), _id(call), 0.0)
    step.started = True
    try:
        if not _is_there(session.cwd):
            raise Misuse(FOLDER_GONE)
        runtime.kernel.prepare(step)
        step.verdict = decide(step.touches, runtime.kernel.world(step))
        Writer(parts, runtime.kernel.confinement).start(step)
    except (Problem, Fault) as problem:
        journal.append("tool.started", step.id, _unjudged(session, call, parts, str(problem)))
    if call.ended is not None:
        clock.at = call.ended
        tool = step.tool.name if step.tool is not None else call.tool
        await Observer(parts).observe(_observation(session, call, tool))


def _asked(session: PastSession, call: PastCall, runtime: Runtime) -> Call:
    return Call(
        call.tool,
        {**call.args, "@cwd": _cwd(call, runtime)},
        caller=session.agent,
        parent=_parent(call) or None,
        dialect=session.agent,
        agent_call=call.id,
    )


def _unjudged(session: PastSession, call: PastCall, parts: Parts, why: str) -> dict[str, Any]:
    """What is said of a call that could not be judged; secrets are hidden all the same."""
    args = parts.finisher.args(record.jsonable(call.args))
    fields: dict[str, Any] = {
        "trace_id": parts.trace_id,
        "tool": call.tool,
        "version": None,
        "risk": None,
        "args": args,
        "caller": session.agent,
        "dialect": session.agent,
        "asked": {"tool": call.tool, "args": args},
        "handed_over": {"to": session.agent, "id": call.id, "digest": record.input_digest(call.args), "asks": False},
        "message": parts.finisher.hidden({"why": why})["why"],
    }
    return fields | ({"parent": _parent(call)} if call.parent else {})


def _observation(session: PastSession, call: PastCall, tool: str) -> Observation:
    text = call.output if isinstance(call.output, str) else orjson.dumps(record.jsonable(call.output)).decode()
    lasted = max(0.0, (call.ended or call.at) - call.at) * 1000
    status = "ok" if call.ok else "denied" if call.denied else "failed"
    message = "" if call.ok else text[: record.MAX_TEXT]
    return Observation(
        _id(call),
        tool,
        session.agent,
        ok=call.ok,
        args=call.args,
        response=text,
        message=message,
        duration_ms=round(lasted, 3),
        status=status,
    )


def _parts(runtime: Runtime, journal: FileJournal) -> Parts:
    """What judges in the session's folder, and writes to the imported run."""
    return replace(runtime.kernel.parts, journal=journal, trace_id=journal.run_id, order=None)


def _cwd(call: PastCall, runtime: Runtime) -> str:
    if not call.cwd or os.path.realpath(call.cwd) == runtime.kernel.parts.workspace:
        return "."
    return call.cwd


def _id(call: PastCall) -> str:
    """Name a call in the journal: by the agent's own id where that is safe."""
    return _safe(call.id)


def _parent(call: PastCall) -> str:
    return _safe(call.parent) if call.parent else ""


def _safe(name: str) -> str:
    return name if _ID.fullmatch(name) else hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _calls_in(folder: RunFolder) -> set[str]:
    from handrail.store.reader import events

    with contextlib.suppress(Fault):
        return {str(event.get("call_id")) for event in events(folder.path) if event.get("kind") == "tool.started"}
    return set()
