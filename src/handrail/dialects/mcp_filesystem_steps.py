"""What one call of the reference filesystem server stands for where that is several of ours: files, pages, depths."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from handrail.dialects._dialect import Args, Steps
from handrail.dialects._telling import excerpt
from handrail.dialects.mcp_filesystem_globs import Glob, leaving_out, read_glob
from handrail.errors import Code
from handrail.words import Outcome, Status, Truncation

DEEPEST = 10  # folders that one call of list_dir goes down
MOST_FILES = 100  # that one call reads
MOST_PAGES = 25  # of all lists of one call together
MOST_CHARS = 16 * 1024 * 1024  # of all files that one call reads
MOST_IGNORED = 100  # globs that one call of list_dir leaves out by itself
PAGE = 2000
_NAME = re.compile(r"[\w~-][\w.~-]*")  # a glob that is a plain name
_DETOUR = re.compile(r"/\.{0,2}(?:/|$)")

Told = Generator[tuple[str, Args], Outcome, str]
Paged = Generator[tuple[str, Args], Outcome, tuple[list[Any], Outcome]]


# ── lines of a file ──────────────────────────────────────────────────────────────────────────

# How a line ends that is too long to be shown; who calls it so has no such arguments.
_GOES_ON = re.compile(r"( … \[line \d+ goes on): read_file \{[^\n]*\}\]")


def part(name: str, args: Args) -> Steps | None:
    """Read the first or the last lines of a file, all that are asked for; None: the whole file, or a wrong call."""
    head, tail = args.get("head") or 0, args.get("tail") or 0
    if bool(head) is bool(tail):
        return None
    return _lines(name, args["path"], head or tail, last=not head)


def _lines(name: str, path: str, count: int, *, last: bool) -> Steps:
    """A part as we show it where that is enough of it, else cut from the whole; once a person was asked, what is there.

    Where the file is too large for that, too, the part has to do, and says so.
    """
    found = yield "read_file", {"path": path, "tail" if last else "limit": count}
    if found.data is not None and found.decision == "allow" and not _holds(found.data, count):
        whole = yield "read_file", {"path": path, "whole": True}
        found = found if whole.data is None else whole
    if found.data is None:
        return replace(found, asked=name)
    data = found.data
    lines = _split(data["text"])
    text = "".join(lines[-count:] if last else lines[:count])
    total, shown = data["total_lines"], _counted(text)
    start = data["start"] if not data["complete"] else total - shown + 1 if last else 1
    if not data["complete"]:
        text = _GOES_ON.sub(r"\1]", text)
    return replace(
        found,
        asked=name,
        data={**data, "text": text, "start": start, "end": start + shown - 1, "complete": shown == total},
        summary=f"Lines {start}-{start + shown - 1} of {total} of {found.evidence[0].ref}",
        content=excerpt(text, "ask for fewer lines"),
        truncation=None if _holds(data, count) else Truncation("lines", shown, min(count, total)),
    )


def _holds(data: Args, count: int) -> bool:
    """Whether a part has all of the lines; a `\r` alone ends a line for us, and for the document none."""
    text = data["text"]
    whole_lines = data["eol"] not in ("cr", "mixed") and _GOES_ON.search(text) is None
    return bool(data["complete"]) or (whole_lines and len(_split(text)) >= min(count, data["total_lines"]))


def _split(text: str) -> list[str]:
    """Lines with their ends."""
    *lines, rest = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([rest] if rest else [])]


def _counted(text: str) -> int:
    """How many lines a text has, as we count them."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.count("\n") + (plain[-1:] not in ("", "\n"))


# ── what stands at a path ────────────────────────────────────────────────────────────────────


def info(said: Callable[[str, Outcome], Outcome], args: Args) -> Steps:
    """Tell of what a link leads to; one call, made so because that is the shortest way."""
    found = yield "stat_path", {"path": args["path"], "follow": True}
    return found if found.error is None else said(args["path"], found)


# ── a file as bytes, and full paths ──────────────────────────────────────────────────────────


