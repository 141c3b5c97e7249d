"""move_path: give a file or folder another name or place."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import basename, dirname, join, normpath
from typing import Annotated, Any

from handrail.catalog import Touching, Writes, tool
from handrail.errors import Code, Problem
from handrail.ports import Workspace
from handrail.tools.fs._standing import missing
from handrail.words import Answer, Evidence, How, Place, PlaceKind, TouchKind

# Deep, since moving a folder takes along all that lies below; the link itself is moved, not what it points to.
Leaves = Annotated[Place, Touching(TouchKind.FS_DELETE, deep=True, how=How.MOVE, follow=False)]


@dataclass(frozen=True, slots=True)
class Move:
    """What was moved, and whether something was replaced."""

    source: str
    target: str
    type: str  # file | directory | link | other
    replaced: bool


async def _preview(files: Workspace, source: Place, target: Place, overwrite: bool, **_: Any) -> str:
    """Nothing to show; but what cannot be moved is said before a person is asked."""
    await _check(files, source, target, overwrite)
    return ""


@tool(risk="high", preview=_preview)
async def move_path(
    files: Workspace,
    source: Leaves,
    target: Annotated[Writes, "the new path itself, not the folder to move into"],
    overwrite: Annotated[bool, "a file that stands at the target is replaced"] = False,
) -> Answer[Move]:
    """Move or rename a file or folder; missing folders on the way to the target are made."""
    await _check(files, source, target, overwrite)
    changes = await files.move(source, target, overwrite=overwrite)
    result = Move(source.shown, target.shown, source.kind.value, target.kind is not PlaceKind.MISSING)
    said = f"Moved {source.shown} to {target.shown}{', replacing what was there' if result.replaced else ''}"
    sha256 = next((change.after for change in changes if change.op == "move"), None)
    return Answer(result, said, said, (Evidence("file", target.shown, f"moved from {source.shown}", sha256),))


async def _check(files: Workspace, source: Place, target: Place, overwrite: bool) -> None:
    if source.kind is PlaceKind.MISSING:
        problem = missing(files, source, "stat_path")
        if problem.next_call is not None:
            nearest = problem.next_call["args"]["path"]
            problem.next_call = {"tool": "move_path", "args": {"source": nearest, "target": target.shown}}
        raise problem
    if source.path and (why := await _onto_itself(files, source, target)):
        raise Problem(Code.INVALID_ARGS, why, source=source.shown, target=target.shown)
    if target.kind is PlaceKind.DIRECTORY:
        inside = f"{target.shown.rstrip('/')}/{basename(source.path)}" if target.path else basename(source.path)
        raise Problem(
            Code.ALREADY_EXISTS,
            f"{target.shown} is a folder; to move {source.shown} into it, name the new path.",
            next_call={"tool": "move_path", "args": {"source": source.shown, "target": inside}},
        )
    if target.kind is not PlaceKind.MISSING and not overwrite:
        args = {"source": source.shown, "target": target.shown, "overwrite": True}
        raise Problem(
            Code.ALREADY_EXISTS,
            f"{target.shown} exists already; `overwrite: true` replaces it.",
            next_call={"tool": "move_path", "args": args},
        )


async def _onto_itself(files: Workspace, source: Place, target: Place) -> str:
    """Why something would be moved onto or into itself; empty where it is not."""
    if target.absolute == source.absolute:
        return f"`source` and `target` are both {source.shown}, so there is nothing to move; name another target."
    if f"{target.absolute}/".startswith(f"{source.absolute}/"):
        return f"{target.shown} lies inside {source.shown}, which cannot be moved into itself; name another target."
    if source.kind is PlaceKind.LINK and target.kind is not PlaceKind.MISSING:
        leads = (await files.stat(source)).target or ""
        if normpath(join(dirname(source.absolute), leads)) == target.absolute:
            return f"{source.shown} is a link to {target.shown}, which it would replace; name another target."
    return ""
