"""Small arguments that ask for much: blanks that multiply, names without number, names without end."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from handrail import arguments, spelling
from handrail.errors import Code, Problem
from handrail.tools.fs.read_file import read_file
from handrail.tools.util._mustache import MAX_OUTPUT_BYTES, render
from handrail.tools.util._mustache_parse import TemplateError

LINES = "x\n" * 20_000
INDENTED = [
    (" " * 50_000 + "{{>p}}\n", {"p": LINES}),
    ("{{<q}}{{$b}}" + LINES + "{{/b}}{{/q}}", {"q": " " * 50_000 + "{{$b}}\n" + " " * 50_000 + "y\n{{/b}}\n"}),
    (" " * 2000 + "{{>p}}\n", {"p": LINES}),
]


@pytest.mark.parametrize(("template", "partials"), INDENTED, ids=["partial", "block", "thread"])
def test_blanks_before_every_line_are_counted_before_they_are_written(template: str, partials: dict[str, str]) -> None:
    """A gigabyte of them would be made of seventy kilobytes."""
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError):
            render(template, {}, partials)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MAX_OUTPUT_BYTES


def test_an_indented_partial_within_the_bounds_is_rendered() -> None:
    """The bound is for what multiplies."""
    assert render("  {{>p}}\n", {}, {"p": "x\n" * 1000}) == "  x\n" * 1000


@pytest.mark.parametrize("count", [20, 4000])
def test_unknown_arguments_cost_the_same_however_many_they_are(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that are told are held against the names that there are."""
    asked = list[str]()

    def counting(name: str, *how: Any) -> list[str]:
        asked.append(name)
        return spelling.nearest(name, *how)

    monkeypatch.setattr(arguments, "nearest", counting)
    with pytest.raises(Problem) as told:
        read_file.parse({f"k{number}": 1 for number in range(count)})
    problem = told.value
    assert problem.code is Code.INVALID_ARGS
    assert len(problem.details["errors"]) == 10
    assert problem.message.startswith("The arguments do not fit: `path`: it is required, got nothing; `k0`: not known")
    assert len(asked) < 25


def test_a_name_without_end_is_compared_with_nothing() -> None:
    """Comparing takes the square of its length."""
    assert spelling.nearest("path" * 100_000, ["path", "paths"], 1, 0.0) == []
    assert spelling.nearest("pathh", ["path", "offset"], 1, 0.6) == ["path"]
