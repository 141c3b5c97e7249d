"""Hide secrets in text, values and streams. The same text hides the same, whole, in slices or in chunks."""

import re
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Literal

from handrail.output.engines import (
    REACH,
    WINDOW,
    Confirmer,
    Engine,
    FastEngine,
    PlainEngine,
    compile_database,
    database_fingerprint,
    has_hyperscan,
)
from handrail.output.known import MIN_LENGTH, KnownValues, Span, known_values, secret_name
from handrail.output.patterns import KINDS, MARK, OPEN_LINE, SecretKind

__all__ = [
    "CONTEXT",
    "KINDS",
    "MARK",
    "RedactingStream",
    "Redactor",
    "SecretKind",
    "compile_database",
    "database_fingerprint",
    "known_values",
    "secret_name",
]

# What lies further away than this never changes what is hidden here.
CONTEXT = WINDOW + REACH

# A stream is fed in parts of this size, so that its memory is bounded whatever comes at once.
_CHUNK = 1 << 20

_PASSES = 4  # after so many, hits are widened
_RUN = re.compile(rb"\S*")
_OPEN_LINE = re.compile(OPEN_LINE)
_OPEN_REACH = 160  # how far before its end a line names a secret of the next one
_MARK_BYTES = MARK.encode()
_STARS = b"*" * len(_MARK_BYTES)


class Redactor:
    """Hides known values and what looks like a secret. Safe to use from several threads."""

    def __init__(
        self,
        known: Iterable[str] = (),
        *,
        kinds: Sequence[SecretKind] = KINDS,
        database: bytes | None = None,
        engine: Literal["auto", "fast", "plain"] = "auto",
    ) -> None:
        """Take the fast engine when asked, or when its database is given and hyperscan is there."""
        self._confirmer = Confirmer(kinds)
        fast = engine == "fast" or (engine == "auto" and database is not None and has_hyperscan())
        self._kinds, self._database, self._fast = kinds, database, fast
        self._know(frozenset(known))

    @property
    def kinds(self) -> Sequence[SecretKind]:
        """The kinds of secrets that it knows by shape."""
        return self._kinds

    @property
    def known(self) -> frozenset[str]:
        """The values that it hides wherever they are; never to be written down."""
        return self._known.values

    def learn(self, values: Iterable[str]) -> None:
        """Hide further values from now on; those too short to be told from other text are left out."""
        known = self._known.values | {value for value in values if len(value) >= MIN_LENGTH}
        if known != self._known.values:
            self._know(known)

    def _know(self, values: frozenset[str]) -> None:
        known = KnownValues(values)
        engine: Engine = (
            FastEngine(self._kinds, known, self._database) if self._fast else PlainEngine(self._kinds, known)
        )
        self._known, self._quiet, self._engine = known, engine.quiet, engine  # who saw the engine saw nothing older

    @property
    def engine(self) -> Engine:
        """What looks for secrets; another one once more values are known."""
        return self._engine

    def clean(self, text: str) -> bool:
        """Tell whether nothing in `text` needs hiding."""
        data = text.encode("utf-8", "surrogatepass")
        return self._quiet(data) or not self._hidden(data)

    def quiet(self, data: bytes) -> bool:
        """Tell for certain that nothing in a text, given as UTF-8, needs hiding; False means: look closer."""
        return self._quiet(data)

    def spans(self, text: str) -> list[Span]:
        """Return what is hidden, as merged and sorted character offsets."""
        data = text.encode("utf-8", "surrogatepass")
        if self._quiet(data):
            return []
        hidden = self._hidden(data)
        return hidden if len(data) == len(text) else _in_characters(data, hidden)

    def text(self, text: str) -> str:
        """Return `text` with secrets replaced by the mark; the same object when there are none."""
        spans = self.spans(text)
        return _render(text, spans, 0, len(text)) if spans else text

    def excerpt(self, before: str, text: str, after: str = "") -> str:
        """Redact `text` as it is hidden inside `before + text + after`."""
        before, after = before[-CONTEXT:], after[:CONTEXT]
        spans = self.spans(before + text + after)
        start, end = len(before), len(before) + len(text)
        inside = [(max(a, start), min(b, end)) for a, b in spans if a < end and b > start]
        return _render(before + text, inside, start, end) if inside else text

    def value(self, value: object) -> object:
        """Redact a JSON-like value, keys too; the same object when it is clean."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return value if _same(items, value) else _like(value, items)
        return value

    def stream(self) -> "RedactingStream":
        """Start redacting text that comes in chunks."""
        return RedactingStream(self)

    def open_since(self, text: str) -> int:
        """Return where a known value may have begun that goes on, over a line break, after `text`."""
        data = text.encode("utf-8", "surrogatepass")
        return len(data[: self._known.open_since(data)].decode("utf-8", "surrogatepass"))

    def _mapping(self, value: dict[object, object]) -> dict[object, object]:
        cleaned = {self.value(key): self._pair(key, item) for key, item in value.items()}
        same = len(cleaned) == len(value) and _same(cleaned, value) and _same(cleaned.values(), value.values())
        return value if same else cleaned

    def _pair(self, key: object, value: object) -> object:
        return self._masked(key, value) if isinstance(key, str) and secret_name(key) else self.value(value)

    def _masked(self, key: str, value: object) -> object:
        if isinstance(value, str):
            return MARK if value.strip() and value != MARK else value
        if isinstance(value, list | tuple):
            items = [self._masked(key, item) for item in value]
            return value if _same(items, value) else _like(value, items)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if self.clean(f'"{key}": {value}') else MARK  # as it would be hidden in text
        return self.value(value)

    def _hidden(self, data: bytes) -> list[Span]:
        """Find all that is hidden, in bytes: known values, then kinds, until what is left shows nothing new."""
        data = data.replace(_MARK_BYTES, _STARS)
        found = self._known.spans(data)
        hidden = list(found)
        for passes in count():
            data = _starred(data, found)
            found = self._confirmer.spans(data, self._engine.places(data))
            if not found:
                break
            if passes >= _PASSES:
                # What is hidden shows the next one: text made for that would take a pass for each.
                found = [(start, _run_end(data, end, passes)) for start, end in found]
            hidden.extend(found)
        return _merged(hidden)


class RedactingStream:
    """Redacts text that comes in chunks as if it had come whole, and keeps only a bounded part of it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._text = ""  # What is not shown yet, after as much shown text as can still matter.
        self._shown = 0

    def feed(self, text: str) -> str:
        """Take more text; return what can be shown by now."""
        return "".join([self._take(text[at : at + _CHUNK]) for at in range(0, len(text), _CHUNK)])

    def finish(self) -> str:
        """Return the rest."""
        text, shown = self._text, self._shown
        self._text, self._shown = "", 0
        return _render(text, self._redactor.spans(text), shown, len(text))

    def flush(self) -> str:
        """Return what is not settled, too, as if nothing followed; what comes later is still seen together with it."""
        text, shown = self._text, self._shown
        self._text = text[-CONTEXT:]
        self._shown = len(self._text)
        return _render(text, self._redactor.spans(text), shown, len(text))

    def _take(self, text: str) -> str:
        self._text += text
        if "\n" not in text and len(self._text) - self._shown <= 2 * CONTEXT:
            return ""
        spans = self._redactor.spans(self._text)
        end = self._settled(spans)
        if end <= self._shown:
            return ""
        ready = _render(self._text, spans, self._shown, end)
        self._forget(spans, end)
        return ready

    def _settled(self, spans: list[Span]) -> int:
        """Return how far nothing that comes can change what is hidden: to the end of a line, or a window back."""
        text = self._text
        line = text.rfind("\n") + 1
        open_since = self._redactor.open_since(text[:line]) if line > self._shown else line
        if line > self._shown and (name := _OPEN_LINE.search(text, max(self._shown, line - _OPEN_REACH), line)):
            open_since = min(open_since, name.start())
        if spans and spans[-1][1] == len(text):
            open_since = min(open_since, spans[-1][0])
        if open_since < line:
            # What is open may yet change what is hidden before it on the same line, but no line further up.
            line = text.rfind("\n", 0, open_since) + 1
        return max(line, len(text) - CONTEXT)

    def _forget(self, spans: list[Span], end: int) -> None:
        apart = self._text[end - 1] == "\n" and not any(a < end <= b for a, b in spans)
        keep = end if apart else max(0, end - CONTEXT)
        self._text, self._shown = self._text[keep:], end - keep


