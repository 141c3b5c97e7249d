"""list_dir: what lies in a folder, and below it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail import strict_json
from handrail.catalog import ReadsBelow, at, tool
from handrail.errors import Code, Problem
from handrail.ports import Entry, Limits, Listing, Secrets, Spill, Workspace
from handrail.tools.fs._kept import keep_whole, leave_room
from handrail.tools.fs._standing import missing
from handrail.tools.fs._times import utc
from handrail.words import Answer, Evidence, Place, PlaceKind, Truncation, noun

Glob = Annotated[str, Field(max_length=1024)]
Sort = Literal["name", "mtime", "size"]
_MOST = 100_000  # entries that are looked at
_MOST_WIDE = 4  # bytes of a character
_DIRECTORY, _FILE = PlaceKind.DIRECTORY, PlaceKind.FILE
_HERE = at(".")


@noun
class DirEntry:
    """One thing in a folder; its name is relative to that folder."""

    name: str
    type: str  # file | directory | link | other
    size: int
    mtime: str  # UTC


@dataclass(frozen=True, slots=True)
class DirListing:
    """What lies in a folder, and how many entries are not shown, by reason."""

    path: str
    entries: list[DirEntry]
    total: int  # entries that fit the call
    left_out: int  # of these, after the last one shown
    hidden: int  # names that start with a dot
    ignored: int  # by `ignore`
    protected: int
    unreadable: int
    next_cursor: str | None


@tool(risk="low")
async def list_dir(
    files: Workspace,
    limits: Limits,
    secrets: Secrets,
    spill: Spill,
    path: ReadsBelow = _HERE,
    depth: Annotated[int, Field(ge=1, le=10), "how many folders deep"] = 1,
    limit: Annotated[int, Field(ge=1), "how many entries"] = 500,
    cursor: Annotated[str | None, "goes on where an earlier call ended"] = None,
    hidden: Annotated[bool, "names that start with a dot, too"] = False,
    ignore: Annotated[list[Glob] | None, Field(max_length=100), "globs of what to leave out"] = None,
    sort: Annotated[Sort, "name; mtime: newest first; size: largest first"] = "name",
    keep: Annotated[bool, "write all entries to a file of the run where this page is not all"] = False,
) -> Answer[DirListing]:
    """List a folder: names, types, sizes and times; deeper with `depth`. Says what was left out and why."""
    if path.kind is PlaceKind.MISSING:
        raise missing(files, path, "list_dir")
    if path.kind is not PlaceKind.DIRECTORY:
        raise Problem(
            Code.NOT_A_DIRECTORY,
            f"{path.shown} is no folder but a {path.kind.value}.",
            next_call={"tool": "read_file", "args": {"path": path.shown}},
        )
    after = None if cursor is None else _position(cursor, sort)
    found = await files.list(path, depth=depth, hidden=hidden, ignore=ignore or (), limit=_MOST)
    entries = sorted(found.entries, key=_KEYS[sort]) if sort != "name" else list(found.entries)
    start = 0 if after is None else _after(entries, after, _KEYS[sort])
    page = _fitting(entries[start:], limit, leave_room(limits) if keep else limits)
    args = {"depth": depth, "limit": limit, "hidden": hidden, "ignore": ignore, "sort": sort}
    answer = _answer(path, found, len(entries), start, page, sort, args)
    if keep and cursor is None and answer.truncation is not None:
        return keep_whole(answer, secrets.text("".join(_told(entries)[1])), "list_dir", spill)
    return answer


# ── order and pages ──────────────────────────────────────────────────────────────────────────

Key = Callable[[Entry], Any]
_KEYS: dict[str, Key] = {
    # As the workspace gives them: each folder is followed by what lies in it.
    "name": lambda entry: entry.path.split("/"),
    "mtime": lambda entry: (-entry.mtime_ns, entry.path),
    "size": lambda entry: (-entry.size, entry.path),
}


def _position(cursor: str, sort: Sort) -> Any:
    """Read a cursor; it holds for the order it was made in."""
    try:
        made_for, *key = strict_json.loads(cursor)
    except (ValueError, TypeError):
        raise Problem(
            Code.INVALID_ARGS, "`cursor` is not one that list_dir gave; leave it out to start over."
        ) from None
    shape = [str] * len(key) if sort == "name" else [int, str]
    if made_for != sort or not key or [type(part) for part in key] != shape:
        raise Problem(
            Code.INVALID_ARGS, f"`cursor` was made for another `sort` than {sort!r}; leave it out to start over."
        )
    return key if sort == "name" else tuple(key)


def _after(entries: list[Entry], position: Any, key: Key) -> int:
    """The first entry after a position, whatever was added or removed since."""
    return next((index for index, entry in enumerate(entries) if key(entry) > position), len(entries))


def _fitting(entries: list[Entry], limit: int, limits: Limits) -> list[Entry]:
    """As many entries as the limits take, with room for the last line."""
    page, room = entries[: min(limit, limits.max_output_lines - 1)], limits.max_output_bytes - 1000
    if len("".join([entry.path for entry in page])) * _MOST_WIDE + len(page) * 60 <= room:
        return page
    for index, entry in enumerate(page):
        room -= len(entry.path.encode("utf-8", "surrogateescape")) + 60
        if room < 0 and index:
            return page[:index]
    return page


# ── what is told ─────────────────────────────────────────────────────────────────────────────


def _answer(
    path: Place, found: Listing, total: int, start: int, page: list[Entry], sort: Sort, args: dict[str, Any]
) -> Answer[DirListing]:
    left = total - start - len(page)
    cursor = None
    if left and page:
        key = _KEYS[sort](page[-1])
        cursor = json.dumps([sort, *key], ensure_ascii=False)
    entries, lines = _told(page)
    counts = found.hidden, found.ignored, found.protected, found.unreadable
    result = DirListing(path.shown, entries, total, left, *counts, cursor)
    said = _said(result, start)
    content = f"{''.join(lines)}[{said}{_onward(result, args)}]"
    cut = Truncation("entries", len(page), total, cursor) if left else None
    return Answer(result, said, content, (Evidence("file", path.shown, said),), cut)


def _told(page: list[Entry]) -> tuple[list[DirEntry], list[str]]:
    """Each entry, and its line; there may be thousands."""
    entries, lines = list[DirEntry](), list[str]()
    for item in page:
        name, kind, size, mtime = item.path, item.kind, item.size, utc(item.mtime_ns)
        entries.append(DirEntry(name, kind._value_, size, mtime))
        shown = name if name.isprintable() else json.dumps(name)
        if kind is _FILE:
            lines.append(f"{shown}  {size}  {mtime}\n")
        elif kind is _DIRECTORY:
            lines.append(f"{shown}/\n")
        else:
            lines.append(f"{shown}  {size}  {mtime}  {kind._value_}\n")
    return entries, lines


def _said(result: DirListing, start: int) -> str:
    if not result.entries:
        text = "Nothing more at this cursor" if start else f"Nothing to show in {result.path}"
    elif result.left_out or start:
        text = f"Entries {start + 1}-{start + len(result.entries)} of {result.total} in {result.path}"
    else:
        text = f"{result.total} {'entry' if result.total == 1 else 'entries'} in {result.path}"
    why = {
        "hidden": result.hidden,
        "ignored": result.ignored,
        "protected": result.protected,
        "unreadable": result.unreadable,
    }
    if result.total >= _MOST:
        text += f" (no more than {_MOST} are looked at; list a folder below, or less deep)"
    missed = ", ".join(f"{count} {name}" for name, count in why.items() if count)
    return f"{text}; not shown: {missed}" if missed else text


def _onward(result: DirListing, args: dict[str, Any]) -> str:
    if result.next_cursor is None:
        return ""
    usual = {"depth": 1, "limit": 500, "hidden": False, "ignore": None, "sort": "name"}
    given = {name: value for name, value in args.items() if value != usual[name]}
    again = {"path": result.path, **given, "cursor": result.next_cursor}
    return f"; go on with list_dir {json.dumps(again, ensure_ascii=False)}"
