"""What changed between two texts, as a unified diff that stays readable and small. Pure."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from handrail.output.patterns import MARK
from handrail.ports import Limits, Secrets
from handrail.tools.fs._excerpt import CONTEXT
from handrail.tools.fs._text import body_of, ending_of, lines_of

_AROUND = 3  # lines of context
_MOST_STEPS = 5_000_000
_TELLING = 4  # characters of a hidden value that are looked for elsewhere
_SOUGHT = 200_000  # lines times values that are looked for in them
_COMPARED = 250_000  # pairs of lines that are compared one by one
_COMPARED_ALL = 4 * _COMPARED  # in all the places of one diff
_ENDINGS = {"\r\n": "\r", "\r": "␍", "\n": "", "": ""}

Block = tuple[int, int, int, int]  # lines a:b of one text became lines c:d of the other


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two texts: its name in the diff (None: the file is not there) and its lines."""

    name: str | None
    lines: list[str]
    first: int = 0  # lines before these, which are the same on both sides


def diff_texts(before: str | None, after: str | None, name: str, secrets: Secrets, limits: Limits) -> str:
    """Show what changes from one text to another; None stands for a file that is not there."""
    quick = diff_new(secrets.excerpt("", after, ""), name, limits) if before is None and after else None
    return quick if quick is not None else diff_compared(before, after, name, secrets, limits)


def diff_new(text: str, name: str, limits: Limits) -> str | None:
    """The diff of a new file, its secrets hidden, made in one piece; None where it is not that simple."""
    body = text[:-1] if text[-1:] == "\n" else text
    lines = body.split("\n")
    missing = "\\ No newline at end of file\n" if body is text else ""
    most_chars = max(len(name) + len("+++ b/"), max(map(len, lines)) + len(missing) + 1)
    most_bytes = 4 * (len(text) + len(name)) + 2 * len(lines) + 200
    if "\r" in text or most_chars > _line_chars(limits) or most_bytes > _room(name, limits):
        return None
    if len(lines) + 3 > _most(limits):
        return None
    plus = "\n+".join(lines)
    return f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n+{plus}\n{missing}"


def diff_compared(before: str | None, after: str | None, name: str, secrets: Secrets, limits: Limits) -> str:
    """The diff of any two texts."""
    old, new = _windows(lines_of(before or ""), lines_of(after or ""), secrets)
    one = Side(None if before is None else name, old.lines, old.first)
    return _bounded(_written(one, Side(None if after is None else name, new.lines, new.first)), name, limits)


def _windows(old: list[str], new: list[str], secrets: Secrets) -> tuple[Side, Side]:
    """Keep what differs with some lines around it; hide what must be hidden, seen in the whole."""
    start = _same(old, new)
    end = _same(old[start:][::-1], new[start:][::-1])
    first, kept = max(0, start - _AROUND), max(0, end - _AROUND)
    was, values = _window(old, first, len(old) - kept, secrets)
    now, _ = _window(new, first, len(new) - kept, secrets)
    shown = lines_of(was)
    return Side("", shown, first), Side("", _still_hidden(lines_of(now), set(shown), values), first)


def _still_hidden(lines: list[str], standing: set[str], values: set[str]) -> list[str]:
    """Hide in lines that are new what was hidden before, where a change takes away what it was known by."""
    new = [number for number, line in enumerate(lines) if line not in standing]
    if not values or not new:
        return lines
    lines = list(lines)
    many = len(new) * len(values) > _SOUGHT
    longest = sorted(values, key=len, reverse=True)
    for number in new:
        if many:  # each value in each line would take too long: such lines are not shown at all
            lines[number] = MARK + ending_of(lines[number])
            continue
        for value in longest:
            if value in lines[number]:
                lines[number] = lines[number].replace(value, MARK)
    return lines


def _window(lines: list[str], first: int, last: int, secrets: Secrets) -> tuple[str, set[str]]:
    """Give lines as they may be shown, and the values that are hidden in and around them."""
    before, after = "".join(lines[max(0, first - CONTEXT) : first]), "".join(lines[last : last + CONTEXT])
    before, text, after = before[-CONTEXT:], "".join(lines[first:last]), after[:CONTEXT]
    shown = secrets.excerpt(before, text, after)
    if shown == text:
        return shown, set()
    whole = before + text + after
    hidden = "\n".join(whole[start:end] for start, end in secrets.spans(whole))
    # Line by line: of a key over several lines, each is known by what stands around it.
    return shown, {part for part in hidden.splitlines() if len(part) >= _TELLING}


