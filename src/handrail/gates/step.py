"""One call on its way through the kernel, and the problems that its verdict makes. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from handrail.catalog import Tool
from handrail.errors import Code, Problem
from handrail.policy.skills import GOVERNED
from handrail.ports import BoundWorkspace
from handrail.ports.files import Former
from handrail.versions import adapt
from handrail.words import Call, Decision, Grant, Json, Outcome, Touch, TouchKind, Verdict

if TYPE_CHECKING:
    from handrail.gates.hosts import HostQuestions

PLAIN = frozenset({str, int, float, bool, type(None)})  # values that nobody can change
FILES = frozenset({TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_DELETE})


@dataclass(slots=True)
class Question:
    """A parsed call: the tool, its arguments, what it will touch."""

    tool: Tool
    args: dict[str, Any]
    args_json: bytes
    touches: tuple[Touch, ...]  # not yet resolved
    key: bytes  # the same for equal calls only
    warnings: tuple[str, ...] = ()
    given: Mapping[str, Json] = field(default_factory=dict)  # the arguments as given, in our names
    agent: str = ""  # who carries the call out itself once it is judged


_SAID = 80  # characters of a command that a refusal names


class Settled(Exception):
    """An equal call was made on this one's behalf: its outcome is this one's, too."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.call_id)
        self.outcome = outcome


class Step:
    """What is known of a call so far; each gate of the kernel fills in its part.

    What is not yet known stands in the class: an instance is made for every call, and has few of these for most.
    """

    def __init__(self, call: Call, id: str, began: float) -> None:  # noqa: A002
        self.call, self.id, self.began = call, id, began

    # what is asked
    question: Question | None = None
    tool: Tool | None = None
    args: dict[str, Any] | None = None
    args_json: bytes = b"{}"
    key: bytes = b""
    warnings: tuple[str, ...] = ()
    touches: tuple[Touch, ...] = ()
    outside: Problem | None = None  # why a path could not be resolved beneath a root
    # what was decided
    admitted: bool = False
    verdict: Verdict | None = None
    changing: bool = True
    scripts: Mapping[str, str] | None = None  # hashes of the scripts that a rule allowed by name, when it did
    # what a person said
    digest: str = ""
    exact: str = ""  # as `World.exact`
    commands: tuple[str, ...] = ()  # as `World.commands`
    ordinary: bool = True  # as `World.ordinary`
    grant: Grant | None = None
    effects: Grant | None = None  # the approval of effects that this call had before, which covers running it again
    reviews: str = ""  # digest of the call whose effects are asked for
    changes: bool = False  # its touches are changes that a program made
    diff: str | None = None  # what a person is shown of changes that were found by running
    hold: float | None = None  # seconds that a person has for the answer; none: as long as the approver waits
    hosts: HostQuestions | None = None  # that programs of the call reached for
    # Contents of the files that its commands run, when they were started: programs may change them before they connect.
    run_files: dict[str, str] | None = None
    ending: Mapping[str, Sequence[str]] | None = None  # how the program that made them ended, and its last words
    agent_asks: bool = False  # the agent that carries the call out puts the question to its own person
    claimed: tuple[str, ...] = ()  # the requests that this call was made for: others may wait for its outcome
    must_ask: bool = False  # a person is asked for exactly these effects, whatever rules and wider grants allow
    # how it goes
    waited: bool = False
    held: frozenset[str] = frozenset()
    started: bool = False
    files: BoundWorkspace | None = None
    formers: Sequence[Former] = ()  # what stands where an agent may change something
    task: asyncio.Task[Any] | None = None
    timer: asyncio.TimerHandle | None = None
    pauses: int = 0  # how many wait for a person on the call's behalf, meanwhile its deadline stands still
    left: float | None = None  # seconds of a deadline that stands still
    expired: bool = False

    @property
    def name(self) -> str:
        """The tool's name, or what the caller took for one."""
        return self.tool.name if self.tool is not None else str(self.call.tool)

    @property
    def agent(self) -> str:
        """The agent that carries the call out itself; empty where we do."""
        return "" if self.question is None else self.question.agent

    @property
    def given(self) -> dict[str, Json]:
        """The arguments as given, in our names."""
        return dict(self.question.given if self.question is not None else self.call.args)


class Rest:
    """What is left of a coroutine that has run up to its first wait."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], awaited: Any) -> None:
        self._work, self._awaited = work, awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        work, awaited = self._work, self._awaited
        while True:
            try:
                answer = yield awaited
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001  handed on to where it belongs
                step = partial(work.throw, error)
            else:
                step = partial(work.send, answer)
            try:
                awaited = step()
            except StopIteration as done:
                return done.value


async def entered(held: AbstractAsyncContextManager[None]) -> bool:
    """Enter a context; tells whether that had to wait."""
    entering: Any = held.__aenter__()
    try:
        awaited = entering.send(None)
    except StopIteration:
        return False
    await Rest(entering, awaited)
    return True


def above(active: Mapping[str, Step], step: Step) -> list[Step]:
    """The calls that this one is nested in."""
    found: list[Step] = []
    parent = step.call.parent
    while parent is not None and (caller := active.get(parent)) is not None:
        found.append(caller)
        parent = caller.call.parent
    return found


def arm(step: Step, seconds: float) -> None:
    """Start the call's deadline, or have it start once nobody is asked any more."""
    if step.pauses:
        step.left = seconds
    else:
        step.timer = asyncio.get_running_loop().call_later(seconds, _expire, step)


