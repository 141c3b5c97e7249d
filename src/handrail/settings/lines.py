"""The line on which each key of a TOML text stands, which `tomllib` does not tell. Pure.

It walks the text once and understands just enough (headers, keys, strings, arrays, inline tables) to find keys; what is
TOML and what is not stays `tomllib`'s to say. It runs first, so that texts made to keep a parser busy are refused.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress

Path = tuple[str | int, ...]

MAX_PARTS = 16  # of a dotted key; parsers take quadratic time over long ones
MAX_DEPTH = 16  # of arrays and inline tables; parsers recurse

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?>(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*)"{3,5}'
    r"|'''[\s\S]*?'{3,5}"
    r'|"(?>(?:[^"\\\n]|\\.)*)"'
    r"|'[^'\n]*'"
)
_SCALAR = re.compile(r"[^,\]}#\n]+")
_ESCAPE = re.compile(r'\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(["\\bfnrt]))')
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


class UnreadableError(Exception):
    """The text is no TOML from here on: the parser will say what is wrong."""


class TooDeepError(Exception):
    """The text nests or dots deeper than any settings do."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Lines:
    """Where each key stands, by its path; an entry of an array has its number in the path."""

    def __init__(self, text: str) -> None:
        self.found: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._counts: dict[Path, int] = {}
        with suppress(UnreadableError):
            self._document()

    def of(self, path: Path) -> int:
        """The line of a key, or of the nearest table around it; 0 when nothing of it stands in the text."""
        while path and path not in self.found:
            path = path[:-1]
        return self.found.get(path, 0)

    def _line(self) -> int:
        return bisect_right(self._ends, self._at) + 1

    def _document(self) -> None:
        prefix: Path = ()
        while not self._ended():
            if self._text.startswith("[", self._at):
                prefix = self._header()
            else:
                self._pair(prefix, 0)

    def _ended(self) -> bool:
        self._skip(_BLANK)
        return self._at >= len(self._text)

    def _header(self) -> Path:
        line = self._line()
        many = self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        *parents, last = self._dotted()
        self._expect("]]" if many else "]")
        path: Path = ()
        for part in parents:
            path = self._latest((*path, part))
        path = (*path, last)
        if many:
            self._counts[path] = self._counts.get(path, 0) + 1
            self.found.setdefault(path, line)
        path = self._latest(path)
        self.found[path] = line
        return path

    def _latest(self, path: Path) -> Path:
        count = self._counts.get(path)
        return path if count is None else (*path, count - 1)

    def _pair(self, prefix: Path, depth: int) -> None:
        line = self._line()
        path = prefix
        for part in self._dotted():
            path = (*path, part)
            self.found.setdefault(path, line)
        self._expect("=")
        self._value(path, depth)

    def _dotted(self) -> list[str]:
        parts = []
        while True:
            self._skip(_SPACE)
            parts.append(self._part())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return parts
            if len(parts) >= MAX_PARTS:
                raise TooDeepError(self._line())
            self._at += 1

    def _part(self) -> str:
        if bare := _BARE.match(self._text, self._at):
            self._at = bare.end()
            return bare[0]
        quoted = _STRING.match(self._text, self._at)
        if quoted is None:
            raise UnreadableError
        self._at = quoted.end()
        inner = quoted[0][1:-1]
        return inner if quoted[0][0] == "'" else _ESCAPE.sub(_unescaped, inner)

    def _value(self, path: Path, depth: int) -> None:
        self._skip(_SPACE)
        first = self._text[self._at : self._at + 1]
        if first in ("[", "{"):
            if depth >= MAX_DEPTH:
                raise TooDeepError(self._line())
            self._at += 1
            self._entries(path, depth + 1) if first == "[" else self._table(path, depth + 1)
        else:
            self._skip(_STRING if first in ('"', "'") else _SCALAR, must=True)

    def _entries(self, path: Path, depth: int) -> None:
        number = 0
        while not self._closed("]"):
            self.found[(*path, number)] = self._line()
            self._value((*path, number), depth)
            self._separated("]")
            number += 1

    def _table(self, path: Path, depth: int) -> None:
        while not self._closed("}"):
            self._pair(path, depth)
            self._separated("}")

    def _closed(self, end: str) -> bool:
        if self._ended():
            raise UnreadableError
        if not self._text.startswith(end, self._at):
            return False
        self._at += 1
        return True

    def _separated(self, end: str) -> None:
        self._skip(_BLANK)
        if self._text.startswith(",", self._at):
            self._at += 1
        elif not self._text.startswith(end, self._at):
            raise UnreadableError

    def _expect(self, mark: str) -> None:
        if not self._text.startswith(mark, self._at):
            raise UnreadableError
        self._at += len(mark)

    def _skip(self, what: re.Pattern[str], *, must: bool = False) -> None:
        found = what.match(self._text, self._at)
        if found is None:
            if must:
                raise UnreadableError
            return
        self._at = found.end()


def _unescaped(match: re.Match[str]) -> str:
    short, long, plain = match.groups()
    code = int(short or long or "0", 16)
    if plain:
        return _PLAIN[plain]
    return chr(code) if code <= 0x10FFFF else match[0]
