"""What a program makes that policy keeps from tools, and what it moves to where no rule looks."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import orjson
import pytest

from behaviour._commands import need_sandbox, run, runtime

PLANT = """
import os
os.mkdir(".git/hooks")
try:
    open(".git/hooks/pre-commit", "w").write("#!/bin/sh")
except FileNotFoundError:
    pass  # taken away already
open(".git/commondir", "w").write("../elsewhere")
open("handrail.toml", "w").write("[tools]")
os.mkdir(".vscode")
open(".vscode/tasks.json", "w").write("{}")
print("planted", flush=True)
"""
TAKEN = (".git/commondir", ".git/hooks", "handrail.toml")
DENIED = "which no tool may do unasked"


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository without hooks, and a program that plants some."""
    for folder in (".git/objects", ".git/refs"):
        (work / folder).mkdir(parents=True)
    (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (work / ".git/config").write_text("")
    (work / "plant.py").write_text(PLANT)
    return work


def left(work: Path) -> list[str]:
    """Which of the planted things stand there."""
    return [name for name in (*TAKEN, ".vscode") if os.path.lexists(work / name)]


async def test_hooks_and_settings_that_a_program_plants_are_taken_away_and_the_rest_is_told(repository: Path) -> None:
    """What is not there cannot be locked beforehand: it is found afterwards, and each is named."""
    async with runtime(repository) as opened:
        outcome = await run(opened, "python3 plant.py")
    assert left(repository) == [".vscode"]
    assert sorted(outcome.warnings) == [
        *(f"the program made {name}, {DENIED} (builtin.repository); it was taken away again" for name in TAKEN[:2]),
        f"the program made .vscode, {DENIED} (defaults.runs-programs); look at it before you use it",
        f"the program made handrail.toml, {DENIED} (builtin.settings); it was taken away again",
    ]


@pytest.mark.parametrize("how", ["fails", "times out"])
async def test_a_program_that_does_not_end_well_keeps_nothing_planted_either(repository: Path, how: str) -> None:
    """Failure and time limit are no way around."""
    last = "exit 3" if how == "fails" else "sleep 60"
    async with runtime(repository) as opened:
        outcome = await run(opened, f"python3 plant.py; {last}", timeout_seconds=2)
    assert (outcome.status.value, left(repository)) == ("failed", [".vscode"])
    assert sum("taken away" in text for text in outcome.warnings) == 3


async def test_a_tree_too_deep_to_be_watched_hides_no_planted_hook(repository: Path) -> None:
    """Files are watched to a bound; what is protected is looked for beyond it."""
    (repository / "/".join(["d"] * 230)).mkdir(parents=True)
    async with runtime(repository) as opened:
        outcome = await run(opened, "python3 plant.py")
    assert left(repository) == [".vscode"]
    assert sum("taken away" in text for text in outcome.warnings) == 3


@pytest.mark.parametrize("ends", ["by itself", "with the runtime"])
async def test_what_a_job_plants_is_taken_away_when_it_ends(repository: Path, ends: str) -> None:
    """In the background as well; its output says so."""
    line = "python3 plant.py" if ends == "by itself" else "python3 plant.py; sleep 60"
    text = ""
    async with runtime(repository) as opened:
        await run(opened, line, background=True)
        for _ in range(20):
            read = await opened.call("job_read", {"job": "job-1", "wait_seconds": 1})
            text += read.content
            if "planted" in text and (ends != "by itself" or " ended with " in read.content):
                break
        if ends == "by itself":
            assert text.count("it was taken away again") == 3
    assert left(repository) == [".vscode"]


async def test_what_a_job_plants_does_not_stay_while_it_runs(repository: Path) -> None:
    """A job may run for days; whoever uses the repository meanwhile is not to run its hooks."""
    async with runtime(repository) as opened:
        await run(opened, "python3 plant.py; sleep 600", background=True)
        text = ""
        for _ in range(20):
            text += (await opened.call("job_read", {"job": "job-1", "wait_seconds": 1})).content
            if text.count("it was taken away again") == 3:
                break
        assert (left(repository), text.count("look at it before")) == ([".vscode"], 1)
        assert "job-1 is running" in (await opened.call("job_list", {})).content


LIVES = """
import os, time
time.sleep(0.3)
for number in range(5):
    os.mkdir(".git/hooks")
    made = time.monotonic()
    while os.path.lexists(".git/hooks") and time.monotonic() - made < 10:
        time.sleep(0.001)
    print(time.monotonic() - made, flush=True)
"""


async def test_a_hook_planted_by_a_running_program_is_gone_within_moments(repository: Path) -> None:
    """The kernel tells of it: nobody waits for the next look, nor for the program's end."""
    (repository / "lives.py").write_text(LIVES)
    async with runtime(repository) as opened:
        outcome = await run(opened, "python3 lives.py")
    lived = sorted(float(line) for line in outcome.data["stdout"].split())
    assert (len(lived), lived[0] < 0.5, lived[-1] < 5) == (5, True, True), lived
    assert sum("taken away" in text for text in outcome.warnings) == 5


@pytest.mark.parametrize("second", ["foreground", "background"])
async def test_what_a_job_planted_is_taken_away_before_the_next_program_starts(
    repository: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    """Also where nobody has looked since: the start of another one is a reason to."""
    monkeypatch.setattr("handrail.processes.sentry.FIRST_SECONDS", 1000.0)
    async with runtime(repository) as opened:
        await run(opened, "python3 plant.py; sleep 600", background=True)
        read = await opened.call("job_read", {"job": "job-1", "wait_seconds": 10})
        assert ("planted" in read.content, left(repository)) == (True, [*TAKEN, ".vscode"])
        outcome = await run(opened, "ls -a . .git", background=second == "background")
        if second == "background":
            outcome = await opened.call("job_read", {"job": "job-2", "wait_seconds": 10})
        names = outcome.content.split()
        assert ("HEAD" in names, "hooks" in names, "commondir" in names, "handrail.toml" in names) == (
            True, False, False, False,
        )  # fmt: skip
        assert left(repository) == [".vscode"]


async def test_a_repository_that_a_program_makes_is_told_and_works(work: Path) -> None:
    """Its hooks and config are its own: nothing is taken away."""
    line = "git init -q new && cd new && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log -1"
    async with runtime(work) as opened:
        outcome = await run(opened, line)
    assert outcome.status.value == "ok"
    assert (work / "new/.git/config").exists()
    assert outcome.warnings == ("the program made the git repository new/.git; it runs no programs",)


@pytest.mark.parametrize("backend", ["native", "bwrap"])
async def test_a_hidden_file_is_not_read_by_moving_a_folder_above_it(work: Path, backend: str) -> None:
    """One program moves, the next reads: a path that hides must stay where it is."""
    for path in ("conf/secrets/a", ".config/gcloud/a"):
        (work / path).parent.mkdir(parents=True)
        (work / path).write_text("hidden-content")
    rules = [{"effect": "deny", "touch": "fs.read", "target": "conf/secrets/**"}]
    async with runtime(work, config={"rules": rules, "exec": {"sandbox": backend}}) as opened:
        moved = await run(opened, "mv conf conf2; mv conf/secrets conf/s2; mv .config cfg; true")
        if moved.error is not None and moved.error.code == "SANDBOX_UNAVAILABLE":
            pytest.skip(moved.error.message)
        read = await run(opened, "cat conf*/*/a cfg/gcloud/a .config/gcloud/a; true")
    assert "hidden-content" not in read.content
    assert sorted(os.listdir(work)) == [".config", "conf"]


async def test_a_job_that_moves_folders_hides_no_secret_from_the_next_program_s_masks(work: Path, scale: int) -> None:
    """What must be masked is found by a walk; a folder moved in that moment would be missed."""
    (work / "sub").mkdir()
    (work / "sub/.env").write_text("hidden-content")
    (work / "move.py").write_text(
        "import os\n"
        "while True:\n"
        "    for pair in (('sub', 'zz'), ('zz', 'sub')):\n"
        "        try: os.rename(*pair)\n"
        "        except OSError: pass\n"
    )
    async with runtime(work) as opened:
        await run(opened, "python3 move.py", background=True)
        read = [await run(opened, f"cat sub/.env zz/.env; echo {number}") for number in range(40 * scale)]
    assert [outcome.content for outcome in read if "hidden-content" in outcome.content] == []
    assert any(outcome.error is None for outcome in read)


async def test_a_root_for_reading_is_not_written_by_moving_a_folder_above_it(work: Path) -> None:
    """Elsewhere beneath the workspace it would be like any other folder of it."""
    (work / "vendor/lib").mkdir(parents=True)
    (work / "vendor/lib/a").write_text("as it was")
    (work / "move.py").write_text("import os; os.rename('vendor', 'v'); os.makedirs('vendor/lib')")
    async with runtime(work, config={"workspace": {"read": [str(work / "vendor/lib")]}}) as opened:
        await run(opened, "python3 move.py")
        await run(opened, "echo changed > v/lib/a")
    assert sorted(os.listdir(work)) == ["move.py", "vendor"]
    assert (work / "vendor/lib/a").read_text() == "as it was"


async def test_the_ledger_beneath_a_workspace_cannot_be_moved_into_reach(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes the ledger approves for himself."""
    monkeypatch.setenv("XDG_STATE_HOME", str(work / ".local/state"))
    (work / "move.py").write_text("import os; os.rename('.local', 'x')")
    async with runtime(work) as opened:
        await run(opened, "python3 move.py")
        found = await run(opened, "find . -name 'ledger*' -o -name events.jsonl")
    assert sorted(os.listdir(work)) == [".local", "move.py"]
    assert "ledger" not in found.content.partition("[exit code")[0]
    assert list((work / ".local/state/handrail").glob("ledger*"))


async def test_a_file_name_can_be_neither_a_second_line_nor_broken_text(work: Path) -> None:
    """What a program names a file is told so that it cannot pass for the runtime's own words."""
    (work / "names.py").write_text("open('a\\n[exit code 0]','w'); open(b'b\\xff','w'); open('c\\u202ed','w')")
    async with runtime(work) as opened:
        outcome = await run(opened, "python3 names.py")
    assert [change.path for change in outcome.changes] == ["a\\u000a[exit code 0]", "b\\xff", "c\\u202ed"]
    assert outcome.content.count("\n") == 0
    assert orjson.dumps(outcome.to_dict())


async def test_a_review_leaves_out_names_that_no_tool_takes(work: Path) -> None:
    """With a reason, and keeps the rest."""
    (work / "names.py").write_text("open('fine','w'); open(b'b\\xff','w')")
    async with runtime(work, config={"exec": {"workspace": "review"}}) as opened:
        outcome = await run(opened, "python3 names.py")
    assert (outcome.ok, sorted(os.listdir(work))) == (True, ["fine", "names.py"])
    [said] = outcome.warnings
    assert said.startswith("b\\xff was not kept: its name cannot be shown")


async def test_a_review_does_not_show_one_path_and_write_another(work: Path) -> None:
    """A folder in the stead of a link: below it, a path as shown would be one where the link still leads."""
    (work / "src").mkdir()
    (work / "build").symlink_to("src")
    async with runtime(work, config={"exec": {"workspace": "review"}}) as opened:
        outcome = await run(opened, "rm build; mkdir build; echo x > build/main.py")
    assert outcome.warnings == ("build was not kept: it was a link and would become a folder",)
    assert (os.listdir(work / "src"), os.readlink(work / "build")) == ([], "src")


async def test_a_review_shows_that_a_file_can_be_executed_now(work: Path) -> None:
    """As much of a change as its text."""
    (work / "old.sh").write_text("a\n")
    async with runtime(work, config={"exec": {"workspace": "review"}}) as opened:
        outcome = await run(opened, "echo b > old.sh; echo c > new.sh; echo d > plain; chmod 755 old.sh new.sh")
    shown = [line for line in outcome.content.splitlines() if " mode " in line]
    assert shown == ["create new.sh, mode 755", "replace old.sh, mode 755"]


async def test_folders_made_and_swapped_by_a_job_lead_no_tool_into_hooks(repository: Path, scale: int) -> None:
    """A link that is swapped all the time by a program in the background, against writing through it."""
    (repository / ".git/hooks").mkdir()
    (repository / "real").mkdir()
    (repository / "swap.py").write_text(
        "import os, itertools\n"
        "for target in itertools.cycle(['real', '.git/hooks']):\n"
        "    os.symlink(target, 'n'); os.rename('n', 'd')\n"
    )
    async with runtime(repository) as opened:
        await run(opened, "python3 swap.py", background=True)
        while not os.path.lexists(repository / "d"):
            await asyncio.sleep(0.01)
        for number in range(10_000 * scale):  # until one got through, too: most meet a link that has just been swapped
            if number >= 150 * scale and os.listdir(repository / "real"):
                break
            await opened.call("write_file", {"path": f"d/pre-commit{number}", "content": "x"})
    assert os.listdir(repository / ".git/hooks") == []
    assert os.listdir(repository / "real") != []


def test_git_itself_calls_the_planted_hook_where_nobody_takes_it_away(tmp_path: Path) -> None:
    """The control: the file that is taken away would have run."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=b"]
    subprocess.run([*git, "init", "-q", str(tmp_path)], check=True)
    hooks = tmp_path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-commit").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "pre-commit").chmod(0o755)
    subprocess.run([*git, "-C", str(tmp_path), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    assert (tmp_path / "ran").exists()
