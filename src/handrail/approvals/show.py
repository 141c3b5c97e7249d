"""A request as a person reads it: whole, in lines, with nothing in it that a terminal would obey. Pure.

Text from the call stands behind a gutter on every line, folded lines too, so that none of it can pass for ours.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from handrail.approvals import emoji
from handrail.policy.grants import BY_PATTERN, EXACT
from handrail.ports import Request
from handrail.words import Risk

if TYPE_CHECKING:
    from rich.text import Text

GUTTER = "  │ "
FOLDED = "  ┊ "  # the line above goes on
TEXT = "┃ "  # a line of a text that is an argument
_MAX_INDENT = 12
_FEW = 4  # targets that are listed one a line
_PLAIN = re.compile(r"[A-Za-z0-9_@+~./-]+")  # names that nothing can be hidden between
_ENDED_WELL = "exit code 0"
_MIN_ROOM = 2  # one wide character
_MAX_MARKS = 3  # combining marks on one letter; more would paint over the lines around it
# Drawn as nothing although they count as letters, marks or symbols: those that Unicode says to ignore where they are
# not known (Default_Ignorable_Code_Point), and the empty Braille pattern.
_IGNORED = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
_BLANK = frozenset("\u2800") | {chr(code) for first, last in _IGNORED for code in range(first, last + 1)}
_OF_EMOJI = frozenset((emoji.EMOJI_STYLE, emoji.JOINER))
_ESCAPED = r"<U\+[0-9A-F]{4,6}>"
RISK_STYLE = {Risk.LOW: "green", Risk.MEDIUM: "yellow", Risk.HIGH: "bold red"}
_DIFF_STYLE = {"+++": "bold", "---": "bold", "@@ ": "cyan", "+": "green", "-": "red"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line on the screen: what stands before the text, the text, how it looks (a style of rich)."""

    before: str
    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a card says besides the request: its place among those that wait, and who asks."""

    queue: str = ""  # such as "2 of 4"
    gone: bool = False  # the program that asked has ended
    home: str = ""  # of the person: paths below it are shortened


def visible(text: str) -> str:
    """Write out whatever a terminal would obey, hide or reorder: `<U+001B>` for an escape. Emoji stay whole."""
    if text.isascii() and text.isprintable():
        return text
    marks = 0
    shown = []
    for place, char in enumerate(text):
        marks = marks + 1 if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me") else 0
        if char == "\t":
            shown.append("→   ")
        elif _is_seen(char, marks) or (char in _OF_EMOJI and emoji.belongs(text, place)):
            shown.append(char)
        else:
            shown.append(f"<U+{ord(char):04X}>")
    return "".join(shown)


def _is_seen(char: str, marks: int) -> bool:
    return char.isprintable() and char not in _BLANK and marks <= _MAX_MARKS


def lines(request: Request, now: float, width: int | None = None, digest: str = "") -> list[Line]:
    """Show a request in full; no line is wider than `width`, and nothing is cut.

    `digest` is shown in place of the call's own: the one that must be given to grant it without a terminal.
    """
    return [*_head(request, now, width, digest or request.digest[:16]), *_body(request, width)]


def coverage(request: Request, width: int | None = None) -> list[Line]:
    """Show exactly what a grant wider than this call covers: the tool, the kinds of touch, the targets."""
    covered = [ShownText(text) for text in covered_by(request.tool, request.touches)]
    return list(put_behind_gutter(covered, width))


def covered_by(tool: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Say what the pairs of a grant cover, one text each."""
    kinds: dict[str, list[str]] = {}
    given = list(pairs)
    hosts = any(kind.startswith("net.connect") for kind, _ in given)
    for kind, target in given:
        if not (hosts and kind == EXACT):  # the line is named with its host
            kinds.setdefault(target, []).append(kind.removesuffix(BY_PATTERN))
    return [visible(f"{tool}: {_covered(of_target, target)}") for target, of_target in kinds.items()]


def _covered(kinds: Sequence[str], target: str) -> str:
    if EXACT in kinds:
        return "exactly this line with these arguments, as long as the files that it runs stay as they are"
    named = " and ".join(kinds)
    return f"{named} of any target, with any arguments (**)" if target == "**" else f"{named} {target}"


def plain(shown: Iterable[Line]) -> str:
    """Write lines as text without any colour."""
    return "".join(f"{line.before}{line.text}\n" for line in shown)


def styled(shown: Iterable[Line]) -> Text:
    """Write lines as one text for rich to print with `soft_wrap`."""
    from rich.text import Text

    text = Text()
    for line in shown:
        text.append(line.before, "dim" if line.before in (GUTTER, FOLDED) else "")
        text.append(line.text + "\n", line.style)
    text.highlight_regex(_ESCAPED, "reverse red")
    return text


# ── parts ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text that is ready to be shown, before it is folded to lines."""

    text: str
    style: str = ""


