"""Replace or create a file atomically and durably, and never over a change that nobody saw.

A new file takes its name only if nothing has it. An existing one is exchanged with its successor; what comes out is
compared with what was judged, and swapped back when it is something else. Runs in a thread, or in place where the disk
is quick; the steps stand apart so that several writes can wait for the disk together.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from handrail.errors import Code, Problem
from handrail.words import Change, Place, PlaceKind, noun
from handrail.workspace import names
from handrail.workspace.access import Access, not_a_file, problem_of, split
from handrail.workspace.beneath import FOLDER
from handrail.workspace.folders import Made, Record
from handrail.workspace.reading import INLINE_BYTES
from handrail.workspace.settings_table import refuse_settings
from handrail.workspace.standing import (
    KEPT_MODE,
    NEW,
    Standing,
    forget_ours,
    refuse_split,
    replace,
    stale,
    stand,
    sync_folder,
    take_after,
    write_all,
)
from handrail.workspace.threads import Brake

_swept: set[tuple[int, int]] = set()


@noun
class Order:
    """What is to be written, and what must be there now."""

    data: bytes
    expected_sha256: str | None = None
    mkdirs: bool = True
    exclusive: bool = False
    mode: int | None = None  # of a file that is made anew
    ours: Callable[[Place], bool] = lambda _: False  # whether this call put there what stands there
    splits: bool = False  # of a file with several names this one becomes another file; the others stay as they are


class Writing:
    """One write under way: prepare, sync, install, finish; then close, whatever happened."""

    __slots__ = (
        "_access",
        "_digest",
        "_fd",
        "_folder",
        "_made",
        "_name",
        "_order",
        "_own_folder",
        "_record",
        "_standing",
        "_temporary",
        "brake",
        "change",
        "folder_identity",
        "place",
    )  # fmt: skip

    def __init__(self, access: Access, place: Place, order: Order, record: Record, brake: Brake) -> None:
        self._access, self._order, self._record = access, order, record
        self.place, self.brake = place, brake
        self._folder = self._fd = -1
        self._own_folder = True  # False: it is a root's handle, which others use
        self._name = self._temporary = ""
        self.folder_identity = (0, 0)
        self._made: Made | None = None
        self._standing: Standing | None = None
        self._digest = hashlib.sha256()
        self.change: Change | None = None

    @property
    def syncs(self) -> int:
        """How often a write like this waits for the disk: for the file and its folder, and for a pre-image."""
        return 2 if self.place.kind is PlaceKind.MISSING else 4

    @property
    def device(self) -> int:
        """Which file system the file lies on."""
        return self.folder_identity[0]

    @property
    def folder(self) -> int:
        """The handle of the folder that holds the file."""
        return self._folder

    def prepare(self) -> None:
        """Check what is there, and write the data to a file that has no name yet, or a temporary one."""
        self._open_folder()
        order = self._order
        # Where nothing should be, taking the name tells whether that is so: nobody looks before.
        if order.expected_sha256 or self.place.kind is not PlaceKind.MISSING or order.ours(self.place):
            known = order.expected_sha256 and not order.ours(self.place)
            most = max(self.place.size, INLINE_BYTES) if known else None
            self._standing = stand(self._folder, self._name, self.place, self.brake, most)
            _check(self.place, order, self._standing)
        self._open_new()
        self.add(order.data)
        if self._standing is not None:
            take_after(self._fd, self._standing)
        elif order.mode is not None:
            os.fchmod(self._fd, order.mode & KEPT_MODE)

    def add(self, data: bytes) -> None:
        """Write further data behind what there is."""
        self.brake.check()
        write_all(self._fd, data)
        self._digest.update(data)

    def sync(self) -> None:
        """Make the data durable."""
        os.fsync(self._fd)

    def install(self) -> None:
        """Give the data its name: the moment of the effect. Cancelling is heard before it and no more after."""
        after = self._digest.hexdigest()
        refuse_settings(self.place, self._fd)
        self.brake.check()
        if self._standing is None:
            change = Change(self.place.shown, "create", after=after)
            self._take_name()
        else:
            standing = self._standing
            kept = self._access.keep(standing.fd, standing.sha256, standing.status.st_size)
            mode = stat.S_IMODE(standing.status.st_mode)
            change = Change(self.place.shown, "replace", standing.sha256, after, mode, kept=kept)
            self.brake.check()
            self._temporary = names.renamed_old(self._folder, self._temporary)
            replace(self._folder, self._temporary, self._name, standing, self._identity(), self.place)
        self._temporary = ""
        self.change = change
        if self._made is not None:
            self._made.settle(self._record)
        self._record(change)

    def finish(self) -> None:
        """Make the name durable."""
        sync_folder(self._folder, self.place)

    def close(self) -> None:
        """Let everything go; a temporary file, and folders made for nothing, go with it."""
        if self._fd >= 0:
            if self._temporary:
                forget_ours(self._folder, self._temporary, self._identity())
            os.close(self._fd)
        if self._standing is not None:
            os.close(self._standing.fd)
        if self._own_folder and self._folder >= 0:
            os.close(self._folder)
        self._fd = self._folder = -1
        self._standing = None
        if self._made is not None:
            self._made.take_back(self._record)

    def _identity(self) -> tuple[int, int]:
        return names.identity_of(os.fstat(self._fd))

    def _open_folder(self) -> None:
        place = self.place
        if not place.path:
            raise not_a_file(place, PlaceKind.DIRECTORY)
        folder, self._name = split(place)
        if folder:
            self._folder = self._enter(folder)
        else:
            self._folder, self._own_folder = self._access.roots.handle(place.root), False
        self.folder_identity = names.identity_of(os.fstat(self._folder))
        _sweep_once(self._folder, self.folder_identity)

    def _open_new(self) -> None:
        """Open the file that takes the data: without a name where it only has to take one, beside the old otherwise."""
        if self._standing is None:
            unnamed = names.open_unnamed(self._folder, self.device, 0o666)
            if unnamed is not None:
                self._fd = unnamed
                return
        temporary = names.fresh()
        self._fd = os.open(temporary, NEW, 0o666 if self._standing is None else 0o600, dir_fd=self._folder)
        self._temporary = temporary

    def _enter(self, folder: str) -> int:
        access, root = self._access, self.place.root
        try:
            return access.open_beneath(access.roots.handle(root), folder, FOLDER, 0)
        except FileNotFoundError:
            if not self._order.mkdirs:
                shown = root.shown(folder)
                text = f"The folder {shown} does not exist; mkdirs makes it."
                raise Problem(Code.NOT_FOUND, text, path=shown) from None
        self._made = Made(access, self.place)
        return self._made.enter(folder)

    def _take_name(self) -> None:
        try:
            if self._temporary:
                names.put_new(self._folder, self._temporary, self._folder, self._name)
            else:
                names.name_unnamed(self._fd, self._folder, self._name)
        except FileExistsError:
            if self._order.exclusive:
                shown = self.place.shown
                raise Problem(Code.ALREADY_EXISTS, f"{shown} exists already.", path=shown) from None
            why = "it did not exist when this call was judged, and exists now"
            raise stale(self.place, why) from None


def write(writing: Writing) -> Change:
    """Carry one write out; Problem and nothing changed where what is there is not what it must be."""
    try:
        try:
            writing.prepare()
            writing.sync()
            writing.install()
            writing.finish()
        except BaseException:
            with suppress(Exception):  # what failed first is what is told
                writing.close()
            raise
        writing.close()
    except OSError as error:
        raise problem_of(error, writing.place, "written") from None
    assert writing.change is not None
    return writing.change


def _sweep_once(folder: int, identity: tuple[int, int]) -> None:
    if identity not in _swept and len(_swept) < 4096:
        _swept.add(identity)
        names.sweep(folder)


def _check(place: Place, order: Order, standing: Standing | None) -> None:
    shown = place.shown
    if standing is None:
        if order.expected_sha256:
            raise stale(place, "it does not exist any more")
        return
    if order.exclusive:
        raise Problem(Code.ALREADY_EXISTS, f"{shown} exists already.", path=shown, sha256=standing.sha256)
    if place.kind is PlaceKind.MISSING and not order.ours(place):
        raise stale(place, "it did not exist when this call was judged, and exists now", standing.sha256)
    if order.expected_sha256 is not None and order.expected_sha256 != standing.sha256:
        why = "something is there already" if order.expected_sha256 == "" else "its content is another one"
        raise stale(place, why, standing.sha256, order.expected_sha256)
    if not order.splits:
        refuse_split(place, standing)
