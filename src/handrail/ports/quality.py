"""Linters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from handrail.words import Place, noun

if TYPE_CHECKING:
    from handrail.ports.processes import Finished


@noun
class Linter:
    """A program that checks files of one language, as the operator's settings or an installed package name it."""

    language: str
    source: str  # the program's name, as diagnostics tell it
    argv: tuple[str, ...]  # `{path}` stands for the file's path
    format: str  # how its output is read: gcc | json | ruff | bash
    stdin: bool = True  # the content comes by stdin; else the program opens the path itself
    exit_codes: tuple[int, ...] = (0, 1)  # anything else: it did not do its work
    reads: tuple[Place, ...] = ()  # where the program itself lies


@noun
class LintLook:
    """What an earlier look at a file found: its hash, and each diagnostic without the number of its line."""

    sha256: str
    keys: tuple[tuple[str, ...], ...]


class Linters(Protocol):
    """The linters of a run; bound to one call, whose exclusions their programs do not see either."""

    def find(self, path: str) -> Linter | None:
        """The linter for a file, by its name."""

    async def run(self, linter: Linter, place: Place, data: bytes) -> Finished:
        """Run a linter on a content: confined, the roots to be read only, no network."""

    def last(self, place: Place) -> LintLook | None:
        """What this run's last look at a file found."""

    def looked(self, place: Place, look: LintLook) -> None:
        """Remember a look."""

    async def former(self, place: Place) -> bytes | None:
        """What the file held before this run's last change of it; None where that is not known."""