def media(args: Args) -> Steps:
    """Read a file's bytes; one that is neither image nor sound is a resource, named by its full path."""
    asked: str = args["path"]
    found = yield "read_media", {"path": asked}
    if found.data is not None and not found.data["mime_type"].startswith(("image/", "audio/")):
        full = yield from _full(asked, found.data["path"])
        found = replace(found, data={**found.data, "full": full})
    return replace(found, asked="read_media_file")


def _full(asked: str, shown: str, home: str = "") -> Told:
    """The full path of what was found: as it was asked for, where that says it, else beneath the workspace."""
    if shown.startswith(("/", "run:")):
        return shown
    if not home:
        clean = asked.rstrip("/")
        if clean.startswith("/") and not _DETOUR.search(clean) and (shown == "." or clean.endswith(f"/{shown}")):
            return clean
        home = yield from _home()
    return shown if not home else home if shown == "." else f"{home}/{shown}"


def _home() -> Told:
    """The workspace's own path, as the list of folders tells it; empty where that is not told."""
    roots = yield "list_roots", {}
    known = roots.data["roots"] if roots.data is not None else ()
    return next((str(root["path"]).rstrip("/") for root in known if root["name"] == "workspace"), "")


# ── several files ────────────────────────────────────────────────────────────────────────────


def several(said: Callable[[str, Outcome], Outcome], args: Args) -> Steps:
    """Read files one by one, each judged by itself; one that fails stops no other."""
    told, made, left = list[str](), list[Outcome](), MOST_CHARS
    for path in args["paths"]:
        if left <= 0 or len(made) >= MOST_FILES:
            told.append(f"{path}: Error - not read: those before it have filled the answer; ask for it by itself")
            continue
        outcome = yield "read_file", {"path": path, "whole": True}
        made.append(outcome)
        text = outcome.data["text"] if outcome.ok and outcome.data is not None else None
        left -= len(text or "")
        told.append(f"{path}: Error - {_why(said(path, outcome))}" if text is None else f"{path}:\n{text}\n")
    text = "\n---\n".join(told)
    read = sum(outcome.ok for outcome in made)
    return _whole(made, "read_multiple_files", {"content": text}, f"{read} of {len(told)} files read", text)


def _why(outcome: Outcome) -> str:
    if outcome.error is None:
        return f"its text is too large for an answer; it is kept as {', '.join(ref.ref for ref in outcome.refs)}"
    asked = outcome.error.details.get("approval")
    waits = f" (approval {asked['id']})" if isinstance(asked, dict) and "id" in asked else ""
    return f"{outcome.error.code}: {outcome.error.message}{waits}"


def _whole(made: Sequence[Outcome], name: str, data: Args, summary: str, text: str) -> Outcome:
    """One outcome of several: what all of them found, under the strictest that was decided."""
    order = {"allow": 0, "ask": 1}
    strictest = max(made, key=lambda outcome: order.get(outcome.decision, 2))
    return replace(
        strictest,
        status=Status.OK,
        error=None,
        summary=summary,
        content=excerpt(text, "ask for less at once"),
        data=data,
        evidence=tuple(item for outcome in made for item in outcome.evidence),
        refs=tuple(ref for outcome in made for ref in outcome.refs),
        truncation=None,
        redacted=any(outcome.redacted for outcome in made),
        rules=tuple(dict.fromkeys(rule for outcome in made for rule in outcome.rules)),
        warnings=tuple(dict.fromkeys(warning for outcome in made for warning in outcome.warnings)),
        duration_ms=round(sum(outcome.duration_ms for outcome in made), 3),
        asked=name,
    )


# ── folders ──────────────────────────────────────────────────────────────────────────────────


def listing(name: str, args: Args) -> Steps:
    """List a folder whole, page by page."""
    asked = {"path": args["path"], "hidden": True, "limit": PAGE, "sort": args.get("sortBy", "name")}
    entries, last = yield from _pages("list_dir", asked, "entries", [MOST_PAGES])
    return _listed(name, entries, last)


def tree(args: Args) -> Steps:
    """List all that lies below a folder, also deeper than one call goes."""
    excluded: list[str] = args["excludePatterns"]
    return _tree(args["path"], excluded, leaving_out(excluded, names=True))


