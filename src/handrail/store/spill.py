"""Where the whole of a cut output goes: numbered files in the run's observations."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path

from handrail.errors import Code, Problem
from handrail.store.private import SAFE, write_all
from handrail.words import Ref

_NUMBER = re.compile(r"(?:.*_)?([0-9]{1,18})\.[a-z]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class FileSpill:
    """Keeps texts in the run's observations as `<n>.txt` or `<name>_<n>.txt`; no number is used twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: int | None = None

    def put(self, text: str, name: str = "") -> Ref:
        """Keep a text, redacted by its caller, and name it."""
        if name and _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} cannot name an observation")
        data = text.encode("utf-8", "backslashreplace")
        try:
            file, handle = self._next(name)
            try:
                write_all(handle, data)
            except OSError:
                (self._folder / file).unlink(missing_ok=True)
                raise
            finally:
                os.close(handle)
        except OSError as error:
            raise Problem(
                Code.IO_ERROR,
                f"The whole output cannot be kept ({error.strerror}).",
                errno=error.errno,
                mend="ask for a smaller part, or free space where runs are kept",
            ) from error
        return Ref(f"run:observations/{file}", sha256(data).hexdigest(), len(data))

    def _next(self, name: str) -> tuple[str, int]:
        if self._last is None:
            self._last = self._highest()
        while True:
            self._last += 1
            file = f"{name}_{self._last}.txt" if name else f"{self._last}.txt"
            try:
                return file, os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
            except FileExistsError:
                continue

    def _highest(self) -> int:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        found = [_NUMBER.fullmatch(name) for name in os.listdir(self._folder)]
        return max((int(match[1]) for match in found if match), default=0)
