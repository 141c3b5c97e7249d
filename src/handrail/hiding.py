"""Hide in a JSON value what is hidden in its text, before an expression can take it apart. Pure."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Protocol

from handrail.output.known import Span, secret_name
from handrail.output.patterns import MARK

_TOKEN = re.compile(r'"(?>(?:[^"\\]++|\\.)*)"|[-+.\w]+')  # in JSON that was parsed before
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.")
_ALL: list[Span] = [(0, 1 << 62)]


class Hides(Protocol):
    """Redaction, as far as it is needed here."""

    def spans(self, text: str) -> list[Span]:
        """Tell what is hidden, in order."""


def text_of(data: bytes) -> str:
    """The text of JSON, as its parser reads it; ValueError where it is none."""
    return data.decode(json.detect_encoding(data), "surrogatepass")


def hidden(value: Any, secrets: Hides, text: str | None = None) -> Any:
    """Hide secrets before an expression can turn them round, take them apart or out of the field that names them.

    A string alone does not show that it is a line of a key. So its strings are looked at together, as lines of one
    text, its names as those of another, and so is the `text` that the value was read from, where it is known: what is
    hidden there is hidden here.
    """
    names, strings = list[str](), list[str]()
    _collect(value, names, strings)
    whole = [] if text is None else secrets.spans(text)
    tokens = _tokens(text, whole) if text is not None and whole else None
    return _Hiding(_lines(names, secrets), _lines(strings, secrets), tokens).value(value)


def _collect(value: Any, names: list[str], strings: list[str]) -> None:
    """Take up every name and every other string, in order."""
    if isinstance(value, str):
        strings.append(value)
    elif isinstance(value, list):
        for item in value:
            _collect(item, names, strings)
    elif isinstance(value, dict):
        for name, item in value.items():
            names.append(name)
            _collect(item, names, strings)


def _lines(texts: list[str], secrets: Hides) -> Iterator[list[Span]]:
    """What is hidden of each text where they are lines of one."""
    whole = "\n".join(texts)
    found = _shares(secrets.spans(whole), _places(texts))
    if "\0" not in whole:
        return found
    wide = _shares(_past_nul(whole, secrets), _places(texts))
    return ([*one, *other] for one, other in zip(found, wide, strict=True))


def _places(texts: list[str]) -> Iterator[Span]:
    """Where each text stands among the lines."""
    starts = accumulate((len(text) + 1 for text in texts), initial=0)
    return ((start, start + len(text)) for start, text in zip(starts, texts, strict=False))


def _past_nul(text: str, secrets: Hides) -> list[Span]:
    """What is hidden of a text without its NULs: in UTF-16 that was read as something else they part a secret."""
    passed = [found.start() - number for number, found in enumerate(re.finditer("\0", text))]
    spans = secrets.spans(text.replace("\0", ""))
    return [(start + bisect_right(passed, start), end + bisect_right(passed, end - 1)) for start, end in spans]


def _shares(spans: list[Span], pieces: Iterable[Span]) -> Iterator[list[Span]]:
    """What of the spans lies in each of the pieces, counted from its start; both come in order."""
    first = 0
    for start, end in pieces:
        while first < len(spans) and spans[first][1] <= start:
            first += 1
        share, at = list[Span](), first
        while at < len(spans) and spans[at][0] < end:
            share.append((max(spans[at][0], start) - start, min(spans[at][1], end) - start))
            at += 1
        yield share


def _tokens(text: str, spans: list[Span]) -> Iterator[list[Span]]:
    """What is hidden of each name, string, number and word, counted in characters of its value."""
    places = [found.span() for found in _TOKEN.finditer(text)]
    for (start, end), share in zip(places, _shares(spans, places), strict=True):
        yield _in_value(text[start:end], share) if share else share


def _in_value(token: str, share: list[Span]) -> list[Span]:
    """Count in the value what was counted in its spelling: an escape is one character, hidden whole or not at all."""
    if not token.startswith('"'):
        return share
    escapes = [found.span() for found in _ESCAPE.finditer(token, 1, len(token) - 1)]
    starts = [start for start, _ in escapes]
    dropped = list(accumulate((end - start - 1 for start, end in escapes), initial=1))  # the quote, too
    moved = list[Span]()
    for first, last in share:
        before = bisect_right(starts, first)
        if before and first < escapes[before - 1][1]:
            before, first = before - 1, escapes[before - 1][0]
        within = bisect_left(starts, last)
        last = max(last, escapes[within - 1][1]) if within else last
        moved.append((max(0, first - dropped[before]), last - dropped[within]))
    size = len(token) - 1 - dropped[-1]
    return [(first, min(last, size)) for first, last in moved if first < min(last, size)]


class _Hiding:
    """One value made anew, its strings and tokens met in the order in which they were counted."""

    def __init__(
        self, names: Iterator[list[Span]], strings: Iterator[list[Span]], tokens: Iterator[list[Span]] | None
    ) -> None:
        self._names, self._strings, self._tokens = names, strings, tokens

    def value(self, value: Any, *, named: bool = False) -> Any:
        """Hide in one value; of a field that names a secret, all."""
        if isinstance(value, list):
            return [self.value(item, named=named) for item in value]
        if isinstance(value, dict):
            return self._fields(value)
        share = self._token()
        if isinstance(value, str):
            share = [*share, *next(self._strings, _ALL)]
            return MARK if named and value.strip() else _without(value, share)
        return MARK if share and isinstance(value, (int, float)) and not isinstance(value, bool) else value

    def _fields(self, value: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, item in value.items():
            shown = _without(name, [*self._token(), *next(self._names, _ALL)])
            if shown != name and (shown in made or shown in value):
                shown = f"{shown} {len(made) + 1}"  # names that look alike when hidden must not push each other out
            made[shown] = self.value(item, named=secret_name(name))
        return made

    def _token(self) -> list[Span]:
        return [] if self._tokens is None else next(self._tokens, _ALL)


def _without(text: str, spans: list[Span]) -> str:
    """A text with one mark for each run of hidden characters."""
    parts, at = list[str](), 0
    for first, last in sorted(spans):
        if first > at or not parts:
            parts += [text[at:first], MARK]
        at = max(at, last)
    return "".join([*parts, text[at:]]) if parts else text
