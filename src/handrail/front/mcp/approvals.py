"""How approvals are asked for over MCP: by the ledger, never by the client's own word unless settings say so.

A client's form shows the card, as every other place does. A request whose card is too long for one gets no form.

In this order: a task that the client polls, where it has the extension; a page of a console, where there is one and the
client can open it; else the call waits for a short while and then ends as pending, to be repeated once it is granted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from handrail.approvals import card, show
from handrail.front.mcp.ongoing import ONGOING, Ongoing
from handrail.ports import Answered, Reply, Request, SharedLedger
from handrail.words import Scope

log = logging.getLogger("handrail.mcp")

BY_CLIENT = "mcp-client"
ANSWER = "approval"  # the name of the one form that is asked for
_APPROVE: Mapping[str, Any] = {"type": "boolean", "title": "Approve this call?"}
_ADVICE: Mapping[str, Any] = {"type": "string", "title": "If not: what to do instead"}
_SCOPES = {"once": Scope.CALL, "this run": Scope.RUN, "always": Scope.ALWAYS}
_MAX_SHOWN = 4000  # characters of a form; clients cut longer ones
_WIDTH = 100  # columns of a form
_PENDING = Reply("pending", Scope.NONE)
_BROUGHT: ContextVar[tuple[str, str, Reply] | None] = ContextVar("handrail-brought", default=None)  # with this call

Console = Callable[[str], str | None]  # the address of the page where a person answers a request, by the request's id


def waiting(request_id: str) -> str:
    """Say that a call waits; models read this, so how the request is granted is not said."""
    return f"waits for approval {request_id} by a person"


class McpApprover:
    """Waits for an answer on record; the runtime fills in the ledger."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console
        self.ledger: SharedLedger | None = None
        self.wait_seconds = 0.0
        self.headless = False
        self.trust_client = False

    @property
    def asks(self) -> bool:
        """Whether anybody is asked; nobody is where the call brought the answer along."""
        return not self.headless and self._brought_along() is None

    async def ask(self, request: Request) -> Reply:
        """Wait for the answer as long as this call may; `pending` leaves the request on record."""
        ongoing = ONGOING.get()
        if self.headless or ongoing is None or self.ledger is None:
            return _PENDING
        if (brought := self._brought(request)) is not None:
            return brought
        log.warning("%s waits for an approval: handrail approvals grant %s", request.tool, request.id)
        ongoing.tell(waiting(request.id))
        if (shown := self._form(ongoing, request)) is not None:
            if ongoing.peer.elicit is None:
                return _PENDING  # the result asks for the answer, and the repeated call brings it
            reply = await self._answered(request, self._form_sent(ongoing, request, shown))
            if reply.state != "pending":
                return reply
        if ongoing.parked is not None and not ongoing.parked.done():
            ongoing.parked.set_result(request)
            ongoing.waits = True
            try:
                return await self.ledger.wait(request.id, until=None)
            finally:
                ongoing.waits = False
        if (page := self.page(ongoing, request)) is not None:
            if ongoing.peer.elicit is None:
                return _PENDING  # the result names the page
            reply = await self._answered(request, self._page_shown(ongoing, request, page))
            if reply.state != "pending":
                return reply
        return await self.ledger.wait(request.id, until=time.time() + self.wait_seconds)

    def trusts(self, ongoing: Ongoing) -> bool:
        """Whether this client's own form counts."""
        return self.trust_client and not self.headless and ongoing.peer.has_forms

    def _form(self, ongoing: Ongoing, request: Request) -> str | None:
        """Write the form to show this client; None where its word does not count, or where the request does not fit."""
        return whole(request) if self.trusts(ongoing) else None

    def page(self, ongoing: Ongoing, request: Request) -> str | None:
        """The page to show this client, which opens it once; none where its own form counts."""
        if self.console is None or not ongoing.peer.has_pages or ongoing.returned:
            return None
        return None if self._form(ongoing, request) is not None else self.console(request.id)

    def input_required(self, ongoing: Ongoing, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result that asks a client of the stateless era for a form or a page; None where it is asked for none."""
        asked = self._on_record(request["id"])
        if asked is None:
            return None
        if (shown := self._form(ongoing, asked)) is not None:
            params = form_for(shown, asked)
        elif (page := self.page(ongoing, asked)) is not None:
            params = page_for(_beside_page(asked), page)
        else:
            return None
        wanted = {ANSWER: {"method": "elicitation/create", "params": params}}
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": asked.id}

    def _on_record(self, request_id: str) -> Request | None:
        try:
            return None if self.ledger is None else self.ledger.find(request_id).request
        except KeyError:
            return None

    async def _answered(self, request: Request, sent: Awaitable[bool]) -> Reply:
        """Wait while the client is asked, and on if `sent` says so; whoever answers first, anywhere, counts."""
        assert self.ledger is not None
        asking = asyncio.ensure_future(sent)
        waiting = asyncio.ensure_future(self.ledger.wait(request.id, until=request.expires))
        try:
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() or asking.result() else _PENDING
        finally:
            for task in (asking, waiting):
                task.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)

    async def _form_sent(self, ongoing: Ongoing, request: Request, shown: str) -> bool:
        """Ask by a form; what comes back is put on record as the client's."""
        answer = await _elicited(ongoing, request, form_for(shown, request))
        if (reply := _reply(answer)) is not None:
            self._put_on_record(request.id, reply)
        return False

    async def _page_shown(self, ongoing: Ongoing, request: Request, page: str) -> bool:
        """Have a page opened; what comes back says whether a person looks at it, and never what they decide."""
        params = {**page_for(_beside_page(request), page), "elicitationId": request.id}
        return (await _elicited(ongoing, request, params)).get("action") == "accept"

    def take(self, request_id: Any, answer: Any, run_id: str) -> None:
        """Keep a client's answer to a form until the call that brought it asks; what is no clear answer is none.

        Only then is it known what that call is: a yes that comes with another call is none to the one it names.
        """
        reply = _reply(answer)
        _BROUGHT.set((request_id, run_id, reply) if isinstance(request_id, str) and reply is not None else None)

    def _brought_along(self) -> tuple[str, str, Reply] | None:
        """The request that this call names, the run, and the client's answer; none where its word does not count."""
        ongoing = ONGOING.get()
        return _BROUGHT.get() if ongoing is not None and ongoing.returned and self.trusts(ongoing) else None

    def _brought(self, request: Request) -> Reply | None:
        """Put the answer that came with a call on record, if it is to what this very call asks for."""
        brought = self._brought_along()
        if brought is None or self.ledger is None:
            return None
        named, run_id, reply = brought
        meant = self._on_record(named)
        if meant is None or whole(meant) is None:  # a yes to a form that nobody was shown is none
            return None
        if (meant.id, meant.digest, meant.run_id) != (request.id, request.digest, run_id):
            return None
        return reply if self._put_on_record(named, reply) else None

    def _put_on_record(self, request_id: str, reply: Reply) -> bool:
        """Whether this was the first answer."""
        assert self.ledger is not None
        try:
            self.ledger.answer(request_id, reply)
        except (KeyError, Answered):
            return False
        return True


async def _elicited(ongoing: Ongoing, request: Request, params: Mapping[str, Any]) -> Mapping[str, Any]:
    assert ongoing.peer.elicit is not None
    try:
        return await ongoing.peer.elicit(params)
    except Exception:  # noqa: BLE001  a client that fails to answer leaves the request open for others
        log.warning("the client did not answer request %s", request.id)
        return {}


def _reply(answer: Any) -> Reply | None:
    if not isinstance(answer, Mapping):
        return None
    action, content = answer.get("action"), answer.get("content")
    filled = content if isinstance(content, Mapping) else {}
    scope = _SCOPES.get(filled.get("covers", "once")) if isinstance(filled.get("covers", "once"), str) else None
    if action == "accept" and filled.get("approve") is True and scope is not None:
        return Reply("granted", scope, by=BY_CLIENT)
    if action in ("decline", "accept"):
        advice = filled.get("advice")
        said = advice if isinstance(advice, str) and advice else "the client's form was declined"
        return Reply("denied", by=BY_CLIENT, advice=said)
    return None


def whole(request: Request) -> str | None:
    """Write the card of a request; None where a form cannot hold all of it."""
    if len(request.diff) > _MAX_SHOWN:
        return None
    text = show.plain([*card.card(request, _WIDTH), *_covered(request)])
    text += f"{request.id}: `handrail approvals show {request.id}` prints everything\n"
    return text if len(text) <= _MAX_SHOWN else None


def _beside_page(request: Request) -> str:
    """Write what is shown with the address of a page, which shows the whole."""
    shown = whole(request)
    if shown is not None:
        return shown
    tool = show.visible(request.tool)
    return f"Approval {request.id}: {tool} waits for an answer. The page shows the whole request."


def _offered(request: Request) -> list[str]:
    """Name the scopes that a form offers: none wider than the call where what it covers cannot be shown."""
    widest = max(request.max_scope, Scope.CALL) if request.touches else Scope.CALL
    return [word for word, scope in _SCOPES.items() if scope <= widest]


def _covered(request: Request) -> list[show.Line]:
    wider = _offered(request)[1:]
    if not wider:
        return []
    return [
        show.Line("", f"  {' and '.join(wider)} cover{'s' if len(wider) == 1 else ''}"),
        *show.coverage(request, _WIDTH),
    ]


def form_for(shown: str, request: Request) -> dict[str, Any]:
    """Ask for a form; the word for that is not known to every version, and need not be said."""
    covers = {"type": "string", "title": "For how long?", "enum": _offered(request), "default": "once"}
    fields = {"approve": dict(_APPROVE), "covers": covers, "advice": dict(_ADVICE)}
    return {"message": shown, "requestedSchema": {"type": "object", "properties": fields, "required": ["approve"]}}


def page_for(shown: str, page: str) -> dict[str, Any]:
    """Ask for a page to be opened."""
    return {"mode": "url", "message": shown, "url": page}
