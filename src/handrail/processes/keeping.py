"""Keeping changes of a layer by renaming them into the workspace: all of them, or none. Runs in a thread.

New files take their names, changed ones are exchanged with the former, and what goes is renamed aside. So former
contents are at hand to be put back until everything is done, and for undo afterwards. Where the layer is in memory,
new files are first written to names in the root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from handrail.errors import Problem
from handrail.processes.kept_contents import (
    copy_content,
    dress_folder,
    is_open,
    open_to_owner,
    refuse_settings_file,
    strip_change,
)
from handrail.processes.layer import LayerChange
from handrail.processes.steps import ORDER, Handles, Step, attributes_of, look_at
from handrail.processes.syncing import FEW, sync_all, sync_file, sync_names
from handrail.processes.unfinished import Note, clean_up
from handrail.words import Change
from handrail.workspace import names
from handrail.workspace.access import READ, Access, problem_of
from handrail.workspace.settings_table import NAME as SETTINGS_FILE
from handrail.workspace.standing import stale

_PART = 1 << 20
_NO_ROOM = "there is no room left to keep former contents for undo (undo.max_bytes)"
_Pair = tuple[LayerChange, Step]


class Keeper:
    """Keeps changes of one call's program."""

    def __init__(self, access: Access, notes: str, run_id: str, call_id: str) -> None:
        self._access = access
        self._notes = Path(notes)
        self._run_id = run_id
        self._call_id = call_id
        self.left: list[str] = []  # what a failed attempt could not put back
        self.warnings: list[str] = []
        self._can_exchange: dict[str, bool] = {}  # by root
        self._closed = 0  # things that their owner could not have used
        self._spare: int | None = None  # bytes for former contents of what can be made again

    def keep(self, changes: Sequence[LayerChange]) -> list[Change]:
        """Make all changes, or none; gives what undo needs. What may never be kept must not be among them."""
        handles = Handles(self._access)
        try:
            pairs = [(change, step) for change in changes for step in self._steps(change, handles)]
            pairs.sort(key=_rank)
            pairs = [(change, _with_aside(step, number)) for number, (change, step) in enumerate(pairs)]
            note = Note.write(self._notes, self._run_id, self._call_id, [step for _, step in pairs])
            try:
                copied = self._copy_former(pairs)
                self._stage(pairs, handles, note)
                _need_all_untouched(pairs, handles)
                done = self._install(pairs, handles)
                self._commit(note)
            except BaseException:
                handles.close()
                self._take_back(note)
                raise
            found = self._record_all(done, handles, copied)
        finally:
            handles.close()
        if self._closed:
            what = "file or folder was" if self._closed == 1 else "files and folders were"
            self.warnings.append(f"{self._closed} {what} kept open to their owner, whatever mode the program gave them")
        if note.is_done:
            self.warnings += clean_up(self._access, note.steps)
            note.remove()
        return found

    def _commit(self, note: Note) -> None:
        """Say that everything was kept; where former contents lie in the roots, they are still to be removed."""
        if all(step.layer for step in note.steps):
            note.remove()
        else:
            note.finish()

    def _take_back(self, note: Note) -> None:
        self.left = note.roll_back(lambda _: None)
        if self.left:
            note.set_aside()
        else:
            clean_up(self._access, note.steps)
            note.remove()

    # ── planning ──

    def _steps(self, change: LayerChange, handles: Handles) -> Iterator[Step]:
        """Say how a change is made."""
        before = change.before
        after = change.after
        layer = change.upper.layer
        spot = f"upper/{change.path}" if layer else names.fresh("old")
        known = (change.root, change.path, change.kind, layer)
        inode = 0 if before is None else before.inode
        mode = None if before is None else before.mode
        if change.kind == "mkdir":
            yield Step(*known)
        elif change.kind == "rmdir":
            step = Step(*known, mode=mode, inode=inode)
            fd = handles.folder(step)
            try:
                yield Step(*known, mode=mode, inode=inode, attributes=attributes_of(fd))
            finally:
                os.close(fd)
        elif change.kind == "delete":
            link = None if before is None else before.target
            aside = "" if layer else spot
            yield Step(*known, aside, change.sha256_before, inode=inode, mode=mode, link=link)
        elif change.kind == "link":
            yield Step(*known, spot, link=None if after is None else after.target)
        elif change.kind == "replace" and not layer and not self._exchanges(change):
            # Where names cannot be exchanged, the former file goes first.
            yield Step(*known[:2], "delete", layer, spot, change.sha256_before, inode=inode, mode=mode)
            yield Step(*known[:2], "create", layer, names.fresh("old"), after=change.sha256_after)
        elif change.kind in ("create", "replace"):
            yield Step(*known, spot, change.sha256_before, change.sha256_after, inode=inode, mode=mode)

    def _exchanges(self, change: LayerChange) -> bool:
        """Try whether the file system of a root can exchange two names; asked once."""
        root = change.root.path
        if root not in self._can_exchange:
            folder = self._access.roots.handle(change.root)
            pair = (names.fresh(), names.fresh())
            try:
                for name in pair:
                    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder))
                self._can_exchange[root] = names.exchange(folder, pair[0], folder, pair[1])
            finally:
                for name in pair:
                    names.forget(folder, name)
        return self._can_exchange[root]

    def _copy_former(self, pairs: Iterable[_Pair]) -> set[str]:
        """Keep former contents that cannot be renamed to where undo looks for them; gives their hashes."""
        copied: set[str] = set()
        images = self._access.images
        for change, step in sorted(pairs, key=_is_expendable):
            if images is None or not step.before or step.before in copied:
                continue
            assert change.before is not None
            if change.before.links == 1 and images.takes(self._access.roots.handle(step.root)):
                continue
            if not self._has_room(change):
                continue
            fd = self._access.open(step.place, READ)
            try:
                if self._access.keep(fd, step.before, change.before.size):
                    copied.add(step.before)
            finally:
                os.close(fd)
        return copied

    # ── making ──

    def _install(self, pairs: Sequence[_Pair], handles: Handles) -> list[_Pair]:
        """Make every step; gives those that changed something."""
        done = [pair for pair in pairs if self._make(pair, handles)]
        for change, step in reversed(done):
            if step.op == "mkdir" and change.after is not None:
                self._closed += not is_open(change.after)
                dress_folder(handles.folder(step), change.after, change.source if step.layer else "")
        sync_names(self._access, [step for _, step in done])
        return done

    def _stage(self, pairs: Sequence[_Pair], handles: Handles, note: Note) -> None:
        """Have the note and the new contents on disk, these on the file system of their root."""
        links: dict[int, str] = {}
        for change, step in pairs:
            if step.op not in ("create", "replace", "link"):
                continue
            self._closed += change.after is not None and not is_open(change.after)
            if step.layer:
                strip_change(change)
                open_to_owner(change)
            else:
                copy_content(change, handles.spot(step), links)
            if step.path.casefold() == SETTINGS_FILE and step.op != "link":
                refuse_settings_file(step, handles)
        files = [step for _, step in pairs if step.op in ("create", "replace")]
        synced: set[int] = set()
        if len(files) <= FEW:
            for step in files:
                sync_file(*handles.spot(step))
        else:
            synced = sync_all(files, handles)
        if note.device not in synced:
            note.sync()

    def _make(self, pair: _Pair, handles: Handles) -> bool:
        """Make one step; False where there was nothing to do."""
        change, step = pair
        try:
            return _MAKE[step.op](change, step, handles)
        except OSError as error:
            raise problem_of(error, step.place, "kept") from None

    # ── telling ──

    def _record_all(self, done: Sequence[_Pair], handles: Handles, copied: Collection[str]) -> list[Change]:
        """Say what was changed; what can be made again must not take the room of other former contents."""
        order = sorted(range(len(done)), key=lambda number: _is_expendable(done[number]))
        found = {number: self._record(done[number], handles, copied) for number in order}
        lost = [done[number] for number in order if not found[number].kept]
        caches = sum(_is_expendable(pair) for pair in lost)
        if caches:
            self.warnings.append(
                f"{caches} files of caches cannot be put back by undo: undo.max_bytes has no room left"
            )
        for _, step in [pair for pair in lost if not _is_expendable(pair)][:FEW]:
            self.warnings.append(f"{step.shown} cannot be put back by undo: undo.max_bytes has no room left")
        return [found[number] for number in range(len(done))]

    def _has_room(self, change: LayerChange) -> bool:
        """Whether a former content may take room: of what can be made again, half of what is left goes at most."""
        images = self._access.images
        if not change.expendable or images is None or change.before is None:
            return True
        if self._spare is None:
            self._spare = images.left // 2
        if change.before.size > self._spare:
            return False
        self._spare -= change.before.size
        return True

    def _record(self, pair: _Pair, handles: Handles, copied: Collection[str]) -> Change:
        """Say what was changed, its former content where undo finds it."""
        change, step = pair
        if step.op == "link":
            return Change(step.shown, "create", link=step.link)
        if step.op in ("mkdir", "rmdir"):
            return Change(step.shown, step.op, mode=step.mode)
        kept = True
        if step.before and step.before not in copied:
            kept = self._take_former(change, step, handles)
        mode = None if step.mode is None else stat.S_IMODE(step.mode)
        return Change(step.shown, step.op, step.before or None, step.after or None, mode, link=step.link, kept=kept)

    def _take_former(self, change: LayerChange, step: Step, handles: Handles) -> bool:
        images = self._access.images
        if images is None or change.before is None or not self._has_room(change):
            return False
        try:
            folder, name = handles.spot(step)
            return images.take(folder, name, step.before, change.before.size)
        except (OSError, Problem) as error:
            self.warnings.append(f"the former content of {step.shown} could not be kept for undo: {error}")
            return False


