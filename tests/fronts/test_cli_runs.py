"""handrail runs: looking at what happened, proving it, taking it back."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from fronts.conftest import Cli
from handrail import Runtime
from handrail.front.cli._tables import run_tree, took
from handrail.front.cli.root import _told
from handrail.store import summaries
from handrail.store.order import RunOrder
from handrail.testing import FixedClock

EDIT = ("edit_file", "path=a.txt", 'edits=[{"old": "two", "new": "2"}]')


@pytest.fixture
def edited(cli: Cli) -> Cli:
    """A run named `r` that read and edited a file."""
    assert cli("call", "--run", "r", "read_file", "path=a.txt").code == 0
    assert cli("call", "--run", "r", *EDIT).code == 0
    return cli


def test_list_shows_runs_newest_first(edited: Cli) -> None:
    """As a table and as JSON."""
    edited("call", "--run", "s", "read_file", "path=a.txt")
    assert [line.split()[0] for line in edited("runs", "list").out.splitlines()] == ["run", "s", "r"]
    listed = json.loads(edited("runs", "list", "--json").out)
    did = [(item["run_id"], item["calls"], item["tools"], item["changed"]) for item in listed]
    assert did == [("s", 1, {"read_file": 1}, []), ("r", 2, {"read_file": 1, "edit_file": 1}, ["a.txt"])]


def test_a_list_looks_at_no_more_than_so_many_events_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a million events does not hold up the list; what was counted is marked as a part."""
    ends = [{"kind": "tool.completed", "tool": "now", "status": "ok"}] * 5
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in ends))
    assert (summaries.summary(tmp_path).calls, summaries.summary(tmp_path).whole) == (5, True)
    monkeypatch.setattr(summaries, "MOST_EVENTS", 3)
    assert (summaries.summary(tmp_path).calls, summaries.summary(tmp_path).whole) == (3, False)


def test_without_runs_that_is_said(cli: Cli) -> None:
    """On stderr, with the folder that was looked into; there is no data."""
    listed = cli("runs", "list")
    assert listed[:2] == (0, "")
    assert str(Path(cli.env["XDG_STATE_HOME"], "handrail", "runs")) in listed.err
    ended = cli("runs", "show")
    assert (ended.code, "There is no run in this workspace yet" in ended.err) == (2, True)


def test_show_tells_each_call(edited: Cli) -> None:
    """Decision, status and what changed."""
    calls = json.loads(edited("runs", "show", "r", "--json").out)["calls"]
    told = [(call["tool"], call["decision"], call["status"], [c["path"] for c in call["changed"]]) for call in calls]
    assert told == [("read_file", "allow", "ok", []), ("edit_file", "allow", "ok", ["a.txt"])]
    assert "edit_file" in edited("runs", "show", "r").out


def test_tree_draws_calls_and_changes(edited: Cli) -> None:
    """What was changed hangs below the call that did it."""
    lines = edited("runs", "tree", "r").out.splitlines()
    assert lines[0] == "run r"
    assert any("● edit_file path=a.txt" in line for line in lines)
    assert any("replace a.txt" in line for line in lines)


def test_events_are_json_lines_in_order(edited: Cli) -> None:
    """The journal as it is."""
    found = [json.loads(line) for line in edited("runs", "events", "r").out.splitlines()]
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert found[0]["kind"] == "run.started"


def test_logs_are_made_on_demand_for_a_run_that_was_cut_off(edited: Cli) -> None:
    """The same ones as closing writes, wherever a killed process left them."""
    found = json.loads(edited("runs", "logs", "r", "--json").out)
    written = {name: Path(path).read_bytes() for name, path in found.items()}
    assert [json.loads(line)["tool"] for line in written["tools"].splitlines()] == ["read_file", "edit_file"]
    for path in found.values():
        Path(path).unlink()
    listed = edited("runs", "logs", "r")
    assert (listed.code, listed.out.split()) == (0, list(found.values()))
    assert {name: Path(path).read_bytes() for name, path in found.items()} == written


