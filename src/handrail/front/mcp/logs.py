"""Logs on stderr, with everything hidden that is hidden elsewhere: messages of the SDK repeat what came in."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable


class HidingFormatter(logging.Formatter):
    """Hides secrets in whole messages, traces included; before a run is open there are none of it."""

    hide: Callable[[str], str] = staticmethod(str)

    def format(self, record: logging.LogRecord) -> str:
        """Write a record, hidden."""
        return type(self).hide(super().format(record))


def to_stderr() -> None:
    """Have all logs on stderr, from warnings up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(HidingFormatter("handrail mcp: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def hide_with(hide: Callable[[str], str]) -> None:
    """Name what hides."""
    HidingFormatter.hide = staticmethod(hide)
