"""What kind of change each thing is that a program did: a cache, a record of git, a program on somebody's PATH.

Runs in a thread. Policy decides what that means; here it is only found out, from the layer and what lies below it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from handrail.policy.caches import cache_folder
from handrail.policy.world import Repositories
from handrail.processes.git_objects import MAX_BYTES, is_true_object, is_true_pack, loose_name, pack_parts
from handrail.processes.layer import LayerChange
from handrail.processes.packed_refs import changes_branches_only
from handrail.sandbox.callers_path import CallersPath
from handrail.words import Effect, PlaceKind, Touch
from handrail.workspace.access import READ, Access
from handrail.workspace.git_index import UnreadableIndex, new_hidden, tracked_beneath

_MOST_NAMED = 3
_INDEX_BYTES = 256 << 20
_REFS_BYTES = 64 << 20
_BRANCHES = ("refs/heads/", "refs/tags/")
_FILES = frozenset({"index", "HEAD", "ORIG_HEAD", "COMMIT_EDITMSG", "packed-refs", "refs/stash", "logs/HEAD"})
_LOGS = ("logs/refs/heads/", "logs/refs/tags/")
_FILES_MADE = ("create", "replace")
_FOLDERS = frozenset({"objects", "refs", "refs/heads", "refs/tags", "logs", "logs/refs"})


class Classifier:
    """Tells the kinds of one program's changes."""

    def __init__(
        self,
        access: Access,
        changes: Sequence[LayerChange],
        repositories: Repositories,
        callers_path: CallersPath,
        room: int,
    ) -> None:
        """`callers_path`: where the person's shell looks for commands; `room`: bytes that may be kept for undo."""
        self._access = access
        self._changes = changes
        self._folders = tuple(f"{folder}/" for folder in repositories.folders)
        self._search_path = frozenset(callers_path.folders)
        self._spots = frozenset(callers_path.spots)
        self._room = room
        self._beside: dict[tuple[str, str], bool] = {}
        self._is_tracked = frozenset[str]()
        self._by_path = {_absolute(change): change for change in changes if change.kind in _FILES_MADE}
        self._packs: dict[str, bool] = {}

    def classify(self, touches: Sequence[Touch]) -> list[Touch]:
        """Add to the touch of each change of what kind it is."""
        self._is_tracked = self._tracked_caches()
        pairs = zip(self._changes, touches, strict=True)
        return [self._with_effect(change, touch) for change, touch in pairs]

    def _with_effect(self, change: LayerChange, touch: Touch) -> Touch:
        found = _split(_absolute(change), self._folders)
        if found is not None:
            return self._with_record(change, touch, *found)
        if self._is_on_path(change):
            return replace(touch, effect=Effect.ON_PATH)
        if self._is_cache(change):
            return replace(touch, effect=Effect.CACHE)
        return replace(touch, effect=Effect.LOST) if self._is_lost(change) else touch

    def _with_record(self, change: LayerChange, touch: Touch, folder: str, path: str) -> Touch:
        """Say of a change in a repository's own folder whether git makes such a change itself."""
        hides = self._hidden(change) if path == "index" else ""
        if hides:
            return replace(touch, effect=Effect.HIDES, doubt=hides)
        if self._is_lost(change):
            return replace(touch, effect=Effect.LOST)
        kept = self._is_object(change, folder, path) if path.startswith("objects/") else _is_record(change, path)
        return replace(touch, effect=Effect.GIT_RECORD) if kept else touch

    # ── programs, caches, room ──

    def _is_on_path(self, change: LayerChange) -> bool:
        """Whether a change makes a program that the person's shell finds, or a link that leads the shell elsewhere."""
        if not self._spots or change.after is None or change.kind not in ("create", "replace", "link"):
            return False
        absolute = _absolute(change)
        if change.kind == "link":
            return absolute in self._spots or os.path.dirname(absolute) in self._search_path
        return bool(change.after.mode & 0o111) and os.path.dirname(absolute) in self._search_path

    def _is_cache(self, change: LayerChange) -> bool:
        """Whether a change lies in, or is, a cache that git does not track."""
        found = cache_folder(f"{change.path}/x" if change.kind in ("mkdir", "rmdir") else change.path)
        if found is None or _absolute(change) in self._is_tracked:
            return False
        folder, beside = found
        if not beside:
            return True
        key = (change.root.path, folder)
        if key not in self._beside:
            parent = PurePosixPath(change.root.path, folder).parent
            self._beside[key] = any(os.path.isfile(parent / name) for name in beside)
        return self._beside[key]

    def _tracked_caches(self) -> frozenset[str]:
        """Name the files in caches that git tracks, of those that a program changed or removed."""
        by_tree: dict[str, list[str]] = {}
        for change in self._changes:
            if change.before is None or cache_folder(change.path) is None:
                continue
            if (tree := self._tree_of(change)) is not None:
                by_tree.setdefault(tree, []).append(os.path.relpath(_absolute(change), tree))
        return frozenset(path for tree, names in by_tree.items() for path in _tracked(tree, names))

    def _tree_of(self, change: LayerChange) -> str | None:
        """Find the working tree that a path lies in: the nearest folder above that holds `.git`."""
        folder = os.path.dirname(_absolute(change))
        while folder.startswith(change.root.path):
            if os.path.lexists(f"{folder}/.git"):
                return folder
            folder = os.path.dirname(folder)
        return None

    def _is_lost(self, change: LayerChange) -> bool:
        """Whether there is no room left to keep the former content; the changes before it have taken theirs."""
        before = change.before
        if before is None or before.kind is not PlaceKind.FILE or change.kind not in ("replace", "delete"):
            return False
        if before.size > self._room:
            return True
        self._room -= before.size
        return False

    # ── git ──

    def _is_object(self, change: LayerChange, folder: str, path: str) -> bool:
        """Whether a change removes an object, or adds one that is what its name says."""
        if change.kind in ("mkdir", "rmdir"):
            return path == "objects/pack" or _is_object_folder(path)
        if change.kind == "delete":
            above = path.rpartition("/")[0]
            return above == "objects/pack" or _is_object_folder(above)
        if change.kind != "create":
            return False  # git never writes an object anew
        if name := loose_name(path):
            data = change.read_after(MAX_BYTES)
            return data is not None and is_true_object(name, data)
        parts = pack_parts(path)
        return parts is not None and self._is_true_pack(f"{folder}{parts[0]}")

    def _is_true_pack(self, stem: str) -> bool:
        """Whether a pack and its indexes say the same; all of them are looked at, once."""
        if stem not in self._packs:
            pack, index, reverse = (self._read_now(f"{stem}.{suffix}") for suffix in ("pack", "idx", "rev"))
            self._packs[stem] = pack is not None and index is not None and is_true_pack(pack, index, reverse)
        return self._packs[stem]

    def _read_now(self, absolute: str) -> bytes | None:
        """Read a file as it is after the program; None: there is none, or it is too large."""
        change = self._by_path.get(absolute)
        if change is not None:
            return change.read_after(MAX_BYTES)
        try:
            with open(os.open(absolute, READ | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        return data if len(data) <= MAX_BYTES else None

    def _hidden(self, change: LayerChange) -> str:
        """Name the files whose changes an index newly hides; empty: none."""
        if change.after is None or change.after.kind is not PlaceKind.FILE:
            return ""
        after = change.read_after(_INDEX_BYTES)
        before = change.read_before(_INDEX_BYTES) if change.before is not None else b""
        if after is None or before is None:
            return "(every file of the repository: the index is too large to be read)"
        names = new_hidden(before, after)
        more = len(names) - _MOST_NAMED
        return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def repository_of(folders: Sequence[str], change: LayerChange) -> str:
    """Name the repository whose own records a change is part of; empty: none. `folders`: those by another name."""
    found = _split(_absolute(change), tuple(f"{folder}/" for folder in folders))
    return "" if found is None else found[0]


def _absolute(change: LayerChange) -> str:
    return f"{change.root.path.rstrip('/')}/{change.path}"


def _split(absolute: str, folders: tuple[str, ...]) -> tuple[str, str] | None:
    """Split a path into the innermost repository's own folder and the rest; None: it lies in none."""
    known = max((folder for folder in folders if absolute.startswith(folder)), key=len, default="")
    at = absolute.rfind("/.git/")
    named = absolute[: at + 6] if at >= 0 else ""
    folder = max(known, named, key=len)
    return (folder, absolute[len(folder) :]) if folder else None


def _is_record(change: LayerChange, path: str) -> bool:
    """Whether git itself makes such a change when it commits, branches, tags or stashes."""
    if change.kind in ("mkdir", "rmdir"):
        return path in _FOLDERS or path.startswith((*_BRANCHES, *_LOGS))
    if any(seen is not None and seen.kind is not PlaceKind.FILE for seen in (change.before, change.after)):
        return False
    if path == "packed-refs":
        return _changes_branches_only(change)
    is_known = path in _FILES or path.startswith((*_BRANCHES, *_LOGS)) or path == "logs/refs/stash"
    return is_known and not path.endswith(".lock")


def _is_object_folder(path: str) -> bool:
    rest = path.removeprefix("objects/")
    return rest != path and len(rest) == 2 and all(sign in "0123456789abcdef" for sign in rest)


def _changes_branches_only(change: LayerChange) -> bool:
    before = change.read_before(_REFS_BYTES) if change.before is not None else b""
    after = change.read_after(_REFS_BYTES) if change.after is not None else b""
    if before is None or after is None:
        return False
    return changes_branches_only(before, after)


def _tracked(tree: str, names: Sequence[str]) -> list[str]:
    """Name those of some files of a working tree that its index tracks; all of them where that is not known."""
    everything = [f"{tree}/{name}" for name in names]
    folder = f"{tree}/.git"
    if not os.path.isdir(folder):
        return everything
    try:
        fd = os.open(f"{folder}/index", READ | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return []
    except OSError:
        return everything
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return everything
        data = file.read(_INDEX_BYTES + 1)
    try:
        tracked = {*tracked_beneath(data, names)} if len(data) <= _INDEX_BYTES else {*names}
    except UnreadableIndex:
        return everything
    return [f"{tree}/{name}" for name in names if name in tracked]
