"""stat_path: what stands at a path, without reading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from handrail.catalog import ReadsItself, tool
from handrail.errors import Code, Problem
from handrail.ports import Stat, Workspace
from handrail.tools.fs._standing import missing
from handrail.tools.fs._times import utc
from handrail.words import Answer, Evidence, PlaceKind, Touch, TouchKind


@dataclass(frozen=True, slots=True)
class PathStat:
    """What the file system says of a thing; a link is followed only where that is asked for."""

    path: str
    type: str  # file | directory | link | other
    size: int
    mtime: str  # UTC
    mode: str  # permission bits, octal
    target: str | None  # of a link
    atime: str  # UTC, of the last reading that the file system took note of
    birthtime: str | None  # UTC; null where the file system does not tell


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    return (Touch(TouchKind.FS_READ, args["path"], follow=args["follow"]),)


@tool(risk="low", touches=_touches, permissions=("fs.read",))
async def stat_path(
    files: Workspace,
    path: ReadsItself,
    follow: Annotated[bool, "tell of what a link leads to instead"] = False,
) -> Answer[PathStat]:
    """Look at a file, folder or link: type, size, time of change, mode, where a link points."""
    if path.kind is PlaceKind.MISSING:
        raise missing(files, path, "stat_path")
    stat = await files.stat(path)
    if follow and stat.kind is PlaceKind.LINK:
        text = f"{path.shown} has become a link since this call was judged; ask again."
        raise Problem(Code.STALE_FILE, text, path=path.shown)
    return _answer(path.shown, stat)


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
