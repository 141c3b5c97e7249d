"""Killed at any moment while changes are kept: afterwards all of them are there, or none."""

from __future__ import annotations

import os
import random
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.processes.unfinished import abandoned
from laws.test_layer import Layered, seen

MOMENTS = 100


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: a disk that others use would make each attempt wait."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def lay_out(place: Path) -> Layered:
    """Make a workspace, and a layer with every kind of change."""
    made = Layered(place)
    work = made.work
    upper = made.upper
    for number in range(12):
        (work / f"d{number}").mkdir()
        for name in ("changed", "gone", "same"):
            (work / f"d{number}" / name).write_text(f"{name} {number}\n")
        (upper / f"d{number}").mkdir()
        (upper / f"d{number}/changed").write_text(f"new {number}\n")
        os.mknod(upper / f"d{number}/gone", stat.S_IFCHR, os.makedev(0, 0))
        (upper / f"new{number}/deep").mkdir(parents=True)
        (upper / f"new{number}/deep/file").write_text("x" * 5000)
        (upper / f"new{number}/link").symlink_to("deep/file")
    (work / "folder/inner").mkdir(parents=True)
    (work / "folder/inner/file").write_text("inner\n")
    os.mknod(upper / "folder", stat.S_IFCHR, os.makedev(0, 0))
    (work / "turned").write_text("no folder\n")
    (upper / "turned").mkdir()
    (upper / "turned/file").write_text("in a folder\n")
    (upper / "twice").write_text("two names\n")
    os.link(upper / "twice", upper / "again")
    return made


def keep_apart(made: Layered) -> int:
    """Keep all changes in a process of its own; gives its number."""
    pid = os.fork()
    if pid == 0:
        made.keep(made.changes())
        os._exit(0)
    return pid


def look_after(made: Layered) -> list[str]:
    """Do what the next runtime does with the notes of a dead one; gives what could not be put back."""
    left: list[str] = []
    for note in abandoned(made.notes, {str(made.work)}):
        if note.is_done:
            note.clean_up()
        else:
            left += note.roll_back(lambda _: None)
        note.remove()
    return left


def test_a_kill_at_a_random_moment_leaves_all_changes_or_none(place: Path, scale: int) -> None:
    """A hundred moments between the first step and the last; many of them are in the middle."""
    whole = lay_out(place / "whole")
    before = seen(whole.work)
    began = time.monotonic()
    os.waitpid(keep_apart(whole), 0)
    took = time.monotonic() - began
    after = seen(whole.work)
    whole.roots.close()
    assert before != after
    dice = random.Random()
    ends: dict[str, int] = {"whole": 0, "taken back": 0, "in the middle": 0}
    for number in range(MOMENTS * scale):
        made = lay_out(place / str(number))
        was = seen(made.work)
        pid = keep_apart(made)
        time.sleep(dice.uniform(0, 1.5 * took))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        at_death = without_times(seen(made.work))
        assert look_after(made) == []
        now = seen(made.work)
        made.roots.close()
        ends["in the middle"] += at_death not in (without_times(was), without_times(after))
        assert now == was or without_times(now) == without_times(after)
        ends["taken back" if now == was else "whole"] += 1
    assert min(ends.values()) > 0, ends


def without_times(tree: dict[str, object]) -> dict[str, object]:
    """Leave out when files were changed: each attempt makes its own."""
    return {name: what[:2] if isinstance(what, tuple) else what for name, what in tree.items()}
