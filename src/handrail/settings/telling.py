"""What people are told when a setting cannot be taken: what was expected, what came, which key is near."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handrail import spelling
from handrail.settings.model import BY_NAME, HOST, NAME, NETWORK, SECTIONS, TEXT, RuleText

_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
}
_PATTERNS = {
    TEXT: "text without control characters, and not empty",
    HOST: 'a host such as "api.example.org", "*.example.org" or "10.0.0.7:8080"',
    NETWORK: 'a network such as "10.1.0.0/16" or "fd00::/8"',
    NAME: "a name of letters, digits, `_`, `.` and `-`",
}


def told(error: Mapping[str, Any]) -> str:
    """Say one validation error in a sentence that names the key and the fix."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    name, kind, got = dotted(path), error["type"], error["input"]
    if kind == "extra_forbidden":
        return f"{name}: no such key{_hint(path)}"
    if kind == "missing":
        return f'{name}: is missing; a rule needs an effect: "allow", "ask" or "deny"'
    return f"{name}: expected {_expected(error, path)}, got {_short(got)}"


def dotted(path: Iterable[str | int]) -> str:
    """Write a key's path the way people do: `rules[2].effect`, counted from 1."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the settings"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that was probably meant."""
    return next(iter(spelling.nearest(name, known, 1, cutoff)), None)


def _hint(path: tuple[str | int, ...]) -> str:
    if path[0] == "rules":
        near = nearest(str(path[-1]), RuleText.model_fields)
        return f"; did you mean `{near}`?" if near else f"; a rule has {', '.join(RuleText.model_fields)}"
    names = (*BY_NAME, *SECTIONS, "rules")
    ends = {known.rpartition(".")[2]: known for known in BY_NAME}
    last = str(path[-1])
    near = nearest(dotted(path), names, 0.75) or ends.get(nearest(last, ends) or "") or nearest(last, names)
    return f"; did you mean `{near}`?" if near else f"; the sections are {', '.join(SECTIONS)}"


def _expected(error: Mapping[str, Any], path: tuple[str | int, ...]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if path == ("rules",):
        return "a list of tables, each under `[[rules]]`"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], "other text")
    if kind in ("literal_error", "enum"):
        return _one_of(str(context["expected"]), error["input"])
    if kind in ("greater_than", "greater_than_equal", "less_than_equal"):
        bound = next(iter(context.values()))
        words = {"greater_than": "more than", "greater_than_equal": "at least", "less_than_equal": "at most"}
        return f"{words[kind]} {bound:.15g}"
    return _EXPECTED.get(kind) or str(error["msg"]).removeprefix("Input should be ")


def _one_of(expected: str, got: object) -> str:
    choices = [part.strip("' ") for part in expected.replace(" or ", ", ").split(",")]
    near = nearest(got, choices) if isinstance(got, str) else None
    return f"one of {', '.join(choices)}" + (f" (did you mean {near!r}?)" if near else "")


def _short(value: Any) -> str:
    text = {True: "true", False: "false"}.get(value, repr(value)) if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
