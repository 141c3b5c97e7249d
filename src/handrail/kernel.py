"""One call, start to finish: the only way in.

`Kernel.call` is read from top to bottom; each gate either goes on or raises a Problem, which becomes the one failed
outcome of the call. What is decided here is decided by pure functions (policy, limits, asking, record).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from traceback import format_exc
from typing import Any

import orjson
from uuid_utils import uuid7

from handrail.arguments import short
from handrail.catalog import Catalog, Tool
from handrail.errors import Code, Misuse, Problem
from handrail.gates import asking, scripts
from handrail.gates.approving import Approving
from handrail.gates.desks import Desks
from handrail.gates.finish import Finisher
from handrail.gates.hosts import HostQuestions
from handrail.gates.reading import Reader
from handrail.gates.step import (
    FILES,
    Rest,
    Settled,
    Step,
    above,
    arm,
    called,
    denial,
    disarm,
    effect_of,
    entered,
    internal,
    refusal,
    system_problem,
)
from handrail.gates.writing import Writer
from handrail.limits import Limits
from handrail.policy import World, decide
from handrail.policy.rules import names_script
from handrail.ports import (
    ActiveSkill,
    Approver,
    Clock,
    Files,
    Journal,
    Keys,
    Ledger,
    NoSkills,
    Parking,
    Request,
    SkillsInForce,
    Work,
)
from handrail.words import (
    Call,
    Decision,
    Finding,
    Grant,
    How,
    Json,
    Outcome,
    PlaceKind,
    Touch,
    TouchKind,
    Verdict,
    changes_world,
    noun,
)

log = logging.getLogger("handrail")


@noun
class Parts:
    """What the kernel works with; the runtime puts it together."""

    catalog: Catalog
    files: Files
    journal: Journal
    ledger: Ledger
    approver: Approver
    finisher: Finisher
    limits: Limits
    keys: Keys
    clock: Clock
    world: Callable[[Tool], World]  # the world of a tool, without what belongs to one call
    shared: Mapping[str, Any]  # by the name of a port: what a tool's parameters are given, for every call the same
    ports: Mapping[str, Callable[[Work], Any]]  # and what is made for each call
    policy_digest: str
    workspace: str
    folder: str  # which folder that is, whatever its path
    trace_id: str
    caller: str
    timeout_seconds: float = 30.0
    repair: bool = True
    expiry_seconds: float = 86400.0  # 0: never
    asks_hosts: bool = False  # of programs, as in the world of their tools
    hold_seconds: float = 300.0  # that a program's connection waits for a person
    concurrency: Mapping[str, int] | None = None
    skills: SkillsInForce = NoSkills()
    confinement: Callable[[Verdict], Mapping[str, Json]] | None = None  # how programs of a call would be confined
    ready: Callable[[], Awaitable[None] | None] | None = None  # what to wait for before a changing call is judged
    order: Callable[[], int] | None = None  # takes the next number of the order of changes, in all runs
    notify: Callable[[Request], None] | None = None  # tells a person that a new request waits
    parking: Parking | None = None  # None: a call that nobody waits for is made by nobody else
    asked_by: str = ""  # the identity that makes the calls, where the front end knows one


class Kernel:
    """The gate: every call of every front end comes through `call`."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._journal, self._files, self._clock = parts.journal, parts.files, parts.clock
        self._limits, self._finisher, self._resolve = parts.limits, parts.finisher, parts.files.resolve
        self._skills, self._caller, self._monotonic = parts.skills, parts.caller, parts.clock.monotonic
        self._active: dict[str, Step] = {}
        self._reader = Reader(parts.catalog, repair=parts.repair)
        self._desks = Desks(parts, self.judge, self.review, self.reach, self.sort)
        self._writer = Writer(parts, self.confinement)
        self._slots = {name: asyncio.Semaphore(bound) for name, bound in (parts.concurrency or {}).items() if bound > 0}
        self._approving = Approving(parts, self.digest, self._desks.inputs, self.world, self._active)

    async def call(self, call: Call) -> Outcome:
        """Carry one call through every gate; raises only Misuse and CancelledError."""
        step = Step(call, call.id or str(uuid7()), self._monotonic())
        if call.id and (problem := self._claim(step)) is not None:
            return self._refuse_id(call, problem)
        self._active[step.id] = step
        try:
            tool = self.prepare(step)
            if tool.changing and self.parts.ready is not None and (waiting := self.parts.ready()) is not None:
                await waiting
                step.waited = True
            if call.idempotency_key is not None and (stored := await self._stored(step)) is not None:
                return stored
            self._limits.admit(tool.name, step.key, step.began)
            step.admitted = True
            if self._judge(step) is not Decision.ALLOW:
                await self._approving.ask(step)
            elif step.changing and any(names_script(touch) for touch in step.touches):
                step.waited = True
                step.scripts = await self._run_files(step)
            if step.changing or self._slots:
                return await self._queue(step, tool)
            return await self._act(step, tool)
        except Settled as settled:
            return self._writer.settle(step, settled)
        except Problem as problem:
            return self._fail(step, problem)
        except asyncio.CancelledError:
            self._fail(step, Problem(Code.CANCELLED, "The caller gave up."))
            raise
        except Misuse as misuse:
            if step.started:
                self._fail(step, internal(step, misuse))
            raise
        except OSError as error:
            return self._fail(step, system_problem(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001  a tool's own bug must not end the run
            log.error("call %s of %s failed\n%s", step.id, called(step), self._finisher.hidden(format_exc()))
            return self._fail(step, internal(step, error))
        finally:
            del self._active[step.id]
            if call.idempotency_key is not None:
                self.parts.keys.release(call.idempotency_key, step.id)

    # ── before anything is done ──────────────────────────────────────────────────────────────

    def prepare(self, step: Step) -> Tool:
        """Find the tool, check the arguments, state and resolve the touches."""
        question = step.question = self._reader.read(step.call)
        step.tool, step.args, step.args_json = question.tool, question.args, question.args_json
        step.key, step.warnings = question.key, question.warnings
        step.touches = self._resolved(step, question.touches)
        return question.tool

    def world(self, step: Step, grants: tuple[Grant, ...] = ()) -> World:
        """All that a decision on this call depends on."""
        assert step.tool is not None
        call, world = step.call, self.parts.world(step.tool)
        active = self._skill(call)
        if step.changes:
            world = replace(world, changes=True)
        if active is None and call.permissions is None and not grants and call.caller == world.caller:
            return world
        return replace(
            world,
            skill_name=None if active is None else active.id,
            skill_tools=None if active is None else active.tools,
            permissions=call.permissions,
            caller=call.caller,
            grants=grants,
            digest=step.digest,
            exact=step.exact,
            commands=step.commands,
            ordinary=step.ordinary,
            now=self._clock.now(),
            run_id=self._journal.run_id,
        )

    def _skill(self, call: Call) -> ActiveSkill | None:
        """The skill that narrows a call; one that the call names never takes off what the run's own leaves out."""
        active = self._skills.active
        if call.skill is None:
            return active
        named = self._skills.named(call.skill)
        if active is None or active.tools is None:
            return named
        return ActiveSkill(named.id, active.tools if named.tools is None else named.tools & active.tools)

    def judge(self, step: Step, touch: Touch) -> None:
        """Judge what a running call finds on its way, such as where a redirect leads; only what is allowed goes on."""
        verdict = decide((touch,), self.world(step))
        if verdict.decision is not Decision.ALLOW:
            raise refusal(verdict, touch)

    async def review(
        self, step: Step, touches: Sequence[Touch], diff: str, bound_to: Any, ending: Mapping[str, Sequence[str]]
    ) -> Sequence[Touch]:
        """Judge what a call's programs changed, once that is known; a person is shown the diff and how they ended."""
        return await self._approving.review(step, touches, diff, bound_to, ending)

    def sort(self, step: Step, touches: Sequence[Touch]) -> tuple[Sequence[Touch], Sequence[Finding]]:
        """Judge each change that a call's programs made by itself."""
        return self._approving.sort(step, touches)

    async def reach(self, step: Step, touch: Touch) -> bool:
        """Judge a host that a program of a call reaches for; ask a person where policy asks, and tell whether."""
        verdict = decide((touch,), self.world(step))
        if verdict.decision is Decision.ALLOW:
            return False
        if verdict.decision is Decision.DENY or not self.world(step).asks_hosts:
            raise refusal(verdict, touch)
        step.hosts = step.hosts or HostQuestions(partial(self._ask_host, step), self.parts.hold_seconds)
        await step.hosts.settle(touch)
        return True

    async def _ask_host(self, step: Step, touch: Touch, seconds: float) -> None:
        bound_to = [touch.target, touch.unsafe, step.run_files, self.confinement(step)]
        await self._approving.reach(step, touch, bound_to, seconds)

    async def preview(self, step: Step) -> str:
        """What a person would be shown of the changes; raises what would fail the call before anyone is asked."""
        return await self._approving.preview(step)

    async def digest(self, step: Step) -> str:
        """Bind an approval to exactly this call and to the files it would replace or run."""
        assert step.tool is not None
        run_files = await self._run_files(step)
        prints = {
            touch.place.absolute: await self._files.fingerprint(touch.place)
            for touch in step.touches
            if touch.kind in FILES and touch.kind is not TouchKind.FS_READ and touch.place is not None
        } | run_files
        args = orjson.loads(step.args_json)
        tool, parts = step.tool, self.parts
        if any(touch.kind is TouchKind.PROC_EXEC for touch in step.touches):
            call = (tool.name, tool.version, args)
            step.exact = asking.exact_digest(call, step.touches, run_files, parts.workspace)
            step.ordinary = asking.is_ordinary(args, tool.shape.defaults)
        return asking.call_digest(
            (tool.name, tool.version, args), step.touches, prints, parts.policy_digest, parts.workspace,
            self.confinement(step),
        )  # fmt: skip

    async def _run_files(self, step: Step) -> dict[str, str]:
        """What stands in the files that the call's commands would run."""
        prints: dict[str, str] = {}
        for path in scripts.run_by(step.touches):
            try:
                place = self._files.resolve(path)
            except Problem:
                continue  # no path beneath a root: nothing that a tool could have changed since
            if place.kind is PlaceKind.FILE:
                large = place.size > scripts.MOST_BYTES or len(prints) >= scripts.MOST_FILES
                prints[place.absolute] = scripts.mark(place) if large else await self._files.fingerprint(place)
        return prints

    def confinement(self, step: Step) -> Mapping[str, Json] | None:
        """How the programs of a call would be confined; None when it starts none. SANDBOX_UNAVAILABLE raises."""
        tell, verdict = self.parts.confinement, step.verdict
        if (
            tell is None
            or verdict is None
            or step.agent
            or not any(touch.kind is TouchKind.PROC_EXEC for touch in step.touches)
        ):
            return None
        return tell(verdict)

    def _claim(self, step: Step) -> str | None:
        """Take the id that a call brings; say what is wrong with one that cannot be taken."""
        if step.id in self._active or not self.parts.keys.claim_id(step.id):
            return f"call id {short(step.id)} was used already or is not safe as a name; ids are unique within a run"
        return None

    def _refuse_id(self, call: Call, text: str) -> Outcome:
        """Refuse a call by its id: a program's mistake, or, in another system's words, a result like any other."""
        if call.dialect == "native":
            raise Misuse(text)
        step = Step(replace(call, id=""), str(uuid7()), self._monotonic())
        problem = Problem(Code.INVALID_ARGS, f"The {text}.", field="call_id", recorded_as=step.id)
        return replace(self._fail(step, problem), call_id=call.id)

    def _resolved(self, step: Step, touches: Sequence[Touch]) -> tuple[Touch, ...]:
        """The touches with their canonical places."""
        if len(touches) == 1:
            touch = touches[0]
            if touch.skill is not None:
                return self._skills.resolve(touch)
            return (self._placed(step, touch) if touch.kind in FILES else touch,)
        seen = [touch for touch in touches if not touch.private or self._files.covers(touch.target)]
        return tuple([self._placed(step, touch) if touch.kind in FILES else touch for touch in seen])

    def _placed(self, step: Step, touch: Touch) -> Touch:
        """Fill in the canonical place; what lies outside stays without one, and policy denies it."""
        try:
            place = self._resolve(touch.target, follow=touch.follow)
        except Problem as problem:
            if problem.code is not Code.PATH_OUTSIDE_ROOTS:
                raise
            step.outside = problem
            return touch
        deep, below = touch.deep and place.kind is PlaceKind.DIRECTORY, None
        if deep and touch.kind is not TouchKind.FS_READ:
            below = self._files.below(place)
        how = (touch.how, touch.follow, touch.confirmed)
        known = touch.how is How.REPLACE and place.kind is PlaceKind.FILE and self._files.is_known(place)
        return Touch(touch.kind, touch.target, deep, *how, place, below, unsafe=touch.unsafe, known=known)

    def _judge(self, step: Step) -> Decision:
        """Decide on the call as its touches are now."""
        assert step.tool is not None
        step.changing = step.tool.changing and _changes(step.tool, step.touches)
        step.verdict = decide(step.touches, self.world(step))
        return step.verdict.decision

    async def _stored(self, step: Step) -> Outcome | None:
        """The outcome of the first call with this key, if it started; a running one is waited for."""
        key = step.call.idempotency_key
        assert key is not None
        step.waited = True  # perhaps for the first call with this key
        stored = await self.parts.keys.join(key, step.id, asking.digest_of(step.name, orjson.loads(step.args_json)))
        if stored is not None and self._judge(step) is Decision.DENY:
            raise denial(step)
        return stored

    # ── doing it ─────────────────────────────────────────────────────────────────────────────

    async def _queue(self, step: Step, tool: Tool) -> Outcome:
        """Wait for a slot and for other calls on the same files, then act; nested calls pass their parent's."""
        touches: Sequence[Touch] = step.touches
        callers = above(self._active, step)  # none where its parent is no call, but a turn of an agent
        if callers:
            held = frozenset().union(*(caller.held for caller in callers))
            touches = [touch for touch in touches if touch.place is not None and touch.place.absolute not in held]
        slot = None if callers else self._slots.get(tool.name)
        if slot is not None:
            step.waited = step.waited or slot.locked()
            await slot.acquire()
        try:
            hold = self._files.hold(touches)
            step.waited = await entered(hold) or step.waited
            try:
                step.held = frozenset(touch.place.absolute for touch in touches if touch.place)
                return await self._act(step, tool)
            finally:
                await hold.__aexit__(None, None, None)
        finally:
            if slot is not None:
                slot.release()

    async def _act(self, step: Step, tool: Tool) -> Outcome:
        """Check again what was waited for, write it down, run the tool, finish the outcome."""
        if step.waited:
            await self._recheck(step)
        if step.agent:
            return await self._hand_over(step)
        if step.changing and self.parts.asks_hosts:
            step.run_files = await self._run_files(step)
        inputs = self._desks.inputs(step)
        self._writer.start(step)
        if step.changing:
            # Durable before the tool acts, so nothing runs unrecorded.
            alone = await self._journal.durable()
            if step.files is not None:
                step.files.alone = alone
        work = tool.function(**inputs)
        try:
            awaited = work.send(None)
        except StopIteration as done:  # it answered without waiting: no deadline, and one write for both lines
            result = done.value
        else:
            self._journal.flush()
            result = await self._rest(step, tool, Rest(work, awaited))
        outcome = self._finisher.finished(step, result, self._monotonic())
        return self._writer.end("tool.completed", step, outcome, "done" if step.changing else "none")

    async def _hand_over(self, step: Step) -> Outcome:
        """Leave a judged call to the agent that asked; what it may replace is kept, and on record before it acts."""
        assert step.verdict is not None
        step.files = self._files.bind(step.id, step.verdict.excluded)
        step.formers = await step.files.keep(step.touches)
        self._writer.start(step)
        if step.changing:
            await self._journal.durable()
        else:
            self._journal.flush()
        self._limits.released(step.name)
        return self._finisher.handed_over(step, self._monotonic())

    async def _rest(self, step: Step, tool: Tool, rest: Rest) -> Any:
        """Wait for a tool that has begun to wait, until its deadline."""
        seconds = tool.timeout_seconds or self.parts.timeout_seconds
        task = step.task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()  # a call may be made while its caller is being cancelled
        arm(step, seconds)
        try:
            return await rest
        except asyncio.CancelledError:
            if not step.expired or task.cancelling() > before + 1:
                raise
            late = f"{called(step)} did not finish within {seconds:g} s."
            raise Problem(Code.TIMEOUT, late, seconds=seconds) from None
        finally:
            disarm(step)
            if step.expired:  # ours is over, also where the tool took no notice of it
                task.uncancel()

    async def _recheck(self, step: Step) -> None:
        """Resolve and decide again: what is done must be what was judged and approved."""
        assert step.question is not None
        step.touches = self._resolved(step, step.question.touches)
        decision = self._judge(step)
        if decision is Decision.DENY:
            raise denial(step)
        if decision is Decision.ALLOW:
            step.grant = None
            step.agent_asks = False
            if step.scripts is not None and step.scripts != await self._run_files(step):
                text = "A script that a rule allows changed while the call waited for its turn. Repeat the call."
                raise Problem(Code.STALE_FILE, text)
        elif not step.agent_asks:
            await self._approving.consume(step)

    # ── how it ended ─────────────────────────────────────────────────────────────────────────

    def _fail(self, step: Step, problem: Problem) -> Outcome:
        """Make the one failed outcome of a call, and write it down."""
        outcome = self._finisher.failed(step, problem, self._monotonic())
        try:
            outcome = self._writer.end("tool.failed", step, outcome, effect_of(step))
        except Problem as unwritten:
            if problem.code is not Code.JOURNAL_UNAVAILABLE and not step.started:
                return self._finisher.failed(step, unwritten, self._monotonic())
            outcome = replace(outcome, warnings=(*outcome.warnings, f"the end is not on record: {unwritten.message}"))
        return outcome


def _changes(tool: Tool, touches: Sequence[Touch]) -> bool:
    """Whether this call may change the world; a tool that declares nothing always may."""
    return not tool.permissions or any(changes_world(touch) for touch in touches)
