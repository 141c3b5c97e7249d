"""The charset of a text that names none and is no UTF-8, by its looks. Pure."""

from __future__ import annotations

import re

_SAMPLE = 16 * 1024
_BEFORE = 256  # bytes before the first that is not ASCII
_RUNS = re.compile(rb"[\x80-\xff]{3,}")
_HIGH = re.compile(rb"[\x80-\xff]")
_LOW = re.compile(rb"[\x00-\x2f](?=[^\x00-\x2f]*\Z)")  # the last byte that no charset has inside of a character
WESTERN = "windows-1252"
# Those that are still met, by the names of their codecs; the names are those that pages use.
_NAMES = {
    "cp1252": WESTERN,
    "cp1251": "windows-1251",
    "koi8_r": "koi8-r",
    "cp1253": "windows-1253",
    "gb18030": "gb18030",
    "big5": "big5",
    "cp932": "cp932",
    "euc_jp": "euc-jp",
    "euc_kr": "euc-kr",
}


def guessed(body: bytes) -> str:
    """The charset that the letters of a text fit best; the Western one where they are few, or fit none."""
    sample = _sample(body)
    if 2 * sum(map(len, _RUNS.findall(sample))) < len(_HIGH.findall(sample)):
        return WESTERN  # letters with marks stand alone among plain ones; those of other scripts side by side
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=list(_NAMES)).best()
    return WESTERN if best is None else _NAMES.get(best.encoding, WESTERN)


def _sample(body: bytes) -> bytes:
    """A part that shows what letters there are, without half a character at its ends."""
    first = _HIGH.search(body)
    start = 0 if first is None else max(0, first.start() - _BEFORE)
    found = body[start : start + _SAMPLE]
    if start + _SAMPLE >= len(body):
        return found
    end = _LOW.search(found)
    return found if end is None else found[: end.end()]
