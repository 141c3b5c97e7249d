"""How the reference filesystem server tells what was done: its texts and content blocks, from an outcome of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import orjson

from handrail.words import Json, Outcome

Asked = Mapping[str, Json]
UNKNOWN = "application/octet-stream"
_AS_IT_IS = "/!$&'()*+,:;=@"  # in the path of a URL
_NAME, _SIZE = 30, 10  # columns of a list with sizes
_EPOCH = "1970-01-01T00:00:00Z"  # that server's word for a time that the file system does not tell
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def text(outcome: Outcome, asked: Asked) -> str:
    """A file's text; first lines come without the end of the last one, last lines with plain ends."""
    whole: str = outcome.data["text"]
    if asked.get("head"):
        return whole.removesuffix("\n")
    return whole.replace("\r\n", "\n") if asked.get("tail") else whole


def fitting(outcome: Outcome, _lines: int, _bytes: int) -> Outcome:
    """A text that is given whole, however little of it a model is shown, is not cut."""
    data = outcome.data
    if outcome.truncation is None or not data["complete"]:
        return outcome
    said = f"Lines {data['start']}-{data['end']} of {data['total_lines']} of {outcome.evidence[0].ref}"
    return replace(outcome, truncation=None, summary=said)


def joined(outcome: Outcome, _: Asked) -> str:
    """The texts of several files."""
    return str(outcome.data["content"])


def media(outcome: Outcome, asked: Asked) -> list[Json]:
    """A file's bytes: an image, a sound, or a resource of another kind."""
    found = outcome.data
    path = str(found.get("full") or asked.get("path", found["path"]))
    kind, data = found["mime_type"], found["base64"].replace("\n", "")
    if not kind.startswith(("image/", "audio/")):
        kind = UNKNOWN  # that server knows no others
    family = kind.partition("/")[0]
    if family in ("image", "audio"):
        return [{"type": family, "data": data, "mimeType": kind}]
    uri = f"file:///{quote(path.lstrip('/'), _AS_IT_IS)}"
    return [{"type": "resource", "resource": {"uri": uri, "mimeType": kind, "blob": data}}]


def wrote(outcome: Outcome, asked: Asked) -> str:
    """That a file was written."""
    return f"Successfully wrote to {asked.get('path', outcome.data['path'])}"


def made(outcome: Outcome, asked: Asked) -> str:
    """That a folder is there."""
    return f"Successfully created directory {asked.get('path', outcome.data['path'])}"


def moved(outcome: Outcome, asked: Asked) -> str:
    """That something was moved."""
    source, target = asked.get("source", outcome.data["source"]), asked.get("destination", outcome.data["target"])
    return f"Successfully moved {source} to {target}"


def diff(outcome: Outcome, asked: Asked) -> str:
    """What an edit changed, fenced so that no line of it ends the fence."""
    path, fence = asked.get("path", outcome.data["path"]), "```"
    lines = str(outcome.data["diff"]).split("\n")
    hunks = "\n".join(lines[2:] if lines[0].startswith("---") else lines)
    while fence in hunks:
        fence += "`"
    head = f"Index: {path}\n{'=' * 67}\n--- {path}\toriginal\n+++ {path}\tmodified\n"
    return f"{fence}diff\n{head}{hunks}{fence}\n\n"


def listed(outcome: Outcome, _: Asked) -> str:
    """The names in a folder."""
    rows = [(item["type"] == "directory", item["name"]) for item in outcome.data["entries"]]
    return "\n".join([f"[DIR] {name}" if is_folder else f"[FILE] {name}" for is_folder, name in rows])


def sizes(outcome: Outcome, _: Asked) -> str:
    """The names in a folder with their sizes, and the sums."""
    rows = outcome.data["entries"]
    files = [item for item in rows if item["type"] != "directory"]
    lines = [
        f"{_mark(item)} {item['name']:<{_NAME}} {size(item['size']):>{_SIZE}}"
        if item["type"] != "directory"
        else f"{_mark(item)} {item['name']:<{_NAME}} "
        for item in rows
    ]
    total = f"Total: {len(files)} files, {len(rows) - len(files)} directories"
    return "\n".join([*lines, "", total, f"Combined size: {size(sum(item['size'] for item in files))}"])


def tree(outcome: Outcome, _: Asked) -> str:
    """A JSON tree of {name, type, children}, from entries whose names are paths below the folder.

    They come as list_dir gives them: what lies in a folder in the order of names, and after the folder itself.
    """
    top: list[dict[str, Any]] = []
    known: dict[str, list[dict[str, Any]]] = {"": top}
    for item in outcome.data["entries"]:
        path = item["name"]
        folder, _, name = path.rpartition("/")
        node: dict[str, Any] = {"name": name, "type": "file"}
        if item["type"] == "directory":
            node["type"] = "directory"
            known[path] = node["children"] = []
        if folder in known:
            known[folder].append(node)
    return orjson.dumps(top, option=orjson.OPT_INDENT_2).decode()


def found(outcome: Outcome, _: Asked) -> str:
    """The paths that fit a glob."""
    return "\n".join(outcome.data["paths"]) or "No matches found"


def info(outcome: Outcome, _: Asked) -> str:
    """What stands at a path."""
    data = outcome.data
    kind = data["type"]
    return (
        f"size: {data['size']}\n"
        f"created: {_moment(data['birthtime'] or _EPOCH)}\n"
        f"modified: {_moment(data['mtime'])}\n"
        f"accessed: {_moment(data['atime'])}\n"
        f"isDirectory: {'true' if kind == 'directory' else 'false'}\n"
        f"isFile: {'true' if kind == 'file' else 'false'}\n"
        f"permissions: {data['mode'][-3:]}"
    )


def roots(outcome: Outcome, _: Asked) -> str:
    """The folders that can be reached, but for the run's own."""
    own = [root["path"] for root in outcome.data["roots"] if not root["name"].startswith("run:")]
    return "\n".join(["Allowed directories:", *own])


def size(count: int) -> str:
    """A number of bytes, in the unit that suits it."""
    if count < 1024:
        return f"{max(count, 0)} B"
    unit = min((count.bit_length() - 1) // 10, 4)
    return f"{count / 1024**unit:.2f} {('B', 'KB', 'MB', 'GB', 'TB')[unit]}"


def _mark(item: Mapping[str, Json]) -> str:
    return "[DIR]" if item["type"] == "directory" else "[FILE]"


@lru_cache(256)
def _moment(iso: str) -> str:
    """A time in UTC as that server writes it."""
    moment = datetime.fromisoformat(iso)
    day = f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02} {moment.year:04}"
    return f"{day} {iso[11:19]} GMT+0000 (Coordinated Universal Time)"
