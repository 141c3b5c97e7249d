"""The dialect mcp-filesystem beside the reference server itself: the same calls, the same answers."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fronts._node import FILESYSTEM, modules, node_of

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HANDRAIL = str(Path(sys.executable).with_name("handrail"))
OURS = [HANDRAIL, "mcp", "--dialect", "mcp-filesystem", "--preset", "mcp-filesystem"]
ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "both", "version": "1"}}
Call = tuple[str, dict[str, Any]]

# `@` stands for the folder that is served. What succeeds must be told in the same words.
SAME: list[Call] = [
    ("list_allowed_directories", {}),
    ("read_text_file", {"path": "@/a.txt"}),
    ("read_file", {"path": "@/a.txt"}),
    ("read_text_file", {"path": "@/a.txt", "head": 2}),
    ("read_text_file", {"path": "@/a.txt", "head": 9}),
    ("read_text_file", {"path": "@/long.txt"}),
    ("read_text_file", {"path": "@/empty.txt"}),
    ("read_text_file", {"path": "@/empty.txt", "head": 2}),
    ("read_text_file", {"path": "@/empty.txt", "tail": 2}),
    ("read_text_file", {"path": "@/long.txt", "head": 4000}),
    ("read_text_file", {"path": "@/long.txt", "head": 9000}),
    ("read_text_file", {"path": "@/long.txt", "head": 2, "tail": 0}),
    ("read_file", {"path": "@/wide.txt", "head": 150}),
    ("read_file", {"path": "@/wide.txt", "tail": 150}),
    ("read_text_file", {"path": "@/wide.txt", "tail": 0}),
    ("read_text_file", {"path": "@/crlf.txt", "head": 2}),
    ("read_text_file", {"path": "@/crlf.txt", "tail": 2}),
    ("read_text_file", {"path": "@/cr.txt", "head": 1}),
    ("read_text_file", {"path": "@/cr.txt", "tail": 1}),
    ("read_media_file", {"path": "@/i.png"}),
    ("read_media_file", {"path": "@/I.PNG"}),
    ("read_media_file", {"path": "@/s.mp3"}),
    ("read_media_file", {"path": "@/x y%.bin"}),
    ("read_media_file", {"path": "@/a.txt"}),
    ("read_media_file", {"path": "x y%.bin"}),
    ("read_media_file", {"path": "./src/../br{a,b}*.bin"}),
    ("read_text_file", {"path": "@/a.txt", "head": 2.0}),
    ("read_multiple_files", {"paths": ["@/a.txt", "@/src/b.py"]}),
    ("read_multiple_files", {"paths": ["@/long.txt", "@/empty.txt"]}),
    ("list_directory", {"path": "@"}),
    ("list_directory", {"path": "@/src"}),
    ("list_directory", {"path": "@/none"}),
    ("list_directory_with_sizes", {"path": "@"}),
    ("list_directory_with_sizes", {"path": "@", "sortBy": "size"}),
    ("directory_tree", {"path": "@"}),
    ("directory_tree", {"path": "@", "excludePatterns": ["*.txt", "src"]}),
    ("directory_tree", {"path": "@", "excludePatterns": ["**/*.py"]}),
    *(
        (tool, {"path": path, "excludePatterns": [glob], **more})
        for glob in ("many/**", "**/*/**", "[^a]*.txt", "\\*.txt", "{src,many}", "!src", "many/", "?.txt", "**.txt")
        for tool, path, more in (("directory_tree", "@", {}), ("search_files", "many/..", {"pattern": "**/*.*y"}))
    ),
    *(
        ("search_files", {"path": "@", "pattern": glob})
        for glob in (
            "?a.md",
            "**.py",
            "[^l]*.txt",
            "src/",
            "**/",
            "*/*.py",
            "./*.py",
            "src//b.py",
            "!{none,links,**/*.txt}",
            "*.{txt}",
        )
    ),
    ("search_files", {"path": "src", "pattern": "*"}),
    ("search_files", {"path": "@", "pattern": "*.txt"}),
    ("search_files", {"path": "@", "pattern": "**/*.py"}),
    ("search_files", {"path": "@", "pattern": "src"}),
    ("search_files", {"path": "@", "pattern": "**/*.txt", "excludePatterns": ["long*"]}),
    ("search_files", {"path": "@/src", "pattern": "*.py"}),
    ("search_files", {"path": "@", "pattern": "nothing"}),
    ("edit_file", {"path": "@/a.txt", "edits": [{"oldText": "two", "newText": "TWO"}], "dryRun": True}),
    ("edit_file", {"path": "@/a.txt", "edits": [{"oldText": "two", "newText": "```"}]}),
    ("write_file", {"path": "@/new.txt", "content": "new\n"}),
    ("write_file", {"path": "@/new.txt", "content": "newer\n"}),
    ("create_directory", {"path": "@/d/e"}),
    ("create_directory", {"path": "@/d/e"}),
    ("create_directory", {"path": "@"}),
    ("move_file", {"source": "@/new.txt", "destination": "@/d/n.txt"}),
    ("read_text_file", {"path": "@/d/n.txt"}),
    ("move_file", {"source": "@/many", "destination": "@/d/more"}),
    ("read_text_file", {"path": "@/d/more/f39.txt"}),
]
# What fails must fail there, too; how to mend a call is told here in our own words.
FAILS: list[Call] = [
    ("read_text_file", {"path": "@/nothing.txt"}),
    ("read_text_file", {"path": "/etc/passwd"}),
    ("read_text_file", {"path": "@/../x"}),
    ("read_text_file", {"path": "@/links/out.txt"}),
    ("read_text_file", {}),
    ("read_text_file", {"path": "@/a.txt", "head": 1, "tail": 1}),
    ("read_file", {"path": "@/a.txt", "head": 1, "tail": 1}),
    ("read_media_file", {"path": "@/nothing.png"}),
    ("read_multiple_files", {"paths": []}),
    ("edit_file", {"path": "@/a.txt", "edits": [{"oldText": "zz", "newText": "y"}]}),
    ("move_file", {"source": "@/a.txt", "destination": "@/src/b.py"}),
    ("list_directory", {"path": "@/nothing"}),
    ("write_file", {"path": "C:\\w.txt", "content": "x"}),
    ("no_such_tool", {}),
]


@pytest.fixture
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How the reference server is started, without the folder it is to serve."""
    found = modules(FILESYSTEM, tmp_path_factory)
    return [node_of(found), str(found / FILESYSTEM / "dist" / "index.js")]


