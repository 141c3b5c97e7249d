"""Generated lines: what is judged to need no prompt is run in real bash, and neither reaches the marker nor writes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from attacks._shell_bash import MANY, hostile, needs_bash, prepared, run_all
from attacks._shell_gate import unasked
from attacks._shell_lines import ARGUMENTS, EXPANSIONS, HARMLESS, PLAIN, WRAPPERS
from attacks.test_shell import contents
from handrail.policy.rules import Rule
from handrail.words import Decision

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
LINES = max(2_000, 600 * SCALE)  # distinct ones
WRITES_ASK = Rule(Decision.ASK, "rules.1", "fs.write")  # new files are otherwise written without a question
CORPUS = [*HARMLESS, *PLAIN, *EXPANSIONS, *WRAPPERS, *ARGUMENTS]
JOINTS = ["; ", " && ", " || ", " | ", "\n", " & ", ";", "|", " |& ", " # ", " \\\n", "&&", "\t"]
PIECES = [
    "zapper",
    "$(zapper)",
    "`zapper`",
    "'",
    '"',
    "\\",
    "$",
    "`",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "|",
    "&",
    ";",
    "#",
    "\n",
    "\r",
    "\t",
    " ",
    "*",
    "?",
    "~",
    "!",
    "=",
    "$((",
    "))",
    "${",
    "$'",
    "<<E",
    "\nE\n",
    "<<<",
    ">(",
    "<(",
    "--",
    "-exec",
    "{} +",
    "\\;",
    "-o",
    "-e",
    "x=",
    "IFS=",
    "eval",
    "\u00a0",
    "é",
    "\x00",
    "\\\n",
    "$x",
    '"$x"',
    "2>&1",
    "/dev/null",
    "[[",
    "]]",
    "[ ",
    " ]",
    "if ",
    "; then ",
    "; fi",
    "for x in ",
    "; do ",
    "; done",
    "while ",
    "case x in x) ",
    ";; esac",
    "f() ",
    "function ",
    "coproc ",
    "time ",
    "! ",
    "a[$(zapper)]",
    "-v",
    "%n",
    "-I{}",
    "-c ",
    "+",
    ",",
    "..",
    "{a,zapper}",
    ">|",
    "<>",
    "&>",
    "$@",
]
WORDS = [
    "ls",
    "cat",
    "echo",
    "sort",
    "uniq",
    "grep",
    "find",
    "xargs",
    "sed",
    "awk",
    "test",
    "[",
    "printf",
    "read",
    "rg",
    "env",
    "nice",
    "timeout",
    "time",
    "bash",
    "sh",
    "cd",
    "jq",
    "date",
]
ARGS = [
    "a.txt",
    "src",
    "*.txt",
    "src/*",
    "-n",
    "-r",
    "-o",
    "-",
    "--",
    "1",
    "2p",
    "'{print}'",
    "'1,2p'",
    '"$x"',
    "$x",
    "$(ls)",
    "<(ls)",
    "-exec",
    "{}",
    "+",
    "\\;",
    "-k1",
    "-t,",
    "one",
    "x=y",
]


def generated(rng: random.Random) -> str:
    """A line: daily ones and attacks joined, cut, mixed and spoilt, or made of words."""
    kind = rng.random()
    if kind < 0.25:
        words = [rng.choice(WORDS), *rng.choices(ARGS, k=rng.randrange(5))]
        return " ".join(words) + (rng.choice(JOINTS) + " ".join(rng.choices(WORDS + ARGS, k=2)) if kind < 0.1 else "")
    line = rng.choice(HARMLESS if kind < 0.75 else CORPUS)
    if rng.random() < 0.4:
        line += rng.choice(JOINTS) + rng.choice(HARMLESS if rng.random() < 0.6 else CORPUS)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        line = spoilt(line, rng)
    return line


def spoilt(line: str, rng: random.Random) -> str:
    """The line with a piece put in, taken out, doubled or swapped."""
    at = rng.randrange(len(line) + 1)
    how = rng.random()
    if how < 0.6:
        return line[:at] + rng.choice(PIECES) + line[at:]
    end = min(len(line), at + rng.choice((1, 1, 2, 5)))
    if how < 0.8:
        return line[:at] + line[end:]
    return line[:end] + line[at:end] + line[end:] if how < 0.9 else line[:at] + rng.choice(PIECES) + line[end:]


@pytest.mark.slow
def test_generated_lines_that_need_no_prompt_never_reach_the_marker_nor_write(tmp_path: Path) -> None:
    """In a folder where the marker has a hundred names, and the repository is hostile."""
    needs_bash()
    place = prepared(tmp_path / "place", MANY)
    hostile(place)
    rng = random.Random(20_260_101)
    lines: set[str] = set()
    while len(lines) < LINES:
        lines.add(generated(rng))
    quiet = sorted(line for line in lines if unasked(line, WRITES_ASK))
    assert len(quiet) >= 0.15 * LINES
    before = contents(place)
    for start in range(0, len(quiet), 500):
        batch = quiet[start : start + 500]
        marks = run_all(place, batch, fresh=False, seconds=1)
        assert [(line, marked) for line, marked in zip(batch, marks, strict=True) if marked] == []
        assert contents(place) == before, batch


def test_a_judge_that_allows_too_much_is_caught_by_the_run(tmp_path: Path) -> None:
    """The marker is heard under another name, within a pipe, and in a hostile repository."""
    needs_bash()
    place = prepared(tmp_path / "place", MANY)
    hostile(place)
    assert [bool(marks) for marks in run_all(place, ["ls | less", "git status", "ls"], fresh=False)] == [
        True,
        True,
        False,
    ]
