"""The whole of what a cut answer shows a part of, gathered by further calls; it becomes an artifact of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from handrail.dialects._dialect import Args, Rest
from handrail.words import Json, Outcome

MOST_PAGES = 40


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
