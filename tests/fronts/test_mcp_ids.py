"""Ids of the protocol over stdio: used again, or crooked, they take nothing from other messages."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fronts.test_mcp_codec import talking
from handrail import tool
from handrail.front.mcp.streams import Lines


async def test_an_id_used_again_after_cancelling_names_the_new_call(work: Path) -> None:
    """The end of the cancelled call does not take the new one's place away: it can be cancelled, too."""
    began: asyncio.Queue[int] = asyncio.Queue()
    stopped: asyncio.Queue[int] = asyncio.Queue()

    @tool(pure=True)
    async def wait_for_ever(number: int) -> str:
        """Wait."""
        began.put_nowait(number)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.put_nowait(number)
        return ""

    async with talking(work, tools=(wait_for_ever,)) as (talk, _), asyncio.timeout(5):
        for number in (1, 2):
            talk.say("tools/call", {"name": "wait_for_ever", "arguments": {"number": number}}, "same")
            if number == 2:
                assert await stopped.get() == 1
                assert "result" in await talk.ask("tools/list")  # the first call is wholly over
            assert await began.get() == number
            talk.say("notifications/cancelled", {"requestId": "same"})
        assert await stopped.get() == 2


@pytest.mark.parametrize("crooked", ["[]", "{}", "[1]"])
async def test_a_response_with_a_crooked_id_does_not_lose_what_follows(work: Path, crooked: str) -> None:
    """While a form is asked for, too: the next message of the same piece is answered."""
    async with talking(work) as (talk, _):
        asking = asyncio.ensure_future(talk.codec._elicit({"message": "Well?", "requestedSchema": {}}))
        await talk.until(lambda message: message.get("method") == "elicitation/create")
        lines = Lines(talk.codec.line, lambda: None, lambda: None)
        lines.data_received(
            f'{{"jsonrpc":"2.0","id":{crooked},"result":{{}}}}\n{{"jsonrpc":"2.0","id":99,"method":"ping"}}\n'.encode()
        )
        answer = await talk.until(lambda message: message.get("id") == 99)
        asking.cancel()
    assert answer == {"jsonrpc": "2.0", "id": 99, "result": {}}


@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_the_sdk_still_works_on_at_the_end_is_told_so_unless_it_was_cancelled(
    work: Path, cancelled: bool
) -> None:
    """A listener that left is not answered, and nobody waits for it."""
    async with talking(work, modern=True) as (talk, _):
        talk.say("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "L")
        await talk.until(lambda message: "acknowledged" in str(message.get("method")))
        if cancelled:
            talk.say("notifications/cancelled", {"requestId": "L"})
        await asyncio.wait_for(talk.codec.close(0.0 if not cancelled else 60.0), 5)
        answers = [message["error"]["code"] for message in talk.heard if message.get("id") == "L"]
    assert answers == ([] if cancelled else [-32000])
