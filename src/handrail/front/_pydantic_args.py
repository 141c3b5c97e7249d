"""What a call of an agent's own tool is bound to: the arguments as the model wrote them, told without their secrets.

Checked arguments are objects of the tool's own types. Written down they may lose values (a field that is left out, a
masked secret) or differ from process to process (a default `repr`, the order of a set), so no approval can rest on
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from handrail.arguments import Unreadable, read_text
from handrail.output.redact import MARK
from handrail.strict_json import MAX_DEPTH

INEXACT = "inexact"  # what will run cannot be told: no approval can be bound to it
CHANGED = "changed"  # the program changed what the model wrote: bound to the arguments as they will run
MOST_LOOKED_AT = 10_000  # objects in checked arguments
_SHORT, _LONG = 4, 8  # letters: of a value that may be part of a secret, of a secret that is looked for in values
_LEAVES = frozenset({str, int, float, bool, type(None)})
_VALUES = _LEAVES | {bytes}
_OPAQUE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)
_NO_PARTS = frozenset({"__dict__", "__weakref__", "__pydantic_fields_set__"})
_EXTRA = frozenset({"__pydantic_extra__", "__pydantic_private__"})


class Checked(dict[str, Any]):
    """Checked arguments that remember what they were checked from, and what the check gave."""

    __slots__ = ("given", "written")

    given: list[Any] | None  # every value in them, however deep; None where there are too many
    written: Any  # the text, or a copy of the values; None where these are no JSON


@dataclass(slots=True)
class Noting:
    """A tool's check of its arguments, which also notes what it was given."""

    check: Any

    def validate_json(self, input: str | bytes | bytearray, **how: Any) -> Any:  # noqa: A002
        """Check a text."""
        written = input if isinstance(input, str) else bytes(input).decode("utf-8", "replace")
        return _noted(self.check.validate_json(input, **how), written)

    def validate_python(self, input: Any, **how: Any) -> Any:  # noqa: A002
        """Check values; noted as they are now, for they may be changed later."""
        try:
            written = _exact(input)
        except ValueError:
            written = None
        return _noted(self.check.validate_python(input, **how), written)


def _noted(checked: Any, written: Any) -> Any:
    if not isinstance(checked, dict):
        return checked
    noted = Checked(checked)
    noted.given, noted.written = _looked_at(noted)[0], written
    return noted


def bound(tool: str, args: dict[str, Any]) -> Mapping[str, Any]:
    """The arguments of the governed call: what is shown and journaled, and what tells apart calls that look equal."""
    found, secrets = _looked_at(args)
    written: Any = None
    if isinstance(args, Checked) and _same(found, args.given):
        written = read_text(args.written) if isinstance(args.written, str) else args.written
    if isinstance(written, Unreadable):
        return Unreadable("not shown", written.reason)
    if not isinstance(written, dict):
        try:
            return {"tool": tool, "arguments": _exact(args), "bound": CHANGED}
        except ValueError:
            return {"tool": tool, "arguments": _roughly(args), "bound": INEXACT}
    shown = _without(written, secrets)
    if shown == written:
        return {"tool": tool, "arguments": written}
    return {"tool": tool, "arguments": shown, "bound": f"sha256:{_digest(written)}"}


def _roughly(args: Mapping[str, Any]) -> Any:
    """Arguments for the record, as far as they can be written down."""
    try:
        return to_jsonable_python(dict(args), fallback=repr)
    except Exception:  # noqa: BLE001  an object of the program's own that cannot be written down
        return {name: f"a {type(value).__name__}" for name, value in args.items()}


def _same(found: list[Any] | None, given: list[Any] | None) -> bool:
    """Whether the arguments hold the very values that the check gave: a hook of the program may have put in others."""
    if found is None or given is None or len(found) != len(given):
        return False
    pairs = zip(found, given, strict=True)
    return all(
        one is other or (type(one) is type(other) and type(one) in _VALUES and one == other) for one, other in pairs
    )


