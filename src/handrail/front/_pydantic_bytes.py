"""Secrets in bytes that are text, in any encoding that shows: hidden there, and the rest stays as it is. Pure."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterator

from handrail.output.redact import Redactor

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_STANDARD = str.maketrans("-_", "+/")
_MARKED = (
    (b"\xff\xfe\0\0", "utf-32-le"),  # no text in UTF-16 begins with NUL
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_WIDE = tuple(name for _, name in _MARKED)
_CONTROL = bytes(set(range(32)) - {9, 10, 12, 13, 27})
# What is said to be text, or looks like it, is read as such also where some bytes of it are none.
_TEXTS = re.compile(r"text/|[^;]*(?:json|xml|yaml|toml|javascript|csv|x-sh|sql)\b|[^;]*;.*charset", re.IGNORECASE)


def hidden_in_bytes(data: bytes, redactor: Redactor, media_type: str = "") -> bytes:
    """Give the bytes of a file with the secrets in its text hidden; the same object where there are none."""
    for encoding, errors in _readings(data, media_type):
        width = 4 if "32" in encoding else 2 if "16" in encoding else 1
        end = len(data) - len(data) % width
        try:
            text = data[:end].decode(encoding, errors)
        except UnicodeDecodeError:
            continue
        if (told := redactor.text(text)) != text:
            data = told.encode(encoding, errors) + data[end:]
    return data


def _readings(data: bytes, media_type: str) -> Iterator[tuple[str, str]]:
    """The ways to read bytes as text, and to write them back the same."""
    yield "utf-8", "surrogateescape" if _TEXTS.match(media_type) or _looks_like_text(data[:4096]) else "strict"
    if marked := next((name for mark, name in _MARKED if data.startswith(mark)), None):
        yield marked, "surrogatepass"
    elif b"\0" in data:
        yield from ((name, "strict") for name in _WIDE)


def _looks_like_text(head: bytes) -> bool:
    return b"\0" not in head and (len(head) - len(head.translate(None, _CONTROL))) * 20 <= len(head)


def hidden_in_base64(text: str, redactor: Redactor) -> str:
    """Give a text with the secrets in what it spells as base64 hidden, for so bytes are written down."""
    if len(text) % 4 or _BASE64.fullmatch(text) is None:
        return text
    try:
        data = b64decode(text.translate(_STANDARD), validate=True)
    except binascii.Error:
        return text
    if (told := hidden_in_bytes(data, redactor)) is data:
        return text
    return (b64encode if "+" in text or "/" in text else urlsafe_b64encode)(told).decode()
