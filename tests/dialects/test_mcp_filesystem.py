"""The dialect of the reference MCP filesystem server: its names and shapes."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from dialects._speaking import OPEN, Speak, Voice
from handrail import dialects
from handrail.dialects.mcp_filesystem_globs import read_glob
from handrail.dialects.mcp_filesystem_told import info
from handrail.testing import ScriptedApprover
from handrail.words import Outcome, Status

ALL = [
    "read_text_file", "read_file", "read_media_file", "read_multiple_files", "write_file", "edit_file",
    "create_directory", "list_directory", "list_directory_with_sizes", "directory_tree", "move_file", "search_files",
    "get_file_info", "list_allowed_directories",
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
        assert list(say.specs()) == ALL


async def test_a_long_text_is_given_whole(speak: Speak, work: Path) -> None:
    """What a model is shown at most of a text cuts nothing that the document gives whole."""
    whole = "".join(f"line {number} of many\n" for number in range(20_000))
    (work / "long.txt").write_text(whole)
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = await say("read_text_file", path="long.txt")
    assert ([block["text"] for block in told["content"]], told["isError"]) == ([whole], False)


@pytest.mark.parametrize(
    ("args", "first", "last"),
    [
        ({"head": 5000}, 0, 5000),
        ({"tail": 5000}, 15_000, 20_000),
        ({"head": 99_999}, 0, 20_000),
        ({"tail": 99_999}, 0, 20_000),
        ({"head": 3}, 0, 3),
        ({"tail": 3}, 19_997, 20_000),
        ({"head": 0, "tail": 0}, 0, 20_000),
        ({"head": 2, "tail": 0}, 0, 2),
    ],
)
async def test_all_lines_that_are_asked_for_are_given(
    speak: Speak, work: Path, args: dict[str, int], first: int, last: int
) -> None:
    """However many a model is shown, and with no word of a cut; 0 is what clients send that mean nothing by it."""
    lines = [f"line {number} of many\n" for number in range(20_000)]
    (work / "long.txt").write_text("".join(lines))
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = await say("read_text_file", path="long.txt", **args)
    assert [block["text"] for block in told["content"]] == ["".join(lines[first:last])]
    assert (say.last.truncation, say.last.summary) == (None, f"Lines {first + 1}-{last} of 20000 of long.txt")


async def test_long_lines_and_lone_carriage_returns_are_counted_as_the_document_counts(
    speak: Speak, work: Path
) -> None:
    """A line ends with a line feed and nowhere else, however long it is."""
    long = "x" * 30_000 + "\n"
    (work / "wide.txt").write_text(long * 3 + "end")
    (work / "old.txt").write_bytes(b"a\rb\nc\rd\ne\r\nf")
    ours = 'x … [line 1 goes on: read_file {"path": "a"}]\n'  # as we would end a line, and somebody has written
    (work / "ours.txt").write_text(ours * 3)
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = [
            await text(say, "read_text_file", path="wide.txt", head=2),
            await text(say, "read_text_file", path="wide.txt", tail=2),
            await text(say, "read_text_file", path="old.txt", head=2),
            await text(say, "read_text_file", path="old.txt", tail=3),
            await text(say, "read_text_file", path="ours.txt", head=1),
        ]
    assert told == [long * 2, long + "end", "a\rb\nc\rd\n", "c\rd\ne\r\nf", ours]


async def test_of_a_file_too_large_to_be_read_whole_a_part_is_given_that_says_so(speak: Speak, work: Path) -> None:
    """And a whole that is refused names a call that works, not the one that failed."""
    (work / "huge.txt").write_text("".join(f"line {number:5}\n" for number in range(6000)))
    config = {**CONFIG, "limits": {"max_read_bytes": 50_000}}
    async with speak("mcp-filesystem", config=config) as say:
        whole = await say("read_text_file", path="huge.txt")
        few = await say("read_text_file", path="huge.txt", tail=3)
        many = await say("read_text_file", path="huge.txt", head=5000)
        said, details = whole["content"][0]["text"].split("\n")
        call = json.loads(details)["next_call"]
        mended = await say(call["tool"], call["args"])
    assert (said.partition("; ")[2], call["args"]) == (
        "`head` or `tail` reads a part of it.", {"path": "huge.txt", "head": 2000},
    )  # fmt: skip
    assert [block["text"] for block in few["content"]] == ["line  5997\nline  5998\nline  5999\n"]
    shown = many["content"][0]["text"].splitlines()
    assert shown == [f"line {number:5}" for number in range(1999)]
    assert [block["text"] for block in many["content"][1:]] == [
        "[not all: 1999 of 5000 lines; no more are shown at once]"
    ]
    assert mended["isError"] is False


async def test_what_a_person_let_be_read_is_not_read_a_second_way(speak: Speak, work: Path) -> None:
    """The grant was for one call: more lines would have to be asked for anew."""
    (work / "long.txt").write_text("x\n" * 5000)
    config = {"tools": {"enable": ["fs"]}, "rules": [{"effect": "ask", "touch": "fs.read"}]}
    async with speak("mcp-filesystem", config=config, approver=ScriptedApprover("once")) as say:
        told = await say("read_text_file", path="long.txt", head=4000)
        asked = [event["kind"] for event in say.journal() if event["kind"] == "tool.started"]
    assert (len(asked), told["content"][1]["text"]) == (1, "[not all: 1999 of 4000 lines; no more are shown at once]")


async def test_several_files_are_judged_one_by_one(speak: Speak, project: Path) -> None:
    """Those that may be read are; the journal has a call for each, and the denial of one."""
    (project / ".env").write_text("KEY=1\n")
    paths = ["a.txt", ".env", "none.txt", "../out.txt", "src/b.py"]
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        told = (await text(say, "read_multiple_files", paths=paths)).split("\n---\n")
        ends = [event for event in say.journal() if event["kind"] in ("tool.completed", "tool.failed")]
    assert (told[0], told[4]) == ("a.txt:\none\ntwo\nthree\n\n", "src/b.py:\nx = 1\n\n")
    assert [line.partition(" does not")[0].partition("Denied")[0] for line in told[1:4]] == [
        ".env: Error - PATH_PROTECTED: ",
        "none.txt: Error - NOT_FOUND: none.txt",
        "../out.txt: Error - PATH_OUTSIDE_ROOTS: ",
    ]
    assert [event.get("code") for event in ends] == [None, "PATH_PROTECTED", "NOT_FOUND", "PATH_OUTSIDE_ROOTS", None]


async def test_no_file_at_all_is_a_wrong_call(speak: Speak) -> None:
    """Refused, and on record."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = await say("read_multiple_files", paths=[])
    assert (told["isError"], "INVALID_ARGS" in told["content"][0]["text"]) == (True, True)


