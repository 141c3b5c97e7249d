"""The dialect of the reference MCP filesystem server: its names and shapes, as far as our tools serve them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialects._speaking import OPEN, Speak, Voice
from handrail import dialects

TEN = [
    "read_text_file", "write_file", "edit_file", "create_directory", "list_directory", "list_directory_with_sizes",
    "directory_tree", "move_file", "search_files", "get_file_info",
]  # fmt: skip
CONFIG = {"tools": {"enable": ["fs"]}, **OPEN}


async def text(say: Voice, tool: str, **args: object) -> str:
    """The text that a call gives."""
    told = await say(tool, **args)
    assert told["isError"] is False, told
    return str(told["content"][0]["text"])


@pytest.fixture
def project(work: Path) -> Path:
    """A few files."""
    (work / "src").mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / "src/b.py").write_text("x = 1\n")
    return work


async def test_its_tools_are_listed(speak: Speak) -> None:
    """As the reference server names them."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        assert list(say.specs()) == TEN


@pytest.mark.parametrize("name", ["read_media_file", "read_multiple_files", "list_allowed_directories"])
async def test_what_is_not_served_says_why(speak: Speak, name: str) -> None:
    """And what to use instead."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = await say(name)
    assert (told["isError"], "is not served in the dialect mcp-filesystem" in told["content"][0]["text"]) == (
        True,
        True,
    )


async def test_read_text_file_gives_the_text_its_head_or_its_tail(speak: Speak, project: Path) -> None:
    """Also under its former name, read_file."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = [
            await text(say, "read_text_file", path="a.txt"),
            await text(say, "read_text_file", path="a.txt", head=1),
            await text(say, "read_text_file", path="a.txt", tail=1),
            await text(say, "read_file", path="a.txt", head=2),
        ]
    assert told == ["one\ntwo\nthree\n", "one\n", "three\n", "one\ntwo\n"]


async def test_write_file_replaces_what_is_there(speak: Speak, project: Path) -> None:
    """Where policy lets it."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        said = await text(say, "write_file", path="a.txt", content="new")
    assert (said, (project / "a.txt").read_text()) == ("Successfully wrote to a.txt", "new")


async def test_edit_file_shows_the_diff_and_writes_unless_dry(speak: Speak, project: Path) -> None:
    """oldText and newText; dryRun."""
    edits = [{"oldText": "two", "newText": "TWO"}]
    async with speak("mcp-filesystem", config=CONFIG) as say:
        dry = await text(say, "edit_file", path="a.txt", edits=edits, dryRun=True)
        before = (project / "a.txt").read_text()
        wet = await text(say, "edit_file", path="a.txt", edits=edits)
    assert ("-two\n+TWO\n" in dry, before, dry == wet) == (True, "one\ntwo\nthree\n", True)
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"


async def test_folders_are_made_listed_and_moved(speak: Speak, project: Path) -> None:
    """create_directory, list_directory, move_file."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        await text(say, "create_directory", path="x/y")
        await text(say, "move_file", source="a.txt", destination="x/y/a.txt")
        told = await text(say, "list_directory", path="."), await text(say, "list_directory", path="x/y")
    assert told == ("[DIR] src\n[DIR] x", "[FILE] a.txt")


async def test_sizes_and_tree(speak: Speak, project: Path) -> None:
    """list_directory_with_sizes and directory_tree."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        sizes = await text(say, "list_directory_with_sizes", path=".", sortBy="size")
        tree = await text(say, "directory_tree", path=".", excludePatterns=["*.txt"])
    assert sizes.splitlines()[-2:] == ["Total: 1 files, 1 directories", "Combined size: 14 B"]
    assert json.loads(tree) == [{"name": "src", "type": "directory", "children": [{"name": "b.py", "type": "file"}]}]


async def test_search_and_info(speak: Speak, project: Path) -> None:
    """search_files and get_file_info."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        found = await text(say, "search_files", path=".", pattern="*.py")
        info = await text(say, "get_file_info", path="a.txt")
    assert (found, "size: 14" in info, "isFile: true" in info) == ("src/b.py", True, True)


async def test_an_error_is_told_as_mcp_tells_it(speak: Speak) -> None:
    """isError, and the text says what to do."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = await say("read_text_file", path="../x")
    assert (told["isError"], "PATH_OUTSIDE_ROOTS" in told["content"][0]["text"]) == (True, True)


def test_the_parameters_of_tools_call_are_a_message() -> None:
    """`{"name", "arguments"}`."""
    asked = dialects.get("mcp-filesystem").messages({"name": "list_directory", "arguments": {"path": "."}}).calls[0]
    assert (asked.tool, asked.args) == ("list_directory", {"path": "."})
