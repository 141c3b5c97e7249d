"""The shape of a tool's arguments and result: strict checking, small repairs, JSON schemas. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NoReturn

import orjson
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_core import PydanticSerializationError, SchemaValidator, ValidationError

from handrail import strict_json
from handrail.errors import Code, Problem
from handrail.spelling import nearest
from handrail.words import Json, noun

_MOST_PROBLEMS = 10  # of one call that are told
_MOST_MISSING = 50  # that a wrong name is held against
_SCALARS = {"int", "str", "bool", "list", "dict"}
_ALIASES = {
    "path": ("file", "file_path", "filepath", "filename", "file_name", "dir", "directory", "folder", "target_file"),
    "content": ("contents", "text", "body", "data"),
    "pattern": ("query", "regex", "glob", "search"),
    "old": ("old_string", "old_str", "search", "find"),
    "new": ("new_string", "new_str", "replace", "replacement"),
    "source": ("src", "from", "from_path", "old_path"),
    "target": ("dst", "dest", "destination", "to", "to_path", "new_path"),
    "offset": ("start", "start_line", "line"),
    "limit": ("max_results", "count", "head_limit", "num_lines"),
}


@noun
class Parameter:
    """One argument of a tool."""

    name: str
    annotation: Any
    default: Any = dataclasses.MISSING
    description: str = ""


class Unreadable(dict[str, Json]):
    """Arguments that came as a text which is no JSON object: kept for the record, and refused with the reason."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(arguments=text)
        self.reason = reason


class RefusedMessage(Unreadable):
    """A message in another system's form that was refused as a whole, kept for the record, with the problem."""

    def __init__(self, text: str, problem: Problem) -> None:
        super().__init__(text, problem.message)
        self.problem = problem


def read_text(text: str) -> Mapping[str, Json]:
    """Read arguments from the JSON text that a model wrote; what is none is left for the gate to refuse."""
    try:
        value = strict_json.loads(text or "{}")
    except ValueError as error:
        return Unreadable(text, str(error))
    return value if isinstance(value, dict) else Unreadable(text, f"it is of type {type(value).__name__}")


