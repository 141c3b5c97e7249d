"""Laws of arguments: strict, a few small repairs and nothing else, defaults ours, and faults that are named."""

# No postponed annotations here: tools made inside a test could not be read otherwise.
from collections import deque
from dataclasses import dataclass
from time import process_time
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from handrail.arguments import short
from handrail.catalog import Tool, tool
from handrail.errors import Code, Problem
from handrail.output.redact import Redactor


@dataclass(frozen=True, slots=True)
class Change:
    """One nested argument."""

    old: str
    new: str
    near_line: int | None = None


@tool(pure=True, risk="low")
async def sample(
    path: Annotated[str, "where it is"],
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    ratio: float = 1.0,
    whole: bool = False,
    mode: Literal["create", "append"] = "create",
    edits: list[Change] = [],  # noqa: B006
    tags: list[str] | None = None,
    data: dict[str, Any] | None = None,
    content: str = "",
) -> int:
    """Take one argument of each type."""
    return 0


DEFAULTS: dict[str, Any] = {
    "limit": 10,
    "ratio": 1.0,
    "whole": False,
    "mode": "create",
    "edits": [],
    "tags": None,
    "data": None,
    "content": "",
}


def parsed(**args: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    return sample.parse({"path": "a", **args})


def refused(args: Any, *, of: Tool = sample, repair: bool = True) -> Problem:
    with pytest.raises(Problem) as caught:
        of.parse(args, repair=repair)
    assert caught.value.code is Code.INVALID_ARGS
    return caught.value


def fields(problem: Problem) -> list[tuple[str, str, str]]:
    return [(item["field"], item["expected"], item["got"]) for item in problem.details["errors"]]


# ── strict ───────────────────────────────────────────────────────────────────────────────────


def test_defaults_are_ours_and_fresh_for_each_call() -> None:
    """A call need name only what it must, and what one call does to a default no other sees."""
    first, warnings = parsed()
    assert (first, warnings) == ({"path": "a", **DEFAULTS}, ())
    first["edits"].append("spoilt")
    assert parsed()[0]["edits"] == []


def test_arguments_that_fit_are_taken_as_they_are() -> None:
    """Text that looks like JSON stays text where text is wanted; nested objects become what they are declared as."""
    given = {"limit": 3, "ratio": 2, "content": "[1]", "data": {"a": None}, "edits": [{"old": "a", "new": "b"}]}
    values, warnings = parsed(**given)
    assert warnings == ()
    assert values == {"path": "a", **DEFAULTS, **given, "edits": [Change("a", "b")]}


@pytest.mark.parametrize(
    ("field", "value", "expected", "got"),
    [
        ("limit", 5.5, "expected a whole number", "5.5 (a number)"),
        ("limit", True, "expected a whole number", "True (a boolean)"),
        ("limit", "5.0", "expected a whole number", "'5.0' (a string)"),
        ("limit", "0x10", "expected a whole number", "'0x10' (a string)"),
        ("limit", "five", "expected a whole number", "'five' (a string)"),
        ("limit", "true", "expected a whole number", "'true' (a string)"),
        ("limit", [5], "expected a whole number", "[5] (a list)"),
        ("limit", 0, "expected at least 1", "0 (a number)"),
        ("limit", "101", "expected at most 100", "101 (a number)"),
        ("ratio", "nan", "expected a number", "'nan' (a string)"),
        ("ratio", True, "expected a number", "True (a boolean)"),
        ("whole", "true", "expected true or false", "'true' (a string)"),
        ("whole", 1, "expected true or false", "1 (a number)"),
        ("mode", "Create", "expected one of 'create' or 'append'", "'Create' (a string)"),
        ("path", 5, "expected a string", "5 (a number)"),
        ("path", None, "expected a string", "null"),
        ("path", b"a", "expected a string", "b'a' (bytes)"),
        ("content", ["a"], "expected a string", "['a'] (a list)"),
        ("tags", "a", "expected a list", "'a' (a string)"),
        ("tags", ("a",), "expected a list", "('a',) (a list)"),
        ("tags", '{"a": 1}', "expected a list", "'{\"a\": 1}' (a string)"),
        ("data", "[1]", "expected an object", "'[1]' (a string)"),
        ("data", '{"a": 1, "a": 2}', "expected an object", '\'{"a": 1, "a": 2}\' (a string)'),
        ("data", '{"a": NaN}', "expected an object", "'{\"a\": NaN}' (a string)"),
    ],
)
def test_anything_else_wrong_is_refused_and_not_mended(field: str, value: Any, expected: str, got: str) -> None:
    """The field, what was expected and what came; no conversion, no guess."""
    assert fields(refused({"path": "a", field: value})) == [(field, expected, got)]


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        ([{"old": "a", "new": "b", "near_line": "3"}], "edits.0.near_line"),
        ([{"old": "a", "new": "b"}, {"old": "a"}], "edits.1.new"),
        ([{"old": "a", "new": "b", "more": 1}], "edits.0.more"),
        (['{"old": "a", "new": "b"}'], "edits.0"),
        ([{"old": 1, "new": "b"}], "edits.0.old"),
    ],
)
def test_nested_arguments_are_strict_and_never_mended(edits: list[Any], field: str) -> None:
    """Repairs are for the arguments themselves; inside them the place of the fault is named."""
    assert [name for name, *_ in fields(refused({"path": "a", "edits": edits}))] == [field]


