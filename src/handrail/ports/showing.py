"""What a tool may see or show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from handrail.words import Place, Ref, Root, Touch, noun


class Secrets(Protocol):
    """Redaction for tools that show part of a whole."""

    @property
    def engine(self) -> object:
        """What looks for secrets; another one once more of them are known."""

    def quiet(self, data: bytes) -> bool:
        """Tell for certain that nothing in a text, given as UTF-8, needs hiding; False means: look closer."""

    def text(self, text: str) -> str:
        """Hide what must be hidden."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Tell where something must be hidden, in order."""

    def excerpt(self, before: str, text: str, after: str = "") -> str:
        """Hide in `text` what would be hidden in the whole around it."""


class Screen(Protocol):
    """Where a person looks."""

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show one display event."""


class Clock(Protocol):
    """Time, passed in."""

    def now(self) -> float:
        """Wall clock, seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that only grow, for deadlines."""


class Places:
    """The resolved places of a call whose tool states its own touches, by the path as asked."""

    __slots__ = ("_by_target",)

    def __init__(self, touches: Iterable[Touch]) -> None:
        self._by_target = {touch.target: _as_judged(touch, touch.place) for touch in touches if touch.place is not None}

    def __getitem__(self, target: str) -> Place:
        return self._by_target[target]

    def of(self, value: Any) -> Any:
        """The places of an argument's paths, in the shape that the argument has."""
        if isinstance(value, list):
            return [self._by_target[item] for item in value]
        return self._by_target.get(value)


def _as_judged(touch: Touch, place: Place) -> Place:
    """The place, with what was seen below it where that is taken away."""
    return place if touch.below is None else replace(place, below=frozenset(touch.below))


@noun
class Limits:
    """What a tool that cuts by itself must keep to."""

    max_output_lines: int = 2000
    max_output_bytes: int = 51200
    max_line_chars: int = 2000
    max_read_bytes: int = 5 * 1024 * 1024


@noun
class Roots:
    """The folders that calls may reach, as settings and the run give them."""

    all: tuple[Root, ...]


class Archive(Protocol):
    """Former contents of files, kept with the run that changed them."""

    async def load(self, run: str, sha256: str) -> bytes:
        """Give one; NOT_FOUND when it was not kept."""


class Spool(Protocol):
    """A text that is kept as it comes; beyond its bound only head and tail are. Raises OSError."""

    def write(self, text: str) -> None:
        """Keep more of it."""

    def finish(self) -> Ref:
        """End and name it."""

    def discard(self) -> None:
        """Remove what was kept."""


class Draft(Protocol):
    """A text on its way to where the whole of a cut output goes: kept or discarded in the end."""

    def add(self, part: bytes | memoryview) -> None:
        """Write further bytes; Problem IO_ERROR where that fails."""

    def keep(self, sha256: str = "") -> Ref:
        """End and name it; without a hash, that is left to the caller."""

    def discard(self) -> None:
        """Remove it, if it was not kept."""


class Spill(Protocol):
    """Where the whole of a cut output goes, redacted by its caller."""

    def put(self, text: str, name: str = "") -> Ref:
        """Keep a text in the run's observations and name it."""

    def keep(self, data: bytes | Sequence[bytes], name: str = "", *, hashed: bool = True) -> Ref:
        """Keep a text that is UTF-8 already, whole or in parts; `hashed=False` leaves the hash to one who knows it."""

    def draft(self, name: str = "") -> Draft:
        """Begin a text that is UTF-8 already and comes in parts."""

    def stream(self, name: str) -> Spool:
        """Start keeping a text that comes in parts."""
