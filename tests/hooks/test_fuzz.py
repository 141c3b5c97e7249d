"""Broken payloads: never an allow, never a traceback, always the agent's own form of deny."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail.hooks.agents import AGENTS
from handrail.hooks.payloads import Stage
from hooking import AFTER, ALL, BEFORE, SHELL, Speaker, payload_of, speaking

NEEDED = ("session_id", "cwd", "hook_event_name", "tool_name", "tool_input")
WRONG: tuple[Any, ...] = (None, 7, 1.5, True, [], ["x"], "", "   ", "a\0b", "x" * 70_000)
Break = Callable[[random.Random, dict[str, Any]], bytes]


def tools_of(agent: str, work: Path) -> list[tuple[str, dict[str, Any]]]:
    """Calls that would be allowed as they are, each with an argument that its tool needs."""
    file = str(work / "a.txt")
    if agent == "gemini-cli":
        edits = [("read_file", {"file_path": file}), ("write_file", {"file_path": "b.txt", "content": "x"})]
    elif agent == "codex":
        edits = [("apply_patch", {"command": "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch"})]
    else:
        edits = [("Read", {"file_path": file}), ("Edit", {"file_path": file, "old_string": "a", "new_string": "b"})]
    return [(SHELL[agent], {"command": "ls"}), *edits]


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def cut(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """End in the middle."""
    data = _dump(payload)
    return data[: chance.randrange(len(data) - 1)]


def noise(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Anything at all; no JSON object begins with these."""
    return bytes([chance.choice(b"\x00\xff<x]},")]) + chance.randbytes(chance.randrange(200))


