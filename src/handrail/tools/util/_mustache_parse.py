"""A Mustache template as a tree. Pure.

Lines that hold nothing but tags (no variables, no text) leave no trace: their blanks and line break belong to the
first and last tag on them. Their leading blanks are the indentation of a partial, parent or block that stands there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

MAX_NESTING = 100
MAX_NAME = 1000  # characters; a list may have it looked up many times
MAX_KNOWN = 10_000  # characters of a template whose tree is kept
DEFAULT = ("{{", "}}")

Delimiters = tuple[str, str]
_ALONE = frozenset("#^/!=><$")  # kinds of tags that can leave their line empty
_BREAK = re.compile(r"[^\n]*\n|[^\n]+")


class TemplateError(ValueError):
    """A template that cannot be read or rendered, with the place."""

    def __init__(self, text: str, line: int = 0, column: int = 0, template: str = "") -> None:
        super().__init__(text)
        self.line, self.column, self.template = line, column, template


@dataclass(frozen=True, slots=True)
class Text:
    """Text that stands for itself."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A value to fill in."""

    name: str
    escaped: bool


@dataclass(frozen=True, slots=True)
class Section:
    """A part to repeat, leave out, or hand to a function."""

    name: str
    inverted: bool
    nodes: tuple[Node, ...]
    raw: str
    delimiters: Delimiters


@dataclass(frozen=True, slots=True)
class Argument:
    """What a parent's block is replaced with: source text, without the indentation it was written with."""

    raw: str
    delimiters: Delimiters


@dataclass(frozen=True, slots=True)
class Partial:
    """Another template to put here; with arguments it is a parent. A name that begins with `*` is looked up."""

    name: str
    indent: str
    arguments: dict[str, Argument] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Block:
    """A part that an argument may replace."""

    name: str
    nodes: tuple[Node, ...]
    indent: str  # of each line of a replacement
    inline: bool  # the first line is indented already
    tail: str = ""  # a line break to put after a replacement that has none


Node = Text | Variable | Section | Partial | Block


@dataclass(slots=True)
class _Tag:
    kind: str  # "", &, # ^ / ! = > < $
    name: str
    start: int
    end: int
    place: int  # where it begins, whatever belongs to it
    delimiters: Delimiters  # in force after it
    lead: str = ""  # blanks before it on its line, where nothing else is
    alone: bool = False  # nothing but tags on its line
    last: bool = False  # and it is the last of them


def parse(source: str, delimiters: Delimiters = DEFAULT) -> tuple[Node, ...]:
    """Read a template; TemplateError with line and column."""
    # A large tree takes tens of times the template's size, and must not stay.
    return _known(source, delimiters) if len(source) <= MAX_KNOWN else _read(source, delimiters)


@lru_cache(maxsize=256)
def _known(source: str, delimiters: Delimiters) -> tuple[Node, ...]:
    return _read(source, delimiters)


def _read(source: str, delimiters: Delimiters) -> tuple[Node, ...]:
    pieces = _pieces(source, delimiters)
    _find_lonely_lines(source, pieces)
    return _Builder(source, delimiters).build(pieces)


def _error(source: str, place: int, text: str) -> TemplateError:
    line = source.count("\n", 0, place) + 1
    return TemplateError(text, line, place - source.rfind("\n", 0, place))


# ── tags ─────────────────────────────────────────────────────────────────────────────────────


def _pieces(source: str, delimiters: Delimiters) -> list[_Tag | tuple[int, int]]:
    """Cut into tags and, between them, parts of lines (as start and end)."""
    pieces: list[_Tag | tuple[int, int]] = []
    at = 0
    while at < len(source):
        start = source.find(delimiters[0], at)
        stop = start if start >= 0 else len(source)
        pieces += [match.span() for match in _BREAK.finditer(source, at, stop)]
        if start < 0:
            break
        tag = _read_tag(source, start, delimiters)
        delimiters = tag.delimiters
        pieces.append(tag)
        at = tag.end
    return pieces


def _read_tag(source: str, start: int, delimiters: Delimiters) -> _Tag:
    opening, closing = delimiters
    inner = start + len(opening)
    kind = source[inner : inner + 1]
    if kind in ("{", "="):
        closing = ("}" if kind == "{" else "=") + closing
    end = source.find(closing, inner + (kind in ("{", "=")))
    if end < 0:
        raise _error(source, start, f"the tag {source[start : start + 20]!r} is not closed: {closing!r} is missing")
    kind = kind if kind and kind in "{&#^/!=><$" else ""
    name = source[inner + len(kind) : end].strip()
    tag = _Tag("&" if kind == "{" else kind, name, start, end + len(closing), start, delimiters)
    if kind == "=":
        tag.delimiters = _new_delimiters(source, start, name)
    elif kind in (">", "<") and name.startswith("*"):
        tag.name = f"*{name[1:].strip()}"
    if not tag.name and kind != "!":
        raise _error(source, start, "a tag without a name")
    if len(tag.name) > MAX_NAME and kind != "!":
        raise _error(source, start, f"a name of more than {MAX_NAME} characters")
    return tag


def _new_delimiters(source: str, start: int, text: str) -> Delimiters:
    parts = text.split()
    if len(parts) != 2 or "=" in text:
        raise _error(source, start, f"{text!r} does not name two delimiters, as {{{{=<% %>=}}}} does")
    return parts[0], parts[1]


