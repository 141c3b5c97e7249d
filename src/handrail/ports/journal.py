"""The record of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from handrail.words import Outcome


class Journal(Protocol):
    """The truth of what happened. Raises Problem JOURNAL_UNAVAILABLE when it cannot write."""

    run_id: str

    def append(self, kind: str, call_id: str | None, fields: Mapping[str, Any] | bytes) -> None:
        """Add one event to the chain; it is in the file after the next `flush` or `durable`."""

    def flush(self) -> None:
        """Hand everything appended to the operating system: survives the death of this process."""

    async def durable(self) -> bool:
        """Wait until everything appended so far survives a power loss; shared with others who wait.

        Tells whether nobody else waits: then a call may hold up the loop for as long as a quick disk takes.
        """


class Keys(Protocol):
    """Idempotency keys and caller-given call ids of a run."""

    async def join(self, key: str, call_id: str, args_digest: str) -> Outcome | None:
        """Become the first with this key (None), or give the outcome of the first; INVALID_ARGS for other arguments."""

    def automatic(self, key: str) -> str:
        """Give the key to use where nobody gave one: the same for a retry, another once other calls came between."""

    def store(self, key: str, call_id: str, outcome: Outcome) -> None:
        """Keep the outcome of a call that started."""

    def release(self, key: str, call_id: str) -> None:
        """Let those who wait for this key go on."""

    def claim_id(self, call_id: str) -> bool:
        """Take a caller's call id; False when it was used before."""


Cancelled = Callable[[], bool]
Progress = Callable[[int, int], None]
Sleep = Callable[[float], Awaitable[None]]
