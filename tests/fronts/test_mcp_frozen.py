"""Nobody who can write a project's files decides whether a change of the operator's settings counts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from handrail.front.mcp.door import Door
from handrail.front.mcp.ongoing import Ongoing, Peer
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.watch import AGAIN, Watch
from handrail.settings import trust_store, user_file

ENABLED = 'tools.enable = ["fs"]\n'
DENIED = f'{ENABLED}[[rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "a.txt"\n'
UNMATCHED = '[[tool.handrail.rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "x"\nmatches = ["y"]\n'


class Place:
    """A server's door with the files around it."""

    def __init__(self, work: Path, door: Door) -> None:
        self.work, self.door, self.watch, self.told = work, door, Watch(door, self._changed), 0

    async def _changed(self) -> None:
        self.told += 1

    async def reads(self, name: str) -> bool:
        """Whether a file may be read."""
        called = {"name": "read_file", "arguments": {"path": name}}
        return not (await self.door.call(Ongoing(Peer("2025-11-25"), "read_file"), called))["isError"]


@pytest.fixture
async def place(work: Path) -> AsyncIterator[Place]:
    """A door to the user's own settings, which enable files."""
    for name in ("a.txt", "b.txt"):
        (work / name).write_text(f"{name}\n")
    user_file().parent.mkdir(parents=True)
    user_file().write_text(ENABLED)
    async with Door(Opening(str(work))) as door:
        yield Place(work, door)


