"""Lines of a journal and the chain between them: reading and checking, never writing.

A line names the hash of the line before it. Torn is what a crash leaves: a last line that has no newline or cannot
be parsed, or a hole of zero bytes where a page never reached the disk, with all that follows it. Anything else that
does not fit is tampering.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from handrail.ports import Progress
from handrail.store.private import SAFE
from handrail.words import noun

EVENTS = "events.jsonl"
GENESIS = "0" * 64
CHUNK = 1 << 20
MAX_LINE_BYTES = 64 << 20  # no event comes near; a longer one is not read into memory

Visit = Callable[[dict[str, Any], str], None]  # an event that fits, and the hash of its line


@noun
class Mark:
    """A place in the chain: right behind a whole line."""

    seq: int = 0
    head: str = GENESIS
    offset: int = 0

    @property
    def text(self) -> str:
        """Write it as it is kept elsewhere."""
        return f"{self.seq}:{self.head}"


@noun
class Break:
    """Why the chain cannot be followed beyond a mark."""

    torn: bool  # a crash explains it; False: somebody changed the file
    reason: str
    bytes: int  # from the mark to the end of the file


def open_events(folder: Path) -> int:
    """Open a journal to read it."""
    return os.open(folder / EVENTS, os.O_RDONLY | SAFE)


def batches(fd: int, offset: int, until: int | None = None) -> Iterator[tuple[list[bytes], bytes]]:
    """Give whole lines, many at a time, each time with the bytes of the line that is not yet whole."""
    rest = b""
    while chunk := os.pread(fd, CHUNK if until is None else min(CHUNK, until - offset), offset):
        offset += len(chunk)
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield lines, rest
        if len(rest) > MAX_LINE_BYTES:
            return


def walk(
    fd: int,
    mark: Mark,
    run_id: str | None,
    visit: Visit | None = None,
    progress: Progress | None = None,
    until: int | None = None,
) -> tuple[Mark, Break | None]:
    """Follow the chain from a mark as far as it holds; give that place, and what stands against going on."""
    seq, head, offset = mark.seq, mark.head, mark.offset
    total = os.fstat(fd).st_size
    left = b""
    loads = orjson.loads
    for lines, rest in batches(fd, offset, until):
        left = rest
        for line in lines:
            try:
                event = loads(line)
            except ValueError:
                return Mark(seq, head, offset), _unreadable(fd, line, offset)
            if reason := _misfit(event, seq + 1, head, run_id):
                size = os.fstat(fd).st_size
                return Mark(seq, head, offset), Break(False, reason, size - offset)
            run_id = event["run_id"]
            head = sha256(line).hexdigest()
            seq += 1
            offset += len(line) + 1
            if visit is not None:
                visit(event, head)
        if progress is not None:
            progress(offset, total)
    return Mark(seq, head, offset), _unreadable(fd, left, offset) if left else None


def _misfit(event: Any, seq: int, head: str, run_id: str | None) -> str:
    if not isinstance(event, dict):
        return f"line {seq} is not an event"
    if event.get("prev") != head:
        return f"line {seq} does not follow the line before it"
    if event.get("seq") != seq:
        return f"line {seq} calls itself {event.get('seq')!r}"
    if event.get("run_id") != (run_id or event.get("run_id")) or not isinstance(event.get("run_id"), str):
        return f"line {seq} belongs to the run {event.get('run_id')!r}"
    return ""


def _unreadable(fd: int, line: bytes, offset: int) -> Break:
    size = os.fstat(fd).st_size
    if offset + len(line) >= size:
        return Break(True, "the last line has no end", size - offset)
    if offset + len(line) + 1 == size:
        return Break(True, "the last line cannot be parsed", size - offset)
    # JSON never holds a zero byte: a page that was not written before the power went.
    if b"\0" in line:
        return Break(True, "a part of the file was never written", size - offset)
    return Break(False, "a line cannot be parsed and others follow it", size - offset)


def line_before(fd: int, offset: int) -> bytes | None:
    """Give the line that ends at an offset, without its newline; None where no line ends."""
    if offset <= 0 or os.pread(fd, 1, offset - 1) != b"\n":
        return None
    start, found = offset - 1, b""
    while start > 0 and len(found) <= MAX_LINE_BYTES:
        step = min(start, 1 << 16)
        start -= step
        block = os.pread(fd, step, start)
        cut = block.rfind(b"\n")
        if cut >= 0:
            return block[cut + 1 :] + found
        found = block + found
    return found


def first_whole(fd: int) -> bytes | None:
    """Give the first line that has a newline; None when there is none."""
    found = b""
    while len(found) <= MAX_LINE_BYTES and (block := os.pread(fd, 1 << 16, len(found))):
        found += block
        if b"\n" in block:
            return found[: found.index(b"\n")]
    return None


def last_whole(fd: int) -> bytes | None:
    """Give the last line that has a newline; None when there is none."""
    end = os.fstat(fd).st_size
    while end > 0:
        step = min(end, 1 << 16)
        cut = os.pread(fd, step, end - step).rfind(b"\n")
        if cut >= 0:
            return line_before(fd, end - step + cut + 1)
        end -= step
    return None


def mark_at(fd: int, offset: int) -> Mark:
    """Give the mark right behind the line that ends at an offset; the beginning where none does."""
    line = line_before(fd, offset)
    return Mark() if line is None else Mark(seq_of(line), sha256(line).hexdigest(), offset)


def seq_of(line: bytes) -> int:
    """Read a line's number; -1, which fits nowhere, when it has none."""
    try:
        seq = orjson.loads(line)["seq"]
    except (ValueError, KeyError, TypeError):
        return -1
    return seq if isinstance(seq, int) else -1
