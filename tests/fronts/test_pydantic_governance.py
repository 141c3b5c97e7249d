"""Pydantic AI: an agent's own tools behind the gate, and an approval of one bound to what the model wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

if os.environ.get("CI") != "true":
    pytest.importorskip("pydantic_ai", reason="needs the extra [agent]")

from pydantic import BaseModel, BeforeValidator, Field, SecretStr
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import DeferredToolResults, ToolApproved
from pydantic_core import core_schema

from fronts.governing import asked, governed, ran, unwatched, with_set
from fronts.test_pydantic_ai import Calls
from handrail import Runtime
from handrail.ports import Reply
from handrail.pydantic_ai import APPROVAL
from handrail.store import reader

SECRET = "plover-4711-xyzzy"  # what no pattern takes for a secret


@pytest.fixture
async def runtime(work: Path, own_user: Path) -> AsyncIterator[Runtime]:
    """A runtime that nobody watches; tools whose names begin with `free` may run."""
    async with unwatched(work) as opened:
        yield opened


class Transfer(BaseModel):
    to: str
    amount: int = Field(exclude=True)


class Login(BaseModel):
    user: str
    key: SecretStr


class Pin:
    """An object with a place of its own for what it holds; only the first is kept secret."""

    __slots__ = ("__number",)

    def __init__(self, number: str) -> None:
        self.__number = SecretStr(number.strip()) if number.startswith(" ") else number

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())


class Plain:
    """An object that tells nothing of itself."""

    def __init__(self, value: int) -> None:
        self.value = value

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        return core_schema.no_info_after_validator_function(cls, core_schema.int_schema())


def with_model(transfer: Transfer) -> str:
    ran.append((transfer.to, transfer.amount))
    return "done"


def with_secret(to: str, key: SecretStr) -> str:
    ran.append((to, key.get_secret_value()))
    return "done"


def with_login(login: Login) -> str:
    ran.append((login.user, login.key.get_secret_value()))
    return "done"


def with_object(plain: Plain) -> str:
    ran.append(plain.value)
    return "done"


Case = tuple[Callable[..., str], dict[str, Any], dict[str, Any], Any]
CASES: list[Case] = [
    (
        with_model,
        {"transfer": {"to": "bob", "amount": 1}},
        {"transfer": {"to": "bob", "amount": 1000}},
        ("bob", 1),
    ),
    (with_secret, {"to": "bob", "key": SECRET}, {"to": "bob", "key": "another-key"}, ("bob", SECRET)),
    (
        with_login,
        {"login": {"user": "bob", "key": SECRET}},
        {"login": {"user": "bob", "key": "another-key"}},
        ("bob", SECRET),
    ),
    (with_object, {"plain": 1}, {"plain": 2}, 1),
    (with_set, {"names": ["a", "b", "c"]}, {"names": ["a", "b", "d"]}, ["a", "b", "c"]),
]
ANY_TOOL = pytest.mark.parametrize(("function", "args", "other", "runs"), CASES, ids=[c[0].__name__ for c in CASES])


@ANY_TOOL
async def test_arguments_changed_after_approval_never_run(
    runtime: Runtime, function: Callable[..., str], args: Any, other: Any, runs: Any
) -> None:
    """Also where the tool's own types leave a value out, mask it or show nothing of it; the same ones run once."""
    agent = governed(runtime, function, calls=[(function.__name__, args)])
    history, requests = await asked(agent)
    (call,) = requests.approvals
    changed = ToolApproved(override_args=other)
    results = DeferredToolResults(approvals={call.tool_call_id: changed}, metadata=requests.metadata)
    refused = await agent.run(message_history=history, deferred_tool_results=results)
    assert (refused.output[:24], ran) == ("failed: APPROVAL_DENIED:", [])
    same = requests.build_results(approve_all=True, metadata=requests.metadata)
    for _ in range(2):
        anew = governed(runtime, function, calls=[])
        await anew.run(message_history=history, deferred_tool_results=same)
    assert ran == [runs]


