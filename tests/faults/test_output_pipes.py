"""A program's flood of output where no thread can be had for it."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from handrail.processes.pipes import Feeder, Reader, pipe

FLOOD = 3 << 20


class Kept:
    """Takes a stream's bytes and keeps them."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take more bytes."""
        self.data += data


@pytest.mark.parametrize("refusals", [1, 1_000_000])
async def test_a_flood_is_read_whole_without_a_thread(monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
    """On the event loop, for as long as the system gives none."""
    real, left = threading.Thread.start, [refusals]

    def start(thread: threading.Thread) -> None:
        if thread.name == "handrail-output" and left[0]:
            left[0] -= 1
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    source, sink = pipe()
    kept, counted = Kept(), list[int]()
    reader = Reader(source, kept, counted.append)
    sent, feeder = os.urandom(FLOOD), Feeder(sink)
    try:
        async with asyncio.timeout(20):
            await feeder.send(sent)
            feeder.close()
            await reader.ended
    finally:
        feeder.close()
    assert (bytes(kept.data), sum(counted), reader.threaded) == (sent, FLOOD, refusals == 1)


async def test_reading_can_be_stopped_where_no_thread_was_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a thread that never was."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    source, sink = pipe()
    kept, feeder = Kept(), Feeder(sink)
    reader = Reader(source, kept, lambda _: None)
    monkeypatch.setattr(threading.Thread, "start", start)
    try:
        async with asyncio.timeout(20):
            await feeder.send(bytes(FLOOD))
            await reader.stop()
    finally:
        feeder.close()
    assert (reader.ended.done(), len(kept.data)) == (True, FLOOD)
