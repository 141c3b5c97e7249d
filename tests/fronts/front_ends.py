"""The front ends under test, behind one small interface; a further one is one class and one line in `FRONTS`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

from fronts.scenarios import Do
from fronts.zygote import Zygote
from handrail import Problem, Runtime
from handrail.compose import SystemClock
from handrail.ports import Reply
from handrail.settings import paths
from handrail.store.ledger import SqliteLedger

RUN = "scenario"


class Done(NamedTuple):
    """An outcome as plain JSON (None where there was no call), the exit code, and the code of a refusal."""

    outcome: dict[str, Any] | None
    exit: int | None = None  # where the front end has exit codes
    code: str | None = None


class Front(Protocol):
    """One way in. Every call is a process or a runtime of its own, in the same run."""

    def call(self, do: Do) -> Done:
        """Make a call."""

    def replay(self, request: str) -> Done:
        """Replay an approved request."""

    def undo(self) -> Done:
        """Take back what the run changed."""

    def answer(self, request: str, word: str) -> None:
        """Have a person elsewhere grant or deny."""


class Place(NamedTuple):
    """Where a front end works."""

    work: Path
    config: Path
    home: Path
    zygote: Zygote


class PythonFront:
    """`Runtime` in this process."""

    def __init__(self, place: Place) -> None:
        self._work, self._config = place.work, place.config

    def _with(self, use: Callable[[Runtime], Coroutine[Any, Any, Any]]) -> Done:
        async def run() -> Done:
            async with Runtime.open(self._work, config=self._config, run_id=RUN) as runtime:
                outcome = await use(runtime)
                return Done(json.loads(json.dumps(outcome.to_dict())), code=outcome.error and outcome.error.code)

        return asyncio.run(run())

    def call(self, do: Do) -> Done:
        permissions = None if do.permissions is None else do.permissions.split(",")
        return self._with(
            lambda runtime: runtime.call(
                do.tool, do.args, idempotency_key=do.key, permissions=permissions, skill=do.skill
            )
        )

    def replay(self, request: str) -> Done:
        book = self._ledger()
        try:
            args, asked = book.args(request), book.find(request).request
        except Problem as problem:
            return Done(None, code=problem.code.value)
        return self._with(lambda runtime: runtime.call(asked.tool, args, version=asked.version, approval=request))

    def undo(self) -> Done:
        return self._with(lambda runtime: runtime.undo())

    def answer(self, request: str, word: str) -> None:
        self._ledger().answer(request, Reply({"grant": "granted", "deny": "denied"}[word], by="tester"))

    def _ledger(self) -> SqliteLedger:
        return SqliteLedger(paths.state_dir() / "ledger.db", SystemClock())


class PydanticAiFront(PythonFront):
    """The toolset that an agent under Pydantic AI is given; a key, which it cannot name, is given beside it."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._home = place.home

    def _with(self, use: Callable[[Runtime], Coroutine[Any, Any, Any]]) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self._home / "state"))
            return super()._with(use)

    def _ledger(self) -> SqliteLedger:
        return SqliteLedger(self._home / "state" / "handrail" / "ledger.db", SystemClock())

    def call(self, do: Do) -> Done:
        if do.key is not None:
            return super().call(do)
        return self._with(lambda runtime: self._asked(runtime, do))

    async def _asked(self, runtime: Runtime, do: Do) -> Any:
        from pydantic_ai import RunContext
        from pydantic_ai.models.test import TestModel
        from pydantic_ai.usage import RunUsage

        from handrail.pydantic_ai import HandrailToolset

        permissions = None if do.permissions is None else frozenset(do.permissions.split(","))
        toolset = HandrailToolset(runtime, skill=do.skill, permissions=permissions)
        context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        offered = await toolset.get_tools(context)
        tool: Any = offered.get(do.tool)  # an agent does not even see what is not offered; the gate says the same
        try:
            answer = await toolset.call_tool(do.tool, dict(do.args), context, tool)
        except Exception as signal:
            return signal.outcome  # type: ignore[attr-defined]
        return _Told(answer.metadata)


class _Told(NamedTuple):
    """An outcome that is JSON already."""

    told: Any

    @property
    def error(self) -> None:
        """There is none where an answer came."""

    def to_dict(self) -> Any:
        return self.told


class CliFront:
    """`handrail` in a process of its own for every step."""

    def __init__(self, place: Place) -> None:
        self._place = place
        homes = {f"XDG_{name.upper()}_HOME": str(place.home / name) for name in ("state", "config", "cache")}
        self._env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "USER": "tester", **homes}

    def _run(self, *argv: str) -> Done:
        ended = self._place.zygote.run(list(argv), self._place.work, self._env)
        if ended.out:
            outcome = json.loads(ended.out)
            return Done(outcome, ended.code, (outcome["error"] or {}).get("code"))
        code = next((word for word in ended.err.replace(":", " ").split() if word.isupper() and "_" in word), None)
        assert "Traceback" not in ended.err, ended.err
        return Done(None, ended.code, code)

    def call(self, do: Do) -> Done:
        args = [do.tool, "--args", json.dumps(do.args), "--run", RUN, "--config", str(self._place.config), "--json"]
        for flag, value in (("--key", do.key), ("--permissions", do.permissions), ("--skill", do.skill)):
            args += [flag, value] if value is not None else []
        return self._run("call", *args)

    def replay(self, request: str) -> Done:
        return self._run("call", "--approval", request, "--config", str(self._place.config), "--json")

    def undo(self) -> Done:
        # Settings of the workspace itself count here, so the scenario's are put there and trusted.
        settings = self._place.config.read_text()
        user = self._place.home / "config" / "handrail" / "config.toml"
        user.parent.mkdir(parents=True, exist_ok=True)
        user.write_text(settings)
        return self._run("runs", "undo", RUN, "--json")

    def answer(self, request: str, word: str) -> None:
        run, seen = self._place.zygote.run, []
        if word == "grant":
            shown = run(["approvals", "show", request, "--json"], self._place.work, self._env)
            seen = ["--digest", json.loads(shown.out)["grant_digest"]]
        ended = run(["approvals", word, request, *seen], self._place.work, self._env)
        assert ended.code == 0, ended.err


def mcp(transport: str, era: str) -> Callable[[Place], Front]:
    """The MCP front end; its client is imported when it is used."""

    def make(place: Place) -> Front:
        from fronts import mcp_ends

        return mcp_ends.ENDS[transport](place, era)

    return make


FRONTS: dict[str, Callable[[Place], Front]] = {
    "python": PythonFront,
    "cli": CliFront,
    "pydantic ai": PydanticAiFront,
    "mcp stdio, handshake": mcp("stdio", "handshake"),
    "mcp stdio, stateless": mcp("stdio", "stateless"),
    "mcp http, handshake": mcp("http", "handshake"),
    "mcp http, stateless": mcp("http", "stateless"),
}
