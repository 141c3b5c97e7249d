"""The journal of a run: one JSON line an event, chained by hash, written by one process.

Opening is in `opening`, the lock in `lock`, waiting for the disk in `syncer`; here is what every call goes through.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Coroutine, Mapping
from hashlib import sha256
from pathlib import Path
from time import gmtime, strftime
from typing import Any

import orjson

from handrail.errors import Code, Problem, RunFault
from handrail.ports import Clock, Progress
from handrail.store import checkpoint, opening
from handrail.store.chain import EVENTS, MAX_LINE_BYTES, Break, Mark, mark_at, walk
from handrail.store.folders import check_run_id
from handrail.store.lock import RunLock
from handrail.store.plain import plain
from handrail.store.private import SAFE, make_folder, rewrite, sync_folder
from handrail.store.syncer import Syncer

CHECKPOINT_EVERY = 20_000


class FileJournal:
    """The truth of what happened in a run, in `events.jsonl`.

    All methods are for one thread, that of the event loop. Who appends calls `flush` or `durable` next, with nothing
    awaited in between, and acknowledges only after that: what those could not write is then cut from file and chain, is
    told to exactly the caller whose lines it was, and the next append tries again.

    After a failed sync the system may have dropped what it could not write, and says so only once. Whoever waited is
    told JOURNAL_UNAVAILABLE; their lines stay, for others acknowledged after a mere `flush` may stand among them. The
    next append reads everything behind the last good sync back, checks that it still is what was written, writes it
    anew through a fresh handle and syncs that; only then the journal goes on.
    """

    def __init__(self, folder: Path, run_id: str, clock: Clock, lock: RunLock, fd: int, found: opening.Found) -> None:
        self.run_id = run_id
        self.seq, self.head = found.mark.seq, found.mark.head
        self.state = found.state
        self.read_only = found.read_only
        self.mended = False
        self._folder, self._lock, self._fd = folder, lock, fd
        self._now = clock.now
        self._size = found.mark.offset
        self._whole = (self.seq, self.head)  # as the file has it
        self._lines: list[bytes] = []
        self._second, self._start = -1, ""
        self._checkpoint_seq = found.checkpoint_seq
        self._trouble = bool(self.read_only)  # look twice before the next append
        self._lost: OSError | None = None
        self._closed = False
        self._syncer = Syncer(fd, self._size, self._sync_failed)

    @classmethod
    def open(cls, folder: Path, run_id: str, clock: Clock, *, progress: Progress | None = None) -> FileJournal:
        """Own a run and read what it knows; RunFault RUN_BUSY or JOURNAL_UNAVAILABLE when that cannot be.

        A torn tail is kept aside, cut, and recorded. A journal that somebody changed opens read-only.
        """
        check_run_id(run_id)
        try:
            make_folder(folder)
            lock = RunLock.take(folder, clock.now())
            try:
                return cls._open(folder, run_id, clock, lock, progress)
            except BaseException:
                lock.release()
                raise
        except Problem as problem:
            raise RunFault(problem.code, f"Run {run_id} in {folder}: {problem}", **problem.details) from problem
        except OSError as error:
            raise RunFault(
                Code.JOURNAL_UNAVAILABLE,
                f"The journal of run {run_id} in {folder} cannot be opened ({error.strerror}). {_advice(error)}",
                errno=error.errno,
            ) from error

    @classmethod
    def _open(cls, folder: Path, run_id: str, clock: Clock, lock: RunLock, progress: Progress | None) -> FileJournal:
        fd = os.open(folder / EVENTS, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        try:
            _make_durable(fd, folder)
            checkpoint.clear_drafts(folder)
            found = opening.look(fd, folder, run_id, progress)
            journal = cls(folder, run_id, clock, lock, fd, found)
            if journal.wants_checkpoint() and not journal.read_only:  # so that nobody reads it all again
                journal._checkpoint_seq = journal.seq
                checkpoint.save(folder, checkpoint.pack(found.mark, found.state))
            journal._mend(found.torn)
        except BaseException:
            os.close(fd)
            raise
        return journal

    def _mend(self, torn: Break | None) -> None:
        """Set a torn end aside and record it, also where a crash came between the two."""
        mark = Mark(self.seq, self.head, self._size)
        kept = opening.set_aside(self._fd, self._folder, mark) if torn else opening.torn_file(mark)
        if torn is None and (self.read_only or not (self._folder / kept).exists()):
            return
        size = (self._folder / kept).stat().st_size
        reason = torn.reason if torn else "an earlier mending was not recorded"
        self.append("journal.mended", None, {"reason": reason, "bytes": size, "kept": kept})
        self.flush()
        self.mended = True

    def append(self, kind: str, call_id: str | None, fields: Mapping[str, Any] | bytes) -> None:
        """Add one event to the chain; it is in the file after the next `flush` or `durable`.

        `kind` and `call_id` hold letters, digits, `.`, `_`, `:` and `-` only. Fields may be given as JSON already,
        without the brace that opens it.
        """
        if self._trouble:
            self._look_twice()
        body = fields if fields.__class__ is bytes else _encoded(fields)
        now = self._now()
        second = int(now)
        if second != self._second:
            self._begin_second(second)
        self.seq = seq = self.seq + 1
        of = kind if call_id is None else f'{kind}","call_id":"{call_id}'
        start = (self._start % (seq, (now - second) * 1e6, of, self.head)).encode()
        line = start + body if len(body) > 1 else start[:-1] + b"}"
        self.head = sha256(line).hexdigest()
        self._lines.append(line)

    def _begin_second(self, second: int) -> None:
        """Write down once what all lines of this second begin with."""
        moment = strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
        self._second = second
        self._start = f'{{"seq":%d,"ts":"{moment}.%06dZ","run_id":"{self.run_id}","kind":"%s","prev":"%s",'

    def flush(self) -> None:
        """Hand everything appended to the operating system: survives the death of this process."""
        self._write()
        if self._syncer.idle and self._syncer.synced < self._size:
            self._syncer.nudge()

    def _write(self) -> None:
        lines = self._lines
        if not lines:
            if self._lost is not None:
                raise _unavailable(self._lost)
            return
        self._lines = []
        lines.append(b"")
        data = b"\n".join(lines)
        try:
            if len(data) > MAX_LINE_BYTES and max(map(len, lines)) > MAX_LINE_BYTES:
                raise OSError(errno.EMSGSIZE, "an event is too large to be read back")
            count = os.pwrite(self._fd, data, self._size)
            while count < len(data):
                count += os.pwrite(self._fd, data[count:], self._size + count)
        except OSError as error:
            self._cut_back(error)
            raise _unavailable(error) from error
        self._size += count
        self._whole = (self.seq, self.head)
        self._syncer.written = self._size

    def durable(self) -> Coroutine[Any, Any, bool]:
        """Wait until everything appended so far survives a power loss; shared with others who wait.

        It is written when this is called, not only when the result is awaited. Tells whether nobody else waited and
        the disk is quick: then it was synced in place.
        """
        self._write()  # without the nudge of `flush`: the thread is woken once, by who waits
        return self._durable()

    async def _durable(self) -> bool:
        alone, error = await self._syncer.wait()
        if error is not None:
            raise _unavailable(error)
        return alone

    def wants_checkpoint(self) -> bool:
        """Whether enough was added since the last checkpoint."""
        return self.seq - self._checkpoint_seq >= CHECKPOINT_EVERY

    def checkpoint(self) -> None:
        """Keep what opening needs as of the last append, in the background; without it, opening only takes longer.

        It is read from the journal itself, whatever state the caller has.
        """
        if self._lost is not None or self.read_only:
            return
        self.flush()
        self._syncer.after_sync(self._advance(self._syncer.breathe))

    def _advance(self, pause: Callable[[], None]) -> Callable[[], None]:
        self._checkpoint_seq = self.seq
        target, syncer = Mark(self.seq, self.head, self._size), self._syncer

        def advance() -> None:
            if syncer.error is None and syncer.synced >= target.offset:
                checkpoint.advance(self._fd, self._folder, self.run_id, target, pause)

        return advance

    async def close(self) -> None:
        """Make everything durable, keep a checkpoint, and let the run go; a second time does nothing.

        Raises Problem JOURNAL_UNAVAILABLE where not everything could be made durable; the run is free all the same.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._trouble and not self.read_only:
                self._put_right()
            await self.durable()
            if self.seq > self._checkpoint_seq and not self.read_only:
                await self._syncer.done(self._advance(lambda: None))
        finally:
            self._let_go()

    def abandon(self) -> None:
        """Let the run go without ceremony, as a killed process would; what was flushed stays."""
        if not self._closed:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        self._trouble = True
        self._syncer.stop()
        os.close(self._fd)
        self._lock.release()

    def _cut_back(self, error: OSError) -> None:
        """Take lines that could not be written out of the chain and, as soon as that is possible, out of the file."""
        self.seq, self.head = self._whole
        self._lost = error
        self._trouble = True
        with contextlib.suppress(OSError):  # tried again before the next append
            os.ftruncate(self._fd, self._size)

    def _sync_failed(self) -> None:
        self._trouble = True

    def _look_twice(self) -> None:
        """Refuse what cannot be recorded; put right what failed before."""
        if self._closed:
            raise Problem(Code.JOURNAL_UNAVAILABLE, "The run is closed.", mend="open the run again")
        if not self.read_only:
            self._put_right()
        if self.read_only:
            raise Problem(
                Code.JOURNAL_UNAVAILABLE,
                f"The journal of this run was changed from outside ({self.read_only}); nothing more is run in it.",
                mend="start a new run; `handrail runs verify` shows what was changed",
            )

    def _put_right(self) -> None:
        try:
            if self._lost is not None:
                os.ftruncate(self._fd, self._size)
                # Durable before anything is written there again: no crash may mix old bytes with new ones.
                self._syncer.sync_now()
            if self._syncer.error is not None:
                self._write_anew()
        except OSError as error:
            raise _unavailable(error) from error
        self._lost = None
        self._trouble = bool(self.read_only)

    def _write_anew(self) -> None:
        """Write what the failed sync may have dropped once more, through a handle that knows nothing of the failure."""
        fresh = os.open(self._folder / EVENTS, os.O_RDWR | SAFE)
        try:
            start = self._syncer.synced
            mark, broken = walk(fresh, mark_at(fresh, start), self.run_id)
            if broken is not None or mark != Mark(*self._whole, self._size):
                self.read_only = f"what was written behind line {mark.seq} is not there any more"
                return
            rewrite(fresh, start)
            os.dup2(fresh, self._fd, inheritable=False)
        finally:
            os.close(fresh)
        self._syncer.mended(self._size)


def _encoded(fields: Any) -> bytes:
    try:
        return orjson.dumps(fields)[1:]
    except TypeError:
        return orjson.dumps(plain(fields))[1:]


def _make_durable(fd: int, folder: Path) -> None:
    """Catch up with what an earlier owner wrote and could not sync before it died."""
    if os.fstat(fd).st_size > 0:
        os.fdatasync(fd)
    else:
        sync_folder(folder)
        sync_folder(folder.parent)


def _advice(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Free some space where runs are kept, then call again."
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "Too many files are open: close some, or raise the limit, then call again."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "Make the folder where runs are kept writable, or set another `runs_dir`, then call again."
    return "Look at the disk where runs are kept, then call again."


def _unavailable(error: OSError) -> Problem:
    return Problem(
        Code.JOURNAL_UNAVAILABLE,
        f"The journal cannot be written ({error.strerror}), so nothing was run. {_advice(error)}",
        errno=error.errno,
    )
