"""Asking people, and the ledger of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from handrail.errors import Fault
from handrail.words import Grant, Risk, Scope, noun

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
    """A way to ask a person. One that asks nobody says so with `asks = False`."""

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
        """Grants of wider scope in force: those of the run, and those of the session in this workspace.

        Targets are relative to a workspace and run names may be given twice, so without `workspace`
        no session grant is in force.
        """

    def use(self, grant: Grant, now: float) -> bool:
        """Consume one use; False when it is used up, expired or revoked."""


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

    def expire(self, now: float) -> int:
        """Close what has run out and erase its arguments; how many requests that were."""

    def changed(self) -> bool:
        """Whether anything was written since this was last asked; cheap enough to ask every 20 ms."""
