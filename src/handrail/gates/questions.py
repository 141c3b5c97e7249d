"""What a request tells a person and a model: why they are asked, what was decided, in short. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from handrail.errors import Code, Problem
from handrail.policy import World
from handrail.policy.defaults import is_sensitive
from handrail.ports import Reply
from handrail.ports.files import CONTESTED, LINKS_OUT, REPOSITORIES
from handrail.words import Decision, Finding, Scope, Touch, TouchKind, Verdict

_NAMED = 3  # paths that a reason names


def explain_must_ask(effects: Mapping[str, Sequence[str]]) -> str:
    """Say why effects are asked for even where they are allowed; empty: they are not."""
    if CONTESTED in effects:
        paths = ", ".join(effects[CONTESTED][:_NAMED])
        return f"somebody else changed {paths} while the program ran, and a yes replaces their change"
    if LINKS_OUT in effects:
        return f"new links lead out of the roots: {', '.join(effects[LINKS_OUT][:_NAMED])}"
    if REPOSITORIES in effects:
        return f"the program made git repositories or worktrees: {', '.join(effects[REPOSITORIES][:_NAMED])}"
    return ""


def ask_anyway(verdict: Verdict, why: str) -> Verdict:
    finding = Finding("builtin", "builtin.review", Decision.ASK, why)
    return replace(verdict, decision=Decision.ASK, findings=(finding, *verdict.findings), scope=Scope.CALL)


def describe_denial(request: str, reply: Reply) -> dict[str, Any]:
    return {"request": request, "state": reply.state, "by": reply.by, "advice": reply.advice}


def describe_refusal(reply: Reply) -> str:
    who = reply.by or "A person"
    return f"{who} said no{f': {reply.advice}' if reply.advice else '.'}"


def need_shown(touches: Sequence[Touch], world: World) -> None:
    """Refuse to ask for a file that runs programs, where a part of what is written is hidden as a secret."""
    if any(touch.kind is TouchKind.PROC_EXEC for touch in touches):
        return  # the request shows the whole line beside its arguments
    file = next((touch.shown for touch in touches if is_sensitive(touch, world)), None)
    if file is not None:
        raise Problem(
            Code.POLICY_DENIED,
            f"{file} decides which programs run outside the sandbox, and a part of what would be written looks like a "
            f"secret. A request does not show secrets, and nobody can approve what is not shown. Leave the value out, "
            f"for example by naming a variable, or let a person write the file.",
        )
