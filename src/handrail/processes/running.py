"""One program from its start to its end: output taken in, time limit kept, nothing of it left, changes told."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from handrail.errors import Problem
from handrail.ports import Captured, Finished, Program, Work
from handrail.processes.effects import Look
from handrail.processes.host import Host, Served
from handrail.processes.pipes import PART, Feeder, Reader, pipe
from handrail.processes.planted import Guard, guarded
from handrail.processes.scratch import given_back, left_in_scratch, watch_scratch
from handrail.processes.sentry import Sentry
from handrail.processes.sink import Sink, Written
from handrail.processes.text import Kept, Room
from handrail.sandbox.launching import Child, Ended

DRAIN_SECONDS = 0.5  # for what others of the tree still write after the program itself has ended
GRACE_SECONDS = 1.0  # between asking a tree to end and ending it
FLOODED, OVERFULL = "flooded", "overfull"
_SHORTEST_WAIT = 0.05  # seconds between looks at a time limit that stands still
_FEW_ENTRIES = 3000  # looked at on the event loop

T = TypeVar("T")


class Streams:
    """The two output streams of a program, and its input."""

    def __init__(self, host: Host, flooded: Callable[[], None]) -> None:
        keep = 2 * host.terms.room.max_bytes
        self.stdout = Sink(host.redactor, host.spill, "stdout", keep)
        self.stderr = Sink(host.redactor, host.spill, "stderr", keep)
        self._readers: tuple[Reader, ...] = ()
        self._feeding: asyncio.Task[None] | None = None
        self._flooded, self._bytes, self._most = flooded, 0, host.terms.kill_output_bytes
        self._before = (0, 0)

    async def start(self, host: Host, work: Work, program: Program) -> Child:
        """Start the program on pipes of its own."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            stdin = self._stdin(program.stdin, theirs, ours)
            out, err = _pipe(theirs, ours), _pipe(theirs, ours)
            child = await host.spawn(work, program, (stdin[0], out[1], err[1]))
            ours.pop_all()
        self._readers = (Reader(out[0], self.stdout, self._count), Reader(err[0], self.stderr, self._count))
        if stdin[1] >= 0:
            self._feeding = asyncio.ensure_future(_fed(Feeder(stdin[1]), program.stdin))
        return child

    def _stdin(self, data: bytes, theirs: contextlib.ExitStack, ours: contextlib.ExitStack) -> tuple[int, int]:
        """A descriptor to read from, and one to write to where not all fits at once."""
        if not data:
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            theirs.callback(os.close, null)
            return null, -1
        read, write = pipe()
        theirs.callback(os.close, read)
        if len(data) <= PART:
            os.write(write, data)
            os.close(write)
            return read, -1
        ours.callback(os.close, write)
        return read, write

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._most:
            self._flooded()

    async def drained(self) -> None:
        """Wait for the streams to end, a moment at most."""
        open_still = [reader.ended for reader in self._readers if not reader.ended.done()]
        if open_still:
            await asyncio.wait(open_still, timeout=DRAIN_SECONDS)

    async def stop(self) -> None:
        """Take in what is there and no more."""
        if self._feeding is not None:
            self._feeding.cancel()
        for reader in self._readers:
            await reader.stop()
        for reader, sink in zip(self._readers, (self.stdout, self.stderr), strict=False):
            if reader.threaded:
                await asyncio.to_thread(sink.finish)
            else:
                sink.finish()

    def written(self) -> Written:
        """How far both are; the last line is that of the stream which wrote last."""
        out, err = self.stdout.written(), self.stderr.written()
        err_last = err.bytes != self._before[1] or not out.last
        last = (err.last or out.last) if err_last else out.last
        self._before = (out.bytes, err.bytes)
        return Written(out.bytes + err.bytes, out.lines + err.lines, last)

    def captured(self, room: Room, well: bool) -> tuple[Captured, Captured]:
        """What is shown of both; what one does not need the other may use. More tail where all went well."""
        out = self.stdout.finish()
        err = self.stderr.finish()
        head_share = 0.25 if well else 0.5
        shares = _divided(room, out, err)
        return (
            self.stdout.captured(_floored(shares[0]), head_share, keep=not _has_room(shares[0], out)),
            self.stderr.captured(_floored(shares[1]), head_share, keep=not _has_room(shares[1], err)),
        )