def spoilt(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """A byte that is no UTF-8, in some text."""
    data = _dump(payload)
    at = data.index(b'"', chance.randrange(len(data) // 2)) + 1
    return data[:at] + b"\xff" + data[at:]


def followed(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """More than one object."""
    return _dump(payload) + chance.choice([b"{}", b" x", _dump(payload), b"\0"])


def without(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Something that is needed is missing."""
    left = chance.choice(NEEDED)
    return _dump({name: value for name, value in payload.items() if name != left})


def mistyped(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Something that is needed is something else."""
    return _dump({**payload, chance.choice(NEEDED): chance.choice(WRONG)})


def doubled(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """A key stands twice: which one counts is anybody's guess."""
    name = chance.choice(NEEDED)
    return _dump(payload)[:-1] + b", " + _dump({name: payload[name]})[1:]


def doubled_inside(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Likewise among the arguments of the tool."""
    inner = _dump(payload["tool_input"])
    name = chance.choice(list(payload["tool_input"]))
    twice = inner[:-1] + b", " + _dump({name: "rm -rf /"})[1:]
    return _dump({**payload, "tool_input": "HERE"}).replace(b'"HERE"', twice)


def numbers(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Numbers that no JSON has, or that nobody can hold."""
    number = chance.choice([b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000])
    return _dump({**payload, "more": "HERE"}).replace(b'"HERE"', number)


def deep(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Nested without end."""
    levels = chance.choice([300, 5000, 100_000])
    return _dump({**payload, "more": "HERE"}).replace(b'"HERE"', b"[" * levels + b"]" * levels)


def half(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Half of a character."""
    name = chance.choice(("session_id", "cwd", "tool_name"))
    return _dump({**payload, name: "HERE"}).replace(b"HERE", b"\\ud800")


def unknown_event(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """An event that is not known."""
    event = payload["hook_event_name"]
    return _dump(
        {**payload, "hook_event_name": chance.choice([event.lower(), f"{event} ", "preToolUse", "X", "__init__"])}
    )


def elsewhere(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """A folder that is none."""
    return _dump({**payload, "cwd": chance.choice(["relative", "/nowhere/at/all", "~", "/etc/passwd", "/dev/null"])})


def smuggled(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """Our own names among the arguments."""
    more = {chance.choice(["@cwd", "@missing", "@"]): chance.choice(["/", True, "."])}
    return _dump({**payload, "tool_input": {**payload["tool_input"], **more}})


def wrong_arguments(chance: random.Random, payload: dict[str, Any]) -> bytes:
    """An argument that the tool needs is missing or something else."""
    given = dict(payload["tool_input"])
    name = chance.choice(list(given))
    if chance.random() < 0.3:
        del given[name]
    else:
        given[name] = chance.choice([None, 7, 1.5, True, [], ["x"], {"a": 1}])
    return _dump({**payload, "tool_input": given})


BREAKS: tuple[Break, ...] = (
    *(cut, noise, spoilt, followed, without, mistyped, doubled, doubled_inside, numbers, deep, half),
    *(unknown_event, elsewhere, smuggled, wrong_arguments),
)


def check_deny(agent: str, event: str, out: bytes) -> None:
    """The answer is a deny with a reason, in the form of the agent."""
    told = json.loads(out)
    if event == AFTER[agent] and "decision" in told:
        assert told["decision"] in ("block", "deny")
        assert told["reason"]
    elif agent == "gemini-cli":
        assert (list(told), told["decision"], bool(told["reason"])) == (["decision", "reason"], "deny", True)
    else:
        inner = told["hookSpecificOutput"]
        assert inner["hookEventName"] == "PreToolUse"
        assert (inner["permissionDecision"], bool(inner["permissionDecisionReason"].strip())) == ("deny", True)


async def fuzz(speaker: Speaker, work: Path, count: int, caplog: pytest.LogCaptureFixture) -> None:
    """Send broken payloads, and check each answer."""
    agent = speaker.agent
    chance = random.Random(f"{agent}")
    tools = tools_of(agent, work)
    for number in range(count):
        tool, args = chance.choice(tools)
        event = AFTER[agent] if chance.random() < 0.1 else BEFORE[agent]
        more = {} if agent == "gemini-cli" else {"tool_use_id": f"c{number}"}
        payload = payload_of(agent, event, work, tool_name=tool, tool_input=args, tool_response={}, **more)
        change = chance.choice(BREAKS)
        if event == AFTER[agent] and change in (wrong_arguments, elsewhere):
            continue  # a call that has ended is written down as it was told
        data = change(chance, payload)
        named = "" if chance.random() < 0.5 else event
        out = await speaker.say(data, named)
        try:
            assert out, "silence"
            if b'"systemMessage"' not in out:
                check_deny(agent, event, out)
            else:
                assert event == AFTER[agent]
        except AssertionError:
            raise AssertionError(f"{change.__name__}: {data[:300]!r} gave {out[:300]!r}") from None
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("agent", ALL)
def test_a_broken_payload_is_denied(
    work: Path, own_user: Path, scale: int, agent: str, caplog: pytest.LogCaptureFixture
) -> None:
    """1,000 of them an agent, 20,000 in `make test-full`."""
    (work / "a.txt").write_text("a\n")
    caplog.set_level(logging.WARNING)

    async def run() -> None:
        async with speaking(agent, work) as speaker:
            await fuzz(speaker, work, 1000 * scale, caplog)

    asyncio.run(run())


@pytest.mark.parametrize("agent", ALL)
async def test_what_is_broken_is_fine_as_it_was(work: Path, own_user: Path, agent: str) -> None:
    """The control: without the break, the same payloads pass."""
    (work / "a.txt").write_text("a\n")
    async with speaking(agent, work) as speaker:
        for tool, args in tools_of(agent, work):
            assert await speaker.before(tool, args) == ("silent", ""), tool


@pytest.mark.parametrize("agent", ALL)
async def test_every_event_is_answered_in_its_form(work: Path, own_user: Path, agent: str) -> None:
    """Of those that only tell something, nothing is said."""
    more: dict[str, Any] = {"tool_name": "Nothing", "tool_input": {}, "tool_use_id": "c1"}
    async with speaking(agent, work) as speaker:
        for event, stage in AGENTS[agent].stages.items():
            out = await speaker.say(payload_of(agent, event, work, **more))
            if stage is not Stage.BEFORE:
                assert out == b"", event
