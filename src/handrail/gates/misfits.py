"""Why an approval does not cover the call that names it: the one reason that is true. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from handrail.gates.step import Step
from handrail.output.patterns import MARK
from handrail.policy.grants import covers_targets
from handrail.ports import Recorded, Reply
from handrail.words import TouchKind

_CHANGING = (TouchKind.FS_WRITE, TouchKind.FS_DELETE)


def why(record: Recorded, step: Step, args: Any, policy_digest: str, workspace: str, *, standing: bool) -> str:
    """Tell it in a sentence; `args` are the call's own, secrets hidden; `standing`: the grant can still be used."""
    request, approval = record.request, record.request.id
    again = _command(request.replay)
    if record.state == "denied":
        return f"Approval {approval} was refused{_by(record.reply)}."
    if record.state == "used":
        return f"Approval {approval} is used: every call that it was given for was made. Repeat the call to ask again."
    if record.state == "expired" or not standing:
        return f"Approval {approval} has expired. Repeat the call to ask again."
    if (request.tool, request.version) != (step.name, step.tool.version if step.tool is not None else ""):
        return f"Approval {approval} is for {request.tool} {request.version}, not for this tool."
    if request.workspace != workspace:
        return f"Approval {approval} is for a call in {request.workspace}, and this one works in {workspace}."
    if request.policy_digest != policy_digest:
        return f"Approval {approval} was asked for under other settings or flags than these. The call as asked: {again}"
    if args != request.params:
        return f"Approval {approval} is for other arguments: `handrail approvals show {approval}` shows them."
    if not covers_targets(request.touches, step.touches):
        return f"A path of the call has another target than when approval {approval} was given. Repeat the call to ask."
    if MARK in orjson.dumps(args, default=str).decode():
        return f"Approval {approval} is for another call: a value that is hidden, or a file, is not the same."
    return f"{_changed(step)} since approval {approval} was asked for. Look at it, and repeat the call to ask again."


def _changed(step: Step) -> str:
    if any(touch.kind is TouchKind.PROC_EXEC for touch in step.touches):
        return "A file that the command runs or changes, or what the sandbox lets it do, has changed"
    paths = list(dict.fromkeys(touch.shown for touch in step.touches if touch.kind in _CHANGING))
    named = f"{paths[0]} has" if len(paths) == 1 else f"One of {', '.join(paths[:5])} has"
    return f"{named} changed" if paths else "What the call touches has changed"


def _by(reply: Reply | None) -> str:
    if reply is None:
        return ""
    return (f" by {reply.by}" if reply.by else "") + (f": {reply.advice}" if reply.advice else "")


def _command(replay: Mapping[str, Any] | None) -> str:
    return str((replay or {}).get("command", ""))
