"""How approvals are asked for over MCP: by the ledger, never by the client's own word unless settings say so.

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

from handrail.front.mcp.ongoing import ONGOING, Ongoing
from handrail.ports import Answered, Reply, Request, SharedLedger
from handrail.words import Scope

log = logging.getLogger("handrail.mcp")

BY_CLIENT = "mcp-client"
ANSWER = "approval"  # the name of the one form that is asked for
FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Approve exactly this call?"}},
    "required": ["approve"],
}
_MAX_SHOWN = 4000
_PENDING = Reply("pending", Scope.NONE)
_BROUGHT: ContextVar[tuple[str, str, Reply] | None] = ContextVar("handrail-brought", default=None)  # with this call

Console = Callable[[str], str | None]  # the address of the page where a person answers a request, by the request's id


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
        ongoing.tell(f"waits for approval {request.id}: handrail approvals grant {request.id}")
        if self.trusts(ongoing):
            if ongoing.peer.elicit is None:
                return _PENDING  # the result asks for the answer, and the repeated call brings it
            reply = await self._answered(request, self._form_sent(ongoing, request))
            if reply.state != "pending":
                return reply
        if ongoing.parked is not None and not ongoing.parked.done():
            ongoing.parked.set_result(request)
            ongoing.waits = True
            try:
                return await self.ledger.wait(request.id, until=None)
            finally:
                ongoing.waits = False
        if (page := self.page(ongoing, request.id)) is not None:
            if ongoing.peer.elicit is None:
                return _PENDING  # the result names the page
            reply = await self._answered(request, self._page_shown(ongoing, request, page))
            if reply.state != "pending":
                return reply
        return await self.ledger.wait(request.id, until=time.time() + self.wait_seconds)

    def trusts(self, ongoing: Ongoing) -> bool:
        """Whether this client's own form counts."""
        return self.trust_client and not self.headless and ongoing.peer.has_forms

    def page(self, ongoing: Ongoing, request_id: str) -> str | None:
        """The page to show this client, which opens it once; none where its own form counts."""
        if self.console is None or not ongoing.peer.has_pages or ongoing.returned or self.trusts(ongoing):
            return None
        return self.console(request_id)

    def input_required(self, ongoing: Ongoing, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result that asks a client of the stateless era for a form or a page; None where it is asked for none."""
        if self.trusts(ongoing):
            params = form_for(question_of(request))
        elif (page := self.page(ongoing, request["id"])) is not None:
            params = page_for(question_of(request), page)
        else:
            return None
        wanted = {ANSWER: {"method": "elicitation/create", "params": params}}
        return {"resultType": "input_required", "inputRequests": wanted, "requestState": request["id"]}

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

    async def _form_sent(self, ongoing: Ongoing, request: Request) -> bool:
        """Ask by a form; what comes back is put on record as the client's."""
        answer = await _elicited(ongoing, request, form_for(question(request)))
        if (reply := _reply(answer)) is not None:
            self._put_on_record(request.id, reply)
        return False

    async def _page_shown(self, ongoing: Ongoing, request: Request, page: str) -> bool:
        """Have a page opened; what comes back says whether a person looks at it, and never what they decide."""
        params = {**page_for(question(request), page), "elicitationId": request.id}
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
        try:
            meant = self.ledger.find(named).request
        except KeyError:
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
    said_yes = isinstance(content, Mapping) and content.get("approve") is True
    if action == "accept" and said_yes:
        return Reply("granted", Scope.CALL, by=BY_CLIENT)
    if action in ("decline", "accept"):
        return Reply("denied", by=BY_CLIENT, advice="the client's form was declined")
    return None


def question(request: Request) -> str:
    """Write what a person is asked, as far as a form can show it."""
    return question_of(request.to_dict())


def question_of(request: Mapping[str, Any]) -> str:
    """Write the same from a request as plain values."""
    lines = [f"Approval {request['id']}: run {request['tool']}? {request['reason']}"]
    lines += [f"{kind}: {', '.join(targets)}" for kind, targets in request["impact"].items() if targets]
    if request["diff"]:
        lines.append(request["diff"])
    text = "\n".join(lines)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… (handrail approvals show {request['id']})"


def form_for(shown: str) -> dict[str, Any]:
    """Ask for a form; the word for that is not known to every version, and need not be said."""
    return {"message": shown, "requestedSchema": dict(FORM)}


def page_for(shown: str, page: str) -> dict[str, Any]:
    """Ask for a page to be opened."""
    return {"mode": "url", "message": shown, "url": page}
