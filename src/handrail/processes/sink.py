"""One stream of a program as it comes: counted, decoded, redacted, its ends kept, the whole kept apart."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Iterator

from handrail.errors import Problem
from handrail.output.redact import MARK, Redactor
from handrail.ports import Captured, Spill, Spool
from handrail.processes.text import Kept, Room, plain, show
from handrail.words import Ref, noun

_LAST_CHARS = 2000  # in which the last line is looked for
_Decoder = getincrementaldecoder("utf-8")
_WITHIN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # what a terminal would not show


@noun
class Written:
    """How far a program is that still runs: what it wrote, and the last whole line of it, redacted."""

    bytes: int
    lines: int
    last: str


class Decoded:
    """Bytes to text; what is not UTF-8 is replaced, and remembered to be so."""

    __slots__ = ("_decoder", "strict")

    def __init__(self) -> None:
        self._decoder = _Decoder("strict")
        self.strict = True

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Give the text that is whole by now."""
        try:
            return self._decoder.decode(data, final)
        except UnicodeDecodeError:
            self.strict = False
            self._decoder.errors = "replace"
            return self._decoder.decode(data, final)


class Hidden:
    """Hides the secrets of a stream, also those that show only once control sequences within them are gone."""

    __slots__ = ("_redactor", "_stream")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._stream = redactor, redactor.stream()

    def feed(self, text: str) -> str:
        """Take more text; give what can be shown by now."""
        return self._bare(self._stream.feed(text))

    def flush(self) -> str:
        """Give what is not settled, too; what comes later is still seen together with it."""
        return self._bare(self._stream.flush())

    def finish(self) -> str:
        """Give the rest."""
        return self._bare(self._stream.finish())

    def _bare(self, text: str) -> str:
        if _WITHIN.search(text) is None:
            return text
        return "".join([f"{self._line(line)}{end}" for line, end in _lines(text)])

    def _line(self, line: str) -> str:
        """A line as it came; without its sequences where a secret is then to be seen in it, and that hidden."""
        bare = plain(line)
        return line if bare == line or self._redactor.clean(bare) else self._redactor.text(bare)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    *whole, last = text.split("\n")
    yield from ((line, "\n") for line in whole)
    yield last, ""


class Sink:
    """Takes a stream's bytes; `finish` ends it and `captured` tells what is shown. Memory stays bounded."""

    __slots__ = (
        "_decoded", "_dropped", "_ends", "_head", "_head_left", "_hidden", "_keep", "_kept", "_last", "_lost", "_name",
        "_ref", "_secrets", "_spill", "_spool", "_tail", "_tail_size", "_text_bytes", "raw", "warnings",
    )  # fmt: skip

    def __init__(self, redactor: Redactor, spill: Spill, name: str, keep: int) -> None:
        """Keep `keep` characters of each end in memory."""
        self._decoded, self._secrets = Decoded(), Hidden(redactor)
        self._spill, self._name, self._keep = spill, name, keep
        self._head: list[str] = []
        self._head_left = keep
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._dropped = False
        self._lost = False  # the whole could not be kept
        self._hidden = False
        self._ends = 0
        self._last = ""
        self._text_bytes = 0
        self._spool: Spool | None = None
        self._kept: Kept | None = None
        self._ref: Ref | None = None
        self.raw = 0
        self.warnings: list[str] = []

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self.raw += len(data)
        self._take(self._secrets.feed(self._decoded.feed(data)))

    def finish(self) -> Kept:
        """Take the end of the stream; afterwards only `captured` is of use."""
        if self._kept is None:
            self._take(self._secrets.feed(self._decoded.feed(b"", final=True)) + self._secrets.finish())
            if not self._decoded.strict:
                self.warnings.append(f"{self._name} is not all UTF-8; what is not is shown as \ufffd")
            lines = self._ends + (self._last not in ("", "\n"))
            head, tail = "".join(self._head), "".join(self._tail)
            if not self._dropped:
                head, tail = head + tail, ""
            self._kept = Kept(head, tail[-self._keep :], self._text_bytes, lines, whole=not self._dropped)
            self._ref = self._spooled()
        return self._kept

    def captured(self, room: Room, head_share: float, *, keep: bool = False) -> Captured:
        """Tell what is shown of the stream within a room; the whole is kept where that is not all, or with `keep`."""
        kept = self.finish()
        if kept.whole and self._ref is None and not self._lost and (keep or not _fits(kept, room)):
            self._open()
            self._write(kept.head)
            self._ref = self._spooled()
        shown = show(kept, room, self._ref.ref if self._ref else "(not kept)", head_share)
        by_lines = shown.cut and kept.lines > room.max_lines and kept.bytes <= room.max_bytes
        return Captured(shown.text, self.raw, kept.lines, shown.cut, self._ref, self._hidden, by_lines)

    def written(self) -> Written:
        """Tell how far the stream is; from any thread, while it is fed in another."""
        recent = list(self._tail) or self._head
        text, count = "", len(recent)
        while count and len(text) < _LAST_CHARS:
            count -= 1
            text = recent[count][-_LAST_CHARS:] + text
        lines = [line for line in plain(text).split("\n") if line.strip()]
        return Written(self.raw, self._ends, lines[-1] if lines else "")

    def discard(self) -> None:
        """Forget what was kept apart: nobody will be told of it."""
        if self._spool is not None:
            self._spool.discard()
            self._spool = None

    def _take(self, text: str) -> None:
        if not text:
            return
        self._hidden = self._hidden or MARK in text
        self._last = text[-1]
        self._ends += text.count("\n")
        self._text_bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._head_left:
            part, text = text[: self._head_left], text[self._head_left :]
            self._head.append(part)
            self._head_left -= len(part)
            if not text:
                return
        if not self._tail:
            self._open()
            for part in self._head:
                self._write(part)
        self._write(text)
        self._tail.append(text)
        self._tail_size += len(text)
        while self._tail_size - len(self._tail[0]) >= self._keep:
            self._tail_size -= len(self._tail.popleft())
            self._dropped = True

    def _open(self) -> None:
        try:
            self._spool = self._spill.stream(self._name)
        except Problem as problem:
            self._lost = True
            self.warnings.append(problem.message)

    def _write(self, text: str) -> None:
        """Keep text apart; a full disk does not end the program, but is told."""
        if self._spool is None:
            return
        try:
            self._spool.write(text)
        except OSError as error:
            self._lost = True
            self.warnings.append(f"{self._name} is not kept whole ({error.strerror})")
            self.discard()

    def _spooled(self) -> Ref | None:
        spool, self._spool = self._spool, None
        if spool is None:
            return None
        try:
            return spool.finish()
        except OSError as error:
            self.warnings.append(f"{self._name} is not kept whole ({error.strerror})")
            spool.discard()
            return None


def _fits(kept: Kept, room: Room) -> bool:
    """Whether the shown text is the whole text, as it came."""
    shown = show(kept, room, "", 0.5)
    return not shown.cut and plain(kept.head) == kept.head
