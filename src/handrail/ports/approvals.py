"""Asking people, and the ledger of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from handrail.errors import Fault
from handrail.words import Grant, Outcome, Risk, Scope, noun

if TYPE_CHECKING:
    from handrail.ports.showing import Clock


@noun
class Request:
    """What a person is asked: everything needed to decide, and to replay exactly this call."""

    id: str
    tool: str
    version: str
    risk: Risk
    reason: str
    params: Mapping[str, Any]  # as they will run, values redacted
    impact: Mapping[str, Sequence[str]]  # reads, writes, deletes, runs, reaches
    digest: str
    policy_digest: str
    created: float
    expires: float
    run_id: str
    call_id: str
    workspace: str
    caller: str
    max_scope: Scope
    touches: tuple[tuple[str, str], ...] = ()
    diff: str = ""  # what would change in files, redacted
    replay: Mapping[str, Any] | None = None  # {"command": …, "request": …}
    reviews: str = ""  # digest of the call whose effects, found by running it, are asked for
    rule: str = ""  # whose finding decided that a person is asked
    does: str = ""  # to its target, in words: `replace, can be undone`
    folder: str = ""  # which folder the workspace was: what is granted for it does not hold for one that replaced it
    aside: tuple[str, ...] = ()  # arguments that the short card leaves out: defaults, and what the diff shows whole
    asked_by: str = ""  # the identity that makes the call, where the front end knows one
    client: str = ""  # the program that makes it, as it names itself
    findings: tuple[Mapping[str, str], ...] = ()  # what asked: rule, where it stands, why

    def to_dict(self) -> dict[str, Any]:
        """Give the request as plain JSON values: what `details` of APPROVAL_REQUIRED and the ledger hold."""
        return {
            "id": self.id,
            "tool": self.tool,
            "version": self.version,
            "risk": self.risk.value,
            "reason": self.reason,
            "params": dict(self.params),
            "impact": {kind: list(targets) for kind, targets in self.impact.items()},
            "digest": self.digest,
            "policy_digest": self.policy_digest,
            "created": self.created,
            "expires": self.expires,
            "run_id": self.run_id,
            "call_id": self.call_id,
            "workspace": self.workspace,
            "caller": self.caller,
            "max_scope": self.max_scope.word,
            "touches": [list(pair) for pair in self.touches],
            "diff": self.diff,
            "replay": None if self.replay is None else dict(self.replay),
            "reviews": self.reviews,
            "rule": self.rule,
            "does": self.does,
            "folder": self.folder,
            "aside": list(self.aside),
            "asked_by": self.asked_by,
            "client": self.client,
            "findings": [dict(finding) for finding in self.findings],
        }


@noun
class Reply:
    """What came back from a person, or from nobody."""

    state: str  # granted | denied | pending | expired
    scope: Scope = Scope.CALL
    by: str = ""
    advice: str = ""  # to the model, with a refusal
    uses: int | None = None
    expires: float | None = None
    patterns: tuple[tuple[str, str], ...] | None = None  # wider targets the person confirmed
    at: float = 0.0  # when; the ledger fills it in


class Recorded(NamedTuple):
    """A request as the ledger holds it."""

    request: Request
    state: str  # pending | granted | denied | expired | used
    reply: Reply | None


class Answered(Fault):
    """An answer came too late: somebody answered before, or the request expired."""

    def __init__(self, request_id: str, state: str, by: str, at: float) -> None:
        who = f" by {by}" if by else ""
        rest = "its call has to be made anew" if state == "expired" else "the first answer counts"
        super().__init__(f"request {request_id} is {state} already{who}; {rest}")
        self.request_id = request_id
        self.state = state  # granted | denied | expired | used
        self.by = by
        self.at = at


class Approver(Protocol):
    """A way to ask a person. One that asks nobody says so with `asks = False`.

    One that must know when nobody waits for the answer any more has `ask_within(request, seconds)`, too. Without it,
    `ask` is cancelled then. The request stays pending in either case.
    """

    async def ask(self, request: Request) -> Reply:
        """Ask and wait; `pending` where nobody can be asked now."""


class Ledger(Protocol):
    """Approvals and grants: the authority across processes. Every change is compare-and-set.

    A ledger that cannot be read or written raises Problem APPROVAL_DENIED: it never says "granted".
    """

    def request(self, request: Request, args: Mapping[str, Any]) -> Request:
        """Put a request on record, or give the pending or granted one with the same digest.

        An empty `id` and a missing `replay` are filled in.
        """

    def find(self, request_id: str) -> Recorded:
        """Give a request, its state and its answer; KeyError when unknown."""

    def answer(self, request_id: str, reply: Reply) -> Grant | None:
        """Answer a pending request; the first answer counts, a later one raises `Answered`.

        A scope wider than the request's `max_scope` is narrowed to it; the grant says what was given.
        """

    def granted(self, digest: str, now: float) -> Grant | None:
        """The unused grant for exactly this call, whatever its scope."""

    def reviewed(self, digest: str, now: float) -> Grant | None:
        """The unused grant for effects of exactly this call: whoever gave it saw the call, too."""

    def grants(self, run_id: str, now: float, workspace: str = "") -> tuple[Grant, ...]:
        """Grants of wider scope in force: those of the run, and those of this workspace.

        Targets are relative to a workspace and run names may be given twice, so without `workspace`
        neither a session grant nor a standing one is in force.
        """

    def use(self, grant: Grant, now: float) -> bool:
        """Consume one use; False when it is used up, expired or revoked."""


class Parking(Protocol):
    """Calls that go on without their caller: who runs them, and the outcome for an equal call that comes later."""

    def park(self, request_id: str) -> None:
        """Mark a request whose call has ended as pending: from now on somebody else may make it."""

    def withdraw(self, request_id: str) -> None:
        """Mark a request whose caller gave up: nobody else makes the call."""

    def claim(self, grant: Grant, now: float, call_id: str) -> bool:
        """Consume one use as `Ledger.use` does, and note who makes the call; False when there is none left."""

    def finish(self, request_id: str, outcome: Outcome) -> None:
        """Keep the outcome of a claimed call for those who wait for it."""

    async def outcome(self, likeness: str, request_id: str | None = None) -> Outcome | None:
        """Give the outcome of an equal call that was made meanwhile, once; one that is going on is waited for.

        OUTCOME_UNKNOWN where whoever made it died half-way; None where nobody made it.
        """


class SharedLedger(Ledger, Protocol):
    """What approvers and front ends need of a ledger beyond the kernel."""

    async def wait(self, request_id: str, *, until: float | None = None, clock: Clock | None = None) -> Reply:
        """Wait until the request is answered here or elsewhere, or expires; `pending` once `until` has passed."""

    def args(self, request_id: str) -> dict[str, Any]:
        """The raw arguments, to replay the call; APPROVAL_DENIED once they are erased, KeyError when unknown."""

    def pending(self, now: float) -> tuple[Request, ...]:
        """Requests that wait for an answer, oldest first."""

    def list(self, states: Sequence[str] = ()) -> tuple[Recorded, ...]:
        """Requests in these states (none given: in any), oldest first."""

    def revoke(self, grant_id: str, by: str = "") -> bool:
        """Take a grant back, by its own id or its request's; False when there was none left to take."""

    def standing(self, now: float) -> tuple[tuple[Grant, Request], ...]:
        """Standing grants of all workspaces, oldest first, each with the request that it answers."""

    def expire(self, now: float) -> int:
        """Close what has run out and erase its arguments; how many requests that were."""

    def changed(self) -> bool:
        """Whether anything was written since this was last asked; cheap enough to ask every 20 ms."""
