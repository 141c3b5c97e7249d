"""Judging what a program changed after it ran: by policy, by a person who sees the diff; kept or dropped as a whole."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from handrail.errors import Code, Problem
from handrail.output.bound import Bounds, bound
from handrail.ports import Captured, Finished, Work
from handrail.processes.host import Host
from handrail.processes.layer import Layer, Made, cannot, fingerprint, sha256
from handrail.processes.running import to_its_end
from handrail.processes.unfinished import Note, steps_of
from handrail.sandbox.launching import Child
from handrail.tools.fs._changes import FileChange, carry_out
from handrail.tools.fs._diff import diff_texts
from handrail.words import How, Place, PlaceKind, Root, Touch, TouchKind
from handrail.workspace.access import READ, Access
from handrail.workspace.beneath import FOLDER

_TAIL_LINES, _TAIL_CHARS = 10, 300  # of each stream, with the question whether to keep what the program did


class Review:
    """One program's changes, looked at before they reach the workspace."""

    def __init__(self, host: Host, work: Work) -> None:
        self._host, self._work = host, work
        self._access: Access = host.watch.access

    async def keep(self, child: Child, done: Finished) -> tuple[tuple[str, ...], str]:
        """Keep what may be kept; the changed paths and their diff. A Problem says why all of it was dropped."""
        changes = await asyncio.to_thread(Layer(self._access, self._upper(child)).changes)
        if not changes:
            return (), ""
        diff = await asyncio.to_thread(self._diff, changes)
        try:
            places = _where(changes, await self._judged(changes, diff, done))
        except Problem as problem:
            problem.details.setdefault("diff", diff)
            raise
        await self._apply(changes, places)
        return tuple(dict.fromkeys(made.shown for made in changes)), diff

    def _upper(self, child: Child) -> dict[Root, str]:
        upper = child.upper or {}
        return {root: upper[root.path] for root in self._host.roots if root.path in upper}

    async def _judged(self, changes: Sequence[Made], diff: str, done: Finished) -> Sequence[Touch]:
        if self._work.review is None:
            raise Problem(Code.POLICY_DENIED, "Nothing was kept: nobody here can judge what programs changed.")
        touches = tuple(_touch(made) for made in changes)
        # Whoever keeps what a program did must know how it ended: a yes to one that failed is none to one that did not.
        bound_to = [fingerprint(changes), done.exit_code, done.signal]
        return await self._work.review(touches, diff, bound_to, _ending(done))

    def _diff(self, changes: Sequence[Made]) -> str:
        limits = self._host.terms.limits
        text = "".join(self._one(made) for made in changes)
        cut = bound(text, Bounds(limits.max_output_lines - 40, limits.max_output_bytes // 2, limits.max_line_chars))
        return text if cut is None else f"{cut.text.rstrip()}\n[the diff is cut: {cut.shown} of {cut.total} {cut.by}]\n"

    def _one(self, made: Made) -> str:
        if made.op in ("mkdir", "rmdir"):
            return f"{'new' if made.op == 'mkdir' else 'removed'} folder {made.shown}\n"
        limits = self._host.terms.limits
        before, after = _text(made.before, limits.max_read_bytes), _text(made.after, limits.max_read_bytes)
        if (made.before is not None and before is None) or (made.after is not None and after is None):
            sizes = f"{len(made.before or b'')} to {len(made.after or b'')} bytes"
            return f"{made.op} {made.shown}: no text or too large to show, {sizes}, sha256 {sha256(made.after)}\n"
        if made.before == made.after:
            return f"{made.op} {made.shown}{'' if made.mode is None else f', mode {made.mode:o}'}\n"
        mode = f"{made.op} {made.shown}, mode {made.mode:o}\n" if made.remode else ""
        text = diff_texts(before, after, made.shown, self._host.redactor, limits)
        return f"{mode}{text}" or f"{made.op} {made.shown}, empty\n"

    async def _apply(self, changes: Sequence[Made], places: dict[str, Place]) -> None:
        """Make every change, or none: what stands there is noted on disk first, for whoever must put it back."""
        note = await to_its_end(asyncio.to_thread(self._noted, changes))
        try:
            await self._make(changes, places)
        except BaseException as error:
            left = await to_its_end(asyncio.to_thread(self._put_back, note))
            if isinstance(error, Problem) and left:
                error.details["left"] = left
            raise
        await to_its_end(asyncio.to_thread(note.remove))

    def _noted(self, changes: Sequence[Made]) -> Note:
        try:
            steps = steps_of(self._access, changes)
            return Note.write(Path(self._host.unfinished), self._host.run_id, self._work.call_id, steps)
        except OSError as error:
            raise cannot(f"what it would replace could not be noted first ({error.strerror})") from error

    def _put_back(self, note: Note) -> list[str]:
        left = note.roll_back(self._work.files.changes.append)
        if left:
            note.set_aside()
        else:
            note.remove()
        return left

    async def _make(self, changes: Sequence[Made], places: dict[str, Place]) -> None:
        """Make every change through the call's workspace, with pre-images for undo; what goes, goes first."""
        files = self._work.files
        await carry_out(files, [_file_change(made, places) for made in changes if made.op == "delete"])
        for made in sorted((made for made in changes if made.op == "rmdir"), key=_depth, reverse=True):
            if self._empty(places[made.shown]):
                await files.delete(places[made.shown], recursive=True)
        gone = {made.path for made in changes if made.op in ("delete", "rmdir")}
        places = {shown: _missing(place) if place.path in gone else place for shown, place in places.items()}
        await carry_out(files, [_file_change(made, places) for made in changes if _is_new(made)])
        for made in changes:
            if made.op == "mkdir":
                await files.make_dir(places[made.shown])
            elif made.op in ("create", "replace") and made.mode is not None:
                self._set_mode(places[made.shown], made.mode)

    def _empty(self, place: Place) -> bool:
        """Whether nobody has put anything into a folder since it was emptied."""
        fd = self._access.open(place, FOLDER)
        try:
            return not os.listdir(fd)
        finally:
            os.close(fd)

    def _set_mode(self, place: Place, mode: int) -> None:
        fd = self._access.open(place, READ)
        try:
            if os.fstat(fd).st_mode & 0o777 != mode:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)


def _where(changes: Sequence[Made], placed: Sequence[Touch]) -> dict[str, Place]:
    """The places of all changes; each must be the one that was shown, with no link on the way to another."""
    places = {touch.target: touch.place for touch in placed if touch.place is not None}
    for made in changes:
        place = places.get(made.shown)
        if place is None or (place.root, place.path) != (made.root, made.path):
            raise cannot(f"{made.shown} leads elsewhere by a link")
    return places


def _ending(done: Finished) -> dict[str, tuple[str, ...]]:
    """How the program ended and the last it wrote, as a person is told it; both streams are redacted by now."""
    failed = bool(done.signal or done.exit_code)
    how = f"signal {done.signal}" if done.signal else f"exit code {done.exit_code}"
    told = {"failed" if failed else "ended": (how,)}
    streams = (("stdout", done.stdout), ("stderr", done.stderr))
    return told | {f"end of {name}": shown for name, stream in streams if (shown := _tail(stream))}


def _tail(stream: Captured) -> tuple[str, ...]:
    lines = stream.text.rstrip().splitlines()[-_TAIL_LINES:]
    return tuple(line if len(line) <= _TAIL_CHARS else f"{line[:_TAIL_CHARS]}…" for line in lines)


def _touch(made: Made) -> Touch:
    if made.op in ("delete", "rmdir"):
        return Touch(TouchKind.FS_DELETE, made.shown, follow=False)
    how = How.REPLACE if made.op == "replace" else How.PLAIN
    return Touch(TouchKind.FS_WRITE, made.shown, how=how, follow=False)


def _is_new(made: Made) -> bool:
    """Whether there is a content to be written."""
    return made.op in ("create", "replace") and made.before != made.after


def _missing(place: Place) -> Place:
    return replace(place, kind=PlaceKind.MISSING)


def _file_change(made: Made, places: dict[str, Place]) -> FileChange:
    words = {"create": "add", "replace": "update", "delete": "delete"}
    return FileChange(
        words[made.op], places[made.shown], None, made.before, made.after, sha256(made.before), sha256(made.after)
    )


def _depth(made: Made) -> int:
    return made.path.count("/")


def _text(data: bytes | None, most: int) -> str | None:
    """A content as text; None where there is none, or it is none."""
    if data is None or len(data) > most or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