def test_the_newest_run_is_the_one_of_this_workspace(edited: Cli, tmp_path: Path) -> None:
    """A newer run elsewhere is not taken for it."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").write_text("")
    edited("call", "--run", "elsewhere", "stat_path", "path=x", cwd=other)
    assert edited("runs", "show").out.startswith("run r ")
    assert edited("runs", "show", cwd=other).out.startswith("run elsewhere ")


def test_a_beginning_names_a_run_unless_several_have_it(edited: Cli) -> None:
    """Ambiguous and unknown names are told in a sentence."""
    edited("call", "--run", "run-one", "now")
    edited("call", "--run", "run-two", "now")
    assert edited("runs", "show", "run-o").out.startswith("run run-one ")
    several, unknown = edited("runs", "show", "run-"), edited("runs", "show", "nope")
    assert (several.code, "2 runs start with 'run-': run-two, run-one. Give more of the name." in several.err) == (
        2,
        True,
    )
    assert (unknown.code, "There is no run 'nope'" in unknown.err) == (2, True)
    assert "Did you mean run-one" in edited("runs", "show", "rum-one").err
    assert edited("runs", "show", "../..").code == 2


def test_verify_finds_a_changed_word(edited: Cli) -> None:
    """Exit code 1 and the line; whole before."""
    whole = edited("runs", "verify", "r")
    journal = Path(edited.env["XDG_STATE_HOME"], "handrail", "runs", "r", "events.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"decision":"allow"', b'"decision":"deny"', 1))
    changed = edited("runs", "verify", "r", "--json")
    assert (whole.code, whole.out.startswith("whole: run r")) == (0, True)
    assert (changed.code, json.loads(changed.out)["ok"]) == (1, False)


def test_a_kept_head_finds_a_cut_end(edited: Cli) -> None:
    """What a chain alone cannot show."""
    assert edited("runs", "verify", "r", "--keep", "head.json").code == 0
    journal = Path(edited.env["XDG_STATE_HOME"], "handrail", "runs", "r", "events.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    journal.with_name("checkpoint.json").unlink()
    assert edited("runs", "verify", "r").code == 0
    cut = edited("runs", "verify", "r", "--against", "head.json")
    assert (cut.code, "lines were cut off" in cut.out) == (1, True)


def test_a_checkpoint_finds_a_cut_end(edited: Cli) -> None:
    """It knows of more events than the file has: that is loss, though every line fits."""
    journal = Path(edited.env["XDG_STATE_HOME"], "handrail", "runs", "r", "events.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-2]))
    cut = edited("runs", "verify", "r")
    lost = f"the checkpoint knows {len(lines)} events, but the journal ends after {len(lines) - 2}: events were lost"
    assert (cut.code, lost in cut.out) == (1, True)


def test_undo_puts_back_what_a_run_changed(edited: Cli, tmp_path: Path) -> None:
    """Also from another folder: the run knows its own workspace. A second time there is nothing left."""
    assert (edited.work / "a.txt").read_text() == "one\n2\nthree\n"
    undone = edited("runs", "undo", "r", cwd=tmp_path)
    assert (undone.code, (edited.work / "a.txt").read_text()) == (0, "one\ntwo\nthree\n")
    again = edited("runs", "undo", "r")
    assert (again.code, "all that run r changed is taken back already" in again.err) == (2, True)


def test_undo_alone_takes_back_the_last_call_that_changed_something(edited: Cli) -> None:
    """Later reads, also in other runs, are no dead end; one call at a time, until nothing is left."""
    edited("call", "--run", "s", "write_file", "path=b.txt", "content=1")
    edited("call", "--run", "s", "write_file", "path=c.txt", "content=1")
    edited("call", "--run", "s", "read_file", "path=b.txt")
    edited("call", "--run", "t", "read_file", "path=b.txt")
    first = edited("runs", "undo")
    assert (first.code, sorted(path.name for path in edited.work.iterdir())) == (0, [".env", "a.txt", "b.txt"])
    assert "Run s changed something that is not taken back; the last one is write_file of b.txt." in first.err
    assert edited("runs", "undo").code == 0
    assert sorted(path.name for path in edited.work.iterdir()) == [".env", "a.txt"]
    assert edited("runs", "undo").code == 0
    assert (edited.work / "a.txt").read_text() == "one\ntwo\nthree\n"
    nothing = edited("runs", "undo")
    assert (nothing.code, "There is nothing to take back" in nothing.err) == (2, True)
    assert str(Path(edited.env["XDG_STATE_HOME"], "handrail", "runs")) in nothing.err


def open_at(work: Path, run: str, now: float) -> Runtime:
    """Open a run at a time of its own."""
    return Runtime.open(work, run_id=run, config={"tools": {"enable": ["fs"]}}, clock=FixedClock(now))


async def write(runtime: Runtime, name: str) -> None:
    """Make a file."""
    outcome = await runtime.call("write_file", {"path": name, "content": "x"})
    assert outcome.ok, outcome


async def test_the_newest_run_is_known_when_the_clock_is_set_back(cli: Cli) -> None:
    """`runs list`, the run that no name is needed for, and `runs undo` go by the order of runs, not by their times."""
    for run, now in (("first", 2_000_000.0), ("second", 1_000_000.0)):
        async with open_at(cli.work, run, now) as runtime:
            await write(runtime, f"{run}.txt")
    assert [item["run_id"] for item in json.loads(cli("runs", "list", "--json").out)] == ["second", "first"]
    assert json.loads(cli("runs", "show", "--json").out)["run_id"] == "second"
    assert cli("runs", "undo").code == 0
    assert ((cli.work / "first.txt").exists(), (cli.work / "second.txt").exists()) == (True, False)
    assert cli("runs", "undo").code == 0
    assert not (cli.work / "first.txt").exists()


async def test_the_last_change_of_runs_that_overlap_is_known_when_the_clock_is_set_back(cli: Cli) -> None:
    """A change of the run that was opened first can be the last one; one that is still open counts as well."""
    async with open_at(cli.work, "first", 1_000_000.0) as first:
        async with open_at(cli.work, "second", 3_000_000.0) as second:
            for runtime, name in ((first, "1"), (second, "2"), (first, "3"), (second, "4"), (first, "5")):
                await write(runtime, name)
        for number in range(5, 0, -1):
            assert (cli.work / str(number)).exists()
            undone = cli("runs", "undo")
            assert (undone.code, (cli.work / str(number)).exists()) == (0, False), undone.err


def test_the_counter_goes_on_after_a_power_loss(tmp_path: Path) -> None:
    """Numbers that were lost with the last seconds before another boot are not given twice."""
    order = RunOrder(tmp_path)
    assert [order.take(), order.take(), RunOrder(tmp_path).take()] == [1, 2, 3]
    file = tmp_path / ".order"
    file.write_text(file.read_text().replace(file.read_text().split()[1], "another-boot"))
    assert RunOrder(tmp_path).take() > 100_000


@pytest.mark.parametrize("damage", ["", "no number\n", None], ids=["empty", "malformed", "missing"])
async def test_a_damaged_counter_goes_on_after_the_runs_on_record(
    cli: Cli, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """It never starts at 1 again: the newest run would be taken for the oldest."""
    for name in ("first", "second"):
        async with open_at(cli.work, name, 1_000_000.0) as runtime:
            await write(runtime, f"{name}.txt")
    runs = Path(cli.env["XDG_STATE_HOME"], "handrail", "runs")
    if damage is None:
        (runs / ".order").unlink()
    else:
        (runs / ".order").write_text(damage)
    async with open_at(cli.work, "third", 1_000_000.0):
        pass
    assert [item["run_id"] for item in json.loads(cli("runs", "list", "--json").out)] == ["third", "second", "first"]
    assert "the order of runs goes on after 6, the highest on record" in caplog.text


def test_a_counter_that_stays_locked_holds_no_call_up(tmp_path: Path) -> None:
    """A process that was stopped may hold the lock; the highest number is given again."""
    order = RunOrder(tmp_path)
    assert [order.take(), order.take()] == [1, 2]
    with (tmp_path / ".order").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert [RunOrder(tmp_path).take(), order.take()] == [2, 2]
    assert order.take() == 3


def test_what_was_taken_back_by_another_run_is_not_offered_again(edited: Cli) -> None:
    """A run that is open elsewhere is undone in a new one, which keeps that on record."""
    with Path(edited.env["XDG_STATE_HOME"], "handrail", "runs", "r", "lock").open() as holds:
        fcntl.flock(holds, fcntl.LOCK_EX)
        assert edited("runs", "undo").code == 0
    again = edited("runs", "undo")
    assert (again.code, "There is nothing to take back" in again.err) == (2, True)


def test_a_refused_undo_says_what_can_be_taken_back_and_how(edited: Cli) -> None:
    """Of a run that only read, and of a call that only read."""
    edited("call", "--run", "s", "read_file", "path=a.txt")
    read = json.loads(edited("runs", "show", "r", "--json").out)["calls"][0]["call_id"]
    edit = json.loads(edited("runs", "show", "r", "--json").out)["calls"][1]["call_id"]
    of_run, of_call = edited("runs", "undo", "s"), edited("runs", "undo", "--call", read)
    assert (of_run.code, "run s changed nothing (read_file)" in of_run.err) == (2, True)
    assert "`handrail runs undo` alone takes back the last change in this workspace" in of_run.err
    assert (of_call.code, f"call {read} changed nothing (read_file)" in of_call.err) == (2, True)
    assert f"`handrail runs undo r` can take back: --call {edit[-12:]} (edit_file: a.txt)" in of_call.err


def test_a_call_is_found_without_the_name_of_its_run(edited: Cli) -> None:
    """By its id or the end of it."""
    call = json.loads(edited("runs", "show", "r", "--json").out)["calls"][1]["call_id"]
    edited("call", "--run", "s", "read_file", "path=a.txt")
    assert edited("runs", "undo", "--call", call[-12:]).code == 0
    unknown = edited("runs", "undo", "--call", "nothing")
    assert (unknown.code, "has a call 'nothing'" in unknown.err) == (2, True)


@pytest.mark.parametrize("run", [(), ("r",)])
def test_undo_of_a_call_without_its_id_takes_nothing_back(edited: Cli, run: tuple[str, ...]) -> None:
    """An empty one is what a script gives whose variable is not set."""
    before = (edited.work / "a.txt").read_text()
    ended = edited("runs", "undo", *run, "--call", "")
    assert (ended.code, "--call needs the id of a call" in ended.err) == (2, True)
    assert (edited.work / "a.txt").read_text() == before != "one\ntwo\nthree\n"


def test_an_id_that_fits_calls_of_several_runs_takes_nothing_back(edited: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of them is not what was meant just because it is the newest; an id that is whole is clear."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, edited.env[name])
    ids = asyncio.run(_files_made(edited.work, "s", 17))  # so many that two of them end alike
    end = next(item[-1] for item in ids if sum(other.endswith(item[-1]) for other in ids) > 1)
    ended = edited("runs", "undo", "--call", end)
    assert (ended.code, f"calls end with '{end}'" in ended.err, "give more of the id" in ended.err) == (2, True, True)
    assert len(list(edited.work.glob("made-*"))) == 17
    assert edited("runs", "undo", "--call", ids[3]).code == 0
    assert not (edited.work / "made-3").exists()


async def _files_made(work: Path, run: str, count: int) -> list[str]:
    """Make files in a run, and give the ids of its calls."""
    async with Runtime.open(work, run_id=run, config={"tools": {"enable": ["fs"]}}) as runtime:
        made = [await runtime.call("write_file", {"path": f"made-{n}", "content": "x"}) for n in range(count)]
    return [outcome.call_id for outcome in made]


def test_undo_of_one_call_by_the_end_of_its_id(edited: Cli) -> None:
    """As `runs show` prints it at a terminal."""
    call = json.loads(edited("runs", "show", "r", "--json").out)["calls"][1]["call_id"]
    assert edited("runs", "undo", "r", "--call", "nothing").code == 2
    assert edited("runs", "undo", "r", "--call", call[-12:]).code == 0
    assert (edited.work / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_undo_shows_the_difference_where_a_file_has_changed_since(edited: Cli) -> None:
    """Refused with both hashes and a diff; nothing is touched, secrets are hidden in the diff, too."""
    secret = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
    (edited.work / "a.txt").write_text(f"one\nmine {secret}\nthree\n")
    refused = edited("runs", "undo", "r")
    assert refused.code == 1
    assert "STALE_FILE: a.txt has changed since call" in refused.err
    assert "expected_sha256: " in refused.err
    assert "actual_sha256: " in refused.err
    assert "-two\n+mine ***REDACTED***" in refused.err
    assert "by hand: what stood there before the call is kept in " in refused.err
    assert (edited.work / "a.txt").read_text() == f"one\nmine {secret}\nthree\n"


def test_a_file_with_its_former_content_counts_as_taken_back(edited: Cli) -> None:
    """Of a run, the rest is taken back; of one call, nothing is left to do. Afterwards nothing is offered again."""
    assert edited("call", "--run", "r", "write_file", "path=b.txt", "content=1").code == 0
    (edited.work / "a.txt").write_text("one\ntwo\nthree\n")
    undone = edited("runs", "undo", "r")
    assert (undone.code, (edited.work / "b.txt").exists()) == (0, False)
    assert undone.out.startswith("Took back 1 change of 2 calls; 1 more change already had its former content")
    assert (edited.work / "a.txt").read_text() == "one\ntwo\nthree\n"
    again = edited("runs", "undo")
    assert (again.code, "There is nothing to take back" in again.err) == (2, True)


def test_undo_alone_goes_past_a_file_with_its_former_content(edited: Cli) -> None:
    """The last call of the workspace is no dead end."""
    assert edited("call", "--run", "r", "write_file", "path=b.txt", "content=1").code == 0
    (edited.work / "b.txt").unlink()
    assert edited("runs", "undo").code == 0
    assert edited("runs", "undo").code == 0
    assert (edited.work / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_refused_undo_says_how_to_pass_over_the_call(edited: Cli) -> None:
    """The others can be taken back by themselves."""
    assert edited("call", "--run", "r", "write_file", "path=b.txt", "content=1").code == 0
    (edited.work / "a.txt").write_text("mine\n")
    refused = edited("runs", "undo", "r")
    calls = json.loads(edited("runs", "show", "r", "--json").out)["calls"]
    call, other = [item["call_id"] for item in calls[1:3]]
    assert (refused.code, f"to pass over call {call[-12:]}: take back the others one by one" in refused.err) == (
        1,
        True,
    )
    assert f"--call {other[-12:]}" in refused.err
    assert edited("runs", "undo", "r", "--call", other[-12:]).code == 0
    assert not (edited.work / "b.txt").exists()


def test_undo_shows_what_the_call_left_where_that_is_kept(edited: Cli) -> None:
    """A later call of the run kept it as its own pre-image."""
    first = json.loads(edited("runs", "show", "r", "--json").out)["calls"][1]["call_id"]
    edited("call", "--run", "r", "edit_file", "path=a.txt", 'edits=[{"old": "2", "new": "zwei"}]')
    refused = edited("runs", "undo", "r", "--call", first)
    assert refused.code == 1
    assert "--- a.txt as the call left it" in refused.err
    assert "-2\n+zwei" in refused.err


def test_undo_is_drawn_by_what_it_put_back(edited: Cli) -> None:
    """Paths and operations; neither Python's way to write them nor whole hashes."""
    assert edited("runs", "undo", "r").out.startswith("Took back 1 change of 1 call")
    for verb in ("tree", "show"):
        drawn = edited("runs", verb, "r").out
        assert "steps=replace a.txt" in drawn
        assert "{'" not in drawn
        assert re.search("[0-9a-f]{64}", drawn) is None


