"""Bodies as they come in: decompressed with a bound, counted, refused where they grow too large."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from handrail.errors import Code, Problem

PIECE, BIT = 256 * 1024, 16 * 1024
# More than this is no text that somebody packed; deflate itself ends at about 1030.
MAX_RATIO, RATIO_FROM = 200, 1024 * 1024


class Cut(Exception):
    """A packed body ends too early, or is not packed as it says."""


class Packed:
    """A gzip or deflate body, unpacked piece by piece."""

    def __init__(self, coding: str) -> None:
        self._bits = 31 if coding == "gzip" else 15
        self._unpacker = zlib.decompressobj(self._bits)
        self._packed = self._unpacked = 0
        self._over = False  # what follows the end is let go, and not gathered
        self._raw_tried = coding == "gzip"

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Unpack what came; each piece is small however much it grows."""
        # A bit at a time: what is left after each member is copied, and a body may be made of nothing but tiny ones.
        for start in range(0, len(data), BIT):
            yield from self._some(data[start : start + BIT])

    def _some(self, data: bytes) -> Iterator[bytes]:
        self._packed += len(data)
        while data and not self._over:
            try:
                piece = self._unpacker.decompress(data, PIECE)
            except zlib.error as error:
                if self._raw_tried or self._unpacked:
                    raise Cut(f"it is not packed as it says ({error})") from None
                self._raw_tried, self._unpacker = True, zlib.decompressobj(-15)
                continue
            self._unpacked += len(piece)
            if self._unpacked > RATIO_FROM and self._unpacked > MAX_RATIO * self._packed:
                raise too_large(f"it unpacks to more than {MAX_RATIO} times its size")
            if piece:
                yield piece
            data = self._unpacker.unconsumed_tail
            if self._unpacker.eof and (data := self._unpacker.unused_data):
                if self._bits != 31 or not data.strip(b"\0"):
                    self._over = True
                    return
                self._unpacker = zlib.decompressobj(self._bits)  # a second member of the same file

    def finish(self) -> None:
        """Refuse a body that ends in the middle."""
        if self._packed and not self._unpacker.eof:
            raise Cut("it ends in the middle")


class Plain:
    """A body that is not packed."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Hand on what came."""
        yield data

    def finish(self) -> None:
        """The transport has counted it."""


def unpacking(coding: str) -> Packed | Plain:
    """Choose by Content-Encoding; UPSTREAM_ERROR for one that was not asked for."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return Plain()
    if coding in ("gzip", "x-gzip", "deflate"):
        return Packed("gzip" if coding.endswith("gzip") else "deflate")
    named = f"as {coding!r}" if coding in ("br", "zstd", "compress") else "in another way"
    raise Problem(Code.UPSTREAM_ERROR, f"The body is packed {named}, which was not asked for.")


def whole_characters(data: bytes) -> int:
    """Count the bytes up to the last whole character, as far as this is UTF-8."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
    return len(data)


def too_large(why: str, **details: Any) -> Problem:
    """The problem of a body over its bound."""
    return Problem(Code.HTTP_TOO_LARGE, f"The response is too large: {why}.", **details)
