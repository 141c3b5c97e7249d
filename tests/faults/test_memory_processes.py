"""Notes under many writers, kills and bad disks: none lost, none torn, and a clear word."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.memory.sqlite import SqliteMemory
from handrail.ports import Note

WRITERS = 8
WRITER = """
import asyncio, sys
from pathlib import Path
from handrail.memory.sqlite import SqliteMemory
from handrail.ports import Note
async def main(path, name, count):
    memory = SqliteMemory({"user": Path(path)})
    for number in range(count):
        text = f"{name} {number} " + "word " * 50 + f"end {number}"
        await memory.add(Note(f"{name}-{number}", text, scope="user", created=number, updated=number))
        print(number, flush=True)
    await memory.close()
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    """Another process that writes notes, and says each number when its note is safe."""
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def notes_in(path: Path) -> dict[str, str]:
    """All notes; the file and its words must be whole."""
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        found = dict(db.execute("SELECT id, content FROM notes"))
    db.close()
    return found


@pytest.mark.slow
def test_eight_processes_lose_no_note(tmp_path: Path, scale: int) -> None:
    """Each writes as fast as it can, into one file that the first of them makes; a thousand where CI=true."""
    path, count = tmp_path / "m/notes.db", 1000 if os.environ.get("CI") == "true" else min(1000, 100 * scale)
    writers = [writer(path, f"w{number}", count) for number in range(WRITERS)]
    for process in writers:
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert set(notes_in(path)) == {f"w{w}-{number}" for w in range(WRITERS) for number in range(count)}


@pytest.mark.slow
def test_a_kill_in_the_middle_tears_no_note_and_loses_none_that_was_told(tmp_path: Path, scale: int) -> None:
    """Every writer is killed at a moment of its own."""
    chance = random.Random(11)
    path = tmp_path / "m/notes.db"
    for round_number in range(2 * scale):
        writers = [writer(path, f"r{round_number}w{number}", 100_000) for number in range(WRITERS)]
        for process in writers:
            assert process.stdout is not None
            for _ in range(chance.randint(1, 12)):
                process.stdout.readline()
            time.sleep(chance.random() * 0.01)  # somewhere between two notes, or in one
            process.send_signal(signal.SIGKILL)
        told = {f"r{round_number}w{n}": process.communicate()[0].split() for n, process in enumerate(writers)}
        found = notes_in(path)
        for name, numbers in told.items():
            for number in numbers:
                assert f"{name}-{number}" in found
        for note, text in found.items():
            name, number = note.split("-")
            assert text == f"{name} {number} " + "word " * 50 + f"end {number}"


async def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path) -> None:
    """Notes are the person's: they are never made anew in silence."""
    path = tmp_path / "notes.db"
    path.write_bytes(b"not a database, but something of value" * 100)
    memory = SqliteMemory({"user": path})
    with pytest.raises(Problem) as caught:
        await memory.add(Note("n", "x", scope="user"))
    assert caught.value.code is Code.IO_ERROR
    assert str(tmp_path) in caught.value.message
    assert path.read_bytes() == b"not a database, but something of value" * 100


@pytest.mark.parametrize(
    ("column", "value"), [("tags", "no json"), ("tags", "5"), ("updated", "yesterday"), ("created", b"\xff")]
)
async def test_a_note_that_another_program_damaged_is_told(tmp_path: Path, column: str, value: object) -> None:
    """SQLite takes any value in any column."""
    memory = SqliteMemory({"user": tmp_path / "notes.db"})
    await memory.add(Note("a", "x", scope="user"))
    await memory.close()
    with sqlite3.connect(tmp_path / "notes.db") as db:
        db.execute(f"UPDATE notes SET {column} = ?", (value,))
    db.close()
    with pytest.raises(Problem) as caught:
        await memory.search("", None, 10)
    await memory.close()
    assert caught.value.code is Code.IO_ERROR
    assert "the note 'a' is damaged" in caught.value.message


async def test_a_link_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    """What it points to stays as it is."""
    (tmp_path / "target").write_bytes(b"")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/notes.db").symlink_to(tmp_path / "target")
    with pytest.raises(Problem) as caught:
        await SqliteMemory({"user": tmp_path / "m/notes.db"}).add(Note("n", "x", scope="user"))
    assert caught.value.code is Code.IO_ERROR
    assert (tmp_path / "target").read_bytes() == b""


async def test_a_full_disk_is_told_and_over_when_there_is_room(tmp_path: Path) -> None:
    """The note that did not fit is not half there."""
    memory = SqliteMemory({"user": tmp_path / "notes.db"})
    await memory.add(Note("a", "x", scope="user"))
    db = memory._open["user"]
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(Problem) as caught:
        await memory.add(Note("b", "long " * 100_000, scope="user"))
    assert caught.value.code is Code.IO_ERROR
    db.execute("PRAGMA max_page_count = 1000000")
    await memory.add(Note("c", "y", scope="user"))
    assert [note.id for note in await memory.search("", None, 10)] == ["c", "a"]
    await memory.close()
    assert set(notes_in(tmp_path / "notes.db")) == {"a", "c"}


async def test_a_commit_that_fails_takes_that_note_only(tmp_path: Path) -> None:
    """The transaction is over for the next one, too."""
    memory = SqliteMemory({"user": tmp_path / "notes.db"})
    await memory.add(Note("a", "x", scope="user"))
    db = memory._open["user"]
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("CREATE TEMP TABLE owners (id INTEGER PRIMARY KEY)")  # a constraint that only COMMIT looks at
    db.execute("CREATE TEMP TABLE owned (id INTEGER REFERENCES owners DEFERRABLE INITIALLY DEFERRED)")
    db.execute("CREATE TEMP TRIGGER breaks AFTER INSERT ON main.notes BEGIN INSERT INTO owned VALUES (1); END")
    with pytest.raises(Problem) as caught:
        await memory.add(Note("b", "x", scope="user"))
    assert (caught.value.code, caught.value.details["reason"]) == (Code.IO_ERROR, "FOREIGN KEY constraint failed")
    db.execute("DROP TRIGGER breaks")
    await memory.add(Note("c", "x", scope="user"))
    await memory.close()
    assert set(notes_in(tmp_path / "notes.db")) == {"a", "c"}
