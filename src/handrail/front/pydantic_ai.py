"""Pydantic AI: our tools for any agent, and our gate around an agent's other tools.

An approval that Pydantic AI defers is ours: the request's id and digest travel in the metadata, the ledger spends the
grant once, and what runs must have the digest that was approved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import SchemaValidator, core_schema

from handrail.arguments import short
from handrail.catalog import Tool, tool
from handrail.compose import Composed
from handrail.errors import Code, Misuse, Problem
from handrail.front._needed import needed
from handrail.front._offered import of_toolset
from handrail.policy.skills import GOVERNED
from handrail.ports import Answered, Limits, Reply, Spill
from handrail.runtime import Runtime
from handrail.strict_json import is_text
from handrail.words import Answer, Outcome, Status, Touch, TouchKind

with needed("pydantic_ai", "handrail.pydantic_ai needs Pydantic AI: pip install 'handrail[agent]'"):
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ApprovalRequired, ModelRetry, ToolFailed
    from pydantic_ai.messages import ToolReturn
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

    from handrail.front._pydantic_args import INEXACT, UNPLACED, Given, Noting, bound
    from handrail.front._pydantic_results import SIGNALS, Result, hidden, recorded
    from handrail.front._pydantic_shown import Shown

# Our own check is stricter and answers better: here any object passes. It also marks our tools: see `_is_ours`.
_ANY: Any = Given(SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema())))
_MENDABLE = frozenset({Code.INVALID_ARGS.value, Code.UNKNOWN_TOOL.value, Code.UNSUPPORTED_VERSION.value})
APPROVAL = "handrail"  # under which an approval's id and digest stand in a deferred call's metadata
RETRIES = 3
BY = "pydantic-ai"  # who answered, where the program did
_MOST_NAMED = 80


@dataclass
class HandrailToolset(AbstractToolset[Any]):
    """The tools of an open runtime, all that are enabled or those of one toolset (`fs`, `skills` …)."""

    runtime: Runtime
    toolset: str | None = None
    skill: str | None = None  # the calls of this toolset are made under a skill
    permissions: frozenset[str] | None = None  # and touch nothing else
    max_retries: int = RETRIES
    _tools: dict[str, ToolsetTool[Any]] = field(default_factory=dict, init=False, repr=False)
    _described: tuple[Composed | None, int] = field(default=(None, 0), init=False, repr=False)

    @property
    def id(self) -> str:
        """Under this name durable engines know the toolset."""
        return "handrail" if self.toolset is None else f"handrail-{self.toolset}"

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:  # noqa: ARG002
        """Offer the enabled tools; described once for each opening of the runtime, and again when one is added."""
        parts, (opened, given) = self.runtime.parts, self._described
        if parts is not opened or len(parts.given) != given:
            specs = of_toolset(self.runtime, self.toolset)
            self._tools = {tool.tool_def.name: tool for tool in map(self._tool, specs)}
            self._described = parts, len(parts.given)
        return self._tools

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002
    ) -> ToolReturn[Any]:
        """Call through the gate."""
        how: dict[str, Any] = {"skill": self.skill, "permissions": self.permissions}
        approval = await answered(self.runtime, ctx, name, tool_args, **how)
        outcome = await self.runtime.call(name, tool_args, approval=approval, **how)
        return returned(outcome, outcome.content)

    def _tool(self, spec: Mapping[str, Any]) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=spec.get("function_name", spec["name"]),
            description=spec["description"],
            parameters_json_schema=spec["args_schema"],
            metadata={"risk": spec["risk"], "side_effects": spec["side_effects"], "toolset": spec["toolset"]},
            toolset_id=self.id,  # else every step of an agent copies every definition to fill it in
        )
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=self.max_retries, args_validator=_ANY)


@dataclass
class Governance(AbstractCapability[Any]):
    """Takes every tool of an agent through the gate, also functions and MCP servers that are not ours.

    Each is one touch `tool.use` of its name, so it asks until a rule allows it:
    `effect = "allow"`, `touch = "tool.use"`, `target = "get_weather"`.
    """

    runtime: Runtime

    def __post_init__(self) -> None:
        """Have skills know from now on that other names than ours may be tools of the agent."""
        with suppress(Misuse):  # not open yet
            _prepare(self.runtime)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Stand around the agent's assembled toolset."""
        _prepare(self.runtime)
        return _Gate(toolset, self.runtime)


