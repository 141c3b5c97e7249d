"""What a server promises to tell is told: that a call made the list of resources longer, and no more than that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fronts.mcp_process import WAYS, client
from fronts.mcp_talk import Talk
from handrail.front.mcp import news
from handrail.front.mcp.door import Door
from handrail.front.mcp.opening import Opening

SETTINGS = {"tools": {"enable": ["fs"]}}
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
ENDS = pytest.mark.parametrize("sdk", [False, True], ids=["codec", "sdk"])
CHANGED = "notifications/resources/list_changed"
LISTEN = {"resourcesListChanged": True, "resourceSubscriptions": ["run:observations/1.txt"]}


class Hearing:
    """Takes what a client of the handshake era is told."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        """Take one message."""
        if type(message).__name__ == "ResourceListChangedNotification":
            self.heard.set()


async def _cut(asked: Client) -> list[str]:
    """Make a call whose output is cut, and give the resources there are then."""
    args = {"template": "{{#n}}{{.}}\n{{/n}}", "data": {"n": list(range(100))}}
    result = await asked.call_tool("render_template", args)
    assert not result.is_error
    return [str(item.uri) for item in (await asked.list_resources()).resources]


async def _promised(era: str, asked: Client) -> Any:
    """What the server says that it tells of resources."""
    if era == "stateless":
        return (await asked.session.send_discover("2026-07-28"))["capabilities"]["resources"]
    return asked.server_capabilities.model_dump(by_alias=True)["resources"]


@WAYS
async def test_a_client_hears_of_a_file_that_the_run_keeps(
    work: Path, own_user: Path, tmp_path: Path, end: str, era: str
) -> None:
    """However it is connected; the list has the file, and no single resource was promised to be told of."""
    config, hearing = tmp_path / "settings.toml", Hearing()
    config.write_text("limits.max_output_lines = 10\n")
    async with asyncio.timeout(60), client(end, era, work, config, message_handler=hearing) as asked:
        assert await _promised(era, asked) == {"subscribe": False, "listChanged": True}
        if era == "handshake":
            found = await _cut(asked)
            await hearing.heard.wait()
        else:
            async with asked.listen(resources_list_changed=True) as stream:
                found = await _cut(asked)
                async for event in stream:
                    assert type(event).__name__ == "ResourcesListChanged"
                    break
    assert [uri.startswith("run:observations/") for uri in found] == [True]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only shortly for more before a list is told of."""
    monkeypatch.setattr(news, "TOGETHER_SECONDS", 0.3)


def _times(talk: Talk) -> int:
    return sum(message.get("method") == CHANGED for message in talk.heard)


@ENDS
@ERAS
async def test_files_that_are_written_into_the_run_are_told_of_together(
    work: Path, own_user: Path, soon: None, modern: bool, sdk: bool
) -> None:
    """Once for all of a while; what is written elsewhere, or fails, is no news."""
    async with Door(Opening(str(work), SETTINGS)) as door:
        talk = Talk(door, modern=modern, sdk=sdk)
        await talk.greet()
        if sdk:
            door.news.tell = talk.codec._bridge.resources_changed
        if modern:
            talk.say("subscriptions/listen", {"notifications": LISTEN}, "L")
            told = await talk.until(lambda message: "acknowledged" in str(message.get("method")))
            assert told["params"]["notifications"] == {"resourcesListChanged": True}
        await talk.call("write_file", {"path": "here.txt", "content": "x"})
        await talk.call("write_file", {"path": "run:deliverables/../../x", "content": "x"})
        assert door.news._telling is None
        for number in range(3):
            result = await talk.call("write_file", {"path": f"run:deliverables/{number}.txt", "content": "x"})
            assert not result["isError"], result
        await talk.until(lambda message: message.get("method") == CHANGED)
        assert _times(talk) == 1
        listed = (await talk.ask("resources/list"))["result"]["resources"]
        assert [item["uri"] for item in listed] == [f"run:deliverables/{number}.txt" for number in range(3)]
        await talk.close()
