"""Composition root and facade: the only module that knows every class."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import orjson

from handrail import dialects, ports, undoing
from handrail.arguments import RefusedMessage, short
from handrail.catalog import Tool
from handrail.compose import Composed, compose
from handrail.errors import Code, Misuse, Problem, RunFault
from handrail.gates.step import Step
from handrail.kernel import Kernel
from handrail.policy import World, decide
from handrail.policy.enablement import enabled
from handrail.requests import Requests
from handrail.store.folders import check_run_id
from handrail.strict_json import is_text
from handrail.words import Call, Json, Outcome, Touch, Verdict, noun
from handrail.worlds import Options

if TYPE_CHECKING:
    from handrail.dialects._dialect import Dialect

T = TypeVar("T")
_NOT_GIVEN = (None,) * 7  # of what a call may be given besides its tool and arguments


@noun
class Explanation:
    """Why a call would be allowed, asked for or denied; nothing was run."""

    tool: Tool
    args: Mapping[str, Json]
    touches: tuple[Touch, ...]
    verdict: Verdict
    world: World
    confinement: Mapping[str, Json] | None = None  # how its programs would be confined; an `error` where they cannot be


class Runtime:
    """One run of governed tool calls: `async with Runtime.open(workspace=".") as runtime`."""

    def __init__(self, options: Options, dialect: str = "native") -> None:
        self._options = options
        self.dialect = dialect  # what calls speak that name no other
        self._composed: Composed | None = None
        self._requests = Requests(self._for_request)

    @classmethod
    def open(
        cls,
        workspace: str | os.PathLike[str] = ".",  # the folder that tools work in
        *,
        config: str | os.PathLike[str] | Mapping[str, Any] | None = None,  # a path or a mapping; none: the files
        run_id: str | None = None,  # a new run, or the same one opened again; none: a new name
        mode: str | None = None,  # "interactive" or "headless": whether a person can be asked
        approver: ports.Approver | None = None,  # none: the terminal, another process, or nobody
        dialect: str = "native",  # whose names and arguments calls use
        tools: Iterable[Tool] = (),  # your own, enabled by being given here
        clock: ports.Clock | None = None,  # none: the machine's
        screen: ports.Screen | None = None,  # where `display` is shown; none: the beginning, on stderr
        caller: str = "python",  # the front end, as rules name it
        parent_run: str | None = None,  # the run on whose behalf this one is made
        progress: ports.Progress | None = None,  # told how much of a long journal is read, while it is opened
        flags: Mapping[str, Any] | None = None,  # settings that beat all others
    ) -> Runtime:
        """Prepare a runtime; entering it takes the run's lock and reads its journal.

        `config` is a path or a mapping (none: the user's and the project's files); `run_id` is any name that is safe
        as a folder: a new run, or the same one opened again. `tools` are your own, enabled by being given here.
        """
        if dialect != "native":
            dialects.get(dialect)
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
        return cls(options, dialect)

    async def __aenter__(self) -> Runtime:
        self._composed = compose(self._options)
        _open.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        composed = self._leave()
        _open.discard(self)
        if composed is not None:
            await composed.close()

    @property
    def parts(self) -> Composed:
        """What this runtime is made of; for front ends and tests."""
        if self._composed is None:
            raise self._closed()
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
        name: str,  # of the tool, as `tools()` gives it
        args: Mapping[str, Json] | None = None,  # checked strictly; what is wrong is told in the outcome
        *,
        dialect: str | None = None,  # other than the runtime's
        version: str | None = None,  # of the tool that the arguments are written for
        call_id: str | None = None,  # your own, used once in a run; none: one is made
        idempotency_key: str | None = None,  # in the same run the same key gives the first outcome
        trace_id: str | None = None,  # joins calls in the journal; none: the run's
        skill: str | None = None,  # narrows the call to what the skill allows
        permissions: Iterable[str] | None = None,  # kinds of touch ("fs.read" …) the call limits itself to
        approval: str | None = None,  # id of a granted request that this call replays
        parent: str | None = None,  # what it is made for, such as a turn of an agent: its place in `runs tree`
        client: str = "",  # the program that makes it, as it names itself: for the record
    ) -> Outcome:
        """Make one governed call; raises only for misuse of the API, and CancelledError when cancelled.

        What went wrong is told by the outcome: `status`, `error`. An idempotency key is remembered by the run: given
        again there, also once `open(run_id=…)` opened it anew, it runs nothing and gives the first outcome.
        """
        composed = self._composed
        if composed is None:
            raise self._closed()
        spoken = dialect or self.dialect
        if name.__class__ is not str or not (name.isascii() or is_text(name)):
            name = short(name)  # what names no tool, as it can be told and written down
        args = {} if args is None else args
        texts = (version, call_id, idempotency_key, trace_id, skill, approval, parent)
        if spoken == "native" and permissions is None and texts == _NOT_GIVEN:
            call = Call(name, args, "", None, composed.caller, client=client)
        else:
            narrowed = _checked(texts, permissions)
            if spoken != "native":
                speaker = dialects.get(spoken)
                narrowed = None if narrowed is None else speaker.permissions(narrowed, name, args)
                steps = speaker.steps(name, args, repair=composed.kernel.parts.repair)
                if steps is not None:
                    how = {"trace_id": trace_id, "skill": skill, "permissions": narrowed}
                    how |= {"parent": parent, "client": client}
                    return await self._stepped(steps, idempotency_key, **how)
                if idempotency_key is None and speaker.key is not None and isinstance(args, dict):
                    made = speaker.key(trace_id or self.run_id, name, args)
                    idempotency_key = None if made is None else composed.kernel.parts.keys.automatic(made)
            named = (call_id or "", version, composed.caller, trace_id or "")
            call = Call(name, args, *named, idempotency_key, skill, narrowed, approval, parent, spoken, client=client)
        outcome = await composed.kernel.call(call)
        if composed.journal.wants_checkpoint():
            composed.checkpoint()
        return outcome if spoken == "native" else self._spoken(composed, outcome, call)

    def _spoken(self, composed: Composed, outcome: Outcome, call: Call) -> Outcome:
        """Say an outcome in a dialect's names: where it looked, its own limits."""
        speaker, limits = dialects.get(call.dialect), composed.loaded.settings.limits
        if outcome.error is not None:
            outcome = speaker.fitted_failure(outcome, limits.max_output_lines, limits.max_output_bytes)
            return speaker.failed(outcome, self._where(composed), call.args)
        return speaker.fitted(outcome, limits.max_output_lines, limits.max_output_bytes, call.args)

    async def _stepped(
        self, steps: Generator[tuple[str, dict[str, Any]], Outcome, T], key: str | None, **how: Any
    ) -> T:
        """Make the calls that one call of a dialect stands for, each through every gate; give what comes of them."""
        try:
            tool, args = next(steps)
            for number in count(1):
                own = None if key is None else f"{key}#{number}"
                tool, args = steps.send(await self.call(tool, args, dialect="native", idempotency_key=own, **how))
            raise AssertionError  # counting has no end
        except StopIteration as done:
            whole: T = done.value
            return whole

    def explain(self, name: str, args: Mapping[str, Json] | None = None, **how: Any) -> Verdict:
        """Tell how a call would be judged, and run nothing; `how` as for `explanation`, Problem for what is no call."""
        return self.explanation(name, args, **how).verdict

    def explanation(
        self,
        name: str,
        args: Mapping[str, Json] | None = None,
        *,
        skill: str | None = None,
        permissions: Iterable[str] | None = None,
        caller: str | None = None,
        dialect: str | None = None,
    ) -> Explanation:
        """Tell how a call would be judged, with everything the verdict was made from; nothing is run."""
        step, world = self._asked(name, args, skill=skill, permissions=permissions, caller=caller, dialect=dialect)
        assert step.tool is not None and step.verdict is not None
        try:
            confinement = self.kernel.confinement(step)
        except Problem as problem:
            confinement = {"error": problem.message}
        return Explanation(step.tool, step.args or {}, step.touches, step.verdict, world, confinement)

    async def digest(self, name: str, args: Mapping[str, Json] | None = None, **how: Any) -> str:
        """Give what an approval of a call would be bound to now; Problem for what is no call at all."""
        step, _ = self._asked(name, args, **how)
        return await self.kernel.digest(step)

    async def preview(self, name: str, args: Mapping[str, Json] | None = None, **how: Any) -> str:
        """Give the diff that a person would be shown of a call; Problem for one that fails before anyone is asked."""
        step, _ = self._asked(name, args, **how)
        return await self.kernel.preview(step)

    def _asked(
        self,
        name: str,
        args: Mapping[str, Json] | None,
        *,
        skill: str | None = None,
        permissions: Iterable[str] | None = None,
        caller: str | None = None,
        dialect: str | None = None,
    ) -> tuple[Step, World]:
        """Carry a call up to its verdict, and not further."""
        composed = self.parts
        spoken, caller = dialect or self.dialect, caller or composed.caller
        narrowed = None if permissions is None else dialects.get(spoken).permissions(permissions, name, args)
        call = Call(name, args or {}, caller=caller, skill=skill, permissions=narrowed, dialect=spoken)
        step = Step(call, "", composed.clock.monotonic())
        composed.kernel.prepare(step)
        run_id, now = composed.journal.run_id, composed.clock.now()
        # Without a digest only wider grants count: those for one exact call are for the call itself to find.
        grants = composed.ledger.grants(run_id, now, composed.kernel.parts.workspace)
        world = composed.kernel.world(step, grants)
        step.verdict = decide(step.touches, world)
        return step, world

    def tools(
        self,
        *,
        dialect: str | None = None,
        every: bool = False,
        format: str | None = None,  # noqa: A002
    ) -> list[dict[str, Json]]:
        """Describe the enabled tools for function-calling APIs; `every` adds those that are not enabled.

        In a dialect exactly the tools of its document, in its names; with `format` ("openai", "anthropic") as that
        API wants them.
        """
        from handrail.dialects.specs import specs

        offered = ((tool, self._enabled(tool)) for tool in self.parts.catalog if tool.offered)
        found = specs(dialects.get(dialect or self.dialect), offered, every=every)
        if format is None:
            return found
        from handrail import formats

        return formats.described(found, format)

    def add(self, tool: Tool) -> None:
        """Register one more tool of yours while the runtime is open; it is enabled by being given here."""
        self.parts.catalog.add(tool)
        self.parts.given.add(tool.name)

    async def call_from(self, message: Any, **how: Any) -> dict[str, Json]:
        """Make the call that a model's message asks for (OpenAI, Anthropic or the dialect's), answer in the same form.

        `how` is what `call` takes besides name and arguments. A message of a dialect that names its request works in
        the sandbox of that request, where settings give each run one.
        """
        from handrail import formats

        spoken = how.get("dialect") or self.dialect
        if spoken != "native" and not formats.is_tool_call(message):
            return (await self._from_message(dialects.get(spoken), message, how)).to(spoken)
        asked = formats.read(message)
        return asked.answer(await self.call(asked.name, asked.args, **how))

    async def _from_message(self, speaker: Dialect, message: Any, how: Mapping[str, Any]) -> Outcome:
        """Make the one call of a dialect's message; a message that is refused is a call on record, too."""
        request = None
        try:
            asked = speaker.messages(message).calls
            if len(asked) == 1 and speaker.by_request and self.parts.by_request:
                request = _run_of(asked[0].trace_id)
        except Problem as problem:
            return await self._refuse_message(speaker, message, problem, how)
        if len(asked) != 1:
            raise Misuse(f"call_from makes one call, and this message asks for {len(asked)}; make them one by one")
        keywords = {"dialect": speaker.name, **asked[0].keywords(), **how}
        try:
            async with self._requests.open_run(self, request) as runtime:
                return await runtime.call(asked[0].tool, asked[0].args, **keywords)
        except RunFault as fault:
            if fault.code is not Code.RUN_BUSY:
                raise
            busy = Problem(Code.RUN_BUSY, f"The request {request} is worked on elsewhere; try again later.")
            return await self._refuse_message(speaker, message, busy, how)

    async def _refuse_message(
        self, speaker: Dialect, message: Any, problem: Problem, how: Mapping[str, Any]
    ) -> Outcome:
        """Refuse a message as the call that it names, so that it is on record."""
        named = speaker.identify(message)
        refused = RefusedMessage(_written(message), problem)
        return await self.call(named.tool, refused, **{"dialect": speaker.name, **named.keywords(), **how})

    def _for_request(self, request: str) -> Runtime:
        """Prepare the runtime of one request: a run of its own under the same settings."""
        return Runtime(replace(self._options, run_id=request, parent_run=self.run_id), self.dialect)

    def policy(self) -> dict[str, Json]:
        """Give the effective policy: for each tool the result and what each source contributes."""
        from handrail.policy.effective import effective

        composed = self.parts
        return effective([composed.world(tool) for tool in composed.catalog if tool.offered], composed.policy_digest)

    async def undo(self, call_id: str | None = None, *, run: str | None = None) -> Outcome:
        """Take back what a call changed, or all calls of this or another run, as a journaled call of its own."""
        return await undoing.undo(self, call_id, run)

    def on_display(self, show: Callable[[Mapping[str, Any]], None]) -> None:
        """Have what tools show to a person (`display`) handed to a function of yours, too."""
        self.parts.screen.sinks.append(show)

    def _where(self, composed: Composed) -> str:
        """The folder that tools work in, from the one that was opened where it lies below that."""
        root, opened = composed.kernel.parts.workspace, os.path.realpath(self._options.workspace)
        return os.path.relpath(root, opened) if f"{root}/".startswith(f"{opened.rstrip('/')}/") else root

    def _leave(self) -> Composed | None:
        composed, self._composed = self._composed, None
        return composed

    def _closed(self) -> Misuse:
        if any(runtime is self for runtime, _ in _inherited):
            return Misuse("the runtime was opened before this process was forked; open one of its own here")
        return Misuse("the runtime is not open; use `async with Runtime.open(…) as runtime`")

    def _enabled(self, tool: Tool) -> bool:
        world = self.parts.world(tool)
        return enabled(world.tool, world.enable, world.disable)


