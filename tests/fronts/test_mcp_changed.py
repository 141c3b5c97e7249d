"""Settings that change on disk while `handrail mcp` runs: every client is told, however it is connected."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp import Client
from mcp_types import NotificationParams

from fronts.mcp_process import WAYS, client
from handrail.errors import Code, Problem, SettingsFault
from handrail.front.mcp.door import Door
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.server import MOST_SESSIONS, SdkServer
from handrail.front.mcp.watch import AGAIN, HOLD_BACK, Watch
from handrail.settings import Loaded, load

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


class Stub:
    """A door to settings that say something else now, with what becomes of taking them."""

    is_open = True

    def __init__(self, *ends: Exception | bool) -> None:
        self.loaded = load(Path("/"), config={}, environment={})
        self._ends = list(ends)
        self.patience: list[float] = []

    def settings(self) -> Loaded:
        """The settings as they are now."""
        return self.loaded

    def differs(self, _: Loaded) -> bool:
        """Whether they are others."""
        return True

    async def reopen(self, patience: float) -> bool:
        """End as is said."""
        self.patience.append(patience)
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


class Told:
    """Counts how often clients are told."""

    times = 0

    async def __call__(self) -> None:
        """Tell."""
        self.times += 1


def watching(stub: Stub, told: Told) -> Watch:
    """A watch that has seen other settings."""
    made = Watch(cast("Door", stub), told)
    made._seen = ()
    return made


@pytest.mark.parametrize(
    "error",
    [SettingsFault("no"), Problem(Code.IO_ERROR, "no"), OSError(errno.ENOSPC, "no"), RuntimeError("no")],
    ids=repr,
)
async def test_a_change_that_cannot_be_taken_is_told_once_and_tried_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it fails with: the settings, the records, the disk, or what nobody foresaw."""
    stub, told = Stub(error, error, True), Told()
    watch = watching(stub, told)
    for _ in range(2 * AGAIN):
        await watch.look()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert caplog.messages[0].endswith(str(error))
    assert (told.times, stub._ends, caplog.messages[1]) == (1, [], "the settings have changed and count from now on")


async def test_calls_that_overlap_do_not_keep_a_change_out_for_ever() -> None:
    """New ones are held back from time to time, and longer each time."""
    stub = Stub(*[False] * (3 * HOLD_BACK))
    watch = watching(stub, Told())
    for _ in range(3 * HOLD_BACK):
        await watch.look()
    at_once = [0.0] * (HOLD_BACK - 1)
    assert stub.patience == [*at_once, 10.0, *at_once, 20.0, *at_once, 40.0]


class Session:
    """A client of the handshake era; another one leaves while it is told."""

    def __init__(self, known: dict[int, Any]) -> None:
        self._known = known
        self.heard = 0

    async def send_tool_list_changed(self) -> None:
        """Hear of the tools."""
        self._known.pop(2, None)
        self.heard += 1

    send_resource_list_changed = send_prompt_list_changed = send_tool_list_changed


async def test_a_session_that_ends_while_others_are_told_fails_nobody() -> None:
    """It may be gone when its turn comes."""
    server = SdkServer(Door(Opening()))
    first = server._sessions[1] = Session(server._sessions)
    second = server._sessions[2] = Session(server._sessions)
    await server.changed()
    assert (first.heard, second.heard, list(server._sessions)) == (3, 0, [1])


async def test_one_client_that_greets_over_and_over_leaves_the_others_told() -> None:
    """The SDK makes a session for each of its greetings; it counts as one."""
    server = SdkServer(Door(Opening()))
    first, second = object(), object()
    for greeting in (first, *[second] * (MOST_SESSIONS + 1)):
        session = SimpleNamespace(client_params=greeting)
        await server._greeted(cast("Any", SimpleNamespace(session=session)), NotificationParams())
    assert list(server._sessions) == [id(first), id(second)]
