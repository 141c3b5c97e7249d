"""How an answer reaches those who wait for it."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace

import pytest

from approving import FOR_RUN, NO, NOW, YES, asking, granted
from handrail.errors import Code, Problem
from handrail.ports import Reply
from handrail.store._ledger_watch import Watch
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
from handrail.words import Scope


async def waiting(ledger: SqliteLedger, request_id: str, until: float | None = None) -> asyncio.Task[Reply]:
    """Start to wait, and be sure that it waits."""

    async def answered() -> Reply:
        async with asyncio.timeout(20):
            return await ledger.wait(request_id, until=until)

    task = asyncio.create_task(answered())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_an_answer_in_the_same_process_arrives_at_once(ledger: SqliteLedger) -> None:
    """Before the next look at the file, and only to those who wait for it."""
    made, other = ledger.request(asking(), {}), ledger.request(asking("d2"), {})
    task, second = await waiting(ledger, made.id), await waiting(ledger, other.id)
    ledger.answer(made.id, FOR_RUN)
    for _ in range(3):
        await asyncio.sleep(0)
    assert task.done()
    assert await task == replace(FOR_RUN, at=NOW)
    assert not second.done()
    await asyncio.to_thread(ledger.answer, other.id, NO)
    assert await second == replace(NO, scope=Scope.NONE, at=NOW)


async def test_waiting_ends_when_the_request_expires(ledger: SqliteLedger, clock: FixedClock) -> None:
    """By the clock that was passed in; the request is then closed for good."""
    made = ledger.request(asking(), {})
    task = await waiting(ledger, made.id)
    clock.advance(900)
    assert await task == Reply("expired", Scope.NONE, at=NOW + 900)
    assert ledger.list(["expired"])[0].request == made


async def test_waiting_ends_when_patience_does(ledger: SqliteLedger, clock: FixedClock) -> None:
    """The request stays open."""
    made = ledger.request(asking(), {})
    task = await waiting(ledger, made.id, until=NOW + 10)
    clock.advance(10)
    assert await task == Reply("pending", Scope.NONE)
    assert ledger.find(made.id).state == "pending"


async def test_waiting_for_what_is_answered_does_not_wait(ledger: SqliteLedger) -> None:
    """Also when the grant is used up."""
    grant = granted(ledger, asking())
    assert await ledger.wait(grant.request) == replace(YES, at=NOW)
    ledger.use(grant, NOW)
    assert await ledger.wait(grant.request) == replace(YES, at=NOW)
    with pytest.raises(KeyError):
        await ledger.wait("apr_none")


async def test_waiting_on_a_ledger_that_breaks_is_a_refusal(ledger: SqliteLedger) -> None:
    """It does not wait for ever, and it does not say granted."""
    made = ledger.request(asking(), {})
    task = await waiting(ledger, made.id)
    db = sqlite3.connect(ledger.path)
    with db:
        db.execute("DROP TABLE requests")
    db.close()
    with pytest.raises(Problem):
        await task


async def test_a_ledger_that_cannot_be_looked_at_wakes_whoever_waits() -> None:
    """They look for themselves and are told what is wrong."""

    def broken() -> int:
        raise Problem(Code.APPROVAL_DENIED, "broken")

    watch = Watch(asyncio.get_running_loop(), broken)
    waiter = watch.add("apr_1", lambda: False)
    async with asyncio.timeout(10):
        await waiter.woken
    watch.discard(waiter)


async def test_a_thousand_waiters_are_all_woken_and_leave_nothing_behind(ledger: SqliteLedger) -> None:
    """One tick serves them all, and it stops with the last of them."""
    made = ledger.request(asking(), {})
    tasks = [asyncio.create_task(ledger.wait(made.id)) for _ in range(1000)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    ledger.answer(made.id, YES)
    replies = await asyncio.gather(*tasks[1:])
    assert set(replies) == {replace(YES, at=NOW)}
    (watch,) = ledger._watches.values()
    assert (watch._waiters, watch._timer) == (set(), None)


def test_changed_tells_a_write_once(ledger: SqliteLedger) -> None:
    """By this process or another."""
    assert not ledger.changed()
    made = ledger.request(asking(), {})
    assert [ledger.changed(), ledger.changed()] == [True, False]
    ledger.answer(made.id, YES)
    assert [ledger.changed(), ledger.changed()] == [True, False]
