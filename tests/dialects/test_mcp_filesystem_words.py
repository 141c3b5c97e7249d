"""The dialect of the reference MCP filesystem server: its words for all that goes wrong."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from dialects._speaking import Speak
from handrail import dialects

ALL = list(dialects.get("mcp-filesystem").words)
# What a caller of this dialect cannot know: our tools, and our names for arguments of those it has.
OURS = re.compile(
    r"\b(list_dir|find_files|stat_path|move_path|make_dir|read_media|list_roots|delete_path|apply_patch|hash_file)\b"
    r"|`(whole|limit|offset|target|old|new|overwrite|mode|expected_sha256|dry_run|sort|ignore|depth|hidden)\b"
    r"|\{old, new\}|\boverwrite\b"
)
EDIT = [{"oldText": "zz", "newText": "y"}]
PATHS = ("none.txt", "src", "/etc/x", "../x", ".env", "latin.txt", "nul.bin", "huge.txt", "out", "gone", "pipe", "",
         "x" * 5000, "a.txt/x", "run:artifacts")  # fmt: skip
WRONG: list[tuple[str, dict[str, Any]]] = [
    *((tool, {"path": path}) for path in PATHS for tool in ALL[:-1]),
    *(("read_text_file", {"path": path, "tail": 2}) for path in PATHS),
    *(("read_multiple_files", {"paths": [path]}) for path in PATHS),
    *(("write_file", {"path": path, "content": "x"}) for path in (".env", "src", "/etc/x", "../x", "pipe", "a.txt/x")),
    *(("edit_file", {"path": path, "edits": EDIT}) for path in PATHS),
    *(("search_files", {"path": path, "pattern": "*"}) for path in PATHS),
    *(("move_file", {"source": "a.txt", "destination": path}) for path in PATHS[1:] if path != "gone"),
    *(("move_file", {"source": path, "destination": "src/b.py"}) for path in PATHS),
    *(("edit_file", {"path": "a.txt", "edits": edits}) for edits in (
        [], [{"oldText": "", "newText": "x"}], [{"oldText": "one", "newText": "one"}],
        [{"oldText": "ONE", "newText": ""}], [{"oldText": "one", "newText": "1"}] * 2,
        [{"old": "one", "newText": "1"}], "one",
    )),
    ("search_files", {"path": ".", "pattern": "["}), ("search_files", {"path": ".", "pattern": "../*"}),
    ("read_text_file", {"path": "a.txt", "head": 1, "tail": 1}), ("read_text_file", {"path": "a.txt", "head": 10**30}),
    ("read_text_file", {"path": "a.txt", "head": -1}), ("list_directory_with_sizes", {"path": ".", "sortBy": "age"}),
    ("list_allowed_directories", {"path": "."}), ("read_multiple_files", {"paths": ["src", "huge.txt", "nul.bin"]}),
]  # fmt: skip


async def test_whatever_goes_wrong_is_said_in_the_documents_names(speak: Speak, work: Path) -> None:
    """Of every tool: messages, what would mend the call, and the call that is suggested."""
    (work / "src").mkdir()
    (work / "a.txt").write_text("one\ntwo\nthree\n")
    (work / "src/b.py").write_text("x = 1\n")
    (work / "latin.txt").write_bytes(b"\xe4\n")
    (work / "nul.bin").write_bytes(b"a\x00b")
    (work / "huge.txt").write_text("y\n" * 60_000)
    (work / "out").symlink_to("/etc/hostname")
    (work / "gone").symlink_to("no-such")
    (work / ".env").write_text("KEY=1\n")
    os.mkfifo(work / "pipe")
    config = {"limits": {"max_read_bytes": 50_000}}
    strange, failed = list[tuple[str, str]](), set[str]()
    async with speak("mcp-filesystem", start="mcp-filesystem", config=config, mode="headless") as say:
        for tool, args in WRONG:
            told = await say(tool, args)
            said = told["content"][0].get("text", "")
            if told["isError"] or "Error - " in said:
                failed.add(tool)
                heard = [said.replace("x" * 5000, ""), say.last.summary, say.last.content, *say.last.warnings]
                strange += [(tool, part) for part in heard if OURS.search(part)]
    assert (strange, failed) == ([], set(ALL))


async def test_nothing_is_moved_over_what_is_there_and_nobody_is_asked(speak: Speak, work: Path) -> None:
    """It is refused at once, and not in words that this document lacks."""
    (work / "src").mkdir()
    (work / "a.txt").write_text("one\n")
    (work / "src/b.py").write_text("x = 1\n")
    async with speak("mcp-filesystem", start="mcp-filesystem", mode="headless") as say:
        told = [
            (await say("move_file", source="a.txt", destination=name))["content"][0]["text"].split("\n")
            for name in ("src/b.py", "src")
        ]
    assert [line for line, _ in told] == [
        "src/b.py exists already.",
        "src is a folder; to move a.txt into it, name the new path.",
    ]
    assert {json.loads(details)["code"] for _, details in told} == {"ALREADY_EXISTS"}
    assert (work / "src/b.py").read_text() == "x = 1\n"
