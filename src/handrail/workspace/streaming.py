"""A file written piece by piece: under a temporary name until it is whole, and gone if it never is."""

from __future__ import annotations

from collections.abc import Callable

from handrail.words import Change, Place
from handrail.workspace.access import Access, problem_of
from handrail.workspace.folders import Record
from handrail.workspace.threads import Brake, Threads
from handrail.workspace.writing import Order, Writing

CHUNK = 1 << 20


class FileSink:
    """Satisfies `ports.Sink`; pieces are gathered so that threads and the disk see few and large ones."""

    __slots__ = ("_brake", "_count", "_gathered", "_job", "_place", "_size", "_threads")

    def __init__(
        self,
        access: Access,
        threads: Threads,
        place: Place,
        order: Order,
        record: Record,
        count: Callable[[int], None],
    ) -> None:
        self._threads, self._place, self._count = threads, place, count
        self._brake = Brake()
        self._job = Writing(access, place, order, record, self._brake)
        self._gathered: list[bytes] = []
        self._size = 0

    async def __aenter__(self) -> FileSink:
        try:
            await self._run(self._job.prepare)
        except BaseException:
            self._job.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._job.close()

    async def write(self, data: bytes) -> None:
        """Add a piece."""
        self._gathered.append(data)
        self._size += len(data)
        if self._size >= CHUNK:
            await self._flush()

    async def commit(self) -> Change:
        """Give the file its name, whole and durable."""
        await self._flush()
        await self._run(self._install)
        assert self._job.change is not None
        return self._job.change

    def _install(self) -> None:
        self._job.sync()
        self._job.install()
        self._job.finish()

    async def _flush(self) -> None:
        data, size = b"".join(self._gathered), self._size
        self._gathered, self._size = [], 0
        if data:
            await self._run(self._job.add, data)
            self._count(size)

    async def _run(self, work: Callable[..., None], *args: bytes) -> None:
        try:
            await self._threads.run(self._brake, work, *args)
        except OSError as error:
            raise problem_of(error, self._place, "written") from None
