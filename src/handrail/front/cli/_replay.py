"""Replay of an approved request: exactly that call, in the same workspace."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from handrail.errors import Code, RunFault
from handrail.front.cli._common import ledger, opened, run_async
from handrail.words import Outcome


def replay(given: Mapping[str, Any]) -> int:
    """Run the call that an approval was given for; it makes its own run, linked to the old one, unless that is free."""
    from handrail.front.cli.call import show

    book = ledger()
    try:
        request = book.find(given["approval"]).request
        args = book.args(given["approval"])
    except KeyError:
        raise click.UsageError(
            f"There is no approval {given['approval']!r}; `handrail approvals list --all` shows them."
        ) from None
    if given["tool"] not in (None, request.tool) or given["pairs"] or given["raw"]:
        raise click.UsageError("An approval is replayed as it was asked for; leave out tool and arguments.")
    outcome = run_async(_replay(given, request, args))
    code = show(outcome, as_json=given["as_json"])
    if outcome.error is not None and outcome.error.code == Code.APPROVAL_DENIED:
        sys.stderr.write("Was the call asked for with --config, --preset or --enable? Then give the same here.\n")
    return code


async def _replay(given: Mapping[str, Any], request: Any, args: Mapping[str, Any]) -> Outcome:
    there = {**given, "workspace": request.workspace}
    try:
        return await _call({**there, "run_id": request.run_id}, request, args, None)
    except RunFault as fault:
        if fault.code is not Code.RUN_BUSY:
            raise
    return await _call({**there, "run_id": None}, request, args, request.run_id)


async def _call(given: Mapping[str, Any], request: Any, args: Mapping[str, Any], parent_run: str | None) -> Outcome:
    from handrail.front.cli._live import following

    async with opened(given, parent_run=parent_run) as runtime, following(runtime, live=given["live"]):
        return await runtime.call(request.tool, args, version=request.version, approval=request.id)
