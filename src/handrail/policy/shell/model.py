"""What a shell line is made of: words, simple commands and the reading of a whole line."""

from __future__ import annotations

from enum import IntEnum

from handrail.words import noun


@noun
class Part:
    """One simple command that the line would run."""

    words: tuple[str, ...]  # literal words after quote removal; () when not understood
    text: str  # as written, for people
    doubt: str = ""  # why it cannot be fully understood: then no rule that allows words covers it; see `scripts`


@noun
class Reading:
    """All that a line would do, as far as it can be told without running it."""

    parts: tuple[Part, ...]
    writes: tuple[str, ...] = ()  # where output goes, relative to the folder the line starts in
    folders: frozenset[str] = frozenset()  # those of `writes` that are only made as folders
    reads: tuple[str, ...] = ()  # where input comes from
    git_writes: tuple[str, ...] = ()  # "commit", "push" …
    doubt: str = ""  # what concerns the whole line
    bomb: bool = False  # it, or a line within it, starts itself again and again
    unseen: str = ""  # what could not be looked at and may be forbidden: then no rule allows the line unasked
    taken: frozenset[tuple[str, ...]] = frozenset()  # the words of commands whose own commands and lines were read
    expands: frozenset[tuple[str, ...]] = frozenset()  # the words of commands that hold a variable or another's output
    scripts: tuple[str, ...] = ()  # files that shells in the line are given to run, as `writes`


class Sure(IntEnum):
    """How much is known of a word before the shell expands it."""

    LITERAL = 0  # exactly this text
    SAFE = 1  # unknown, any number of words, but none is empty or starts with a dash
    ONE = 2  # one word of any value
    ANY = 3  # any number of words of any value


@noun
class Word:
    """A word: its text after quote removal, or as written where the shell will expand it."""

    text: str
    sure: Sure
    start: int
    end: int


@noun
class Redirect:
    """A redirect of a simple command."""

    operator: str
    target: Word
    body: str = ""  # of a here-document


class Simple:
    """A simple command while the line is being read."""

    __slots__ = ("assigned", "doubts", "end", "joint", "kind", "redirects", "scope", "start", "words")

    def __init__(self, start: int, joint: str, scope: tuple[str, ...], kind: str = "command") -> None:
        self.start = self.end = start
        self.joint = joint  # the operator before it
        self.scope = scope  # the compounds around it, outermost first
        self.kind = kind  # command | test (of double brackets) | for
        self.words: list[Word] = []
        self.assigned: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.doubts: list[str] = []


class NotUnderstoodError(Exception):
    """Say why a line is not among those that are read exactly."""


MAX_BYTES = 65_536  # of a line
MAX_TREE_BYTES = 16_384  # of a line that both readers read
MAX_BROKEN_BYTES = (
    2_048  # of one that is not understood: the grammar's error recovery is quadratic and cannot be stopped
)
MAX_DEPTH = 12  # of lines within lines
MAX_READ_BYTES = 2 * MAX_BYTES  # of a line, and of the lines and commands within it
