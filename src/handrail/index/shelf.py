"""The index files of all roots: which file is whose, opening, healing and closing them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from handrail.errors import Code, Problem
from handrail.index.grammars import installed
from handrail.index.reader import Reader
from handrail.index.store import IndexStore, remove, unsound
from handrail.output.redact import Redactor
from handrail.ports import Clock
from handrail.words import Root

if TYPE_CHECKING:
    from handrail.index.embedding import Embedding

T = TypeVar("T")
SPARE = 0.5  # of the index may be about files and contents that are gone, before they are dropped
WORTH_TIDYING = 2000  # contents


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is indexed, and how long bringing it up to date may take."""

    max_file_bytes: int = 1 << 20
    max_files: int = 100_000
    seconds: float = 100.0
    enabled: bool = True
    vectors: Literal["auto", "on", "off"] = "auto"


class RemadeError(Exception):
    """The index's file was bad and is begun anew: what was known of it counts no more."""


class Shelf:
    """The indexes of all roots, as long as a runtime is open."""

    def __init__(self, folder: Path, redactor: Redactor, clock: Clock, bounds: Bounds) -> None:
        self.folder, self.redactor, self.clock, self.bounds = folder, redactor, clock, bounds
        self.lacks = ""  # why there are no vectors though they were asked for
        self._open: dict[str, IndexStore] = {}
        self._secrets: dict[str, frozenset[str]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._lock = threading.Lock()
        self.reader = Reader()
        self._embedding: Embedding | None = None
        self._loaded = False

    def turn(self, root: Root) -> asyncio.Lock:
        """Calls of one runtime take turns at a root's index."""
        return self._turns.setdefault(root.path, asyncio.Lock())

    async def do(self, root: Root, work: Callable[[IndexStore], T]) -> T:
        """Work on a root's index in a thread; IO_ERROR where it cannot be used, RemadeError where it was bad."""

        def guarded() -> T:
            with self._lock, failing():
                try:
                    return work(self._store(root))
                except sqlite3.Error as error:
                    if not unsound(error):
                        raise
                    self._drop(root)
                    raise RemadeError from error

        return await asyncio.to_thread(guarded)

    @property
    def embedding(self) -> Embedding | None:
        """The table of vectors; None where none is wanted or none can be had. Loaded when it is first asked for."""
        if not self._loaded:
            self._loaded = True
            if self.bounds.vectors != "off":
                self._load()
        return self._embedding

    def _load(self) -> None:
        from handrail.index.embedding import NoEmbeddingError, load

        try:
            self._embedding = load()
        except NoEmbeddingError as error:
            self.lacks = str(error) if self.bounds.vectors == "on" else ""

    def _store(self, root: Root) -> IndexStore:
        store = self._open.get(root.path)
        if store is None:
            store = self._open[root.path] = IndexStore(self._file(root), self.embedding)
            if store.waste(WORTH_TIDYING) > SPARE:
                store.empty()
        if self._secrets.get(root.path) != (known := self.redactor.known):
            store.forget(known - self._secrets.get(root.path, frozenset()))
            self._secrets[root.path] = known
        return store

    def _file(self, root: Root) -> Path | None:
        """Where a root's index lies: another one for another way to cut files, or other patterns of secrets."""
        if root.name.startswith("run:"):
            return None  # gone with the run, so not worth a file
        made_by = repr((installed(), self.redactor.kinds))
        name = hashlib.sha256(os.fsencode(root.path) + b"\0" + made_by.encode()).hexdigest()[:32]
        return self.folder / f"{name}.db"

    def _drop(self, root: Root) -> None:
        store = self._open.pop(root.path, None)
        if store is not None:
            store.close()
        self._secrets.pop(root.path, None)
        if (path := self._file(root)) is not None:
            remove(path)

    def close(self) -> None:
        """Close the files, and end what reads by grammar."""
        self.reader.close()
        with self._lock:
            for store in self._open.values():
                store.close()
            self._open.clear()


@contextmanager
def failing() -> Iterator[None]:
    """Turn what the disk or the database says into one problem."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise Problem(Code.IO_ERROR, f"The code index cannot be used: {error}.", reason=str(error)) from error
