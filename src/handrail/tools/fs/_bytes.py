"""A range of bytes as text: from whole character to whole character. Pure."""

from __future__ import annotations

import codecs

from handrail.ports import Limits
from handrail.tools.fs._excerpt import CONTEXT, room_for
from handrail.tools.fs._text import bad_encoding, lines_of
from handrail.words import noun

_WIDEST = 4  # bytes of one character, in any encoding
AROUND = 4 * CONTEXT  # bytes that hold at least CONTEXT characters, whatever the encoding


@noun
class Range:
    """The text of a byte range, what stands around it, and where it really starts and ends."""

    before: str
    text: str
    after: str
    start: int
    end: int


def ask_for(byte_offset: int, byte_limit: int, limits: Limits) -> tuple[int, int]:
    """Say which bytes of a file are needed to show a range: from, how many."""
    start = max(0, byte_offset - AROUND)
    return start, byte_offset - start + min(byte_limit, limits.max_output_bytes) + AROUND


def text_range(
    data: bytes, at: int, byte_offset: int, byte_limit: int, encoding: str, bom: bytes, limits: Limits, shown: str
) -> Range:
    """Take a range out of `data`, which stands at byte `at` of the file.

    The start moves back to where its character starts; the end is where the range, the limits or a line's greatest
    length ends, whichever comes first.
    """
    start = max(_aligned(data, byte_offset - at, encoding, (len(bom) - at) % 4), len(bom) - at, 0)
    wanted = min(byte_offset - at + byte_limit, start + room_for(limits, shown))
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    try:
        text = decoder.decode(data[start : max(wanted, start + _WIDEST)], final=wanted >= len(data))
    except UnicodeDecodeError as error:
        raise bad_encoding(error, encoding, at + start + error.start, shown) from None
    text = _within_lines(_at_least_one(text, encoding, wanted - start), limits, room_for(limits, shown))
    end = start + len(text.encode(encoding))
    before = data[max(0, len(bom) - at) : start].decode(encoding, "ignore")
    after = data[end:].decode(encoding, "ignore")
    return Range(before[-CONTEXT:], text, after[:CONTEXT], at + start, at + end)


def _at_least_one(text: str, encoding: str, size: int) -> str:
    """Give the characters that fit into a size, and the first in any case: reading must get on."""
    if size >= _WIDEST:
        return text
    count = 1
    while count < len(text) and len(text[: count + 1].encode(encoding)) <= size:
        count += 1
    return text[:count]


def _aligned(data: bytes, index: int, encoding: str, phase: int) -> int:
    """Move back to the start of the character that stands at `index`."""
    if encoding == "utf-8":
        while index > 0 and index < len(data) and data[index] & 0xC0 == 0x80:
            index -= 1
        return index
    width = 2 if encoding.startswith("utf-16") else 4
    index -= (index - phase) % width
    if width == 2 and 2 <= index < len(data) - 1:
        high = data[index + 1] if encoding.endswith("le") else data[index]
        index -= 2 if 0xDC <= high <= 0xDF else 0
    return index


def _within_lines(text: str, limits: Limits, room: int) -> str:
    """Stop where a line gets too long, or there is too much for an answer."""
    position = 0
    for line in lines_of(text)[: limits.max_output_lines - 1]:
        shown = line if len(line) <= limits.max_line_chars + 2 else line[: limits.max_line_chars]
        room -= len(shown.encode())
        if room < 0 and position:
            break
        position += len(shown)
        if shown is not line:
            break
    return text[:position]
