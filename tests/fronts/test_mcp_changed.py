"""Settings that change on disk while `handrail mcp` runs: every client is told, however it is connected."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client

from fronts.mcp_process import WAYS, client
from handrail.errors import Code, Problem, SettingsFault
from handrail.front.mcp import watch
from handrail.front.mcp.door import Door

BEFORE, AFTER = 'tools.enable = ["fs"]\n', 'tools.enable = ["fs", "exec"]\n'


class Hearing:
    """Takes what a client of the handshake era is told."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self._news = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        """Take one message."""
        kind = type(message).__name__
        if "ListChanged" in kind:
            self.changed.add(kind.removesuffix("Notification"))
            self._news.set()

    async def all_three(self) -> None:
        """Wait until all lists are told of."""
        while len(self.changed) < 3:
            self._news.clear()
            await self._news.wait()


async def _told(era: str, asked: Client, hearing: Hearing, config: Path) -> set[str]:
    """Change the settings, and give the lists that the client is told of."""
    if era == "handshake":
        config.write_text(AFTER)
        await hearing.all_three()
        return hearing.changed
    told: set[str] = set()
    listening = asked.listen(tools_list_changed=True, resources_list_changed=True, prompts_list_changed=True)
    async with listening as stream:
        config.write_text(AFTER)
        async for event in stream:
            told.add(type(event).__name__)
            if len(told) == 3:
                break
    return told


async def _promised(era: str, asked: Client) -> dict[str, bool]:
    """Of which lists the server says that it tells when they change."""
    if era == "stateless":
        offered = (await asked.session.send_discover("2026-07-28"))["capabilities"]
    else:
        offered = asked.server_capabilities.model_dump(by_alias=True)
    return {name: offered[name]["listChanged"] for name in ("tools", "resources", "prompts")}


@WAYS
async def test_a_client_hears_that_the_settings_file_has_changed(
    work: Path, own_user: Path, tmp_path: Path, end: str, era: str
) -> None:
    """Of all three lists, as it was promised, from a process that nobody but the file told; what it lists is new."""
    config, hearing = tmp_path / "settings.toml", Hearing()
    config.write_text(BEFORE)
    async with asyncio.timeout(60), client(end, era, work, config, message_handler=hearing) as asked:
        promised = await _promised(era, asked)
        before = {item.name for item in (await asked.list_tools()).tools}
        told = await _told(era, asked, hearing, config)
        after = {item.name for item in (await asked.list_tools()).tools}
    assert (
        sorted(told)
        == {
            "handshake": ["PromptListChanged", "ResourceListChanged", "ToolListChanged"],
            "stateless": ["PromptsListChanged", "ResourcesListChanged", "ToolsListChanged"],
        }[era]
    )
    assert promised == {"tools": True, "resources": True, "prompts": True}
    assert ("run_command" in before, "run_command" in after, before <= after) == (False, True, True)


class Failing:
    """A door whose run cannot be opened anew."""

    is_open = True

    def __init__(self, error: Exception) -> None:
        self.error = error

    def differs(self) -> bool:
        """Whether the settings have changed."""
        return True

    async def reopen(self, patience: float) -> bool:
        """Fail."""
        raise self.error


@pytest.mark.parametrize(
    "error", [SettingsFault("no"), Problem(Code.IO_ERROR, "no"), OSError(errno.ENOSPC, "no")], ids=repr
)
async def test_a_change_that_cannot_be_taken_is_told_and_watching_goes_on(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it fails with: the settings, the records or the disk."""

    async def changed() -> None:
        raise AssertionError("nothing has changed")

    assert await watch._taken(cast("Door", Failing(error)), changed, 0.0)
    assert "cannot be taken" in caplog.text