@dataclass
class _Gate(WrapperToolset[Any]):
    runtime: Runtime

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Offer the same tools; of those that are not ours, what the model writes is noted when it is checked."""
        tools = await super().get_tools(ctx)
        return {name: tool if _is_ours(tool) else _noting(tool) for name, tool in tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Have the kernel make the agent's own call; our tools have their gate already."""
        if _is_ours(tool) or self._is_let_through(tool_args):
            return await super().call_tool(name, tool_args, ctx, tool)

        async def work() -> Any:
            if args.get("bound") != INEXACT and bound(name, tool_args) != args:
                raise _changed_since(name)
            return await super(_Gate, self).call_tool(name, tool_args, ctx, tool)

        args = bound(name, tool_args)
        running = _Running(name, work, self.runtime, tool_args)
        mark = _running.set(running)
        try:
            approval = await answered(self.runtime, ctx, GOVERNED, args, dialect="native")
            outcome = await self.runtime.call(GOVERNED, args, approval=approval, dialect="native")
        finally:
            _running.reset(mark)
        if running.signal is not None:
            raise running.signal
        told = returned(outcome, outcome.content)
        assert running.result is not None
        return running.result.given(told, outcome.data)

    def _is_let_through(self, tool_args: dict[str, Any]) -> bool:
        """Whether this very call passed a gate of the same runtime around this one, and nobody changed it since."""
        running = _running.get(None)
        return running is not None and running.runtime is self.runtime and running.args is tool_args


def _is_ours(tool: ToolsetTool[Any]) -> bool:
    """Whether a tool has its gate already: every wrapper (prefixed, renamed, combined …) hands on what checks it."""
    return tool.args_validator is _ANY