def _find_lonely_lines(source: str, pieces: list[_Tag | tuple[int, int]]) -> None:
    """Give the blanks and the line break of lines that hold only tags to their first and last tag."""
    begin = 0
    for index, piece in enumerate(pieces):
        ends_line = not isinstance(piece, _Tag) and source[piece[1] - 1] == "\n"
        if ends_line or index == len(pieces) - 1:
            _settle_line(source, pieces, begin, index + 1)
            begin = index + 1


def _settle_line(source: str, pieces: list[_Tag | tuple[int, int]], begin: int, end: int) -> None:
    line = pieces[begin:end]
    tags = [piece for piece in line if isinstance(piece, _Tag)]
    if not tags:
        return
    first = line[0]
    lead = "" if isinstance(first, _Tag) else source[first[0] : first[1]]
    if lead.strip():
        return
    texts = [piece for piece in line if not isinstance(piece, _Tag)]
    alone = all(tag.kind and tag.kind in _ALONE for tag in tags) and not any(source[a:b].strip() for a, b in texts)
    if not alone:
        tags[0].lead = lead
        return
    for tag in tags:
        tag.lead, tag.alone = lead, True
    tags[-1].last = True
    if not isinstance(first, _Tag):
        tags[0].start = first[0]
    last = line[-1]
    if not isinstance(last, _Tag):
        tags[-1].end = last[1]
    for index in range(begin, end):
        piece = pieces[index]
        if not isinstance(piece, _Tag):
            pieces[index] = (piece[0], piece[0])


# ── the tree ─────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Open:
    tag: _Tag
    delimiters: Delimiters
    nodes: list[Node] = field(default_factory=list)
    arguments: dict[str, Argument] = field(default_factory=dict)


class _Builder:
    def __init__(self, source: str, delimiters: Delimiters) -> None:
        self._source = source
        self._delimiters = delimiters
        root = _Tag("", "", 0, 0, 0, delimiters)
        self._stack = [_Open(root, delimiters)]

    def build(self, pieces: list[_Tag | tuple[int, int]]) -> tuple[Node, ...]:
        for piece in pieces:
            if isinstance(piece, _Tag):
                self._take(piece)
                self._delimiters = piece.delimiters
            elif piece[0] < piece[1]:
                self._add(Text(self._source[piece[0] : piece[1]]))
        if len(self._stack) > 1:
            tag = self._stack[-1].tag
            raise _error(self._source, tag.place, f"{tag.kind}{tag.name} is opened and never closed")
        return tuple(self._stack[0].nodes)

    def _add(self, node: Node) -> None:
        self._stack[-1].nodes.append(node)

    def _take(self, tag: _Tag) -> None:
        if tag.kind in ("", "&"):
            self._add(Variable(tag.name, not tag.kind))
        elif tag.kind == ">":
            self._add(Partial(tag.name, tag.lead if tag.alone else ""))
        elif tag.kind == "/":
            self._close(tag)
        elif tag.kind in ("#", "^", "<", "$"):
            self._stack.append(_Open(tag, self._delimiters))
            if len(self._stack) > MAX_NESTING:
                raise _error(self._source, tag.place, f"nested more than {MAX_NESTING} levels deep")

    def _close(self, closing: _Tag) -> None:
        opened = self._stack[-1]
        tag = opened.tag
        if len(self._stack) == 1:
            raise _error(self._source, closing.place, f"/{closing.name} closes what was never opened")
        if tag.name != closing.name:
            text = f"/{closing.name} stands where /{tag.name} is expected"
            raise _error(self._source, closing.place, text)
        self._stack.pop()
        raw = self._source[tag.end : closing.start]
        if tag.kind in ("#", "^"):
            self._add(Section(tag.name, tag.kind == "^", tuple(opened.nodes), raw, opened.delimiters))
        elif tag.kind == "<":
            self._add(Partial(tag.name, tag.lead if tag.alone else "", opened.arguments))
        else:
            self._close_block(opened, closing, raw)

    def _close_block(self, opened: _Open, closing: _Tag, raw: str) -> None:
        tag = opened.tag
        if self._stack[-1].tag.kind == "<":
            text = _dedented(raw) if tag.alone and tag.last else raw
            self._stack[-1].arguments[tag.name] = Argument(text, opened.delimiters)
        one_line = tag.alone and not tag.last
        indent = tag.lead if not tag.alone or one_line else (_indent_of(raw) if raw.strip() else tag.lead)
        tail = "\n" if one_line and self._source[closing.end - 1 : closing.end] == "\n" else ""
        self._add(Block(tag.name, tuple(opened.nodes), indent, not tag.alone, tail))


def _indent_of(text: str) -> str:
    """The blanks before the first line that holds something."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first[: len(first) - len(first.lstrip())]


def _dedented(text: str) -> str:
    indent = _indent_of(text)
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True)) if indent else text


def indented(text: str, indent: str, *, skip_first: bool = False) -> str:
    """Put blanks before each line that is not empty."""
    if not indent:
        return text
    lines = text.split("\n")
    kept = lines[:1] if skip_first else []
    return "\n".join([*kept, *(f"{indent}{line}" if line.strip("\r") else line for line in lines[len(kept) :])])