@ANY_TOOL
async def test_a_grant_given_elsewhere_covers_no_call_with_other_arguments(
    runtime: Runtime, function: Callable[..., str], args: Any, other: Any, runs: Any
) -> None:
    """A new conversation asks anew; the call that was shown runs."""
    _, requests = await asked(governed(runtime, function, calls=[(function.__name__, args)]))
    (about,) = [told[APPROVAL] for told in requests.metadata.values()]
    runtime.parts.ledger.answer(about["approval"], Reply("granted", by="ann"))
    await asked(governed(runtime, function, calls=[(function.__name__, other)]))
    assert ran == []
    await governed(runtime, function, calls=[(function.__name__, args)]).run("go")
    assert ran == [runs]


@ANY_TOOL
async def test_an_approved_call_runs_once_when_the_run_is_opened_again(
    work: Path, own_user: Path, function: Callable[..., str], args: Any, other: Any, runs: Any
) -> None:
    """Written as a text or given as values, the same arguments are the same; `other` never runs."""
    ran.clear()
    text: Any = json.dumps(args)
    config = {"approvals": {"keep_after_run": True}}
    open_again: Callable[[], Any] = lambda: Runtime.open(work, config=config, mode="headless", run_id="one")  # noqa: E731
    async with open_again() as runtime:
        history, requests = await asked(governed(runtime, function, calls=[(function.__name__, text)]))
    (call,) = requests.approvals
    for given in (other, args, args):
        approved = ToolApproved(override_args=given)
        results = DeferredToolResults(approvals={call.tool_call_id: approved}, metadata=requests.metadata)
        async with open_again() as runtime:
            await governed(runtime, function, calls=[]).run(message_history=history, deferred_tool_results=results)
    assert ran == [runs]


SCRIPT = """
import asyncio, sys
from fronts.test_pydantic_governance import CASES, APPROVAL, Runtime, asked, governed

async def main():
    async with Runtime.open(sys.argv[1], config={}, mode="headless", run_id="one") as runtime:
        for function, args, _, _ in CASES:
            _, requests = await asked(governed(runtime, function, calls=[(function.__name__, args)]))
            print(next(iter(requests.metadata.values()))[APPROVAL]["digest"])

asyncio.run(main())
"""


def test_another_process_binds_the_same_call_to_the_same_digest(work: Path, own_user: Path) -> None:
    """Whatever the order of a set or the address of an object is there."""
    seen = []
    for seed in ("1", "2"):
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(work)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen.append(done.stdout.split())
    assert (len(seen[0]), seen[0]) == (len(CASES), seen[1])


@pytest.mark.parametrize("function", [with_secret, with_login])
async def test_a_secret_argument_is_written_down_nowhere(
    work: Path, own_user: Path, function: Callable[..., str]
) -> None:
    """Neither in the journal nor in the ledger nor in what a person is shown; beside it all is told."""
    ran.clear()
    args = {"to": "bob", "key": SECRET} if function is with_secret else {"login": {"user": "bob", "key": SECRET}}
    async with Runtime.open(work, config={}, mode="headless") as runtime:
        agent = governed(runtime, function, calls=[(function.__name__, args)])
        history, requests = await asked(agent)
        (record,) = runtime.parts.ledger.list()
        shown = record.request.params["arguments"]
        results = requests.build_results(approve_all=True, metadata=requests.metadata)
        await agent.run(message_history=history, deferred_tool_results=results)
    told = shown if function is with_secret else shown["login"]
    assert ("bob" in told.values(), told["key"], ran) == (True, "***REDACTED***", [("bob", SECRET)])
    files = [path for path in own_user.rglob("*") if path.is_file()]
    assert "events.jsonl" in {path.name for path in files}
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"to": "eve 1", "key": "1"}, {"to": "eve 1", "key": "***REDACTED***"}),
        ({"to": "eve", "key": "to eve, 1000"}, {"to": "eve", "key": "***REDACTED***"}),
        ({"to": SECRET.upper(), "key": SECRET}, {"to": "***REDACTED***", "key": "***REDACTED***"}),
        ({"to": f"x{SECRET}y", "key": SECRET}, {"to": "x***REDACTED***y", "key": "***REDACTED***"}),
        ({"to": "eve", "key": ""}, {"to": "eve", "key": ""}),
    ],
)
async def test_a_secret_hides_itself_and_no_more(runtime: Runtime, args: Any, shown: Any) -> None:
    """A model cannot keep from a person to whom it sends by what it writes as the key."""
    await asked(governed(runtime, with_secret, calls=[("with_secret", args)]))
    (record,) = runtime.parts.ledger.list()
    assert record.request.params["arguments"] == shown


