"""json_select: what an expression gives, and how it is refused."""

from __future__ import annotations

import json as _json
import time
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code
from handrail.ports import Limits
from handrail.tools.util.json_select import Selected, json_select
from searching import Searching, fill
from workspaces import refused

PEOPLE = {"people": [{"name": "Ada", "age": 36}, {"name": "Kurt", "age": 71}, {"name": "Alan"}]}


@pytest.mark.parametrize(
    ("json", "expression", "value"),
    [
        (PEOPLE, "people[?age > `40`].name", ["Kurt"]),
        (PEOPLE, "length(people)", 3),
        (PEOPLE, "people[*].{n: name, a: age}[0]", {"n": "Ada", "a": 36}),
        (PEOPLE, "nothing.here", None),
        ('{"a": [1, 2]}', "a[1]", 2),
        ('"text"', "@", "text"),
        ([1, 2, 3], "[-1]", 3),
        (0, "@", 0),
        (False, "@", False),
        ({"a": {"b": 1}}, "to_string(a)", '{"b":1}'),
    ],
)
async def test_an_expression_picks_its_value(tmp_path: Path, json: Any, expression: str, value: Any) -> None:
    """From a value or from JSON text; null where nothing fits."""
    async with Searching(tmp_path) as call:
        answer = await call.call(json_select, json=json, expression=expression)
    assert answer.data == Selected(value)


@pytest.mark.parametrize(
    ("json", "expression"),
    [([1, 2], "[::0]"), ([{"a": 1}, {"a": "x"}], "max_by(@, &a)"), ([{"a": "x"}, {"a": 1}], "min_by(@, &a)")],
)
async def test_what_the_evaluator_stumbles_over_is_told(tmp_path: Path, json: Any, expression: str) -> None:
    """INVALID_ARGS, so that the expression can be mended."""
    async with Searching(tmp_path) as call:
        problem = await refused(call.call(json_select, json=json, expression=expression))
    assert problem.code is Code.INVALID_ARGS
    assert problem.message.startswith("The expression cannot be evaluated: ")


NUMBERS = f'{{"big": {10**30}, "most": {2**64 - 1}, "least": {-(2**63)}, "b": 1}}'


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("big", "an integer of 100 bits, more than the 64 that fit; a text can hold it"),
        ("@", "an integer of 100 bits, more than the 64 that fit; a text can hold it"),
        ("[{x: [big]}]", "an integer of 100 bits, more than the 64 that fit; a text can hold it"),
        ("sum([most, most])", "an integer of 65 bits, more than the 64 that fit; a text can hold it"),
        ("`99999999999999999999`", "an integer of 67 bits, more than the 64 that fit; a text can hold it"),
        ("`1e999`", "inf is not JSON"),
        ("to_number('nan')", "nan is not JSON"),
        ("sum(`[1e308, 1e308]`)", "inf is not JSON"),
    ],
)
async def test_a_number_that_no_answer_can_hold_is_refused_with_the_way_out(
    tmp_path: Path, expression: str, why: str
) -> None:
    """Neither rounded nor null nor a failure of ours: INVALID_ARGS names it."""
    async with Searching(tmp_path) as call:
        problem = await refused(call.call(json_select, json=NUMBERS, expression=expression))
    text = f"The expression gives what no answer can hold ({why}); to_string() makes a text of it."
    assert (problem.code, problem.message) == (Code.INVALID_ARGS, text)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("to_string(big)", str(10**30)),
        ("big > most", True),
        ("b", 1),
        ("[least, most]", [-(2**63), 2**64 - 1]),
    ],
)
async def test_a_large_number_may_be_compared_left_out_and_written_as_text(
    tmp_path: Path, expression: str, value: Any
) -> None:
    """Only handing it on as a number is refused, and 64 bits come back whole."""
    async with Searching(tmp_path) as call:
        answer = await call.call(json_select, json=NUMBERS, expression=expression)
    assert answer.data == Selected(value)


async def test_a_file_is_read_through_the_workspace(tmp_path: Path) -> None:
    """`path` instead of `json`, with the file as evidence."""
    fill(tmp_path, {"a.json": '\ufeff{"a": "é"}'})
    async with Searching(tmp_path) as call:
        answer = await call.call(json_select, path="a.json", expression="a")
    assert (answer.data, [item.ref for item in answer.evidence]) == (Selected("é"), ["a.json"])


