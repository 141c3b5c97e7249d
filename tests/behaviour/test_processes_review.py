"""A command whose changes are reviewed: a person sees the diff, and it is kept or not."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Outcome
from handrail.errors import Code
from handrail.ports import Reply, Request
from handrail.sandbox.plan import layers_beside
from handrail.testing import ScriptedApprover
from workspaces import below, sha

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


def _whole(work: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """All there is, with modes and what links lead to."""
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(work.rglob("*")):
        what: bytes | str | None = None
        if path.is_symlink():
            what = os.readlink(path)
        elif path.is_file():
            what = path.read_bytes()
        found[str(path.relative_to(work))] = (path.lstat().st_mode & 0o777, what)
    return found


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


async def test_what_cannot_be_kept_is_left_out_by_itself(work: Path) -> None:
    """A pipe is no file that could be judged and put back; all else is kept."""
    before = below(work)
    outcome = await reviewed(work, on_diff("once"), "echo x > a.txt; mkfifo pipe; echo y > fresh")
    assert outcome.ok, outcome.content
    assert below(work) == before | {"a.txt": b"x\n", "fresh": b"y\n"}
    assert outcome.warnings == ("pipe was not kept: it is a device, pipe or socket",)


async def test_links_hard_links_modes_and_times_are_kept_and_undone(work: Path) -> None:
    """Renamed into the workspace, a file is the very one that the program made."""
    (work / "old-link").symlink_to("a.txt")
    (work / "a.txt").chmod(0o640)
    before = _whole(work)
    line = (
        "ln -s a.txt link; ln -sfn gone old-link; echo x > one; ln one two; mkdir -m 750 n; touch -d 2001-02-03T00:00Z "
        "n/dated one; chmod 600 a.txt; ln -s nowhere d/dangling; chmod 710 n; touch -d 2002-02-03T00:00Z n"
    )
    approver = on_diff("once")
    async with runtime(work, config=REVIEW, approver=approver) as opened:
        outcome = await run(opened, line)
        assert outcome.ok, outcome.content
        kept = _whole(work)
        same = os.path.samefile(work / "one", work / "two")
        times = [int((work / name).stat().st_mtime) for name in ("one", "n/dated", "n")]
        undone = await opened.undo(outcome.call_id)
    assert kept == before | {
        "a.txt": (0o600, b"one\ntwo\n"),
        "link": (0o777, "a.txt"),
        "old-link": (0o777, "gone"),
        "one": (0o644, b"x\n"),
        "two": (0o644, b"x\n"),
        "n": (0o710, None),
        "n/dated": (0o644, b""),
        "d/dangling": (0o777, "nowhere"),
    }
    assert (same, times) == (True, [981158400, 981158400, 1012694400])
    assert undone.ok, undone.content
    assert _whole(work) == before


async def test_a_new_link_out_of_the_roots_is_asked_for(work: Path) -> None:
    """One that stays within them is like any new file."""
    approver = on_diff("no")
    inside = await reviewed(work, approver, "ln -s d/b link")
    assert (inside.ok, os.readlink(work / "link")) == (True, "d/b")
    outside = await reviewed(work, approver, "ln -s /etc/passwd out")
    assert outside.error is not None
    assert outside.error.code == Code.APPROVAL_DENIED
    assert "new link out -> /etc/passwd" in approver.asked[-1].diff
    assert not os.path.lexists(work / "out")


async def test_what_a_program_changed_until_its_timeout_is_judged(work: Path) -> None:
    """Kept with a yes that knows of the timeout, dropped with a no."""
    before = below(work)
    kept = {}
    for answer in ("no", "once"):
        approver = on_diff(answer)
        async with runtime(work, config=REVIEW, approver=approver) as opened:
            outcome = await run(opened, "echo x > a.txt; sleep 60", timeout_seconds=0.5)
        kept[answer] = below(work)
        assert outcome.error is not None
        assert "time limit" in approver.asked[-1].impact["failed"][0]
    assert outcome.error is not None
    assert outcome.error.code == Code.TIMEOUT
    assert kept == {"no": before, "once": before | {"a.txt": b"x\n"}}


async def _once_layered(own_user: Path, name: str) -> None:
    """Wait until a running program has changed a file in its layer."""
    while not [*(own_user / "state/handrail/layers").glob(f"*/upper/{name}")]:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("answer", ["no", "once", "pending"])
async def test_an_edit_made_while_the_program_ran_is_not_replaced_without_a_yes(
    work: Path, own_user: Path, answer: str
) -> None:
    """Whatever rules allow; the rest of the change is kept."""
    rules = [{"effect": "allow", "touch": name} for name in ("proc.exec", "fs.write", "fs.delete")]
    approver = on_diff(answer)
    async with runtime(work, config={**REVIEW, "rules": rules}, approver=approver) as opened:
        running = asyncio.ensure_future(run(opened, "echo mine > a.txt; rm gone; echo new > fresh; sleep 0.5"))
        await _once_layered(own_user, "fresh")
        (work / "a.txt").write_text("theirs\n")
        (work / "gone").write_text("theirs\n")
        outcome = await running
    [asked] = approver.asked
    assert outcome.ok, outcome.content
    assert "-theirs\n+mine\n" in asked.diff
    assert asked.impact["changed by others meanwhile"] == ["a.txt", "gone"]
    rest = {"d": None, "d/b": b"b", "fresh": b"new\n"}
    assert below(work) == rest | (
        {"a.txt": b"mine\n"} if answer == "once" else {"a.txt": b"theirs\n", "gone": b"theirs\n"}
    )
    said = [warning for warning in outcome.warnings if warning.startswith("not kept: a.txt, gone")]
    assert len(said) == (answer != "once")
    if said:  # and what the program made of it is not lost, either
        assert f"a.txt as images/{sha(b'mine' + bytes([10]))}" in said[0]


async def test_two_commands_run_at_the_same_time_and_both_are_kept(work: Path, own_user: Path) -> None:
    """Each waits for what the other one does, in its layer, so that neither could end first."""
    async with runtime(work, config=REVIEW, approver=on_diff("once")) as opened:
        first = asyncio.ensure_future(run(opened, "echo 1 > one; sleep 0.5; echo 1 >> one"))
        await _once_layered(own_user, "one")
        second = asyncio.ensure_future(run(opened, "echo 2 > two"))
        quick = await second
        still_runs = not first.done()
        slow = await first
    assert (quick.ok, still_runs, slow.ok) == (True, True, True)
    assert [(work / name).read_text() for name in ("one", "two")] == ["1\n1\n", "2\n"]


@pytest.fixture(params=["memory", "memory, no exchange", "beside"])
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine where the state folder is on another file system; in memory, also one that cannot exchange names."""
    monkeypatch.setattr(
        "handrail.processes.layer_home.homes",
        lambda _, root: (layers_beside(root),) if request.param == "beside" else (),
    )
    if request.param.endswith("exchange"):
        monkeypatch.setattr("handrail.workspace.names.exchange", lambda *_: False)
    return str(request.param)