def disarm(step: Step) -> None:
    """End the call's deadline."""
    if step.timer is not None:
        step.timer.cancel()
    step.timer = step.left = None


def pause(step: Step) -> None:
    """Stop the call's deadline, also one that has not begun; as often as this is called, `resume` must be."""
    step.pauses += 1
    if step.timer is not None:
        step.timer.cancel()
        step.left = max(0.0, step.timer.when() - asyncio.get_running_loop().time())
        step.timer = None


def resume(step: Step) -> None:
    """Let the call's deadline go on with what was left, once nobody stops it any more."""
    step.pauses -= 1
    if not step.pauses and step.left is not None:
        left, step.left = step.left, None
        arm(step, left)


def _expire(step: Step) -> None:
    step.expired = True
    if step.task is not None:
        step.task.cancel()


def denial(step: Step) -> Problem:
    """The problem of a call that policy denies: the rule, where it stands, what would have to change."""
    verdict = step.verdict
    assert verdict is not None
    finding = verdict.deciding
    against = [item for item in verdict.findings if item.decision is Decision.DENY] or [finding]
    next_call, why = None, f"Denied{_which(step, finding.touch)}: {finding.why}."
    if finding.rule == "builtin.confirm":
        next_call = {"tool": step.name, "args": {**step.given, "confirm": True}}
    elif finding.rule == "confine.roots" and step.outside is not None:
        why = f"Denied: {step.outside.message}"
        next_call = _relative(step, finding.touch)
    return Problem(
        Code(finding.code),
        why,
        next_call=next_call,
        details={
            "rule": finding.rule,
            "where": finding.where,
            "findings": [
                {"rule": item.rule, "where": item.where, "why": item.why, "touch": step.touches[item.touch].shown}
                for item in against[:10]
            ],
        },
    )


def _which(step: Step, index: int) -> str:
    """Which of several commands was meant."""
    commands = {touch.target for touch in step.touches if touch.kind is TouchKind.PROC_EXEC}
    if len(commands) < 2 or step.touches[index].kind is not TouchKind.PROC_EXEC:
        return ""
    said = " ".join(step.touches[index].target.split())
    return f", because of `{said if len(said) <= _SAID else f'{said[:_SAID]}…'}`"


def refusal(verdict: Verdict, touch: Touch) -> Problem:
    """The problem of something met on the way that is not plainly allowed: nobody can be asked in the middle."""
    finding = verdict.deciding
    code = Code(finding.code) if finding.decision is Decision.DENY else Code.POLICY_DENIED
    named = "" if touch.shown in finding.why else f"{touch.shown}: "
    why = f"Denied on the way: {named}{finding.why}."
    return Problem(code, why, rule=finding.rule, where=finding.where)


def _relative(step: Step, touch: int) -> dict[str, Any] | None:
    """The same call with a path relative to the workspace, where that is all that is wrong."""
    assert step.outside is not None
    relative, target = step.outside.details.get("relative"), step.touches[touch].target
    if relative is None:
        return None
    args = {name: relative if value == target else value for name, value in step.given.items()}
    return {"tool": step.name, "args": args}


def called(step: Step) -> str:
    """The name of what was called: a tool of an agent's own has the one that its touch names."""
    return step.touches[0].target if step.name == GOVERNED and step.touches else step.name


def internal(step: Step, error: BaseException) -> Problem:
    """The problem of a bug: an id to look up; the trace is in the log, not here."""
    return Problem(
        Code.INTERNAL,
        f"{called(step)} failed in an unforeseen way ({type(error).__name__}). "
        f"The trace is in the log under call {step.id}.",
        log_id=step.id,
    )


def system_problem(error: OSError) -> Problem:
    """The problem of a failing disk or system."""
    name = error.filename if isinstance(error.filename, str) else None
    return Problem(Code.IO_ERROR, f"{error.strerror or error}.", errno=error.errno, path=name)


def effect_of(step: Step) -> str:
    """What a call that did not complete has done: none, done, or not known."""
    if not step.started or not step.changing or step.agent:
        return "none"
    if step.files is not None and step.files.changes:
        return "done"
    only_files = all(touch.kind.value.startswith("fs.") for touch in step.touches)
    return "none" if only_files else "unknown"


def adapted(tool: Tool, call: Call) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments of another version in the form of ours; UNSUPPORTED_VERSION where there is no way."""
    assert call.version is not None
    return adapt(tool.name, call.version, tool.version, tool.adapters, call.args)
