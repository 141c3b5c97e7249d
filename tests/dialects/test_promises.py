"""The manifest of promises: every sentence of every document has a row, every row a test, or a reason why not."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FILES = {
    "skills-agent": "test_skills_agent.py",
    "clude": "test_clude.py",
    "tool-hub": "test_tool_hub.py",
    "kgent": "test_kgent.py",
    "autonous": "test_autonous.py",
}
# How many sentences with a promise each document has.
SENTENCES = {"skills-agent": 66, "clude": 71, "tool-hub": 82, "kgent": 69, "autonous": 99}
# The sentences that wait, by document and the part of the product they wait for: another one is a promise not kept.
MAY_WAIT: dict[str, dict[str, set[int]]] = {
    "skills-agent": {},
    "clude": {},
    "tool-hub": {"telemetry": {13}},
    "kgent": {},
    "autonous": {
        "agent": {8, 18, 22, 94},  # its commander over Telegram
    },
}
FIELDS = {"sentence", "section", "promise", "test", "tests", "waits", "deviates"}
Row = dict[str, Any]


def read(document: str) -> list[Row]:
    """Read the rows of one document."""
    rows: list[Row] = tomllib.loads((HERE / "promises" / f"{document}.toml").read_text())["promises"]
    return rows


def named_by(row: Row) -> list[str]:
    """List the tests that a row names."""
    return [*([row["test"]] if "test" in row else []), *row.get("tests", [])]


def find_tests(file: str) -> set[str]:
    """List the tests of a file beside this one."""
    found = ast.parse((HERE / file).read_text()).body
    functions = [node for node in found if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {f"{file}::{node.name}" for node in functions if node.name.startswith("test_")}


@pytest.mark.parametrize("document", FILES)
def test_every_sentence_of_a_document_has_a_row(document: str) -> None:
    """Each number from the first to the last, once."""
    assert [row["sentence"] for row in read(document)] == list(range(1, SENTENCES[document] + 1))


@pytest.mark.parametrize("document", FILES)
def test_every_test_named_by_a_row_exists(document: str) -> None:
    """In the file that is named, which may be another one than the document's own."""
    named = {test for row in read(document) for test in named_by(row)}
    existing = {test for file in {test.partition("::")[0] for test in named} for test in find_tests(file)}
    assert sorted(named - existing) == []


@pytest.mark.parametrize("document", FILES)
def test_every_test_of_a_document_is_named_by_a_row(document: str) -> None:
    """A test that no sentence needs belongs into another file."""
    named = {test for row in read(document) for test in named_by(row)}
    assert sorted(find_tests(FILES[document]) - named) == []


@pytest.mark.parametrize("document", FILES)
def test_a_row_is_whole(document: str) -> None:
    """Section, promise, and what holds it: tests, the part it waits for, or the reason to deviate."""
    for row in read(document):
        assert set(row) <= FIELDS, row
        assert (bool(row["section"]), bool(row["promise"])) == (True, True), row
        assert not ("test" in row and "tests" in row), row
        assert ("waits" in row) + bool(named_by(row)) == 1 or ("deviates" in row and not named_by(row)), row
        assert row.get("deviates", "a reason"), row
    repeated = Counter((row["section"], row["promise"]) for row in read(document))
    assert [promise for promise, count in repeated.items() if count > 1] == []


@pytest.mark.parametrize("document", FILES)
def test_only_the_listed_sentences_wait(document: str) -> None:
    """For a part of the product that is not there yet."""
    waiting = sorted((row["waits"], row["sentence"]) for row in read(document) if "waits" in row)
    assert waiting == sorted((part, number) for part, rows in MAY_WAIT[document].items() for number in rows)