def lay_out(root: Path) -> Path:
    """The files that both serve, each a copy of its own."""
    (root / "src").mkdir(parents=True)
    (root / "none").mkdir()
    (root / "src/b.py").write_text("x = 1\n")
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "empty.txt").write_text("")
    (root / "long.txt").write_text("".join(f"line {n} of a file longer than what is shown\n" for n in range(5000)))
    (root / "wide.txt").write_text("\n".join("w" * 3000 for _ in range(200)))
    (root / "crlf.txt").write_bytes(b"a\r\nb\r\nc\r\nd")
    (root / "cr.txt").write_bytes(b"a\rb\nc\rd")
    (root / "many").mkdir()
    for number in range(40):
        (root / f"many/f{number}.txt").write_text(f"{number}\n")
    (root / "i.png").write_bytes(PNG)
    (root / "I.PNG").write_bytes(PNG)
    (root / "s.mp3").write_bytes(b"ID3\x03" + bytes(range(256)))
    (root / "x y%.bin").write_bytes(bytes(range(256)))
    (root / "br{a,b}*.bin").write_bytes(b"\x00")
    (root / "éa.md").write_text("")
    (root / ".hidden").write_text("h")
    (root / "links").mkdir()
    (root / "links/out.txt").symlink_to("/etc/hostname")
    return root


