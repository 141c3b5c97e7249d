"""Which entries of a walk the call's verdict leaves out: one quick look at the name, the exact rules only then."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from handrail.policy.patterns import could_exclude, excluded, last_name
from handrail.words import Exclusion, Root

Leaves = Callable[[str, str], bool]  # name and path beneath the root of an entry whose parents are not excluded


_made: dict[int, tuple[tuple[Exclusion, ...], Root, Leaves]] = {}  # by identity, with what it was made from kept
_MOST_MADE, _MOST_HARMLESS = 64, 4096


def leaves_out(exclusions: Sequence[Exclusion], root: Root) -> Leaves:
    """Give the check for entries below a root; a folder that is left out must not be entered.

    Equal calls are judged once and bring the very same exclusions: the check is made once, too.
    """
    if not isinstance(exclusions, tuple):
        return _leaves(exclusions, root)
    made = _made.get(id(exclusions))
    if made is None or made[0] is not exclusions or made[1] is not root:
        if len(_made) >= _MOST_MADE:
            _made.clear()
        made = _made[id(exclusions)] = (exclusions, root, _leaves(exclusions, root))
    return made[2]


def _leaves(exclusions: Sequence[Exclusion], root: Root) -> Leaves:
    ours = tuple(item for item in exclusions if not item.root or item.root == root.name)
    if not ours:
        return lambda _name, _path: False
    suspicious, harmless = last_names(ours).fullmatch, set[str]()
    possible = could_exclude(ours, root)

    def leaves(name: str, path: str) -> bool:
        if name in harmless:
            return False
        if suspicious(name) is None:
            if len(harmless) < _MOST_HARMLESS:
                harmless.add(name)
            return False
        return possible(path) and excluded(ours, root, path) is not None

    return leaves


@lru_cache(maxsize=64)
def last_names(exclusions: tuple[Exclusion, ...]) -> re.Pattern[str]:
    """Fit every name that the exclusions could cover in a folder they do not cover; never a wrong no."""
    names = {_last_name(item) for item in exclusions}
    return re.compile("|".join(sorted(names)), re.IGNORECASE | re.DOTALL)


def _last_name(item: Exclusion) -> str:
    """Give the regular expression of the last name in a pattern.

    `secrets/**` covers the folder `secrets` itself, and a walk judges nothing below a folder that is covered. So the
    name to look for is `secrets`, unless the folder may be excepted or a root may lie in it.
    """
    pattern = item.pattern.rstrip("/")
    if not item.except_for and not item.pattern.startswith(("//", "/run:")):
        pattern = pattern.removesuffix("/**")
    return last_name(pattern) if pattern else ".*"
