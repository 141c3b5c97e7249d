"""Lists in pages: a cursor names the last entry that was shown, so it holds whatever is added or removed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from handrail.front.mcp.wire import INVALID_PARAMS, Params, Refused

_MARK = b"after:"


def page(params: Params, entries: Sequence[Any], name: Callable[[Any], str], size: int) -> tuple[list[Any], str | None]:
    """Give the entries of the page that is asked for, sorted by name, and the cursor of the next page."""
    cursor = params.get("cursor")
    last = None if cursor is None else _read(cursor)
    left = [entry for entry in sorted(entries, key=name) if last is None or name(entry) > last]
    shown = left[:size]
    return shown, _write(name(shown[-1])) if len(left) > size else None


def _write(name: str) -> str:
    return base64.urlsafe_b64encode(_MARK + name.encode("utf-8", "surrogatepass")).decode()


def _read(cursor: Any) -> str:
    try:
        raw = base64.b64decode(cursor, altchars=b"-_", validate=True)
        if raw.startswith(_MARK):
            return raw.removeprefix(_MARK).decode("utf-8", "surrogatepass")
    except (ValueError, TypeError):
        pass
    raise Refused(INVALID_PARAMS, "The cursor is not one that this server gave; leave it out to start over.")
