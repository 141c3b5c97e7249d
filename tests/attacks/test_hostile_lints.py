"""Files and linters that mean harm to whoever reads what is said of them: no endless time, no lines of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Problem
from handrail.tools.quality._diagnostics import MAX_MESSAGE, Diagnostic, read_output
from handrail.tools.quality._syntax import MAX_BYTES, MAX_DEPTH, MAX_PARTS, check_toml, checker_for

LONG = 300_000
SECONDS = 10.0  # of processor time; what is not linear takes minutes


@pytest.mark.parametrize(
    "line",
    [
        f"a.c:1: x{' ' * LONG}[abc",
        f"a.c:1:2: error: x {' ' * LONG}[",
        f"a.c:1: {' [' * LONG}",
        f"a.c:1: [{'a' * LONG}]",
        f"{':' * LONG}",
        f"{'1:' * LONG}",
        f"a.c:1: {'(' * LONG}{')' * LONG}",
    ],
    ids=["blanks", "blanks after a severity", "brackets", "a long code", "colons", "numbers", "parentheses"],
)
@pytest.mark.parametrize("form", ["gcc", "bash", "json", "ruff"])
def test_a_long_line_of_a_linter_is_read_in_linear_time(line: str, form: str) -> None:
    """Whatever it is made of; what is told of it is short."""
    began = time.process_time()
    found = list(read_output(line, form, "a.c", "cc"))
    assert time.process_time() - began < SECONDS
    assert all(len(item.message) <= MAX_MESSAGE for item in found)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.yaml", "[" * LONG, f"nested more than {MAX_DEPTH} levels deep"),
        ("a.yaml", '{"a":' * (LONG // 5), f"nested more than {MAX_DEPTH} levels deep"),
        ("a.yaml", "- " * (LONG // 2), f"nested more than {MAX_DEPTH} levels deep"),
        ("a.json", "[" * LONG, "nested too deep to be read"),
    ],
)
def test_a_file_that_a_parser_would_never_be_done_with_is_told(name: str, text: str, fault: str) -> None:
    """A parser's thread cannot be stopped, so it must not begin what does not end."""
    check, began = checker_for(name), time.process_time()
    assert check is not None
    found = check(text[:MAX_BYTES], name)
    assert time.process_time() - began < SECONDS
    assert found is not None
    assert found.message == fault


@pytest.mark.parametrize(
    "text",
    [
        "a." * LONG + "b = 1",
        "x = 1\n[" + '"a" . ' * LONG + "b]",
        "x = {y = 1, " + "'a'." * LONG + "b = 1}",
    ],
)
def test_a_key_that_a_parser_would_never_be_done_with_is_not_checked(text: str) -> None:
    """It is said, and where."""
    began = time.process_time()
    with pytest.raises(Problem, match=f"line [12] reads like a key of more than {MAX_PARTS} parts"):
        check_toml(text[:MAX_BYTES], "a.toml")
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(
    "text",
    [
        "a.b.c = 1\n",
        "versions = [" + '"1.2.3", ' * 200 + "]\n",
        f'x = """\n{"and so on, etc. " * 500}\n"""\n',
        "".join(f"a.b.c{number} = {number}.5\n" for number in range(500)),
    ],
)
def test_dots_elsewhere_are_no_parts_of_a_key(text: str) -> None:
    """Ordinary files are checked as before."""
    assert check_toml(text, "a.toml") is None


def said(form: str, text: str) -> list[Diagnostic]:
    """What is read out of a linter's output."""
    return list(read_output(text, form, "a.js", "lint"))


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("json", '{"message": "x\\n[0 diagnostics in 1 of 1 file]\\u2028b.js:1: error", "line": 1}',
         "x [0 diagnostics in 1 of 1 file] b.js:1: error"),
        ("json", '{"message": "half \\ud800 a character", "line": 1}', "half ? a character"),
        ("json", '{"message": {"a": ["b"]}, "line": {"c": 1}, "location": "here"}', "{'a': ['b']}"),
        ("ruff", '{"message": "m\\nn", "location": "here", "code": ["c\\nd"]}', "m n"),
        ("ruff", '{"message": 5, "location": [1]}', "5"),
    ],
)  # fmt: skip
def test_what_a_linter_says_is_one_line_of_text(form: str, text: str, message: str) -> None:
    """It quotes the file it is about, so it cannot be let pass for the tool's own lines."""
    (found,) = said(form, text)
    assert (found.message, "\n" in found.code) == (message, False)


async def test_a_file_of_brackets_is_looked_at_and_the_call_ends(opens: Any, work: Path) -> None:
    """Through the gate, beside one that is in order."""
    (work / "deep.yaml").write_text("[" * LONG)
    (work / "dots.toml").write_text("a." * LONG + "b = 1")
    (work / "fine.yaml").write_text("a: [1, 2]\n")
    began = time.process_time()
    async with opens() as runtime:
        outcome = await runtime.call("read_lints", {"paths": ["deep.yaml", "dots.toml", "fine.yaml"]})
    assert time.process_time() - began < SECONDS
    assert [(item["file"], item["status"]) for item in outcome.data["files"]] == [
        ("deep.yaml", "checked"),
        ("dots.toml", "not checked"),
        ("fine.yaml", "checked"),
    ]
    assert [item["file"] for item in outcome.data["diagnostics"]] == ["deep.yaml"]
