"""No tool gives a project's pyproject.toml a table of our settings: people write those.

By its name alone such a file is anybody's to write, so this is found where its content takes the name.
"""

from __future__ import annotations

import os

from handrail.errors import Code, Problem
from handrail.words import Place

NAME = "pyproject.toml"
_MOST_BYTES = 1 << 20  # of a settings file; a larger one is not read as settings


def refuse_settings(place: Place, fd: int) -> None:
    """Refuse what an open file holds for this place, if settings of ours would come of it."""
    if place.path.casefold() == NAME and _has_table(os.pread(fd, _MOST_BYTES + 1, 0)):
        text = f"{place.shown} would hold settings of Handrail in [tool.handrail]; people write these, tools never."
        raise Problem(Code.PATH_PROTECTED, text, path=place.shown, mend="leave that table out")


def _has_table(data: bytes) -> bool:
    if b"handrail" not in data or len(data) > _MOST_BYTES:
        return False
    import tomllib

    try:
        tool = tomllib.loads(data.decode("utf-8-sig")).get("tool")
    except (ValueError, RecursionError):
        return False  # and so no settings
    return isinstance(tool, dict) and "handrail" in tool