async def test_a_file_over_the_read_limit_is_refused(tmp_path: Path) -> None:
    """The limit of the settings holds here too."""
    fill(tmp_path, {"a.json": '"' + "x" * 5000 + '"'})
    async with Searching(tmp_path, limits=Limits(max_read_bytes=1000)) as call:
        problem = await refused(call.call(json_select, path="a.json", expression="@"))
    assert problem.code is Code.FILE_TOO_LARGE


@pytest.mark.parametrize("args", [{"expression": "@"}, {"expression": "@", "json": 1, "path": "a.json"}])
async def test_exactly_one_source_must_be_given(tmp_path: Path, args: dict[str, Any]) -> None:
    """Neither and both are INVALID_ARGS."""
    fill(tmp_path, {"a.json": "1"})
    async with Searching(tmp_path) as call:
        assert (await refused(call.call(json_select, **args))).code is Code.INVALID_ARGS


@pytest.mark.parametrize(("expression", "position"), [("a.b[", 4), ("foo bar", 4), ("a.`", 2), ("a == ", 5), ("[", 1)])
async def test_a_wrong_expression_is_told_with_its_position(tmp_path: Path, expression: str, position: int) -> None:
    """INVALID_ARGS with the place."""
    async with Searching(tmp_path) as call:
        problem = await refused(call.call(json_select, json={}, expression=expression))
    assert (problem.code, problem.details["position"]) == (Code.INVALID_ARGS, position)


@pytest.mark.parametrize("expression", ["nosuch(@)", "length(`1`)", "sort_by(@, &x)", "max(@, @)", "(" * 3000])
async def test_an_expression_that_fails_is_told(tmp_path: Path, expression: str) -> None:
    """INVALID_ARGS, never a crash."""
    async with Searching(tmp_path) as call:
        problem = await refused(call.call(json_select, json={"a": 1}, expression=expression))
    assert (problem.code, problem.message[:15]) == (Code.INVALID_ARGS, "The expression ")


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "NaN", "[" * 1000, "", "{'a': 1}"])
async def test_text_that_is_not_strictly_json_is_refused(tmp_path: Path, text: str) -> None:
    """No duplicate keys, no NaN, no bottomless nesting, from text and from a file."""
    fill(tmp_path, {"a.json": text})
    async with Searching(tmp_path) as call:
        for args in ({"json": text}, {"path": "a.json"}):
            problem = await refused(call.call(json_select, expression="@", **args))
            assert (problem.code, "is not JSON" in problem.message) == (Code.INVALID_ARGS, True)


@pytest.mark.parametrize(
    "expression",
    [
        "|".join(["[@, @]"] * 60),
        "|".join(["{a: @, b: @, c: @}"] * 30) + "|to_string(@)",
        "|".join(["[@, @]"] * 12) + " | to_string(@)",
        "|".join(["[@, @]"] * 12),
        f"({'|'.join(['[@, @]'] * 40)}) == ({'|'.join(['[@, @]'] * 40)})",
    ],
)
async def test_no_expression_makes_a_small_input_grow_without_end(tmp_path: Path, expression: str) -> None:
    """Refused at once, before memory or time is gone."""
    began = time.monotonic()
    async with Searching(tmp_path) as call:
        problem = await refused(call.call(json_select, json=["x" * 1000], expression=expression))
    assert problem.code is Code.INVALID_ARGS
    assert time.monotonic() - began < 5


def test_it_reads_only_what_it_names() -> None:
    """Without a path there is no touch of a file."""
    without, _ = json_select.parse({"json": 1, "expression": "@"})
    with_path, _ = json_select.parse({"path": "a.json", "expression": "@"})
    kinds = [[touch.kind.value for touch in json_select.touches(args)] for args in (without, with_path)]
    assert kinds == [["tool.use"], ["fs.read"]]


SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize(
    "expression", ["reverse(v)", "v", "starts_with(v, 'ghp_')", "length(v)", "token", "[v, token]", "keys(@)"]
)
async def test_no_expression_takes_a_secret_out_of_a_file(opens: Any, work: Path, expression: str) -> None:
    """Hidden before it can be turned round, taken apart, asked about or taken out of the field that names it."""
    (work / "s.json").write_text(_json.dumps({"v": SECRET, "token": "plain-words-here", SECRET: 1}))
    async with opens() as runtime:
        outcome = await runtime.call("json_select", {"path": "s.json", "expression": expression})
    told = _json.dumps(outcome.to_dict())
    assert outcome.ok, outcome.content
    assert not any(part in told for part in (SECRET, SECRET[::-1], "plain-words-here"))
    assert "true" not in outcome.content
    assert str(len(SECRET)) != outcome.content.strip()
