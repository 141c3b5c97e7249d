"""What goes wrong is told in the words of whoever asked: no tool or argument that they do not have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dialects._speaking import Speak, skill
from handrail import dialects
from handrail.catalog import Catalog
from handrail.dialects._dialect import Dialect
from handrail.dialects._usual import USUAL
from handrail.output.redact import MARK
from handrail.tools import builtin

CATALOG = Catalog(lazy=builtin())
ALL: dict[str, Any] = {
    "tools": {"enable": ["fs", "delete_path", "run_command", "run_script", "http", "memory", "exec"]},
    "memory": {"write_mode": "external"},
    "rules": [{"effect": "allow", "touch": "memory.write"}],
}
UNREAD = (
    "a.txt exists and this run has not read it whole, so its content would be lost unseen. "
    "Read it in this run, then send the change for what it holds now."
)
HIDDEN = f"The new text holds {MARK}, which stands where a secret value was hidden from you"
EMPTY = (
    "`find` is empty, which would match everywhere. Quote the text to replace; to add text, quote the line before it "
    "and repeat that line in `replace`."
)
EDIT = "Change the file with edit and leave the lines with hidden values out of `find` and `replace`."
# Dialect, tool, arguments, and the message that comes back; one that ends in … is compared as far as that.
FAILING: list[tuple[str, str, dict[str, Any], str]] = [
    ("clude", "update_memory", {"action": "create"}, "knowledge_to_store: To create a note, say what to remember."),
    ("clude", "update_memory", {"action": "delete"}, "existing_knowledge_id: To delete a note, name it."),
    (
        "clude", "update_memory", {"action": "create", "knowledge_to_store": "x", "existing_knowledge_id": "1"},
        "existing_knowledge_id: A new note is given its id; leave `existing_knowledge_id` out, or use action `update`.",
    ),
    (
        "clude", "update_memory", {"action": "delete", "existing_knowledge_id": "n7"},
        "There is no note 'n7' in scope 'workspace'.",
    ),
    ("clude", "read_file", {"path": "d"}, "d is a folder; list_dir shows what is in it."),
    ("clude", "read_file", {"path": "a.txt", "offset": 999}, "offset 999 is past the end: a.txt has 5 lines."),
    ("clude", "delete_file", {"path": "d"}, "d is a folder."),
    (
        "clude", "apply_patch",
        {"patch_text": "*** Begin Patch\n*** Update File: a.txt\n@@\n-zzz\n+q\n*** End Patch\n"}, "…",
    ),
    ("clude", "glob_file_search", {"glob_pattern": "*", "target_directory": "a.txt"}, "…"),
    ("clude", "run_terminal_cmd", {"command": "ls write_file; list_roots"}, "Not done yet: …"),
    ("autonous", "bash", {"cmd": "ls write_file"}, "`ls write_file` ended with exit code 2."),
    ("autonous", "edit", {"path": "a.txt", "find": "one", "replace": "one"}, "`find` and `replace` are the same."),
    ("autonous", "edit", {"path": "a.txt", "find": "zz", "replace": "x"}, "`find` is not in a.txt, nor anything like…"),
    ("autonous", "edit", {"path": "a.txt", "find": "", "replace": "x"}, EMPTY),
    ("autonous", "read", {"path": "a.txt", "offset": 9999}, "offset 9999 is past the end: a.txt has 40 bytes."),
    ("autonous", "read", {"path": "d"}, "d is a folder; ls shows what is in it."),
    ("autonous", "write", {"path": "d", "content": "x"}, "d is a folder; ls shows what is in it."),
    ("autonous", "ls", {"path": "a.txt", "cursor": "zz"}, "…"),
    ("autonous", "ls", {"path": ".", "cursor": "zz"}, "`cursor` is not one that ls gave; leave it out to start over."),
    ("autonous", "read", {"path": "list_dir"}, "list_dir is a folder; list_dir shows what is in it."),
    ("autonous", "read", {"path": "read_file.py"}, "read_file.py does not exist.…"),
    (
        "autonous", "write", {"path": "new.txt", "content": MARK},
        f"{HIDDEN}; writing it to new.txt would destroy that value. {EDIT}",
    ),
    (
        "tool-hub", "core/fs.readText", {"path": "big.txt", "maxBytes": 1024},
        "big.txt has 4000 bytes, more than the 1024 that may be read whole.",
    ),
    ("tool-hub", "core/fs.readText", {"path": "d"}, "d is a folder; core/fs.listDir shows what is in it."),
    (
        "tool-hub", "core/fs.writeText", {"path": "q/e", "text": "x", "mkdirp": False},
        "The folder q does not exist; mkdirp makes it.",
    ),
    (
        "tool-hub", "core/fs.writeText", {"path": "a.txt", "text": "x"},
        "a.txt exists already; overwrite=true replaces it where policy allows.",
    ),
    (
        "tool-hub", "core/fs.writeText", {"path": "new.txt", "text": MARK},
        f"{HIDDEN}; writing it to new.txt would destroy that value.",
    ),
    (
        "tool-hub", "core/fs.listDir", {"path": ".", "cursor": "zz"},
        "`cursor` is not one that core/fs.listDir gave; leave it out to start over.",
    ),
    ("tool-hub", "core/util.json.select", {"json": None, "path": "a"}, "`json` is null; give a value or its text."),
    ("tool-hub", "core/http.fetchText", {"url": "https://example.org/"}, "…"),
    ("tool-hub", "core/fs.deletePath", {"path": "a.txt"}, "…"),
    ("kgent", "write_file", {"path": "a.txt", "content": "zz"}, UNREAD),
    ("kgent", "read_file", {"path": "d"}, "d is a folder; list_files shows what is in it."),
    (
        "kgent", "read_file", {"path": "a.txt", "cursor": '{"offset": 999}'},
        "The cursor's line 999 is past the end: a.txt has 5 lines.",
    ),
    ("kgent", "load_skill", {"skill_id": "zzz"}, "There is no skill 'zzz'. list_skills names those there are."),
    ("kgent", "list_files", {"path": ".", "cursor": "zz"}, "`cursor` is not one that list_files gave; leave it out…"),
    ("kgent", "grep_files", {"pattern": "(", "path": "."}, "…"),
    ("skills-agent", "write_file", {"path": "a.txt", "content": "zz"}, UNREAD),
    (
        "skills-agent", "run_script", {"skill": {"name": "zzz"}, "relative_path": "scripts/x.py"},
        "There is no skill 'zzz'.",
    ),
    ("skills-agent", "read_file", {"path": "d"}, "d is a folder; list_dir shows what is in it."),
    ("skills-agent", "delete_file", {"path": "d"}, "d is a folder."),
    ("skills-agent", "network_request", {"url": "https://example.org/"}, "…"),
    ("mcp-filesystem", "write_file", {"path": "d", "content": "x"}, "…"),
    ("mcp-filesystem", "edit_file", {"path": "a.txt", "edits": [{"oldText": "x", "newText": "x"}]}, "…"),
    ("mcp-filesystem", "move_file", {"source": "a.txt", "destination": "d/x"}, "…"),
]  # fmt: skip
TOLD = ("message", "summary", "mend", "why", "field", "stderr", "reason")


def told_in(value: Any, name: str = "") -> Iterator[str]:
    """What an answer says in words: messages, summaries, mends, fields."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from told_in(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from told_in(item, name)
    elif isinstance(value, str) and name in TOLD:
        yield value


