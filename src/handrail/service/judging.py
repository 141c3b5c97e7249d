"""Asking a workspace's policy without making a call: explain, the effective policy, tools, settings.

A runtime is opened for each question, in a thread and a folder of its own that is removed again: what is told follows
from the settings as they are now, and no run is left behind.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from handrail.errors import Code, Misuse, Problem
from handrail.gates import record
from handrail.policy.explain import smallest_change
from handrail.settings import paths
from handrail.words import Decision

if TYPE_CHECKING:
    from handrail.runtime import Runtime

T = TypeVar("T")


async def ask(workspace: str, question: Callable[[Runtime], Awaitable[T]]) -> T:
    """Ask a runtime of this workspace something; Problem where it cannot be opened or asked."""
    try:
        return await asyncio.to_thread(lambda: asyncio.run(_asked(workspace, question)))
    except Misuse as misuse:
        raise Problem(Code.INVALID_ARGS, str(misuse)) from None


async def _asked(workspace: str, question: Callable[[Runtime], Awaitable[T]]) -> T:
    from handrail.runtime import Runtime
    from handrail.worlds import Options

    with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
        options = Options(Path(workspace), aside=Path(folder), ledger=paths.state_dir(), caller="rest")
        async with Runtime(options) as runtime:
            return await question(runtime)


async def explain(workspace: str, tool: str, args: Mapping[str, Any], caller: str | None = None) -> dict[str, Any]:
    """Tell how a call would be judged, by what, and the smallest change that would alter it; run nothing."""

    async def question(runtime: Runtime) -> dict[str, Any]:
        found = runtime.explanation(tool, args, caller=caller)
        fields = record.verdict_fields(found.touches, found.verdict, "")
        change = smallest_change(found.touches, found.world, found.verdict)
        told = {
            "tool": found.tool.name,
            "args": runtime.parts.redactor.value(dict(args)),
            "decision": found.verdict.decision.word,
            "touches": fields["touches"],
            "findings": [
                {**told, "why": item.why}
                for told, item in zip(fields["verdict"]["findings"], found.verdict.findings, strict=False)
            ],
            "max_scope": found.verdict.scope.word,
            "sandbox": found.confinement,
            "change": None,
            "fails_first": None,
        }
        if change is not None:
            told["change"] = {"text": change.text, "toml": change.toml, "to": change.flips_to.word}
        if found.verdict.decision is Decision.ASK:
            told["fails_first"] = await _foreseen(runtime, tool, args)
        return _hide(runtime, told)

    return await ask(workspace, question)


def _hide(runtime: Runtime, told: T) -> T:
    """Hide what must be hidden; what is told stays of its kind."""
    hidden: Any = runtime.parts.redactor.value(told)
    return hidden  # type: ignore[no-any-return]


async def _foreseen(runtime: Runtime, tool: str, args: Mapping[str, Any]) -> dict[str, str] | None:
    """Tell what would fail the call before anybody is asked."""
    try:
        await runtime.preview(tool, args)
    except Problem as problem:
        return {"code": problem.code.value, "message": problem.message}
    return None


async def policy(workspace: str) -> dict[str, Any]:
    """Tell the effective policy of a workspace."""

    async def question(runtime: Runtime) -> dict[str, Any]:
        return _hide(runtime, runtime.policy())

    return await ask(workspace, question)


async def tools(workspace: str, dialect: str) -> list[dict[str, Any]]:
    """List the tools of a workspace in a dialect's names."""

    async def question(runtime: Runtime) -> list[dict[str, Any]]:
        return runtime.tools(dialect=dialect)

    return await ask(workspace, question)


async def settings(workspace: str) -> list[dict[str, Any]]:
    """Tell every setting of a workspace, and where it comes from."""

    async def question(runtime: Runtime) -> list[dict[str, Any]]:
        from handrail.settings.model import keys

        loaded = runtime.parts.loaded
        found = []
        for key in keys():
            value: Any = loaded.settings
            for part in key.name.split("."):
                value = getattr(value, part)
            shown = record.jsonable(value)
            found.append({"name": key.name, "value": shown, "origin": loaded.describe_origin(key.name, value)})
        return _hide(runtime, found)

    return await ask(workspace, question)


async def sandbox(workspace: str) -> dict[str, Any]:
    """Tell how programs of this workspace would be confined, and the gaps."""

    async def question(runtime: Runtime) -> dict[str, Any]:
        args = {"command": "true"}
        found = runtime.explanation("run_command", args)
        return dict(found.confinement or {})

    return await ask(workspace, question)
