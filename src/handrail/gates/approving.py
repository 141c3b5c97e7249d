"""How a call that must be asked for gets its approval, and how the approval is spent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from handrail.arguments import short
from handrail.errors import Code, Problem
from handrail.gates import asking
from handrail.gates.step import Step, above, denial, pause, resume
from handrail.policy import World, decide
from handrail.ports import Reply, Request
from handrail.words import Decision, Grant, Touch, TouchKind

if TYPE_CHECKING:
    from handrail.kernel import Parts

log = logging.getLogger("handrail")
MOST_LEFT = 1000


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
        step.digest = await self._digest(step)
        approval = step.call.approval
        if approval is None:
            step.grant = self._on_record(step)
        if step.grant is None:
            step.effects = step.grant = self._of_effects(step)
        if step.grant is None:
            step.grant = await self._request(step) if approval is None else self._named(step, approval)

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
        if grant is step.effects:
            # What it would change must still be what was approved, or is asked for anew: see `review`.
            now = self._parts.clock.now()
            self._take(step, grant, fits=self._parts.ledger.reviewed(step.digest, now) == grant)
        else:
            self._spend(step, grant)

    async def review(
        self, step: Step, touches: Sequence[Touch], diff: str, bound_to: Any, ending: Mapping[str, Sequence[str]]
    ) -> tuple[Touch, ...]:
        """Judge what programs of a call changed before it is kept; asked for with its diff, and spent at once."""
        placed = tuple(replace(touch, place=self._parts.files.resolve(touch.target, follow=False)) for touch in touches)
        after = copy(step)
        after.touches, after.verdict = placed, decide(placed, self._world(step, ()))
        after.grant, after.diff, after.ending = None, diff, ending
        assert after.verdict is not None and after.tool is not None
        if after.verdict.decision is Decision.DENY:
            raise denial(after)
        if after.verdict.decision is Decision.ASK:
            call = (after.tool.name, after.tool.version, orjson.loads(step.args_json))
            parts = self._parts
            after.digest = asking.digest_of("handrail-review-1", *call, bound_to, parts.policy_digest, parts.workspace)
            if step.effects is None or step.effects.digest != after.digest:
                await self._asked_after(step, after)
            # As before a tool acts: nothing is kept without its approval on record.
            await parts.journal.durable()
        return placed

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

    def _spend(self, step: Step, grant: Grant) -> None:
        fits = decide(step.touches, self._world(step, (grant,))).decision is Decision.ALLOW
        self._take(step, grant, fits=fits)

    def _take(self, step: Step, grant: Grant, *, fits: bool) -> None:
        if not fits:
            text = "What the call touches changed between its approval and its turn. Repeat the call to ask anew."
            raise Problem(Code.APPROVAL_DENIED, text, approval=grant.request)
        if not self._parts.ledger.use(grant, self._parts.clock.now()):
            text = "The approval was used, taken back or has expired before the call had its turn. Repeat the call."
            raise Problem(Code.APPROVAL_DENIED, text, approval=grant.request)
        told = {"grant": orjson.loads(asking.canonical(grant)), "request": grant.request, "scope": grant.scope.word}
        self._append("approval.granted", step, {**told, "by": grant.given_by})

    def _append(self, kind: str, step: Step, fields: dict[str, Any]) -> None:
        trace_id = step.call.trace_id or self._parts.trace_id
        self._parts.journal.append(kind, step.id, {"trace_id": trace_id, **self._parts.finisher.hidden(fields)})

    def _on_record(self, step: Step) -> Grant | None:
        """A grant that covers the call already: for exactly it, or of wider scope."""
        ledger, now = self._parts.ledger, self._parts.clock.now()
        exact = ledger.granted(step.digest, now)
        candidates = (
            *((exact,) if exact is not None else ()),
            *ledger.grants(self._parts.journal.run_id, now, self._parts.workspace),
        )
        if not candidates:
            return None
        chosen = decide(step.touches, self._world(step, candidates)).grant
        return next((grant for grant in candidates if grant.id == chosen), None)

    def _named(self, step: Step, approval: str) -> Grant:
        """The grant of the request that the call names, if this is exactly the call it was given for."""
        grant = self._parts.ledger.granted(step.digest, self._parts.clock.now())
        if grant is None or grant.request != approval:
            raise Problem(Code.APPROVAL_DENIED, self._misfit(step, approval), approval=approval)
        return grant

    def _misfit(self, step: Step, approval: str) -> str:
        """Say which of the things that an approval is bound to is not as it was."""
        parts, ledger, now = self._parts, self._parts.ledger, self._parts.clock.now()
        try:
            record = ledger.find(approval)
        except KeyError:
            return f"There is no approval {short(approval)}; `handrail approvals list --all` shows them."
        if record.state == "pending":
            return f"Approval {approval} is not granted yet: `handrail approvals grant {approval}`."
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
        self._append("approval.required", step, {"request": request.to_dict(), "asked": asked})
        parts.journal.flush()
        used["prompts"] += asked
        reply = await self._reply(step, request)
        if reply.state == "pending":
            if len(self._left) >= MOST_LEFT:
                self._left.clear()
            self._left[step.digest] = request.id
            raise Problem(
                Code.APPROVAL_REQUIRED,
                f"A person must approve this call first: {request.reason}. It is on record as {request.id}; once "
                f"`handrail approvals grant {request.id}` was run, repeat the same call.",
                details={"approval": request.to_dict()},
            )
        if reply.state != "granted":
            self._append("approval.denied", step, _denied(request.id, reply))
            expired = reply.state == "expired"
            raise Problem(
                Code.APPROVAL_DENIED,
                "The approval request expired unanswered." if expired else _refusal(reply),
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
        self._append("approval.denied", step, _denied(request, reply))
        raise Problem(Code.APPROVAL_DENIED, _refusal(reply), approval=request, advice=reply.advice)

    async def _reply(self, step: Step, request: Request) -> Reply:
        """Ask; a crashed approver is a refusal, and the callers of a nested call wait without losing time."""
        paused = above(self._active, step)
        for caller in paused:
            pause(caller)
        try:
            return await self._parts.approver.ask(request)
        except Exception:
            log.exception("the approver failed on request %s", request.id)
            return Reply("denied", by="nobody", advice="the approver failed")
        finally:
            for caller in paused:
                resume(caller)

    async def _question(self, step: Step) -> Request:
        tool, verdict, parts = step.tool, step.verdict, self._parts
        assert tool is not None and verdict is not None
        now = parts.clock.now()
        ending = {kind: list(told) for kind, told in (step.ending or {}).items()}
        return Request(
            id="",
            tool=tool.name,
            version=tool.version,
            risk=tool.risk,
            reason=asking.reason(verdict.deciding.why, ending),
            params=parts.finisher.hidden(orjson.loads(step.args_json)),
            impact=asking.impact(step.touches) | parts.finisher.hidden(ending),
            digest=step.digest,
            policy_digest=parts.policy_digest,
            created=now,
            expires=now + parts.expiry_seconds,
            run_id=parts.journal.run_id,
            call_id=step.id,
            workspace=parts.workspace,
            caller=step.call.caller,
            max_scope=verdict.scope,
            touches=asking.targets(step.touches),
            diff=await self.preview(step),
            reviews=step.reviews,
        )

    async def preview(self, step: Step) -> str:
        """What would change; a call that would fail anyway fails here, before anyone is asked."""
        assert step.tool is not None
        if step.diff is not None:
            return step.diff
        if step.tool.preview is None or not self._may_see(step):
            return ""
        return str(self._parts.finisher.hidden(await step.tool.preview(**self._inputs(step))))

    def _may_see(self, step: Step) -> bool:
        """Whether the call may read what it would delete: else a person is asked also about what is not there."""
        read = {touch.target for touch in step.touches if touch.kind is TouchKind.FS_READ}
        unread = [
            Touch(TouchKind.FS_READ, touch.target, follow=touch.follow, place=touch.place)
            for touch in step.touches
            if touch.kind is TouchKind.FS_DELETE and touch.target not in read
        ]
        return not unread or decide(unread, self._world(step, ())).decision is Decision.ALLOW


def _denied(request: str, reply: Reply) -> dict[str, Any]:
    return {"request": request, "state": reply.state, "by": reply.by, "advice": reply.advice}


def _refusal(reply: Reply) -> str:
    who = reply.by or "A person"
    return f"{who} said no{f': {reply.advice}' if reply.advice else '.'}"