async def test_the_preset_replaces_files_and_guards_credentials(speak: Speak, project: Path) -> None:
    """By absolute paths too; a file of credentials is neither read nor replaced without a person."""
    (project / ".env").write_text("KEY=1\n")
    async with speak("mcp-filesystem", start="mcp-filesystem", mode="headless") as say:
        await text(say, "write_file", path=str(project / "a.txt"), content="new")
        refused = [
            await say("write_file", path=".env", content=""),
            await say("read_text_file", path=".env"),
            await say("write_file", path="../x.txt", content=""),
        ]
    assert [told["isError"] for told in refused] == [True, True, True]
    assert ((project / "a.txt").read_text(), (project / ".env").read_text()) == ("new", "KEY=1\n")


async def test_a_denied_folder_is_denied_however_many_calls_it_takes(speak: Speak, project: Path) -> None:
    """Lists and searches go through the same gates as single calls."""
    rules = [{"effect": "deny", "touch": "fs.read", "target": "src/**"}]
    async with speak("mcp-filesystem", config={"tools": {"enable": ["fs"]}, "rules": rules}) as say:
        tree = json.loads(await text(say, "directory_tree", path="."))
        found = await text(say, "search_files", path=".", pattern="**/*.py")
        read = await text(say, "read_multiple_files", paths=["src/b.py"])
    assert ([item["name"] for item in tree if item["name"] == "a.txt"], found) == (["a.txt"], "No matches found")
    assert ("b.py" in json.dumps(tree), read.startswith("src/b.py: Error - POLICY_DENIED")) == (False, True)