class Shape:
    """Checks what goes into a tool and what comes out."""

    __slots__ = (
        "_args",
        "_args_schema",
        "_args_type",
        "_checked",
        "_checked_any",
        "_names",
        "_result_class",
        "_result_schema",
        "_result_type",
        "_to_json",
        "defaults",
        "optional",
    )

    def __init__(self, tool: str, parameters: Sequence[Parameter], result: Any) -> None:
        fields = [(p.name, p.annotation, _field(p)) for p in parameters]
        namespace = {"__pydantic_config__": ConfigDict(extra="forbid")}
        self._args_type = dataclasses.make_dataclass(f"{tool}_args", fields, namespace=namespace, kw_only=True)
        self._result_type = result
        self._names = tuple(p.name for p in parameters)
        self.defaults = {p.name: p.default for p in parameters if p.default is not dataclasses.MISSING}
        self.optional = frozenset(self.defaults)
        self._args: SchemaValidator | None = None
        self._args_schema: dict[str, Json] | None = None  # made when first asked for, as the next
        self._result_schema: dict[str, Json] | None = None
        self._checked: Callable[..., Any] | None = None
        self._checked_any: Callable[..., Any] = lambda value: value
        self._result_class: type | None = None
        self._to_json: Callable[..., Any] | None = None

    def parse(self, args: Mapping[str, Json], repair: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Give the arguments with defaults filled, and a warning for each slip that was mended."""
        if isinstance(args, Unreadable):
            raise Problem(Code.INVALID_ARGS, f"The arguments are no JSON object: {args.reason}.", errors=[dict(args)])
        validator = self._args or self._arguments_validator()
        warnings: tuple[str, ...] = ()
        try:
            parsed = validator.validate_python(args)[0]
        except ValidationError as error:
            parsed, warnings = self._repaired(args, error, repair)
        if not _is_json(parsed):
            for name, value in parsed.items():
                _check_json(name, value)
        return parsed, warnings

    def _repaired(
        self, args: Mapping[str, Json], error: ValidationError, repair: bool
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The arguments with their small slips mended, if that is all that was wrong; 1.0 for 1 is none."""
        mended, warnings = _mend(args, error, self.optional, repair)
        if not warnings:
            self._refuse(args, error)
        try:
            return (self._args or self._arguments_validator()).validate_python(mended)[0], tuple(warnings)
        except ValidationError as still:
            self._refuse(args, still)

    def result(self, value: Any) -> Json:
        """Check a tool's result strictly and give it as JSON values; INVALID_RESULT when it does not fit."""
        if self._checked is None or self._to_json is None:
            self._prepare_result()
        try:
            if value.__class__ is self._result_class:
                data = self._to_json(value, mode="json", warnings=False)  # type: ignore[misc]
                self._checked(data)  # type: ignore[misc]
                return data
            return self._to_json(self._checked_any(value), mode="json")  # type: ignore[misc]
        except ValidationError as error:
            from handrail.misfit import told

            problems = [told(item, "the result") for item in error.errors(include_url=False)]
        except (PydanticSerializationError, ValueError) as error:
            problems = [{"expected": "a JSON value", "got": str(error)}]
        raise Problem(Code.INVALID_RESULT, "The tool gave a result that does not fit its schema.", errors=problems[:10])

    def _prepare_result(self) -> None:
        """Build the check; a plain dataclass is checked by its fields, which is much cheaper than making it anew."""
        adapter: TypeAdapter[Any] = TypeAdapter(self._result_type)
        schema: Any = _revalidated(adapter.core_schema)
        self._to_json = adapter.serializer.to_python
        self._checked = self._checked_any = SchemaValidator(schema).validate_python
        if schema["type"] == "dataclass":
            self._result_class = schema["cls"]
            self._checked = SchemaValidator(schema["schema"]).validate_python

    def args_schema(self) -> dict[str, Json]:
        """Describe the arguments as JSON Schema."""
        if self._args_schema is None:
            schema = TypeAdapter(self._args_type).json_schema()
            schema.pop("title", None)
            for field in schema.get("properties", {}).values():
                field.pop("title", None)
            self._args_schema = {"type": "object", "properties": {}, **schema, "additionalProperties": False}
        return deepcopy(self._args_schema)

    def result_schema(self) -> dict[str, Json]:
        """Describe the result as JSON Schema."""
        if self._result_schema is None:
            self._result_schema = TypeAdapter(self._result_type).json_schema(mode="serialization")
        return deepcopy(self._result_schema)

    def _arguments_validator(self) -> SchemaValidator:
        schema: Any = TypeAdapter(self._args_type).core_schema
        definitions = schema.get("definitions") if schema["type"] == "definitions" else None
        inner = schema["schema"] if definitions is not None else schema
        if inner["type"] == "definition-ref":
            inner = next(item for item in definitions or () if item.get("ref") == inner["schema_ref"])
        # Only the argument list, not the dataclass around it: validating then gives a plain dict.
        strict = _strict({**inner["schema"], "extra_behavior": "forbid"})
        if definitions is not None:
            strict = {"type": "definitions", "schema": strict, "definitions": [_strict(d) for d in definitions]}
        self._args = SchemaValidator(strict)
        return self._args

    def _refuse(self, args: Mapping[str, Json], error: ValidationError) -> NoReturn:
        from handrail.misfit import told

        errors = error.errors(include_url=False)
        problems = [told(item) for item in errors[:_MOST_PROBLEMS]]  # there may be any number of them
        missing = [item for item in errors if item["type"].startswith("missing")][:_MOST_MISSING]
        lacking = [told(item)["field"] for item in missing]
        for problem in problems:
            if problem["expected"] == "no such argument":
                inside, _, wrong = problem["field"].rpartition(".")
                names = _names_inside(self.args_schema(), inside) if inside else self._names
                near = nearest(wrong, lacking, 1, 0.5) or nearest(wrong, names, 1, 0.6) or _aliased(wrong, names)
                known = f"not known, use one of {', '.join(names)}" if names else "not known, there are no arguments"
                problem["expected"] = f"did you mean {near[0]}?" if near else known
        renamed = self._renamed(args) or self._wrapped(args)
        if renamed is not None and not _is_json(renamed):
            renamed = None  # it would be refused again
        text = "; ".join(f"`{p['field']}`: {p['expected']}, got {p['got']}" for p in problems[:5])
        raise Problem(
            Code.INVALID_ARGS,
            f"The arguments do not fit: {text}.",
            errors=problems,
            next_args=renamed,
        )

    def _renamed(self, args: Mapping[str, Json]) -> dict[str, Json] | None:
        """The same arguments under the right names, where that alone makes them fit."""
        if not isinstance(args, dict):
            return None
        result: dict[str, Json] = {}
        for name, value in args.items():
            if not isinstance(name, str):
                return None
            near = [name] if name in self._names else _aliased(name, self._names)
            near = near or nearest(name, self._names, 1, 0.6)
            if not near or near[0] in result:
                return None
            result[near[0]] = value
        try:
            (self._args or self._arguments_validator()).validate_python(result)
        except ValidationError:
            return None
        return result if result != dict(args) else None

    def _wrapped(self, args: Mapping[str, Json]) -> dict[str, Json] | None:
        """The same arguments with the fields of one list item put where the list belongs."""
        if not isinstance(args, dict) or not all(isinstance(name, str) for name in args):
            return None
        schema = self.args_schema()
        for name in self._names:
            inside = _names_inside(schema, f"{name}.0")
            if not inside or name in args:
                continue
            item = {inner: value for given, value in args.items() if (inner := _fitting(given, inside))}
            rest = {given: value for given, value in args.items() if not _fitting(given, inside)}
            outer = {_fitting(given, self._names) or given: value for given, value in rest.items()}
            wrapped = {**outer, name: [item]}
            try:
                (self._args or self._arguments_validator()).validate_python(wrapped)
            except ValidationError:
                continue
            return wrapped
        return None


def _fitting(given: str, names: Sequence[str]) -> str | None:
    """The name that a given one stands for: itself, or one it is often taken for."""
    return given if given in names else next(iter(_aliased(given, names)), None)


def _is_json(args: dict[str, Any]) -> bool:
    """Whether arguments can be journaled and digested, all in one look."""
    try:
        for value in args.values():
            kind = value.__class__
            if (kind is str and not value.isascii()) or kind in (float, dict, list):
                strict_json.check(value)
        orjson.dumps(args, option=orjson.OPT_NON_STR_KEYS)
    except (ValueError, TypeError):
        return False
    return True


def _check_json(name: str, value: Any) -> None:
    """Refuse what could not be journaled or digested as JSON."""
    try:
        strict_json.check(value)
        orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except (ValueError, TypeError) as error:
        raise Problem(
            Code.INVALID_ARGS,
            f"The arguments do not fit: `{name}` cannot be written as JSON: {error}.",
            errors=[{"field": name, "expected": "a JSON value", "got": str(error)}],
        ) from None


def _names_inside(schema: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """The names that an object inside the arguments may have."""
    node: Any = schema
    for part in path.split("."):
        node = node.get("items", {}) if part.isdigit() else node.get("properties", {}).get(part, {})
        for option in (node, *node.get("anyOf", ())):
            if option.get("type") == "array" or "$ref" in option or "properties" in option:
                node = option
                break
        if "$ref" in node:
            node = schema.get("$defs", {}).get(node["$ref"].rsplit("/", 1)[-1], {})
    return tuple(node.get("properties", ()))


def _field(parameter: Parameter) -> Any:
    if parameter.default is dataclasses.MISSING:
        return Field(description=parameter.description or None)
    if isinstance(parameter.default, (list, dict)):
        return Field(default_factory=parameter.default.copy, description=parameter.description or None)
    return Field(default=parameter.default, description=parameter.description or None)


def _aliased(name: str, names: Sequence[str]) -> list[str]:
    return [ours for ours, theirs in _ALIASES.items() if ours in names and name.lower() in theirs][:1]


def _walk(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Rebuild a core schema with each node changed; what is no schema stays the same object."""
    if isinstance(node, dict):
        return (
            change({key: _walk(value, change) for key, value in node.items()})
            if "cls" not in node
            else change(
                {key: value if key in {"cls", "config"} else _walk(value, change) for key, value in node.items()}
            )
        )
    if isinstance(node, list):
        return [_walk(item, change) for item in node]
    return node


def _strict(schema: Any) -> Any:
    """Refuse every conversion (a number as text, text as a number), but take objects for dataclasses."""

    def change(node: dict[str, Any]) -> dict[str, Any]:
        if node.get("type") == "float":
            return {**node, "strict": True, "allow_inf_nan": False}
        if node.get("type") in _SCALARS:
            return {**node, "strict": True}
        if node.get("type") == "dataclass-args":
            return {**node, "extra_behavior": "forbid"}
        return node

    return _walk(schema, change)


def _revalidated(schema: Any) -> Any:
    """Check the fields of instances too, not only their class."""

    def change(node: dict[str, Any]) -> dict[str, Any]:
        if node.get("type") in {"dataclass", "model"}:
            return {**node, "revalidate_instances": "always"}
        if node.get("type") == "int":
            return {"ge": strict_json.LEAST_INTEGER, "le": strict_json.MOST_INTEGER, **node, "strict": True}
        if node.get("type") == "any":
            handed_on = {"type": "no-info", "function": strict_json.handed_on}
            return {"type": "function-after", "function": handed_on, "schema": node}
        return {**node, "strict": True} if node.get("type") in {"str", "bool", "float"} else node

    return _walk(schema, change)


_ESCAPED = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def short(value: Any) -> str:
    """A value as a message shows it; a long one is never cut, as half a secret is not recognised any more."""
    try:
        text = _ESCAPED.sub("\ufffd", repr(value))  # a letter of an escape would hide where a secret begins
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        text = ""
    if 0 < len(text) <= 80:
        return text
    sized = isinstance(value, (str, bytes, list, tuple, dict))
    return f"a {type(value).__name__} of length {len(value)}" if sized else f"a long {type(value).__name__}"


def _mend(
    args: Mapping[str, Json], error: ValidationError, optional: frozenset[str], repair: bool
) -> tuple[dict[str, Json], list[str]]:
    """Mend the small slips that models make, and nothing else; take 1.0 for 1 in any case."""
    from handrail.misfit import with_integers

    if not isinstance(args, dict):
        return {}, []
    errors = error.errors(include_url=False)
    mended, warnings = with_integers(args, errors)
    for item in errors if repair else ():
        name = str(item["loc"][0]) if item["loc"] else ""
        if name not in mended or any(text.startswith(f"`{name}`") for text in warnings):
            continue
        value = mended[name]
        if value is None and name in optional:
            del mended[name]
            warnings.append(f"`{name}` was null and is taken as not given")
        elif isinstance(value, str) and (parsed := _parsed(value, item["type"])) is not None:
            mended[name] = parsed
            warnings.append(f"`{name}` came as text and is read as {_kind(parsed)}")
    return mended, warnings


def _parsed(text: str, error_type: str) -> Any:
    wanted: dict[str, tuple[type, ...]] = {
        "int_type": (int,),
        "float_type": (int, float),
        "list_type": (list,),
        "dict_type": (dict,),
        "dataclass_type": (dict,),
        "model_type": (dict,),
    }
    kinds = wanted.get(error_type)
    if kinds is None:
        return None
    try:
        value = strict_json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, kinds) and not isinstance(value, bool) else None


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "an array"
    return "an object" if isinstance(value, dict) else "a number"