async def test_a_layer_elsewhere_is_kept_and_undone_in_the_same_way(work: Path, elsewhere: str) -> None:
    """In memory, or in a hidden folder beside the workspace, that is empty afterwards."""
    before = _whole(work)
    line = f"{CHANGE}; ln -s a.txt link; echo y > one; ln one two; touch -d 2001-02-03T00:00Z one; mkfifo p"
    async with runtime(work, config=REVIEW, approver=on_diff("once")) as opened:
        outcome = await run(opened, line)
        kept = _whole(work)
        facts = (os.path.samefile(work / "one", work / "two"), int((work / "one").stat().st_mtime))
        undone = await opened.undo(outcome.call_id)
    assert outcome.ok, outcome.content
    assert kept == {
        "a.txt": (0o644, b"one\nzwei\n"),
        "link": (0o777, "a.txt"),
        "n": (0o755, None),
        "n/e": (0o755, None),
        "n/x": (0o755, b"hi\n"),
        "one": (0o644, b"y\n"),
        "two": (0o644, b"y\n"),
    }
    assert facts == (True, 981158400)
    assert undone.ok, undone.content
    assert _whole(work) == before
    hidden = Path(layers_beside(str(work)))
    assert [*hidden.glob("*")] == []
    assert hidden.exists() == (elsewhere == "beside")