def test_a_call_without_an_end_was_cut_off_unless_its_run_is_in_use(edited: Cli) -> None:
    """No time is made up for it."""
    folder = Path(edited.env["XDG_STATE_HOME"], "handrail", "runs", "r")
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if json.loads(line)["kind"] == "tool.completed"]
    (folder / "events.jsonl").write_text("".join(lines[: ends[-1]]))
    tree, table = edited("runs", "tree", "r").out, edited("runs", "show", "r").out
    assert "cut off by the end of its process; what it did is not known" in tree
    assert table.splitlines()[-1].split()[3:5] == ["cut", "off"]
    assert "0.0" not in tree.splitlines()[-1]
    with (folder / "lock").open() as holds:
        fcntl.flock(holds, fcntl.LOCK_EX)
        assert "running no end on record yet" in edited("runs", "tree", "r").out


def test_who_keeps_the_head_is_not_told_to(edited: Cli, tmp_path: Path) -> None:
    """Only without --keep."""
    assert "keep the head elsewhere" in edited("runs", "verify", "r").err
    assert edited("runs", "verify", "r", "--keep", str(tmp_path / "head")).err == f"head kept in {tmp_path / 'head'}\n"


def test_a_head_that_is_not_there_is_told_with_how_to_keep_one(edited: Cli) -> None:
    """Also where the file holds something else."""
    for name, why in (("nofile", "cannot be read: No such file or directory"), ("a.txt", "holds no head")):
        ended = edited("runs", "verify", "--against", name)
        advice = "Name the file that `handrail runs verify --keep FILE` wrote for this run."
        assert (ended.code, ended.err) == (1, f"handrail: NOT_FOUND: {name} {why}. {advice}\n")


