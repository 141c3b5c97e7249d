"""The list of tools, kept between starts: loading every tool and making its schemas takes longer than all else.

What is kept holds for exactly the files of this package and says nothing of settings, which are asked each time.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from handrail import __version__, dialects
from handrail.catalog import Tool
from handrail.compose import Composed
from handrail.front.mcp.results import is_wrapped, short_entry, tool_entry
from handrail.policy import ToolFacts
from handrail.policy.enablement import enabled
from handrail.settings import paths
from handrail.store.private import SAFE, make_folder, replacing, write_all
from handrail.tools import builtin
from handrail.words import Json, Risk, noun
from handrail.worlds import disabled

log = logging.getLogger("handrail.mcp")

FILE = "mcp-tools.json"
_MOST_BYTES = 8 * 1024 * 1024


@noun
class Listed:
    """What a list needs to know of a tool."""

    name: str
    toolset: str
    risk: str
    ask_first: bool
    offered: bool
    wrapped: bool = False  # its data is no object, so that results put it into one
    entry: dict[str, Json] | None = None  # made when it is first listed


def listed(parts: Composed, folder: Path | None = None) -> list[Listed]:
    """The tools that are enabled, each with its entry; what had to be made for it is kept for the next start."""
    place = (paths.cache_dir() if folder is None else folder) / FILE
    stamp, own = _stamp(), builtin()
    kept = _kept(place, stamp)
    known, found = dict(kept), []
    for name in parts.catalog.names():
        item = known.get(name) if name in own else None
        if item is None and (item := _loaded(parts, name)) is None:
            continue
        if item.offered and _is_enabled(item, parts):
            item = _with_entry(item, parts)
            found.append(item)
        if name in own:
            known[name] = item
    if known != kept:
        _keep(place, stamp, known.values())
    return found


def prepare(folder: Path) -> None:
    """Describe every tool of ours ahead of the first start."""
    tools = [load() for load in builtin().values()]
    _keep(
        folder / FILE,
        _stamp(),
        [replace(_known(tool), entry=tool_entry(tool), wrapped=is_wrapped(tool)) for tool in tools],
    )


def native(tools: Iterable[Listed], *, short: bool) -> Iterator[dict[str, Json]]:
    """Describe our own tools, in few words where a model's context is to be spared."""
    for tool in tools:
        if tool.entry is not None:
            yield short_entry(tool.entry) if short else tool.entry


def spoken(dialect: str, tools: Iterable[Listed]) -> Iterator[dict[str, Json]]:
    """Describe the tools of a dialect's document, with our hints: what they do is what ours do."""
    known, document = {tool.name: tool for tool in tools}, dialects.get(dialect)
    for word in document.words.values():
        ours = known.get(word.ours)
        if ours is not None and ours.entry is not None:
            about = {"name": word.name, "description": word.says, "inputSchema": dict(word.args)}
            more = {} if document.entry is None else document.entry(word)
            yield {**about, **more, "annotations": {**ours.entry["annotations"], **more.get("annotations", {})}}


def _loaded(parts: Composed, name: str) -> Listed | None:
    try:
        tool = parts.catalog.get(name)
    except Exception as error:  # noqa: BLE001  another package's tool must not hide the others
        log.warning("the tool %s cannot be loaded: %s", name, error)
        return None
    return _known(tool)


def _known(tool: Tool) -> Listed:
    return Listed(tool.name, tool.toolset, tool.risk.value, tool.ask_first, tool.offered)


def _with_entry(item: Listed, parts: Composed) -> Listed:
    if item.entry is not None:
        return item
    tool = parts.catalog.get(item.name)
    return replace(item, entry=tool_entry(tool), wrapped=is_wrapped(tool))


def _is_enabled(item: Listed, parts: Composed) -> bool:
    settings = parts.loaded.settings
    given = item.name in parts.given
    facts = ToolFacts(item.name, item.toolset, Risk(item.risk), ask_first=item.ask_first, given=given)
    return enabled(facts, settings.enabled, disabled(settings))


# ── what is kept ─────────────────────────────────────────────────────────────────────────────


def _stamp() -> str:
    """Name the state of this package: schemas are made from its files, by this Python and these libraries."""
    from pydantic import VERSION

    package = Path(__file__).parents[2]
    folders = [package, package / "front/mcp", package / "ports", *package.glob("tools/*/")]
    files = [_state(entry) for folder in folders for entry in os.scandir(folder) if entry.name.endswith(".py")]
    state = sha256(repr(sorted(files)).encode()).hexdigest()
    return f"{__version__} {sys.version} {VERSION} {package} {state}"


def _state(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    found = entry.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _kept(place: Path, stamp: str) -> dict[str, Listed]:
    """What an earlier start kept for the same package; nothing where it does not fit or is another's."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        with open(os.open(place, os.O_RDONLY | SAFE), "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.getuid() or about.st_size > _MOST_BYTES:
                return {}
            held: Mapping[str, Any] = orjson.loads(file.read())
        if held["stamp"] == stamp:
            return {fields["name"]: Listed(**fields) for fields in held["tools"]}
    return {}


def _keep(place: Path, stamp: str, tools: Iterable[Listed]) -> None:
    held = {"stamp": stamp, "tools": list(tools)}
    try:
        make_folder(place.parent)
        with replacing(place) as handle:
            write_all(handle, orjson.dumps(held))
    except OSError as error:
        log.warning("the list of tools could not be kept for the next start: %s", error)
