"""The way of one call through the kernel: what is written, in which order, and what never gets through.

Longer than 500 lines because it is one table of one subject.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from handrail import Answer, Misuse, Place, Reads, Runtime, Touch, TouchKind, Workspace, Writes
from handrail.catalog import tool
from handrail.store.reader import events
from handrail.testing import ScriptedApprover
from handrail.words import Call, Status


def journal_of(runtime: Runtime) -> list[dict[str, Any]]:
    """All events of an open run, without those about the run itself."""
    found = events(runtime.parts.folder.path)
    return [event for event in found if not event["kind"].startswith("run.")]


@tool(risk="low", pure=True)
async def echo(text: str, times: int = 1) -> str:
    """Give a text back."""
    return text * times


@tool(risk="low", pure=True)
async def broken(text: str = "") -> str:
    """Fail in its own way."""
    raise RuntimeError(f"secret inside: {text}")


@tool(risk="low", pure=True, timeout_seconds=0.05)
async def sleeper() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return "never"


@tool(risk="low", pure=True)
async def liar() -> int:
    """Promise a number and give a text."""
    return "no number"  # type: ignore[return-value]


@tool(touches=lambda _: [Touch(TouchKind.GIT_WRITE, "repository")], permissions=["git.write"], risk="low")
async def commit(log: list[str] | None = None) -> str:
    """Change something that is no file."""
    COMMITS.append("ran")
    return "committed"


COMMITS: list[str] = []
OWN = (echo, broken, sleeper, liar, commit)
ALLOW_GIT = {"rules": [{"effect": "allow", "touch": "git.write"}]}


async def test_a_read_is_started_and_completed_in_that_order(opens: Any, work: Path) -> None:
    """Two lines a call, with what the contract says of each."""
    (work / "a.txt").write_text("one\ntwo\n")
    async with opens() as runtime:
        outcome = await runtime.call("read_file", {"path": "a.txt"})
        started, completed = journal_of(runtime)
    assert outcome.ok
    assert (started["kind"], completed["kind"]) == ("tool.started", "tool.completed")
    assert started["touches"] == [{"kind": "fs.read", "target": "a.txt"}]
    assert started["verdict"]["decision"] == "allow"
    assert started["call_id"] == completed["call_id"] == outcome.call_id
    assert completed["effect"] == "none"
    assert completed["status"] == "ok"


@pytest.mark.parametrize(
    ("name", "args", "code", "status"),
    [
        ("no_such_tool", {}, "UNKNOWN_TOOL", Status.FAILED),
        ("read_file", {}, "INVALID_ARGS", Status.FAILED),
        ("read_file", {"path": "../x"}, "PATH_OUTSIDE_ROOTS", Status.DENIED),
        ("read_file", {"path": "a\0b"}, "INVALID_ARGS", Status.FAILED),
        ("read_file", {"path": ".ssh/id_rsa"}, "PATH_PROTECTED", Status.DENIED),
        ("write_file", {"path": "x", "content": "y"}, "POLICY_DENIED", Status.DENIED),
        ("commit", {}, "APPROVAL_REQUIRED", Status.PENDING),
        ("echo", {"text": 3}, "INVALID_ARGS", Status.FAILED),
    ],
)
async def test_a_call_that_never_starts_leaves_exactly_one_failed_line(
    opens: Any, name: str, args: dict[str, Any], code: str, status: Status
) -> None:
    """Its only end line carries what the start line would have."""
    async with opens(tools=OWN, mode="headless") as runtime:
        outcome = await runtime.call(name, args)
        lines = [event for event in journal_of(runtime) if event["kind"].startswith("tool.")]
    assert (outcome.error.code, outcome.status) == (code, status)
    assert [(line["kind"], line["code"], line["started"]) for line in lines] == [("tool.failed", code, False)]
    assert lines[0]["effect"] == "none"
    assert "args" in lines[0]
    assert outcome.evidence


async def test_a_tools_own_exception_is_one_failed_outcome_without_its_text(opens: Any) -> None:
    """The trace goes to the log, the model gets an id, and the run goes on."""
    async with opens(tools=OWN) as runtime:
        outcome = await runtime.call("broken", {"text": "abc"})
        after = await runtime.call("echo", {"text": "still here"})
    assert outcome.error.code == "INTERNAL"
    assert "secret inside" not in json.dumps(outcome.to_dict())
    assert outcome.call_id in outcome.content
    assert after.data == "still here"


async def test_a_tool_that_hangs_times_out_and_others_go_on(opens: Any) -> None:
    """The deadline is the tool's own."""
    async with opens(tools=OWN) as runtime:
        both = asyncio.gather(runtime.call("sleeper"), runtime.call("echo", {"text": "x"}))
        outcome, other = await asyncio.wait_for(both, 10)
        ends = [event["code"] for event in journal_of(runtime) if event["kind"] == "tool.failed"]
    assert outcome.error.code == "TIMEOUT"
    assert ends == ["TIMEOUT"]
    assert other.ok


