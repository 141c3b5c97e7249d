"""The index as one call may see it: only these files are found, and only they say how rare a word is."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from handrail.index.embedding import Embedding

_LEAST = 1e-6  # what a word counts for that most parts hold, as FTS5 has it
_ROWS = 4096  # vectors compared in one go
_SEEN = """
CREATE TEMP TABLE IF NOT EXISTS seen (content INTEGER PRIMARY KEY);
CREATE TEMP TABLE IF NOT EXISTS seen_files (id INTEGER PRIMARY KEY, path BLOB NOT NULL, content INTEGER NOT NULL);
BEGIN;
DELETE FROM seen;
DELETE FROM seen_files;
"""


class Hit(NamedTuple):
    """A part that fits the question; a larger score is better."""

    content: int
    first: int
    last: int
    symbol: str
    score: float


class View:
    """What can be asked of the index at one moment; used by one thread."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def hits(self, terms: Sequence[str], limit: int) -> list[Hit]:
        """Parts that hold any of the words, best first."""
        joined = "JOIN parts ON parts.id = words.rowid JOIN seen ON seen.content = parts.content"
        total = self._one("SELECT count(*) FROM parts JOIN seen ON seen.content = parts.content")
        scores = self._scores("words", "bm25(words, 6.0, 3.0, 1.0)", joined, terms, total)
        best = heapq.nlargest(limit, scores.items(), key=lambda item: (item[1], -item[0]))
        sql = "SELECT content, first, last, symbol FROM parts WHERE id = ?"
        return [_hit(self._db.execute(sql, (part,)).fetchone(), score) for part, score in best]

    def named_files(self, terms: Sequence[str], limit: int) -> list[tuple[bytes, float]]:
        """Files whose path holds any of the words, best first, with their scores."""
        joined = "JOIN seen_files ON seen_files.id = paths.rowid"
        total = self._one("SELECT count(*) FROM seen_files")
        scores = self._scores("paths", "bm25(paths, 3.0, 1.0)", joined, terms, total)
        best = heapq.nlargest(limit, scores.items(), key=lambda item: (item[1], -item[0]))
        sql = "SELECT path FROM seen_files WHERE id = ?"
        return [(self._db.execute(sql, (number,)).fetchone()[0], score) for number, score in best]

    def holding(self, contents: Sequence[int], terms: Sequence[str]) -> dict[int, frozenset[str]]:
        """Which of the words each content holds, anywhere in it."""
        spans = "SELECT min(id), max(id) FROM parts WHERE content = ?"
        # The parts of one content were numbered in one go, so that a range of numbers is a content.
        held = "SELECT 1 FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? LIMIT 1"
        found = {}
        for content in contents:
            first, last = self._db.execute(spans, (content,)).fetchone()
            asked = ((term, self._db.execute(held, (phrase(term), first, last)).fetchone()) for term in terms)
            found[content] = frozenset(term for term, row in asked if row is not None)
        return found

    def first_part(self, content: int) -> Hit | None:
        """The beginning of a content."""
        sql = "SELECT content, first, last, symbol, 0.0 FROM parts WHERE content = ? ORDER BY first LIMIT 1"
        row = self._db.execute(sql, (content,)).fetchone()
        return None if row is None else Hit(*row)

    def near(self, embedding: Embedding, query: str, limit: int) -> list[Hit]:
        """Parts that are about what the question is about, best first, whatever their words."""
        question = embedding.of([(query, "")])[0]
        if not question.any():
            return []
        best: list[tuple[float, int, int]] = []
        for contents, rows in self._vectors(embedding):
            scores = zip(embedding.likeness(question, rows).tolist(), _places(contents), strict=True)
            best = heapq.nlargest(limit, [*best, *((score, *place) for score, place in scores)])
        sql = "SELECT content, first, last, symbol FROM parts WHERE content = ? ORDER BY id LIMIT 1 OFFSET ?"
        found = [(self._db.execute(sql, (content, row)).fetchone(), score) for score, content, row in best]
        return [_hit(row, score) for row, score in found]

    def _vectors(self, embedding: Embedding) -> Iterator[tuple[list[tuple[int, int]], bytes]]:
        """The vectors of all that may be seen, some at a time, with whose they are and how many each has."""
        sql = "SELECT seen.content, data FROM seen JOIN vectors ON vectors.content = seen.content WHERE model = ?"
        whose: list[tuple[int, int]] = []
        data: list[bytes] = []
        size = 0
        for content, rows in self._db.execute(sql, (embedding.name,)):
            whose.append((content, len(rows) // embedding.dims))
            data.append(rows)
            size += len(rows)
            if size >= _ROWS * embedding.dims:
                yield whose, b"".join(data)
                whose, data, size = [], [], 0
        if size:
            yield whose, b"".join(data)

    def _scores(self, table: str, rank: str, joined: str, terms: Sequence[str], total: int) -> dict[int, float]:
        """BM25 of the rows that may be seen.

        FTS5 takes all rows to see how rare a word is, so that scores would tell which words hidden files hold.
        """
        everything = self._one(f"SELECT count(*) FROM {table}_docsize")  # noqa: S608  names of our own tables
        scores: dict[int, float] = {}
        for term in terms:
            asked = (phrase(term),)
            sql = f"SELECT {table}.rowid, -{rank} FROM {table} {joined} WHERE {table} MATCH ?"  # noqa: S608
            rows = self._db.execute(sql, asked).fetchall()
            if not rows:
                continue
            hits = self._one(f"SELECT count(*) FROM {table} WHERE {table} MATCH ?", asked)  # noqa: S608
            factor = _rarity(total, len(rows)) / _rarity(everything, hits)
            for number, score in rows:
                scores[number] = scores.get(number, 0.0) + score * factor
        return scores

    def _one(self, sql: str, values: Iterable[str] = ()) -> int:
        return int(self._db.execute(sql, tuple(values)).fetchone()[0])


@contextmanager
def viewing(db: sqlite3.Connection, contents: Mapping[bytes, int]) -> Iterator[View]:
    """See these files, as far as they still have these contents; what others write meanwhile does not show."""
    try:
        db.executescript(_SEEN)
        sql = "INSERT INTO seen_files SELECT id, path, content FROM files WHERE path = ? AND content = ?"
        db.executemany(sql, contents.items())
        db.execute("INSERT INTO seen SELECT DISTINCT content FROM seen_files")
        yield View(db)
    finally:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")


def phrase(text: str) -> str:
    """Write words as a question to FTS5, in which no sign means anything."""
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'


def _hit(row: tuple[int, int, int, str], score: float) -> Hit:
    return Hit(*row, score=score)


def _rarity(total: int, hits: int) -> float:
    """How much a word tells: what FTS5's bm25() takes for it."""
    rarity = log((total - hits + 0.5) / (hits + 0.5))
    return rarity if rarity > 0 else _LEAST


def _places(contents: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for content, count in contents:
        yield from ((content, row) for row in range(count))
