"""Looking for secrets in a text while it comes, and keeping what is free of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from handrail.errors import Problem
from handrail.output.redact import CONTEXT
from handrail.ports import Draft, Secrets, Spill
from handrail.tools.http._charset import as_it_is, is_binary
from handrail.words import Ref


class Kept:
    """A text on its way to being kept. One thread writes it; another one may drop it at any time, and never waits."""

    __slots__ = ("_draft", "_dropped", "_lock", "_spill", "problem")

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._draft: Draft | None = None
        self._dropped = False
        self.problem: Problem | None = None  # why it was dropped
        self._lock = threading.Lock()

    def write(self, *parts: bytes | memoryview) -> None:
        """Write further parts; where that fails, all of it is dropped."""
        with self._lock:
            if not self._dropped:
                try:
                    self._draft = self._draft or self._spill.draft("http")
                    for part in parts:
                        self._draft.add(part)
                except Problem as problem:
                    self._dropped, self.problem = True, problem  # who wants it kept tries once more, and is told
        if self._dropped:
            self.drop()

    @property
    def dropped(self) -> bool:
        """Whether nothing more is kept of it."""
        return self._dropped

    def end(self, sha256: str = "") -> Ref | None:
        """Name it; None where it was dropped."""
        with self._lock:
            draft, self._draft, self._dropped = self._draft, None, True
            return None if draft is None else draft.keep(sha256)

    def drop(self) -> None:
        """Remove what was written, unless it has been named."""
        self._dropped = True
        if self._lock.acquire(blocking=False):  # else who writes sees it
            try:
                if self._draft is not None:
                    self._draft.discard()
                    self._draft = None
            finally:
                self._lock.release()


class Look:
    """One look through a text that comes in parts, each with what lies near it on both sides.

    What cannot turn out to belong to a secret any more is kept at once.
    """

    __slots__ = ("_before", "_engine", "_kind", "_plain", "_quiet", "_secrets", "_seen", "kept")

    def __init__(self, secrets: Secrets, spill: Spill | None, kind: str, *, plain: bool) -> None:
        self._secrets, self._plain, self._engine = secrets, plain, secrets.engine
        self._kind = kind
        self._before = b""  # as much of it as can matter for what follows; all but this is kept
        self._seen, self._quiet = 0, True
        self.kept = None if spill is None else Kept(spill)

    def take(self, part: bytes) -> None:
        """Look at one more part."""
        if self.kept is not None and self.kept.dropped:
            self._quiet = False  # nobody waits for it
        if self._quiet:
            self._quiet = (self._seen > 0 or self._own_text(part)) and self._secrets.engine is self._engine
        if self._quiet:
            self._look_at(part)
        if not self._quiet and self.kept is not None:
            self.kept.drop()  # now: what is kept in its place needs the room

    def _own_text(self, head: bytes) -> bool:
        """Whether what is shown and kept is the text as it comes, by its header and how it begins."""
        nul = b"\0" in head[:4096]  # a part with NUL further on does not come here
        if is_binary(head, self._kind) or as_it_is(head, self._kind, utf8=True, nul=nul) is None:
            return False
        return self._plain or not is_html(self._kind, head[:4096].decode("utf-8", "ignore")[:1024])

    def _look_at(self, part: bytes) -> None:
        before, quiet = self._before, self._secrets.quiet
        self._quiet = quiet(part) and (not before or quiet(before + part[:CONTEXT]))
        self._seen += len(part)
        if len(part) < CONTEXT:
            before, part = b"", before + part
        self._before = part[-CONTEXT:]
        if self._quiet and self.kept is not None and (before or len(part) > CONTEXT):
            self.kept.write(before, memoryview(part)[:-CONTEXT])

    def quiet(self, size: int) -> bool:
        """Tell for certain that nothing in a text of this size needs hiding: all was seen, by what looks now."""
        return self._quiet and self._seen == size and self._secrets.engine is self._engine

    def rest(self, size: int) -> None:
        """Write the rest, too, where all of it is free of secrets."""
        if self._before and self.kept is not None and self.quiet(size):
            self.kept.write(self._before)
            self._before = b""

    def keep(self, size: int, sha256: str = "") -> Ref | None:
        """End what is kept with the rest of it; None where that is not the text as it came, free of secrets."""
        if self.kept is None or not self.quiet(size):
            return None
        self.rest(size)
        return self.kept.end(sha256)


class Watched:
    """The last look: each try of a request has its own, and one that was given up may still be under way."""

    __slots__ = ("_look", "_plain", "_secrets", "_spill")

    def __init__(self, secrets: Secrets, spill: Spill | None = None, *, plain: bool = True) -> None:
        self._secrets, self._spill, self._plain = secrets, spill, plain  # plain: HTML is shown as it is
        self._look: Look | None = None

    def anew(self, kind: str = "") -> Callable[[bytes], None]:
        """Begin another look; gives what takes the parts."""
        self.drop()
        self._look = Look(self._secrets, self._spill, kind, plain=self._plain)
        return self._look.take

    def quiet(self, size: int) -> bool:
        """Tell for certain that nothing in what came needs hiding."""
        return self._look is not None and self._look.quiet(size)

    def rest(self, size: int) -> None:
        """Write what is not written yet, where nothing in it needs hiding; may wait for a disk."""
        if self._look is not None:
            self._look.rest(size)

    def keep(self, size: int, sha256: str = "") -> Ref | None:
        """Keep what came as it is, by its hash, where nothing in it needs hiding."""
        return None if self._look is None else self._look.keep(size, sha256)

    def drop(self) -> None:
        """Let go what was kept, unless it was ended."""
        if self._look is not None and self._look.kept is not None:
            self._look.kept.drop()


def is_html(kind: str, start: str) -> bool:
    """Whether a body is HTML: by what its header says, or how it begins."""
    media = kind.partition(";")[0].strip().lower()
    if media:
        return media in ("text/html", "application/xhtml+xml")
    return start.lstrip().lower().startswith(("<!doctype html", "<html"))
