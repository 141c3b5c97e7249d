"""Lines that stand in a row, found in one pass however often their beginning repeats itself. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from handrail.tools.fs._effort import Effort

_FEW = 4  # places that are sought one by one; more of them are found in one pass
_LAST = 0x10FFFF  # different lines beyond this many share a character, and are looked at again


class Rows:
    """Lines as text, one character for each different line: what stands in a row is a word of it."""

    def __init__(self, lines: Sequence[Hashable]) -> None:
        self._lines = lines
        self._numbers: dict[Hashable, int] = {}
        for line in lines:
            self._numbers.setdefault(line, len(self._numbers))
        self._text = "".join([chr(min(self._numbers[line], _LAST)) for line in lines])

    def places(self, wanted: Sequence[Hashable], effort: Effort) -> list[int]:
        """Every place where the wanted lines stand in a row."""
        effort.spend(len(wanted))
        numbers = [self._numbers.get(line, -1) for line in wanted]
        if not numbers or min(numbers) < 0:
            return []
        effort.look_through(self._text)
        sought = "".join([chr(min(number, _LAST)) for number in numbers])
        found = list(islice(_one_by_one(self._text, sought), _FEW))
        if len(found) == _FEW:
            effort.spend(len(self._text) + len(sought))
            found = list(_in_one_pass(self._text, sought))
        if max(numbers) < _LAST:
            return found
        effort.spend(len(found) * len(wanted))
        return [at for at in found if list(self._lines[at : at + len(wanted)]) == list(wanted)]


def _one_by_one(text: str, sought: str) -> Iterator[int]:
    at = text.find(sought)
    while at >= 0:
        yield at
        at = text.find(sought, at + 1)


def _in_one_pass(text: str, sought: str) -> Iterator[int]:
    """Every place, those that overlap too; no character is looked at twice (Knuth, Morris and Pratt)."""
    back = [0] * len(sought)  # how much of the beginning ends here again
    same = 0
    for at in range(1, len(sought)):
        while same and sought[at] != sought[same]:
            same = back[same - 1]
        same += sought[at] == sought[same]
        back[at] = same
    same = 0
    for at, sign in enumerate(text):
        while same and (same == len(sought) or sign != sought[same]):
            same = back[same - 1]
        same += sign == sought[same]
        if same == len(sought):
            yield at + 1 - same


Shift = tuple[int, str, str]  # the line where they start, and how much deeper or shallower they stand there


class Indents:
    """Lines of which some are sought that stand deeper or shallower, all by the same."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    @cached_property
    def _keys(self) -> list[Hashable]:
        return _keys(self._lines)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self._keys)

    @cached_property
    def _bodies(self) -> Rows:
        return Rows([_body(line) for line in self._lines])

    @cached_property
    def _blanks(self) -> list[int]:
        """How many blank lines stand right before each line."""
        counts, count = [], 0
        for line in self._lines:
            counts.append(count)
            count = 0 if line.strip() else count + 1
        return counts

    def places(self, wanted: Sequence[str], effort: Effort) -> list[Shift]:
        """Find lines that differ from the wanted ones by the same indent in every line, and do differ."""
        effort.spend(len(wanted))
        anchor = next((index for index, line in enumerate(wanted) if line.strip()), None)
        if anchor is None:
            return []
        first, following = wanted[anchor], _keys(wanted[anchor:])[1:]
        if following:
            places = [at - 1 for at in self._rows.places(following, effort) if at > 0]
        else:
            places = self._bodies.places([_body(first)], effort)
        effort.spend(len(places))
        found = []
        for at in places:
            there = self._lines[at]
            deeper, shallower = _step(there, first) if _body(there) == _body(first) else ("", "")
            if (deeper or shallower) and self._blanks[at] >= anchor:
                found.append((at - anchor, deeper, shallower))
        return found


def _keys(lines: Sequence[str]) -> list[Hashable]:
    """What of each line is the same however deep all of them stand: its text, and its indent by the line before it.

    Blank lines are all alike and pass on the indent before them.
    """
    keys: list[Hashable] = []
    last = ""
    for line in lines:
        if not line.strip():
            keys.append(None)
            continue
        indent = _indent(line)
        same = 0 if indent != last else len(indent)
        while same < min(len(indent), len(last)) and indent[same] == last[same]:
            same += 1
        keys.append((line[len(indent) :], last[same:], indent[same:]))
        last = indent
    return keys


def _step(there: str, asked: str) -> tuple[str, str]:
    here, quoted = _indent(there), _indent(asked)
    if here.endswith(quoted):
        return here[: len(here) - len(quoted)], ""
    return ("", quoted[: len(quoted) - len(here)]) if quoted.endswith(here) else ("", "")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _body(line: str) -> str:
    return line.lstrip(" \t") if line.strip() else ""


def is_inside(spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether a place lies between the two ends of one of these spans, which are sorted and apart."""
    number = bisect_left(spans, (at, 0)) - 1
    return number >= 0 and at < spans[number][1]
