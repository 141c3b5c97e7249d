"""What a front end for a framework says where the framework is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(package: str, says: str) -> Iterator[None]:
    """Import from a package that may be missing, or too old to have a part of it; then say what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != package:
            raise  # the package is there, and lacks something of its own
        raise ModuleNotFoundError(says, name=missing.name) from None
