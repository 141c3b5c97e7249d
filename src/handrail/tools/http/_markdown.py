"""HTML as Markdown: headings, lists, links, code, tables, quotes; the rest as plain text. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from urllib.parse import urljoin

from handrail.tools.http._html import Token, tokens
from handrail.urls import Url

_BLANKS = re.compile(r"[ \t\r\n\f]+")
_SKIPPED = frozenset({"head", "select", "button", "canvas", "object", "audio", "video", "map", "dialog"})
_BLOCKS = frozenset(
    {
        *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "form", "fieldset", "figure"),
        *("figcaption", "address", "details", "summary", "dl", "dt", "dd", "body", "html", "center", "tbody", "thead"),
    }
)
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`", "kbd": "`", "samp": "`", "del": "~~", "s": "~~"}
_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_MOST_NESTED, _MOST_CELLS = 12, 1000
_ROOM, _GROWTH = 1024 * 1024, 4


def markdown(html: str, base: Url) -> str:
    """Write a page as Markdown; links are made absolute, scripts and styles are left out, nothing is followed.

    Raises Overgrown for a page made to grow: long addresses in front of a million links, a million lines in quotes.
    """
    page = _Page(base.text, _ROOM + _GROWTH * len(html))
    for token in tokens(html):
        page.take(token)
    return page.text()


class Overgrown(Exception):
    """A page that is many times as long as Markdown."""


class _Page:
    """The Markdown so far, and what is open."""

    def __init__(self, base: str, room: int) -> None:
        self._base = base
        self._room = room  # characters that may still be put before links and lines
        self._blocks = StringIO()  # written down at once: a list of a million takes fifty times the page
        self._any = False
        self._line: list[str] = []
        self._prefix = ""  # what the next block begins with: a heading's or a list's mark
        self._skipping, self._skipped = "", 0
        self._title = False
        self._lists: list[int] = []  # the number of the next item; 0: no numbers
        self._in_list = False
        self._quotes = 0
        self._pre: list[str] | None = None
        self._link: tuple[int, str] | None = None
        self._row: list[list[str]] | None = None  # cells, each of the blocks in it
        self._rows = 0

    def take(self, token: Token) -> None:
        """Take one token in."""
        kind, name, _ = token
        if name == "title" and kind != "text" and self._skipping in ("", "head"):
            self.end_block("# " if kind == "close" else "")
            self._title = kind == "open"
        elif self._skipping and not self._title:
            self._skip(kind, name)
        elif kind == "text":
            self._text(token.value)
        elif self._pre is not None:
            self._in_pre(kind, name)
        elif kind == "open":
            self._open(token)
        else:
            self._close(name)

    def text(self) -> str:
        """The whole page."""
        if self._pre is not None:
            self.end_pre()
        self.end_row()
        self.end_block()
        joined = self._blocks.getvalue()
        return f"{joined.strip()}\n" if joined else ""

    def _skip(self, kind: str, name: str) -> None:
        if name == self._skipping and kind != "text":
            self._skipped += 1 if kind == "open" else -1
        if self._skipped == 0 or (self._skipping == "head" and name == "body" and kind == "open"):
            self._skipping, self._skipped = "", 0

    def _text(self, text: str) -> None:
        if self._pre is not None:
            self._pre.append(text)
        elif text := _BLANKS.sub(" ", text):
            self._line.append(text)

    def _in_pre(self, kind: str, name: str) -> None:
        if name == "pre" and kind == "close":
            self.end_pre()
        elif name == "br" and self._pre is not None:
            self._pre.append("\n")

    def _open(self, token: Token) -> None:
        name = token.value
        if name in _SKIPPED:
            self._skipping, self._skipped = name, 1
        elif name in _MARKS:
            self._line.append(_MARKS[name])
        elif name in _HEADINGS:
            self.end_block()
            self._prefix = _HEADINGS[name]
        elif name in _BLOCKS:
            self.end_block()
        elif name == "a":
            self._end_link()
            self._link = len(self._line), token.attribute("href")
        elif name == "img":
            self._image(token)
        elif (opens := _OPENS.get(name)) is not None:
            opens(self)

    def _close(self, name: str) -> None:
        if name in _MARKS:
            if self._line and self._line[-1] == _MARKS[name]:
                self._line.pop()
            else:
                self._line.append(_MARKS[name])
        elif name in _BLOCKS or name in _HEADINGS or name == "li":
            self.end_block()
        elif name == "a":
            self._end_link()
        elif (closes := _CLOSES.get(name)) is not None:
            closes(self)

    # ── inline ──

    def _end_link(self) -> None:
        if self._link is None:
            return
        (start, target), self._link = self._link, None
        said = _BLANKS.sub(" ", "".join(self._line[start:])).strip()
        target = self._absolute(target)
        if said and target:
            self._line[start:] = [f"[{said}]({target})"]

    def _image(self, token: Token) -> None:
        said, target = _BLANKS.sub(" ", token.attribute("alt")), self._absolute(token.attribute("src"))
        if said:
            self._line.append(f"![{said}]({target})" if target else said)

    def _absolute(self, target: str) -> str:
        """A link that leads somewhere on the web; no scripts, no data."""
        try:
            found = urljoin(self._base, _BLANKS.sub("%20", target)) if target else ""
        except ValueError:
            return ""
        if not found.startswith(("http://", "https://", "mailto:")):
            return ""
        self._grow(len(found))
        return found

    def _grow(self, characters: int) -> None:
        self._room -= characters
        if self._room < 0:
            raise Overgrown

    def line_break(self) -> None:
        self._line.append("\n")

    # ── blocks ──

    def end_block(self, prefix: str = "") -> None:
        self._end_link()
        lines = [_BLANKS.sub(" ", line).strip() for line in "".join(self._line).split("\n")]
        text, self._line = "\n".join(lines).strip(), []
        if self._row is not None:
            if text and not self._row:  # no cell is open, and browsers show it all the same
                self._row.append([])
            if text:
                self._row[-1].append(text)
            return
        if text:
            self._add(f"{prefix or self._prefix}{text}")
            self._prefix = ""

    def _add(self, block: str, *, tight: bool = False) -> None:
        """Put a block down, indented and quoted as it stands."""
        item = block.startswith(("- ", *_ITEM)) and self._prefix != ""
        depth = min(len(self._lists), _MOST_NESTED)
        indent = "  " * (depth - 1 if item else depth)
        mark = "> " * min(self._quotes, _MOST_NESTED) + indent
        hanging = mark + ("  " if item else "")
        self._grow((1 + block.count("\n")) * (len(hanging) + 2))
        body = mark + block.replace("\n", f"\n{hanging}")
        follows = item and self._any and self._in_list
        self._in_list, self._any = bool(self._lists), True
        # One blank line between blocks; items of a list and rows of a table follow at once.
        self._blocks.write("\n" if tight or follows else "\n\n")
        self._blocks.write(body)

    def start_list(self, first: int) -> None:
        self.end_block()
        self._lists.append(first)

    def end_list(self) -> None:
        self.end_block()
        if self._lists:
            self._lists.pop()
        self._prefix = ""

    def item(self) -> None:
        self.end_block()
        number = self._lists[-1] if self._lists else 0
        self._prefix = f"{number}. " if number else "- "
        if number:
            self._lists[-1] += 1

    def quote(self, step: int) -> None:
        self.end_block()
        self._quotes = max(0, self._quotes + step)

    def rule(self) -> None:
        self.end_block()
        self._add("---")

    def start_pre(self) -> None:
        self.end_block()
        self._pre = []

    def end_pre(self) -> None:
        code, self._pre = "".join(self._pre or ()).strip("\n"), None
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
        self._add(f"{fence}\n{code}\n{fence}")

    # ── tables ──

    def table(self) -> None:
        self.end_row()
        self.end_block()
        self._rows = 0

    def start_row(self) -> None:
        self.end_row()
        self.end_block()
        self._row = []

    def cell(self) -> None:
        self.end_block()
        self._row = [] if self._row is None else self._row
        if len(self._row) < _MOST_CELLS:  # what stands in further ones goes into the last one
            self._row.append([])

    def end_row(self) -> None:
        if self._row is None:
            return
        if self._row:
            self.end_block()
        cells = [" ".join(cell).replace("\n", " ").replace("|", "\\|") for cell in self._row]
        self._row = None
        if any(cells):
            self._add(f"| {' | '.join(cells)} |", tight=self._rows > 0)
            if self._rows == 0:
                self._add(f"|{' --- |' * len(cells)}", tight=True)
            self._rows += 1


_ITEM = tuple(f"{number}" for number in range(1, 10))
_OPENS: dict[str, Callable[[_Page], None]] = {
    "br": _Page.line_break,
    "hr": _Page.rule,
    "ul": lambda page: page.start_list(0),
    "ol": lambda page: page.start_list(1),
    "li": _Page.item,
    "blockquote": lambda page: page.quote(1),
    "pre": _Page.start_pre,
    "table": _Page.table,
    "tr": _Page.start_row,
    "td": _Page.cell,
    "th": _Page.cell,
}
_CLOSES: dict[str, Callable[[_Page], None]] = {
    "ul": _Page.end_list,
    "ol": _Page.end_list,
    "blockquote": lambda page: page.quote(-1),
    "pre": _Page.end_pre,
    "table": _Page.table,
    "tr": _Page.end_row,
    "td": _Page.end_block,
    "th": _Page.end_block,
}
