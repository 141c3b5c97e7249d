"""The index as one call uses it: lists files as policy allows, brings the index up to date, asks it, ranks."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from handrail.errors import Code, Problem
from handrail.index.ranking import Asked, Ranked, ranked
from handrail.index.store import Fresh, Hit, IndexStore, Known, by_content
from handrail.index.words import names_of, pairs_of, terms_of
from handrail.output.redact import Redactor
from handrail.ports import Clock, IndexState, Passage, Progress, Searcher, Stat, Workspace
from handrail.queries import FileQuery
from handrail.words import Place, PlaceKind, Root

T = TypeVar("T")
BATCH_FILES, BATCH_BYTES = 256, 4 << 20
ENOUGH = 400  # parts that the ranking looks at
LOOKED_INTO = 120  # files of which it is seen how many words of the question they hold
RACY_NS = 2_000_000_000  # a file changed so shortly before it was read may change again unseen
SPARE = 0.5  # of the index may be about files and contents that are gone, before they are dropped
WORTH_TIDYING = 2000  # contents
_LOOKED = 200  # files between two breaths of the event loop


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is indexed, and how long bringing it up to date may take."""

    max_file_bytes: int = 1 << 20
    max_files: int = 100_000
    seconds: float = 100.0
    enabled: bool = True


class Shelf:
    """The indexes of all roots, as long as a runtime is open."""

    def __init__(self, folder: Path, redactor: Redactor, clock: Clock, bounds: Bounds) -> None:
        self.folder, self.redactor, self.clock, self.bounds = folder, redactor, clock, bounds
        self._open: dict[str, IndexStore] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._lock = threading.Lock()

    def turn(self, root: Root) -> asyncio.Lock:
        """Calls of one runtime take turns at a root's index."""
        return self._turns.setdefault(root.path, asyncio.Lock())

    async def do(self, root: Root, work: Callable[[IndexStore], T]) -> T:
        """Work on a root's index in a thread; IO_ERROR where it cannot be used."""

        def guarded() -> T:
            with self._lock, failing():
                return work(self._store(root))

        return await asyncio.to_thread(guarded)

    def _store(self, root: Root) -> IndexStore:
        store = self._open.get(root.path)
        if store is None:
            own = root.name.startswith("run:")  # gone with the run, so not worth a file
            name = hashlib.sha256(os.fsencode(root.path)).hexdigest()[:32]
            store = self._open[root.path] = IndexStore(None if own else self.folder / f"{name}.db")
            if store.waste(WORTH_TIDYING) > SPARE:
                store.empty()
        return store

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()