@pytest.mark.parametrize("args", [None, [], "x", 3, [("path", "a")]])
def test_what_is_no_object_is_refused(args: Any) -> None:
    """Arguments are one object."""
    assert [name for name, *_ in fields(refused(args))] == ["arguments"]


def test_every_fault_is_named_at_once_and_long_values_by_their_length() -> None:
    """A model can mend all of it in one more call."""
    problem = refused({"limit": "x" * 200, "mode": "z"})
    assert [name for name, *_ in fields(problem)] == ["path", "limit", "mode"]
    assert fields(problem)[1][2] == "a str of length 200 (a string)"
    assert problem.message.startswith(
        "The arguments do not fit: `path`: it is required, got nothing; `limit`: expected"
    )


# ── repairs ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("field", "value", "mended", "warning"),
    [
        ("limit", None, 10, "`limit` was null and is taken as not given"),
        ("mode", None, "create", "`mode` was null and is taken as not given"),
        ("edits", None, [], "`edits` was null and is taken as not given"),
        ("limit", "5", 5, "`limit` came as text and is read as a number"),
        ("ratio", "2.5", 2.5, "`ratio` came as text and is read as a number"),
        ("ratio", "-3", -3.0, "`ratio` came as text and is read as a number"),
        ("tags", '["a"]', ["a"], "`tags` came as text and is read as an array"),
        ("data", '{"a": [1]}', {"a": [1]}, "`data` came as text and is read as an object"),
        ("edits", '[{"old": "a", "new": "b"}]', [Change("a", "b")], "`edits` came as text and is read as an array"),
    ],
)
def test_small_slips_are_mended_and_reported(field: str, value: Any, mended: Any, warning: str) -> None:
    """Null for an optional, a JSON string where an array or object belongs, a number as a string."""
    assert parsed(**{field: value}) == ({"path": "a", **DEFAULTS, field: mended}, (warning,))


def test_several_slips_are_mended_together() -> None:
    """Each with its own warning, in the order they were found."""
    values, warnings = parsed(limit="5", tags='["a"]', mode=None)
    assert (values["limit"], values["tags"], values["mode"]) == (5, ["a"], "create")
    assert sorted(text.split(" ")[0] for text in warnings) == ["`limit`", "`mode`", "`tags`"]


def test_a_slip_beside_a_real_fault_does_not_hide_it() -> None:
    """What is left after mending is what is told."""
    assert [name for name, *_ in fields(refused({"path": 3, "limit": "5"}))] == ["path"]


def test_nothing_is_mended_where_settings_forbid_it() -> None:
    """`tools.repair = false` refuses what would have been mended."""
    for args in ({"limit": "5"}, {"limit": None}, {"tags": "[]"}):
        told = [name for name, *_ in fields(refused({"path": "a", **args}, repair=False))]
        assert told == list(args)


