"""delete_path: remove a file, a link or a folder; what it held is kept for undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from handrail.catalog import Deletes, tool
from handrail.errors import Code, Problem
from handrail.ports import Secrets, Workspace
from handrail.tools.fs._standing import missing
from handrail.words import Answer, Evidence, Place, PlaceKind, Touch, TouchKind

_REPOSITORY = ".git"


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was removed."""

    path: str
    type: str  # file | directory | link | other
    removed: int  # files, links and folders
    undoable: bool  # all of it is on record and can be put back


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    confirmed = args["confirm"] is True
    return (Touch(TouchKind.FS_DELETE, args["path"], args["recursive"], follow=False, confirmed=confirmed),)


async def _preview(
    files: Workspace, path: Place, recursive: bool, confirm: bool, expected_sha256: str | None, **_: Any
) -> str:
    """Nothing to show; but what cannot be deleted is said before a person is asked."""
    await _check(files, path, recursive, confirm, expected_sha256)
    return ""


@tool(risk="high", touches=_touches, permissions=("fs.delete",), ask_first=True, preview=_preview)
async def delete_path(
    files: Workspace,
    secrets: Secrets,
    path: Deletes,
    recursive: Annotated[bool, "a folder with all that lies below"] = False,
    confirm: Annotated[bool, "must be true: says that deleting is meant"] = False,
    expected_sha256: Annotated[str | None, "refuse if the file is another one by now"] = None,
) -> Answer[Deletion]:
    """Delete a file or folder. A link is removed itself, not what it points to."""
    await _check(files, path, recursive, confirm, expected_sha256)
    changes = await files.delete(path, recursive=recursive, expected_sha256=expected_sha256)
    # A name that the record hides is not known to undo.
    kept = all(change.kept and secrets.text(change.path) == change.path for change in changes)
    result = Deletion(path.shown, path.kind.value, len(changes), kept)
    more = f" with {len(changes) - 1} things below" if len(changes) > 1 else ""
    said = f"Deleted {path.shown}{more}; {'it can be undone' if kept else 'not all of it can be undone'}"
    sha256 = changes[0].before if len(changes) == 1 else None
    return Answer(result, said, said, (Evidence("file", path.shown, "deleted", sha256),))


async def _check(files: Workspace, path: Place, recursive: bool, confirm: bool, expected_sha256: str | None) -> None:
    shown = path.shown
    if not confirm:
        raise Problem(
            Code.POLICY_DENIED,
            f"Deleting {shown} needs `confirm: true`.",
            next_call={"tool": "delete_path", "args": {"path": shown, "recursive": recursive, "confirm": True}},
        )
    if path.kind is PlaceKind.MISSING:
        raise missing(files, path, "stat_path")
    if _REPOSITORY in path.path.lower().split("/"):
        raise Problem(Code.PATH_PROTECTED, f"{shown} belongs to a git repository's own records and is never deleted.")
    if path.kind is PlaceKind.DIRECTORY:
        await _check_folder(files, path, recursive, expected_sha256)


async def _check_folder(files: Workspace, path: Place, recursive: bool, expected_sha256: str | None) -> None:
    shown = path.shown
    if expected_sha256 is not None:
        raise Problem(Code.INVALID_ARGS, f"{shown} is a folder; `expected_sha256` is for files.")
    if not recursive:
        raise Problem(
            Code.NOT_A_FILE,
            f"{shown} is a folder; `recursive: true` deletes it with all that lies below.",
            next_call={"tool": "delete_path", "args": {"path": shown, "recursive": True, "confirm": True}},
        )
    below = await files.list(path, depth=256, hidden=True)
    inner = next((entry.path for entry in below.entries if entry.path.rsplit("/", 1)[-1].lower() == _REPOSITORY), None)
    if inner is not None:
        raise Problem(Code.PATH_PROTECTED, f"{shown}/{inner} is a git repository and is never deleted.")
