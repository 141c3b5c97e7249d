"""How approvals are asked for over MCP: by the ledger, never by the client's own word unless settings say so.

In this order: a task that the client polls, where it has the extension; a page of a console, once there is one
(`console_page`); else the call waits for a short while and then ends as pending, to be repeated once it is granted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
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


class McpApprover:
    """Waits for an answer on record; the runtime fills in the ledger."""

    def __init__(self) -> None:
        self.ledger: SharedLedger | None = None
        self.wait_seconds = 0.0
        self.headless = False
        self.trust_client = False

    @property
    def asks(self) -> bool:
        """Whether anybody is asked."""
        return not self.headless

    async def ask(self, request: Request) -> Reply:
        """Wait for the answer as long as this call may; `pending` leaves the request on record."""
        ongoing = ONGOING.get()
        if self.headless or ongoing is None or self.ledger is None:
            return _PENDING
        log.warning("%s waits for an approval: handrail approvals grant %s", request.tool, request.id)
        ongoing.tell(f"waits for approval {request.id}: handrail approvals grant {request.id}")
        if self.trusts(ongoing):
            if ongoing.peer.elicit is None:
                return _PENDING  # the result asks for the answer, and the repeated call brings it
            reply = await self._asked(ongoing, request)
            if reply.state != "pending":
                return reply
        until: float | None = time.time() + self.wait_seconds
        if ongoing.parked is not None and not ongoing.parked.done():
            ongoing.parked.set_result(request)
            until = None
        return await self.ledger.wait(request.id, until=until)

    def trusts(self, ongoing: Ongoing) -> bool:
        """Whether this client's own form counts."""
        return self.trust_client and not self.headless and ongoing.peer.has_forms

    async def _asked(self, ongoing: Ongoing, request: Request) -> Reply:
        """Ask the client while the request can be answered; whoever answers first, there or elsewhere, counts."""
        assert self.ledger is not None
        asking = asyncio.ensure_future(self._ask_client(ongoing, request))
        waiting = asyncio.ensure_future(self.ledger.wait(request.id, until=request.expires))
        try:
            await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else _PENDING
        finally:
            for task in (asking, waiting):
                task.cancel()
            await asyncio.gather(asking, waiting, return_exceptions=True)

    async def _ask_client(self, ongoing: Ongoing, request: Request) -> None:
        """Ask over the back channel; what comes back is put on record as the client's."""
        assert ongoing.peer.elicit is not None
        try:
            answer = await ongoing.peer.elicit(question(request), FORM)
        except Exception:  # noqa: BLE001  a client that fails to answer leaves the request open for others
            log.warning("the client did not answer request %s", request.id)
            return
        self.take(request.id, answer, request.run_id)

    def take(self, request_id: Any, answer: Any, run_id: str) -> None:
        """Put a client's answer to a form on record; what is no clear answer, or for another run, is none."""
        if not self.trust_client or self.headless or self.ledger is None or not isinstance(answer, Mapping):
            return
        reply = _reply(answer)
        if reply is None or not isinstance(request_id, str):
            return
        with suppress(KeyError, Answered):
            if self.ledger.find(request_id).request.run_id == run_id:
                self.ledger.answer(request_id, reply)


def _reply(answer: Mapping[str, Any]) -> Reply | None:
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


def input_required(request: Mapping[str, Any], shown: str) -> dict[str, Any]:
    """Ask the client for a form by a result; the repeated call brings the answer, bound to the request by its id."""
    form = {"mode": "form", "message": shown, "requestedSchema": dict(FORM)}
    return {
        "resultType": "input_required",
        "inputRequests": {ANSWER: {"method": "elicitation/create", "params": form}},
        "requestState": request["id"],
    }


def console_page(request: Request) -> str | None:  # noqa: ARG001
    """Name the page where a person can answer, for URL elicitation; there is no console yet, so there is none."""
    return None