@pytest.mark.parametrize("repair", [True, False])
def test_a_whole_number_with_a_point_is_an_integer(repair: bool) -> None:
    """JSON Schema counts 1.0 as one, inside arguments too; it is handed on as an integer, and reported."""
    edit = {"old": "a", "new": "b", "near_line": 3.0}
    args = {"path": "a", "limit": 5.0, "edits": [edit, {**edit, "near_line": -0.0}], "data": {"x": 1.0}}
    told, warnings = sample.parse(args, repair=repair)
    edits = [Change("a", "b", 3), Change("a", "b", 0)]
    assert told == {"path": "a", **DEFAULTS, "limit": 5, "edits": edits, "data": {"x": 1.0}}
    assert [type(told["limit"]), type(edits[0].near_line), type(told["data"]["x"])] == [int, int, float]
    said = " came as a number with a point and is read as a whole one"
    assert (warnings, edit["near_line"].__class__) == ((f"`limit`{said}", f"`edits`{said}"), float)


@pytest.mark.parametrize("limit", [1.5, -2.0, 2.0**53, 1e300, 101.0])
def test_no_other_number_with_a_point_is_an_integer(limit: float) -> None:
    """What is not whole, not exact, or out of bounds is refused as ever."""
    for repair in (True, False):
        assert [name for name, *_ in fields(refused({"path": "a", "limit": limit}, repair=repair))] == ["limit"]


def test_many_whole_numbers_with_a_point_take_no_longer_than_they_are_many() -> None:
    """Each list is copied once, however many of its numbers are changed."""

    @tool(pure=True, risk="low")
    async def sums(numbers: list[int], table: list[list[int]]) -> int:
        """Add numbers."""
        return 0

    numbers = [float(number) for number in range(20_000)]
    began = process_time()
    told, _ = sums.parse({"numbers": numbers, "table": [numbers, numbers]})
    assert (told, process_time() - began < 5) == ({"numbers": numbers, "table": [numbers, numbers]}, True)


def test_the_callers_own_arguments_are_never_changed() -> None:
    """Mending works on a copy."""
    args = {"path": "a", "limit": "5", "mode": None}
    sample.parse(args)
    assert args == {"path": "a", "limit": "5", "mode": None}


@pytest.mark.parametrize(
    ("args", "near", "next_args"),
    [
        ({"file_path": "a"}, {"file_path": "did you mean path?"}, {"path": "a"}),
        (
            {"pth": "a", "limt": 3},
            {"pth": "did you mean path?", "limt": "did you mean limit?"},
            {"path": "a", "limit": 3},
        ),
        ({"path": "a", "text": "b"}, {"text": "did you mean content?"}, {"path": "a", "content": "b"}),
        ({"file": "a", "path": "b"}, {"file": "did you mean path?"}, None),
        ({"file": 3}, {"file": "did you mean path?"}, None),
        ({"file": "a", "data": {"n": 10**30}}, {"file": "did you mean path?"}, None),
        ({"path": "a", "zzz": 1}, {"zzz": f"not known, use one of {', '.join(['path', *DEFAULTS])}"}, None),
    ],
)
def test_a_wrong_name_gets_the_nearest_and_the_call_that_would_work(
    args: dict[str, Any], near: dict[str, str], next_args: dict[str, Any] | None
) -> None:
    """`next_call` is given only where the right names alone make the call fit."""
    problem = refused(args)
    told = {name: expected for name, expected, _ in fields(problem)}
    assert {name: told[name] for name in near} == near
    assert problem.next_call == (None if next_args is None else {"tool": "sample", "args": next_args})
    assert "next_args" not in problem.details


# ── what a program may hand over ─────────────────────────────────────────────────────────────


