"""Put back what one recorded change took away, and only if nobody changed it since. Runs in a thread."""

from __future__ import annotations

import os
import stat

from handrail.errors import Code, Misuse, Problem
from handrail.words import Change, Place
from handrail.workspace import folders
from handrail.workspace.access import READ, Access, problem_of, split
from handrail.workspace.folders import Record
from handrail.workspace.removing import delete, remove_empty
from handrail.workspace.standing import KEPT_MODE, stale, sync_folder
from handrail.workspace.threads import Brake
from handrail.workspace.writing import Order, Writing, write


def restore(access: Access, place: Place, change: Change, data: bytes | None, record: Record, brake: Brake) -> None:
    """Do the opposite of a change; a move is undone by moving back, which names two places."""
    if change.op == "create":
        delete(
            access,
            place,
            recursive=False,
            expected=change.after,
            excluded=lambda _: False,
            record=record,
            brake=brake,
        )
    elif change.op in ("replace", "delete") and change.link is None:
        _put_back(access, place, change, data, record, brake)
    elif change.op == "delete":
        _link_again(access, place, change, record, brake)
    elif change.op == "mkdir":
        _remove_made(access, place, record)
    elif change.op == "rmdir":
        folders.make(access, place, record, change.mode)
    else:
        raise Misuse(f"a change of kind {change.op!r} is not restored by itself")


def _put_back(access: Access, place: Place, change: Change, data: bytes | None, record: Record, brake: Brake) -> None:
    if data is None:
        text = f"What stood at {place.shown} was not kept, so it cannot be put back."
        raise Problem(Code.NOT_FOUND, text, path=place.shown)
    expected = change.after if change.op == "replace" else ""
    # Programs make several names of one file (builds do); each name has its own former content.
    order = Order(data, expected, mode=change.mode, ours=lambda _: True, splits=True)
    write(Writing(access, place, order, record, brake))
    if change.op == "replace" and change.mode is not None:
        _set_mode(access, place, change.mode)


def _set_mode(access: Access, place: Place, mode: int) -> None:
    """Give a file the mode that it had, without setuid and setgid."""
    fd = access.open(place, READ)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) & KEPT_MODE != mode & KEPT_MODE:
            os.fchmod(fd, mode & KEPT_MODE)
    finally:
        os.close(fd)


def _link_again(access: Access, place: Place, change: Change, record: Record, brake: Brake) -> None:
    assert change.link is not None
    folder_path, name = split(place)
    made = folders.Made(access, place)
    folder = made.enter(folder_path)
    try:
        brake.check()
        os.symlink(change.link, name, dir_fd=folder)
        made.settle(record)
        record(Change(place.shown, "create", link=change.link))
        sync_folder(folder, place)
    except FileExistsError:
        raise stale(place, "something is there already") from None
    except OSError as error:
        raise problem_of(error, place, "restored") from None
    finally:
        os.close(folder)
        made.take_back(record)


def _remove_made(access: Access, place: Place, record: Record) -> None:
    try:
        remove_empty(access, place, record)
    except FileNotFoundError:
        return  # gone already: nothing to take back
    except OSError as error:
        raise problem_of(error, place, "restored") from None
