"""What a call of an agent's own tool is bound to: the arguments as the model wrote them, told without their secrets.

Checked arguments are objects of the tool's own types. Written down they may lose values (a field that is left out, a
masked secret) or differ from process to process (a default `repr`, the order of a set), so no approval can rest on
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import orjson
from pydantic_core import to_jsonable_python

from handrail.arguments import Unreadable, read_text
from handrail.front._pydantic_secrets import VALUES, looked_at, without
from handrail.strict_json import MAX_DEPTH

INEXACT = "inexact"  # what will run cannot be told: no approval can be bound to it
UNPLACED = "unplaced"  # which of the written values are secret cannot be told: nobody could be shown the others
CHANGED = "changed"  # the program changed what the model wrote: bound to the arguments as they will run
_LEAVES = frozenset({str, int, float, bool, type(None)})


class Checked(dict[str, Any]):
    """Checked arguments that remember what they were checked from, and what the check gave."""

    __slots__ = ("given", "written")

    given: list[Any] | None  # every value in them, however deep; None where there are too many
    written: Any  # the text, or a copy of the values; None where these are no JSON


@dataclass(slots=True)
class Given:
    """A check that gives a text to our own gate as it reads it: what is wrong with one is answered there."""

    check: Any

    def validate_json(self, input: str | bytes | bytearray, **how: Any) -> Any:  # noqa: A002
        """Check a text; one in which a name stands twice is left for the gate to refuse."""
        checked = self.check.validate_json(input, **how)
        read = read_text(_decoded(input))
        return read if isinstance(read, Unreadable) else checked

    def validate_python(self, input: Any, **how: Any) -> Any:  # noqa: A002
        """Check values."""
        return self.check.validate_python(input, **how)


def _decoded(text: str | bytes | bytearray) -> str:
    return text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")


@dataclass(slots=True)
class Noting:
    """A tool's check of its arguments, which also notes what it was given."""

    check: Any

    def validate_json(self, input: str | bytes | bytearray, **how: Any) -> Any:  # noqa: A002
        """Check a text."""
        return _noted(self.check.validate_json(input, **how), _decoded(input))

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
    noted.given, noted.written = _inside(noted)[0], written
    return noted


def _inside(args: dict[str, Any]) -> tuple[list[Any] | None, frozenset[str]]:
    """Every value in arguments, and their secrets; without what they remember themselves."""
    found, secrets = looked_at(dict(args))
    return None if found is None else found[1:], secrets


def bound(tool: str, args: dict[str, Any]) -> Mapping[str, Any]:
    """The arguments of the governed call: what is shown and journaled, and what tells apart calls that look equal."""
    found, secrets = _inside(args)
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
    shown, placed = without(args, written, secrets)
    if not placed:
        return {"tool": tool, "arguments": shown, "bound": UNPLACED}
    if shown == written:
        return {"tool": tool, "arguments": written}
    return {"tool": tool, "arguments": shown, "bound": f"sha256:{_digest(written)}"}


def _roughly(args: Mapping[str, Any]) -> Any:
    """Arguments for the record, as far as they can be written down."""
    return {str(name): _told(value) for name, value in args.items()}


def _told(value: Any) -> Any:
    """A value, or its type: for secrets, and for an iterator, which would give the tool nothing once it is written."""
    try:
        found, secrets = looked_at(value)
        if found is not None and not secrets:  # a type may write its secrets down as they are
            return to_jsonable_python(value, fallback=repr)
    except Exception:  # noqa: BLE001, S110  an object of the program's own that cannot be written down
        pass
    return f"a {type(value).__name__}"


def _same(found: list[Any] | None, given: list[Any] | None) -> bool:
    """Whether the arguments hold the very values that the check gave: a hook of the program may have put in others."""
    if found is None or given is None or len(found) != len(given):
        return False
    return all(one is other or _equal(one, other) for one, other in zip(found, given, strict=True))


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or not (type(one) in VALUES or isinstance(one, PurePath)):
        return False
    return bool(one == other)


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