def _rank(pair: _Pair) -> tuple[int, int, str]:
    """What goes, goes first, the deepest folder before what holds it; then folders are made, and what is in them."""
    step = pair[1]
    depth = step.path.count("/")
    return ORDER.index(step.op), -depth if step.op == "rmdir" else depth, step.path


def _with_aside(step: Step, number: int) -> Step:
    """Name where in a layer something that goes is renamed to."""
    if step.op != "delete" or step.spot:
        return step
    return Step(
        step.root, step.path, step.op, step.layer, f"aside/{number}", step.before, "", step.inode, step.mode, step.link
    )


def _is_expendable(pair: _Pair) -> bool:
    return pair[0].expendable


def _need_all_untouched(pairs: Iterable[_Pair], handles: Handles) -> None:
    """Look at everything once more before the first step: taking steps back would look like somebody's change."""
    for change, step in pairs:
        if step.op not in ("delete", "replace"):
            continue
        try:
            handles.target(step)
        except OSError:
            raise stale(step.place, "someone else moved its folder in the meantime") from None
        _need_untouched(change, step, handles)


def _take_away(change: LayerChange, step: Step, handles: Handles) -> bool:
    folder, name = handles.target(step)
    spot = handles.spot(step)
    _need_untouched(change, step, handles)
    names.put_new(folder, name, *spot)
    if not _is_former(change, step, handles):
        names.put_new(*spot, folder, name)
        raise stale(step.place, "someone else changed it between check and removal")
    return True


