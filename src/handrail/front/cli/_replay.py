"""Replay of an approved request: exactly that call, in the same workspace."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from handrail.errors import Code, RunFault
from handrail.front.cli._common import ledger, opened, run_async, runs_folder
from handrail.words import Outcome


def replay(given: Mapping[str, Any]) -> int:
    """Run the call that an approval was given for; it makes its own run, linked to the old one, unless that is free."""
    from handrail.front.cli.call import show

    book = ledger()
    try:
        record = book.find(given["approval"])
        args = book.args(given["approval"])
    except KeyError:
        raise click.UsageError(
            f"There is no approval {given['approval']!r}; `handrail approvals list --all` shows them."
        ) from None
    request = record.request
    if given["tool"] not in (None, request.tool) or given["pairs"] or given["raw"]:
        raise click.UsageError("An approval is replayed as it was asked for; leave out tool and arguments.")
    code = show(run_async(_replay(given, request, args)), as_json=given["as_json"], given=_flags(given))
    if record.state == "pending" and not given["as_json"]:
        sys.stderr.write(f"  say yes:    handrail approvals grant {request.id}\n")
    return code


def _flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a replay, for the commands that it may suggest; tool and arguments are the approval's."""
    return {**given, "tool": None}


async def _replay(given: Mapping[str, Any], request: Any, args: Mapping[str, Any]) -> Outcome:
    project = _project(given, request)
    there = {**given, "workspace": project}
    try:
        return await _call({**there, "run_id": request.run_id}, request, args, None)
    except RunFault as fault:
        # A new run would work in a folder of its own where each has one: not where the call was approved.
        if fault.code is not Code.RUN_BUSY or os.path.realpath(project) != request.workspace:
            raise
    return await _call({**there, "run_id": None}, request, args, request.run_id)


def _project(given: Mapping[str, Any], request: Any) -> str:
    """The folder to open the run from, so that the call works exactly where it was approved."""
    from handrail.front.cli._settings import place_of_run
    from handrail.store.folders import RunFolder

    about = RunFolder(runs_folder(given) / request.run_id).description()
    asked = given["workspace"] if given["workspace"] != "." else ""
    return place_of_run(request.run_id, request.workspace, given, (asked, request.workspace, about.get("project"), "."))


async def _call(given: Mapping[str, Any], request: Any, args: Mapping[str, Any], parent_run: str | None) -> Outcome:
    from handrail.front.cli._live import following

    async with opened(given, parent_run=parent_run) as runtime, following(runtime, live=given["live"]):
        outcome = await runtime.call(request.tool, args, version=request.version, approval=request.id)
        refused = outcome.error is not None and outcome.error.code != Code.APPROVAL_DENIED
        if refused and runtime.parts.policy_digest != request.policy_digest:
            again = (request.replay or {}).get("command", "")
            sys.stderr.write(f"The approval was asked for under other settings than these. As asked: {again}\n")
        return outcome