def _divided(room: Room, out: Kept, err: Kept) -> tuple[Room, Room]:
    """Divide a room: each stream may have half of its lines and bytes, and what the other does not need."""
    if out.bytes + err.bytes <= room.max_bytes and out.lines + err.lines <= room.max_lines:
        return room, room
    size = min(err.bytes + 1, max(room.max_bytes // 2, room.max_bytes - out.bytes - 1))
    lines = min(err.lines, max(room.max_lines // 2, room.max_lines - out.lines))
    rest = Room(room.max_lines - lines, room.max_bytes - size, room.max_line_chars)
    return rest, Room(lines, size, room.max_line_chars)


def _floored(room: Room) -> Room:
    """Give the least room in which the line about what is left out can stand, too."""
    return Room(max(4, room.max_lines), max(800, room.max_bytes), room.max_line_chars)


def _has_room(room: Room, kept: Kept) -> bool:
    return kept.lines <= room.max_lines and kept.bytes <= room.max_bytes


def _pipe(theirs: contextlib.ExitStack, ours: contextlib.ExitStack) -> tuple[int, int]:
    read, write = pipe()
    ours.callback(os.close, read)
    theirs.callback(os.close, write)
    return read, write


async def _fed(feeder: Feeder, data: bytes) -> None:
    try:
        await feeder.send(data)
    finally:
        feeder.close()


class Tree:
    """A program and all it started. Its end is waited for in one place: ending it and waiting may happen at once."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.ended = child.over()

    async def end(self, grace_seconds: float) -> Ended:
        """See that nothing of it is left: ask, where there is grace, then end it."""
        if not self.ended.done() and grace_seconds > 0:
            self._child.send(signal.SIGTERM)
            await asyncio.wait((self.ended,), timeout=grace_seconds)
        if not self.ended.done():
            self._child.kill()
        return await asyncio.shield(self.ended)


class Running:
    """A program that a call waits for."""

    def __init__(self, host: Host, work: Work, program: Program) -> None:
        self._host, self._work, self._program = host, work, program
        self._enough: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why it is ended
        self._streams = Streams(host, lambda: self._stop(FLOODED))
        self._timed_out = False
        self._served: Served | None = None
        self._unanswered = ""
        self._changed: tuple[str, ...] = ()
        self._warnings: list[str] = []
        self._refused: list[str] = []  # connections

    async def run(self) -> Finished:
        """Run it to its end; when cancelled, end its tree and tell what it changed first."""
        if self._host.sentries:
            await self._host.judged()
        given_back(self._host.scratch)
        before = Look(()) if self._host.reviews(self._work) else await look(self._host)
        guard = await guarded(self._host, self._work, before)
        began = time.monotonic()
        try:
            child = await self._streams.start(self._host, self._work, self._program)
        except BaseException as fault:
            await to_its_end(self._unstarted(fault, before, guard))
            raise
        tree = Tree(child)
        sentry = None if self._host.reviews(self._work) else Sentry(guard, self._warnings.extend, self._host.sentries)
        try:
            async with self._followed(), self._network(child):
                ended = await self._ended(child, tree)
        except BaseException:
            await to_its_end(self._abandoned(child, tree, before, guard, sentry))
            raise
        seconds = time.monotonic() - began
        try:
            await to_its_end(self._settled(before, guard, sentry), give_up=True)
        except BaseException:
            self._drop(child)
            raise
        if not self._host.reviews(self._work):
            return self._finished(ended, seconds)
        try:
            return await self._reviewed(child, self._finished(ended, seconds))
        finally:
            self._host.tidy_later(child.discard)

    async def _unstarted(self, fault: BaseException, before: Look, guard: Guard) -> None:
        """Let a program go that nobody saw start; where that was cut off, it may have begun."""
        try:
            if isinstance(fault, asyncio.CancelledError) and not self._host.reviews(self._work):
                await self._told(before, guard)
        finally:
            guard.dismiss()

    async def _settled(self, before: Look, guard: Guard, sentry: Sentry | None) -> None:
        """See to all that a program leaves: each step is made, whatever becomes of the ones before it."""
        async with contextlib.AsyncExitStack() as steps:  # the last one comes first
            steps.callback(guard.dismiss)
            if not self._host.reviews(self._work):
                steps.push_async_callback(self._scratch_seen)
                steps.push_async_callback(self._told, before, guard)
            if sentry is not None:
                steps.push_async_callback(sentry.stop)
            steps.push_async_callback(self._streams.stop)

    async def _scratch_seen(self) -> None:
        self._warnings += await left_in_scratch(self._host, full=self._reason == OVERFULL)

    def _drop(self, child: Child) -> None:
        """Forget what nobody will be told of."""
        for sink in (self._streams.stdout, self._streams.stderr):
            sink.discard()
        if self._host.reviews(self._work):
            child.discard()

    async def _reviewed(self, child: Child, done: Finished) -> Finished:
        """Keep or drop what the program changed, however it ended."""
        from handrail.processes.review import Review

        try:
            found = await Review(self._host, self._work, child, done).keep()
        except Problem as problem:
            if done.unanswered:
                problem.message = f"The command {done.unanswered} {problem.message}"
            problem.details |= {"exit_code": done.exit_code, "stdout": done.stdout.text, "stderr": done.stderr.text}
            raise
        warnings = (*done.warnings, *found.warnings)
        return replace(
            done,
            changed=found.changed,
            diff=found.diff,
            warnings=warnings,
            unkept=found.unkept,
            caches=found.caches,
        )

    @contextlib.asynccontextmanager
    async def _followed(self) -> Any:
        """Let a front end show how far it is, until it has ended and others may want to be shown."""
        follow = self._host.followed
        over = None if follow is None else follow(self._work.call_id, self._streams.written)
        try:
            yield
        finally:
            if over is not None:
                over()

    @contextlib.asynccontextmanager
    async def _network(self, child: Child) -> Any:
        if child.listener is None or self._host.serve is None:
            yield
            return
        async with self._host.serve(child.listener, self._work) as served:
            self._served = served
            yield
        # Once it is closed: connections that were still held have ended by then.
        self._refused += served.describe_refusals()
        self._unanswered = served.describe_unanswered()

    def _stop(self, why: str) -> None:
        if not self._enough.done():
            self._enough.set_result(why)

    @property
    def _reason(self) -> str:
        return self._enough.result() if self._enough.done() else ""

    async def _ended(self, child: Child, tree: Tree) -> Ended:
        """Wait for the end of the program, of its time, or of our patience with what it writes; then end its tree."""
        watch = watch_scratch(self._host, child, lambda _: self._stop(OVERFULL))
        limit = self._program.timeout_seconds or self._host.terms.timeout_seconds
        try:
            in_time = await self._first(tree.ended, self._enough, limit)
        finally:
            watch.stop()
        if tree.ended.done():
            await self._streams.drained()
        self._timed_out = not in_time
        return await tree.end(GRACE_SECONDS if self._timed_out else 0.0)

    async def _first(self, ended: asyncio.Future[Any], enough: asyncio.Future[Any], limit: float) -> bool:
        """Wait for one of two, at most as long as the program may run; a person's time is not the program's."""
        began = time.monotonic()
        while not ended.done() and not enough.done():
            held = self._served.held_seconds() if self._served is not None else 0.0
            left = limit + held - (time.monotonic() - began)
            if left <= 0:
                return False
            await asyncio.wait((ended, enough), timeout=max(left, _SHORTEST_WAIT), return_when=asyncio.FIRST_COMPLETED)
        return True

    async def _abandoned(self, child: Child, tree: Tree, before: Look, guard: Guard, sentry: Sentry | None) -> None:
        await tree.end(0.0)
        try:
            await self._settled(before, guard, sentry)
        finally:
            self._drop(child)

    async def _told(self, before: Look, guard: Guard) -> None:
        """Record what changed while the program ran, and take back what no program may make."""
        nothing = False
        try:
            changes, warnings = await observed(self._host, self._work, before)
            self._changed = tuple(dict.fromkeys(change.path for change in changes))
            self._warnings += warnings
            nothing = not changes and not warnings
        finally:
            if not nothing:
                self._warnings += await guard.after()

    def _finished(self, ended: Ended, seconds: float) -> Finished:
        streams = self._streams
        code = ended.exit_code
        out, err = streams.captured(self._host.terms.room, code == 0 and not self._timed_out)
        missing = self._host.around.search.describe_missing(err.text, out.text)
        return Finished(
            exit_code=code,
            signal=ended.signal,
            timed_out=self._timed_out,
            stdout=out,
            stderr=err,
            seconds=round(seconds, 3),
            flooded=self._reason == FLOODED,
            overfull=self._reason == OVERFULL,
            changed=self._changed,
            confined=self._host.shown,
            unanswered=self._unanswered,
            warnings=(*self._refused, *missing, *self._warnings, *streams.stdout.warnings, *streams.stderr.warnings),
            reasons=(*self._refused, *missing),
        )


async def look(host: Host) -> Look:
    """Look at the write roots before a program runs; a large tree from a thread."""
    watch = host.watch
    if watch.last_entries <= _FEW_ENTRIES:
        seen = watch.look(_FEW_ENTRIES)
        if seen.trees is not None:
            watch.learn(seen)
            return seen
    return await asyncio.to_thread(watch.look)


async def observed(host: Host, work: Work, before: Look) -> tuple[list[Any], list[str]]:
    """Record with the call what changed since a look; gives the changes, and what could not be told."""
    changes, warnings = await changed_since(host, before)
    work.files.changes.extend(changes)
    host.warn(work, warnings)
    return changes, warnings


async def changed_since(host: Host, before: Look) -> tuple[list[Any], list[str]]:
    """Give what changed since a look, and what could not be told."""
    watch = host.watch
    if before.trees is None:
        return watch.changes(before, before)
    after = watch.look(2 * _FEW_ENTRIES) if before.entries <= _FEW_ENTRIES else Look(None)
    if after.trees == before.trees:
        return [], []
    if after.trees is None:
        after = await asyncio.to_thread(watch.look)
    return await asyncio.to_thread(watch.changes, before, after)


async def to_its_end(step: Coroutine[Any, Any, T], *, give_up: bool = False) -> T:
    """Run a step whole, however often whoever waits for it is cancelled meanwhile; then give up, where asked."""
    task, cancelled = asyncio.ensure_future(step), False
    while True:
        try:
            done = await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            cancelled = True
        else:
            if cancelled and give_up:
                raise asyncio.CancelledError
            return done
