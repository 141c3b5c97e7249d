"""Which entries of a walk the call's verdict leaves out: one quick look at the name, the exact rules only then."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from handrail.policy.patterns import excluded
from handrail.words import Exclusion, Root

Leaves = Callable[[str, str], bool]  # name and path beneath the root of an entry whose parents are not excluded


def leaves_out(exclusions: Sequence[Exclusion], root: Root) -> Leaves:
    """Give the check for entries below a root; a folder that is left out must not be entered."""
    ours = tuple(item for item in exclusions if not item.root or item.root == root.name)
    if not ours:
        return lambda _name, _path: False
    suspicious = last_names(ours).fullmatch
    return lambda name, path: suspicious(name) is not None and excluded(ours, root, path) is not None


@lru_cache(maxsize=64)
def last_names(exclusions: tuple[Exclusion, ...]) -> re.Pattern[str]:
    """Fit every name that the exclusions could cover by itself; never a wrong no."""
    names = {_loose(item.pattern.rstrip("/").rpartition("/")[2]) for item in exclusions}
    return re.compile("|".join(sorted(names)), re.IGNORECASE | re.DOTALL)


def _loose(name: str) -> str:
    if "[" in name or "**" in name or not name:
        return ".*"
    return "".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in name)