def _remove_folder(_: LayerChange, step: Step, handles: Handles) -> bool:
    """Remove a folder unless somebody has put something into it; that stays."""
    folder, name = handles.target(step)
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:
        if look_at(folder, name) is None:
            raise
        return False
    return True


def _make_folder(_: LayerChange, step: Step, handles: Handles) -> bool:
    folder, name = handles.target(step)
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        now = look_at(folder, name)
        if now is None or not stat.S_ISDIR(now.st_mode):
            raise
        return False  # somebody else has made it
    return True


def _exchange(change: LayerChange, step: Step, handles: Handles) -> bool:
    folder, name = handles.target(step)
    spot = handles.spot(step)
    _need_untouched(change, step, handles)
    if not names.exchange(*spot, folder, name):
        raise problem_of(OSError(95, "this file system cannot exchange two names"), step.place, "kept")
    if not _is_former(change, step, handles):
        names.exchange(*spot, folder, name)
        raise stale(step.place, "someone else changed it between check and replace")
    return True


def _put_new(_: LayerChange, step: Step, handles: Handles) -> bool:
    folder, name = handles.target(step)
    try:
        names.put_new(*handles.spot(step), folder, name)
    except FileExistsError:
        raise stale(step.place, "it did not exist when this was judged, and exists now") from None
    return True


_MAKE: dict[str, Callable[[LayerChange, Step, Handles], bool]] = {
    "delete": _take_away,
    "rmdir": _remove_folder,
    "mkdir": _make_folder,
    "replace": _exchange,
    "create": _put_new,
    "link": _put_new,
}


def _need_untouched(change: LayerChange, step: Step, handles: Handles) -> None:
    now = look_at(*handles.target(step))
    before = change.before
    if now is None or before is None or not before.is_untouched(now, handles.changed_at(now, before.ctime_ns)):
        why = "someone else deleted it" if now is None else "someone else changed it"
        raise stale(step.place, f"{why} in the meantime")


def _is_former(change: LayerChange, step: Step, handles: Handles) -> bool:
    """Whether the very thing that was judged came out, unchanged."""
    now = look_at(*handles.spot(step))
    if now is None or change.before is None or not change.before.is_unmoved(now):
        return False
    handles.note_renamed(now)
    return True
