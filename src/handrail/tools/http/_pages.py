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
    offset: int  # characters

    @property
    def text(self) -> str:
        """The cursor as a caller hands it back."""
        return f"{self.digest}.{self.offset}"


class Whole:
    """A text that is shown page by page, and its UTF-8. One of ASCII alone is read only where it is shown."""

    __slots__ = ("_text", "body")

    def __init__(self, body: bytes, text: str | None) -> None:
        self.body, self._text = body, text  # None: ASCII

    def __len__(self) -> int:
        """Characters."""
        return len(self.body if self._text is None else self._text)

    def __getitem__(self, part: slice) -> str:
        """The characters of a part."""
        return self.body[part].decode("ascii") if self._text is None else self._text[part]


def read_again(body: bytes) -> Whole:
    """The text of a body that was read before, and kept as UTF-8."""
    return Whole(body, None if body.isascii() else body.decode())


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


def end_of_page(text: str | Whole, offset: int, limits: Limits) -> int:
    """Where the page ends that begins at `offset`: after a whole line, or within one that fills the page alone."""
    room = max(256, limits.max_output_bytes - _ROOM_BYTES)
    page = text[offset : offset + room]
    if not page.isascii():
        page = page.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    page = _first_lines(page, max(1, limits.max_output_lines - _ROOM_LINES))
    end = offset + len(page)
    if end < len(text) and (last := page.rfind("\n")) >= 0:
        end = offset + last + 1
    return max(end, offset + 1)


def _first_lines(page: str, most: int) -> str:
    if page.count("\n") < most:
        return page
    at = -1
    for _ in range(most):
        at = page.find("\n", at + 1)
        if at < 0:
            return page
    return page[: at + 1]


def wrapped(page: str, width: int) -> str:
    """Break lines that are too long to be shown, so that nothing of a page is lost."""
    if len(page) <= width or max(map(len, page.split("\n"))) <= width:
        return page
    return "\n".join(line[at : at + width] for line in page.split("\n") for at in range(0, max(1, len(line)), width))


def utf8_bytes(text: str) -> int:
    """How many bytes a text has."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