def talk(command: list[str], root: Path, calls: list[Call]) -> tuple[dict[str, Any], list[Any]]:
    """Ask one server for its tools and for every call; the tools by name, the results in order."""
    greeting = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": ABOUT},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    results = list[Any]()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            for message in greeting:
                server.stdin.write(json.dumps(message).encode() + b"\n")
            asked = [("tools/list", {}), *(("tools/call", {"name": name, "arguments": args}) for name, args in calls)]
            for number, (method, params) in enumerate(asked, 1):
                told = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                server.stdin.write(told.replace("@", str(root)).encode() + b"\n")
                server.stdin.flush()
                while (answer := json.loads(server.stdout.readline())).get("id") != number:
                    pass
                results.append(json.loads(json.dumps(answer).replace(str(root), "@")))
        finally:
            server.kill()
    return {tool["name"]: tool for tool in results[0]["result"]["tools"]}, results[1:]


def plain(answer: Any) -> Any:
    """A result without what only one of the two has: our envelope, and the word for no error."""
    if "error" in answer:
        return {"isError": True}
    result = {name: value for name, value in answer["result"].items() if name != "_meta"}
    return {"isError": True} if result.pop("isError", False) else result


def sorted_lines(result: Any) -> Any:
    """A result with its lines in order: the reference gives a folder in the order of the disk."""
    return json.loads(json.dumps(result), object_hook=lambda item: {
        name: sorted(value.split("\n")) if name in ("text", "content") and isinstance(value, str) else value
        for name, value in item.items()
    })  # fmt: skip


def test_the_same_calls_are_answered_alike(tmp_path: Path, reference: list[str]) -> None:
    """Names, arguments, texts, content blocks and structured content, with the preset of the same name."""
    theirs_root, ours_root = lay_out(tmp_path / "a/work"), lay_out(tmp_path / "b/work")
    ours_command = [*OURS, "--workspace", str(ours_root)]
    theirs_tools, theirs = talk([*reference, str(theirs_root)], theirs_root, [*SAME, *FAILS])
    ours_tools, ours = talk(ours_command, ours_root, [*SAME, *FAILS])
    assert set(ours_tools) == set(theirs_tools)
    for name, tool in theirs_tools.items():
        mine = ours_tools[name]
        assert set(mine["inputSchema"]["properties"]) == set(tool["inputSchema"].get("properties", {})), name
        assert mine["inputSchema"]["required"] == tool["inputSchema"].get("required", []), name
        assert mine["outputSchema"] == tool["outputSchema"], name
        hints = mine["annotations"]
        assert {hint: hints[hint] for hint in tool["annotations"]} == tool["annotations"], name
        for argument, told in tool["inputSchema"].get("properties", {}).items():
            said = mine["inputSchema"]["properties"][argument]
            assert (said.get("default"), bool(said["description"])) == (told.get("default"), True), (name, argument)
    for call, mine, other in zip([*SAME, *FAILS], ours, theirs, strict=True):
        unordered = call[0] in ("list_directory", "directory_tree", "search_files", "list_directory_with_sizes")
        same = sorted_lines if unordered else lambda result: result
        assert same(plain(mine)) == same(plain(other)), call
    assert [plain(answer) for answer in ours[len(SAME) :]] == [{"isError": True}] * len(FAILS)
    assert "APPROVAL_REQUIRED" not in json.dumps(ours)  # nobody is asked, and nothing waits for an answer