async def test_a_secret_that_a_check_changed_is_hidden_as_it_was_written(runtime: Runtime) -> None:
    """Whether it became longer or shorter, and however deep it stands."""

    def with_changed(bearer: Annotated[SecretStr, BeforeValidator("Bearer {}".format)], pins: list[Pin]) -> str:
        return "done"

    calls: Calls = [("with_changed", {"bearer": SECRET, "pins": [" 9876 ", "12 34"]})]
    await asked(governed(runtime, with_changed, calls=calls))
    (record,) = runtime.parts.ledger.list()
    assert record.request.params["arguments"] == {"bearer": "***REDACTED***", "pins": ["***REDACTED***", "12 34"]}


class Hook(AbstractCapability[Any]):
    """A program that changes what its tools are given."""

    def __init__(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.change = change

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
        return self.change(args)


def _raised(args: dict[str, Any]) -> dict[str, Any]:
    args["transfer"].amount = 1000
    return args


@pytest.mark.parametrize("change", [dict, _raised], ids=["other arguments", "inside an object"])
async def test_what_cannot_be_told_exactly_is_refused_and_says_why(runtime: Runtime, change: Any) -> None:
    """Objects that the program put in place of the checked ones: nobody is asked about what may not be what runs."""
    args = {"transfer": {"to": "bob", "amount": 1}}
    hooked = {"capabilities": [Hook(change)]}
    result = await governed(runtime, with_model, calls=[("with_model", args)], **hooked).run("go")
    assert result.output.startswith("failed: APPROVAL_DENIED: with_model must be approved, and what it would be given")
    assert (ran, runtime.parts.ledger.list()) == ([], ())


async def test_what_cannot_be_told_exactly_runs_where_a_rule_allows_the_tool(runtime: Runtime) -> None:
    """No approval is needed, so none must be bound."""

    def free_model(transfer: Transfer) -> str:
        return with_model(transfer)

    args = {"transfer": {"to": "bob", "amount": 1}}
    await governed(runtime, free_model, calls=[("free_model", args)], capabilities=[Hook(_raised)]).run("go")
    assert ran == [("bob", 1000)]


@pytest.mark.parametrize("way", ["others", "inside"])
async def test_what_a_hook_puts_in_as_plain_values_is_what_is_approved(runtime: Runtime, way: str) -> None:
    """The person is shown what will run, not what the model wrote."""

    def listed(names: list[str]) -> str:
        ran.append(names)
        return "done"

    def change(args: dict[str, Any]) -> dict[str, Any]:
        if way == "others":
            return {"names": [*args["names"], "eve"]}
        args["names"].append("eve")
        return args

    agent = governed(runtime, listed, calls=[("listed", {"names": ["bob"]})], capabilities=[Hook(change)])
    history, requests = await asked(agent)
    (record,) = runtime.parts.ledger.list()
    assert record.request.params["arguments"] == {"names": ["bob", "eve"]}
    results = requests.build_results(approve_all=True, metadata=requests.metadata)
    await agent.run(message_history=history, deferred_tool_results=results)
    assert ran == [["bob", "eve"]]


async def test_a_name_that_stands_twice_in_the_models_text_is_refused(runtime: Runtime) -> None:
    """Neither the first nor the last one wins, and the values are not told."""
    text: Any = f'{{"to": "bob", "key": "x", "key": "{SECRET}"}}'
    result = await governed(runtime, with_secret, calls=[("with_secret", text)]).run("go")
    assert "the key 'key' stands twice in one object" in result.output
    runtime.parts.journal.flush()
    found = list(reader.events(runtime.parts.folder.path))
    assert (ran, "INVALID_ARGS" in str(found), SECRET in str(found)) == ([], True, False)
