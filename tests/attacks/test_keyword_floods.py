"""Text made of nothing but what secrets begin with costs what it is long, in steps and in memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from engines import DATABASE
from handrail.output.engines import Runs, has_hyperscan
from handrail.output.patterns import KINDS
from handrail.output.redact import Redactor
from steps import steps_of

UNITS = ["a", "A", "aA", "sk", "q~", "-us", ":aa", "+aba", "pwd", "A" * 20 + " ", "password=", "aws"]
REDACTORS = [Redactor(engine="plain"), Redactor(database=DATABASE)]
BOTH = pytest.mark.parametrize(
    "redactor",
    [REDACTORS[0], pytest.param(REDACTORS[1], marks=pytest.mark.skipif(not has_hyperscan(), reason="no hyperscan"))],
    ids=["plain", "fast"],
)


@BOTH
@pytest.mark.parametrize("unit", UNITS)
def test_keywords_without_end_are_not_noted_one_by_one(redactor: Redactor, unit: str) -> None:
    """What is remembered of each keyword is a small number, if anything."""
    text = unit * (400_000 // len(unit))
    redactor.text(text[:20_000])  # what is compiled once is not counted
    tracemalloc.start()
    redactor.text(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 * len(text)


@BOTH
@pytest.mark.parametrize("unit", UNITS)
def test_keywords_without_end_take_few_steps(redactor: Redactor, unit: str) -> None:
    """Not one at every place of a run, and none that looks at all that follows."""
    text = unit * (40_000 // len(unit))
    redactor.text(text)
    assert steps_of(lambda: redactor.text(text)) < 3 * len(text)


class Looks:
    """A pattern that counts the characters it is let look at."""

    def __init__(self, pattern: Any) -> None:
        self.pattern = pattern
        self.seen = 0

    def __getattr__(self, name: str) -> Any:
        def look(data: bytes, at: int = 0, end: int = sys.maxsize) -> Any:
            self.seen += min(end, len(data)) - at
            return getattr(self.pattern, name)(data, at, end)

        return look


@pytest.mark.parametrize("unit", ["q~", "-us", ":aa", "+aba", "apim"])
def test_keywords_inside_a_token_are_not_each_looked_around(unit: str) -> None:
    """Their matches begin before them; still no character is looked at more than a few times."""
    redactor = Redactor(engine="plain")
    confirmer = redactor._confirmer
    text = unit * (100_000 // len(unit))
    redactor.text(text)
    looks = {name: Looks(pattern) for name, pattern in confirmer._compiled.items()}
    confirmer._compiled = looks
    redactor.text(text)
    assert 0 < max(one.seen for one in looks.values()) < 8 * len(text)


def spans_of(text: str) -> list[list[tuple[int, int]]]:
    """What each engine hides."""
    return [redactor.spans(text) for redactor in REDACTORS]


@pytest.mark.skipif(not has_hyperscan(), reason="no hyperscan")
@pytest.mark.parametrize("size", [19, 20, 59, 60, 61, 8192, 8200, 20_000, 40_000])
def test_a_run_hides_the_same_with_both_engines(size: int) -> None:
    """Its ends are hidden as well as its middle, whatever stands beside it."""
    body = "A" * size + "b3Dx" * 12
    for text in (body, f"x {body} y", f"aaaa{body}", f"{body}\n{body}", "A" * 30 + " " + body):
        plain, fast = spans_of(text)
        assert plain == fast
    assert size > 61 or (spans_of(f"x {body} y")[0] != []) == (size >= 20)


def test_the_places_of_runs_are_those_of_the_keyword() -> None:
    """Every one, in order, by number and by slice."""
    data = b"AAAA" + b"b" + b"AA" + b"A" * 7 + b"c" + b"AAA" * 3 + b"AA"
    there = [at for at in range(len(data)) if data.startswith(b"AAA", at)]
    runs: Sequence[int] = Runs(data, b"AAA")
    assert list(runs) == there
    assert [runs[number] for number in range(len(runs))] == there
    assert list(runs[2:5]) == there[2:5]


def test_a_keyword_of_one_character_is_the_only_one_of_its_kind() -> None:
    """Its places are then in order without sorting."""
    assert [kind.name for kind in KINDS for word in kind.keywords if len(set(word)) == 1] == ["twitter-bearer-token"]
    assert all(len(kind.keywords) == 1 for kind in KINDS for word in kind.keywords if len(set(word)) == 1)
