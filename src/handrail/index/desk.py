"""The index as one call uses it: lists files as policy allows, brings the index up to date, asks it, ranks."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from handrail.errors import Code, Problem
from handrail.index.ranking import Asked, Ranked, alike, fused, page, ranked
from handrail.index.shelf import SPARE, WORTH_TIDYING, RemadeError, Shelf
from handrail.index.store import Fresh, IndexStore, Known, by_content
from handrail.index.view import Hit, View
from handrail.index.words import names_of, pairs_of, terms_of
from handrail.output.redact import Redactor
from handrail.ports import IndexState, Passage, Progress, Searcher, Stat, Workspace
from handrail.queries import FileQuery
from handrail.words import Place, PlaceKind, Root

BATCH_FILES, BATCH_BYTES = 256, 4 << 20
AHEAD = 2  # batches under way: one is looked through by grammar while another is written
AT_ONCE = 16  # files read side by side: each is a wait for a thread
ENOUGH = 400  # parts that the ranking looks at
LOOKED_INTO = 120  # files of which it is seen how many words of the question they hold
RACY_NS = 2_000_000_000  # a file changed so shortly before it was read may change again unseen
_LOOKED = 200  # files between two breaths of the event loop


@dataclass(slots=True)
class Tally:
    """What bringing the index up to date came to."""

    updated: int = 0
    waiting: int = 0
    skipped: int = 0
    partial: bool = False
    vectors: bool = False
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
                tally, found = await self._answer(root, below, query, limit, progress)
            state = _sum(state, tally)
            passages += [_passage(root, item) for item in found]
        passages.sort(key=lambda passage: -passage.score)
        seconds = round(self.shelf.clock.monotonic() - began, 3)
        return passages[:limit], replace(state, seconds=seconds, lacks=self.shelf.lacks)

    async def _answer(
        self, root: Root, places: Sequence[Place], query: str, limit: int, progress: Progress
    ) -> tuple[Tally, list[Ranked]]:
        """Bring a root's index up to date and ask it; once more where its file was bad."""
        asked = _without(query, self.shelf.redactor)
        for _ in range(2):
            try:
                tally = await self._refresh(root, places, progress)
                return tally, await self.shelf.do(root, lambda store: _ask(store, asked, tally, limit))  # noqa: B023
            except RemadeError as error:
                bad = error
        raise Problem(Code.IO_ERROR, f"The code index cannot be used: {bad.__cause__}.", reason=str(bad.__cause__))

    async def _refresh(self, root: Root, places: Sequence[Place], progress: Progress) -> Tally:
        """See which files are new or changed, and read those."""
        began = self.shelf.clock.monotonic()
        paths, partial = await self._listed(places)
        known = await self.shelf.do(root, lambda store: store.known())
        tally = Tally(partial=partial)
        changed: list[tuple[bytes, Stat]] = []
        async for path, stat in self._looked_at(root, paths):
            before = known.get(path)
            if before is not None and before.complete and _same(before, stat):
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
        taking: list[asyncio.Task[None]] = []
        try:
            for start in range(0, len(changed), AT_ONCE):
                some = changed[start : start + AT_ONCE]
                read = await asyncio.gather(*(self._fresh(root, path, stat) for path, stat in some))
                batch += [fresh for fresh in read if fresh is not None]
                tally.skipped += read.count(None)
                done = start + len(some)
                full = len(batch) >= BATCH_FILES or sum(fresh.size for fresh in batch) >= BATCH_BYTES
                if not full and done < len(changed):
                    continue
                if len(taking) >= AHEAD:
                    await taking.pop(0)
                taking.append(asyncio.create_task(self._take(root, batch, tally)))
                batch = []
                progress(done, len(changed))
                if self.shelf.clock.monotonic() - began > self.shelf.bounds.seconds:
                    tally.waiting = len(changed) - done
                    break
            while taking:
                await taking.pop(0)
        finally:
            for task in taking:
                task.cancel()
            await asyncio.gather(*taking, return_exceptions=True)

    async def _take(self, root: Root, batch: list[Fresh], tally: Tally) -> None:
        """Take files in; while their definitions are looked for, others are written."""
        blanked = await asyncio.to_thread(lambda: list(_blanked(batch, self.shelf.redactor)))
        new = await self.shelf.do(root, lambda store: store.unknown(blanked))
        marks = await asyncio.to_thread(self.shelf.reader.marks, [(text, key[1]) for key, text in new.items()])
        found = dict(zip(new, marks, strict=True))
        tally.contents |= await self.shelf.do(root, lambda store: store.take(blanked, found))
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
        yield fresh if fresh.text is None else fresh._replace(text=_without(fresh.text, redactor))


def _without(text: str, redactor: Redactor) -> str:
    """A text without its secrets, line by line."""
    parts, at = [], 0
    for start, end in redactor.spans(text):
        parts += [text[at:start], " ", "\n" * text.count("\n", start, end)]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def _ask(store: IndexStore, query: str, tally: Tally, limit: int) -> list[Ranked]:
    """Ask the index of what this call may see, and rank: by words, and by vectors where there are any."""
    terms = terms_of(query)
    tally.vectors = store.embedding is not None
    if not terms or not tally.contents:
        return []
    asked = Asked(
        tuple(terms),
        names_of(query),
        about_tests=any(term.startswith("test") for term in terms),
        about_prose=any(term in ("doc", "docs", "documentation", "readme", "settings", "config") for term in terms),
    )
    holders = by_content(tally.contents)
    with store.view(tally.contents) as view:
        by_words = _by_words(view, query, asked, tally, holders)
        if store.embedding is None:
            return page(by_words, limit)
        near = view.near(store.embedding, query, ENOUGH)
    return page(fused(by_words, alike(asked, _held_by(near, holders))), limit)


def _by_words(
    view: View, query: str, asked: Asked, tally: Tally, holders: Mapping[int, Sequence[bytes]]
) -> list[Ranked]:
    wanted = [*asked.terms, *pairs_of(query)]
    hits = _held_by(view.hits(wanted, ENOUGH), holders)
    named = dict(view.named_files(wanted, 2 * ENOUGH))
    there = {path for path, _ in hits}
    for path in [path for path in named if path not in there][:ENOUGH]:
        first = view.first_part(tally.contents[path])
        if first is not None:
            hits.append((path, first))
    contents = list(dict.fromkeys(hit.content for _, hit in hits))[:LOOKED_INTO]
    return ranked(asked, hits, named, view.holding(contents, asked.terms))


def _held_by(hits: Sequence[Hit], holders: Mapping[int, Sequence[bytes]]) -> list[tuple[bytes, Hit]]:
    return [(path, hit) for hit in hits for path in holders.get(hit.content, ())]


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
        vectors=state.vectors or tally.vectors,
    )


def _by_root(places: Sequence[Place]) -> Iterator[tuple[Root, list[Place]]]:
    found: dict[str, tuple[Root, list[Place]]] = {}
    for place in places:
        found.setdefault(place.root.path, (place.root, []))[1].append(place)
    yield from found.values()
