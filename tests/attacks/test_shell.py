"""Lines that would run a forbidden program, proven in real bash: none runs unasked, and daily lines need no prompt."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from attacks._shell_bash import MARKER, hostile, needs_bash, prepared, run_all
from attacks._shell_forbidden import ALL_FORBIDDEN, PERMITTED
from attacks._shell_gate import unasked
from attacks._shell_lines import ARGUMENTS, ASKED, EXPANSIONS, HARMLESS, OPTIONAL, PLAIN, WRAPPERS
from handrail.policy.patterns import words_match
from handrail.policy.rules import Rule
from handrail.policy.shell import arguments, git, harmless, read_line, reading, scan_word, wrappers
from handrail.words import Decision

judging = sys.modules["handrail.policy.shell.harmless"]  # the function of that name hides it
GROUPS = {"plain": PLAIN, "expansions": EXPANSIONS, "wrappers": WRAPPERS, "arguments": ARGUMENTS}
ALL = [line for lines in GROUPS.values() for line in lines]
# What a careless operator allows: programs that are no interpreters, and run others by their arguments.
ALLOWED = [
    "env",
    "nice",
    "nohup",
    "timeout",
    "time",
    "stdbuf",
    "setsid",
    "xargs",
    "find",
    "sort",
    "rg",
    "tar",
    "zip",
    "awk",
    "sed",
    "command",
    "builtin",
    "exec",
    "eval",
    "trap",
    "flock",
    "script",
    "watch",
    "git",
    "diff",
    "less",
    "bash",
    "sh",
    "dash",
    "echo",
    "ls",
    "cat",
    "printf",
    "read",
    "test",
    "[",
    "[[",
    "declare",
    "unset",
    "let",
    "mapfile",
    "set",
    "wait",
    "export",
    "alias",
    "hash",
    "shopt",
    "split",
    "ssh",
    "ed",
    "gcc",
]
CARELESS = [
    Rule(Decision.ALLOW, f"rules.{name}", "proc.exec", target) for name in ALLOWED for target in (name, f"{name} *")
]
ALLOW_ALL = {"rules": [{"effect": "allow", "touch": "proc.exec"}, {"effect": "allow", "touch": "fs.*"}]}


def denied(line: str) -> bool:
    """Whether a rule that denies the marker sees it."""
    return any(words_match(MARKER, part.words, prefix=True) for part in read_line(line).parts)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the marker and a repository that is hostile from before."""
    needs_bash()
    folder = prepared(tmp_path_factory.mktemp("lines") / "place")
    hostile(folder)
    return folder


@pytest.mark.parametrize("group", GROUPS)
def test_each_line_of_the_attack_reaches_the_forbidden_program_in_real_bash(place: Path, group: str) -> None:
    """A line that does not reach it would prove nothing."""
    missing = {line for name, lines in OPTIONAL.items() if shutil.which(name) is None for line in lines}
    lines = [line for line in GROUPS[group] if line not in missing]
    reached = run_all(place, lines, fresh=group == "arguments")
    assert [line for line, marks in zip(lines, reached, strict=True) if not marks] == []


def test_no_line_that_reaches_the_forbidden_program_runs_unasked() -> None:
    """Neither as harmless, nor because something in it was overlooked."""
    assert len(ALL) == len(set(ALL)) >= 150
    assert [line for line in ALL if unasked(line)] == []


def test_rules_that_allow_the_outer_program_do_not_open_the_line() -> None:
    """Allowing `find *` or `bash *` says nothing of what they run in turn."""
    own_choice = {"git", "bash evil.sh"}  # a rule for `git *` takes what the repository's settings say in the bargain
    opened = [line for line in ALL if unasked(line, *CARELESS)]
    assert (unasked("nohup ls", *CARELESS), unasked("nohup ls")) == (True, False)
    assert [
        line for line in opened if not any(line.startswith(name) for name in own_choice) and "git" not in line
    ] == []


def test_a_rule_that_denies_sees_the_program_in_most_lines_outright() -> None:
    """Where the name is written in the line it is found, however deep; elsewhere the line asks."""
    assert sum(denied(line) for line in ALL) >= 0.5 * len(ALL)


def test_daily_lines_need_no_prompt() -> None:
    """Nobody is asked about looking around."""
    assert len(HARMLESS) >= 40
    assert [line for line in HARMLESS if not unasked(line)] == []


def test_daily_lines_reach_nothing_else_and_write_nothing(place: Path) -> None:
    """What is held harmless is so in real bash, in a hostile repository too."""
    before = contents(place)
    assert [line for line, marks in zip(HARMLESS, run_all(place, HARMLESS, fresh=False), strict=True) if marks] == []
    assert contents(place) == before


def test_lines_that_change_something_ask() -> None:
    """As do those that run what a repository says."""
    assert [line for line in ASKED if unasked(line)] == []


async def test_the_runtime_denies_what_no_rule_allows(opens: Any) -> None:
    """Through the whole of what a call goes through, under rules that allow every command and every file."""
    async with opens(config=ALLOW_ALL, enable=("exec",)) as runtime:
        told = {line: runtime.explain("run_command", {"command": line}) for line in ALL_FORBIDDEN if len(line) < 65_536}
        let = runtime.explain("run_command", {"command": PERMITTED.splitlines()[0]})
    assert [line for line, verdict in told.items() if verdict.decision is not Decision.DENY] == []
    assert [line for line, verdict in told.items() if "builtin.command" not in [f.rule for f in verdict.findings]] == []
    assert let.decision is Decision.ALLOW


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the notes of the runs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("marks", "number")
    }


# ── planted faults ───────────────────────────────────────────────────────────────────────────


def test_a_judge_that_ignores_doubts_is_caught() -> None:
    """The lines find it."""
    careless = [
        line for line in ALL if not denied(line) and all(harmless(part.words) for part in read_line(line).parts)
    ]
    assert careless


def test_a_judge_of_first_words_is_caught() -> None:
    """Looking at the name of each command alone lets many through."""
    names = {read_line(line).parts[0].words[0] for line in HARMLESS}
    through = [
        line
        for line in ALL
        if not denied(line) and all(p.words[:1] and p.words[0] in names for p in read_line(line).parts)
    ]
    assert len(through) >= 20


FAULTS: dict[str, tuple[Any, str, Any, str]] = {
    "a plus ends every command of find": (
        wrappers,
        "_ends",
        lambda _, text: text in (";", "+"),
        "find big.txt -exec sort + -S1k --compress-program=zapper {} \\;",
    ),
    "variables are not looked at": (reading, "changes_programs", lambda *_: False, "PATH=$PWD/fake:$PATH ls"),
    "two dashes always end options": (judging, "_ends_options", lambda _: True, "rg -e -- --pre zapper a.txt"),
    "git is trusted": (git, "calm", lambda _: True, "git status"),
    "names in arithmetic are trusted": (
        scan_word,
        "_NUMBERS",
        re.compile(r"\$\(\([^)]*\)\)"),
        "x='a[$(zapper)0]'; echo $((x))",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lets one of the lines through that the judge as it is holds back."""
    module, name, planted, line = FAULTS[fault]
    monkeypatch.setattr(reading, "_cached", reading.read_anew)
    monkeypatch.setattr(arguments, "_HIDDEN", {})
    assert line in ALL
    assert not unasked(line)
    monkeypatch.setattr(module, name, planted)
    assert unasked(line)