_open: WeakSet[Runtime] = WeakSet()
_inherited: list[tuple[Runtime, Composed | None]] = []  # never let go of: what is open in it belongs to another process


def _forked() -> None:
    """Leave the runtimes to the process that opened them: their journals, locks and threads are its own."""
    _inherited.extend((runtime, runtime._leave()) for runtime in _open)  # noqa: SLF001  (of this very class)
    _open.clear()


os.register_at_fork(after_in_child=_forked)


def _written(message: Any) -> str:
    """Give a message as JSON, for the record; what cannot be written so is named by its kind."""
    try:
        return orjson.dumps(message).decode()
    except (TypeError, ValueError, RecursionError):
        return short(message)


def _run_of(request: str | None) -> str | None:
    """Give a request's id as the name of a run; INVALID_ARGS where it is not safe as the name of a folder."""
    try:
        if request is not None:
            check_run_id(request)
    except Misuse as misuse:
        raise Problem(Code.INVALID_ARGS, f"`requestId` names the sandbox: {misuse}", field="requestId") from None
    return request


def _checked(texts: Iterable[str | None], permissions: Iterable[str] | None) -> frozenset[str] | None:
    """Refuse, as misuse, what cannot be written down; gives the permissions."""
    kinds = None if permissions is None else tuple(permissions)
    for text in (*(text for text in texts if text is not None), *(kinds or ())):
        if not is_text(text):
            raise Misuse(f"version, ids, key, skill, permissions and approval are texts; {short(text)} is none")
    return None if kinds is None else frozenset(kinds)
