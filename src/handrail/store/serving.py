"""Whether `handrail serve` runs for this account: it holds a lock for as long as it does, and says where it listens."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Code, RunFault
from handrail.store.private import SAFE, make_folder, write_all

NAME = "serve.lock"


class ServiceLock:
    """Held while the service runs; it is free once the process is gone."""

    def __init__(self, state: Path) -> None:
        make_folder(state)
        self._handle = os.open(state / NAME, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = _read(self._handle).get("url", "another address")
            os.close(self._handle)
            raise RunFault(
                Code.RUN_BUSY, f"The service of this account runs already, at {where}. Stop that one first."
            ) from None

    def tell(self, about: Mapping[str, Any]) -> None:
        """Say where the service listens, for commands of the same account."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        write_all(self._handle, orjson.dumps(about))

    def release(self) -> None:
        """Let the next one start."""
        os.ftruncate(self._handle, 0)
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)


def is_serving(state: Path) -> bool:
    """Whether the service runs."""
    return _look(state) is not None


def service_address(state: Path) -> str | None:
    """Give the address of the service that runs; None where none does."""
    found = _look(state)
    return None if found is None else str(found.get("url", "")) or None


def _look(state: Path) -> dict[str, Any] | None:
    try:
        handle = os.open(state / NAME, os.O_RDONLY | SAFE)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(handle)
    finally:
        os.close(handle)
    return None


def _read(handle: int) -> dict[str, Any]:
    try:
        about = orjson.loads(os.pread(handle, 4096, 0))
    except ValueError:  # its holder has not written it yet
        return {}
    return about if isinstance(about, dict) else {}
