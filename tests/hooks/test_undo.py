"""What agents change by their own tools can be taken back, and not over later changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.words import Outcome
from hooking import Speaker, apply_patch, patch, settings, speaking

Edit = tuple[str, str, dict[str, Any]]


async def undo(work: Path, run: str) -> Outcome:
    """Take a run back, as `handrail runs undo` does."""
    async with Runtime.open(work, run_id=run, caller="cli") as runtime:
        return await runtime.undo()


async def carry_out(speaker: Speaker, work: Path, tool: str, args: dict[str, Any]) -> None:
    """Ask, do it as the agent would, and tell that it is done."""
    decided, why = await speaker.before(tool, args)
    assert decided in ("silent", "ask"), why
    file = args.get("file_path", "")
    if "content" in args:
        (work / file).parent.mkdir(parents=True, exist_ok=True)
        (work / file).write_text(args["content"])
    elif "old_string" in args:
        (work / file).write_text((work / file).read_text().replace(args["old_string"], args["new_string"]))
    else:
        apply_patch(work, args["command"])
    await speaker.after()


CASES: dict[str, Edit] = {
    "write": ("claude-code", "Write", {"file_path": "a.txt", "content": "new\n"}),
    "write a new file": ("claude-code", "Write", {"file_path": "deep/er/b.txt", "content": "new\n"}),
    "edit": ("claude-code", "Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
    "replace": ("gemini-cli", "replace", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
    "write_file": ("gemini-cli", "write_file", {"file_path": "a.txt", "content": "new\n"}),
    "apply_patch": ("codex", "apply_patch", {"command": patch("*** Update File: a.txt", "@@", "-one", "+two")}),
    "apply_patch adds": ("codex", "apply_patch", {"command": patch("*** Add File: sub/c.txt", "+new")}),
    "apply_patch deletes": ("codex", "apply_patch", {"command": patch("*** Delete File: a.txt")}),
    "apply_patch moves": (
        "codex", "apply_patch",
        {"command": patch("*** Update File: a.txt", "*** Move to: b.txt", "@@", "-one", "+two")},
    ),
}  # fmt: skip
QUIET = 'tools.enable = ["fs"]\n[[rules]]\neffect = "allow"\ntouch = "fs.*"\n'


def tree(work: Path) -> dict[str, str]:
    """All files of a folder."""
    return {str(path.relative_to(work)): path.read_text() for path in sorted(work.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", CASES)
async def test_an_edit_of_an_agent_is_taken_back(work: Path, own_user: Path, name: str) -> None:
    """To the byte, folders that were made for it too."""
    settings(own_user, QUIET)
    agent, tool, args = CASES[name]
    (work / "a.txt").write_text("one\n")
    before = tree(work)
    async with speaking(agent, work) as speaker:
        await carry_out(speaker, work, tool, args)
        run = speaker.run_id
    assert tree(work) != before
    outcome = await undo(work, run)
    assert outcome.ok, outcome.content
    assert tree(work) == before
    assert [path.name for path in work.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["write", "edit", "replace", "apply_patch"])
async def test_a_later_change_is_not_overwritten(work: Path, own_user: Path, name: str) -> None:
    """Whoever made it: undo refuses, and nothing is changed."""
    settings(own_user, QUIET)
    agent, tool, args = CASES[name]
    (work / "a.txt").write_text("one\n")
    async with speaking(agent, work) as speaker:
        await carry_out(speaker, work, tool, args)
        run = speaker.run_id
    (work / "a.txt").write_text("mine\n")
    outcome = await undo(work, run)
    assert (outcome.error and outcome.error.code, (work / "a.txt").read_text()) == ("STALE_FILE", "mine\n")


async def test_an_edit_that_was_not_reported_is_not_taken_back(work: Path, own_user: Path) -> None:
    """Nobody knows what the agent made of it: the call is not seen."""
    settings(own_user, QUIET)
    (work / "a.txt").write_text("one\n")
    async with speaking("claude-code", work) as speaker:
        assert (await speaker.before("Write", {"file_path": str(work / "a.txt"), "content": "two\n"}))[0] == "silent"
        (work / "a.txt").write_text("two\n")
        run = speaker.run_id
    with pytest.raises(Exception, match="no call that ended"):
        await undo(work, run)


async def test_of_a_command_only_what_changed_is_on_record(work: Path, own_user: Path) -> None:
    """With hashes; undo says why it cannot be put back."""
    settings(own_user, 'exec.allow = ["make *"]\n')
    (work / "a.txt").write_text("one\n")
    async with speaking("claude-code", work) as speaker:
        assert (await speaker.run("make all"))[0] == "silent"
        (work / "a.txt").write_text("changed\n")
        (work / "new.txt").write_text("new\n")
        await speaker.after()
        (seen,) = speaker.events(own_user, "tool.observed")
        run = speaker.run_id
    changed = {change["path"]: (change["op"], change["kept"]) for change in seen["files_changed"]}
    assert changed == {"a.txt": ("replace", False), "new.txt": ("create", False)}
    assert all(len(change["after"]) == 64 for change in seen["files_changed"])
    with pytest.raises(Exception, match="a program changed it, and no former content was kept"):
        await undo(work, run)


async def test_undo_works_while_the_session_is_open(work: Path, own_user: Path) -> None:
    """Another process has the run: the undo is a run of its own that names it."""
    settings(own_user, QUIET)
    (work / "a.txt").write_text("one\n")
    async with speaking("claude-code", work) as speaker:
        await carry_out(speaker, work, "Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
        async with Runtime.open(work, caller="cli", parent_run=speaker.run_id) as runtime:
            outcome = await runtime.undo(run=speaker.run_id)
        assert (outcome.ok, (work / "a.txt").read_text()) == (True, "one\n")
