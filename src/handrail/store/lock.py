"""One process owns a run: a lock for as long as it is open, which names its holder."""

from __future__ import annotations

import fcntl
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Code, RunFault
from handrail.store.private import SAFE, write_all

NAME = "lock"


class RunLock:
    """Held from `take` to `release`, or until the process dies."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, folder: Path, now: float) -> RunLock:
        """Own the run, or raise RunFault RUN_BUSY naming who does; a second time in one process as well."""
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            write_all(handle, orjson.dumps(_myself(now)))
        except BlockingIOError:
            held_by = _read(handle)
            os.close(handle)
            raise _busy(folder, held_by) from None
        except BaseException:
            os.close(handle)
            raise
        return cls(handle)

    def release(self) -> None:
        """Let the next one have it."""
        try:
            os.ftruncate(self._handle, 0)
        finally:
            # Unlocked by name, not only by closing: a forked child may share the handle.
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)


def is_open(folder: Path) -> bool | None:
    """Say whether a process of this machine owns the run; None where that cannot be known.

    The lock is only looked at: taking it, for however short a time, would refuse the run to its next owner.
    """
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | SAFE)
    except OSError:
        return None
    try:
        held_by = _read(handle)
    finally:
        os.close(handle)
    if not held_by:
        return False
    if held_by.get("host") != os.uname().nodename or not isinstance(pid := held_by.get("pid"), int):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _myself(now: float) -> dict[str, Any]:
    # Only the program's name: arguments can hold secrets, and this file outlives a killed process.
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"pid": os.getpid(), "host": os.uname().nodename, "since": since, "cmdline": program}


def _read(handle: int) -> dict[str, Any]:
    try:
        held_by = orjson.loads(os.pread(handle, 4096, 0))
    except ValueError:  # its holder has not written it yet
        return {}
    return held_by if isinstance(held_by, dict) else {}


def _busy(folder: Path, held_by: dict[str, Any]) -> RunFault:
    who = "this process" if held_by.get("pid") == os.getpid() else f"process {held_by.get('pid', 'unknown')}"
    return RunFault(
        Code.RUN_BUSY,
        f"The run {folder.name} is open in {who} ({held_by.get('cmdline', 'unknown program')} on "
        f"{held_by.get('host', 'this machine')}) since {held_by.get('since', 'a moment ago')}. "
        "Wait until it is closed, or use another run.",
        pid=held_by.get("pid"),
        since=held_by.get("since"),
        host=held_by.get("host"),
        cmdline=held_by.get("cmdline"),
    )
