"""make_dir: make a folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from handrail.catalog import Touching, tool
from handrail.errors import Code, Problem
from handrail.ports import Workspace
from handrail.words import Answer, Evidence, How, Place, PlaceKind, TouchKind

Makes = Annotated[Place, Touching(TouchKind.FS_WRITE, how=How.MAKE)]


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder, and which ones had to be made for it."""

    path: str
    created: list[str]  # empty: it was there


@tool(risk="high")
async def make_dir(files: Workspace, path: Makes) -> Answer[Folder]:
    """Make a folder and the missing ones above it; one that is there already is fine."""
    if path.kind not in (PlaceKind.MISSING, PlaceKind.DIRECTORY):
        raise Problem(
            Code.ALREADY_EXISTS,
            f"{path.shown} exists already and is no folder but a {path.kind.value}.",
            next_call={"tool": "stat_path", "args": {"path": path.shown}},
        )
    made = [change.path for change in await files.make_dir(path)]
    said = f"Made {', '.join(made)}" if made else f"{path.shown} was there already"
    return Answer(Folder(path.shown, made), said, said, (Evidence("file", path.shown, said),))
