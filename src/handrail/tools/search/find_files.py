"""find_files: list files by a glob, with git's ignore rules."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from handrail.catalog import ReadsBelow, at, tool
from handrail.errors import Code, Problem
from handrail.ports import Limits, Searcher, Workspace
from handrail.queries import FileQuery, FilesFound
from handrail.tools.search._globs import read_glob
from handrail.tools.search._pages import listed
from handrail.tools.search._shown import call_text, cursor_of, many, prefix_of, read_cursor, shown_paths, where
from handrail.words import Answer, Evidence, Place, PlaceKind, Truncation, noun

HERE = at(".")


@noun
class FoundPaths:
    """Paths as a caller would ask for them, in order."""

    paths: list[str]
    total: int | None  # where all were looked at
    hidden_by_ignore: int | None  # where it was worth counting
    next_cursor: str | None


@tool(risk="low", timeout_seconds=130)
async def find_files(
    searcher: Searcher,
    files: Workspace,
    limits: Limits,
    pattern: Annotated[
        str, Field(min_length=1, max_length=1024), "Glob: `*.py` at any depth, `src/**/test_*.py`, `{a,b}.toml`"
    ],
    path: Annotated[ReadsBelow, "Folder to search below"] = HERE,
    depth: Annotated[int | None, Field(ge=1, le=256), "How many levels down"] = None,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 1000,
    cursor: Annotated[str | None, Field(max_length=8192), "Where the last page ended"] = None,
    type: Annotated[  # noqa: A002
        Literal["file", "dir", "any"], "`dir`: folders that hold at least one file; `any`: files and all folders"
    ] = "file",
    hidden: Annotated[bool, "Also names that begin with a dot"] = False,
    respect_ignore: Annotated[bool, "Leave out what .gitignore files name"] = True,
    sort: Annotated[Literal["path", "mtime", "size"], "mtime: newest first; size: largest first"] = "path",
) -> Answer[FoundPaths]:
    """Find files by name below a folder."""
    if path.kind is not PlaceKind.DIRECTORY:
        raise _no_folder(files, path)
    glob = read_glob(pattern)
    query = FileQuery(
        fits=glob.fits,
        name_glob=glob.name_glob if type == "file" else "",
        hidden=hidden or glob.hidden,
        respect_ignore=respect_ignore,
        depth=depth,
        sort=sort,
        folders=type != "file",
        both=type == "any",
        after=read_cursor(cursor) if cursor and sort == "path" else "",
        skip=_skipped(cursor) if cursor and sort != "path" else 0,
        limit=limit,
        timeout_seconds=120.0,
    )
    found = await searcher.files(path, query)
    return _answer(_Search(query, path, pattern, cursor, hidden), found, limits)


@noun
class _Search:
    query: FileQuery
    place: Place
    pattern: str
    cursor: str | None
    hidden: bool

    @property
    def noun(self) -> str:
        if self.query.both:
            return "path"
        return "folder" if self.query.folders else "file"

    @property
    def type(self) -> str | None:
        """Give the argument that asked for folders."""
        if self.query.both:
            return "any"
        return "dir" if self.query.folders else None

    def call(self, **changed: Any) -> str:
        """Write this call with something changed."""
        query = self.query
        args = {
            "pattern": self.pattern,
            "path": None if self.place.asked in ("", ".") else self.place.asked,
            "depth": query.depth,
            "limit": None if query.limit == 1000 else query.limit,
            "type": self.type,
            "hidden": self.hidden or None,
            "respect_ignore": None if query.respect_ignore else False,
            "sort": None if query.sort == "path" else query.sort,
        }
        return call_text("find_files", {**args, **changed})


def _answer(search: _Search, found: FilesFound, limits: Limits) -> Answer[FoundPaths]:
    prefix = prefix_of(search.place)
    page = listed(shown_paths(prefix, found.paths), limits)
    following = None
    if page.shown and (found.more or page.shown < len(found.paths)):
        by_path = search.query.sort == "path"
        following = cursor_of(found.paths[page.shown - 1]) if by_path else str(search.query.skip + page.shown)
    result = FoundPaths(page.lines, found.total, found.ignored, following)
    summary = _summary(search, result)
    notes = [*_next_note(search, result), *_ignore_note(search, result)]
    return Answer(
        result,
        summary=summary,
        content="\n".join([*(page.lines or [summary]), *notes]),
        evidence=(Evidence("file", search.place.shown, summary),),
        truncation=Truncation("entries", page.shown, found.total, following) if following is not None else None,
    )


def _summary(search: _Search, result: FoundPaths) -> str:
    place = where(search.place)
    if result.paths:
        more = ", more follow" * bool(result.next_cursor)
        return f"{many(len(result.paths), search.noun)} below {place} for {search.pattern!r}{more}"
    if search.cursor:
        return f"Nothing more at cursor {search.cursor!r}: the page before was the last."
    return f"No {search.noun} below {place} fits {search.pattern!r}."


def _next_note(search: _Search, result: FoundPaths) -> list[str]:
    if result.next_cursor is None:
        return []
    of = f" of {result.total} shown." if result.total is not None else " shown, of more that were not counted."
    return [f"[{many(len(result.paths), search.noun)}{of} Next: {search.call(cursor=result.next_cursor)}]"]


def _ignore_note(search: _Search, result: FoundPaths) -> list[str]:
    """Say what ignore rules hide, on the first page and the last."""
    between = search.cursor and result.next_cursor
    if not search.query.respect_ignore or between or result.hidden_by_ignore == 0:
        return []
    count = result.hidden_by_ignore
    told = (
        "Files hidden by ignore rules were not counted."
        if count is None
        else f"{many(count, 'more is', 'more are')} hidden by ignore rules."
    )
    return [f"[{told} All: {search.call(respect_ignore=False)}]"]


def _skipped(cursor: str) -> int:
    if not cursor.isdigit() or len(cursor) > 9:
        raise Problem(Code.INVALID_ARGS, f"The cursor {cursor!r} is not one of this order; leave it out to start anew.")
    return int(cursor)


def _no_folder(files: Workspace, place: Place) -> Problem:
    if place.kind is PlaceKind.MISSING:
        near = files.near(place)
        hint = f" Near: {', '.join(near)}" if near else ""
        return Problem(Code.NOT_FOUND, f"{place.shown} does not exist.{hint}", near=near)
    text = f"{place.shown} is no folder; files are found below one."
    return Problem(Code.NOT_A_DIRECTORY, text, next_call={"tool": "stat_path", "args": {"path": place.shown}})
