"""Changes of a layer that concern git: indexes without the marks set for a program, and repositories that are new."""

from __future__ import annotations

from collections.abc import Mapping

from handrail.processes.layer import LayerChange, read_changes
from handrail.sandbox.git_indexes import MAX_INDEX_BYTES, restore_indexes
from handrail.sandbox.launching import Child, Upper
from handrail.words import Root
from handrail.workspace.access import Access
from handrail.workspace.git_index import UnreadableIndex, is_refreshed, without_notes

_CONTESTED = "was changed by somebody else while the program ran"


def read_with_git(access: Access, child: Child, uppers: Mapping[Root, Upper]) -> list[LayerChange]:
    """List what layers change, as it would be without the marks that were set in indexes of git for the program.

    An index in which git only brought its notes on files up to date is no change. Of another, the new notes are
    taken out: a program could forge them, and hide from git what it changed.
    """
    refused = restore_indexes({root.path: upper for root, upper in uppers.items()}, child.indexes)
    known = {(index.root, index.path): index.ctime_ns for index in child.indexes}
    found = []
    for change in read_changes(access, uppers):
        key = (change.root.path, change.path)
        found.append(change)
        if key in refused:
            change.left_out = refused[key]
            continue
        if _only_refreshed(change):
            found.pop()
            continue
        if key in known and change.before is not None and change.before.ctime_ns != known[key]:
            change.contested = _CONTESTED
        _forget_notes(change)
    return found


def _forget_notes(change: LayerChange) -> None:
    """Have git look at the files again whose state a program has written into an index."""
    if change.path.rpartition("/")[2] != "index" or change.kind not in ("create", "replace"):
        return
    before = change.read_before(MAX_INDEX_BYTES) if change.kind == "replace" else b""
    after = change.read_after(MAX_INDEX_BYTES)
    if after is None or not after.startswith(b"DIRC"):
        return
    try:
        plain = without_notes(before or b"", after)
    except UnreadableIndex:
        return  # it is asked for
    if plain != after:
        change.rewrite(plain)


def _only_refreshed(change: LayerChange) -> bool:
    folder, _, name = change.path.rpartition("/")
    if name != "index" or change.kind != "replace" or change.remode or "/.git/" not in f"/{folder.casefold()}/":
        return False
    before = change.read_before(MAX_INDEX_BYTES)
    after = change.read_after(MAX_INDEX_BYTES)
    return before is not None and after is not None and is_refreshed(before, after)
