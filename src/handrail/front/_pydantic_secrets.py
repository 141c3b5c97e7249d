"""The secrets in checked arguments of an agent's own tool, and where they stand in what the model wrote.

A secret is hidden at its own place and nowhere else: a model must not hide what a person is asked about by writing a
secret that resembles it. Only a long one is looked for in all values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from handrail.output.redact import MARK

MOST_LOOKED_AT = 10_000  # objects in checked arguments
MOST_SECRETS = 100  # in the arguments of one call
VALUES = frozenset({str, int, float, bool, type(None), bytes})
_LONG = 8  # letters of a secret that is looked for in every value
_WHOLE = (str, bytes, range, memoryview)  # collections of nothing but their own letters and numbers
_OPAQUE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)
_NO_PARTS = frozenset({"__dict__", "__weakref__", "__pydantic_fields_set__"})
_EXTRA = frozenset({"__pydantic_extra__", "__pydantic_private__"})
_FIELDS = ("__pydantic_fields__", "__dataclass_fields__")


class _Lost(Exception):
    """The place of a secret in what was written cannot be told."""


# ── what is in them ──────────────────────────────────────────────────────────────────────────


def looked_at(value: Any) -> tuple[list[Any] | None, frozenset[str]]:
    """Every value in a checked one, however deep, and the texts that are held as secrets (`SecretStr` …).

    None where that cannot be told: then anything may have changed, and nothing that was written is shown.
    """
    found: list[Any] = []
    secrets: set[str] = set()
    seen: set[int] = set()
    waiting: list[tuple[Any, bool]] = [(value, False)]
    try:
        while waiting:
            value, secret = waiting.pop()
            found.append(value)
            if type(value) in VALUES or isinstance(value, PurePath):
                if secret and value is not None:
                    secrets.add(_text(value))
            elif isinstance(value, Iterator):  # whoever looks into it takes it from the tool
                return None, frozenset()
            elif id(value) not in seen:
                seen.add(id(value))
                reveal = _reveal(value)
                if secret and not _holds(value):
                    secrets.add(_text(value))
                    secret = False
                inside = [reveal()] if reveal is not None else list(_inside(value))
                waiting += [(item, secret or reveal is not None) for item in inside]
            if len(seen) > MOST_LOOKED_AT:
                return None, frozenset()
    except Exception:  # noqa: BLE001  an object of the program's own that cannot be looked into
        return None, frozenset()
    return found, frozenset(text for text in secrets if text)


def _text(value: Any) -> str:
    text = value.decode("utf-8", "replace") if type(value) is bytes else str(value)
    return text.casefold()


def _reveal(value: Any) -> Callable[[], Any] | None:
    """What tells the value of a secret."""
    reveal = None if isinstance(value, _OPAQUE) else getattr(value, "get_secret_value", None)
    return reveal if callable(reveal) else None


def _holds(value: Any) -> bool:
    """Whether an object is known by its parts; any other by what it says of itself."""
    if _reveal(value) is not None or any(hasattr(type(value), name) for name in _FIELDS):
        return True
    return isinstance(value, Collection) and not isinstance(value, (*_WHOLE, bytearray))


def _inside(value: Any) -> Iterator[Any]:
    """What an object of any type is made of."""
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, Collection) and not isinstance(value, _WHOLE):
        yield from value
    if isinstance(value, _OPAQUE):
        return
    kind = type(value)
    for name, held in list(getattr(value, "__dict__", {}).items()):
        if not isinstance(getattr(kind, name, None), cached_property):  # it comes of the rest, whenever it is asked for
            yield held
    for part in kind.__mro__:
        names = part.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            own = name.startswith("__") and not name.endswith("__")  # then Python puts the name of the class before it
            name = f"_{part.__name__.lstrip('_')}{name}" if own else name
            held = getattr(value, name, None) if name not in _NO_PARTS else None
            # Pydantic keeps what has no field of its own in two mappings.
            yield from held.values() if name in _EXTRA and isinstance(held, dict) else (held,)


# ── what may be shown ────────────────────────────────────────────────────────────────────────


def without(args: Mapping[str, Any], written: dict[str, Any], secrets: frozenset[str]) -> tuple[dict[str, Any], bool]:
    """The arguments as they may be shown; and whether what is hidden is known to be secret, and no more.

    Where a check changed a secret so much that its place cannot be told, its whole argument is hidden.
    """
    if not secrets or not written:
        return written, True
    if len(secrets) > MOST_SECRETS:  # each is looked for in each text
        return dict.fromkeys(written, MARK), False
    shown, placed = _in_place(args, written)
    long = [secret for secret in secrets.union(_hidden_leaves(written, shown)) if len(secret) >= _LONG]
    told: dict[str, Any] = _masked(shown, lambda text: any(secret in text for secret in long), partial(_blanked, long))
    return told, placed


def _in_place(args: Mapping[str, Any], written: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    if len(args) == 1 and written.keys() != args.keys():  # the fields of a model stand for the model
        try:
            (value,) = args.values()
            return _hidden(value, written), True
        except _Lost:
            return dict.fromkeys(written, MARK), False
    shown, placed, unnamed = dict(written), True, written.keys() - args.keys()
    for name, value in args.items():
        try:
            if name in written:
                shown[name] = _hidden(value, written[name])
            elif unnamed:  # else nothing was written for it: a default
                shown |= dict.fromkeys(_alike(value, unnamed, written), MARK)
        except _Lost:
            # With a list or an object more would be hidden than the secret, and a model could write it so.
            placed = placed and name in written and _leaf(written[name])
            shown |= dict.fromkeys([name] if name in written else unnamed, MARK)
    return shown, placed


def _alike(value: Any, unnamed: Collection[str], written: Mapping[str, Any]) -> list[str]:
    """Where the secrets of a value were written that does not stand under its own name."""
    secrets = _secrets(value)
    if not secrets:
        return []
    alike = [name for name in unnamed if _leaf(written[name]) and _text(written[name]) in secrets]
    if len(alike) != 1:
        raise _Lost
    return alike


def _secrets(value: Any) -> frozenset[str]:
    found, secrets = looked_at(value)
    if found is None:
        raise _Lost
    return secrets


def _hidden(checked: Any, written: Any) -> Any:
    """What was written for a value, without the secrets in it; _Lost where one has no place of its own there."""
    secrets = _secrets(checked)
    if not secrets:
        return written
    if isinstance(written, dict) and (parts := _parts(checked)) is not None:
        return _hidden_parts(parts, written, secrets)
    if isinstance(written, list) and isinstance(checked, Sequence) and len(checked) == len(written):
        return [_hidden(part, item) for part, item in zip(checked, written, strict=True)]
    if isinstance(written, (dict, list)):
        if secrets - set(_texts(written)):
            raise _Lost
        return _masked(written, secrets.__contains__)
    text = "" if written is None else _text(written)
    if not text or not any(secret in text or text in secret for secret in secrets):
        raise _Lost
    return MARK


def _hidden_parts(parts: Sequence[_Part], written: dict[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    shown, unnamed = dict(written), set(written).difference(*(part.names for part in parts))
    for part in parts:
        for name in (there := part.names & written.keys()):
            shown[name] = _hidden(part.value, written[name])
        if not there and not part.default:
            shown |= dict.fromkeys(_alike(part.value, unnamed, written), MARK)
    if secrets.difference(*(_secrets(part.value) for part in parts)):
        raise _Lost
    return shown


class _Part(NamedTuple):
    names: set[str]  # under which it may be written
    value: Any
    default: bool = False


def _parts(checked: Any) -> list[_Part] | None:
    """The parts of a mapping or a model; None for what is known by other parts than named ones."""
    if isinstance(checked, Mapping):
        return [_Part({name}, part) for name, part in checked.items()] if all(type(n) is str for n in checked) else None
    fields = next((found for name in _FIELDS if (found := getattr(type(checked), name, None))), None)
    if not isinstance(fields, Mapping) or _reveal(checked) is not None:
        return None
    given = getattr(checked, "__pydantic_fields_set__", None)
    parts = []
    for name, field in fields.items():
        value = getattr(checked, name, None)
        default = value is getattr(field, "default", None) if given is None else name not in given
        parts.append(_Part(_names(name, field), value, default))
    extra = getattr(checked, "__pydantic_extra__", None) or {}
    return [*parts, *(_Part({name}, value) for name, value in extra.items())]


def _names(name: str, field: Any) -> set[str]:
    alias = getattr(field, "validation_alias", None)
    choices = getattr(alias, "choices", (alias, getattr(field, "alias", None)))
    return {name, *(choice for choice in choices if type(choice) is str)}


def _hidden_leaves(written: Any, shown: Any) -> Iterator[str]:
    """Secrets as they were written, before a check changed them."""
    if isinstance(written, dict) and isinstance(shown, dict):
        for name in written.keys() & shown.keys():
            yield from _hidden_leaves(written[name], shown[name])
    elif isinstance(written, list) and isinstance(shown, list):
        for one, other in zip(written, shown, strict=True):
            yield from _hidden_leaves(one, other)
    elif shown == MARK and _leaf(written):
        yield _text(written)


def _leaf(value: Any) -> bool:
    return value is not None and not isinstance(value, (dict, list))


def _texts(value: Any) -> Iterator[str]:
    """The names and values of a JSON value, as texts."""
    if isinstance(value, dict):
        yield from map(_text, value)
    for item in (value.values() if isinstance(value, dict) else value) if isinstance(value, (dict, list)) else ():
        yield from _texts(item)
    if _leaf(value):
        yield _text(value)


def _masked(value: Any, tells: Callable[[str], bool], mask: Callable[[Any], str] = lambda _: MARK) -> Any:
    """A JSON value without the texts and numbers, and the names, that tell too much."""
    if isinstance(value, dict):
        shown: dict[str, Any] = {}
        for name, item in value.items():
            name = mask(name) if tells(_text(name)) else name
            name = f"{name} {len(shown)}" if name in shown else name  # two names that are hidden are still two
            shown[name] = _masked(item, tells, mask)
        return shown
    if isinstance(value, list):
        return [_masked(item, tells, mask) for item in value]
    return mask(value) if _leaf(value) and tells(_text(value)) else value


def _blanked(secrets: Sequence[str], value: Any) -> str:
    """A text without the secrets in it: what stands around them is for the person to see."""
    folded = _text(value)
    if not isinstance(value, str) or len(folded) != len(value):
        return MARK
    pattern = "|".join(map(re.escape, sorted(secrets, key=len, reverse=True)))
    spans = [found.span() for found in re.finditer(pattern, folded)]
    kept = [value[end:start] for (_, end), (start, _) in pairwise([(0, 0), *spans, (len(value), len(value))])]
    return MARK.join(kept)
