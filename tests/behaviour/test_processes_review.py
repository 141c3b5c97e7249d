"""A command whose changes are reviewed: a person sees the diff, and all of it is kept or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Outcome
from handrail.errors import Code
from handrail.ports import Reply, Request
from handrail.testing import ScriptedApprover
from workspaces import below

REVIEW = {"exec": {"workspace": "review"}, "limits": {"max_repeats": 1000}}
CHANGE = "sed -i s/two/zwei/ a.txt; rm gone; rm -r d; mkdir -p n/e; echo hi > n/x; chmod 755 n/x; echo out"
DIFF = "@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture(autouse=True)
def files(work: Path) -> None:
    """Something to change."""
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "gone").write_text("x")
    (work / "d").mkdir()
    (work / "d/b").write_text("b")


def on_diff(answer: str) -> ScriptedApprover:
    """Say yes to the command, and something else to its changes."""
    return ScriptedApprover(lambda request: answer if request.diff else "once")


async def reviewed(work: Path, approver: Any, command: str = CHANGE, **how: Any) -> Outcome:
    """Run one command under review."""
    async with runtime(work, config=REVIEW, approver=approver, **how) as opened:
        return await run(opened, command)


async def test_a_yes_keeps_everything_and_undo_takes_it_back(work: Path) -> None:
    """The workspace is as the command left it, executable bits too; `undo` works for a shell command."""
    before = below(work)
    approver = on_diff("once")
    async with runtime(work, config=REVIEW, approver=approver) as opened:
        outcome = await run(opened, CHANGE)
        kept = below(work)
        mode = (work / "n/x").stat().st_mode & 0o777
        undone = await opened.undo(outcome.call_id)
    assert outcome.ok
    assert outcome.data["stdout"] == "out\n"
    assert kept == {"a.txt": b"one\nzwei\n", "n": None, "n/e": None, "n/x": b"hi\n"}
    assert mode == 0o755
    assert DIFF in outcome.data["diff"]
    assert DIFF in approver.asked[-1].diff
    assert DIFF in outcome.content
    assert set(outcome.data["files_changed"]) == {"a.txt", "gone", "d", "d/b", "n", "n/e", "n/x"}
    assert undone.ok
    assert below(work) == before


async def test_a_no_drops_everything(work: Path) -> None:
    """Nothing reaches the workspace; the outcome still shows the diff and the output."""
    before = below(work)
    outcome = await reviewed(work, on_diff("no"))
    assert outcome.error is not None
    assert outcome.error.code == Code.APPROVAL_DENIED
    assert DIFF in outcome.error.details["diff"]
    assert outcome.error.details["stdout"] == "out\n"
    assert below(work) == before


async def test_without_a_person_the_change_waits_for_an_approval_of_exactly_it(work: Path) -> None:
    """Dropped, pending; granted and repeated, kept. A repetition that changes something else is refused anew."""
    before = below(work)
    command = "cp source a.txt"
    (work / "source").write_text("first\n")
    async with runtime(work, config=REVIEW, approver=on_diff("pending")) as opened:
        first = await run(opened, command)
        assert first.error is not None
        assert first.error.code == Code.APPROVAL_REQUIRED
        assert first.status.value == "pending"
        assert below(work) == before | {"source": b"first\n"}
        request = first.error.details["approval"]
        assert "+first" in request["diff"]
        opened.parts.ledger.answer(request["id"], Reply("granted", by="ann"))
        (work / "source").write_text("second\n")
        other = await run(opened, command)
        assert other.error is not None
        assert other.error.code == Code.APPROVAL_REQUIRED
        (work / "source").write_text("first\n")
        again = await run(opened, command)
        assert again.ok
        assert (work / "a.txt").read_text() == "first\n"


async def test_policy_drops_what_it_denies_before_anyone_is_asked(work: Path) -> None:
    """A protected name in the change refuses all of it."""
    (work / "make").write_text("echo x > a.txt; echo k > .env.local; echo ran")
    before = below(work)
    approver = on_diff("once")
    outcome = await reviewed(work, approver, "bash make")
    assert outcome.error is not None
    assert outcome.error.code == Code.PATH_PROTECTED
    assert outcome.error.details["stdout"] == "ran\n"
    assert below(work) == before
    assert not any(request.diff for request in approver.asked)


async def test_a_new_file_alone_needs_no_second_question(work: Path) -> None:
    """As with write_file: what replaces nothing is allowed."""
    approver = on_diff("no")
    outcome = await reviewed(work, approver, "echo x > fresh")
    assert outcome.ok, outcome.content
    assert (work / "fresh").read_text() == "x\n"


async def test_a_command_that_changes_nothing_asks_nothing_afterwards(work: Path) -> None:
    """Rewriting a file with what it holds is no change."""
    approver = on_diff("no")
    outcome = await reviewed(work, approver, "cat a.txt > /tmp/x; cat /tmp/x > a.txt; touch gone")
    assert outcome.ok
    assert outcome.data["files_changed"] == []
    assert not any(request.diff for request in approver.asked)


async def test_what_changed_meanwhile_is_not_overwritten(work: Path) -> None:
    """Someone else's edit between the run and the yes wins; nothing of the change is kept."""

    def edited(request: Request) -> str:
        if request.diff:
            (work / "gone").write_text("theirs")
        return "once"

    outcome = await reviewed(work, ScriptedApprover(edited), "echo mine > a.txt; echo mine > gone")
    assert outcome.error is not None
    assert outcome.error.code == Code.STALE_FILE
    assert below(work) == {"a.txt": b"one\ntwo\n", "gone": b"theirs", "d": None, "d/b": b"b"}