def _digest(written: Any) -> str:
    try:
        return hashlib.sha256(orjson.dumps(written, option=orjson.OPT_SORT_KEYS)).hexdigest()
    except TypeError:  # an integer that is too large: the gate refuses it, and says so
        return hashlib.sha256(repr(written).encode("utf-8", "surrogatepass")).hexdigest()


def _exact(value: Any, depth: int = 0) -> Any:
    """Copy a JSON value; ValueError for what only resembles one, and would be written down as something else."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
    if kind is list:
        return [_exact(item, depth + 1) for item in value]
    if kind in (dict, Checked) and all(type(name) is str for name in value):
        return {name: _exact(item, depth + 1) for name, item in value.items()}
    raise ValueError(f"{kind.__name__} is no JSON value")


# ── what is in them ──────────────────────────────────────────────────────────────────────────


def _looked_at(args: Mapping[str, Any]) -> tuple[list[Any] | None, frozenset[str]]:
    """Every value in checked arguments, and the texts they hold as secrets (`SecretStr` …).

    None where that cannot be told: then anything may have changed, and nothing that was written is shown.
    """
    found: list[Any] = []
    secrets: set[str] = set()
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(args, False)]
    try:
        while waiting:
            value, secret = waiting.pop()
            found.append(value)
            if type(value) in _VALUES:
                if secret and type(value) not in (bool, type(None)):
                    secrets.add(value.decode("utf-8", "replace") if type(value) is bytes else str(value))
            elif id(value) not in seen:
                seen.add(id(value))
                reveal = None if isinstance(value, _OPAQUE) else getattr(value, "get_secret_value", None)
                inside = [reveal()] if callable(reveal) else list(_inside(value))
                if secret and not inside:
                    secrets.add(str(value))
                waiting += [(item, secret or callable(reveal)) for item in inside]
            if len(seen) > MOST_LOOKED_AT:
                return None, frozenset()
    except Exception:  # noqa: BLE001  an object of the program's own that cannot be looked into
        return None, frozenset()
    return found[1:], frozenset(text.casefold() for text in secrets if text)


def _inside(value: Any) -> Iterator[Any]:
    """What an object of any type is made of."""
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    if isinstance(value, (*_OPAQUE, Checked)):
        return
    yield from getattr(value, "__dict__", {}).values()
    for part in type(value).__mro__:
        names = part.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            own = name.startswith("__") and not name.endswith("__")  # then Python puts the name of the class before it
            name = f"_{part.__name__.lstrip('_')}{name}" if own else name
            held = getattr(value, name, None) if name not in _NO_PARTS else None
            # Pydantic keeps what has no field of its own in two mappings.
            yield from held.values() if name in _EXTRA and isinstance(held, dict) else (held,)


def _without(written: Any, secrets: frozenset[str]) -> Any:
    """The arguments as they may be shown.

    A value that is a secret is not, nor one that holds a long one. Where a check changed what was written, so that no
    value is the secret itself, none is shown that holds it or is part of it. No more than that: a model must not hide
    what a person is asked about by writing a short secret.
    """
    if not secrets:
        return written
    changed = secrets - {str(leaf).casefold() for leaf in _leaves(written)}

    def tells(text: str) -> bool:
        return text in secrets or any(secret in text for secret in secrets if len(secret) >= _LONG)

    def may_tell(text: str) -> bool:
        near = any(secret in text or (text in secret and len(text) >= _SHORT) for secret in changed)
        return near or tells(text)

    return _masked(written, may_tell, tells)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _masked(value: Any, tells: Callable[[str], bool], named: Callable[[str], bool]) -> Any:
    """A JSON value without the texts and numbers, and the names, that tell too much."""
    if isinstance(value, dict):
        return {MARK if named(name.casefold()) else name: _masked(item, tells, named) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, tells, named) for item in value]
    if value is None or isinstance(value, bool):
        return value
    return MARK if tells(str(value).casefold()) else value