def _same(one: list[str], other: list[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


# ── which lines changed ──────────────────────────────────────────────────────────────────────


def too_alike(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether so many lines of one stand so often in the other that comparing them would take the cube of them."""
    often = Counter(new)
    return sum(often[line] for line in old) * min(len(old), len(new)) > _MOST_STEPS


def changed_blocks(old: list[str], new: list[str]) -> list[Block]:
    """Find what changed, in time that does not run away on large texts."""
    blocks: list[Block] = []
    left = _COMPARED_ALL
    for a, b, c, d in _gaps(old, new):
        pairs = (b - a) * (d - c)
        left -= pairs if pairs <= _COMPARED else 0
        if pairs == 0 or pairs > _COMPARED or left < 0 or too_alike(old[a:b], new[c:d]):
            blocks += [(a, b, c, d)] if a != b or c != d else []
            continue
        codes = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False).get_opcodes()
        blocks += [(a + i, a + j, c + k, c + m) for tag, i, j, k, m in codes if tag != "equal"]
    return blocks


def _gaps(old: list[str], new: list[str]) -> Iterator[Block]:
    """Split both texts at lines that stand once in each, in the same order: what lies between may differ."""
    once_old = {line for line, count in Counter(old).items() if count == 1}
    places = {line: index for index, line in enumerate(new)}
    once = [line for line, count in Counter(new).items() if count == 1 and line in once_old]
    if len(once) == 0:
        yield 0, len(old), 0, len(new)
        return
    where = set(once)
    pairs = [(index, places[line]) for index, line in enumerate(old) if line in where]
    a = c = 0
    for i, j in [*_rising(pairs), (len(old), len(new))]:
        yield a, i, c, j
        a, c = i + 1, j + 1


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs that rise in both numbers."""
    tops: list[int] = []
    links: list[tuple[int, int]] = []  # index of a pair, index of the link before it
    ends: list[int] = []
    for index, (_, value) in enumerate(pairs):
        at = bisect_left(tops, value)
        tops[at : at + 1] = [value]
        links.append((index, ends[at - 1] if at else -1))
        ends[at : at + 1] = [len(links) - 1]
    chain, link = [], ends[-1] if ends else -1
    while link >= 0:
        index, link = links[link]
        chain.append(pairs[index])
    return chain[::-1]


# ── how it is written ────────────────────────────────────────────────────────────────────────


def _written(old: Side, new: Side) -> list[str]:
    blocks = changed_blocks(old.lines, new.lines)
    if not blocks:
        return []
    lines = [_header("---", "a", old.name), _header("+++", "b", new.name)]
    for group in _grouped(blocks):
        lines += _hunk(old, new, group)
    return lines


def _header(sign: str, side: str, name: str | None) -> str:
    return f"{sign} {side}/{name}" if name is not None else f"{sign} /dev/null"


def _grouped(blocks: list[Block]) -> Iterator[list[Block]]:
    group = [blocks[0]]
    for one, other in pairwise(blocks):
        if other[0] - one[1] > 2 * _AROUND:
            yield group
            group = []
        group.append(other)
    yield group


def _hunk(old: Side, new: Side, group: list[Block]) -> list[str]:
    (a, _, c, _), (_, b, _, d) = group[0], group[-1]
    lead, trail = min(_AROUND, a, c), min(_AROUND, len(old.lines) - b)
    a, c, b, d = a - lead, c - lead, b + trail, d + trail
    lines, at = [f"@@ -{_counted(old, a, b)} +{_counted(new, c, d)} @@"], a
    for i, j, k, m in group:
        lines += [_line(" ", line) for line in old.lines[at:i]]
        lines += [_line("-", line) for line in old.lines[i:j]] + [_line("+", line) for line in new.lines[k:m]]
        at = j
    return lines + [_line(" ", line) for line in old.lines[at:b]]


def _counted(side: Side, start: int, end: int) -> str:
    return f"{side.first + start + (1 if end > start else 0)},{end - start}"


def _line(sign: str, line: str) -> str:
    ending = ending_of(line)
    missing = "" if ending else "\n\\ No newline at end of file"
    return f"{sign}{body_of(line)}{_ENDINGS[ending]}{missing}"


def _bounded(lines: list[str], name: str, limits: Limits) -> str:
    """Cut at whole lines; the last one says what is left out."""
    most, room = _most(limits), _room(name, limits)
    shown: list[str] = []
    for line in lines:
        short = _short(line, _line_chars(limits))
        room -= len(short.encode()) + 1
        if room < 0 or len(shown) >= most:
            args = json.dumps({"path": name}, ensure_ascii=False)
            note = f"[{len(shown)} of {len(lines)} lines of this diff shown; read_file {args} shows the file as it is]"
            return "\n".join([*shown, note]) + "\n"
        shown.append(short)
    return "".join(f"{line}\n" for line in shown)


def _line_chars(limits: Limits) -> int:
    return limits.max_line_chars - 60


def _most(limits: Limits) -> int:
    return limits.max_output_lines - 20


def _room(name: str, limits: Limits) -> int:
    return limits.max_output_bytes - 2000 - 2 * len(name.encode())


def _short(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[:most]} … [{len(line) - most} more characters]"
