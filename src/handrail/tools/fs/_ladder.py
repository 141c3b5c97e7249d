"""How text is found that is not quite as it was quoted: five steps, each labelled, none by similarity. Pure."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass

from handrail.tools.fs._text import body_of, lines_of

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
    """A text to search; each level's folding is made once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._folded: dict[str, Folded] = {}
        self._lines: list[str] | None = None
        self._starts: list[int] | None = None

    @property
    def lines(self) -> list[str]:
        """The lines with their endings."""
        if self._lines is None:
            self._lines = lines_of(self.text)
        return self._lines

    @property
    def starts(self) -> list[int]:
        """Where each line starts, and where the text ends."""
        if self._starts is None:
            self._starts = [0]
            for line in self.lines:
                self._starts.append(self._starts[-1] + len(line))
        return self._starts

    def line_at(self, position: int) -> int:
        """The number of the line that a character stands in."""
        return max(1, min(bisect_right(self.starts, position), len(self.lines)))

    def find(self, quoted: str) -> list[Match]:
        """Give every place of the first level that finds any."""
        found = [Match(at, at + len(quoted), "exact") for at in _places(self.text, quoted)]
        found = [match for match in found if not self._splits_ending(match)]
        for level in LEVELS[1:4]:
            if found:
                return found
            found = self._find_folded(quoted, level)
        return found or self._find_indented(quoted)

    def _splits_ending(self, match: Match) -> bool:
        return any(self.text[at - 1 : at + 1] == "\r\n" for at in (match.start, match.end) if at > 0)

    def _find_folded(self, quoted: str, level: str) -> list[Match]:
        here = self._folded.get(level) or self._folded.setdefault(level, Folded(self.text, level))
        wanted = Folded(quoted, level)
        found = []
        for at in _places(here.text, wanted.text):
            end = at + len(wanted.text)
            # Blanks taken off the end of the quoted text are only there if the line ends there.
            if wanted.bare_end and here.text[end : end + 1] not in ("", "\n"):
                continue
            span = here.origin(at, end)
            if span is not None:
                found.append(Match(*span, level))
        return found

    def _find_indented(self, quoted: str) -> list[Match]:
        wanted = [folded_line(body_of(line), "typographic") for line in lines_of(quoted)]
        here = [folded_line(body_of(line), "typographic") for line in self.lines]
        whole = quoted.endswith(("\n", "\r"))
        found = []
        for index, deeper, shallower in indented(here, wanted):
            last = index + len(wanted) - 1
            end = self.starts[last] + len(self.lines[last] if whole else body_of(self.lines[last]))
            found.append(Match(self.starts[index], end, "indent", deeper, shallower))
        return found


def indented(lines: list[str], wanted: list[str]) -> list[tuple[int, str, str]]:
    """Find lines that differ from the wanted ones by the same indent in every line: index, deeper by, shallower by."""
    anchor = next((index for index, line in enumerate(wanted) if line.strip()), None)
    if anchor is None:
        return []
    sought, found = wanted[anchor].strip(), []
    for index, line in enumerate(lines):
        start = index - anchor
        if line.strip() != sought or start < 0 or start + len(wanted) > len(lines):
            continue
        deeper, shallower = _step(line, wanted[anchor])
        if (deeper or shallower) and all(
            _stands(there, asked, deeper, shallower) for there, asked in zip(lines[start:], wanted, strict=False)
        ):
            found.append((start, deeper, shallower))
    return found


def _step(there: str, asked: str) -> tuple[str, str]:
    here, quoted = _indent(there), _indent(asked)
    if here.endswith(quoted):
        return here[: len(here) - len(quoted)], ""
    return ("", quoted[: len(quoted) - len(here)]) if quoted.endswith(here) else ("", "")


def _stands(there: str, asked: str, deeper: str, shallower: str) -> bool:
    if not asked.strip():
        return not there.strip()
    return there == deeper + asked if deeper else shallower + there == asked


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


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
