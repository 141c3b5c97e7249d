"""How a call that must be asked for gets its approval, and how the approval is spent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from handrail.arguments import short
from handrail.errors import Code, Problem
from handrail.gates import asking
from handrail.gates.questions import (
    ask_anyway,
    describe_denial,
    describe_refusal,
    explain_must_ask,
    need_shown,
)
from handrail.gates.record import cut
from handrail.gates.step import Settled, Step, above, denial, pause, resume
from handrail.output.diffs import file_diffs
from handrail.policy import World, asked_for, decide, judge_changes
from handrail.policy.grants import coverage, patterns_of_line
from handrail.ports import Reply, Request
from handrail.ports.files import UNSHOWN
from handrail.words import Decision, Finding, Grant, Scope, Touch, TouchKind

if TYPE_CHECKING:
    from handrail.kernel import Parts

log = logging.getLogger("handrail")
MOST_LEFT = 1000
NEVER_SECONDS = 100 * 365.25 * 86400  # of a request that does not expire
_MOST_JUDGED = 100  # changes of one program that are on record with what was decided


class Approving:
    """Finds a grant on record or asks a person for one; a grant is spent right before the effect."""

    def __init__(
        self,
        parts: Parts,
        digest: Callable[[Step], Awaitable[str]],
        inputs: Callable[[Step], dict[str, Any]],
        world: Callable[[Step, tuple[Grant, ...]], World],
        active: Mapping[str, Step],
    ) -> None:
        self._parts, self._digest, self._inputs, self._world, self._active = parts, digest, inputs, world, active
        self._left: dict[str, str] = {}  # digest of a call -> the request that nobody had answered when it ended

    async def ask(self, step: Step) -> None:
        """Return only when the call may go on: with a grant that is not yet spent."""
        assert step.verdict is not None
        if step.verdict.decision is Decision.DENY:
            raise denial(step)
        step.waited = True
        await self._settle(step)
        step.digest = await self._digest(step)
        approval = step.call.approval
        if approval is None:
            step.grant = self._on_record(step)
        if step.grant is None:
            step.effects = step.grant = self._of_effects(step)
        # What leaves the kernel then is a question, and nothing of ours runs: the agent's person answers it.
        step.agent_asks = step.grant is None and bool(step.agent) and step.call.agent_asks and approval is None
        if step.grant is None and not step.agent_asks:
            await self._settle(step)  # it may have been made since the first look
            step.grant = await self._request(step) if approval is None else self._named(step, approval)

    async def _settle(self, step: Step) -> None:
        """Raise Settled where an equal call was made, or is being made, on behalf of this one."""
        parking, parts = self._parts.parking, self._parts
        if parking is None:
            return
        assert step.tool is not None
        call = (step.tool.name, step.tool.version, orjson.loads(step.args_json))
        alike = asking.likeness((step.call.caller, parts.asked_by), parts.workspace, call)
        outcome = await parking.outcome(alike, step.call.approval)
        if outcome is not None:
            raise Settled(outcome)

    def _of_effects(self, step: Step) -> Grant | None:
        """The approval of what this call changed before: it covers running it again, named or where nobody is asked."""
        approval, parts = step.call.approval, self._parts
        if approval is None and getattr(parts.approver, "asks", True):
            return None
        grant = parts.ledger.reviewed(step.digest, parts.clock.now())
        return grant if grant is not None and approval in (None, grant.request) else None

    async def consume(self, step: Step) -> None:
        """Spend the grant if what would run now is what was approved; else refuse."""
        grant = step.grant
        if grant is None:
            raise Problem(
                Code.APPROVAL_REQUIRED,
                "While the call waited for others, what it touches changed, and now a person must approve it. "
                "Repeat the call to ask for that.",
            )
        step.digest = await self._digest(step)
        try:
            self._consume(step, grant)
        except Problem:
            await self._settle(step)  # who made the call meanwhile may be why it does not fit any more
            raise

    def _consume(self, step: Step, grant: Grant) -> None:
        if grant is step.effects:
            # What it would change must still be what was approved, or is asked for anew: see `review`.
            now = self._parts.clock.now()
            self._take(step, grant, fits=self._parts.ledger.reviewed(step.digest, now) == grant)
        else:
            self._spend(step, grant)

    def sort(self, step: Step, touches: Sequence[Touch]) -> tuple[Sequence[Touch], Sequence[Finding]]:
        """Judge each change of a program by itself; gives the resolved touches and what was decided of each."""
        placed = self._place_each(touches)
        findings = judge_changes(placed, self._world(step, ()))
        judged = [
            {"path": touch.shown, "decision": finding.decision.word, "rule": finding.rule}
            for touch, finding in zip(placed, findings, strict=True)
            if finding.decision is not Decision.ALLOW
        ]
        if judged:
            self._append("changes.judged", step, {"changes": len(placed), "judged": judged[:_MOST_JUDGED]})
        return placed, findings

    def _place_each(self, touches: Sequence[Touch]) -> tuple[Touch, ...]:
        """Resolve changes; one whose path no tool takes stays without a place, and is not kept."""
        found: list[Touch] = []
        for touch in touches:
            try:
                found += self._place([touch])
            except Problem:
                found.append(touch)
        return tuple(found)

    def _place(self, touches: Sequence[Touch]) -> tuple[Touch, ...]:
        return tuple(replace(touch, place=self._parts.files.resolve(touch.target, follow=False)) for touch in touches)

    async def review(
        self, step: Step, touches: Sequence[Touch], diff: str, bound_to: Any, ending: Mapping[str, Sequence[str]]
    ) -> tuple[Touch, ...]:
        """Judge what programs of a call changed before it is kept; asked for with its diff, and spent at once."""
        placed = self._place(touches)
        after = copy(step)
        after.changes = True
        after.touches = placed
        after.verdict = decide(placed, self._world(after, ()))
        after.grant, after.diff, after.ending, after.exact = None, diff, ending, ""
        assert after.verdict is not None and after.tool is not None
        if after.verdict.decision is Decision.DENY:
            raise denial(after)
        if why := explain_must_ask(ending):
            after.must_ask = True
            after.verdict = ask_anyway(after.verdict, why)
        if after.verdict.decision is Decision.ASK:
            unshown = ending.get(UNSHOWN, ())
            need_shown([touch for touch in placed if touch.target in unshown], self._world(after, ()))
            call = (after.tool.name, after.tool.version, orjson.loads(step.args_json))
            parts = self._parts
            after.digest = asking.digest_of("handrail-review-1", *call, bound_to, parts.policy_digest, parts.workspace)
            if step.effects is None or step.effects.digest != after.digest:
                await self._asked_after(step, after)
            # As before a tool acts: nothing is kept without its approval on record.
            await parts.journal.durable()
        return placed

    async def reach(self, step: Step, touch: Touch, bound_to: Any, seconds: float) -> None:
        """Ask whether programs of a call may reach a host; the answer is for these commands with this host."""
        parts, after = self._parts, copy(step)
        assert after.tool is not None
        commands = tuple(dict.fromkeys(item.target for item in step.touches if item.kind is TouchKind.PROC_EXEC))
        after.touches = (replace(touch, words=commands),)
        call = (after.tool.name, after.tool.version, orjson.loads(step.args_json))
        line = asking.exact_digest(call, step.touches, step.run_files or {}, parts.workspace)
        after.exact = asking.host_digest(line, touch.target, unsafe=touch.unsafe)
        ordinary = asking.is_ordinary(call[2], after.tool.shape.defaults)
        after.commands = patterns_of_line(step.touches, replace(self._world(step, ()), ordinary=ordinary))
        after.verdict = decide(after.touches, self._world(step, ()))
        after.grant, after.diff, after.ending = None, "", {"runs": commands}
        after.hold = seconds
        after.digest = asking.digest_of("handrail-host-1", *call, bound_to, parts.policy_digest, parts.workspace)
        if step.effects is None or step.effects.digest != after.digest:
            await self._asked_after(step, after)
        await parts.journal.durable()

    async def _asked_after(self, step: Step, after: Step) -> None:
        """Ask for effects and spend the answer; a person's time is not the program's."""
        after.reviews = step.digest or await self._digest(step)
        pause(step)
        try:
            after.grant = self._on_record(after) or await self._request(after)
        finally:
            resume(step)
        self._spend(after, after.grant)
        step.grant = after.grant
        step.claimed = after.claimed

    def _spend(self, step: Step, grant: Grant) -> None:
        fits = decide(step.touches, self._world(step, (grant,))).decision is Decision.ALLOW
        self._take(step, grant, fits=fits)

    def _take(self, step: Step, grant: Grant, *, fits: bool) -> None:
        if not fits:
            text = "What the call touches changed between its approval and its turn. Repeat the call to ask anew."
            raise Problem(Code.APPROVAL_DENIED, text, approval=grant.request)
        if not self._use(step, grant):
            text = "The approval was used, taken back or has expired before the call had its turn. Repeat the call."
            raise Problem(Code.APPROVAL_DENIED, text, approval=grant.request)
        told = {"grant": orjson.loads(asking.canonical(grant)), "request": grant.request, "scope": grant.scope.word}
        self._append("approval.granted", step, {**told, "by": grant.given_by})

    def _use(self, step: Step, grant: Grant) -> bool:
        parts = self._parts
        if parts.parking is None:
            return parts.ledger.use(grant, parts.clock.now())
        taken = parts.parking.claim(grant, parts.clock.now(), step.id)
        if taken:
            step.claimed = (*step.claimed, grant.request)
        return taken

    def _append(self, kind: str, step: Step, fields: dict[str, Any]) -> None:
        trace_id = step.call.trace_id or self._parts.trace_id
        self._parts.journal.append(kind, step.id, {"trace_id": trace_id, **self._parts.finisher.hidden(fields)})

    def _on_record(self, step: Step) -> Grant | None:
        """A grant that covers the call already: for exactly it, or of wider scope."""
        ledger, now = self._parts.ledger, self._parts.clock.now()
        exact = ledger.granted(step.digest, now)
        if step.must_ask:
            return exact
        candidates = (
            *((exact,) if exact is not None else ()),
            *ledger.grants(self._parts.journal.run_id, now, self._parts.workspace),
        )
        while candidates:
            chosen = decide(step.touches, self._world(step, candidates)).grant
            grant = next((grant for grant in candidates if grant.id == chosen), None)
            if grant is None or grant == exact or self._is_for_this_folder(grant):
                return grant
            candidates = tuple(item for item in candidates if item is not grant)
        return None

    def _is_for_this_folder(self, grant: Grant) -> bool:
        """Say whether a grant that outlasts its run was given for this very folder, not for one that it replaced."""
        if grant.scope < Scope.SESSION:
            return True
        return self._parts.ledger.find(grant.request).request.folder == self._parts.folder

    def _named(self, step: Step, approval: str) -> Grant:
        """The grant of the request that the call names, if this is exactly the call it was given for."""
        grant = self._parts.ledger.granted(step.digest, self._parts.clock.now())
        if grant is None or grant.request != approval:
            self._record_no(step, approval)
            raise Problem(Code.APPROVAL_DENIED, self._misfit(step, approval), approval=approval)
        return grant

    def _record_no(self, step: Step, approval: str) -> None:
        """Put on record that the request which a call names was refused, or expired."""
        try:
            found = self._parts.ledger.find(approval)
        except KeyError:
            return
        if found.state in ("denied", "expired"):
            self._append("approval.denied", step, describe_denial(approval, found.reply or Reply(found.state)))

    def _misfit(self, step: Step, approval: str) -> str:
        """Say which of the things that an approval is bound to is not as it was."""
        parts, ledger, now = self._parts, self._parts.ledger, self._parts.clock.now()
        try:
            record = ledger.find(approval)
        except KeyError:
            return f"There is no approval {short(approval)}; `handrail approvals list --all` shows them."
        if record.state == "pending":
            return f"Approval {approval} is not granted yet. A person must approve it; repeat the call when they have."
        from handrail.gates import misfits

        standing = ledger.granted(record.request.digest, now) is not None
        args = parts.finisher.hidden(orjson.loads(step.args_json))
        return misfits.why(record, step, args, parts.policy_digest, parts.workspace, standing=standing)

    async def _request(self, step: Step) -> Grant:
        parts, used = self._parts, self._parts.limits.usage.used
        self._tell_late_no(step)
        parts.limits.usage.check_prompts()
        request = parts.ledger.request(await self._question(step), orjson.loads(step.args_json))
        asked = getattr(parts.approver, "asks", True)
        # The ledger holds the request whole; a call that is repeated would write it into the journal each time.
        self._append("approval.required", step, {"request": cut(request.to_dict()), "asked": asked})
        parts.journal.flush()
        used["prompts"] += asked
        if parts.notify is not None and request.call_id == step.id:  # an equal call that waits was told of already
            parts.notify(replace(request, reason=str(parts.finisher.hidden(request.reason))))
        reply = await self._reply(step, request)
        if reply.state == "pending":
            if len(self._left) >= MOST_LEFT:
                self._left.clear()
            self._left[step.digest] = request.id
            if parts.parking is not None:
                parts.parking.park(request.id)
            raise Problem(
                Code.APPROVAL_REQUIRED,
                f"Not done yet: {request.reason}. A person must approve this; repeat the same call when they have. "
                f"The request is {request.id}.",
                details={"approval": asking.shorten(request)},
            )
        if reply.state != "granted":
            self._append("approval.denied", step, describe_denial(request.id, reply))
            expired = reply.state == "expired"
            raise Problem(
                Code.APPROVAL_DENIED,
                "The approval request expired unanswered." if expired else describe_refusal(reply),
                approval=request.id,
                advice=reply.advice,
            )
        grant = self._on_record(step)
        if grant is None:  # equal calls share a request, and the first of them takes what was granted
            text = "The approval was granted, and used by an equal call or taken back. Repeat the call to ask anew."
            raise Problem(Code.APPROVAL_DENIED, text, approval=request.id)
        return grant

    def _tell_late_no(self, step: Step) -> None:
        """Tell a call that is repeated, once, that its request was denied after the first had ended."""
        request = self._left.pop(step.digest, None)
        if request is None:
            return
        recorded = self._parts.ledger.find(request)
        if recorded.state != "denied":
            return
        reply = recorded.reply or Reply("denied")
        self._append("approval.denied", step, describe_denial(request, reply))
        raise Problem(Code.APPROVAL_DENIED, describe_refusal(reply), approval=request, advice=reply.advice)

    async def _reply(self, step: Step, request: Request) -> Reply:
        """Ask; a crashed approver is a refusal, and the callers of a nested call wait without losing time."""
        paused = above(self._active, step)
        for caller in paused:
            pause(caller)
        try:
            return await self._answer(step, request)
        except asyncio.CancelledError:
            if self._parts.parking is not None:
                self._parts.parking.withdraw(request.id)
            raise
        except Exception:
            log.exception("the approver failed on request %s", request.id)
            return Reply("denied", by="nobody", advice="the approver failed")
        finally:
            for caller in paused:
                resume(caller)

    async def _answer(self, step: Step, request: Request) -> Reply:
        """Wait for the answer; where a program's connection is held meanwhile, not longer than it may be."""
        approver = self._parts.approver
        if step.hold is None:
            return await approver.ask(request)
        patient = getattr(approver, "ask_within", None)
        if patient is not None:
            return await patient(request, step.hold)  # type: ignore[no-any-return]
        try:
            async with asyncio.timeout(step.hold):
                return await approver.ask(request)
        except TimeoutError:
            return Reply("pending", Scope.NONE)

    async def _question(self, step: Step) -> Request:
        tool, verdict, parts = step.tool, step.verdict, self._parts
        assert tool is not None and verdict is not None
        now = parts.clock.now()
        ending = {kind: list(told) for kind, told in (step.ending or {}).items()}
        diff = await self.preview(step)
        world = replace(self._world(step, ()), exact=step.exact, commands=step.commands, ordinary=step.ordinary)
        given = orjson.loads(step.args_json)
        params = parts.finisher.hidden(given)
        if params != given:
            need_shown(step.touches, world)
        return Request(
            id="",
            tool=tool.name,
            version=tool.version,
            risk=tool.risk,
            reason=asking.reason(verdict.deciding.why, ending),
            params=params,
            impact=asking.impact(step.touches) | self._further(step) | parts.finisher.hidden(ending),
            digest=step.digest,
            policy_digest=parts.policy_digest,
            created=now,
            expires=now + (parts.expiry_seconds or NEVER_SECONDS),
            run_id=parts.journal.run_id,
            call_id=step.id,
            workspace=parts.workspace,
            folder=parts.folder,
            rule=verdict.deciding.rule,
            does=asking.describe_change(step.touches, world),
            caller=step.call.caller,
            max_scope=verdict.scope,
            touches=coverage(step.touches, world, asked_for(verdict.findings)),
            diff=diff,
            reviews=step.reviews,
            aside=self._aside(step, diff),
            asked_by=parts.asked_by,
            client=step.call.client,
            findings=tuple(parts.finisher.hidden(asking.tell_findings(verdict))),
        )

    def _further(self, step: Step) -> dict[str, list[str]]:
        """Say what programs of a call may do beyond the ordinary: the answer is bound to their confinement."""
        tell, verdict = self._parts.confinement, step.verdict
        if tell is None or verdict is None or not any(item.kind is TouchKind.PROC_EXEC for item in step.touches):
            return {}
        return asking.describe_confinement(tell(verdict), self._parts.workspace)

    def _aside(self, step: Step, diff: str) -> tuple[str, ...]:
        """Name the arguments that the card leaves out: those with their default, and those that the diff shows."""
        assert step.tool is not None
        args, defaults = orjson.loads(step.args_json), step.tool.shape.defaults
        usual = [name for name, value in args.items() if name in defaults and defaults[name] == value]
        files = file_diffs(diff)
        shown = step.tool.previewed if files is not None and all(file.path for file in files) else ()
        return tuple(dict.fromkeys([*usual, *(name for name in shown if name in args)]))

    async def preview(self, step: Step) -> str:
        """What would change; a call that would fail anyway fails here, before anyone is asked."""
        assert step.tool is not None
        if step.diff is not None:
            return step.diff
        if step.tool.preview is None or not self._may_see(step):
            return ""
        # A person is shown all of it: the bounds of what a model reads are not theirs.
        inputs = {name: asking.widen(value) for name, value in self._inputs(step).items()}
        try:
            return str(self._parts.finisher.hidden(await step.tool.preview(**inputs)))
        except Problem:
            if not step.agent:
                raise
            return ""  # the agent may find its place where we do not: all arguments are shown

    def _may_see(self, step: Step) -> bool:
        """Whether the call may read what it would delete: else a person is asked also about what is not there."""
        read = {touch.target for touch in step.touches if touch.kind is TouchKind.FS_READ}
        unread = [
            Touch(TouchKind.FS_READ, touch.target, follow=touch.follow, place=touch.place)
            for touch in step.touches
            if touch.kind is TouchKind.FS_DELETE and touch.target not in read
        ]
        return not unread or decide(unread, self._world(step, ())).decision is Decision.ALLOW