async def test_a_tree_is_whole_also_below_the_depth_of_one_call(speak: Speak, work: Path) -> None:
    """And wider than one page."""
    deep = work.joinpath(*(f"d{number}" for number in range(13)))
    deep.mkdir(parents=True)
    (deep / "end.txt").write_text("")
    for number in range(1500):
        (work / f"file{number:04}.txt").write_text("")
    async with speak("mcp-filesystem", config=CONFIG) as say:
        tree = json.loads(await text(say, "directory_tree", path="."))
    names, node = list[str](), tree[0]
    while "children" in node:
        names.append(node["name"])
        node = node["children"][0]
    assert ([*names, node["name"]], len(tree)) == ([*(f"d{number}" for number in range(13)), "end.txt"], 1501)


async def test_a_list_that_is_too_long_says_that_it_is_cut(
    speak: Speak, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a block of its own, so that the first one is what the document gives."""
    monkeypatch.setattr("handrail.dialects.mcp_filesystem_steps.MOST_PAGES", 2)
    for number in range(3000):
        (work / f"file{number:04}.txt").write_text("")
    async with speak("mcp-filesystem", config={**CONFIG, "limits": {"max_output_lines": 500}}) as say:
        listed = await say("list_directory", path=".")
        tree = await say("directory_tree", path=".")
    shown = len(listed["content"][0]["text"].splitlines())
    assert (shown, len(json.loads(tree["content"][0]["text"]))) == (998, 998)
    for told in (listed, tree):
        assert [block["text"] for block in told["content"][1:]] == [
            "[not all: 998 of 3000 entries; ask for a part of it]"
        ]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "x/y/a.py", True),
        ("src/**", "src/a/b", True),
        ("{a,b}.txt", "b.txt", True),
        ("*", ".hidden", True),
        ("a" * 40 + "*" * 40 + "b", "a" * 80, False),
        ("/".join(["**"] * 20) + "/z", "/".join("abcdefghijklmnopqrstuvwxy"), False),
    ],
)
def test_globs_fit_as_the_document_means_them(pattern: str, path: str, expected: bool) -> None:
    """Within names, across names, and in no more time than it takes to look."""
    assert read_glob(pattern).fits(path) is expected


async def test_media_and_folders_that_can_be_reached(speak: Speak, work: Path) -> None:
    """An image and a sound as such, the rest as a resource; the workspace's own path."""
    for name in ("i.png", "s.mp3", "x y.bin"):
        (work / name).write_bytes(b"\x00\x01\xff")
    async with speak("mcp-filesystem", config=CONFIG) as say:
        blocks = [(await say("read_media_file", path=name))["content"][0] for name in ("i.png", "s.mp3", "x y.bin")]
        roots = await text(say, "list_allowed_directories")
    assert blocks == [
        {"type": "image", "data": "AAH/", "mimeType": "image/png"},
        {"type": "audio", "data": "AAH/", "mimeType": "audio/mpeg"},
        {
            "type": "resource",
            "resource": {
                "uri": (work.resolve() / "x y.bin").as_uri(), "mimeType": "application/octet-stream", "blob": "AAH/",
            },
        },
    ]  # fmt: skip
    assert roots == f"Allowed directories:\n{work.resolve()}"


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


@pytest.mark.parametrize("path", [".", "{}", "{}/"])
async def test_a_folder_that_can_be_reached_is_made_again_without_a_change(
    speak: Speak, project: Path, path: str
) -> None:
    """create_directory at the allowed folder itself is as fine as at any other that is there."""
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        said = await text(say, "create_directory", path=path.format(project))
    assert (said, sorted(item.name for item in project.iterdir())) == (
        "Successfully created directory .", ["a.txt", "src"],
    )  # fmt: skip


async def test_sizes_and_tree(speak: Speak, project: Path) -> None:
    """list_directory_with_sizes and directory_tree."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        sizes = await text(say, "list_directory_with_sizes", path=".", sortBy="size")
        tree = await text(say, "directory_tree", path=".", excludePatterns=["*.txt"])
    assert sizes.splitlines()[-2:] == ["Total: 1 files, 1 directories", "Combined size: 14 B"]
    assert json.loads(tree) == [{"name": "src", "type": "directory", "children": [{"name": "b.py", "type": "file"}]}]


async def test_a_folder_with_many_files_is_moved_and_put_back(speak: Speak, work: Path) -> None:
    """Nobody is asked, as that server asks nobody; here it can be undone."""
    names = [f"d{number % 3}/file{number}.txt" for number in range(60)]
    for name in names:
        (work / "many" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "many" / name).write_text(name)
    async with speak("mcp-filesystem", start="mcp-filesystem", mode="headless") as say:
        said = await text(say, "move_file", source="many", destination="moved")
        moved = {name: (work / "moved" / name).read_text() for name in names}
        await say.runtime.undo(say.last.call_id)
    assert (said, moved) == ("Successfully moved many to moved", {name: name for name in names})
    assert {name: (work / "many" / name).read_text() for name in names} == moved
    assert (work / "moved").exists() is False


async def test_search_and_info(speak: Speak, project: Path) -> None:
    """search_files and get_file_info."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        found = await text(say, "search_files", path=".", pattern="**/*.py")
        (project / "a.txt").chmod(0o640)
        os.utime(project / "a.txt", (1_700_000_000, 951_782_400))
        info = (await text(say, "get_file_info", path="a.txt")).split("\n")
        made = datetime.fromisoformat(say.last.data["birthtime"])
    zone = "GMT+0000 (Coordinated Universal Time)"
    assert found == "src/b.py"
    assert info == [
        "size: 14",
        f"created: {made:%a %b %d %Y %H:%M:%S} {zone}",
        f"modified: Tue Feb 29 2000 00:00:00 {zone}",
        f"accessed: Tue Nov 14 2023 22:13:20 {zone}",
        "isDirectory: false",
        "isFile: true",
        "permissions: 640",
    ]


def test_a_file_whose_birth_nobody_knows_was_made_at_the_beginning() -> None:
    """That server says so where the file system does not tell."""
    times = {"mtime": "2023-11-14T22:13:20Z", "atime": "9999-12-31T23:59:59Z", "birthtime": None}
    data = {"path": "d", "type": "directory", "size": 1, "mode": "0755", "target": None, **times}
    outcome = Outcome("call-1", "stat_path", "1.0.0", Status.OK, "", "", data, None, ())
    assert info(outcome, {}).split("\n")[1:4] == [
        "created: Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",
        "modified: Tue Nov 14 2023 22:13:20 GMT+0000 (Coordinated Universal Time)",
        "accessed: Fri Dec 31 9999 23:59:59 GMT+0000 (Coordinated Universal Time)",
    ]


async def test_an_error_is_told_as_mcp_tells_it(speak: Speak) -> None:
    """isError, and the text says what to do."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        told = await say("read_text_file", path="../x")
    assert (told["isError"], "PATH_OUTSIDE_ROOTS" in told["content"][0]["text"]) == (True, True)


def test_the_parameters_of_tools_call_are_a_message() -> None:
    """`{"name", "arguments"}`."""
    asked = dialects.get("mcp-filesystem").messages({"name": "list_directory", "arguments": {"path": "."}}).calls[0]
    assert (asked.tool, asked.args) == ("list_directory", {"path": "."})
