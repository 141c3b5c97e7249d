"""A walk through a file of any size in constant memory: its hash, its lines, the byte where a column stands. Pure."""

from __future__ import annotations

import codecs
import hashlib
import re
from itertools import islice

from handrail.tools.fs._text import bad_encoding, bom_of, ending_of, eol_name

_ENDING = re.compile(r"\r\n|\r|\n")


class Scan:
    """Takes a file chunk by chunk; knows afterwards what was looked for."""

    def __init__(self, head: bytes, shown: str, line: int = 1, column: int = 1) -> None:
        self.bom, self.encoding = bom_of(head)
        self.bytes = 0
        self.position: int | None = None  # the byte where `column` of `line` stands
        self.line_chars: int | None = None  # characters of `line`, where `column` is past its end
        self.last_line_at = len(self.bom)  # the byte where the last line starts
        self._shown = shown
        self._hash = hashlib.sha256()
        self._decoder = codecs.getincrementaldecoder(self.encoding)("strict")
        self._width = len("\r".encode(self.encoding))
        self._carry = ""  # a trailing \r, which may be half of an ending
        self._taken = 0  # bytes whose characters were taken in
        self._lf = self._crlf = self._cr = 0
        self._in_line = False  # something stands after the last ending
        self._line, self._column = line, column
        self._left: int | None = column - 1 if line == 1 else None  # characters to go, once in the line

    @property
    def sha256(self) -> str:
        """The hash of all bytes so far."""
        return self._hash.hexdigest()

    @property
    def ended(self) -> int:
        """How many lines have ended so far."""
        return self._lf + self._crlf + self._cr

    @property
    def total_lines(self) -> int:
        """How many lines there are, a last one without an ending included."""
        return self.ended + self._in_line

    @property
    def eol(self) -> str:
        """The endings by name."""
        return eol_name(self._lf, self._crlf, self._cr)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes; BAD_ENCODING where they do not fit."""
        self._hash.update(chunk)
        data = chunk[max(0, len(self.bom) - self.bytes) :]
        skipped = len(chunk) - len(data)
        base = self.bytes + skipped - len(self._decoder.getstate()[0])
        self.bytes += len(chunk)
        self._take(self._decoded(data, base, final=False), base)

    def finish(self) -> None:
        """Take the end of the file."""
        base = self.bytes - len(self._decoder.getstate()[0])
        self._take(self._decoded(b"", base, final=True), base, last=True)

    def _decoded(self, data: bytes, base: int, *, final: bool) -> str:
        try:
            return self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise bad_encoding(error, self.encoding, base + error.start, self._shown) from None

    def _take(self, piece: str, base: int, *, last: bool = False) -> None:
        text = self._carry + piece
        base -= self._width * len(self._carry)
        self._carry = "\r" if text.endswith("\r") and not last else ""
        text = text.removesuffix(self._carry) if self._carry else text
        self._taken = self.bytes - len(self._decoder.getstate()[0]) - self._width * len(self._carry)
        if not text and not last:
            return
        pairs = text.count("\r\n") if "\r" in text else 0
        lf, cr = text.count("\n") - pairs, (text.count("\r") if "\r" in text else 0) - pairs
        if self.position is None and self.line_chars is None and self._line - 1 <= self.ended + lf + cr + pairs:
            self._seek(text, base, last)
        self._lf, self._cr, self._crlf = self._lf + lf, self._cr + cr, self._crlf + pairs
        if text:
            self._note_last_line(text, base)

    def _note_last_line(self, text: str, base: int) -> None:
        if not self._in_line:
            self.last_line_at = base
        ending = len(ending_of(text))
        start = max(text.rfind("\n", 0, len(text) - ending), text.rfind("\r", 0, len(text) - ending)) + 1
        if start:
            self.last_line_at = self._taken - len(text[start:].encode(self.encoding))
        self._in_line = not ending

    def _seek(self, text: str, base: int, last: bool) -> None:
        start = 0
        if self._left is None:
            ending = next(islice(_ENDING.finditer(text), self._line - 2 - self.ended, None), None)
            if ending is None:
                return
            start, self._left = ending.end(), self._column - 1
        stop = _ENDING.search(text, start)
        here = (stop.start() if stop else len(text)) - start
        if self._left < here or (self._column == 1 and (stop or last)):
            self.position = base + len(text[: start + self._left].encode(self.encoding))
        elif stop or last:
            self.line_chars = self._column - 1 - self._left + here
        else:
            self._left -= here