def test_what_stands_at_a_path_is_told_in_the_same_words(
    tmp_path: Path, reference: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same files in UTC: when they were made, changed and last read, of which kind they are, who may do what."""
    monkeypatch.setenv("TZ", "UTC")
    root = lay_out(tmp_path / "work")
    (root / "a.txt").chmod(0o4640)
    os.utime(root / "a.txt", (1_700_000_003.9, 951_782_400.5))
    os.utime(root / "src/b.py", (-86_400.5, 4_102_444_800))
    (root / "links/in.txt").symlink_to("../src/b.py")
    (root / "links/there").symlink_to(root / "src")
    (root / "links/twice").symlink_to("in.txt")
    for folder in (root, root / "src"):  # a time of reading that looking into the folder does not move (relatime)
        os.utime(folder, (time.time() + 60, folder.stat().st_mtime))
    links = ("@/links/in.txt", "@/links/there", "@/links/twice", "@/links/there/b.py")
    paths = ("@", "@/src", "@/a.txt", "@/src/b.py", "@/empty.txt", "@/long.txt", *links)
    calls: list[Call] = [("get_file_info", {"path": path}) for path in paths]
    theirs = talk([*reference, str(root)], root, calls)[1]
    ours = talk([*OURS, "--workspace", str(root)], root, calls)[1]
    assert [plain(answer) for answer in ours] == [plain(answer) for answer in theirs]
    lines = [line.partition(": ")[0] for line in ours[2]["result"]["content"][0]["text"].split("\n")]
    assert lines == ["size", "created", "modified", "accessed", "isDirectory", "isFile", "permissions"]


def test_no_question_is_asked_too_often(tmp_path: Path, reference: list[str]) -> None:
    """The reference answers the same call, and searches below the same folder, as often as a client wants."""
    calls: list[Call] = [
        *(("search_files", {"path": "@", "pattern": f"**/*{name}*.*"}) for name in "abeghilmnt"),
        *[("read_text_file", {"path": "@/a.txt"})] * 8,
        *[("directory_tree", {"path": "@"})] * 8,
        *[("list_allowed_directories", {})] * 8,
    ]
    ours_root, theirs_root = lay_out(tmp_path / "a/work"), lay_out(tmp_path / "b/work")
    theirs = talk([*reference, str(theirs_root)], theirs_root, calls)[1]
    ours = talk([*OURS, "--workspace", str(ours_root)], ours_root, calls)[1]
    assert [sorted_lines(plain(answer)) for answer in ours] == [sorted_lines(plain(answer)) for answer in theirs]


def test_a_search_is_no_repeat_of_another(tmp_path: Path) -> None:
    """Also where settings stop repeats: below one folder each pattern is a question of its own."""
    root, config = lay_out(tmp_path / "work"), tmp_path / "settings.toml"
    config.write_text("workspace.allow_absolute = true\nlimits.max_repeats = 2\n")
    calls: list[Call] = [("search_files", {"path": "@", "pattern": f"**/*{name}*"}) for name in "abceghil"]
    ours = [HANDRAIL, "mcp", "--dialect", "mcp-filesystem", "--config", str(config), "--workspace", str(root)]
    assert [answer["result"]["isError"] for answer in talk(ours, root, calls)[1]] == [False] * len(calls)


def test_one_file_that_fails_stops_no_other(tmp_path: Path, reference: list[str]) -> None:
    """Both say so in the same place and the same shape."""
    calls: list[Call] = [("read_multiple_files", {"paths": ["@/a.txt", "@/no.txt", "/etc/passwd", "@/src/b.py"]})]
    shapes = []
    for name, command in (
        ("a", reference),
        ("b", OURS),
    ):
        root = lay_out(tmp_path / name / "work")
        where = ["--workspace", str(root)] if name == "b" else [str(root)]
        answer = talk([*command, *where], root, calls)[1][0]["result"]
        parts = answer["content"][0]["text"].split("\n---\n")
        assert answer["structuredContent"] == {"content": answer["content"][0]["text"]}
        shapes.append([part if "Error - " not in part else part.partition("Error - ")[0] for part in parts])
    assert (
        shapes[0]
        == shapes[1]
        == ["@/a.txt:\none\ntwo\nthree\n\n", "@/no.txt: ", "/etc/passwd: ", "@/src/b.py:\nx = 1\n\n"]
    )