def _written(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "an unknown key": (_written("[tool.handrail]\nnot_a_setting = 1\n"), "pyproject.toml:2: not_a_setting"),
    "no TOML": (_written('[tool.handrail]\nx = "broken'), "pyproject.toml:2: is not TOML"),
    "no table": (_written("[tool]\nhandrail = 1\n"), "pyproject.toml:2: tool.handrail: expected a table"),
    "a rule that misses its example": (_written(UNMATCHED), "pyproject.toml:1"),
    "too deep": (_written("[tool.handrail]\na = " + "[" * 20_000), "pyproject.toml:2: is nested deeper"),
    "too large": (_written("#handrail\n" * 200_000), "pyproject.toml: is larger"),
    "a folder": (Path.mkdir, "pyproject.toml: is not a file"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_file_of_the_project_keeps_no_change_of_the_operator_out(
    place: Place, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Alone it changes nothing, and is told once; what the operator says next counts."""
    broken, why = BROKEN[name]
    broken(place.work / "pyproject.toml")
    for _ in range(2 * AGAIN):
        await place.watch.look()
    said = [message for message in caplog.messages if why in message]
    assert (len(caplog.messages), len(said), await place.reads("a.txt"), place.told) == (1, 1, True, 0)
    user_file().write_text(DENIED)
    await place.watch.look()
    assert (await place.reads("a.txt"), await place.reads("b.txt"), place.told) == (False, True, 1)
    assert caplog.messages[-1] == "the settings have changed and count from now on"


async def test_what_the_project_said_before_its_file_broke_still_narrows(place: Place) -> None:
    """Breaking it must not be a way out of it either."""
    project = place.work / "handrail.toml"
    project.write_text('[[rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "b.txt"\n')
    await place.watch.look()
    project.write_text("broken")
    user_file().write_text(DENIED)
    await place.watch.look()
    assert (await place.reads("a.txt"), await place.reads("b.txt"), place.told) == (False, False, 2)
    why = place.door.loaded.fault
    assert (why.startswith("handrail.toml:1: is not TOML"), place.door.loaded.warnings) == (True, (why,))


async def test_trust_can_be_taken_from_a_file_that_is_broken_now(place: Place) -> None:
    """What it said while it was trusted widens no longer."""
    project = place.work / "handrail.toml"
    project.write_text('tools.enable = ["fs", "exec"]\n')
    trust_store().trust(project)
    await place.watch.look()
    trusted = place.door.runtime.parts.loaded.settings.tools.enable
    project.write_text("broken")
    trust_store().forget(project)
    await place.watch.look()
    assert (trusted, place.door.runtime.parts.loaded.settings.tools.enable) == (("fs", "exec"), ("fs",))


async def test_a_mistake_in_the_operators_own_file_leaves_what_counted(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told with its place, also where the project's file is broken too, and the mended file counts."""
    (place.work / "pyproject.toml").write_text("[tool.handrail]\nnot_a_setting = 1\n")
    user_file().write_text(f"{DENIED}nonsense = 1\n")
    await place.watch.look()
    assert (f"{user_file()}:6" in caplog.text, await place.reads("a.txt"), place.told) == (True, True, 0)
    user_file().write_text(DENIED)
    await place.watch.look()
    assert (await place.reads("a.txt"), place.told) == (False, 1)


async def test_what_is_not_taken_from_a_file_that_nobody_trusts_is_told(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """When it comes, once, and whenever the settings are said to count."""
    project = place.work / "handrail.toml"
    project.write_text('tools.enable = ["fs", "exec"]\n')
    for _ in range(3):
        await place.watch.look()
    assert [(message.startswith("handrail.toml:1"), "trust" in message) for message in caplog.messages] == [
        (True, True)
    ]
    user_file().write_text(DENIED)
    await place.watch.look()
    assert caplog.messages[-1] == "the settings have changed and count from now on, but for what is warned of"
    assert caplog.messages[0] in caplog.messages[1:]
    caplog.clear()
    async with Door(Opening(str(place.work))):
        assert [message.startswith("handrail.toml:1") for message in caplog.messages] == [True]


def _trusted(place: Place, text: str) -> None:
    """Have the project's file say something that a person reviewed."""
    project = place.work / "handrail.toml"
    project.write_text(text)
    trust_store().trust(project)


async def test_a_project_file_that_no_run_can_be_opened_with_shuts_nobody_out(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be read, so the run was closed for it; what it said before counts, and the operator is told once."""
    _trusted(place, 'workspace.root = "nowhere"\n')
    run = place.door.runtime.run_id
    for _ in range(3 * AGAIN):
        await place.watch.look()
    why = "handrail.toml: no run can be opened with it: "
    assert [message.count(why) for message in caplog.messages] == [1]
    assert (await place.reads("a.txt"), place.told) == (True, 0)
    assert (place.door.runtime.run_id, place.door.loaded.fault.startswith(why)) == (run, True)
    (place.work / "nowhere").mkdir()
    _trusted(place, 'workspace.root = "nowhere" # is there now\n')
    await place.watch.look()
    assert (place.door.loaded.fault, place.door.loaded.settings.workspace.root, place.told) == (
        "",
        str(place.work / "nowhere"),
        1,
    )


async def test_a_project_file_that_no_run_can_be_opened_with_keeps_no_change_of_the_operator_out(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Written at the same time or before it: what the operator says counts, under what the project said before."""
    _trusted(place, '[[rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "b.txt"\n')
    await place.watch.look()
    _trusted(place, 'workspace.root = "nowhere"\n')
    user_file().write_text(DENIED)
    await place.watch.look()
    assert (await place.reads("a.txt"), await place.reads("b.txt"), place.told) == (False, False, 2)
    assert "its former ones still count: handrail.toml: no run can be opened" in caplog.text
    user_file().write_text(ENABLED)
    await place.watch.look()
    assert (await place.reads("a.txt"), await place.reads("b.txt"), place.told) == (True, False, 3)


async def test_settings_of_the_operator_that_no_run_can_be_opened_with_still_refuse_every_call(place: Place) -> None:
    """The project's file, which is as it was or fits no worse, is not what is left out for them."""
    (place.work / "handrail.toml").write_text('tools.disable = ["delete_path"]\n')
    user_file().write_text(f'{ENABLED}workspace.root = "{place.work}/nowhere"\n')
    await place.watch.look()
    assert not place.door.is_open
    user_file().write_text(ENABLED)
    await place.watch.look()
    assert (place.door.is_open, place.door.loaded.settings.tools.disable) == (True, ("delete_path",))


async def test_a_file_that_could_not_be_taken_is_tried_again(place: Place) -> None:
    """What stood in the way of it, here a folder that was missing, may be gone; nobody has to change the file."""
    project = place.work / "handrail.toml"
    project.write_text(f'workspace.root = "sub"\n{DENIED}')
    trust_store(os.environ).trust(project)
    await place.watch.look()
    assert (await place.reads("b.txt"), place.told) == (True, 0)
    (place.work / "sub").mkdir()
    for _ in range(AGAIN):
        await place.watch.look()
    assert (await place.reads("b.txt"), place.told) == (False, 1)
    assert place.door.loaded.settings.workspace.root == str(place.work / "sub")
