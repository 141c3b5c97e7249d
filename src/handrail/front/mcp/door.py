"""The door: every request of the protocol that concerns the runtime, as plain data in and out.

It knows no transport and not the SDK; the SDK's server, the thin stdio codec and the HTTP guard all answer with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from handrail import __version__
from handrail.errors import Misuse, Problem, SettingsFault
from handrail.front.mcp import approvals, prompts, resources
from handrail.front.mcp.approvals import McpApprover
from handrail.front.mcp.logs import hide_with
from handrail.front.mcp.news import News
from handrail.front.mcp.ongoing import ONGOING, Ongoing, Peer, follow, load, show
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.pages import page
from handrail.front.mcp.results import call_result, is_wrapped, spoken_result
from handrail.front.mcp.tasks import Tasks
from handrail.front.mcp.wire import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    TASKS,
    Params,
    Refused,
)
from handrail.words import Mode, Outcome, Status

if TYPE_CHECKING:
    from handrail.runtime import Runtime
    from handrail.settings import Loaded

log = logging.getLogger("handrail.mcp")

NAME = "handrail"
INSTRUCTIONS = (
    "Every call is checked against a policy, confined, recorded and can be undone. A refused call says by which rule "
    "and how to mend it. A call that waits for a person ends as APPROVAL_REQUIRED with an id: once it is granted, "
    "repeat the same call. Output that was cut names a run: path; read_file reads the rest."
)
CANNOT_OPEN = (
    "handrail cannot open its run. Why is said on its stderr, which is the client's log of this server; "
    "where it is the settings, `handrail config show` with the same options says it, too."
)
ENDS = "The server ends, so nothing more is begun."
STOPPED = Refused(CONNECTION_CLOSED, "Connection closed: the server ends, and the call had not; it was stopped.")
STOP_SECONDS = 0.75  # for what is stopped to end, and to be on record
RESET = "The settings have changed, and this was asked for under the former ones. Repeat the call to ask anew."
# Of a call's `_meta`: what narrows it or names it, never what widens it.
_KEY, _SKILL, _PERMISSIONS, _APPROVAL = (
    "handrail/key",
    "handrail/skill",
    "handrail/permissions",
    "handrail/approval",
)

Answers = Callable[[Peer, Params], Awaitable[dict[str, Any]]]


class Door:
    """One run behind one server; `async with Door(opening) as door`. What is asked before it is open waits for it."""

    def __init__(self, opening: Opening) -> None:
        self._opening, self._approver = opening, McpApprover(opening.console)
        self._runtime: Runtime | None = None
        self._busy: set[asyncio.Task[Any] | None] = set()  # whoever works on a request
        self._idle, self._open, self._ends = asyncio.Event(), asyncio.Event(), False
        self.tasks = Tasks()
        self.news = News()
        self._methods: dict[str, Answers] = {
            "tools/list": self._list_tools,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "tasks/get": self._get_task,
            "tasks/cancel": self._cancel_task,
        }

    # ── opening, and opening anew ────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Door:
        try:
            await self._enter()
        finally:
            self._open.set()  # where it could not be opened, whoever waits for it is refused
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends = True
        ending = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait((ending,))  # what is stopped is on record before its run is closed
            raise

    async def _close(self) -> None:
        runtime, self._runtime = self._runtime, None
        self.news.close()
        for task in tuple(self._busy):
            if task is not None and not task.cancelling():
                task.cancel()
        if left := [task for task in self._busy if task is not None]:
            _, late = await asyncio.wait(left, timeout=STOP_SECONDS)
            if late:
                log.error("%d requests take no notice of being stopped; their end is not on record", len(late))
        if runtime is not None:
            await runtime.__aexit__(None, None, None)

    @property
    def runtime(self) -> Runtime:
        """The run in force."""
        if self._runtime is None:
            raise Misuse("the run is not open: its settings cannot be taken")
        return self._runtime

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self._runtime is not None

    @property
    def asks_back(self) -> bool:
        """Whether a client may be asked something during its call: for its own form, or to open a page."""
        return self._approver.trust_client or self._approver.console is not None

    async def _enter(self, run_id: str | None = None, former: Loaded | None = None) -> None:
        self._approver.ledger = None  # filled in by the runtime that opens
        runtime = await self._opening.runtime(self._approver, run_id, former).__aenter__()
        if self._opening.replay_flags is not None:
            runtime.parts.ledger.replay_flags = self._opening.replay_flags(runtime)
        settings = runtime.parts.loaded.settings
        self._approver.wait_seconds = min(settings.mcp.wait_seconds, settings.approvals.wait_seconds)
        self._approver.headless = settings.mode is Mode.HEADLESS
        self._approver.trust_client = settings.mcp.trust_client_approval
        self._page_size = settings.mcp.page_size
        runtime.on_display(show)
        runtime.parts.programs.followed, runtime.parts.outside.progress = follow, load
        hide_with(runtime.parts.redactor.text)
        self._entries: list[dict[str, Any]] | None = None
        self._wrapped: dict[str, bool] = {}
        self._last: dict[Any, list[dict[str, Any]]] = {}
        self._runtime, self._run_id, self.loaded = runtime, runtime.run_id, runtime.parts.loaded

    def settings(self) -> Loaded:
        """The settings as they are now; SettingsFault when they cannot be taken, but not for a project's file alone."""
        self._opening.welcome.let_in()  # what stood in the way of a project's file may be gone
        return self._opening.settings(self.loaded)

    def differs(self, settings: Loaded) -> bool:
        """Whether the run is to be opened for these settings: they say something else than those it was opened with."""
        return not self.is_open or settings.digest != self.loaded.digest

    async def reopen(self, patience: float = 0.0) -> bool:
        """Open the same run with the settings as they are now; False while calls are going on.

        What waits for a person is stopped: it was asked for under another policy, so no answer would fit any more.
        With patience, new calls are held back until those that are going on have ended. SettingsFault where the former
        settings still count, since no run can be opened with the project's file as it is now.
        """
        self.tasks.stop_waiting(RESET)
        await asyncio.sleep(0)
        if self._busy and not patience:
            return False
        self._open.clear()
        try:
            if self._busy:
                self._idle.clear()
                await asyncio.wait_for(self._idle.wait(), patience)
            runtime, self._runtime = self._runtime, None
            if runtime is not None:
                await runtime.__aexit__(None, None, None)
            await self._enter_anew()
        except TimeoutError:
            return False
        finally:
            self._open.set()  # where it could not be opened, calls are refused until it can
        return True

    async def _enter_anew(self) -> None:
        """Open the run; where a project's file may be why that fails, with what the file said before.

        Whoever can write that file must not decide whether anybody is served.
        """
        former, welcome = self.loaded, self._opening.welcome
        welcome.tried = ""
        try:
            await self._enter(self._run_id, former)
            return
        except Exception as error:
            if not welcome.keep_out(former, error):
                raise
            try:
                await self._enter(self._run_id, former)
            except Exception:  # noqa: BLE001  not the project's file, then: the first is told
                welcome.let_in()
                raise error from None
        if self.loaded.digest == former.digest:
            raise SettingsFault(self.loaded.fault)
        log.error("the project's settings cannot be taken, so its former ones still count: %s", self.loaded.fault)

    # ── answering ────────────────────────────────────────────────────────────────────────────

    def serves(self, method: str) -> bool:
        """Whether `answer` knows a method."""
        return method in self._methods

    async def answer(self, peer: Peer, method: str, params: Params) -> dict[str, Any]:
        """Answer one request but `tools/call`; Refused where it cannot be answered."""
        known = self._methods.get(method)
        if known is None:
            raise Refused(METHOD_NOT_FOUND, "Method not found", method)
        return await self._counted(lambda: known(peer, params))

    async def call(self, ongoing: Ongoing, params: Params) -> dict[str, Any]:
        """Answer `tools/call`."""
        if not ongoing.peer.has_tasks:
            return await self._counted(lambda: self._call(ongoing, params))
        return await self._parkable(ongoing, params)

    async def _counted(self, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        if not self._open.is_set():
            await self._open.wait()
        if self._runtime is None:
            raise Refused(CONNECTION_CLOSED, ENDS) if self._ends else Refused(INTERNAL_ERROR, CANNOT_OPEN)
        task = asyncio.current_task()
        self._busy.add(task)
        try:
            return await work()
        finally:
            self._busy.discard(task)
            if not self._busy:
                self._idle.set()

    async def _parkable(self, ongoing: Ongoing, params: Params) -> dict[str, Any]:
        """Make a call that goes on in the background once it waits for a person."""
        parked = ongoing.parked = asyncio.get_running_loop().create_future()
        work = asyncio.ensure_future(self._counted(lambda: self._call(ongoing, params)))
        try:
            await asyncio.wait({work, parked}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if work.done() or not parked.done():
            return await work
        try:
            return self.tasks.keep(work, ongoing)
        except Refused:
            work.cancel()  # what nobody can ask about must not happen later
            raise

    async def _call(self, ongoing: Ongoing, params: Params) -> dict[str, Any]:
        name, args = params["name"], params.get("arguments")
        how, runtime = _how(params.get("_meta")), self.runtime
        if "inputResponses" in params:
            answers = params["inputResponses"]
            given = answers.get(approvals.ANSWER) if isinstance(answers, Mapping) else None
            ongoing.returned = True
            if self._approver.trusts(ongoing):
                self._approver.take(params.get("requestState"), given, runtime.run_id)
        ONGOING.set(ongoing)
        ongoing.start()
        try:
            outcome = await runtime.call(name, args, client=ongoing.peer.client, **how)
        except Misuse as misuse:
            raise Refused(INVALID_PARAMS, str(misuse)) from None
        finally:
            ongoing.stop()
        if outcome.refs or outcome.changes:
            self.news.of(outcome)
        if outcome.status is Status.PENDING and ongoing.peer.modern and (asking := self._asking(ongoing, outcome)):
            return asking
        if runtime.dialect != "native":
            return spoken_result(outcome, runtime.dialect, args or {})
        return call_result(outcome, wrapped=self._is_wrapped(runtime, name))

    def _asking(self, ongoing: Ongoing, outcome: Outcome) -> dict[str, Any] | None:
        assert outcome.error is not None
        request: Any = outcome.error.details.get("approval")
        return None if request is None else self._approver.input_required(ongoing, request)

    def _is_wrapped(self, runtime: Runtime, name: str) -> bool:
        """Whether results put a tool's data into an object."""
        found = self._wrapped.get(name)
        if found is None:
            with suppress(Problem, Misuse):
                found = self._wrapped[name] = is_wrapped(runtime.parts.catalog.get(name))
        return bool(found)

    def _tools(self) -> list[dict[str, Any]]:
        """The enabled tools as the protocol lists them; made once for each opening."""
        if self._entries is None:
            from handrail.front.mcp import listing  # with all that a run is made of; see `opening`

            tools, dialect = listing.listed(self.runtime.parts), self.runtime.dialect
            self._wrapped |= {tool.name: tool.wrapped for tool in tools}
            if dialect == "native":
                short = self.runtime.parts.loaded.settings.mcp.listing == "short"
                self._entries = list(listing.native(tools, short=short))
            else:
                self._entries = list(listing.spoken(dialect, tools))
        return self._entries

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """The schema of a tool's arguments, for checks of the transport."""
        return next((entry["inputSchema"] for entry in self._tools() if entry["name"] == name), None)

    # ── one method each ──────────────────────────────────────────────────────────────────────

    async def _list_tools(self, _: Peer, params: Params) -> dict[str, Any]:
        return self._page("tools", params, self._tools(), "name")

    async def _list_resources(self, _: Peer, params: Params) -> dict[str, Any]:
        return self._page("resources", params, await self._listed(resources.listed), "uri")

    async def _list_templates(self, _: Peer, params: Params) -> dict[str, Any]:
        return self._page("resourceTemplates", params, resources.TEMPLATES, "name")

    async def _read_resource(self, _: Peer, params: Params) -> dict[str, Any]:
        return await resources.read(self.runtime, params)

    async def _list_prompts(self, _: Peer, params: Params) -> dict[str, Any]:
        return self._page("prompts", params, await self._listed(prompts.listed), "name")

    async def _get_prompt(self, _: Peer, params: Params) -> dict[str, Any]:
        return await prompts.get(self.runtime, params)

    async def _get_task(self, _: Peer, params: Params) -> dict[str, Any]:
        return self.tasks.get(params)

    async def _cancel_task(self, _: Peer, params: Params) -> dict[str, Any]:
        return self.tasks.cancel(params)

    async def _listed(self, listed: Callable[[Runtime], Awaitable[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
        """What there is; where asking again was stopped since it always gave the same, what it gave."""
        try:
            found = self._last[listed] = await listed(self.runtime)
        except Refused as refused:
            stopped = refused.data is not None and refused.data.get("code") == "BUDGET_EXHAUSTED"
            if not stopped or listed not in self._last:
                raise
            found = self._last[listed]
        return found

    def _page(self, kind: str, params: Params, entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
        shown, cursor = page(params, entries, lambda entry: str(entry[name]), self._page_size)
        return {kind: shown} if cursor is None else {kind: shown, "nextCursor": cursor}


def capabilities(*, modern: bool) -> dict[str, Any]:
    """What is offered; the stateless era has extensions."""
    changing = {"listChanged": True}
    # Lists are told of, never one resource: what the run keeps does not change, and skills are not watched.
    offered = {"prompts": changing, "resources": {"subscribe": False, **changing}, "tools": changing}
    return {**offered, "extensions": {TASKS: {}}} if modern else offered


def server_info() -> dict[str, str]:
    """Who answers."""
    return {"name": NAME, "version": __version__}


def _how(meta: Any) -> dict[str, Any]:
    """What a call's `_meta` says about how it is to be made."""
    if not isinstance(meta, Mapping):
        return {}
    how = {"idempotency_key": meta.get(_KEY), "skill": meta.get(_SKILL), "approval": meta.get(_APPROVAL)}
    if any(value is not None and not isinstance(value, str) for value in how.values()):
        raise Refused(INVALID_PARAMS, "The handrail/ entries of `_meta` are texts.")
    if (kinds := meta.get(_PERMISSIONS)) is not None:
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise Refused(INVALID_PARAMS, f"{_PERMISSIONS} is a list of kinds of touch.")
        how["permissions"] = kinds
    return {name: value for name, value in how.items() if value is not None}
