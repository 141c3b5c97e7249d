"""What programs do with files in a layer works as on disk: databases, mapped files, locks, links, moved folders."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.testing import ScriptedApprover

BORDER = {"exec": {"workspace": "review", "ask": "border"}, "limits": {"max_repeats": 0}}
DATABASE = """
import sqlite3
db = sqlite3.connect("data.db")
assert db.execute("pragma journal_mode = wal").fetchone() == ("wal",)
db.executemany("insert into t values (?)", [(n,) for n in range(500)])
db.commit()
other = sqlite3.connect("data.db")
assert other.execute("select count(*) from t").fetchone() == (501,)
db.execute("insert into t values (9)")
try:
    other.execute("pragma busy_timeout = 50")
    other.execute("insert into t values (8)")
    raise SystemExit("two writers at once")
except sqlite3.OperationalError as error:
    assert "locked" in str(error)
db.commit()
other.close()
db.close()
"""
MAPPED = """
import mmap
with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
    view[0:5] = b"AFTER"
    view.flush()
    assert open("mapped", "rb").read(5) == b"AFTER"
"""
LOCKED = """
import fcntl, os
holder = open("lock", "w")
fcntl.flock(holder, fcntl.LOCK_EX)
if os.fork() == 0:
    other = open("lock", "w")
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""


@pytest.fixture(autouse=True, params=["disk", "memory"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer on the workspace's file system, and one in memory."""
    need_sandbox()
    if request.param == "memory":
        monkeypatch.setattr("handrail.processes.layer_home.homes", lambda _, __: ())


async def ran(work: Path, script: str) -> None:
    """Run a script in a layer, kept without a question."""
    (work / "script.py").write_text(script)
    approver = ScriptedApprover("no")
    async with runtime(work, config=BORDER, approver=approver) as opened:
        outcome = await run(opened, "python3 script.py")
    assert outcome.ok, outcome.content
    assert approver.asked == []


async def test_a_database_with_a_write_ahead_log(work: Path) -> None:
    """Two connections, one writer at a time; what was committed is in the file that is kept."""
    with sqlite3.connect(work / "data.db") as db:
        db.execute("create table t (n)")
        db.execute("insert into t values (1)")
    db.close()
    await ran(work, DATABASE)
    kept = sqlite3.connect(work / "data.db")
    assert kept.execute("select count(*) from t").fetchone() == (502,)
    assert kept.execute("pragma integrity_check").fetchone() == ("ok",)
    kept.close()


async def test_a_mapped_file(work: Path) -> None:
    """Written through the map, read by its name."""
    (work / "mapped").write_bytes(b"before and more")
    await ran(work, MAPPED)
    assert (work / "mapped").read_bytes() == b"AFTERe and more"


async def test_a_lock_between_two_processes(work: Path) -> None:
    """Of an existing file that is opened twice."""
    (work / "lock").write_text("")
    await ran(work, LOCKED)


async def test_folders_that_are_moved_keep_contents_modes_and_times(work: Path) -> None:
    """By a rename or by the copy that `mv` makes where the layer cannot rename."""
    (work / "d/inner").mkdir(parents=True)
    (work / "d/inner/run.sh").write_text("echo\n")
    (work / "d/inner/run.sh").chmod(0o755)
    os.utime(work / "d/inner/run.sh", (1e9, 1e9))
    await ran(work, "import subprocess; subprocess.run(['mv', 'd', 'moved'], check=True)")
    found = (work / "moved/inner/run.sh").stat()
    assert (found.st_mode & 0o777, found.st_mtime) == (0o755, 1e9)
    assert not (work / "d").exists()


async def test_an_empty_workspace_is_filled_changed_and_undone(work: Path) -> None:
    """Nothing shows through its layer, so that there is none: what is made is kept by the same rules."""
    approver = ScriptedApprover("no")
    async with runtime(work, config=BORDER, approver=approver) as opened:
        made = await run(opened, "mkdir -p a/b && echo x > a/b/c && ln a/b/c a/d && ln -s b a/l && chmod 700 a/b; ls")
        assert sorted(os.listdir(work / "a")) == ["b", "d", "l"]
        assert os.path.samefile(work / "a/b/c", work / "a/d")
        changed = await run(opened, "cat a/l/c && rm -r a/b && echo y > e")
        assert sorted(os.listdir(work / "a")) == ["d", "l"]
        for outcome in (changed, made):
            assert outcome.ok, outcome.content
            assert (await opened.undo(outcome.call_id)).ok
    assert os.listdir(work) == []


async def test_files_that_a_program_leaves_for_the_run_are_kept(work: Path) -> None:
    """The run's own folders have layers, too; once they hold something, it shows through."""
    approver = ScriptedApprover("no")
    async with runtime(work, config=BORDER, approver=approver) as opened:
        folder = opened.parts.folder.deliverables.resolve()
        first = await run(opened, "echo 1 > one", cwd="run:deliverables")
        second = await run(opened, "cat one; echo 2 > two; rm one", cwd="run:deliverables")
        assert (first.ok, second.ok, second.data["stdout"]) == (True, True, "1\n"), second.content
        assert os.listdir(folder) == ["two"]
    assert approver.asked == []
