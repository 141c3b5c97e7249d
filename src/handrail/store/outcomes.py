"""Stored outcomes of calls with an idempotency key: the same key is answered from here."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import orjson

from handrail.errors import Code, Problem
from handrail.store.plain import plain
from handrail.store.private import read_private, write_atomic
from handrail.words import Json


class Outcomes:
    """One file a key in the run's `outcomes/`, redacted by the caller."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, outcome: Mapping[str, Json]) -> None:
        """Keep an outcome whole and durable; Problem IO_ERROR when that fails."""
        try:
            data = orjson.dumps(outcome)
        except TypeError:
            data = orjson.dumps(plain(outcome))
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            write_atomic(self._path(key), [data])
        except OSError as error:
            raise Problem(
                Code.IO_ERROR, f"The outcome cannot be kept for its key ({error.strerror}).", errno=error.errno
            ) from error

    def get(self, key: str) -> dict[str, Json] | None:
        """Give the outcome of a key; None when there is none that can be read."""
        try:
            outcome = orjson.loads(read_private(self._path(key)))
        except (OSError, ValueError):
            return None
        return outcome if isinstance(outcome, dict) else None

    def _path(self, key: str) -> Path:
        return self._folder / f"{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}.json"
