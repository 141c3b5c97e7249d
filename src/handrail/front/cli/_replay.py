"""Replay of an approved request: exactly that call, in the same workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import click

from handrail.errors import Code, RunFault
from handrail.words import Outcome


def replay(given: Mapping[str, Any]) -> int:
    """Run the call that an approval was given for; it makes its own run, linked to the old one, unless that is free."""
    from handrail.front.cli._common import ledger
    from handrail.front.cli.call import show

    book = ledger()
    try:
        request = book.find(given["approval"]).request
        args = book.args(given["approval"])
    except KeyError:
        raise click.UsageError(f"There is no approval {given['approval']!r}; `handrail approvals list` shows them.") from None
    if given["tool"] not in (None, request.tool) or given["pairs"] or given["raw"]:
        raise click.UsageError("An approval is replayed as it was asked for; leave out tool and arguments.")
    try:
        outcome = asyncio.run(_replay({**given, "run_id": request.run_id}, request, args))
    except RunFault as fault:
        if fault.code is not Code.RUN_BUSY:
            raise
        outcome = asyncio.run(_replay({**given, "run_id": None}, request, args))
    return show(outcome, as_json=given["as_json"])


async def _replay(given: Mapping[str, Any], request: Any, args: Mapping[str, Any]) -> Outcome:
    from handrail.front.cli._common import opened

    linked = None if given["run_id"] else request.run_id
    async with opened({**given, "workspace": request.workspace}, parent_run=linked) as runtime:
        return await runtime.call(request.tool, args, version=request.version, approval=request.id)
