"""The loop of `approvals watch`: which request is shown next, and what the card says of its place and its asker."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handrail.approvals.show import Setting
from handrail.approvals.terminal import TerminalApprover
from handrail.ports import Clock, Reply, Request
from handrail.settings import paths
from handrail.store.lock import is_open

if TYPE_CHECKING:
    from handrail.store.ledger import SqliteLedger

MEANT_SECONDS = 1.0  # after an answer from elsewhere

Describe = Callable[[Request, Reply, bool], str]


class Watch:
    """Asks for each request that waits: the newest of the programs that run first, then the others as they came."""

    def __init__(
        self,
        book: SqliteLedger,
        clock: Clock,
        approver: TerminalApprover,
        is_wanted: Callable[[Request], bool],
        describe: Describe,
    ) -> None:
        self._book, self._clock, self._approver = book, clock, approver
        self._is_wanted, self._describe = is_wanted, describe
        self._done: set[str] = set()  # answered or put off here
        self._passed = 0  # of those that waited since nothing did

    async def follow(self, *, bell: bool) -> None:
        """Ask until the person ends it."""
        while True:
            waiting = self._waiting()
            if not waiting:
                self._passed = 0
                await self._change()
                continue
            if bell:
                sys.stderr.write("\a")
                sys.stderr.flush()
            if not await self._ask(waiting):
                return

    def _waiting(self) -> list[Request]:
        pending = self._book.pending(self._clock.now())
        return [request for request in pending if request.id not in self._done and self._is_wanted(request)]

    async def _ask(self, waiting: Sequence[Request]) -> bool:
        """Put the question that comes next; False where the person has ended the watch."""
        live = [request for request in waiting if not has_ended(request)]
        request = live[-1] if live else waiting[0]  # the newest stands last
        number, count = self._passed + 1, self._passed + len(waiting)
        approver = self._approver
        approver.setting = Setting(f"{number} of {count}" if count > 1 else "", not live, os.path.expanduser("~"))
        reply = await approver.ask(request)
        self._done.add(request.id)
        self._passed += 1
        sys.stderr.write(f"{request.id}: {self._describe(request, reply, approver.elsewhere)}\n\n")
        if approver.ended:
            return False
        if approver.elsewhere:  # what is being typed was meant for that one, not for the next
            await asyncio.sleep(MEANT_SECONDS)
        return True

    async def _change(self) -> None:
        while not self._book.changed():  # noqa: ASYNC110  other processes write there
            await asyncio.sleep(0.02)


def has_ended(request: Request) -> bool:
    """Say whether the program that asked has ended, as far as can be known."""
    return is_open(paths.runs_dir() / request.run_id) is False
