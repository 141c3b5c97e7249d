"""Checking arguments against a document's own JSON Schema, so that what is wrong is said in the document's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail import strict_json
from handrail.arguments import Unreadable, short
from handrail.errors import Code, Problem
from handrail.spelling import nearest
from handrail.words import Json

Schema = Mapping[str, Any]
CURSOR = {"type": "string"}
STRINGS = {"type": "array", "items": {"type": "string"}}
OBJECTS = {"type": "array", "items": {"type": "object"}}
LIMIT = {"type": "integer", "minimum": 1}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}

_PLAIN = {"string": str, "integer": int, "boolean": bool}


def check(schema: Schema, args: Any, *, repair: bool) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Give arguments that fit, small slips mended where that is wanted; INVALID_ARGS says what does not fit."""
    if isinstance(args, Unreadable):
        errors = [{"field": "arguments", "expected": "a JSON object", "got": short(args["arguments"])}]
        end = "" if args.reason.endswith((".", "?")) else "."
        raise Problem(Code.INVALID_ARGS, f"The arguments are no JSON object: {args.reason}{end}", errors=errors)
    if not isinstance(args, dict):
        raise _refused([("arguments", "expected an object", short(args))])
    if _plainly_fits(schema, args):
        return dict(args), ()
    given, warnings = _mended(schema, args) if repair else (dict(args), ())
    try:
        wrong = list(_wrong(schema, given, ""))
        if wrong and (whole := _with_integers(schema, given)) is not given:
            pointed = [name for name, value in given.items() if whole[name] is not value]
            warnings += tuple(f"`{name}` came as a number with a point and is read as a whole one" for name in pointed)
            given, wrong = whole, list(_wrong(schema, whole, ""))
    except RecursionError:
        wrong = [("arguments", "expected fewer levels", "something nested too deeply")]
    if wrong:
        raise _refused(wrong)
    return given, warnings


def _with_integers(schema: Schema, value: Any) -> Any:
    """A value with integers where it has 1.0 and integers belong, as JSON Schema has it; the same where it has none."""
    if value.__class__ is float:
        kinds = _kinds(schema)
        return int(value) if "integer" in kinds and "number" not in kinds and strict_json.is_whole(value) else value
    if value.__class__ is dict:
        known, rest = schema.get("properties", {}), schema.get("additionalProperties")
        other = rest if isinstance(rest, Mapping) else {}
        told = {name: _with_integers(known.get(name, other), item) for name, item in value.items()}
        return told if any(told[name] is not item for name, item in value.items()) else value
    if value.__class__ is list:
        inside = schema.get("items", {})
        items = [_with_integers(inside, item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _plainly_fits(schema: Schema, args: Mapping[str, Any]) -> bool:
    """Whether all arguments are known and of the one type that is asked for, as nearly always; never a wrong yes."""
    known = schema.get("properties", {})
    for name, value in args.items():
        field = known.get(name)
        if field is None or len(field) != 1:
            return False
        kind = field.get("type")
        if kind.__class__ is not str or value.__class__ is not _PLAIN.get(kind):
            return False
    return schema.get("type") == "object" and all(map(args.__contains__, schema.get("required", ())))


def properties(**types: Any) -> dict[str, Json]:
    """Write an argument schema: a type's name, or a schema; a name that ends in `_` may be left out."""
    fields = {name.rstrip("_"): {"type": kind} if isinstance(kind, str) else kind for name, kind in types.items()}
    required = [name for name in types if not name.endswith("_")]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _refused(wrong: list[tuple[str, str, str]]) -> Problem:
    text = "; ".join(f"`{field}`: {expected}, got {got}" for field, expected, got in wrong[:5])
    errors = [{"field": field, "expected": expected, "got": got} for field, expected, got in wrong[:10]]
    return Problem(Code.INVALID_ARGS, f"The arguments do not fit: {text}.", errors=errors)


def _wrong(schema: Schema, value: Any, place: str) -> Iterator[tuple[str, str, str]]:
    """Everything that does not fit: where, what was expected, what came."""
    if not _is_one_of(_kinds(schema), value):
        yield place or "arguments", f"expected {' or '.join(_kinds(schema))}", f"{short(value)} ({_name(value)})"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield place, f"expected one of {', '.join(map(str, schema['enum']))}", short(value)
    yield from _out_of_bounds(schema, value, place)
    if isinstance(value, dict):
        yield from _wrong_inside(schema, value, place)
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _wrong(schema.get("items", {}), item, f"{place}.{index}")


def _wrong_inside(schema: Schema, value: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, str]]:
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    dot = f"{place}." if place else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{dot}{name}", "it is required", "nothing"
    for name, item in value.items():
        if name in known:
            yield from _wrong(known[name], item, f"{dot}{name}")
        elif rest is False:
            near = nearest(str(name), known, 1, 0.6)
            expected = f"did you mean {near[0]}?" if near else f"one of {', '.join(known) or 'no arguments'}"
            yield f"{dot}{name}", expected, short(item)
        elif isinstance(rest, Mapping):
            yield from _wrong(rest, item, f"{dot}{name}")


def _out_of_bounds(schema: Schema, value: Any, place: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            yield place, f"expected {_range(schema)}", short(value)
    if isinstance(value, (str, list)):
        unit = "characters" if isinstance(value, str) else "items"
        least, most = (
            schema.get("minLength", schema.get("minItems", 0)),
            schema.get("maxLength", schema.get("maxItems")),
        )
        if len(value) < least:
            yield place, f"expected at least {least} {unit}", str(len(value))
        elif most is not None and len(value) > most:
            yield place, f"expected at most {most} {unit}", str(len(value))


def _range(schema: Schema) -> str:
    parts = [f"at least {schema['minimum']}"] if "minimum" in schema else []
    return " and ".join([*parts, *([f"at most {schema['maximum']}"] if "maximum" in schema else [])])


def _mended(schema: Schema, args: Mapping[str, Json]) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Mend what models slip on: null for an optional, a number, array or object as text."""
    given, warnings = dict(args), []
    for name, field in schema.get("properties", {}).items():
        if name not in given or _is_one_of(_kinds(field), given[name]):
            continue
        value = given[name]
        if value is None and name not in schema.get("required", ()):
            del given[name]
            warnings.append(f"`{name}` was null and is taken as not given")
        elif isinstance(value, str) and _is_one_of(_kinds(field), parsed := _parsed(value)) and parsed is not None:
            given[name] = parsed
            warnings.append(f"`{name}` came as text and is read as {_spoken(parsed)}")
    return given, tuple(warnings)


def _parsed(text: str) -> Any:
    try:
        value = strict_json.loads(text)
    except ValueError:
        return None
    return None if isinstance(value, (bool, str)) else value


def _spoken(value: Any) -> str:
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else "a number"


def _kinds(schema: Schema) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


def _is_one_of(kinds: tuple[str, ...], value: Any) -> bool:
    if isinstance(value, bool):
        return not kinds or "boolean" in kinds
    return not kinds or any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next((kind for kind, types in _TYPES.items() if isinstance(value, types)), type(value).__name__)
