"""render_template: the tool around the renderer."""

from __future__ import annotations

import time
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.tools.util._mustache import LAMBDAS
from handrail.tools.util._mustache_parse import _known, parse
from handrail.tools.util.render_template import Rendered, render_template
from workspaces import refused

render = render_template.function


async def test_a_template_is_filled_with_any_json_value() -> None:
    """Data, partials and result, and no HTML escaping unless asked."""
    answer = await render("{{#items}}<{{.}}>{{>end}}{{/items}}", {"items": ["a", 1]}, {"end": ";"})
    assert (answer.data, answer.content) == (Rendered("<a>;<1>;"), "<a>;<1>;")
    assert (await render("{{x}}", {"x": "<"})).content == "<"
    assert (await render("{{x}}", {"x": "<"}, escape_html=True)).content == "&lt;"


async def test_data_may_be_left_out() -> None:
    """A template without data renders its text."""
    assert (await render("a{{x}}b")).content == "ab"


async def test_an_unreadable_template_is_told_with_line_and_column() -> None:
    """INVALID_ARGS, machine-readable too."""
    problem = await refused(render("ok\n  {{#open}}", {}))
    assert (problem.code, problem.details) == (Code.INVALID_ARGS, {"line": 2, "column": 3, "partial": None})
    assert problem.message == "The template cannot be read: #open is opened and never closed (line 2, column 3)."


async def test_an_unreadable_partial_is_named() -> None:
    """The place is in the partial, not in the template."""
    problem = await refused(render("{{>p}}", {}, {"p": "{{"}))
    assert problem.details == {"line": 1, "column": 1, "partial": "p"}


async def test_a_template_that_grows_too_far_is_refused() -> None:
    """INVALID_ARGS with the bound."""
    problem = await refused(render("{{#l}}{{#l}}{{v}}{{/l}}{{/l}}", {"l": [1] * 900, "v": "x" * 9000}))
    assert (problem.code, "5242880 bytes" in problem.message) == (Code.INVALID_ARGS, True)


@pytest.mark.parametrize(
    ("template", "data", "partials", "why"),
    [
        ("{{#l}}{{#l}}{{/l}}{{/l}}", {"l": [1] * 20_000}, {}, "500000 steps"),
        ("{{#l}}{{" + "a." * 5000 + "a}}{{/l}}", {"l": [1] * 20_000}, {}, "a name of more than 1000 characters"),
        (
            "{{<p}}" + "".join(f"{{{{$b{n}}}}}x{{{{/b{n}}}}}" for n in range(5000)) + "{{/p}}",
            {},
            {"p": "{{$b1}}{{/b1}}" * 60_000},
            "500000 steps",
        ),
    ],
    ids=["empty sections", "long names", "many blocks"],
)
async def test_what_costs_time_costs_steps(template: str, data: Any, partials: dict[str, str], why: str) -> None:
    """A small template cannot keep a processor busy for minutes."""
    began = time.process_time()
    problem = await refused(render(template, data, partials))
    assert time.process_time() - began < 20
    assert why in problem.message


def test_large_templates_are_not_kept() -> None:
    """Their trees take tens of times their own size."""
    before = _known.cache_info().currsize
    for number in range(3):
        parse("{{a}}" * 10_000 + str(number))
    assert _known.cache_info().currsize == before


async def test_a_large_rendering_is_done_off_the_event_loop() -> None:
    """More steps than may hold up the loop, and still the whole result."""
    answer = await render("{{#l}}{{.}},{{/l}}", {"l": list(range(30_000))})
    assert answer.content == "".join(f"{number}," for number in range(30_000))


async def test_a_registered_function_is_called_once_for_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a rendering that takes long."""
    calls: list[str] = []

    def kept(text: str) -> str:
        calls.append(text)
        return "x"

    monkeypatch.setitem(LAMBDAS, "f", kept)
    answer = await render("{{#l}}.{{/l}}{{#f}}inner{{/f}}", {"l": [1] * 30_000})
    assert (answer.content[-2:], calls) == (".x", ["inner"])


@pytest.mark.parametrize(
    "args", [{}, {"template": 1}, {"template": "x", "partials": {"p": 3}}, {"template": "x", "more": 1}]
)
def test_wrong_arguments_are_refused(args: dict[str, object]) -> None:
    """Strict arguments: nothing is guessed."""
    with pytest.raises(Problem):
        render_template.parse(args)


def test_it_is_pure() -> None:
    """No touch, no permission, low risk."""
    assert (render_template.pure, render_template.permissions, render_template.risk) == (True, (), "low")
