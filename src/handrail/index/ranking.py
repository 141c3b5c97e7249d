"""Which parts to show first: words, then definitions and paths that say what was asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

from handrail.index.view import Hit
from handrail.index.words import folded

_TESTS = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|testing|testdata|fixtures|examples?)/|(?:^|/)(?:test_|conftest)|[._-](?:test|spec)\."
)
_LESSER = re.compile(
    r"(?:^|/)(?:changelog|changes|history|licen[sc]e|news)[^/]*$|\.(?:lock|min\.js|min\.css|map|svg|po|csv|json)$",
    re.IGNORECASE,
)
_PROSE = re.compile(r"\.(?:md|rst|txt|adoc|toml|ini|cfg|ya?ml)$", re.IGNORECASE)
VECTORS = 0.4  # what a place in their order counts, beside 1 for a place in the order by words
ALIKE = 0.3  # texts without a common word that are less alike than this are so by chance
SMOOTH = 60.0  # how little the first places count for more than those after them
PER_FILE = 2  # parts of one file, until every other file had its turn


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the ranking knows it."""

    terms: tuple[str, ...]
    names: frozenset[str]  # folded names that it spells out
    about_tests: bool = False
    about_prose: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """A part of a file with its place in the order."""

    path: bytes
    first: int
    last: int
    symbol: str
    score: float


def ranked(
    asked: Asked,
    hits: Sequence[tuple[bytes, Hit]],
    named: Mapping[bytes, float],
    held: Mapping[int, frozenset[str]],
) -> list[Ranked]:
    """Order parts: by their words, what the whole file and its path say, and whether they define what was named."""
    best_text = max((hit.score for _, hit in hits), default=0.0) or 1.0
    best_name = max(named.values(), default=0.0) or 1.0
    weights = _weights(asked.terms, held)
    files: dict[bytes, list[Ranked]] = {}
    for path, hit in hits:
        whole = sum(weights[term] for term in held.get(hit.content, ()))
        score = hit.score / best_text + 0.35 * named.get(path, 0.0) / best_name + _defines(hit.symbol, asked.names)
        score *= (0.35 + 0.65 * whole) * _standing(path, asked)
        files.setdefault(path, []).append(Ranked(path, hit.first, hit.last, hit.symbol, score))
    for parts in files.values():
        parts.sort(key=lambda part: (-part.score, part.first))
    found = [_lifted(part, files[path], index) for path in files for index, part in enumerate(files[path])]
    found.sort(key=lambda part: (-part.score, part.path, part.first))
    return found


def alike(asked: Asked, near: Sequence[tuple[bytes, Hit]]) -> list[Ranked]:
    """Order parts by how much they are about the same, and what their files are."""
    found = [Ranked(path, hit.first, hit.last, hit.symbol, hit.score * _standing(path, asked)) for path, hit in near]
    return sorted(found, key=lambda part: (-part.score, part.path, part.first))


def fused(by_words: Sequence[Ranked], by_vectors: Sequence[Ranked]) -> list[Ranked]:
    """Bring two orders together by the places that parts have in each: their scores have no common measure."""
    parts: dict[tuple[bytes, int], Ranked] = {}
    scores: dict[tuple[bytes, int], float] = {}
    for order, weight in ((by_words, 1.0), (by_vectors, VECTORS)):
        for number, part in enumerate(order):
            key = (part.path, part.first)
            if order is by_vectors and key not in parts and part.score < ALIKE:
                continue
            parts.setdefault(key, part)
            scores[key] = scores.get(key, 0.0) + weight / (SMOOTH + number)
    most = (1.0 + VECTORS) / SMOOTH
    found = [Ranked(part.path, part.first, part.last, part.symbol, scores[key] / most) for key, part in parts.items()]
    return sorted(found, key=lambda part: (-part.score, part.path, part.first))


def page(found: Iterable[Ranked], limit: int) -> list[Ranked]:
    """The first of an order, no file filling it."""
    return list(_varied(found))[:limit]


def _weights(terms: Sequence[str], held: Mapping[int, frozenset[str]]) -> dict[str, float]:
    """How much each word tells the candidates apart: together 1."""
    count = {term: sum(term in words for words in held.values()) for term in terms}
    told = {term: log(1.5 + len(held) / (1 + count[term])) for term in terms}
    total = sum(told.values()) or 1.0
    return {term: weight / total for term, weight in told.items()}


def _lifted(part: Ranked, siblings: Sequence[Ranked], index: int) -> Ranked:
    """A file that fits in several places is more likely to be the one."""
    if index:
        return part
    more = sum(other.score for other in siblings[1:4]) * 0.08
    return Ranked(part.path, part.first, part.last, part.symbol, part.score + more)


def _defines(symbol: str, names: frozenset[str]) -> float:
    if not symbol or not names:
        return 0.0
    last = folded(symbol.rpartition(".")[2])
    if folded(symbol) in names:
        return 0.6
    return 0.4 if last in names else 0.0


def _standing(path: bytes, asked: Asked) -> float:
    """What a file is counts, too: the thing itself before its tests, and both before lists of data."""
    name = path.decode("utf-8", "replace")
    if _LESSER.search(name):
        return 0.5
    if _TESTS.search(name):
        return 1.0 if asked.about_tests else 0.6
    if _PROSE.search(name):
        return 1.0 if asked.about_prose else 0.75
    return 1.0


def _varied(found: Iterable[Ranked]) -> Iterable[Ranked]:
    """Keep one file from filling the page."""
    count: dict[bytes, int] = {}
    later = []
    for part in found:
        count[part.path] = count.get(part.path, 0) + 1
        if count[part.path] <= PER_FILE:
            yield part
        else:
            later.append(part)
    yield from later
