"""What a person would see of a program's output: no control sequences, progress collapsed, head and tail. Pure."""

from __future__ import annotations

import json
import re

from handrail.words import noun

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor moves
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"  # all others
    r"|\x9b[0-?]*[ -/]*[@-~]?"
)
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_NOTICE = 400  # bytes that the line between head and tail may take
_LEAST_LINE = 80


@noun
class Room:
    """How much of a stream is shown."""

    max_lines: int
    max_bytes: int
    max_line_chars: int = 2000


@noun
class Kept:
    """What was kept in memory of a redacted stream: the whole as `head`, or its two ends."""

    head: str
    tail: str = ""
    bytes: int = 0  # of the whole
    lines: int = 0  # of the whole
    whole: bool = True


@noun
class Shown:
    """What is shown of a stream; `cut`: lines or parts of lines are missing."""

    text: str
    cut: bool


def legible(name: str) -> str:
    """A file name that cannot be taken for anything else: one line, all of it to be seen, valid text."""
    return _ODD.sub(_escaped, name) if not name.isascii() or not name.isprintable() else name


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    # A byte that is no UTF-8 stands as a lone surrogate.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def plain(text: str) -> str:
    """Give a text as a terminal would leave it: sequences gone, overwritten progress collapsed to its last state."""
    if "\x1b" in text or "\x9b" in text:
        text = _SEQUENCE.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = _collapsed(text.replace("\r\n", "\n"))
    return _CONTROL.sub("", text)


def _collapsed(text: str) -> str:
    """Keep of each line what stands after its last carriage return, unless that is nothing."""
    return "\n".join([line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")])


def size_of(kept: Kept, room: Room) -> int:
    """How many bytes would be shown of a stream if nothing else needed room."""
    return min(room.max_bytes, kept.bytes + 1)


def show(kept: Kept, room: Room, ref: str, head_share: float) -> Shown:
    """Show a stream within its room; where that is not all, `ref` names the whole and a line says how to fetch it."""
    head, short = _lines(plain(kept.head), room.max_line_chars)
    if kept.whole:
        text = "".join(head)
        if len(head) <= room.max_lines and _bytes(text) <= room.max_bytes:
            return Shown(text, short)
        tail = head
    else:
        tail, _ = _lines(plain(_from_line_start(kept.tail)), room.max_line_chars, keep_end=True)
    return Shown(_two_ends(kept, head, tail, room, ref, head_share), cut=True)


def _lines(text: str, most: int, *, keep_end: bool = False) -> tuple[list[str], bool]:
    """Split into lines as they are shown, and say whether one had to be shortened."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    if max(map(len, lines), default=0) <= most:
        return lines, False
    return [_shortened(line, most, keep_end) for line in lines], True


def _shortened(line: str, most: int, keep_end: bool) -> str:
    end = "\n" if line.endswith("\n") else ""
    body = line.removesuffix("\n")
    if len(body) <= most:
        return line
    room = max(_LEAST_LINE, most - 60)
    first, last = (0, room) if keep_end and not end else (room * 3 // 4, room // 4)
    return f"{body[:first]} … [{len(body) - first - last} characters not shown] … {body[len(body) - last :]}{end}"


def _from_line_start(text: str) -> str:
    """Leave out what is left of a line whose start was dropped, where whole lines or a redrawn one follow."""
    first, newline, rest = text.partition("\n")
    if "\r" in first.rstrip("\r"):
        return text
    return rest if newline and rest else text


def _two_ends(kept: Kept, head: list[str], tail: list[str], room: Room, ref: str, head_share: float) -> str:
    lines, size = room.max_lines - 1, room.max_bytes - _NOTICE
    first, used = _fitting(head, int(lines * head_share), int(size * head_share))
    rest = tail[first:] if kept.whole else tail
    last, _ = _fitting(rest[::-1], lines - first, size - used)
    shown_head, shown_tail = "".join(head[:first]), "".join(rest[len(rest) - last :]) if last else ""
    if shown_head and not shown_head.endswith("\n"):
        shown_head += "\n"
    return f"{shown_head}{_notice(kept, head, first, last, ref)}\n{shown_tail}"


def _fitting(lines: list[str], most: int, room: int) -> tuple[int, int]:
    """How many lines fit, and their bytes."""
    used = 0
    for count, line in enumerate(lines[:most]):
        size = _bytes(line)
        if used + size > room:
            return count, used
        used += size
    return min(len(lines), max(most, 0)), used


def _notice(kept: Kept, head: list[str], first: int, last: int, ref: str) -> str:
    """Say what is missing and how to fetch it; lines are counted as read_file counts them."""
    broken = first == len(head) and not kept.head.endswith("\n")  # the head ends within a line
    if broken:
        fetch: dict[str, object] = {"path": ref, "byte_offset": _bytes(kept.head)}
        what = f"{kept.bytes} bytes in {kept.lines} lines, the middle is not shown"
    else:
        fetch = {"path": ref, "offset": _line_ends(kept.head, first) + 1}
        what = f"{kept.lines - first - last} of {kept.lines} lines not shown"
    return f"[{what}; the rest: read_file {json.dumps(fetch)}]"


def _line_ends(text: str, lines: int) -> int:
    r"""How many lines end in the first so many \n-lines, a lone \r ending one, too."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at) + 1 or len(text)
    part = text[:at]
    return part.count("\n") + part.count("\r") - part.count("\r\n")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
