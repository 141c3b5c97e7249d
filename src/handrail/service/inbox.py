"""Everything that waits for a person, or that nobody came for: as the inbox shows it. No HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handrail.approvals.show import covered_by
from handrail.errors import Code
from handrail.ports import Answered, Recorded, Reply, Request
from handrail.service.identities import Identities, Identity
from handrail.store.executions import Execution, Executions
from handrail.words import Scope, noun

if TYPE_CHECKING:
    from handrail.store.ledger import SqliteLedger

ANSWERS = ("once", "run", "always", "no", "later")
_SCOPES = {"once": Scope.CALL, "run": Scope.RUN, "always": Scope.ALWAYS}
MOST_SHOWN_CHARS = 4 * 1024 * 1024
# What a preview or the ledger writes where it leaves something out; in a file's own lines it only keeps from approving.
_LEFT_OUT = re.compile(
    r"^\[\d+ of \d+ lines of this diff shown|^\[the diff is cut:|^\[and \d+ more changes\]| … \[\d+ more characters\]$"
    r"|^\[\d+ of \d+ characters;|\(a text of \d+ characters, not kept\)",
    re.MULTILINE,
)


@noun
class Entry:
    """One line of the inbox."""

    request: Request
    state: str  # pending, granted, running, done, unknown, denied, expired, used
    reply: Reply | None
    execution: Execution | None
    later: bool = False  # whoever looks wants to answer it later
    hidden: bool = False  # a part of what would run is hidden as a secret

    @property
    def parked(self) -> bool:
        """Whether its caller is gone, so that the service makes the call."""
        return self.execution is not None and self.execution.parked

    @property
    def is_live(self) -> bool:
        """Whether its caller waits for the answer."""
        return self.state == "pending" and not self.parked


class Refusal(Exception):
    """An answer that is not taken, and why; `status` as HTTP has it."""

    def __init__(self, status: int, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.details = status, code, message, details


class Inbox:
    """The requests of all workspaces, agents and front ends of an account."""

    def __init__(
        self,
        ledger: SqliteLedger,
        executions: Executions,
        identities: Identities,
        asker_of: Callable[[Request], tuple[str, bool]] | None = None,  # whose call it is; whether another must answer
        hide: Callable[[Any], Any] = lambda value: value,  # secrets in what is shown
    ) -> None:
        self._ledger, self._executions, self._identities, self._asker_of = ledger, executions, identities, asker_of
        self._hide = hide

    def open_entries(self, identity: Identity, now: float) -> list[Entry]:
        """List what waits: requests to answer, then what is unknown, running, or done and not fetched."""
        later = self._identities.put_off_by(identity.name)
        records = [Recorded(request, "pending", None) for request in self._ledger.pending(now)]
        entries = [self._entry(record, later) for record in records if may_see(identity, record.request)]
        entries.sort(key=lambda entry: entry.later)
        for state in ("unknown", "running", "done"):
            found = [item for item in self._executions.in_state(state) if item.parked]
            others = [self._entry(self._ledger.find(item.request), later, item) for item in found]
            entries += [entry for entry in others if may_see(identity, entry.request)]
        return entries

    def count_open(self, now: float) -> int:
        """Count the requests that wait for an answer."""
        return self._ledger.count_pending(now)

    def answered(self, identity: Identity, limit: int = 50) -> list[Entry]:
        """List the requests that were answered last."""
        records = self._ledger.newest(limit, ("granted", "denied", "expired", "used"))
        return [self._entry(record, frozenset()) for record in records if may_see(identity, record.request)]

    def entry(self, identity: Identity, request_id: str) -> Entry:
        """Give one request; Refusal 404 where there is none that this identity may see."""
        try:
            record = self._ledger.find(request_id)
        except KeyError:
            record = None
        if record is None or not may_see(identity, record.request):
            raise Refusal(404, Code.NOT_FOUND, f"There is no request {request_id[:100]!r}.")
        shown = record.request
        clean = replace(shown, params=self._hide(dict(shown.params)), diff=str(self._hide(shown.diff)))
        return self._entry(record._replace(request=clean), self._identities.put_off_by(identity.name))

    def _entry(self, record: Recorded, later: frozenset[str], known: Execution | None = None) -> Entry:
        """Tell a request as it is shown: a command stands in its impact as it will run, secrets and all."""
        execution = known or self._executions.find(record.request.id)
        state, request = record.state, record.request
        impact = self._hide({kind: list(targets) for kind, targets in request.impact.items()})
        hidden = impact != {kind: list(targets) for kind, targets in request.impact.items()}
        shown = replace(request, reason=str(self._hide(request.reason)), impact=impact)
        if execution is not None and execution.state in ("running", "done", "unknown") and state == "used":
            state = execution.state
        return Entry(shown, state, record.reply, execution, request.id in later, hidden)

    # ── answering ────────────────────────────────────────────────────────────────────────────

    def answer(self, identity: Identity, request_id: str, word: str, digest: str = "", advice: str = "") -> Entry:
        """Put an answer on record; Refusal where it is not taken."""
        entry = self.entry(identity, request_id)
        if word not in ANSWERS:
            raise Refusal(422, Code.INVALID_ARGS, f"An answer is one of {', '.join(ANSWERS)}.")
        if not identity.has("approver", "admin"):
            raise Refusal(403, Code.POLICY_DENIED, f"{identity.name} may not answer: that needs the role approver.")
        if word == "always" and not identity.has("admin"):
            raise Refusal(403, Code.POLICY_DENIED, "An answer for always needs the role admin.")
        if word == "later":
            self._need_pending(entry)
            self._identities.put_off(request_id, identity.name)
        elif entry.state == "unknown":
            self._settle_unknown(entry, word)
        elif entry.state == "done" and word == "no":
            self._executions.move(request_id, "done", "fetched")
        else:
            self._answer(identity, entry, word, digest, advice)
        return self.entry(identity, request_id)

    def _answer(self, identity: Identity, entry: Entry, word: str, digest: str, advice: str) -> None:
        request = entry.request
        self._need_pending(entry)
        if word == "no":
            reply = Reply("denied", Scope.NONE, by=identity.name, advice=advice[:2000])
        else:
            self._need_approvable(identity, entry, word, digest)
            reply = Reply("granted", _SCOPES[word], by=identity.name)
        try:
            self._ledger.answer(request.id, reply)
        except Answered as late:
            raise decided(self._ledger.find(request.id), late.state, late.by, late.at) from None

    def _need_pending(self, entry: Entry) -> None:
        if entry.state != "pending":
            reply = entry.reply or Reply(entry.state)
            recorded = Recorded(entry.request, entry.state, entry.reply)
            raise decided(recorded, entry.state, reply.by, reply.at)

    def _need_approvable(self, identity: Identity, entry: Entry, word: str, digest: str) -> None:
        import hmac

        request = entry.request
        if _SCOPES[word] > widest(request):
            text = f"This request can be granted for the {widest(request).word} at most (`approvals.max_scope`)."
            raise Refusal(422, Code.INVALID_ARGS, text)
        opening = (entry.execution.opening if entry.execution is not None else None) or {}
        asker, four_eyes = (request.asked_by, False) if self._asker_of is None else self._asker_of(request)
        if (four_eyes or opening.get("four_eyes")) and asker == identity.name:
            text = "Somebody else must answer this: `approvals.four_eyes` is set, and the call is your own."
            raise Refusal(403, Code.POLICY_DENIED, text)
        if missing := left_out(entry):
            raise Refusal(
                409, Code.POLICY_DENIED, f"This request cannot be approved here: {missing}. It can be denied."
            )
        if not hmac.compare_digest(digest.encode(), self.confirmation(request.id).encode()):
            text = (
                "The digest is not the one of this request. Read the request, and give the digest that comes with it."
            )
            raise Refusal(409, Code.INVALID_ARGS, text)

    def _settle_unknown(self, entry: Entry, word: str) -> None:
        """Count a call whose process died as done, whatever happened; it is not made again by itself."""
        if word != "no":
            text = (
                "It may have happened. Look at what it touches and count it as done; to make it again, repeat the call."
            )
            raise Refusal(409, Code.OUTCOME_UNKNOWN, text)
        self._executions.move(entry.request.id, "unknown", "fetched")

    def confirmation(self, request_id: str) -> str:
        """Give the digest that proves that a request was shown."""
        return self._ledger.confirmation(request_id)


def may_see(identity: Identity, request: Request) -> bool:
    """Whether somebody may read a request: callers read their own."""
    return identity.has("approver", "auditor", "admin") or request.asked_by == identity.name


def widest(request: Request) -> Scope:
    """Say how far an answer may reach; without anything that a wider one would cover, this call."""
    return max(request.max_scope, Scope.CALL) if request.touches else Scope.CALL


def left_out(entry: Entry) -> str:
    """Say what of a request cannot be shown whole; empty: all of it is."""
    request = entry.request
    if entry.hidden:
        return "a secret in what would run is hidden; `handrail approvals show` shows the line"
    if len(request.diff) > MOST_SHOWN_CHARS or sum(map(len, _texts(request.params))) > MOST_SHOWN_CHARS:
        return "it is too large for a page"
    if _LEFT_OUT.search(request.diff):
        return "a part of the change was left out"
    if any(_LEFT_OUT.search(text) for text in _texts(request.params)):
        return "a part of its arguments is not kept"
    return ""


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return []


def coverage(request: Request) -> list[str]:
    """Say what an answer wider than this call would cover."""
    return covered_by(request.tool, request.touches)


def decided(record: Recorded, state: str, by: str, at: float) -> Refusal:
    """Write the refusal of an answer that comes too late: who decided what, and when."""
    who = f" by {by}" if by else ""
    scope = (
        record.reply.scope.word if record.reply is not None and state in ("granted", "used", "running", "done") else ""
    )
    text = f"This request is {state} already{who}; the first answer counts."
    return Refusal(409, Code.APPROVAL_DENIED, text, state=state, by=by, at=at, scope=scope)
