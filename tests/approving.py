"""Requests and answers for the tests of approvals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handrail.ports import Reply, Request
from handrail.store.ledger import SqliteLedger
from handrail.words import Grant, Risk, Scope

NOW = 1_700_000_000.0
YES = Reply("granted", by="ann")
FOR_RUN = Reply("granted", Scope.RUN, by="ann")
NO = Reply("denied", by="bob", advice="use the copy")


def asking(digest: str = "d1", now: float = NOW, **fields: Any) -> Request:
    """Write a request as the kernel does."""
    made = Request(
        id="",
        tool="write_file",
        version="1.0.0",
        risk=Risk.HIGH,
        reason="defaults.replace",
        params={"path": "a.txt"},
        impact={"writes": ["a.txt"]},
        digest=digest,
        policy_digest="p1",
        created=now,
        expires=now + 900,
        run_id="run-1",
        call_id="c1",
        workspace="/home/a",
        caller="cli",
        max_scope=Scope.SESSION,
        touches=(("fs.write", "a.txt"),),
    )
    return replace(made, **fields)


def granted(ledger: SqliteLedger, request: Request, reply: Reply = YES) -> Grant:
    """Ask and say yes."""
    grant = ledger.answer(ledger.request(request, {}).id, reply)
    assert grant is not None
    return grant


def shown_digest(request_id: str) -> str:
    """The digest that `approvals show` prints of a request in the user's ledger."""
    from handrail.compose import SystemClock
    from handrail.settings import paths

    ledger = SqliteLedger(paths.state_dir() / "ledger.db", SystemClock())
    try:
        return ledger.confirmation(request_id)
    finally:
        ledger.close()