def strange(text: str, dialect: Dialect, tool: str, args: dict[str, Any]) -> set[str]:
    """The names of ours in a text that a caller of this dialect cannot know."""
    for given in re.findall(r"\w+_\w+", json.dumps(args)):
        text = text.replace(given, "…")
    text = re.sub(r"\"[^\"]*\"|`[^`]*[ /][^`]*`", "…", text)  # settings, and commands
    word = dialect.words[tool]
    ours = {name for name in USUAL if "_" in name} - set(dialect.words)
    known = CATALOG.get(word.ours).spec()["args_schema"]["properties"]
    unsaid = set(known) - set(word.args["properties"])
    found = {name for name in ours if re.search(rf"(?<![\w.]){name}(?!\w)", text)}
    found |= {name for name in unsaid if re.search(rf"`{name}[`.:]|\b{name}=", text)}
    return found | {name for name in unsaid if "_" in name and re.search(rf"(?<![\w.]){name}(?!\w)", text)}


def test_every_tool_of_ours_is_known_by_name() -> None:
    """A name that is not known cannot be told in other words."""
    of_agents = {"agent_own", "agent_use"}  # stand for tools that an agent carries out itself; no dialect names them
    assert set(USUAL) == {tool.name for tool in CATALOG} - of_agents


@pytest.mark.parametrize(("name", "tool", "args", "wanted"), FAILING, ids=[f"{row[0]}:{row[1]}" for row in FAILING])
async def test_a_problem_is_told_in_the_names_of_the_dialect(
    speak: Speak, work: Path, name: str, tool: str, args: dict[str, Any], wanted: str
) -> None:
    """Message, summary, field and mend name what the caller has, or leave it out."""
    for folder in ("d", "list_dir"):
        (work / folder).mkdir()
        (work / folder / "x").write_text("1")
    (work / "a.txt").write_text("one one\n" * 5)
    (work / "big.txt").write_text("x\n" * 2000)
    skill(work)
    async with speak(name, config=ALL, mode="headless") as say:
        told = await say(tool, args)
    error = say.last.error
    assert error is not None
    head, cut, _ = wanted.partition("…")
    shown = told["error"]["message"] if name == "tool-hub" else error.message
    assert (shown[: len(head)] if cut else shown) == head
    content = say.last.content.partition('"replay"')[0]  # a command for a person, in our own words
    texts = [*told_in(told), say.last.summary, content, *told_in(dict(error.details))]
    assert {text: found for text in texts if (found := strange(text, say.dialect, tool, args))} == {}
    assert say.dialect.said(error.next_call) != {"tool": tool, "args": args}
    if "field" in error.details:
        assert error.details["field"] in say.dialect.words[tool].args["properties"]