def _head(request: Request, now: float, width: int | None, digest: str) -> Iterator[Line]:
    yield Line("", f"Approval {visible(request.id)}", "bold")
    facts = (
        ("tool", f"{request.tool} {request.version}, {request.risk.value} risk", RISK_STYLE[request.risk]),
        ("why", f"{request.reason}  ({request.rule})" if request.rule else request.reason, ""),
        ("asked by", f"{request.caller}, run {request.run_id}, in {request.workspace}", ""),
        ("digest", digest, ""),
        ("expires", _expiry(request.expires, now), ""),
    )
    for name, value, style in facts:
        yield from _fact(name, value, style, width)


def _fact(name: str, value: str, style: str, width: int | None) -> Iterator[Line]:
    yield from fold_text(f"  {name:<9}", " " * 9 + "┊ ", ShownText(visible(value), style), width)


def _body(request: Request, width: int | None) -> Iterator[Line]:
    sections: list[tuple[str, Iterable[ShownText]]] = [("arguments", list_values(request.params, 0))]
    sections += [
        (kind, [ShownText(visible(target)) for target in targets])
        for kind, targets in request.impact.items()
        if targets
    ]
    if request.diff:
        sections.append(("changes", list_diff(request.diff)))
    for name, items in sections:
        yield Line("", f"  {visible(name)}", "bold")
        yield from put_behind_gutter(items, width)


def list_values(value: Any, level: int, name: str = "") -> Iterator[ShownText]:
    """Write a JSON value as an outline; a text of several lines keeps them, each behind a mark of its own."""
    indent = "  " * min(level, _MAX_INDENT)
    head = f"{indent}{name}: " if name else indent
    if isinstance(value, str) and "\n" in value:
        yield ShownText(f"{head}{_size_of(value)}")
        text = value.removesuffix("\n")
        yield from (ShownText(f"{indent}  {TEXT}{visible(line)}") for line in text.split("\n"))
    elif isinstance(value, (Mapping, Sequence)) and value and not isinstance(value, str):
        children = value.items() if isinstance(value, Mapping) else enumerate(value)
        if name:
            yield ShownText(head.rstrip())
        for key, child in children:
            yield from list_values(child, level + bool(name), _name_of(key))
    else:
        yield ShownText(head + visible(json.dumps(value, ensure_ascii=False, default=repr)))


def _name_of(key: Any) -> str:
    text = str(key)
    return (
        text if text.isidentifier() and text.isascii() else visible(json.dumps(key, ensure_ascii=False, default=repr))
    )


def _size_of(text: str) -> str:
    count = text.count("\n") + (not text.endswith("\n"))
    end = "" if text.endswith("\n") else ", no newline at the end"
    return f"text of {count} line{'' if count == 1 else 's'}, {len(text)} characters{end}"


def list_diff(diff: str) -> Iterator[ShownText]:
    """Write a diff line by line, in its colours."""
    for line in diff.removesuffix("\n").split("\n"):
        yield mark_change(line)


def mark_change(line: str) -> ShownText:
    """Write one line of a diff in its colour."""
    style = next((style for mark, style in _DIFF_STYLE.items() if line.startswith(mark)), "")
    return ShownText(visible(line), style)


def _expiry(expires: float, now: float) -> str:
    left = round(expires - now)
    at = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"at {at}, in {left // 60} min {left % 60} s" if left > 0 else f"at {at}, which is past"


# ── folding ──────────────────────────────────────────────────────────────────────────────────


def put_behind_gutter(items: Iterable[ShownText], width: int | None) -> Iterator[Line]:
    """Put texts of a call behind the gutter, folded to a width."""
    for item in items:
        yield from fold_text(GUTTER, FOLDED, item, width)


def fold_text(first: str, further: str, item: ShownText, width: int | None) -> Iterator[Line]:
    """Fold one text to lines; `first` and `further` are what the first line and the others begin with."""
    pieces = [item.text] if width is None else _fold(item.text, max(_MIN_ROOM, width - max(len(first), len(further))))
    for number, piece in enumerate(pieces):
        yield Line(first if number == 0 else further, piece, item.style)


def _fold(text: str, room: int) -> list[str]:
    if text.isascii():
        return [text[start : start + room] for start in range(0, len(text), room)] or [""]
    pieces, start, used = [], 0, 0
    for place, char in enumerate(text):
        cells = _cells(char)
        if used + cells > room:
            pieces.append(text[start:place])
            start, used = place, 0
        used += cells
    return [*pieces, text[start:]]


def count_cells(text: str) -> int:
    """Count the columns that a text takes at most."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    # Where terminals differ the wider reading counts: a line that the terminal itself wraps would lose its gutter.
    wide = unicodedata.east_asian_width(char) in ("W", "F", "A") or unicodedata.category(char) == "So"
    return 2 if wide or char > "\uffff" else 1
