"""Pages of a text: cut at whole lines, one following the other without a gap. Pure."""

from __future__ import annotations

import re

from handrail import urls
from handrail.errors import Code, Problem
from handrail.ports import Limits
from handrail.words import noun

_CURSOR = re.compile(r"([0-9a-f]{16})\.([0-9]{1,12})")
_ROOM_BYTES, _ROOM_LINES = 2048, 60  # for what is said before and after, and for long lines that are wrapped


@noun
class Cursor:
    """Where a page begins, and in which body."""

    digest: str  # the first half of the body's hash, and then some
    offset: int  # bytes of UTF-8

    @property
    def text(self) -> str:
        """The cursor as a caller hands it back."""
        return f"{self.digest}.{self.offset}"


class Whole:
    """A text that is shown page by page: UTF-8, in one part or more, that is read only where it is shown."""

    __slots__ = ("_size", "parts")

    def __init__(self, *parts: bytes) -> None:
        self.parts, self._size = parts, sum(map(len, parts))

    def __len__(self) -> int:
        """Bytes."""
        return self._size

    def __getitem__(self, part: slice) -> str:
        """The characters that are whole in a part."""
        start, end, _ = part.indices(self._size)
        return self.cut(start, end).decode("utf-8", "ignore")

    def cut(self, start: int, end: int) -> bytes:
        """The bytes of a part."""
        if len(self.parts) == 1:
            return self.parts[0][start:end]
        found, before = [], 0
        for part in self.parts:
            if start < before + len(part) and before < end:
                found.append(part[max(0, start - before) : end - before])
            before += len(part)
        return found[0] if len(found) == 1 else b"".join(found)

    def character(self, at: int) -> int:
        """Where the character begins that stands here: a cursor is what a caller says it is."""
        if at == 0:
            return 0
        near = self.cut(max(0, at - 3), at + 1)
        while 0 < at < self._size and near and near[-1] & 0xC0 == 0x80:
            at, near = at - 1, near[:-1]
        return at


def read_cursor(text: str) -> Cursor:
    """Read a cursor; INVALID_ARGS for what is none."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise Problem(Code.INVALID_ARGS, f"{text[:60]!r} is no cursor; leave it out to begin with the first page.")
    return Cursor(found[1], int(found[2]))


def refuse_repeat(where: Cursor | None, method: str) -> None:
    """INVALID_ARGS for the next page of a POST whose answer is not held."""
    if where is not None and method != "GET":
        text = "The answer is not held any more, and a POST is not sent again for its next page."
        raise Problem(Code.INVALID_ARGS, text)


def need_same(where: Cursor | None, sha256: str, tool: str, url: str) -> None:
    """INVALID_ARGS for a cursor into another body than the one that came now."""
    if where is not None and where.digest != sha256[:16]:
        raise Problem(
            Code.INVALID_ARGS,
            f"{urls.parse(url).shown} has changed since the first page, so this cursor leads nowhere; begin again.",
            next_call={"tool": tool, "args": {"url": url}},
        )


def end_of_page(text: Whole, offset: int, limits: Limits) -> int:
    """Where the page ends that begins at `offset`: after a whole line, or within one that fills the page alone."""
    room = max(256, limits.max_output_bytes - _ROOM_BYTES)
    page = text.cut(offset, offset + room + 1)
    if len(page) > room:
        while page[room] & 0xC0 == 0x80:  # within a character
            room -= 1
        page = page[:room]
    page = _first_lines(page, max(1, limits.max_output_lines - _ROOM_LINES))
    end = offset + len(page)
    if end < len(text) and (last := page.rfind(b"\n")) >= 0:
        end = offset + last + 1
    return max(end, offset + 1)


def _first_lines(page: bytes, most: int) -> bytes:
    if page.count(b"\n") < most:
        return page
    at = -1
    for _ in range(most):
        at = page.find(b"\n", at + 1)
        if at < 0:
            return page
    return page[: at + 1]


def wrapped(page: str, width: int) -> str:
    """Break lines that are too long to be shown, so that nothing of a page is lost."""
    if len(page) <= width or max(map(len, page.split("\n"))) <= width:
        return page
    return "\n".join(line[at : at + width] for line in page.split("\n") for at in range(0, max(1, len(line)), width))
