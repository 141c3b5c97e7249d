"""Text to words the way code is written: `readFile` and `read_file` are found by `read` and by `file`. Pure."""

from __future__ import annotations

import re
from itertools import pairwise

_WORD = re.compile(r"[^\W\d_][^\W_]*(?:_+[^\W_]+)*|\d+", re.UNICODE)
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]")
_ASCII = re.compile(r"[A-Za-z0-9_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
MAX_WORD = 80  # longer runs of letters are data, not names
_KEEP = 200_000  # names remembered
MAX_WORDS = 40_000  # of one part of a file

_SMALL_TEXT = (
    "a an and are as at be been but by can could did do does for from had has have how i if in into is it its itself "
    "me might must my no not of on or our shall should so some such than that the their them then there these they "
    "this those to under up us use used uses using was we were what when where which while who whom why will with "
    "would you your about after all also any because before being between both each few find found get gets give "
    "gives happen happens implement implemented implementation code file files function class method defined "
    "definition located place part project show tell"
)
_SMALL = frozenset(_SMALL_TEXT.split())
_MUTE = frozenset({"self", "return", "none", "true", "false", "def", "import"})  # in nearly every part of code


class Splitter:
    """Splits names and remembers how: the same few thousand make up most of any code."""

    def __init__(self) -> None:
        self._known = _Learned()

    def text(self, text: str) -> str:
        """Write a text as its words: each name whole and in its parts, in lower case."""
        words = (_ASCII if text.isascii() else _WORD).findall(text)[:MAX_WORDS]
        if len(self._known) > _KEEP:
            self._known.clear()
        return " ".join(map(self._known.__getitem__, words))


class _Learned(dict[str, str]):
    """How each name is split, found out when it is first met."""

    def __missing__(self, word: str) -> str:
        written = self[word] = " ".join(parts_of(word)) if len(word) <= MAX_WORD else ""
        return written


def parts_of(word: str) -> list[str]:
    """The parts of a name, and the name as one word where it has several: `fileHash` gives file, hash, filehash."""
    parts = [part.lower() for part in _PART.findall(word)]
    whole = word.replace("_", "").lower()
    if len(parts) > 1:
        return [*parts, whole]
    return parts or ([whole] if whole else [])


def names_in(text: str) -> set[str]:
    """The different names of a text, as they are written."""
    return set((_ASCII if text.isascii() else _WORD).findall(text))


def spoken(name: str) -> str:
    """A name as one would say it: `readFile` is "read file"; "" for what is nobody's name."""
    said = " ".join(map(str.lower, _PART.findall(name))) if len(name) <= MAX_WORD else ""
    return "" if said in _MUTE else said


def terms_of(query: str, most: int = 32) -> list[str]:
    """The words of a question that are worth looking for, in its order."""
    words = [part for word in _WORD.findall(query) if len(word) <= MAX_WORD for part in parts_of(word)]
    told = [word for word in words if word not in _SMALL and (len(word) > 1 or word.isdigit())]
    return list(dict.fromkeys(told or words))[:most]


def pairs_of(query: str, most: int = 32) -> list[str]:
    """Neighbouring words written as one, as names write them: `named tuple` is looked for as `namedtuple`, too."""
    words = [part for word in _WORD.findall(query) if len(word) <= MAX_WORD for part in parts_of(word)[:1]]
    return list(dict.fromkeys(f"{one}{two}" for one, two in pairwise(words)))[:most]


def names_of(query: str) -> frozenset[str]:
    """Names that a question spells out, such as `read_file` or `Runtime.open`, folded to one word.

    A plain word is no name, whatever it is the name of somewhere.
    """
    found = re.findall(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*", query)
    names = [name for name in found if "_" in name.strip("_") or "." in name or _INNER_CAPITAL.search(name)]
    return frozenset(folded(part) for name in names for part in (name, name.rpartition(".")[2]) if len(part) > 2)


def folded(name: str) -> str:
    """A name without case and underscores."""
    return name.replace("_", "").lower()
