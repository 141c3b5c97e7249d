"""The state of the files that settings come from, so that a change of them is noticed."""

from __future__ import annotations

import os
from pathlib import Path

from handrail.settings import paths
from handrail.settings.files import PROJECT_FILE, PYPROJECT
from handrail.settings.loading import Loaded
from handrail.settings.trust import trust_store

Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp(loaded: Loaded) -> Stamp:
    """Name the state of all files that settings may come from, those that are not there too."""
    home = Path(loaded.workspace)
    files = {paths.user_file(), home / PROJECT_FILE, home / PYPROJECT, trust_store(os.environ).path}
    files |= {Path(file.path) for file in loaded.files}
    return tuple(_stamp(path) for path in sorted(files))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