async def test_cancelling_is_recorded_and_raised_again(opens: Any) -> None:
    """Who gives up gets CancelledError; the journal says so."""
    async with opens(tools=OWN) as runtime:
        task = asyncio.ensure_future(runtime.call("sleeper"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        last = journal_of(runtime)[-1]
    assert (last["kind"], last["code"]) == ("tool.failed", "CANCELLED")


async def test_a_result_that_does_not_fit_its_schema_is_never_passed_on(opens: Any) -> None:
    """INVALID_RESULT, and no data."""
    async with opens(tools=OWN) as runtime:
        outcome = await runtime.call("liar")
    assert outcome.error.code == "INVALID_RESULT"
    assert outcome.data is None


async def test_small_slips_are_mended_and_reported(opens: Any) -> None:
    """Null for an optional and a number as text, with a warning each."""
    async with opens(tools=OWN) as runtime:
        outcome = await runtime.call("echo", {"text": "ab", "times": "2"})
        strict = await runtime.call("echo", {"text": 3})
    async with opens(tools=OWN, config={"tools": {"repair": False}}) as runtime:
        refused = await runtime.call("echo", {"text": "ab", "times": "2"})
    assert outcome.data == "abab"
    assert outcome.warnings == ("`times` came as text and is read as a number",)
    assert strict.error.code == refused.error.code == "INVALID_ARGS"


async def test_a_wrong_argument_name_gets_the_call_that_would_work(opens: Any, work: Path) -> None:
    """`next_call` is literal: calling it works."""
    (work / "a.txt").write_text("x")
    async with opens() as runtime:
        outcome = await runtime.call("read_file", {"file_path": "a.txt"})
        again = await runtime.call(outcome.error.next_call["tool"], outcome.error.next_call["args"])
    assert outcome.error.code == "INVALID_ARGS"
    assert again.ok


async def test_nothing_runs_when_the_journal_cannot_be_written(opens: Any) -> None:
    """Law 5: a changing call that cannot be recorded does not act."""
    COMMITS.clear()
    async with opens(tools=OWN, config=ALLOW_GIT) as runtime:
        journal = runtime.parts.journal
        real, journal._fd = journal._fd, os.open("/dev/full", os.O_RDWR)
        refused = await runtime.call("commit")
        os.close(journal._fd)
        journal._fd = real
        assert COMMITS == []
        after = await runtime.call("commit")
    assert refused.error.code == "JOURNAL_UNAVAILABLE"
    assert after.ok
    assert COMMITS == ["ran"]


async def test_a_changing_call_is_durable_before_its_tool_acts(opens: Any) -> None:
    """Inside the tool the start line is synced already."""
    seen: list[tuple[bool, bool]] = []

    @tool(touches=lambda _: [Touch(TouchKind.GIT_WRITE, "r")], permissions=["git.write"], risk="low")
    async def looks() -> None:
        """Look at the journal while it works."""
        journal = holder[0].parts.journal
        line = journal_of(holder[0])[-1]
        seen.append((line["kind"] == "tool.started", journal._syncer.synced >= journal._size))

    holder: list[Runtime] = []
    async with opens(tools=[looks], config=ALLOW_GIT) as runtime:
        holder.append(runtime)
        outcome = await runtime.call("looks")
    assert outcome.ok
    assert seen == [(True, True)]


async def test_a_read_only_call_never_waits_for_the_disk(opens: Any, work: Path) -> None:
    """It is finished without the event loop turning once."""
    (work / "a.txt").write_text("x")
    async with opens() as runtime:
        await runtime.call("read_file", {"path": "a.txt"})
        coroutine = runtime.call("read_file", {"path": "a.txt"})
        with pytest.raises(StopIteration) as done:
            coroutine.send(None)
        lines = journal_of(runtime)
    assert done.value.value.ok
    assert lines[-1]["kind"] == "tool.completed"


async def test_permissions_of_a_call_only_narrow(opens: Any, work: Path) -> None:
    """A call limited to nothing may not even read; naming more grants nothing."""
    (work / "a.txt").write_text("x")
    async with opens() as runtime:
        narrowed = await runtime.call("read_file", {"path": "a.txt"}, permissions=[])
        named = await runtime.call("write_file", {"path": "b", "content": "c"}, permissions=["fs.write"])
    assert narrowed.error.code == named.error.code == "POLICY_DENIED"


async def test_a_skill_nobody_loaded_allows_nothing(opens: Any, work: Path) -> None:
    """Fail closed."""
    (work / "a.txt").write_text("x")
    async with opens() as runtime:
        outcome = await runtime.call("read_file", {"path": "a.txt"}, skill="unknown")
    assert outcome.error.code == "POLICY_DENIED"


async def test_the_same_call_without_progress_is_stopped(opens: Any, work: Path) -> None:
    """A repeat that teaches nothing new is refused until something changes."""
    (work / "a.txt").write_text("x")
    async with opens(config={"limits": {"max_repeats": 3}}) as runtime:
        outcomes = [await runtime.call("read_file", {"path": "a.txt"}) for _ in range(4)]
        other = await runtime.call("stat_path", {"path": "a.txt"})
    assert [outcome.ok for outcome in outcomes] == [True, True, True, False]
    assert outcomes[3].error.code == "BUDGET_EXHAUSTED"
    assert other.ok


async def test_concurrency_of_a_tool_is_bounded(opens: Any) -> None:
    """No more than so many at once, none lost."""
    now, most = [0], [0]

    @tool(risk="low", pure=True)
    async def slow(number: int) -> int:
        """Take a turn of the loop."""
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0)
        now[0] -= 1
        return number

    async with opens(tools=[slow], config={"limits": {"concurrency": {"slow": 3}}}) as runtime:
        outcomes = await asyncio.gather(*(runtime.call("slow", {"number": n}) for n in range(20)))
    assert [outcome.data for outcome in outcomes] == list(range(20))
    assert most[0] == 3


async def test_an_older_major_version_is_adapted_and_says_so(opens: Any) -> None:
    """The same major is taken, an older one with an adapter translated, any other refused."""

    @tool(pure=True, version="2.1.0", adapters={1: lambda args: {"name": args["title"]}})
    async def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    async with opens(tools=[greet]) as runtime:
        same = await runtime.call("greet", {"name": "a"}, version="2.0.0")
        older = await runtime.call("greet", {"title": "b"}, version="1.4.0")
        newer = await runtime.call("greet", {"name": "c"}, version="3.0.0")
    assert (same.data, same.warnings) == ("hello a", ())
    assert (older.data, older.warnings) == ("hello b", ("arguments of version 1.4.0 were adapted to 2.1.0",))
    assert newer.error.code == "UNSUPPORTED_VERSION"
    assert newer.error.details["spoken"] == ["2.1.0", "1.x"]


async def test_a_thousand_calls_at_once_are_neither_lost_nor_crossed(opens: Any, work: Path) -> None:
    """Each gets its own answer; descriptors and threads are back to where they were."""
    for number in range(100):
        (work / f"{number}.txt").write_text(f"content of {number}")

    def threads() -> int:
        return len(threading.enumerate())

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = threads(), descriptors()
    async with opens(enable=("fs",)) as runtime:
        reads = [runtime.call("read_file", {"path": f"{n % 100}.txt", "limit": 1 + n // 100}) for n in range(700)]
        writes = [runtime.call("write_file", {"path": f"new{n}.txt", "content": f"made {n}"}) for n in range(300)]
        outcomes = await asyncio.gather(*reads, *writes)
        ends = [event["call_id"] for event in journal_of(runtime) if event["kind"] == "tool.completed"]
    assert all(outcome.ok for outcome in outcomes), next(o.content for o in outcomes if not o.ok)
    assert [outcome.content for outcome in outcomes[:700]] == [f"content of {n % 100}" for n in range(700)]
    assert [(work / f"new{n}.txt").read_text() for n in range(300)] == [f"made {n}" for n in range(300)]
    assert sorted(ends) == sorted(outcome.call_id for outcome in outcomes)
    assert (threads(), descriptors()) == before


async def test_a_call_id_can_be_given_once(opens: Any) -> None:
    """Also after the run was opened again."""
    async with opens(tools=OWN, run_id="r") as runtime:
        outcome = await runtime.call("echo", {"text": "x"}, call_id="mine")
        with pytest.raises(Misuse):
            await runtime.call("echo", {"text": "y"}, call_id="mine")
    async with opens(tools=OWN, run_id="r") as runtime:
        with pytest.raises(Misuse):
            await runtime.call("echo", {"text": "z"}, call_id="mine")
        with pytest.raises(Misuse):
            await runtime.call("echo", {"text": "z"}, call_id='a"b')
    assert outcome.call_id == "mine"


async def test_a_nested_call_does_not_wait_for_what_its_parent_holds(opens: Any, work: Path) -> None:
    """The parent holds the file, the child changes it, and both end."""

    @tool()
    async def outer(files: Workspace, path: Writes) -> str:
        """Call another tool on the same file."""
        inner = Call("write_file", {"path": path.shown, "content": "inner"}, parent=PARENT)
        outcome = await holder[0].kernel.call(inner)
        return outcome.status.value

    holder: list[Runtime] = []
    async with opens(tools=[outer], enable=("fs",)) as runtime:
        holder.append(runtime)
        outcome = await asyncio.wait_for(runtime.call("outer", {"path": "f.txt"}, call_id=PARENT), 10)
        parents = [event.get("parent") for event in journal_of(runtime) if event["kind"] == "tool.started"]
    assert (outcome.data, (work / "f.txt").read_text()) == ("ok", "inner")
    assert parents == [None, PARENT]


PARENT = "the-parent"


async def test_places_reach_the_tool_resolved(opens: Any, work: Path) -> None:
    """A tool never sees the text it was asked with, only what was judged."""
    (work / "d").mkdir()
    (work / "d" / "real.txt").write_text("x")
    (work / "link.txt").symlink_to("d/real.txt")
    got: list[Place] = []

    @tool()
    async def look(path: Reads, more: list[Reads] | None = None) -> Answer[int]:
        """Keep what it is given."""
        got.extend([path, *(more or [])])
        return Answer(1)

    async with opens(tools=[look]) as runtime:
        await runtime.call("look", {"path": "./d/../link.txt", "more": ["d/real.txt", "link.txt"]})
    assert [place.path for place in got] == ["d/real.txt"] * 3


async def test_a_rule_against_reading_also_stops_tools_that_would_show_the_old_text(opens: Any, work: Path) -> None:
    """A diff, or what is said where nothing matches, must not be a way to read."""
    (work / "hidden.txt").write_text("the answer is 42\n")
    config = {"rules": [{"effect": "deny", "touch": "fs.read", "target": "hidden.txt"}]}
    patch = "*** Begin Patch\n*** Update File: hidden.txt\n@@\n-nothing like it\n+x\n*** End Patch\n"
    async with opens(enable=("fs",), config=config) as runtime:
        outcomes = [
            await runtime.call("edit_file", {"path": "hidden.txt", "edits": [{"old": "zzz", "new": "y"}]}),
            await runtime.call("apply_patch", {"patch": patch}),
            await runtime.call("write_file", {"path": "hidden.txt", "content": "x", "mode": "append"}),
        ]
    assert [outcome.error.code for outcome in outcomes] == ["POLICY_DENIED"] * 3
    assert not any("42" in outcome.content for outcome in outcomes)


async def test_a_folder_is_judged_where_it_will_lie_after_a_move(opens: Any, work: Path) -> None:
    """What becomes a hook or key by being moved is denied; a plain file is not stopped by a rule on what lies below."""
    (work / ".git" / "modules").mkdir(parents=True)
    (work / "plain" / "hooks").mkdir(parents=True)
    (work / "plain" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (work / "a.txt").write_text("x")
    config = {"rules": [{"effect": "deny", "touch": "fs.delete", "target": "**/*.lock"}]}
    async with opens(enable=("fs",)) as runtime:
        hook = await runtime.call("move_path", {"source": "plain", "target": ".git/modules/plain"})
    async with opens(enable=("fs",), config=config) as runtime:
        file = await runtime.call("move_path", {"source": "a.txt", "target": "b.txt"})
    assert hook.error.code == "PATH_PROTECTED"
    assert (work / "plain" / "hooks" / "pre-commit").exists()
    assert file.ok, file.content


async def test_a_further_root_is_reached_by_its_own_name(opens: Any, work: Path, tmp_path: Path) -> None:
    """Settings that add a folder mean it to be used; its neighbours stay out of reach, also by `..`."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.txt").write_text("there")
    (tmp_path / "outside.txt").write_text("no")
    config = {"workspace": {"read": [str(tmp_path / "more")]}}
    async with opens(config=config, enable=("fs",)) as runtime:
        inside = await runtime.call("read_file", {"path": f"{tmp_path}/more/a.txt"})
        beside = await runtime.call("read_file", {"path": f"{tmp_path}/outside.txt"})
        dotted = await runtime.call("read_file", {"path": f"{tmp_path}/more/../outside.txt"})
        written = await runtime.call("write_file", {"path": f"{tmp_path}/more/b.txt", "content": "x"})
    assert inside.content == "there"
    assert [outcome.error.code for outcome in (beside, dotted, written)] == ["PATH_OUTSIDE_ROOTS"] * 3


async def test_a_tool_that_breaks_is_left_alone_for_a_while_but_a_wrong_path_is_not_its_fault(opens: Any) -> None:
    """The breaker opens after failures of the tool, never because a model guesses wrong."""
    async with opens(tools=OWN, config={"limits": {"breaker_failures": 2, "max_repeats": 0}}) as runtime:
        missing = [await runtime.call("read_file", {"path": f"no{n}"}) for n in range(4)]
        broke = [await runtime.call("broken") for _ in range(3)]
    assert {outcome.error.code for outcome in missing} == {"NOT_FOUND"}
    assert [outcome.error.code for outcome in broke] == ["INTERNAL", "INTERNAL", "CIRCUIT_OPEN"]


async def test_a_used_up_budget_of_prompts_does_not_stop_what_needs_no_person(opens: Any, work: Path) -> None:
    """Reading goes on; only the next question is refused."""
    (work / "a.txt").write_text("x")
    config = {"limits": {"max_prompts": 1}}
    async with opens(tools=OWN, config=config, approver=ScriptedApprover("no")) as runtime:
        first = await runtime.call("commit")
        read = await runtime.call("read_file", {"path": "a.txt"})
        second = await runtime.call("commit")
    assert (first.error.code, second.error.code) == ("APPROVAL_DENIED", "BUDGET_EXHAUSTED")
    assert read.ok


@pytest.mark.parametrize(
    "slip",
    [
        {"file_path": "a.txt", "old_string": "one", "new_string": "1"},
        {"path": "a.txt", "old": "one", "new": "1"},
    ],
)
async def test_an_edit_in_another_systems_form_gets_the_call_that_would_work(
    opens: Any, work: Path, slip: dict[str, str]
) -> None:
    """The commonest slip: one edit's fields beside the path instead of inside `edits`."""
    (work / "a.txt").write_text("one\n")
    async with opens(enable=("fs",)) as runtime:
        refused = await runtime.call("edit_file", slip)
        mended = await runtime.call(refused.error.next_call["tool"], refused.error.next_call["args"])
    assert refused.error.next_call["args"] == {"path": "a.txt", "edits": [{"old": "one", "new": "1"}]}
    assert mended.ok
    assert (work / "a.txt").read_text() == "1\n"


@pytest.mark.parametrize("tool", ["read_file", "stat_path", "hash_file", "list_dir"])
async def test_names_near_a_missing_one_leave_out_what_may_not_be_read(opens: Any, work: Path, tool: str) -> None:
    """A wrong name is no way to learn of the right one."""
    for name in (".env", ".enw"):
        (work / name).write_text("x")
    async with opens() as runtime:
        outcome = await runtime.call(tool, {"path": ".en"})
        assert outcome.error is not None
        assert outcome.error.message == ".en does not exist. Did you mean .enw?"
