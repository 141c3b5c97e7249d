"""codebase_search: find the parts of files that answer a question, by an index of their words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from handrail.catalog import ReadsBelow, at, tool
from handrail.errors import Code, Problem
from handrail.ports import Clock, Index, IndexState, Limits, Passage, Screen, Searcher, Secrets, Workspace
from handrail.tools.search._fallback import by_grep
from handrail.tools.search._shown import call_text, many, shown_path
from handrail.words import Answer, Evidence, Place, PlaceKind, Truncation

HERE = [at(".")]
_SECONDS = 150.0  # a first index of a large tree takes its time
_NOTED_AFTER, _NOTED_EVERY = 2.0, 5.0  # seconds until a person is told how far indexing is
_MAX_LINES = 24  # of a place that is shown
_LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Spot:
    """A part of a file that fits; `lines` are the first and last, from 1."""

    file: str
    lines: tuple[int, int]
    score: float
    text: str
    symbol: str | None


@dataclass(frozen=True, slots=True)
class Freshness:
    """How the answer was found, and how fresh the index was."""

    ranking: str  # lexical | hybrid (words and vectors) | grep
    files: int
    updated: int
    waiting: int
    skipped: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Spots:
    """Places in order, the best first."""

    places: list[Spot]
    index: Freshness


@tool(risk="low", timeout_seconds=_SECONDS)
async def codebase_search(
    index: Index,
    searcher: Searcher,
    files: Workspace,
    secrets: Secrets,
    screen: Screen,
    clock: Clock,
    limits: Limits,
    query: Annotated[str, Field(min_length=1, max_length=2000), "A question or words; names of functions help"],
    paths: Annotated[list[ReadsBelow], Field(min_length=1, max_length=20), "Files or folders to search below"] = HERE,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
) -> Answer[Spots]:
    """Find the places in the code that answer a question, best first. Ignored and hidden files are skipped."""
    for place in paths:
        if place.kind is PlaceKind.MISSING:
            near = files.near(place)
            hint = f" Near: {', '.join(near)}" if near else ""
            raise Problem(Code.NOT_FOUND, f"{place.shown} does not exist.{hint}", path=place.shown, near=list(near))
    warnings: tuple[str, ...] = ()
    try:
        found, state = await index.search(query, paths, limit, _progress(screen, clock))
        ranking = "hybrid" if state.vectors else "lexical"
        warnings = tuple(_warnings(state))
    except Problem as problem:
        if problem.code is not Code.IO_ERROR:
            raise
        warnings = (f"{problem.message} The answer comes from grep instead, which ranks less well.",)
        found, state = await by_grep(query, paths, limit, searcher), IndexState(0, 0)
        ranking = "grep"
    spots = [spot for passage in found if (spot := await _spot(passage, files, secrets, limits)) is not None]
    fresh = Freshness(ranking, state.files, state.updated, state.waiting, state.skipped, state.seconds)
    return _answer(query, paths, Spots(spots, fresh), warnings, limits)


def _warnings(state: IndexState) -> Iterator[str]:
    if state.partial:
        yield "There are more files than search.max_files lets the index cover; name deeper paths."
    if state.lacks:
        yield f'search.vectors is "on", but {state.lacks}. The answer is ranked by words alone.'


def _progress(screen: Screen, clock: Clock) -> Callable[[int, int], None]:
    """Tell a person how far a long indexing is; a short one is over before anybody looks."""
    began = last = clock.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        now = clock.monotonic()
        if now - began >= _NOTED_AFTER and (now - last >= _NOTED_EVERY or last == began) and done < total:
            last = now
            screen.show(
                {"content": f"Indexing: {done} of {total} files", "level": "progress", "title": "codebase_search"}
            )

    return show


async def _spot(passage: Passage, files: Workspace, secrets: Secrets, limits: Limits) -> Spot | None:
    """Read what is to be shown through the call's own handles; None where it is not there any more."""
    try:
        data = (await files.read(passage.place, limits.max_read_bytes)).data
    except Problem:
        return None
    lines = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")
    first, last = passage.first, min(passage.last, passage.first + _MAX_LINES - 1, len(lines))
    if first > len(lines):
        return None
    before, after = "\n".join(lines[: first - 1]), "\n".join(lines[last:])
    text = "\n".join(lines[first - 1 : last])
    shown = secrets.excerpt(f"{before}\n" if before else "", text, f"\n{after}" if after else "")
    cut = "\n".join(f"{line[:_LINE_CHARS]}{'…' * (len(line) > _LINE_CHARS)}" for line in shown.split("\n"))
    name = shown_path("", passage.place.shown)
    return Spot(name, (first, min(passage.last, len(lines))), passage.score, cut, passage.symbol or None)


def _answer(
    query: str, paths: Sequence[Place], result: Spots, warnings: tuple[str, ...], limits: Limits
) -> Answer[Spots]:
    count = many(len(result.places), "place")
    summary = f"{count} for {query!r}" if result.places else f"Nothing fits {query!r}."
    blocks: list[str] = []
    room = limits.max_output_bytes - 1024
    for spot in result.places:
        block = _block(spot)
        room -= len(block.encode("utf-8", "replace")) + 1
        if room < 0 and blocks:
            break
        blocks.append(block)
    cut = Truncation("entries", len(blocks), len(result.places)) if len(blocks) < len(result.places) else None
    return Answer(
        result,
        summary=summary,
        content="\n\n".join([*(blocks or [summary]), _freshness(result.index)]),
        evidence=tuple(Evidence("file", place.shown, summary) for place in paths[:1]),
        truncation=cut,
        warnings=warnings,
    )


def _block(spot: Spot) -> str:
    symbol = f" {spot.symbol}" if spot.symbol else ""
    first, last = spot.lines
    text = spot.text.split("\n")
    lines = [f"{first + number}:{line}" for number, line in enumerate(text)]
    if first + len(text) - 1 < last:
        more = {"path": spot.file, "offset": first + len(text), "limit": last - first - len(text) + 1}
        lines.append(f"[More: {call_text('read_file', more)}]")
    return "\n".join([f"{spot.file}:{first}-{last}{symbol} (score {spot.score:g})", *lines])


def _freshness(index: Freshness) -> str:
    if index.ranking == "grep":
        return "[Found by grep, without an index]"
    state = (
        f"{many(index.files, 'file')}, {index.updated} read anew"
        if index.updated
        else f"{many(index.files, 'file')}, up to date"
    )
    waiting = f"; {index.waiting} more wait to be indexed, so search again" if index.waiting else ""
    skipped = f"; {index.skipped} too large or unreadable" if index.skipped else ""
    return f"[{index.ranking.capitalize()} index: {state}{waiting}{skipped}]"
