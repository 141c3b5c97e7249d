"""A file that is read again: what was made of its bytes is kept, and nothing but equal bytes counts as the same."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handrail import Answer, Outcome, Reads, Runtime, Workspace, tool

TEXT = "a quiet line\n" * 20


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose runs are kept beneath the test's own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = tmp_path / "work"
    root.mkdir()
    (root / "sub").mkdir()
    return root


async def read(runtime: Runtime, path: str, **args: Any) -> Outcome:
    """Read a file that can be read."""
    outcome = await runtime.call("read_file", {"path": path, **args})
    assert outcome.ok, outcome.content
    return outcome


def events(runtime: Runtime) -> list[dict[str, Any]]:
    """What the journal of a run holds so far."""
    return [json.loads(line) for line in (runtime.parts.folder.path / "events.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("path", ["f.txt", "sub/f.txt"])
async def test_other_bytes_are_shown_though_size_and_date_are_the_same(work: Path, path: str) -> None:
    """A change that put the file's date back is seen: the bytes decide."""
    file = work / path
    file.write_text(TEXT)
    async with Runtime.open(work, config={}) as runtime:
        for _ in range(3):
            assert (await read(runtime, path)).content == TEXT
        before = file.stat()
        with file.open("r+") as handle:
            handle.write("A")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        again = await read(runtime, path)
    assert again.content == "A" + TEXT[1:]
    assert again.data["sha256"] == again.evidence[0].sha256


async def test_what_became_secret_is_hidden_in_a_file_that_was_shown_before(work: Path) -> None:
    """An answer is finished anew once more values are to be hidden."""
    (work / "f.txt").write_text("call me melchior-and-sons\n")
    async with Runtime.open(work, config={}) as runtime:
        for _ in range(3):
            assert "melchior" in (await read(runtime, "f.txt")).content
        runtime.parts.redactor.learn(["melchior-and-sons"])
        again = await read(runtime, "f.txt")
    assert (again.content, again.redacted) == ("call me ***REDACTED***\n", True)
    assert "melchior" not in json.dumps(again.data)


async def test_what_a_caller_does_to_an_answer_stays_with_that_answer(work: Path) -> None:
    """Every outcome has data of its own."""
    (work / "f.txt").write_text(TEXT)
    async with Runtime.open(work, config={}) as runtime:
        first, second = await read(runtime, "f.txt"), await read(runtime, "f.txt")
        second.data.clear()
        third = await read(runtime, "f.txt")
    assert third.data == first.data != {}


async def test_reading_again_is_written_down_like_reading_the_first_time(work: Path) -> None:
    """The events of equal calls differ in ids, times and place in the chain, and in nothing else."""
    (work / "f.txt").write_text(TEXT)
    own = ("seq", "ts", "call_id", "prev", "duration_ms")
    async with Runtime.open(work, config={}) as runtime:
        outcomes = [await read(runtime, "f.txt") for _ in range(4)]
        used = runtime.parts.limits.usage.used["bytes_read"]
        told = [event for event in events(runtime) if event["kind"].startswith("tool.")]
    ids = [outcome.call_id for outcome in outcomes]
    assert [event["call_id"] for event in told] == [one for one in ids for _ in range(2)]
    assert used == 4 * len(TEXT)
    ended = [event for event in told if event["kind"] == "tool.completed"]
    assert [event["duration_ms"] for event in ended] == [outcome.duration_ms for outcome in outcomes]
    plain = [{name: value for name, value in event.items() if name not in own} for event in told]
    assert plain[0] == plain[2] == plain[4]
    assert plain[3] == plain[5] == plain[7]
    assert {**plain[3], "seen": {"f.txt": outcomes[0].data["sha256"]}} == plain[1]


async def test_a_call_that_says_who_it_is_is_written_down_in_full(work: Path) -> None:
    """An id, a trace, a key of its own are in the events, whatever was read before."""
    (work / "f.txt").write_text(TEXT)
    async with Runtime.open(work, config={}) as runtime:
        for _ in range(3):
            await read(runtime, "f.txt")
        outcome = await runtime.call("read_file", {"path": "f.txt"}, trace_id="trace-7", idempotency_key="once")
        started, ended = events(runtime)[-2:]
    assert outcome.content == TEXT
    assert (started["trace_id"], ended["trace_id"], started["key"]) == ("trace-7", "trace-7", "once")


@dataclass
class Said:
    """What the tool below always says."""

    word: str


SAME = Answer(Said("the same"), "always the same")


@tool(risk="low")
async def say(files: Workspace, path: Reads) -> Answer[Said]:
    """Read a file, and say the same whatever is in it."""
    await files.read(path, 1000)
    return SAME


async def test_what_an_equal_answer_took_is_counted_as_it_was(work: Path) -> None:
    """A tool may give the very same answer for other bytes: what it read is written down each time."""
    async with Runtime.open(work, config={}, tools=[say]) as runtime:
        for size in (5, 5, 7, 5):
            (work / "f.txt").write_text("x" * size)
            assert (await runtime.call("say", {"path": "f.txt"})).data == {"word": "the same"}
        read = [event["bytes_read"] for event in events(runtime) if event["kind"] == "tool.completed"]
    assert read == [5, 5, 7, 5]


async def test_two_names_of_one_file_are_told_apart(work: Path) -> None:
    """Evidence and summary name the file as it was asked for, though the bytes are the same."""
    (work / "one.txt").write_text(TEXT)
    os.link(work / "one.txt", work / "two.txt")
    async with Runtime.open(work, config={}) as runtime:
        shown = [(await read(runtime, name)).evidence[0].ref for name in ("one.txt", "two.txt", "one.txt", "two.txt")]
    assert shown == ["one.txt", "two.txt", "one.txt", "two.txt"]


async def test_limits_of_lines_are_kept_apart(work: Path) -> None:
    """The same bytes cut at other places are other answers."""
    (work / "f.txt").write_text(TEXT)
    async with Runtime.open(work, config={}) as runtime:
        shown = [(await read(runtime, "f.txt", limit=limit)).data["end"] for limit in (5, 2000, 7, 2000, 5)]
    assert shown == [5, 20, 7, 20, 5]
