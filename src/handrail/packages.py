"""Which installed packages offer tools; asked at every start, so that nearly always a look at their files must do.

What `importlib.metadata` finds is what counts. Loading it takes longer than all that it would find, so it is left alone
where no package on the path so much as names the group.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

from handrail.catalog import Tool
from handrail.installed import find_module
from handrail.own_imports import OWN_IMPORTS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "handrail.tools"
_INFO = (".dist-info", ".egg-info")


def entry_point_tools() -> dict[str, Callable[[], Tool]]:
    """Tools that installed packages offer under the entry point group `handrail.tools`; not yet imported."""
    if not may_offer(GROUP, sys.path, sys.meta_path):
        return {}
    from importlib.metadata import entry_points

    found: dict[str, Callable[[], Tool]] = {}
    for entry in entry_points(group=GROUP):
        if place := _unsafe_place(entry):
            _warn_of(entry.name, place)
        else:
            found[entry.name] = entry.load
    return found


def _unsafe_place(entry: EntryPoint) -> str:
    """Give where a package or its module lies, if a tool could have written it; empty where none could."""
    places = [] if entry.dist is None else [str(getattr(entry.dist, "_path", entry.dist.locate_file("")))]
    spec = find_module(entry.module.partition(".")[0])
    if spec is not None:
        places += [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    return next((place for place in places if OWN_IMPORTS.is_unsafe(place)), "")


def _warn_of(name: str, place: str) -> None:
    import logging

    logging.getLogger("handrail").warning(
        "The tool %s is ignored: its package lies at %s, beneath a folder that tools may write. "
        "Install the package elsewhere, or pass the tool to Runtime.open(tools=[...]).",
        name,
        place,
    )


def may_offer(group: str, places: Iterable[str], finders: Iterable[Any]) -> bool:
    """Whether a package in these places may have entry points of a group; never a wrong no."""
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in finders):
        return True  # packages that lie elsewhere than on the path
    named = group.encode()
    try:
        return any(named in told for place in places for told in _told_in(place))
    except (OSError, ValueError, TypeError, _Elsewhere):
        return True


class _Elsewhere(Exception):  # a signal, no error
    """Packages that lie in something else than a folder."""


def _told_in(place: str) -> Iterator[bytes]:
    """What the packages in a place say of their entry points."""
    place = os.fspath(place) or "."
    if place.lower().endswith(".egg"):
        raise _Elsewhere
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise _Elsewhere from None
    for name in names:
        if name.lower().endswith(_INFO):
            try:
                with open(f"{place}/{name}/entry_points.txt", "rb", buffering=0) as file:
                    yield file.read()
            except (FileNotFoundError, NotADirectoryError):
                continue  # it offers nothing