@contextmanager
def failing() -> Iterator[None]:
    """Turn what the disk or the database says into one problem."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise Problem(Code.IO_ERROR, f"The code index cannot be used: {error}.", reason=str(error)) from error


@dataclass(slots=True)
class Tally:
    """What bringing the index up to date came to."""

    updated: int = 0
    waiting: int = 0
    skipped: int = 0
    partial: bool = False
    contents: dict[bytes, int] = field(default_factory=dict)  # of the files that may be shown


@dataclass(frozen=True, slots=True)
class IndexDesk:
    """Satisfies `ports.Index` for one call."""

    shelf: Shelf
    files: Workspace
    searcher: Searcher

    async def search(
        self, query: str, places: Sequence[Place], limit: int, progress: Progress
    ) -> tuple[Sequence[Passage], IndexState]:
        """Bring the index up to date below the places, and give the parts of files that fit best."""
        if not self.shelf.bounds.enabled:
            raise Problem(Code.IO_ERROR, "No code index is kept here (search.index = false).")
        began = self.shelf.clock.monotonic()
        passages: list[Passage] = []
        state = IndexState(0, 0)
        for root, below in _by_root(places):
            async with self.shelf.turn(root):
                tally = await self._refresh(root, below, progress, began)
                state = _sum(state, tally)
                if tally.contents:
                    found = await self.shelf.do(root, lambda store, tally=tally: _ask(store, query, tally, limit))  # type: ignore[misc]
                    passages += [_passage(root, item) for item in found]
        passages.sort(key=lambda passage: -passage.score)
        seconds = round(self.shelf.clock.monotonic() - began, 3)
        return passages[:limit], replace(state, seconds=seconds)

    async def _refresh(self, root: Root, places: Sequence[Place], progress: Progress, began: float) -> Tally:
        """See which files are new or changed, and read those."""
        paths, partial = await self._listed(places)
        known = await self.shelf.do(root, lambda store: store.known())
        tally = Tally(partial=partial)
        changed: list[tuple[bytes, Stat]] = []
        async for path, stat in self._looked_at(root, paths):
            before = known.get(path)
            if before is not None and _same(before, stat):
                tally.contents[path] = before.content
            elif stat.size <= self.shelf.bounds.max_file_bytes:
                changed.append((path, stat))
            else:
                tally.skipped += 1
        await self._read(root, changed, tally, progress, began)
        await self._tidy(root, places, known, tally)
        return tally

    async def _listed(self, places: Sequence[Place]) -> tuple[list[str], bool]:
        """Every file below the places that this call may see, as paths beneath the root; whether there are more."""
        found: dict[str, None] = {}
        more = False
        for place in places:
            if place.kind is PlaceKind.FILE:
                found[place.path] = None
                continue
            base = f"{place.path}/" if place.path else ""
            query = FileQuery(limit=self.shelf.bounds.max_files, timeout_seconds=60.0)
            listed = await self.searcher.files(place, query)
            found |= dict.fromkeys(f"{base}{path}" for path in listed.paths)
            more = more or listed.more
        return list(found), more

    async def _looked_at(self, root: Root, paths: Sequence[str]) -> AsyncIterator[tuple[bytes, Stat]]:
        for number, path in enumerate(paths):
            if number % _LOOKED == _LOOKED - 1:
                await asyncio.sleep(0)
            try:
                stat = await self.files.stat(Place(root, path, PlaceKind.FILE, path))
            except Problem:
                continue  # gone in the meantime
            if stat.kind is PlaceKind.FILE:
                yield os.fsencode(path), stat

    async def _read(
        self, root: Root, changed: Sequence[tuple[bytes, Stat]], tally: Tally, progress: Progress, began: float
    ) -> None:
        """Read changed files and take them in, some at a time, for as long as there is time."""
        batch: list[Fresh] = []
        size = 0
        for number, (path, stat) in enumerate(changed):
            fresh = await self._fresh(root, path, stat)
            if fresh is None:
                tally.skipped += 1
                continue
            batch.append(fresh)
            size += fresh.size
            if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                await self._take(root, batch, tally)
                batch, size = [], 0
                progress(number + 1, len(changed))
                if self.shelf.clock.monotonic() - began > self.shelf.bounds.seconds:
                    tally.waiting = len(changed) - number - 1
                    return
        if batch:
            await self._take(root, batch, tally)

    async def _take(self, root: Root, batch: list[Fresh], tally: Tally) -> None:
        tally.contents |= await self.shelf.do(root, lambda store: store.take(_blanked(batch, self.shelf.redactor)))
        tally.updated += len(batch)

    async def _fresh(self, root: Root, path: bytes, stat: Stat) -> Fresh | None:
        checked = int(self.shelf.clock.now() * 1e9)
        try:
            place = Place(root, os.fsdecode(path), PlaceKind.FILE)
            data = (await self.files.read(place, self.shelf.bounds.max_file_bytes)).data
        except Problem:
            return None
        text = None if b"\0" in data[:8192] else data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        digest = hashlib.sha256(data).digest()
        return Fresh(path, stat.size, stat.mtime_ns, stat.inode, checked, digest, text)

    async def _tidy(self, root: Root, places: Sequence[Place], known: dict[bytes, Known], tally: Tally) -> None:
        """Drop files that are gone, once they are many: those that this call may not see come back cheaply."""
        if tally.waiting or not any(place.path == "" for place in places):
            return
        gone = [path for path in known if path not in tally.contents]
        if len(gone) > SPARE * (len(tally.contents) + WORTH_TIDYING):
            await self.shelf.do(root, lambda store: store.drop(gone))


def _blanked(batch: Sequence[Fresh], redactor: Redactor) -> Iterator[Fresh]:
    """The files with secrets blanked out line by line: no word of one reaches the index."""
    for fresh in batch:
        spans = redactor.spans(fresh.text) if fresh.text else []
        if not spans:
            yield fresh
            continue
        text, parts, at = fresh.text or "", [], 0
        for start, end in spans:
            parts += [text[at:start], " ", "\n" * text.count("\n", start, end)]
            at = end
        yield fresh._replace(text="".join([*parts, text[at:]]))


def _ask(store: IndexStore, query: str, tally: Tally, limit: int) -> list[Ranked]:
    """Ask the index, leave out what this call may not see, and rank."""
    terms = terms_of(query)
    if not terms:
        return []
    asked = Asked(
        tuple(terms),
        names_of(query),
        about_tests=any(term.startswith("test") for term in terms),
        about_prose=any(term in ("doc", "docs", "documentation", "readme", "settings", "config") for term in terms),
    )
    wanted = [*terms, *pairs_of(query)]
    holders = by_content(tally.contents)
    hits: list[tuple[bytes, Hit]] = []
    for hit in store.hits(wanted):
        hits += [(path, hit) for path in holders.get(hit.content, ())]
        if len(hits) >= max(ENOUGH, limit):
            break
    named = {path: score for path, score in store.named_files(wanted, 2 * ENOUGH) if path in tally.contents}
    there = {path for path, _ in hits}
    for path in [path for path in named if path not in there][:ENOUGH]:
        first = store.first_part(tally.contents[path])
        if first is not None:
            hits.append((path, first))
    contents = list(dict.fromkeys(hit.content for _, hit in hits))[:LOOKED_INTO]
    return ranked(asked, hits, named, store.holding(contents, terms), limit)


def _passage(root: Root, item: Ranked) -> Passage:
    place = Place(root, os.fsdecode(item.path), PlaceKind.FILE)
    return Passage(place, item.first, item.last, item.symbol, round(item.score, 4))


def _same(known: Known, stat: Stat) -> bool:
    racy = stat.mtime_ns > known.checked_ns - RACY_NS
    return not racy and (known.size, known.mtime_ns, known.inode) == (stat.size, stat.mtime_ns, stat.inode)


def _sum(state: IndexState, tally: Tally) -> IndexState:
    return IndexState(
        state.files + len(tally.contents),
        state.updated + tally.updated,
        state.waiting + tally.waiting,
        state.skipped + tally.skipped,
        partial=state.partial or tally.partial,
    )


def _by_root(places: Sequence[Place]) -> Iterator[tuple[Root, list[Place]]]:
    found: dict[str, tuple[Root, list[Place]]] = {}
    for place in places:
        found.setdefault(place.root.path, (place.root, []))[1].append(place)
    yield from found.values()
