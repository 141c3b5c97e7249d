"""A call of a past run, to be explained as policy judges it now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import orjson

from handrail.output.redact import MARK


def past_call(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give what the command line would have said, and the arguments of the call; a usage error where they are lost."""
    from handrail.front.cli._common import runs_folder
    from handrail.store.folders import list_runs
    from handrail.store.reader import events

    wanted = given["past"]
    for item in list_runs(runs_folder(given)):
        for event in events(item.path):
            call = str(event.get("call_id") or "")
            started = event.get("kind") == "tool.started" or event.get("started") is False
            if started and call.endswith(wanted):
                return _read(given, event, item.description)
    raise click.UsageError(f"No run has a call {wanted!r}; `handrail runs search` finds calls.")


def _read(
    given: Mapping[str, Any], event: Mapping[str, Any], about: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    asked = event.get("asked") or {"tool": event.get("tool"), "args": event.get("args")}
    args = asked.get("args")
    text = orjson.dumps(args).decode()
    if not isinstance(args, dict) or MARK in text or "characters, sha256 " in text:
        why = "a part of its arguments was hidden or cut when it was written down"
        raise click.UsageError(f"The call cannot be judged again: {why}.")
    place = about.get("project") or about.get("workspace")
    workspace = place if given["workspace"] == "." and place else given["workspace"]
    dialect = event.get("dialect", "native")
    return {**given, "tool": asked.get("tool"), "dialect": dialect, "workspace": workspace}, args
