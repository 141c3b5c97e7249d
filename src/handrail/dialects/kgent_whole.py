"""The whole of what a cut answer shows a part of, gathered by further calls; it becomes an artifact of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from handrail.dialects._dialect import Args, Rest
from handrail.errors import Code, Problem
from handrail.words import Json, Outcome

MOST_PAGES = 40
_GOES_ON = ("offset", "limit", "column", "byte_offset", "byte_limit")


def goes_on(args: Args) -> Args:
    """The arguments that a cursor of read_file stands for."""
    cursor = args.pop("cursor", None)
    if cursor is None:
        return args
    try:
        part = json.loads(cursor)
    except (ValueError, RecursionError):
        part = None
    if not isinstance(part, dict) or not set(part) <= set(_GOES_ON):
        raise Problem(Code.INVALID_ARGS, "`cursor` is none that read_file gave; leave it out to start over.")
    return {**args, **part}


def following(cursor: str | None) -> str | None:
    """The cursor that goes on with a file, from ours, which names the path once more; none where it leads nowhere."""
    try:
        part = json.loads(cursor or "{}")
    except ValueError:  # a secret in it was hidden
        return None
    return json.dumps({name: part[name] for name in _GOES_ON if name in part}) if part else None


def as_cursor(args: Args) -> Args | None:
    """Our arguments in the document's: what names a part stands in the cursor."""
    part = {name: args[name] for name in _GOES_ON if name in args}
    if set(args) - {"path", *part}:
        return None
    return {"path": args["path"], **({"cursor": json.dumps(part)} if part else {})}


def of_file(_: Outcome, args: Mapping[str, Json]) -> Rest | None:
    """A file's whole text; what the run keeps already is its own whole."""
    return None if str(args.get("path")).startswith("run:") else _file(args)


def _file(args: Mapping[str, Json]) -> Rest:
    outcome = yield "read_file", {"path": args["path"], "whole": True}
    return outcome.data["text"] if outcome.ok and outcome.data is not None else ""


def of_matches(outcome: Outcome, args: Mapping[str, Json]) -> Rest:
    """All matches, a line each."""
    asked = {"pattern": args["pattern"], "path": args["path"]}
    return _pages(outcome, "grep", asked, lambda data: _matches(data["matches"]))


def of_entries(outcome: Outcome, args: Mapping[str, Json]) -> Rest:
    """All entries of a folder, a line each."""
    return _pages(outcome, "list_dir", {"path": args["path"]}, lambda data: _entries(data["entries"]))


def _pages(outcome: Outcome, tool: str, asked: Args, lines: Callable[[Any], str]) -> Rest:
    """Page after page; a bound, or a page that fails, ends it, and the text says so."""
    told, cursor = [lines(outcome.data)], outcome.data["next_cursor"]
    for _ in range(MOST_PAGES):
        if cursor is None:
            return "".join(told)
        page = yield tool, {**asked, "cursor": cursor}
        if not page.ok or page.data is None:
            break
        told.append(lines(page.data))
        cursor = page.data["next_cursor"]
    if cursor is not None:
        told.append("[more follow; ask for less at once]\n")
    return "".join(told)


def _matches(matches: Any) -> str:
    return "".join(f"{item['file']}:{item['line']}:{item['text']}\n" for item in matches)


def _entries(entries: Any) -> str:
    return "".join(f"{item['name']}{'/' if item['type'] == 'directory' else ''}\n" for item in entries)