@pytest.mark.parametrize(
    ("duration", "said"),
    [(379.84, "379.8 ms"), (9_999.0, "9999.0 ms"), (38_226.7, "38 s"), (599_000, "599 s"), (900_000, "15 min")],
)
def test_how_long_something_took_is_told_in_a_fitting_unit(duration: float, said: str) -> None:
    """Waits of a minute are not told in thousandths of a second."""
    assert took(duration) == said


def test_a_note_that_is_cut_in_a_tree_says_so() -> None:
    """By an ellipsis at its end."""
    events = [
        {"kind": "tool.started", "call_id": "1", "ts": "", "tool": "write_file", "args": {}},
        {"kind": "approval.required", "call_id": "1", "request": {"reason": "x" * 200}},
    ]
    out = Console(width=80)
    with out.capture() as shown:
        out.print(run_tree("r", events, 80))
    assert f"── asked: {'x' * 62}…" in [line.lstrip(" ├└│") for line in shown.get().splitlines()]


def test_a_full_disk_is_told_with_the_place_of_the_records() -> None:
    """The system names no file for a write."""
    full = _told(OSError(errno.ENOSPC, "No space left on device"))
    assert full is not None
    assert re.fullmatch(r"No space left on device; records are kept in /.+", full[1])
    assert _told(OSError(errno.EIO, "Input/output error")) == (1, "Input/output error")