async def test_what_cannot_be_kept_drops_all(work: Path) -> None:
    """A link is no file that could be judged and put back."""
    before = below(work)
    outcome = await reviewed(work, on_diff("once"), "echo x > a.txt; ln -s /etc/passwd link")
    assert outcome.error is not None
    assert outcome.error.code == Code.POLICY_DENIED
    assert "link" in outcome.error.message
    assert below(work) == before


async def test_a_timeout_drops_the_changes(work: Path) -> None:
    """What did not end by itself left nothing whole."""
    before = below(work)
    async with runtime(work, config=REVIEW, approver=on_diff("once")) as opened:
        outcome = await run(opened, "echo x > a.txt; sleep 60", timeout_seconds=0.5)
    assert outcome.error is not None
    assert outcome.error.code == Code.TIMEOUT
    assert any("dropped" in warning for warning in outcome.warnings)
    assert below(work) == before


async def test_a_program_in_the_background_is_refused(work: Path) -> None:
    """Its changes could not be reviewed."""
    async with runtime(work, config=REVIEW) as opened:
        outcome = await run(opened, "sleep 60", background=True)
    assert outcome.error is not None
    assert outcome.error.code == Code.POLICY_DENIED


async def test_the_wait_for_a_person_is_not_the_programs_time(work: Path) -> None:
    """The deadline of the call stands still while someone reads the diff."""
    seen: list[float | None] = []

    async with runtime(work, config=REVIEW, approver=on_diff("once")) as opened:
        active = opened.kernel._active

        class Slow(ScriptedApprover):
            async def ask(self, request: Request) -> Reply:
                if request.diff:
                    seen.extend(
                        None if step.timer is None or step.timer.cancelled() else 1.0 for step in active.values()
                    )
                return await super().ask(request)

        slow = Slow("once", ledger=opened.parts.ledger)
        object.__setattr__(opened.kernel.parts, "approver", slow)
        assert (await run(opened, "echo x > a.txt")).ok
    assert seen == [None]


async def test_a_change_that_cannot_be_made_takes_back_those_made_before_it(work: Path, own_user: Path) -> None:
    """A file that has other names is not replaced; then nothing else is kept either, and no note stays behind."""
    (work / "z.txt").write_text("one\n")
    (work.parent / "elsewhere").hardlink_to(work / "z.txt")
    before = below(work)
    outcome = await reviewed(work, on_diff("once"), f"{CHANGE}; echo two > z.txt")
    assert (outcome.ok, below(work)) == (False, before)
    assert [*(own_user / "state/handrail/unfinished").iterdir()] == []


async def test_a_folder_that_became_a_file_is_kept_and_the_other_way_round(work: Path) -> None:
    """What goes makes room for what comes."""
    outcome = await reviewed(work, on_diff("once"), "rm -r d; echo file > d; rm gone; mkdir gone; echo in > gone/x")
    assert outcome.ok, outcome.content
    assert below(work) == {"a.txt": b"one\ntwo\n", "d": b"file\n", "gone": None, "gone/x": b"in\n"}


FAILING = "sed -i s/two/zwei/ a.txt; for n in 1 2 3 4 5 6 7 8 9 10 11; do echo $n; done; echo broken >&2; exit 4"


async def test_whoever_is_asked_is_told_how_the_command_ended(work: Path) -> None:
    """A failure with the last lines of both streams; of one that went well the same, and no word of failing."""
    approver = on_diff("no")
    outcome = await reviewed(work, approver, FAILING)
    failed = approver.asked[-1]
    await reviewed(work, approver, "sed -i s/two/zwei/ a.txt")
    well = approver.asked[-1]
    assert outcome.error is not None
    assert outcome.error.details["exit_code"] == 4
    assert failed.reason.endswith("; the command failed: exit code 4")
    assert failed.impact == {
        "writes": ["a.txt"],
        "failed": ["exit code 4"],
        "end of stdout": [str(number) for number in range(2, 12)],
        "end of stderr": ["broken"],
    }
    assert well.impact == {"writes": ["a.txt"], "ended": ["exit code 0"]}
    assert "failed" not in well.reason


async def test_a_yes_to_a_command_that_failed_is_none_to_one_that_did_not(work: Path) -> None:
    """What it changed is the same; how it ended is not."""
    asked = []
    for code in (4, 4, 0):
        (work / "code").write_text(str(code))
        approver = on_diff("no")
        await reviewed(work, approver, "sed -i s/two/zwei/ a.txt; exit $(cat code)")
        asked.append(approver.asked[-1].digest)
    assert asked[0] == asked[1] != asked[2]
