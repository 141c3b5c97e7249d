"""Calls as no well-meaning model writes them, in every dialect: each is one outcome that says what to mend."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Opens
from handrail import Misuse, dialects
from handrail.errors import Code, Problem
from handrail.store.reader import events

SECRET = "zq8Jk2nVx0PlmW7e"  # value of a variable with a secret name
OPEN = {
    "tools": {"enable": ["fs", "delete_path", "memory"]},
    "limits": {"max_repeats": 10**6, "max_prompts": 10**6, "breaker_failures": 10**6, "max_calls": 10**6},
}
# What starts programs or servers is attacked elsewhere, and takes too long here.
SLOW = ("run_command", "run_script", "job_", "http_", "codebase_search", "read_lints")


def nested(levels: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


ODD: list[Any] = [
    None, True, False, 0, -1, 2**63, 2**64, 10**400, 10**5000, 1e308, 5e-324, float("nan"), float("inf"),
    "", " ", "\0", "a\0b", "\ud800", "a\udfffb", "\U0010ffff", "a" * 5000, "../../etc/passwd", "/etc/passwd", ".env",
    "run:../x", "file:///etc/passwd", "\u202e", "\x1b[31m", "null", "[]", "{}", "[1]", "1e999", "NaN", "[!]", "[^",
    "{a", '{"a":1,"a":2}', "[" * 10_000, [], {}, [None], [[]], ["a"] * 500, {"a": 1}, {1: 2}, {None: 1}, {"\ud800": 1},
    {"name": "\ud800"}, {"name": "../x", "source": "y"}, nested(300), nested(5000), b"x", (1, 2), {1}, object(), SECRET,
]  # fmt: skip
WHOLE: list[Any] = [[], "x", 5, b"x", [("path", "a.txt")], nested(5000), {1: 2}, {"pа" + "th": "a.txt"}]
NAMES: list[Any] = ["nope", "\ud800", "", None, 5, b"x", ["a"], {"a": 1}, "x" * 100_000, "undo_changes"]
VERSIONS = ["0.9", "2", "", "x", "\u0661.0", "1" * 5000]


def shown(value: Any) -> str:
    """A value in a message of a test, however deep it is."""
    try:
        return repr(value)[:300]
    except (RecursionError, ValueError):
        return "too deep or too large"


def hostile(chance: random.Random, schema: dict[str, Any]) -> Any:
    """Arguments of which some are right, and some are anything."""
    if chance.random() < 0.05:
        return chance.choice(WHOLE)
    args = {name: chance.choice(["a.txt", "sub", "needle", 1, True, ["a.txt"], *ODD]) for name in schema["properties"]}
    for name in list(args):
        if name not in schema.get("required", ()) and chance.random() < 0.6:
            del args[name]
    if chance.random() < 0.1:
        args[chance.choice(["bogus", "", "maxBytes", "confirm", "mode", "self", "pаth"])] = chance.choice(ODD)
    return args


async def test_whatever_a_call_holds_it_is_one_outcome_in_every_dialect(
    opens: Opens, work: Path, monkeypatch: pytest.MonkeyPatch, scale: int
) -> None:
    """Nothing is raised, nothing is called our own bug, every envelope is JSON, and no secret is in any of them."""
    monkeypatch.setenv("SOME_SECRET_TOKEN", SECRET)
    (work / "sub").mkdir()
    (work / "a.txt").write_text("needle\n" * 5)
    (work / ".env").write_text("X=1\n")
    chance = random.Random(7)
    async with opens(config=OPEN, mode="headless") as runtime:
        specs = {
            spoken: [spec for spec in runtime.tools(dialect=spoken, every=True) if not _is_slow(spoken, spec["name"])]
            for spoken in dialects.names()
        }
        for _ in range(600 * scale):
            spoken = chance.choice(dialects.names())
            spec = chance.choice(specs[spoken])
            name = spec["name"] if chance.random() > 0.04 else chance.choice(NAMES)
            how = {"version": chance.choice(VERSIONS)} if chance.random() < 0.05 else {}
            args = hostile(chance, spec["args_schema"])
            outcome = await runtime.call(name, args, dialect=spoken, **how)
            code = outcome.error.code if outcome.error is not None else ""
            assert code not in ("INTERNAL", "INVALID_RESULT"), (spoken, shown(name), shown(args), outcome.error)
            for other in dialects.names():
                told = json.dumps(outcome.to(other))
                assert SECRET not in told, (spoken, shown(name), shown(args))
                json.dumps(outcome.to(other), ensure_ascii=False).encode()
        runtime.parts.journal.flush()
        known = list(events(runtime.parts.folder.path))
    for other in dialects.names():
        assert SECRET not in json.dumps(list(dialects.get(other).events(known)))


@pytest.mark.parametrize("spoken", ["native", "clude", "autonous"])
async def test_a_secret_in_a_long_argument_is_not_told_in_part(
    opens: Opens, monkeypatch: pytest.MonkeyPatch, spoken: str
) -> None:
    """Messages show what came only where it is short: what is cut is not recognised any more."""
    secret = "zq8Jk2nVx0PlmW7eRt5YuI3oPa1SdFg6HjKl4ZxC"
    monkeypatch.setenv("SOME_SECRET_TOKEN", secret)
    async with opens(mode="headless") as runtime:
        for before in range(20, 80, 3):
            odd = {"x": "y" * before + secret + "z"}
            name = "read" if spoken == "autonous" else "read_file"
            for tool, args in ((name, {"path": odd}), (name, {"path": "a", "more": odd}), (odd["x"], {})):
                outcome = await runtime.call(tool, args, dialect=spoken)
                assert secret[:6] not in json.dumps(outcome.to(spoken)), outcome.error
        runtime.parts.journal.flush()
        assert secret[:6] not in (runtime.parts.folder.path / "events.jsonl").read_text()


def _is_slow(dialect: str, name: str) -> bool:
    word = dialects.get(dialect).words.get(name)
    return (word.ours if word is not None else name).startswith(SLOW)


FIELDS = [
    "tool", "name", "args", "params", "arguments", "tool_calls", "final_answer", "version", "call_id", "trace_id",
    "idempotency_key", "permissions", "tool_call_id", "requested_permissions", "idempotencyKey", "requestId", "taskId",
    "toolName",
]  # fmt: skip


def messages(chance: random.Random) -> Iterator[Any]:
    """Messages of every shape: no object, wrong fields, fields of another system, right ones among wrong ones."""
    yield from ODD
    while True:
        message = {field: chance.choice(ODD) for field in FIELDS if chance.random() < 0.3}
        if chance.random() < 0.7:
            args = chance.choice([{}, {"path": "a"}, {"path": "\ud800"}, {"path": 10**30}, {1: 2}])
            message |= {"tool": "read_file", "name": "read_file", "args": args, "params": args, "arguments": args}
        if chance.random() < 0.2:
            message |= {"tool": "core_fs_writeText", "taskId": chance.choice(["t", 5]), "args": {"path": "\ud800"}}
        if chance.random() < 0.5:
            message["tool_calls"] = [{"name": chance.choice(ODD), "arguments": chance.choice(ODD)}, chance.choice(ODD)]
        yield message


@pytest.mark.parametrize("name", dialects.names())
def test_a_message_is_calls_that_can_be_made_or_one_problem(name: str, scale: int) -> None:
    """What is of the wrong type is refused by name; permissions that cannot be read never widen to none given."""
    asked = messages(random.Random(3))
    for _ in range(3000 * scale):
        message = next(asked)
        try:
            found = dialects.get(name).messages(message)
        except Problem as problem:
            assert problem.code is Code.INVALID_ARGS  # noqa: PT017
            continue
        for call in found.calls:
            permissions = call.permissions or ()
            texts = [value for key, value in call.keywords().items() if key != "permissions"]
            assert all(isinstance(text, str) and text.encode() is not None for text in (*texts, *permissions)), message


WRONG_FIELDS = [
    ("clude", {"name": "grep", "args": {}, "requested_permissions": 7}, "requested_permissions"),
    ("clude", {"name": "grep", "args": {}, "requested_permissions": "fs.read"}, "requested_permissions"),
    ("clude", {"name": "grep", "args": {}, "tool_call_id": ["a"]}, "tool_call_id"),
    ("tool-hub", {"tool": "core/fs.sha256", "args": {}, "idempotencyKey": "\ud800"}, "idempotencyKey"),
    ("native", {"tool": "grep", "args": {}, "permissions": [["fs.read"]]}, "permissions"),
]


@pytest.mark.parametrize(("name", "message", "field"), WRONG_FIELDS, ids=lambda value: str(value)[:40])
def test_a_field_of_the_wrong_type_is_named(name: str, message: dict[str, Any], field: str) -> None:
    """A model can mend what it is told by name."""
    with pytest.raises(Problem) as error:
        dialects.get(name).messages(message)
    assert (error.value.code, error.value.details["field"]) == (Code.INVALID_ARGS, field)


def test_a_step_is_joined_by_whatever_name_its_tool_came_with() -> None:
    """A retry through a function-calling API, whose names have no slashes, has the same key."""
    hub = dialects.get("tool-hub")
    intent = {"args": {"path": "a", "text": "b"}, "requestId": "r", "taskId": 5}
    keys = {
        hub.messages({**intent, "tool": name}).calls[0].idempotency_key
        for name in ("core/fs.writeText", "core_fs_writeText", "fs.writeText")
    }
    assert len(keys) == 1
    assert None not in keys


@pytest.mark.parametrize(
    "how",
    [
        {"version": 1}, {"call_id": ["a"]}, {"idempotency_key": 5}, {"trace_id": "\ud800"}, {"skill": 5},
        {"permissions": [1]}, {"permissions": ["\ud800"]}, {"permissions": [["fs.read"]]}, {"approval": b"x"},
    ],
    ids=str,
)  # fmt: skip
async def test_what_is_no_text_beside_a_call_is_misuse(opens: Opens, how: dict[str, Any]) -> None:
    """The one kind of error that `Runtime.call` raises, and before anything is done."""
    async with opens() as runtime:
        with pytest.raises(Misuse, match="are texts"):
            await runtime.call("now", {}, **how)


async def test_names_that_are_not_utf8_are_told_and_do_not_break_the_answer(opens: Opens, work: Path) -> None:
    """A file whose name is no text lies beside the one that is asked for."""
    with open(os.open(os.fsencode(work) + b"/notes\xff.txt", os.O_CREAT | os.O_WRONLY), "w") as file:
        file.write("x")
    async with opens(mode="headless") as runtime:
        for name, args in (("read_file", {"path": "notes.txt"}), ("list_dir", {}), ("find_files", {"pattern": "n*"})):
            outcome = await runtime.call(name, args)
            json.dumps(outcome.to_dict(), ensure_ascii=False).encode()
            assert outcome.error is None or outcome.error.code == "NOT_FOUND"


async def test_a_result_of_one_dialect_can_be_told_in_every_other(opens: Opens, work: Path) -> None:
    """Also one that the other's document has no fields for."""
    (work / "a.txt").write_text("one\n")
    async with opens(mode="headless") as runtime:
        outcome = await runtime.call("read_multiple_files", {"paths": ["a.txt"]}, dialect="mcp-filesystem")
    for other in dialects.names():
        assert json.loads(json.dumps(outcome.to(other)))