async def test_a_mend_names_the_tool_of_the_dialect(speak: Speak) -> None:
    """What would work is a tool that the caller has; where there is none, nothing is said."""
    async with speak("tool-hub", config=ALL) as say:
        denied = await say("core/fs.deletePath", path="a.txt", confirm=True)
    assert "core/fs.deletePath" in json.dumps(denied)
    assert dialects.get("tool-hub").said({"tool": "http_download", "args": {"url": "u", "path": "p"}}) == {
        "tool": "core/http.downloadFile",
        "args": {"url": "u", "destPath": "p"},
    }


async def test_the_call_that_failed_is_never_what_to_try_next(speak: Speak) -> None:
    """What our words tell apart may be one call in the document's: then nothing is suggested, in the text neither."""
    args = {"path": "lost.txt"}
    async with speak("native") as say:
        await say("read_file", {**args, "whole": True})
    assert say.last.error is not None
    hinted = replace(say.last.error, next_call={"tool": "read_file", "args": args})
    hint = json.dumps(hinted.next_call, separators=(",", ":"))
    failed = replace(say.last, error=hinted, content=f"{say.last.content}\ntry: {hint}")
    hub = dialects.get("tool-hub")
    told = [
        hub.failed(replace(failed, asked="core/fs.readText"), ".", given)
        for given in (args, {**args, "maxBytes": 1024})
    ]
    assert [one.error and hub.said(one.error.next_call) for one in told] == [
        None, {"tool": "core/fs.readText", "args": args},
    ]  # fmt: skip
    assert ["try: " in one.content for one in told] == [False, True]


async def test_what_settings_are_called_stays_as_it_is(speak: Speak) -> None:
    """An operator enables a tool by our name, whatever a caller calls it."""
    async with speak("tool-hub") as say:
        told = await say("core/fs.writeText", path="a", text="x")
    assert told["error"]["message"] == (
        'Denied: core/fs.writeText is not enabled; an operator enables it with tools.enable = ["write_file"].'
    )


async def test_the_journal_keeps_our_own_words(speak: Speak, work: Path) -> None:
    """What is on record does not depend on who asked how."""
    (work / "d").mkdir()
    async with speak("autonous") as say:
        await say("read", path="d")
        ended = next(event for event in say.journal() if event["kind"] == "tool.failed")
    assert ended["message"] == "d is a folder; list_dir shows what is in it."


@pytest.mark.parametrize(
    ("name", "tool", "args", "wanted"),
    [
        ("autonous", "read", {"path": "d"}, "d is a folder; ls shows what is in it."),
        ("autonous", "read", {"path": "a.txt", "offset": 99}, "offset 99 is past the end: a.txt has 2 bytes."),
        ("kgent", "read_file", {"path": "d"}, "d is a folder; list_files shows what is in it."),
        ("tool-hub", "core/fs.readText", {"path": "d"}, "d is a folder; core/fs.listDir shows what is in it."),
        ("kgent", "read_file", {"paht": "d"}, "The arguments do not fit: `path`: it is required, got nothing; "),
    ],
)
async def test_the_events_of_a_dialect_tell_a_problem_in_its_names(
    speak: Speak, work: Path, name: str, tool: str, args: dict[str, Any], wanted: str
) -> None:
    """Whoever reads the document's events finds no tool or argument in them that the document lacks."""
    (work / "d").mkdir()
    (work / "a.txt").write_text("x\n")
    async with speak(name, config={"workspace": {"root": "."}}) as say:
        await say(tool, args)
        failed = next(event for event in say.events() if str(event["kind"]).endswith(".failed"))
    assert (wanted in str(failed), "byte_offset" in str(failed)) == (True, False)


async def test_a_summary_and_a_warning_name_what_the_caller_has(speak: Speak) -> None:
    """A note that waits cannot be recalled by a tool that is not there."""
    config = {**ALL, "memory": {"write_mode": "candidate"}}
    async with speak("clude", config=config) as say:
        await say("update_memory", action="create", title="t", knowledge_to_store="x")
    assert say.last.summary == "The change waits for a person (create, workspace)."


async def test_a_reason_is_kept_where_it_names_a_tool_that_the_caller_lacks(speak: Speak, work: Path) -> None:
    """Why a call was not made is told in any case; the tool is another one."""
    skill(work, "one", header="allowed-tools: read_file\n")
    skill(work, "two", header="allowed-tools: read_file edit_file list_dir\n")
    async with speak("kgent", mode="headless", config={"skills": {"narrow": True}}) as say:
        await say("load_skill", skill_id="one")
        told = await say("load_skill", skill_id="two")
    reason = "loading two would open another tool, list_files, which the active skill one does not allow"
    assert f": {reason}." in told["error"]["message"]
