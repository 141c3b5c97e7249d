"""What does not fit a schema, in words from which the call can be mended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail.arguments import short
from handrail.strict_json import is_whole

_UNKNOWN = {"unexpected_keyword_argument", "extra_forbidden"}
_MISSING = {"missing", "missing_argument", "missing_keyword_only_argument"}
# What the validator calls it, in the words of the schema that a model was given.
_EXPECTED = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "string_too_short": "a length of at least {min_length}",
    "string_too_long": "a length of at most {max_length}",
    "string_pattern_mismatch": "a string that fits {pattern}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "literal_error": "one of {expected}",
}
_KINDS = {
    str: "a string", int: "a number", float: "a number", bool: "a boolean", list: "a list", tuple: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip


def told(error: Any, whole: str = "arguments") -> dict[str, str]:
    """One misfit: which field, what was expected there, what came."""
    field = ".".join(str(part) for part in error["loc"]) or whole
    kind, got = error["type"], error.get("input")
    if kind in _UNKNOWN:
        return {"field": field, "expected": "no such argument", "got": short(got)}
    if kind in _MISSING:
        return {"field": field, "expected": "it is required", "got": "nothing"}
    text = _EXPECTED.get(kind)
    text = error["msg"].removeprefix("Input should be ") if text is None else text.format(**error.get("ctx", {}))
    return {"field": field, "expected": f"expected {text}", "got": _shown(got)}


def _shown(got: Any) -> str:
    """The value, with its kind where that does not show."""
    return "null" if got is None else f"{short(got)} ({_KINDS.get(type(got), type(got).__name__)})"


def with_integers(args: Mapping[str, Any], errors: Iterable[Any]) -> tuple[dict[str, Any], list[str]]:
    """Give the arguments with integers where they came as 1.0 and integers belong, and a warning for each argument."""
    told = dict(args)
    copied: dict[tuple[Any, ...], Any] = {}  # what is changed is a copy, and made once
    names: dict[str, None] = {}
    for error in errors:
        if error["type"] == "int_type" and is_whole(error["input"]):
            _set_integer(told, error["loc"], copied)
            names[str(error["loc"][0])] = None
    return told, [f"`{name}` came as a number with a point and is read as a whole one" for name in names]


def _set_integer(node: Any, loc: tuple[Any, ...], copied: dict[tuple[Any, ...], Any]) -> None:
    place: tuple[Any, ...] = ()
    for part in loc:
        if not (part in node if isinstance(node, dict) else isinstance(part, int)):
            continue  # no place, but what the schema calls one of several choices
        place, inner = (*place, part), node[part]
        if isinstance(inner, (dict, list)):
            if place not in copied:
                copied[place] = node[part] = inner.copy()
            node = copied[place]
        elif is_whole(inner):
            node[part] = int(inner)
            return
