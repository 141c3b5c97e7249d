"""list_roots: the folders that tools may reach."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.catalog import tool
from handrail.ports import Roots
from handrail.words import Answer


@dataclass(frozen=True, slots=True)
class RootFolder:
    """A folder, the name that paths beneath it begin with, and whether calls may write there."""

    name: str  # "workspace": paths are relative to it
    path: str  # absolute
    writable: bool


@dataclass(frozen=True, slots=True)
class RootFolders:
    """All folders, the workspace first."""

    roots: list[RootFolder]


@tool(risk="low", pure=True)
async def list_roots(roots: Roots) -> Answer[RootFolders]:
    """List the folders that tools may reach, and which of them may be written; nothing else can be touched."""
    found = [RootFolder(root.name, root.path, root.writable) for root in roots.all]
    lines = [f"{root.path}  {root.name}{'' if root.writable else '  only to read'}\n" for root in found]
    return Answer(RootFolders(found), f"{len(found)} folders", "".join(lines))
