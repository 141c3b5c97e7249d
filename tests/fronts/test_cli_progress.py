"""A command that takes long, at a terminal: how long it has been running and what it wrote last, gone at its end."""

from __future__ import annotations

import asyncio
import os
from io import StringIO
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.front.cli._progress import Elapsed, program_line, showing
from handrail.processes.sink import Written
from terminals import Person


@pytest.mark.parametrize(
    ("seconds", "last", "columns", "shown"),
    [
        (3.9, "", 80, "3 s"),
        (75.0, "compiling", 80, "1:15 min  compiling"),
        (5.0, "a\x1b[2Jb\tc", 80, "5 s  a [2Jb c"),
        (5.0, "x" * 100, 20, f"5 s  {'x' * 13}…"),
        (5.0, "漢" * 100, 20, f"5 s  {'漢' * 6} …"),
    ],
)
def test_the_line_says_how_long_and_what_last_in_one_line(seconds: float, last: str, columns: int, shown: str) -> None:
    """Nothing in it moves the cursor, and it never wraps, for then it could not be taken away."""
    assert program_line(seconds, Written(1, 1, last), columns) == shown


async def test_the_line_is_gone_when_the_program_has_ended_and_does_not_come_again() -> None:
    """Also a short program leaves the terminal as it was."""
    stream = StringIO()
    Elapsed(stream, 60.0).follow("call", lambda: Written(0, 0, ""))()
    assert stream.getvalue() == ""
    over = Elapsed(stream, 0.0, 0.0).follow("call", lambda: Written(1, 1, "here"))
    while "here" not in stream.getvalue():
        await asyncio.sleep(0)
    over()
    shown = stream.getvalue()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (shown.endswith("\r0 s  here\x1b[K\r\x1b[K"), stream.getvalue()) == (True, shown)


async def test_a_person_sees_a_long_command_at_work_and_afterwards_its_answer_alone(work: Path) -> None:
    """From the runtime's own programs to the terminal; where nobody looks, nothing is followed."""
    need_sandbox()
    person = Person()
    with os.fdopen(os.dup(person.stream.fileno()), "w") as stream:
        async with runtime(work) as opened:
            async with showing(opened, stream):
                command = "echo working; while [ ! -e done ]; do sleep 0.02; done"
                running = asyncio.ensure_future(run(opened, command, timeout_seconds=20))
                await person.sees("1 s  working")
                (work / "done").touch()
                outcome = await running
                await person.sees("\x1b[K\r\x1b[K")
            async with showing(opened, StringIO()):
                assert opened.parts.programs.followed is None
    person.leaves()
    assert (outcome.ok, person.seen.endswith("\r\x1b[K")) == (True, True)
