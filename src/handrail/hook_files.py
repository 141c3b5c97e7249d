"""Settings files that say whether an agent asks Handrail: no tool writes them."""

from __future__ import annotations

import os

from handrail import dialects
from handrail.policy.hook_names import HOOK_SETTINGS

MARK = "handrail/hooks/client.py"  # in a line that Handrail installed
_MOST_BYTES = 1 << 20


def find_hook_files(folders: tuple[str, ...], caller: str) -> tuple[str, ...]:
    """List hook settings below some folders: all of them for an agent, for others those that hold a hook of ours."""
    named = [os.path.join(folder, name) for folder in folders for name in HOOK_SETTINGS]
    found = named if caller in dialects.agents() else [path for path in named if holds_hook(path)]
    return tuple(dict.fromkeys([*found, *map(os.path.realpath, found)]))


def holds_hook(path: str) -> bool:
    """Say whether a settings file starts the client of our hooks."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return MARK in file.read(_MOST_BYTES)
    except OSError:
        return False