def test_a_name_that_is_no_text_is_refused() -> None:
    """A program may hand over any mapping; it gets a problem, not a crash."""
    assert refused({"path": "a", 1: 2}).code is Code.INVALID_ARGS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ratio", float("nan")),
        ("ratio", "1e999"),
        ("path", "\ud800"),
        ("data", {"a": 2**70}),
        ("data", {"a": "\udfff"}),
    ],
)
def test_what_json_cannot_hold_is_refused(field: str, value: Any) -> None:
    """Arguments are journaled and digested as JSON, so they must be writable as such."""
    assert refused({"path": "a", field: value}).code is Code.INVALID_ARGS


def test_an_unknown_nested_name_is_answered_with_the_nested_names() -> None:
    """`edits.0.nwe` is near `new`, and no name of the tool's own."""
    problem = refused({"path": "a", "edits": [{"old": "a", "new": "b", "nwe": "c"}]})
    assert fields(problem) == [("edits.0.nwe", "did you mean new?", "'c'")]


# ── schemas ──────────────────────────────────────────────────────────────────────────────────


def test_the_schema_describes_arguments_and_forbids_others() -> None:
    """Also inside nested objects, and with our defaults and descriptions."""
    schema = sample.spec()["args_schema"]
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["path"], False)
    assert schema["$defs"]["Change"]["additionalProperties"] is False
    assert schema["properties"]["path"] == {"description": "where it is", "type": "string"}
    assert schema["properties"]["limit"] == {"default": 10, "maximum": 100, "minimum": 1, "type": "integer"}
    assert list(schema["properties"]) == ["path", *DEFAULTS]


def test_a_tool_without_arguments_has_a_whole_schema_too() -> None:
    """An object with no properties, and none allowed."""

    @tool(pure=True)
    async def nothing() -> int:
        """Do nothing."""
        return 0

    assert nothing.spec()["args_schema"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert nothing.parse({}) == ({}, ())
    refused({"x": 1}, of=nothing)


@pytest.mark.parametrize("before", ["\x00", "\x1b", "\ud800", "\u200b", "\U000e0001"])
def test_a_value_is_shown_so_that_a_secret_in_it_is_still_recognised(before: str) -> None:
    """The letters of an escape would stand where the secret's own beginning is looked for."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for value in (f"{before}{token}", [f"{before}{token}"], {f"{before}{token}": 1}):
        shown = short(value)
        assert token in shown
        assert token not in Redactor(()).text(shown)


@dataclass(frozen=True, slots=True)
class Counted:
    """A result with a number, and with anything."""

    number: int = 0
    anything: Any = None


@tool(pure=True, risk="low")
async def counted() -> Counted:
    """Count."""
    return Counted()


@tool(pure=True, risk="low")
async def loose() -> dict[str, Any]:
    """Give anything."""
    return {}


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400, 10**5000], ids=["over", "under", "long", "endless"])
def test_a_result_with_a_number_that_no_outcome_can_hold_is_refused(number: int) -> None:
    """INVALID_RESULT names the field, wherever in the result it stands."""
    told = []
    for made, value in (
        (counted, Counted(number=number)),
        (counted, Counted(anything=[{"a": number}])),
        (loose, {"a": {"b": number}}),
        (loose, {"a": [{number}]}),
        (loose, {"a": (1, frozenset([frozenset([number])]))}),
        (loose, {"a": deque([number])}),
        (loose, {"a": Counted(anything={number})}),
    ):
        with pytest.raises(Problem) as caught:
            made.shape.result(value)
        told.append((caught.value.code, [item["field"] for item in caught.value.details["errors"]]))
    fields = ["number"], ["anything"], *[["a"]] * 5
    assert told == [(Code.INVALID_RESULT, field) for field in fields]


def test_a_result_with_numbers_of_64_bits_is_taken_whole() -> None:
    """Both ends of the range, as a number and inside of anything."""
    for number in (2**64 - 1, -(2**63)):
        data = {"number": number, "anything": {"a": [number, "x", None]}}
        assert counted.shape.result(Counted(number, {"a": [number, "x", None]})) == data
        assert loose.shape.result({"a": number}) == {"a": number}
        assert loose.shape.result({"a": {number}, "b": iter([number])}) == {"a": [number], "b": [number]}
