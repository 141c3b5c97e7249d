"""The manifest of promises is whole: none without a test, no test without one."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROWS: list[dict[str, Any]] = tomllib.loads((HERE / "promises.toml").read_text())["promises"]
FILES = {
    "skills-agent": "test_skills_agent.py",
    "clude": "test_clude.py",
    "tool-hub": "test_tool_hub.py",
    "kgent": "test_kgent.py",
    "autonous": "test_autonous.py",
}
# Every row that may wait, by name: another one is a promise that is not kept.
MAY_WAIT = {
    "agent": {
        ("skills-agent", "the agent puts an error into its context and updates its plan"),
        ("clude", "the prompt of the agent asks for a display when a step begins"),
        ("autonous", "a worker runs several rounds of tools within one task"),
        ("autonous", "one worker takes tasks from the inbox, one after the other"),
        ("autonous", "tools run inside the worker; there is no further kind of process"),
        ("autonous", "a task begins with agent.started and ends with agent.completed"),
        ("autonous", "the results of tools go into the context of the next round"),
        ("autonous", "the final answer is sent through the commander"),
        ("autonous", "every round of tools counts towards max_turns"),
        ("autonous", "the time of all rounds counts towards max_wall_time"),
        ("autonous", "tokens of the model go on counting towards max_tokens"),
        ("autonous", "the supervisor hands its roots on to the worker"),
        ("autonous", "a failing tool works together with retry and circuit breaker of the task"),
        ("autonous", "a message from the commander goes the whole way to a tool and back"),
        ("autonous", "agent, turn and tool call can be put together again as a tree of events"),
        ("autonous", "the worker goes on using its commander, its model provider and its control policy"),
        ("autonous", "the worker looks at turns, wall time, retries and circuit before each round"),
    },
    "telemetry": {
        ("tool-hub", "every call is counted in metrics"),
        ("kgent", "tool events are counted in metrics for monitoring"),
    },
}


def names_in(document: str) -> dict[str, str]:
    """The tests of a document's file, with the section that each names."""
    tree = ast.parse((HERE / FILES[document]).read_text())
    found = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {
        f"{FILES[document]}::{node.name}": (ast.get_docstring(node) or "").replace("\n", " ").partition(": ")[0]
        for node in found
        if node.name.startswith("test_")
    }


@pytest.mark.parametrize("document", FILES)
def test_every_promise_has_its_test_and_every_test_its_promise(document: str) -> None:
    """Checked both ways, with the section of the document."""
    rows = {row["test"]: row["section"] for row in ROWS if row["document"] == document and "test" in row}
    assert rows == names_in(document)


@pytest.mark.parametrize("document", FILES)
def test_the_name_of_a_test_is_its_promise(document: str) -> None:
    """A reader of the manifest reads what is tested."""
    for row in ROWS:
        if row["document"] == document and "test" in row:
            assert row["test"].partition("::test_")[2].replace("_", " ") == row["promise"]


def test_rows_are_whole_and_only_once() -> None:
    """Document, section, promise, and a test or what it waits for."""
    assert all(
        set(row) in ({"document", "section", "promise", "test"}, {"document", "section", "promise", "waits"})
        for row in ROWS
    )
    assert [key for key, count in Counter((row["document"], row["promise"]) for row in ROWS).items() if count > 1] == []
    assert {row["document"] for row in ROWS} == set(FILES)


def test_there_are_at_least_two_hundred() -> None:
    """Over the five, and a fair share for each."""
    counts = Counter(row["document"] for row in ROWS if "test" in row)
    assert (sum(counts.values()) >= 200, min(counts.values()) >= 40) == (True, True), counts


def test_only_the_named_rows_wait() -> None:
    """For the agent worker or for metrics; a row that waits no more is taken off the list, too."""
    waiting = {(row["document"], row["promise"], row["waits"]) for row in ROWS if "waits" in row}
    assert waiting == {(*row, part) for part, rows in MAY_WAIT.items() for row in rows}