def _noting(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    return replace(tool, args_validator=Noting(tool.args_validator))


@dataclass(slots=True)
class _Running:
    """The agent's own call that the kernel is about to make."""

    tool: str
    work: Callable[[], Awaitable[Any]]
    runtime: Runtime
    args: dict[str, Any]
    started: bool = False
    result: Result | None = None
    signal: Exception | None = None  # what Pydantic AI's own machinery must see


_running: ContextVar[_Running] = ContextVar("handrail-running")


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    return (Touch(TouchKind.TOOL_USE, args["tool"], unsafe=True),)


def _about_to_run(tool: str) -> _Running:
    """The call that an agent makes now; nobody makes one by naming the tool that stands for it."""
    running = _running.get(None)
    if running is None or running.started or running.tool != tool:
        told = f"{GOVERNED} stands for tools of an agent, which calls them by their own names; it cannot be called."
        raise Problem(Code.UNKNOWN_TOOL, told)
    return running


_WHY = {
    INEXACT: "what it would be given cannot be told exactly: its arguments are objects that the program made or "
    "changed, or that can be read only once. A hook or a wrapper that changes arguments must leave JSON values",
    UNPLACED: "which of its arguments are secret cannot be told, so that the others cannot be shown. Give them the "
    "names of the tool's parameters, and the secrets as the tool takes them",
}


async def _preview(tool: str, arguments: dict[str, Any], bound: str | None = None, **_: Any) -> str:  # noqa: ARG001
    """Refuse what nobody can be asked about: an approval must be of what will run."""
    _about_to_run(tool)
    if bound in _WHY:
        told = f"{tool} must be approved, and {_WHY[bound]}, or a rule must allow the tool."
        raise Problem(Code.APPROVAL_DENIED, told)
    return ""


def _changed_since(tool: str) -> Problem:
    told = f"The program changed the arguments of {tool} after they were judged; nothing was run. Call it again."
    return Problem(Code.APPROVAL_DENIED, told)


def _prepare(runtime: Runtime) -> None:
    if GOVERNED not in runtime.parts.catalog:
        runtime.add(_governed())


def _governed() -> Tool:
    @tool(
        name=GOVERNED, toolset="agent", risk="high", touches=_touches, permissions=("tool.use",), offered=False,
        changing=True, preview=_preview,
    )  # fmt: skip
    async def agent_tool(
        tool: str,
        arguments: dict[str, Any],  # noqa: ARG001
        limits: Limits,
        spill: Spill,
        bound: str | None = None,  # noqa: ARG001
    ) -> Answer[dict[str, Any]]:
        """Use a tool that belongs to the agent itself."""
        running = _about_to_run(tool)
        running.started = True
        shown = Shown(running.runtime.parts.redactor, limits, spill)
        try:
            result = running.result = Result(await running.work(), shown)
        except SIGNALS as signal:
            running.signal = hidden(signal, shown)
            raise recorded(tool, signal, shown) from None
        return result.answer(tool)

    return agent_tool


async def answered(
    runtime: Runtime, ctx: RunContext[Any], name: str, args: Mapping[str, Any], **how: Any
) -> str | None:
    """The approval that a resumed call brings along; the program's own yes is put on record as the answer.

    A yes to other arguments than were asked for is none: it would stand in the ledger for the call that was.
    """
    if not ctx.tool_call_approved:
        return None
    told = ctx.tool_call_metadata
    ours = told.get(APPROVAL) if isinstance(told, Mapping) else None
    if not isinstance(ours, Mapping) or not isinstance(ours.get("approval"), str):
        return None
    request: str = ours["approval"]
    with suppress(Answered, KeyError, Problem):  # somebody answered before, or nobody was asked: the ledger decides
        asked = runtime.parts.ledger.find(request).request
        if await runtime.digest(name, args, **how) in (asked.digest, asked.reviews):
            runtime.parts.ledger.answer(request, Reply("granted", by=_by(ours.get("by"))))
    return request


def _by(named: Any) -> str:
    """Who said yes, as the program tells it; never a name that could be taken for one of ours."""
    if not named:
        return BY
    return f"{BY}:{named if is_text(named) and len(named) <= _MOST_NAMED else short(named)}"


def returned(outcome: Outcome, value: Any) -> ToolReturn[Any]:
    """What the agent gets: the answer, a wait for a person, or an error from which a model can mend its call.

    The whole outcome is in the metadata, which a model never sees; an error has it as `outcome`.
    """
    if outcome.ok:
        if outcome.tool == "read_media" and outcome.data is not None:
            return _media(outcome)
        return ToolReturn(return_value=value, metadata=outcome.to_dict())
    signal = _signal(outcome)
    signal.outcome = outcome  # type: ignore[attr-defined]
    raise signal


def _media(outcome: Outcome) -> ToolReturn[Any]:
    """An image or another file for a model that can take it; the metadata has no second copy of the bytes."""
    from base64 import b64decode

    from pydantic_ai.messages import BinaryContent

    found = outcome.data
    told = {**outcome.to_dict(), "data": {name: value for name, value in found.items() if name != "base64"}}
    content = [BinaryContent(b64decode(found["base64"]), media_type=found["mime_type"])]
    return ToolReturn(return_value=outcome.content, content=content, metadata=told)


def _signal(outcome: Outcome) -> Exception:
    assert outcome.error is not None
    if outcome.status is Status.PENDING:
        request = outcome.error.details["approval"]
        asked = {"approval": request["id"], **{name: request[name] for name in ("digest", "reason", "impact", "diff")}}
        return ApprovalRequired(metadata={APPROVAL: asked})
    return (ModelRetry if outcome.error.code in _MENDABLE else ToolFailed)(outcome.content)