def _run_end(data: bytes, end: int, passes: int) -> int:
    """Where the unbroken run of characters ends that goes on from here; at last, where everything does."""
    run = _RUN.match(data, end)
    return len(data) if passes >= 4 * _PASSES or run is None else run.end()


def _starred(data: bytes, spans: Iterable[Span]) -> bytes:
    """Overwrite what is hidden, so that it is neither found again nor taken for the start of something else."""
    changed = bytearray(data)
    for start, end in spans:
        changed[start:end] = b"*" * (end - start)
    return bytes(changed)


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _in_characters(data: bytes, spans: list[Span]) -> list[Span]:
    """Turn byte offsets into character offsets, widened to whole characters."""
    moved: list[Span] = []
    characters = at = 0
    for span in spans:
        offsets = []
        for offset, step in zip(span, (-1, 1), strict=True):
            while offset < len(data) and data[offset] & 0xC0 == 0x80:
                offset += step
            characters += len(data[at:offset].decode("utf-8", "surrogatepass"))
            at = offset
            offsets.append(characters)
        moved.append((offsets[0], offsets[1]))
    return _merged(moved)


def _render(text: str, spans: list[Span], start: int, end: int) -> str:
    """Return `text[start:end]` with one mark for each span that begins there; one begun before has its mark."""
    parts = []
    at = start
    for first, last in spans:
        if last <= at or first >= end:
            continue
        if first >= start:
            parts += [text[at:first], MARK]
        at = min(last, end)
    return "".join([*parts, text[at:end]])


def _same(items: Iterable[object], others: Iterable[object]) -> bool:
    return all(a is b for a, b in zip(items, others, strict=True))


def _like(value: list[object] | tuple[object, ...], items: list[object]) -> object:
    return items if isinstance(value, list) else tuple(items)