async def test_a_program_that_changes_too_much_is_ended_and_judged(work: Path) -> None:
    """The bound is on what its layer holds."""
    config = {"exec": {"workspace": "review", "max_layer_bytes": 1 << 20}}
    approver = on_diff("no")
    async with runtime(work, config=config, approver=approver) as opened:
        outcome = await run(opened, "echo x > a.txt; head -c 5000000 /dev/zero > big; sleep 60")
    assert outcome.error is not None
    assert "too much disk space" in approver.asked[-1].impact["failed"][0]
    assert not (work / "big").exists()


async def test_layers_that_killed_runtimes_left_are_removed_by_the_next_one(work: Path, own_user: Path) -> None:
    """Nobody holds them any more."""
    left = own_user / "state/handrail/layers/0123456789abcdef"
    (left / "upper").mkdir(parents=True)
    async with runtime(work, config=REVIEW):
        assert not left.exists()


async def test_the_layer_is_on_disk_unseen_and_gone_afterwards(work: Path, own_user: Path) -> None:
    """In the state folder, which no program sees."""
    layers = own_user / "state/handrail/layers"
    async with runtime(work, config=REVIEW, approver=on_diff("once")) as opened:
        running = asyncio.ensure_future(run(opened, f"echo x > fresh; sleep 0.3; ls {layers} 2>&1; true"))
        await _once_layered(own_user, "fresh")
        [layer] = {path.parent for path in layers.glob("*/upper/fresh")}
        private = (layers.stat().st_mode & 0o777, layer.parent.stat().st_mode & 0o777)
        outcome = await running
    assert private == (0o700, 0o700)
    assert "No such file" in outcome.data["stdout"]
    assert [*layers.iterdir()] == []


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
    """A file that takes a name meanwhile is left alone; nothing else is kept then, and no note stays behind."""
    before = below(work)

    def taken(request: Request) -> str:
        if request.diff:
            (work / "z.txt").write_text("theirs")
        return "once"

    outcome = await reviewed(work, ScriptedApprover(taken), f"{CHANGE}; echo two > z.txt")
    assert (outcome.ok, below(work)) == (False, before | {"z.txt": b"theirs"})
    assert [*(own_user / "state/handrail/unfinished").iterdir()] == []


async def test_a_file_with_other_names_is_replaced_by_itself_and_that_is_said(work: Path) -> None:
    """The other names, which may lie elsewhere, keep what they hold, also after the undo."""
    (work / "z.txt").write_text("one\n")
    other = work.parent / "elsewhere"
    other.hardlink_to(work / "z.txt")
    async with runtime(work, config=REVIEW, approver=on_diff("once")) as opened:
        outcome = await run(opened, "echo x > a.txt; echo two >> z.txt")
        texts = [path.read_text() for path in (work / "a.txt", work / "z.txt", other)]
        undone = await opened.undo(outcome.call_id)
    assert outcome.ok, outcome.content
    assert texts == ["x\n", "one\ntwo\n", "one\n"]
    assert outcome.warnings == ("z.txt had other names (hard links): those keep the former content",)
    assert undone.ok
    assert [path.read_text() for path in (work / "a.txt", work / "z.txt", other)] == ["one\ntwo\n", "one\n", "one\n"]


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
