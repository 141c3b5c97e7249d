"""list_roots: the folders that tools may reach."""

from __future__ import annotations

from handrail.ports import Roots
from handrail.tools.fs.list_roots import RootFolder, RootFolders, list_roots
from handrail.words import Answer, Root


async def test_all_folders_are_listed_with_what_may_be_done_there() -> None:
    """In their order, the workspace first."""
    roots = Roots((Root("workspace", "/w", True), Root("/more", "/more", False)))
    answer: Answer[RootFolders] = await list_roots.function(roots=roots)
    assert answer == Answer(
        RootFolders([RootFolder("workspace", "/w", True), RootFolder("/more", "/more", False)]),
        "2 folders",
        "/w  workspace\n/more  /more  only to read\n",
    )