def _tree(top: str, excluded: list[str], left_out: Callable[[str], bool]) -> Steps:
    plain = [pattern for pattern in excluded if _NAME.fullmatch(pattern)][:MOST_IGNORED]
    found, waiting, left = list[Any](), [""], [MOST_PAGES]
    last: Outcome | None = None
    while waiting and left[0]:
        below = waiting.pop(0)
        asked = {
            "path": f"{top.rstrip('/')}/{below}" if below else top,
            "depth": DEEPEST,
            "hidden": True,
            "limit": PAGE,
        }
        entries, last = yield from _pages("list_dir", {**asked, "ignore": plain} if plain else asked, "entries", left)
        if last.error is not None:
            return _listed("directory_tree", found, last)
        if below:
            entries = [{**entry, "name": f"{below}/{entry['name']}"} for entry in entries]
        if excluded:
            entries = [entry for entry in entries if not left_out(entry["name"])]
        found = found + entries if found else entries
        deepest = DEEPEST - 1 + (below.count("/") + 1 if below else 0)
        waiting += [
            entry["name"] for entry in entries if entry["type"] == "directory" and entry["name"].count("/") == deepest
        ]
    assert last is not None
    if waiting:
        last = replace(last, truncation=Truncation("entries", len(found), len(found) + len(waiting)))
    return _listed("directory_tree", found, last)


def search(args: Args) -> Steps:
    """Find files and folders by a glob that is held against the path below the folder."""
    glob, left_out = read_glob(args["pattern"]), leaving_out(args["excludePatterns"], names=False)
    return _search(args["path"], glob, left_out)


def _search(top: str, glob: Glob, left_out: Callable[[str], bool]) -> Steps:
    home = "" if top.startswith(("/", "run:")) else (yield from _home())
    for path in [f"{home}/{top}", top] if home else [top]:  # where absolute paths are not taken, as it was asked
        paths, last, cut = yield from _found(path, glob)
        if last.error is None or last.error.code != Code.PATH_OUTSIDE_ROOTS:
            break
    if last.error is not None:
        return replace(last, asked="search_files")
    ref = last.evidence[0].ref
    base = "" if ref == "." else f"{ref}/"
    below = [found.removeprefix(base).rstrip("/") for found in sorted(set(paths), key=lambda found: found.split("/"))]
    folder = (yield from _full(path, ref, home)) if path.startswith("/") else ref
    front = "" if folder == "." else f"{folder}/"
    told = [f"{front}{found}" for found in below if glob.fits(found) and not left_out(found)]
    data, text = {"paths": told}, excerpt("\n".join(told), "search below a folder")
    return replace(last, asked="search_files", data=data, summary=f"{len(told)} found", content=text, truncation=cut)


def _found(path: str, glob: Glob) -> Generator[tuple[str, Args], Outcome, tuple[list[str], Outcome, Truncation | None]]:
    """What could fit below a folder, files first."""
    asked = {"path": path, "pattern": glob.wide, "hidden": True, "respect_ignore": False, "limit": 10_000}
    if glob.depth is not None:
        asked["depth"] = min(glob.depth, 256)
    found, cut = list[str](), None
    for kind in ("file", "dir"):
        paths, last = yield from _pages("find_files", {**asked, "type": kind}, "paths", [MOST_PAGES])
        if last.error is not None:
            break
        found, cut = found + paths, cut or last.truncation
    return found, last, cut


def _pages(tool: str, args: Args, kind: str, left: list[int]) -> Paged:
    """All pages of a listing, as many as are left; the last outcome tells how it went, and whether more is there."""
    found, cursor = list[Any](), None
    while True:
        left[0] -= 1
        outcome = yield tool, args if cursor is None else {**args, "cursor": cursor}
        if outcome.error is not None or outcome.data is None:
            return found, outcome
        rows = outcome.data[kind]
        found = found + rows if found else rows
        cursor = outcome.data["next_cursor"]
        if cursor is None:
            return found, outcome if outcome.truncation is None else replace(outcome, truncation=None)
        if not left[0]:
            return found, replace(outcome, truncation=Truncation("entries", len(found), outcome.data.get("total")))


def _listed(name: str, entries: list[Any], last: Outcome) -> Outcome:
    data = last.data
    if last.error is None and data is not None and data["entries"] is not entries:
        data = {**data, "entries": entries}
    return replace(last, asked=name, data=data)
