"""Where skills are looked for: folders of the workspace, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from handrail.words import Root, noun

USER_FOLDERS = (".agents/skills", ".claude/skills")  # beneath the user's home


@noun
class Source:
    """A folder of skills."""

    label: str  # "project:.agents/skills", "user:.claude/skills"
    folder: str  # absolute and canonical
    root: Root  # through which its files are reached
    problem: str = ""


def project_sources(workspace: Root, folders: Iterable[str]) -> Iterator[Source]:
    """The skill folders of a workspace; one that leads out of it is told, not read."""
    for name in folders:
        folder = canonical(os.path.join(workspace.path, name))
        label = f"project:{name}"
        if not os.path.isdir(folder):
            continue
        inside = f"{folder}/".startswith(f"{workspace.path.rstrip('/')}/")
        yield Source(label, folder, workspace, "" if inside else "the folder of skills leads out of the workspace")


def user_sources(home: Path) -> Iterator[Source]:
    """The user's own skill folders, each a root that is only read."""
    for name in USER_FOLDERS:
        folder = canonical(str(home / name))
        if os.path.isdir(folder):
            yield Source(f"user:{name}", folder, Root(folder, folder, writable=False))


def canonical(path: str) -> str:
    """The path without links; empty where it changes while it is looked at, which lies nowhere."""
    try:
        return os.path.realpath(path)
    except OSError:
        return ""
