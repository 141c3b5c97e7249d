"""How text is found that is not quite as it was quoted: five steps, each labelled, none by similarity. Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from handrail.output.masking import marked
from handrail.tools.fs._effort import Effort
from handrail.tools.fs._rows import Indents, is_inside
from handrail.tools.fs._text import body_of, fold_endings, lines_of

Hidden = Callable[[], Sequence[tuple[int, int]]]  # what of a text is hidden: sorted spans, apart from each other

LEVELS = ("exact", "line_endings", "trailing_blanks", "typographic", "indent")

_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_SIGNS = {
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    "…": "...",
}
# Blanks are tried only where a run of them starts and never given back, so that long runs cost what they are long.
_TRAILING = r"\r\n?|(?<![{0}])[{0}]++(?=[\r\n]|\Z)"
_PATTERNS = {
    "line_endings": re.compile(r"\r\n?"),
    "trailing_blanks": re.compile(_TRAILING.format(" \t")),
    "typographic": re.compile(
        _TRAILING.format(f" \t{_SPACES}") + rf"|[{_SPACES}]|[{''.join(_SIGNS)}]|[^\s\u0300-\u036f][\u0300-\u036f]++"
    ),
}
MOST_PLACES = 100_000  # places of a text that are told apart


class Folded:
    """A text with one level's differences taken out, which knows where each of its characters came from."""

    __slots__ = ("_at", "_from", "_replaced", "bare_end", "text")

    def __init__(self, source: str, level: str) -> None:
        parts: list[str] = []
        self._at, self._from, self._replaced = [0], [0], [False]
        size = last = 0
        self.bare_end = False  # blanks at the very end were taken out
        for match in _PATTERNS[level].finditer(source):
            start, end = match.span()
            sign = _sign(match.group(), source[end : end + 1])
            if sign == match.group():
                continue
            self.bare_end = sign == "" and end == len(source)
            parts += (source[last:start], sign)
            size += start - last
            self._add(size, start, True)
            size += len(sign)
            self._add(size, end, False)
            last = end
        parts.append(source[last:])
        self.text = "".join(parts)
        self._add(len(self.text), len(source), True)

    def _add(self, at: int, source: int, replaced: bool) -> None:
        self._at.append(at)
        self._from.append(source)
        self._replaced.append(replaced)

    def origin(self, start: int, end: int) -> tuple[int, int] | None:
        """Give where a stretch came from; None where it takes a part of a sign that was written out."""
        first = bisect_right(self._at, start) - 1
        if self._replaced[first] and start != self._at[first]:
            return None
        last = bisect_right(self._at, end - 1) - 1
        if not self._replaced[last]:
            return self._from[first] + start - self._at[first], self._from[last] + end - self._at[last]
        if end != self._at[last + 1]:
            return None
        return self._from[first] + start - self._at[first], self._from[last + 1]


def _sign(found: str, following: str) -> str:
    """Write one difference the plain way."""
    if found[0] == "\r":
        return "\n"
    if found[0] in _SIGNS:
        return _SIGNS[found[0]]
    if found[0].isspace():
        return "" if following in ("", "\r", "\n") else " "
    return unicodedata.normalize("NFC", found)


def folded_line(body: str, level: str) -> str:
    """Write one line (without its ending) as a level compares it."""
    if level == "trailing_blanks":
        return body.rstrip(" \t")
    if level in ("typographic", "indent") and (not body.isascii() or body[-1:].isspace()):
        return Folded(body, "typographic").text
    return body


@dataclass(frozen=True, slots=True)
class Match:
    """Where a quoted text stands, by which level, and how much deeper or shallower it stands there."""

    start: int
    end: int
    level: str
    deeper: str = ""
    shallower: str = ""


