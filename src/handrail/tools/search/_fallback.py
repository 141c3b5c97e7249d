"""What codebase_search does without an index: grep for the question's words, the lines with most of them first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.ports import Passage, Searcher
from handrail.queries import Hit, TextQuery
from handrail.words import Place, PlaceKind

_SMALL_TEXT = (
    "a an and are by do does for from how in is it of on or that the this to what when where which who why with"
)
_SMALL = frozenset(_SMALL_TEXT.split())
_AROUND = 4  # lines shown on each side


async def by_grep(query: str, places: Sequence[Place], limit: int, searcher: Searcher) -> list[Passage]:
    """Find lines that hold words of the question; files with more different ones come first."""
    words = [word.lower() for word in re.findall(r"\w{2,}", query)]
    words = list(dict.fromkeys([word for word in words if word not in _SMALL] or words))[:16]
    if not words:
        return []
    found: list[Passage] = []
    asked = TextQuery("|".join(re.escape(word) for word in words), ignore_case=True, limit=2000, per_file=40)
    for place in places:
        hits = (await searcher.text(place, asked)).hits
        files: dict[str, list[Hit]] = {}
        for hit in hits:
            files.setdefault(hit.path, []).append(hit)
        found += [_passage(place, path, lines, words) for path, lines in files.items()]
    return sorted(found, key=lambda passage: -passage.score)[:limit]


def _passage(place: Place, path: str, hits: Sequence[Hit], words: Sequence[str]) -> Passage:
    best = max(hits, key=lambda hit: (_held(hit.text, words), -hit.line))
    together = _held("\n".join([path, *(hit.text for hit in hits)]), words)
    score = round((together + _held(best.text, words) / 2) / len(words), 4)
    inner = place.path if place.kind is PlaceKind.FILE else f"{place.path}/{path}" if place.path else path
    return Passage(
        Place(place.root, inner, PlaceKind.FILE), max(1, best.line - _AROUND), best.line + _AROUND, "", score
    )


def _held(text: str, words: Sequence[str]) -> int:
    lower = text.lower()
    return sum(word in lower for word in words)
