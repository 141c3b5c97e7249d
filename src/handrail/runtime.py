"""Composition root and facade: the only module that knows every class."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from handrail import ports, undoing
from handrail.catalog import Tool
from handrail.compose import Composed, compose
from handrail.errors import Misuse
from handrail.gates.step import Step
from handrail.kernel import Kernel
from handrail.policy import World, decide
from handrail.policy.enablement import enabled
from handrail.words import Call, Json, Outcome, Touch, Verdict
from handrail.worlds import Options


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a call would be allowed, asked for or denied; nothing was run."""

    tool: Tool
    args: Mapping[str, Json]
    touches: tuple[Touch, ...]
    verdict: Verdict
    world: World


class Runtime:
    """One run of governed tool calls: `async with Runtime.open(workspace=".") as runtime`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._composed: Composed | None = None

    @classmethod
    def open(
        cls,
        workspace: str | os.PathLike[str] = ".",
        *,
        config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        run_id: str | None = None,
        mode: str | None = None,
        approver: ports.Approver | None = None,
        dialect: str = "native",
        tools: Iterable[Tool] = (),
        clock: ports.Clock | None = None,
        screen: ports.Screen | None = None,
        caller: str = "python",
        parent_run: str | None = None,
        progress: ports.Progress | None = None,
        flags: Mapping[str, Any] | None = None,
    ) -> Runtime:
        """Prepare a runtime; entering it takes the run's lock and reads its journal.

        `config` is a path or a mapping (none: the user's and the project's files); `run_id` is any name that is safe
        as a folder: a new run, or the same one opened again. `tools` are your own, enabled by being given here.
        """
        if dialect != "native":
            raise Misuse(f"no dialect {dialect!r}; there is: native")
        options = Options(
            workspace=Path(workspace),
            config=config if config is None or isinstance(config, Mapping) else Path(config),
            run_id=run_id,
            mode=mode,
            approver=approver,
            tools=tuple(tools),
            clock=clock,
            screen=screen,
            caller=caller,
            parent_run=parent_run,
            progress=progress,
            flags=flags or {},
        )
        return cls(options)

    async def __aenter__(self) -> Runtime:
        self._composed = compose(self._options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        composed, self._composed = self._composed, None
        if composed is not None:
            await composed.close()

    @property
    def parts(self) -> Composed:
        """What this runtime is made of; for front ends and tests."""
        if self._composed is None:
            raise Misuse("the runtime is not open; use `async with Runtime.open(…) as runtime`")
        return self._composed

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.parts.journal.run_id

    @property
    def kernel(self) -> Kernel:
        """The gate itself."""
        return self.parts.kernel

    async def call(
        self,
        name: str,
        args: Mapping[str, Json] | None = None,
        *,
        dialect: str | None = None,
        version: str | None = None,
        call_id: str | None = None,
        idempotency_key: str | None = None,
        trace_id: str | None = None,
        skill: str | None = None,
        permissions: Iterable[str] | None = None,
        approval: str | None = None,
    ) -> Outcome:
        """Make one governed call; raises only for misuse of the API, and CancelledError when cancelled."""
        composed = self._composed
        if composed is None or (dialect or "native") != "native":
            raise Misuse("the runtime is not open" if composed is None else f"no dialect {dialect!r}; there is: native")
        call = Call(
            name,
            {} if args is None else args,
            call_id or "",
            version,
            composed.caller,
            trace_id or "",
            idempotency_key,
            skill,
            None if permissions is None else frozenset(permissions),
            approval,
        )
        outcome = await composed.kernel.call(call)
        if composed.journal.wants_checkpoint():
            composed.checkpoint()
        return outcome

    def explain(self, name: str, args: Mapping[str, Json] | None = None, **how: Any) -> Verdict:
        """Tell how a call would be judged, and run nothing; Problem for what is no call at all."""
        return self.explanation(name, args, **how).verdict

    def explanation(
        self,
        name: str,
        args: Mapping[str, Json] | None = None,
        *,
        skill: str | None = None,
        permissions: Iterable[str] | None = None,
        caller: str | None = None,
    ) -> Explanation:
        """Tell how a call would be judged, with everything the verdict was made from."""
        composed = self.parts
        narrowed = None if permissions is None else frozenset(permissions)
        call = Call(name, args or {}, caller=caller or composed.caller, skill=skill, permissions=narrowed)
        step = Step(call, "", composed.clock.monotonic())
        tool = composed.kernel.prepare(step)
        run_id, now = composed.journal.run_id, composed.clock.now()
        # Without a digest only wider grants count: those for one exact call are for the call itself to find.
        grants = composed.ledger.grants(run_id, now, composed.kernel.parts.workspace)
        world = composed.kernel.world(step, grants)
        return Explanation(tool, step.args or {}, step.touches, decide(step.touches, world), world)

    def tools(self, *, dialect: str | None = None, every: bool = False) -> list[dict[str, Json]]:
        """Describe the enabled tools for function-calling APIs; `every` adds those that are not enabled."""
        if (dialect or "native") != "native":
            raise Misuse(f"no dialect {dialect!r}; there is: native")
        return [
            {**tool.spec(), "enabled": on} if every else tool.spec()
            for tool in self.parts.catalog
            if tool.offered and ((on := self._enabled(tool)) or every)
        ]

    def policy(self) -> dict[str, Json]:
        """The effective policy: for each tool the result and what each source contributes."""
        from handrail.policy.effective import effective

        composed = self.parts
        return effective([composed.world(tool) for tool in composed.catalog if tool.offered], composed.policy_digest)

    async def undo(self, call_id: str | None = None, *, run: str | None = None) -> Outcome:
        """Take back what a call (or all of a run) changed, as a journaled call of its own."""
        return await undoing.undo(self, call_id, run)

    def on_display(self, show: Callable[[Mapping[str, Any]], None]) -> None:
        """Have every `display` shown by a function of yours, too."""
        self.parts.screen.sinks.append(show)

    def _enabled(self, tool: Tool) -> bool:
        world = self.parts.world(tool)
        return enabled(world.tool, world.enable, world.disable)