class Original:
    """A text to search; each level's folding is made once.

    A place that begins or ends inside a hidden value is none: whoever can tell a part of it could tell the next.
    """

    def __init__(self, text: str, hidden: Hidden = lambda: (), effort: Effort | None = None) -> None:
        self.text = text
        self.effort = effort or Effort()
        self._hidden = hidden
        self._folded: dict[str, Folded] = {}

    @cached_property
    def hidden(self) -> Sequence[tuple[int, int]]:
        """What of the text is hidden."""
        return self._hidden()

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their endings."""
        return lines_of(self.text)

    @cached_property
    def starts(self) -> list[int]:
        """Where each line starts, and where the text ends."""
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def unified(self) -> str:
        r"""The text with every line ending written as \n."""
        return fold_endings(self.text)

    @cached_property
    def unified_hidden(self) -> Sequence[tuple[int, int]]:
        """What of the unified text is hidden."""
        if self.unified == self.text:
            return self.hidden
        spans, at, size = [], 0, 0
        for span in self.hidden:
            ends = []
            for place in span:
                size += len(fold_endings(self.text[at:place]))
                at = place
                ends.append(size)
            spans.append((ends[0], ends[1]))
        return spans

    @cached_property
    def shown(self) -> Original:
        """The text as it may be shown, line for line: what is said of it tells nothing of what is hidden."""
        if not self.hidden:
            return self
        return Original(marked(self.text, self.hidden), effort=self.effort)

    def line_at(self, position: int) -> int:
        """The number of the line that a character stands in."""
        return max(1, min(bisect_right(self.starts, position), len(self.lines)))

    def is_apart(self, start: int, end: int) -> bool:
        """Whether a stretch neither begins nor ends inside a hidden value."""
        return not is_inside(self.hidden, start) and not is_inside(self.hidden, end)

    def find(self, quoted: str) -> list[Match]:
        """Give every place of the first level that finds any."""
        found = [Match(at, at + len(quoted), "exact") for at in self._places(self.text, quoted)]
        found = self._seen([match for match in found if not self._splits_ending(match)])
        for level in LEVELS[1:4]:
            if found:
                return found
            found = self._seen(self._find_folded(quoted, level))
        return found or self._seen(self._find_indented(quoted))

    def _seen(self, found: list[Match]) -> list[Match]:
        return [match for match in found if self.is_apart(match.start, match.end)] if found and self.hidden else found

    def _places(self, text: str, sought: str) -> list[int]:
        self.effort.look_through(text)
        found = _places(text, sought)
        self.effort.spend(8 * len(found))
        return found

    def _splits_ending(self, match: Match) -> bool:
        return any(self.text[at - 1 : at + 1] == "\r\n" for at in (match.start, match.end) if at > 0)

    def _find_folded(self, quoted: str, level: str) -> list[Match]:
        here = self._folded.get(level) or self._folded.setdefault(level, Folded(self.text, level))
        self.effort.look_through(quoted)
        wanted = Folded(quoted, level)
        found = []
        for at in self._places(here.text, wanted.text):
            end = at + len(wanted.text)
            # Blanks taken off the end of the quoted text are only there if the line ends there.
            if wanted.bare_end and here.text[end : end + 1] not in ("", "\n"):
                continue
            span = here.origin(at, end)
            if span is not None:
                found.append(Match(*span, level))
        return found

    @cached_property
    def _indents(self) -> Indents:
        return Indents([folded_line(body_of(line), "typographic") for line in self.lines])

    def _find_indented(self, quoted: str) -> list[Match]:
        wanted = [folded_line(body_of(line), "typographic") for line in lines_of(quoted)]
        whole = quoted.endswith(("\n", "\r"))
        found = []
        for index, deeper, shallower in self._indents.places(wanted, self.effort):
            last = index + len(wanted) - 1
            end = self.starts[last] + len(self.lines[last] if whole else body_of(self.lines[last]))
            found.append(Match(self.starts[index], end, "indent", deeper, shallower))
        return found


def _places(text: str, sought: str) -> list[int]:
    """Every place of a text that does not overlap an earlier one; a second one that does, where there is no other."""
    found: list[int] = []
    at = text.find(sought) if sought else -1
    while at >= 0 and len(found) < MOST_PLACES:
        found.append(at)
        at = text.find(sought, at + len(sought))
    if len(found) == 1 and (at := text.find(sought, found[0] + 1)) >= 0:
        found.append(at)
    return found
