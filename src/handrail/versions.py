"""Which version of a tool a call was written for, and how its arguments become those of today. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from handrail.errors import Code, Problem

Adapter = Callable[[dict[str, Any]], dict[str, Any]]


def adapt(
    name: str, asked: str, spoken: str, adapters: Mapping[int, Adapter], args: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give arguments in the form of the version spoken here, and a warning where they had to be adapted.

    The same major is taken as it is; an older one needs a registered adapter; UNSUPPORTED_VERSION otherwise.
    """
    old, now = _major(asked), _major(spoken)
    if old == now:
        return dict(args), ()
    adapter = adapters.get(old) if old is not None and now is not None and old < now else None
    if adapter is None:
        majors = [f"{major}.x" for major in sorted(adapters)]
        known = [spoken, *majors]
        text = f"{name} {asked} is not spoken here; spoken: {', '.join(known)}."
        raise Problem(Code.UNSUPPORTED_VERSION, text, asked=str(asked), spoken=known)
    try:
        adapted = adapter(dict(args))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        text = f"The arguments do not fit version {asked} of {name}: {error!r}. Version {spoken} is spoken here."
        raise Problem(Code.INVALID_ARGS, text, asked=str(asked), spoken=[spoken]) from None
    return adapted, (f"arguments of version {asked} were adapted to {spoken}",)


def _major(version: str) -> int | None:
    """The first number of a version; None for what is none."""
    first = str(version).partition(".")[0]
    return int(first) if first.isascii() and first.isdigit() and len(first) <= 9 else None
