"""How the search tools write down what they found. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from handrail.errors import Code, Problem
from handrail.words import Place

_UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PRINTABLE = bytes(range(0x20, 0x7F))
_PLAIN = "/ !\"#$&'()*+,;<=>?@[\\]^`{|}:"


def prefix_of(place: Place) -> str:
    """What to put before a path below a place so that a caller can ask for it."""
    return place.root.shown(f"{place.path}/x" if place.path else "x")[:-1]


def where(place: Place) -> str:
    """Name a place in a sentence."""
    return "the workspace" if place.shown == "." else place.shown


def shown_path(prefix: str, path: str) -> str:
    """Write a found path; what cannot be shown in a line is escaped."""
    whole = prefix + path
    if whole.isascii() and whole.isprintable():
        return whole
    return _UNSHOWABLE.sub(_escape, whole)


def shown_paths(prefix: str, paths: Sequence[str]) -> list[str]:
    """Write many found paths; one look at all of them where nothing has to be escaped."""
    whole = [prefix + path for path in paths] if prefix else list(paths)
    together = "\0".join(whole)
    if together.isascii() and len(together.encode().translate(None, _PRINTABLE)) == len(whole) - 1:
        return whole  # nothing is left but what was put between them
    return [shown_path("", path) for path in whole]


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code & 0xFF:02x}" if code < 0x100 or 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def cursor_of(path: str, line: int | None = None) -> str:
    """Write the place to go on from."""
    plain = path if path.isascii() and path.isprintable() and "%" not in path else _quoted(path)
    return plain if line is None else f"{plain}:{line}"


def _quoted(path: str) -> str:
    if not _UNSHOWABLE.search(path) and "%" not in path:
        return path
    return quote_from_bytes(path.encode("utf-8", "surrogateescape"), safe=_PLAIN)


def read_cursor(text: str) -> str:
    """Read a path from a cursor."""
    if "%" not in text:
        return text
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape")


def read_line_cursor(text: str) -> tuple[str, int]:
    """Read path and line from a cursor."""
    path, colon, line = text.rpartition(":")
    if not colon or not line.isdigit() or len(line) > 18:
        raise Problem(Code.INVALID_ARGS, f"The cursor {text!r} is not one of ours; leave it out to start anew.")
    return read_cursor(path), int(line)


def call_text(tool: str, args: Mapping[str, Any]) -> str:
    """Write a call the way a model can copy it; what is None is left out."""
    return f"{tool} {json.dumps(given(args), ensure_ascii=False)}"


def given(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are not None."""
    return {name: value for name, value in args.items() if value is not None}


def many(count: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
