"""Tools of other packages, when they are first used: one that cannot be loaded is told of and hides no other.

What belongs here: turning whatever goes wrong in another package into a Problem. What does not: finding packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from handrail.errors import Code, Misuse, Problem

T = TypeVar("T")
LONGEST = 200  # what a longer text says is left out whole, as half a secret is not recognised any more


def loaded(name: str, load: Callable[[], Any], kind: type[T]) -> T:
    """Load the tool of a name; UNKNOWN_TOOL names the package that offers it, and how to mend it."""
    try:
        return _of_name(name, load(), kind)
    except (Exception, SystemExit) as error:
        if not hasattr(load, "__self__"):  # no entry point, but ours: a bug, and nobody else's
            raise
        package = _package(load)
        raise Problem(
            Code.UNKNOWN_TOOL,
            f"The tool {name} cannot be loaded from the package {package}: {_told(error)}. Use another tool; "
            f"whoever runs this reinstalls the package with all it needs, or uninstalls it.",
            package=package,
            near=[],
        ) from error


def those_that_load(names: Iterable[str], get: Callable[[str], T], warned: set[str]) -> Iterator[T]:
    """Give what can be had, and warn once of each that cannot."""
    for name in names:
        try:
            yield get(name)
        except Problem as problem:
            if name not in warned:
                warned.add(name)
                _warn(problem.message)


def warn_of_second(name: str, load: Callable[[], Any]) -> None:
    """Say that a package offers a tool under a name that is taken: the one that was there first stays."""
    _warn(f"The tool {name} of the package {_package(load)} is not used: there is one of that name already.")


def _package(load: Callable[[], Any]) -> str:
    dist = getattr(getattr(load, "__self__", None), "dist", None)
    return getattr(dist, "name", None) or "that offers it"


def _warn(text: str) -> None:
    import logging

    logging.getLogger("handrail").warning("%s", text)


def _of_name(name: str, found: Any, kind: type[T]) -> T:
    if not isinstance(found, kind) or getattr(found, "name", None) != name:
        raise Misuse(f"what is registered as {name!r} is not a tool of that name: {found!r}")
    return found


def _told(error: BaseException) -> str:
    said = str(error).rstrip(".")
    return f"{type(error).__name__}: {said}" if 0 < len(said) <= LONGEST else type(error).__name__
