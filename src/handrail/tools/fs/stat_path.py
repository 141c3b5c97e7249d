"""stat_path: what stands at a path, without reading it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from handrail.catalog import ReadsItself, tool
from handrail.ports import Stat, Workspace
from handrail.tools.fs._standing import missing
from handrail.tools.fs._times import utc
from handrail.words import Answer, Evidence, PlaceKind


@dataclass(frozen=True, slots=True)
class PathStat:
    """What the file system says of a thing itself; a link is not followed."""

    path: str
    type: str  # file | directory | link | other
    size: int
    mtime: str  # UTC
    mode: str  # permission bits, octal
    target: str | None  # of a link
    atime: str  # UTC, of the last reading that the file system took note of
    birthtime: str | None  # UTC; null where the file system does not tell


@tool(risk="low")
async def stat_path(files: Workspace, path: ReadsItself) -> Answer[PathStat]:
    """Look at a file, folder or link: type, size, time of change, mode, where a link points."""
    if path.kind is PlaceKind.MISSING:
        raise missing(files, path, "stat_path")
    return _answer(path.shown, await files.stat(path))


@lru_cache(512)
def _answer(shown: str, stat: Stat) -> Answer[PathStat]:
    """What is told of a thing; the very same answer as long as it stays as it is."""
    born = None if stat.birth_ns is None else utc(stat.birth_ns)
    result = PathStat(
        shown,
        stat.kind.value,
        stat.size,
        utc(stat.mtime_ns),
        f"{stat.mode:04o}",
        stat.target,
        utc(stat.atime_ns),
        born,
    )
    link = f" to {stat.target}" if stat.target is not None else ""
    said = f"{shown}: {stat.kind.value}{link}, {stat.size} bytes, changed {result.mtime}, mode {result.mode}"
    return Answer(result, said, said, (Evidence("file", shown, said),))
