"""Numbers with a point in a dialect's arguments: JSON Schema counts 1.0 as an integer, and so does every dialect."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import dialects
from handrail.dialects._schema import check, properties
from handrail.errors import Code, Problem

SCHEMA = properties(
    count={"type": "integer", "minimum": 0},
    ratio_="number",
    either_={"type": ["integer", "string"]},
    rows_={"type": "array", "items": {"type": "object", "properties": {"line": {"type": "integer"}}}},
    sizes_={"type": "object", "additionalProperties": {"type": "integer"}},
)


@pytest.mark.parametrize("repair", [True, False])
def test_a_whole_number_with_a_point_is_an_integer_at_any_depth(repair: bool) -> None:
    """It is handed on as an integer, and told of; a number that may have a point stays as it came."""
    args = {"count": 2.0, "ratio": 1.0, "either": 4.0, "rows": [{"line": 3.0, "x": 1.0}], "sizes": {"a": 5.0}}
    told, warnings = check(SCHEMA, args, repair=repair)
    assert repr(told) == repr(
        {"count": 2, "ratio": 1.0, "either": 4, "rows": [{"line": 3, "x": 1.0}], "sizes": {"a": 5}}
    )
    said = " came as a number with a point and is read as a whole one"
    assert warnings == tuple(f"`{name}`{said}" for name in ("count", "either", "rows", "sizes"))
    assert args["rows"] == [{"line": 3.0, "x": 1.0}]


@pytest.mark.parametrize("value", [1.5, -1.0, 2.0**53, float("inf"), True])
def test_any_other_number_is_refused(value: Any) -> None:
    """What is not whole, not exact, too small, or no number."""
    with pytest.raises(Problem) as error:
        check(SCHEMA, {"count": value}, repair=True)
    assert (error.value.code, error.value.details["errors"][0]["field"]) == (Code.INVALID_ARGS, "count")


def test_the_reference_servers_head_may_have_a_point() -> None:
    """Clients that know one kind of number send it so."""
    heard = dialects.get("mcp-filesystem").heard("read_text_file", {"path": "a", "head": 1.0}, repair=False)
    assert repr(heard.args) == "{'path': 'a', 'limit': 1}"
