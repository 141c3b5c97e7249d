"""People who work in the same folder while commands run at the border: nothing of either is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attacks._border import border
from attacks.test_lost_updates import EDITOR
from behaviour._commands import need_sandbox, run, run_while
from handrail import Outcome, Runtime
from handrail.ports import Reply, Request
from handrail.processes.keeping import Keeper
from handrail.store.images import Images
from handrail.testing import ScriptedApprover
from workspaces import sha


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture(autouse=True)
def files(work: Path) -> None:
    """Something that both work on."""
    (work / "a.txt").write_text("one\n")
    (work / "d").mkdir()
    (work / "d/1").write_text("1\n")


def archived(opened: Runtime, text: str) -> bool:
    """Whether a content is in the run's archive."""
    return Images(opened.parts.folder.archive, 1 << 30).has(sha(text.encode()))


@pytest.mark.parametrize("answer", ["no", "once"])
async def test_a_file_that_a_person_edits_meanwhile_is_asked_for_and_nothing_is_lost(work: Path, answer: str) -> None:
    """The question shows both versions; whichever is in place, the other one is in the run's archive."""
    approver = ScriptedApprover(lambda _: answer)
    async with border(work, approver=approver) as opened:
        line = "echo program > a.txt; echo more > b.txt"
        outcome = await run_while(opened, line, lambda: (work / "a.txt").write_text("person\n"))
        other = "program\n" if answer == "no" else "person\n"
        assert archived(opened, other)
        if answer == "once":
            await opened.undo(outcome.call_id)
            assert (work / "a.txt").read_text() == "person\n"
    assert len(approver.asked) == 1
    assert "somebody else changed a.txt" in approver.asked[0].reason
    assert ["-person" in approver.asked[0].diff, "+program" in approver.asked[0].diff] == [True, True]
    if answer == "no":
        assert (work / "a.txt").read_text() == "person\n"
        assert (work / "b.txt").read_text() == "more\n"


async def test_both_keep_what_they_changed_in_different_files(work: Path) -> None:
    """No question: neither touched what the other did."""
    approver = ScriptedApprover(lambda _: "no")
    async with border(work, approver=approver) as opened:
        await run_while(opened, "echo program > b.txt; rm d/1", lambda: (work / "a.txt").write_text("person\n"))
    assert approver.asked == []
    assert (work / "a.txt").read_text() == "person\n"
    assert (work / "b.txt").read_text() == "program\n"
    assert not (work / "d/1").exists()


@pytest.mark.parametrize("what", ["deleted", "in a folder that goes", "a new file of the same name"])
async def test_what_a_person_saved_meanwhile_is_not_removed_or_replaced_unasked(work: Path, what: str) -> None:
    """Without a yes it stays as they saved it."""
    approver = ScriptedApprover(lambda _: "no")
    lines = {"deleted": "rm a.txt", "in a folder that goes": "rm -r d", "a new file of the same name": "echo x > new"}
    saved = {"deleted": "a.txt", "in a folder that goes": "d/new", "a new file of the same name": "new"}[what]
    async with border(work, approver=approver) as opened:
        await run_while(opened, lines[what], lambda: (work / saved).write_text("person\n"))
    assert (work / saved).read_text() == "person\n"
    assert len(approver.asked) == 1


async def test_an_edit_in_the_moment_of_keeping_is_asked_for(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are read again then: the rest is kept, and the program's version is set aside."""
    stage = Keeper._stage
    edits = iter([True])

    def edited(keeper: Keeper, *args: Any) -> None:
        stage(keeper, *args)
        if next(edits, False):
            (work / "a.txt").write_text("person\n")

    monkeypatch.setattr(Keeper, "_stage", edited)
    approver = ScriptedApprover(lambda _: "no")
    async with border(work, approver=approver) as opened:
        outcome = await run(opened, "echo program > a.txt; echo more > b.txt; rm d/1; mkdir e; echo x > e/f")
        assert archived(opened, "program\n")
    assert outcome.ok, outcome.content
    assert ["somebody else changed a.txt" in request.reason for request in approver.asked] == [True]
    assert (work / "a.txt").read_text() == "person\n"
    assert (work / "b.txt").read_text() == "more\n"
    assert (work / "e/f").read_text() == "x\n"
    assert not (work / "d/1").exists()


async def test_edits_that_never_end_leave_out_the_file_alone(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts the rest is kept without it."""
    stage = Keeper._stage
    texts = iter(range(1000))

    def edited(keeper: Keeper, *args: Any) -> None:
        stage(keeper, *args)
        (work / "a.txt").write_text(f"person {next(texts)}\n")

    monkeypatch.setattr(Keeper, "_stage", edited)
    async with border(work) as opened:
        outcome = await run(opened, "echo program > a.txt; echo more > b.txt")
        assert archived(opened, "program\n")
    assert outcome.ok, outcome.content
    assert (work / "a.txt").read_text().startswith("person ")
    assert (work / "b.txt").read_text() == "more\n"


class Busy(ScriptedApprover):
    """A person who edits a file while the question is open, and then says yes."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__("once")
        self._act = act

    async def ask(self, request: Request) -> Reply:
        self._act()
        return await super().ask(request)


async def test_an_edit_while_the_question_is_open_is_not_overwritten_by_the_yes(work: Path) -> None:
    """The yes was for another content."""
    (work / "AGENTS.md").write_text("before\n")
    approver = Busy(lambda: (work / "AGENTS.md").write_text("person\n"))
    async with border(work, approver=approver) as opened:
        outcome = await run(opened, "echo program > AGENTS.md; echo more > b.txt")
        assert archived(opened, "program\n")
    assert outcome.content.startswith("Not kept: AGENTS.md")
    assert (work / "AGENTS.md").read_text() == "person\n"
    assert (work / "b.txt").read_text() == "more\n"


async def test_no_save_of_an_editor_is_lost_to_commands(work: Path, scale: int) -> None:
    """It saves as fast as it can, while commands change the same file again and again."""
    (work / "f").write_text("editor 0\n")
    argv = [sys.executable, "-c", EDITOR, str(work / "f"), str(work / "own")]
    approver = ScriptedApprover(lambda _: "no")
    outcomes: list[Outcome] = []
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        assert editor.stdout.readline() == b"saving\n"
        async with border(work, approver=approver) as opened:
            until = time.monotonic() + 2 * scale
            while time.monotonic() < until:
                outcomes.append(await run(opened, f"echo agent >> f; echo {len(outcomes)} > other"))
        editor.stdin.close()
        saved, lost = map(int, editor.stdout.read().split())
    assert lost == 0
    assert min(saved, len(approver.asked)) > 0
    assert all(outcome.ok for outcome in outcomes)
    assert (work / "other").read_text() == f"{len(outcomes) - 1}\n"


async def test_two_commands_at_once_do_not_lose_what_the_other_did(work: Path) -> None:
    """Of the same file the second one to end is asked for; of others nobody is."""
    approver = ScriptedApprover(lambda _: "no")
    (work / "first.sh").write_text("sleep 0.3; echo first > a.txt; echo 1 > one")
    (work / "second.sh").write_text("sleep 1.2; echo second > a.txt; echo 2 > two")
    async with border(work, approver=approver) as opened:
        await asyncio.gather(*(run(opened, f"bash {name}.sh") for name in ("first", "second")))
    assert [(work / name).read_text() for name in ("a.txt", "one", "two")] == ["first\n", "1\n", "2\n"]
    assert len(approver.asked) == 1
