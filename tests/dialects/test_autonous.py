"""autonous, promise by promise; each docstring begins with the section of its document.

Longer than 500 lines because every promise of the document is a test of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dialects._speaking import Speak, merged
from handrail import Misuse, Problem, SettingsFault, dialects, tool
from handrail.catalog import Catalog
from handrail.dialects._schema import check
from handrail.settings import foreign, programs
from handrail.workspace import ripgrep
from handrail.workspace.rg_process import find_program

RESULT = ["ok", "exit_code", "stdout", "stderr", "truncated_lines", "truncated_bytes"]
SECRET = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
HERE = "/workspace"


def everything(name: str) -> str:
    """A machine that has every program."""
    return f"/usr/bin/{name}"


def settings(work: Path, **more: str) -> dict[str, Any]:
    """Settings from the environment, on a machine that has every program."""
    names = {f"AUTONOUS_TOOL_{name}": value for name, value in more.items()}
    return foreign.autonous({"AUTONOUS_TOOL_ALLOWED_ROOTS": str(work), **names}, find=everything)


# ── principles ───────────────────────────────────────────────────────────────────────────────


async def test_high_risk_input_can_be_refused(speak: Speak, work: Path) -> None:
    """核心目标: the boundary is clear: what lies beyond it is refused with a class of its own."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say("read", path="/etc/passwd")
    assert (told["ok"], told["meta"]["error_class"]) == (False, "policy")


async def test_every_call_can_be_traced_by_its_events(speak: Speak, work: Path) -> None:
    """核心目标: results can be audited."""
    async with speak("autonous", config=settings(work)) as say:
        await say("ls", path=".")
        ids = [event["call_id"] for event in say.events() if event["kind"].startswith("tool_call.")]
    assert ids == [say.last.call_id] * 2


async def test_a_failing_tool_ends_nothing_else(speak: Speak, work: Path) -> None:
    """核心目标: one failure does not bring the worker down."""
    async with speak("autonous", config=settings(work)) as say:
        failed, after = await say("read", path="nothing"), await say("ls", path=".")
    assert (failed["ok"], after["ok"]) == (False, True)


async def test_an_unregistered_tool_is_refused_by_default(speak: Speak, work: Path) -> None:
    """核心原则 默认拒绝: unknown names are a validation error."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say("curl", url="http://localhost")
    assert (told["ok"], told["meta"]["error_class"], told["meta"]["error"]["code"]) == (
        False, "validation", "UNKNOWN_TOOL",
    )  # fmt: skip


async def test_one_envelope_serves_every_tool(speak: Speak, work: Path) -> None:
    """核心原则 统一协议: no tool has a format of its own."""
    (work / "a.txt").write_text("one\n")
    async with speak("autonous", config=settings(work)) as say:
        told = [
            await say("ls", path="."),
            await say("find", path=".", name_pattern="*.txt"),
            await say("grep", path=".", pattern="one"),
            await say("read", path="a.txt"),
            await say("write", path="b.txt", content="x"),
            await say("edit", path="a.txt", find="one", replace="two"),
            await say("bash", cmd="true"),
            await say("read", path="missing"),
        ]
    assert [list(result)[:6] for result in told] == [RESULT] * 8
    assert {name for result in told for name in result} <= {*RESULT, "next_page_cursor", "meta"}


async def test_a_result_fits_the_printed_struct(speak: Speak, work: Path) -> None:
    """抽象设计 3: every tool describes that one Result, its fields typed as printed, and gives it."""
    (work / "a.txt").write_text("one\ntwo\n")
    calls: dict[str, dict[str, Any]] = {
        "ls": {"path": ".", "limit": 1}, "find": {"path": ".", "name_pattern": "*"},
        "grep": {"path": ".", "pattern": "o", "limit": 1}, "read": {"path": "a.txt"},
        "write": {"path": "b.txt", "content": "x"}, "edit": {"path": "a.txt", "find": "one", "replace": "1"},
        "bash": {"cmd": "exit 3"},
    }  # fmt: skip
    async with speak("autonous", config=settings(work)) as say:
        specs = say.specs()
        for name, args in calls.items():
            told = await say(name, args)
            check(specs[name]["return_schema"], told, repair=False)
    kinds = {name: field["type"] for name, field in specs["ls"]["return_schema"]["properties"].items()}
    assert kinds == {
        "ok": "boolean", "exit_code": "integer", "stdout": "string", "stderr": "string", "truncated_lines": "boolean",
        "truncated_bytes": "boolean", "next_page_cursor": "string", "meta": "object",
    }  # fmt: skip
    assert specs["ls"]["return_schema"]["required"] == RESULT


async def test_truncation_timeout_and_failure_are_in_the_events(speak: Speak, work: Path) -> None:
    """核心原则 可观测优先: life cycle, cuts, timeouts and failures all leave events."""
    (work / "a.txt").write_text("line\n" * 3000)
    found = await events_of(
        speak, work, ("bash", {"cmd": "cat a.txt"}), ("bash", {"cmd": "head -c 99999 /dev/zero | tr '\\0' x"}),
        ("bash", {"cmd": "sleep 9", "timeout_seconds": 1}), ("bash", {"cmd": "exit 3"}),
    )  # fmt: skip
    ends = [(event["kind"], event["payload"]) for event in found if event["kind"] != "tool_call.started"]
    assert [kind for kind, _ in ends] == ["tool_call.completed"] * 2 + ["tool_call.failed"] * 2
    assert [(told["truncated_lines"], told["truncated_bytes"]) for _, told in ends[:2]] == [
        (True, False),
        (False, True),
    ]
    assert [told["error_class"] for _, told in ends[2:]] == ["timeout", "tool_exec"]
    assert [event["kind"] for event in found].count("tool_call.started") == 4


async def test_a_write_is_one_whole_call(speak: Speak, work: Path) -> None:
    """Safety Policy 4: there is no prepare and no commit; one call, and the file is there."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say("write", path="a.txt", content="whole\n")
        names = set(say.specs())
    assert ((work / "a.txt").read_text(), told["ok"], names & {"prepare", "commit"}) == ("whole\n", True, set())


async def test_an_edit_is_one_whole_call(speak: Speak, work: Path) -> None:
    """Safety Policy 4: edit completes at once, too."""
    (work / "a.txt").write_text("one\n")
    async with speak("autonous", config=settings(work)) as say:
        await say("edit", path="a.txt", find="one", replace="two")
    assert (work / "a.txt").read_text() == "two\n"


# ── registry and result ──────────────────────────────────────────────────────────────────────


async def test_exactly_seven_tools_are_listed(speak: Speak, work: Path) -> None:
    """范围: ls first, then find, grep, read, write, edit, bash."""
    async with speak("autonous", config=settings(work)) as say:
        assert list(say.specs()) == ["ls", "find", "grep", "read", "write", "edit", "bash"]


def test_registering_a_name_twice_is_an_error() -> None:
    """抽象设计 2: names are unique."""

    @tool(risk="low", pure=True)
    async def twice() -> str:
        """Say it."""
        return "x"

    with pytest.raises(Misuse, match="registered already"):
        Catalog([twice, twice])


def test_a_tool_has_a_name_validates_and_executes() -> None:
    """抽象设计 1: Name, Validate, Execute."""

    @tool(risk="low", pure=True)
    async def double(number: int) -> int:
        """Give twice a number."""
        return 2 * number

    assert (double.name, double.parse({"number": 2}, repair=False)[0]) == ("double", {"number": 2})
    for wrong in ({}, {"number": "2"}, {"number": 2, "more": 1}):
        with pytest.raises(Problem) as error:
            double.parse(wrong, repair=False)
        assert error.value.code == "INVALID_ARGS"
    assert asyncio.run(double.function(number=2)) == 4


def test_a_tool_is_found_by_its_name_and_another_name_is_a_validation_error() -> None:
    """抽象设计 2: Register, Get; what is not registered is of the class validation."""

    @tool(risk="low", pure=True)
    async def known() -> str:
        """Say it."""
        return "x"

    catalog = Catalog()
    catalog.add(known)
    with pytest.raises(Problem) as error:
        catalog.get("knwon")
    assert (catalog.get("known"), "known" in catalog, "knwon" in catalog) == (known, True, False)
    assert dialects.get("autonous").errors[error.value.code] == "validation"


async def test_the_registry_lists_its_tools_with_their_schemas(speak: Speak, work: Path) -> None:
    """抽象设计 2: MustList gives the metadata of each tool."""
    async with speak("autonous", config=settings(work)) as say:
        told = say.specs(every=False)
    assert [sorted(spec["args_schema"]["properties"]) for spec in told.values()] == [
        ["cursor", "limit", "path", "recursive"],
        ["cursor", "limit", "max_depth", "name_pattern", "path"],
        ["cursor", "glob", "limit", "path", "pattern"],
        ["cursor", "limit_bytes", "offset", "path"],
        ["content", "mode", "path"],
        ["all", "find", "path", "replace"],
        ["cmd", "cursor", "timeout_seconds", "workdir"],
    ]


async def test_input_schemas_are_strict(speak: Speak, work: Path) -> None:
    """范围 Tool Registry: a missing, an extra and a mistyped argument are each refused."""
    async with speak("autonous", config=settings(work)) as say:
        told = [await say("ls"), await say("ls", path=".", depth=2), await say("ls", path=".", limit="5")]
    assert [result["meta"]["error"]["code"] for result in told] == ["INVALID_ARGS"] * 3
    assert [result["meta"]["error"]["errors"][0]["field"] for result in told] == ["path", "depth", "limit"]


async def test_a_result_has_ok_and_exit_code_and_both_streams(speak: Speak, work: Path) -> None:
    """抽象设计 3: the fields of Result, whole."""
    (work / "a.txt").write_text("x")
    async with speak("autonous", config=settings(work)) as say:
        told = await say("ls", path=".")
    meta = told.pop("meta")
    assert told == {
        "ok": True,
        "exit_code": 0,
        "stdout": "a.txt\n",
        "stderr": "",
        "truncated_lines": False,
        "truncated_bytes": False,
    }
    assert meta["call_id"] == say.last.call_id


async def test_next_page_cursor_is_left_out_where_there_is_no_page(speak: Speak, work: Path) -> None:
    """抽象设计 3: omitempty."""
    (work / "a.txt").write_text("x")
    (work / "b.txt").write_text("x")
    async with speak("autonous", config=settings(work)) as say:
        whole, part = await say("ls", path="."), await say("ls", path=".", limit=1)
    assert ("next_page_cursor" in whole, "next_page_cursor" in part) == (False, True)


async def test_a_file_tool_ends_with_0_or_another_code(speak: Speak, work: Path) -> None:
    """抽象设计 3: exit_code of tools without a process: 0, or not 0 for a failure."""
    async with speak("autonous", config=settings(work)) as say:
        good, bad = await say("ls", path="."), await say("ls", path="missing")
    assert (good["exit_code"], bad["exit_code"]) == (0, 1)


# ── request protocol ─────────────────────────────────────────────────────────────────────────

PRINTED = """{
  "tool_calls": [
    {"name":"read","arguments":{"path":"internal/db/db.go"}}
  ],
  "final_answer":""
}"""


async def test_the_printed_request_goes_through(speak: Speak, work: Path) -> None:
    """抽象设计 4: the example of the document, as it stands there."""
    (work / "internal/db").mkdir(parents=True)
    (work / "internal/db/db.go").write_text("package db\n")
    async with speak("autonous", config=settings(work)) as say:
        told = await say.handle(json.loads(PRINTED))
    assert [result["stdout"] for result in told] == ["package db\n"]


def test_calls_come_before_an_answer() -> None:
    """抽象设计 4: where tool_calls is not empty, they are made."""
    message = dialects.get("autonous").messages({"tool_calls": [{"name": "ls", "arguments": {}}], "final_answer": "x"})
    assert ([call.tool for call in message.calls], message.final_answer) == (["ls"], "")


def test_an_answer_without_calls_ends_the_task() -> None:
    """抽象设计 4: no calls and an answer: that is the reply."""
    message = dialects.get("autonous").messages({"tool_calls": [], "final_answer": "done"})
    assert (message.calls, message.final_answer) == ((), "done")


def test_neither_calls_nor_answer_is_a_validation_error() -> None:
    """抽象设计 4: an empty message fails."""
    with pytest.raises(Problem) as error:
        dialects.get("autonous").messages({"tool_calls": [], "final_answer": ""})
    assert dialects.get("autonous").errors[error.value.code] == "validation"


async def test_a_refused_message_is_a_result_with_its_events(speak: Speak, work: Path) -> None:
    """抽象设计 4: handed over whole, an empty message is a failed Result that says why, and its events hold it."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say.runtime.call_from({"tool_calls": [], "final_answer": ""})
        payloads = [event["payload"] for event in say.events() if event["kind"].startswith("tool_call.")]
    assert (told["ok"], told["meta"]["error_class"]) == (False, "validation")
    assert told["stderr"] == "The message has neither tool calls nor a final answer.\n"
    assert [json.loads(payloads[0]["arguments"]["arguments"]), payloads[1]["error_class"]] == [
        {"tool_calls": [], "final_answer": ""}, "validation",
    ]  # fmt: skip


async def test_the_same_call_in_several_rounds_without_progress_is_noticed(speak: Speak, work: Path) -> None:
    """Worker 集成 2: repeated with the same answer it is stopped and told so; with another answer it goes on."""
    (work / "a.txt").write_text("one\n")
    again = {"tool_calls": [{"name": "read", "arguments": {"path": "a.txt"}}], "final_answer": ""}
    config = merged(settings(work), {"limits": {"max_repeats": 3}})
    async with speak("autonous", config=config) as say:
        told = [result for _ in range(2) for result in await say.handle(again)]
        (work / "a.txt").write_text("two\n")
        told += [result for _ in range(4) for result in await say.handle(again)]
    assert [result["stdout"] for result in told] == ["one\n"] * 2 + ["two\n"] * 3 + [""]
    error = told[-1]["meta"]["error"]
    assert (told[-1]["ok"], told[-1]["meta"]["error_class"]) == (False, "policy")
    assert (error["code"], error["budget"], error["bound"]) == ("BUDGET_EXHAUSTED", "repeats", 3)


# ── safety policy ────────────────────────────────────────────────────────────────────────────


async def test_only_the_allowed_roots_can_be_reached(speak: Speak, work: Path, tmp_path: Path) -> None:
    """Safety Policy 1: the allow list is that one setting, with all its roots."""
    state, other = tmp_path / "state", tmp_path / "other"
    for folder in (state, other):
        folder.mkdir()
        (folder / "a.txt").write_text(folder.name)
    config = foreign.autonous({"AUTONOUS_TOOL_ALLOWED_ROOTS": f"{work},{state}"}, find=everything)
    async with speak("autonous", config=config) as say:
        inside, outside = await say("read", path=f"{state}/a.txt"), await say("read", path=f"{other}/a.txt")
    assert (inside["stdout"], outside["ok"], outside["meta"]["error"]["code"]) == ("state", False, "PATH_OUTSIDE_ROOTS")


async def test_a_link_that_leads_out_is_refused(speak: Speak, work: Path, tmp_path: Path) -> None:
    """Safety Policy 1: the real path counts."""
    (tmp_path / "secret").write_text("x")
    (work / "link").symlink_to(tmp_path / "secret")
    async with speak("autonous", config=settings(work)) as say:
        told = await say("read", path="link")
    assert told["meta"]["error"]["code"] == "PATH_OUTSIDE_ROOTS"


async def test_dots_that_lead_out_are_refused(speak: Speak, work: Path) -> None:
    """Safety Policy 1: `..` in a relative path does not escape."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say("read", path="../../etc/passwd")
    assert (told["ok"], told["meta"]["error"]["code"]) == (False, "PATH_OUTSIDE_ROOTS")


async def test_bash_refuses_what_is_on_the_deny_list(speak: Speak, work: Path) -> None:
    """Safety Policy 2: obviously destructive commands are blocked, also inside a longer line."""
    async with speak("autonous", config=settings(work)) as say:
        told = [await say("bash", cmd="rm -rf /"), await say("bash", cmd="true && shutdown now")]
    assert [result["meta"]["error"]["code"] for result in told] == ["COMMAND_NOT_ALLOWED"] * 2


async def test_other_tools_ask_nobody(speak: Speak, work: Path) -> None:
    """Safety Policy 2: beneath the roots the seven tools need no approval."""
    (work / "a.txt").write_text("old")
    async with speak("autonous", config=settings(work), mode="headless") as say:
        told = [
            await say("write", path="a.txt", content="new"),
            await say("edit", path="a.txt", find="new", replace="newer"),
            await say("bash", cmd="echo hi"),
        ]
    assert [result["ok"] for result in told] == [True, True, True]


async def test_every_call_has_a_time_limit(speak: Speak, work: Path) -> None:
    """Safety Policy 3: what takes longer is ended, whatever tool it is."""

    @tool(risk="low", pure=True)
    async def endless() -> str:
        """Never come back."""
        await asyncio.Event().wait()
        return ""

    async with speak("autonous", config=settings(work, TIMEOUT_SECONDS="1"), tools=[endless]) as say:
        told = await say("bash", cmd="sleep 30")
        other = (await say.runtime.call("endless", {}, dialect="native")).to("autonous")
    assert [(one["ok"], one["meta"]["error_class"]) for one in (told, other)] == [(False, "timeout")] * 2


@pytest.mark.parametrize(("name", "args"), [("read", {"path": "a.txt"}), ("bash", {"cmd": "cat a.txt"})])
async def test_too_many_lines_are_cut_and_marked(speak: Speak, work: Path, name: str, args: dict[str, str]) -> None:
    """Safety Policy 3: truncated_lines; 2000 by default."""
    (work / "a.txt").write_text("line\n" * 3000)
    told = []
    for more in ({}, {"MAX_OUTPUT_LINES": "50"}):
        async with speak("autonous", config=settings(work, **more)) as say:
            told.append(await say(name, args))
    assert [(one["truncated_lines"], one["truncated_bytes"]) for one in told] == [(True, False)] * 2
    lines = [one["stdout"].count("\n") for one in told]
    assert [1900 < lines[0] <= 2000, 20 < lines[1] <= 50] == [True, True]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read", {"path": "a.txt"}),
        ("bash", {"cmd": "cat a.txt"}),
        ("grep", {"path": ".", "pattern": "x", "limit": 5000}),
    ],
)
async def test_too_many_bytes_are_cut_and_marked(speak: Speak, work: Path, name: str, args: dict[str, Any]) -> None:
    """Safety Policy 3: truncated_bytes; 51200 by default, and what is shown keeps to it."""
    (work / "a.txt").write_text(("x" * 79 + "\n") * 2000)
    told = []
    for more in ({}, {"MAX_OUTPUT_BYTES": "8000"}):
        async with speak("autonous", config=settings(work, **more)) as say:
            told.append(await say(name, args))
    sizes = [len(one["stdout"]) for one in told]
    assert [40_000 < sizes[0] <= 51200, 4000 < sizes[1] <= 8000] == [True, True]
    assert [one["truncated_lines"] or one["truncated_bytes"] for one in told] == [True, True]
    assert (told[0]["truncated_bytes"], told[0]["truncated_lines"]) == (True, False)


@pytest.mark.parametrize("place", [".", "deep", "deep/name-of-some-length-that-stands-before-every-line.txt"])
async def test_pages_of_a_search_leave_nothing_out(speak: Speak, work: Path, place: str) -> None:
    """Safety Policy 3: cut output goes on where it ended, page by page, from any place that was searched."""
    (work / "deep").mkdir()
    name = "deep/name-of-some-length-that-stands-before-every-line.txt"
    (work / name).write_text("".join(f"x {number}\n" for number in range(400)))
    found, cursor = "", None
    async with speak("autonous", config=settings(work, MAX_OUTPUT_BYTES="6000")) as say:
        for _ in range(20):
            args = {"path": place, "pattern": "x", "limit": 5000}
            told = await say("grep", args if cursor is None else {**args, "cursor": cursor})
            assert (told["ok"], len(told["stdout"]) <= 6000) == (True, True)
            found, cursor = found + told["stdout"], told.get("next_page_cursor")
            if cursor is None:
                break
    assert found == "".join(f"{name}:{number + 1}:x {number}\n" for number in range(400))


@pytest.mark.parametrize(
    "text",
    [f"key {SECRET}", "Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "DEPLOY_TOKEN=q8w7e6r5t4y3u2i1o0p9",
     "API_SECRET=q8w7e6r5t4y3u2i1o0p9", "DB_PASSWORD=q8w7e6r5t4y3u2i1o0p9"],
)  # fmt: skip
async def test_secrets_are_replaced_by_the_mark(speak: Speak, work: Path, text: str) -> None:
    """Safety Policy 3: API keys, bearer tokens, *_TOKEN, *_SECRET, *_PASSWORD become ***REDACTED***."""
    (work / "a.txt").write_text(f"{text}\n")
    async with speak("autonous", config=settings(work)) as say:
        told = await say("read", path="a.txt")
        written = json.dumps(say.events())
    value = text.split()[-1].split("=")[-1]
    assert ("***REDACTED***" in told["stdout"], value in json.dumps(told), value in written) == (True, False, False)


# ── events ───────────────────────────────────────────────────────────────────────────────────


async def events_of(speak: Speak, work: Path, *calls: tuple[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tool_call events that calls leave."""
    async with speak("autonous", config=settings(work)) as say:
        for name, args in calls:
            await say(name, args)
        return [event for event in say.events() if event["kind"].startswith("tool_call.")]


async def test_started_tells_the_tool_and_its_arguments(speak: Speak, work: Path) -> None:
    """事件设计: tool_call.started."""
    started = (await events_of(speak, work, ("ls", {"path": "."})))[0]
    assert (started["kind"], started["payload"]) == (
        "tool_call.started", {"tool_name": "ls", "arguments": {"path": "."}},
    )  # fmt: skip


async def test_long_arguments_are_cut_in_events(speak: Speak, work: Path) -> None:
    """事件设计: arguments are cut where necessary."""
    started = (await events_of(speak, work, ("write", {"path": "a.txt", "content": "x" * 100_000})))[0]
    assert len(json.dumps(started["payload"])) < 5000


async def test_completed_tells_time_code_and_cuts(speak: Speak, work: Path) -> None:
    """事件设计: tool_call.completed."""
    ended = (await events_of(speak, work, ("ls", {"path": "."})))[-1]
    latency = ended["payload"].pop("latency_ms")
    assert (ended["kind"], ended["payload"]) == (
        "tool_call.completed", {"tool_name": "ls", "exit_code": 0, "truncated_lines": False, "truncated_bytes": False},
    )  # fmt: skip
    assert latency > 0


async def test_failed_tells_error_class_and_redaction(speak: Speak, work: Path) -> None:
    """事件设计: tool_call.failed."""
    ended = (await events_of(speak, work, ("read", {"path": "missing"})))[-1]
    assert ended["kind"] == "tool_call.failed"
    assert ended["payload"] == {
        "tool_name": "read", "error": "missing does not exist.", "error_class": "tool_exec", "redacted": False,
    }  # fmt: skip


async def test_a_failure_says_that_something_was_redacted(speak: Speak, work: Path) -> None:
    """事件设计: redacted is true where a secret was hidden."""
    ended = (await events_of(speak, work, ("read", {"path": f"{SECRET}.txt"})))[-1]
    assert (ended["payload"]["redacted"], SECRET in json.dumps(ended)) == (True, False)


@pytest.mark.parametrize(
    ("name", "args", "wanted"),
    [
        ("nothing", {}, "validation"),
        ("read", {"path": "missing"}, "tool_exec"),
        ("read", {"path": "../x"}, "policy"),
        ("bash", {"cmd": "sleep 9", "timeout_seconds": 1}, "timeout"),
        ("broken", {}, "unknown"),
    ],
)
async def test_error_class_is_one_of_five(
    speak: Speak, work: Path, name: str, args: dict[str, Any], wanted: str
) -> None:
    """事件设计: validation, tool_exec, policy, timeout, unknown."""

    @tool(risk="low", pure=True)
    async def broken() -> str:
        """Fail as no tool should."""
        raise RuntimeError("a bug")

    async with speak("autonous", config=settings(work), tools=[broken]) as say:
        told = await say.call(name, args, dialect="native" if name == "broken" else None)
        ended = say.events()[-1]
    assert (ended["kind"], ended["payload"]["error_class"], told["meta"]["error_class"]) == (
        "tool_call.failed", wanted, wanted,
    )  # fmt: skip
    assert set(dialects.get("autonous").errors.values()) == {"validation", "tool_exec", "policy", "timeout", "unknown"}


# ── settings ─────────────────────────────────────────────────────────────────────────────────


def test_the_time_limit_is_30_seconds(work: Path) -> None:
    """配置: AUTONOUS_TOOL_TIMEOUT_SECONDS and its default."""
    asked = settings(work, TIMEOUT_SECONDS="45")
    assert (settings(work)["limits"]["timeout_seconds"], asked["limits"]["timeout_seconds"]) == (30.0, 45.0)
    assert (settings(work)["exec"]["timeout_seconds"], asked["exec"]["timeout_seconds"]) == (30.0, 45.0)


def test_output_has_2000_lines_at_most(work: Path) -> None:
    """配置: AUTONOUS_TOOL_MAX_OUTPUT_LINES and its default."""
    asked = settings(work, MAX_OUTPUT_LINES="7")["limits"]["max_output_lines"]
    assert (settings(work)["limits"]["max_output_lines"], asked) == (2000, 7)


def test_output_has_51200_bytes_at_most(work: Path) -> None:
    """配置: AUTONOUS_TOOL_MAX_OUTPUT_BYTES and its default."""
    asked = settings(work, MAX_OUTPUT_BYTES="4096")["limits"]["max_output_bytes"]
    assert (settings(work)["limits"]["max_output_bytes"], asked) == (51200, 4096)


async def test_the_deny_list_can_be_made_longer(speak: Speak, work: Path) -> None:
    """配置: AUTONOUS_TOOL_BASH_DENYLIST, separated by commas."""
    async with speak("autonous", config=settings(work, BASH_DENYLIST="curl, git push")) as say:
        told = [
            await say("bash", cmd="curl http://x"),
            await say("bash", cmd="git push"),
            await say("bash", cmd="echo"),
        ]
    assert [result["ok"] for result in told] == [False, False, True]


async def test_the_printed_environment_goes_through(speak: Speak, tmp_path: Path) -> None:
    """Safety Policy 1: the printed block, line by line as a shell reads it."""
    line = "AUTONOUS_TOOL_ALLOWED_ROOTS=/workspace,/state"
    name, _, value = line.partition("=")
    config = foreign.autonous({name: value}, find=everything)
    assert (config["workspace"]["root"], config["workspace"]["write"]) == ("/workspace", ["/state"])


def test_no_root_refuses_to_start() -> None:
    """配置 启动期校验: at least one root."""
    for environment in ({}, {"AUTONOUS_TOOL_ALLOWED_ROOTS": " , "}):
        with pytest.raises(SettingsFault, match="AUTONOUS_TOOL_ALLOWED_ROOTS is empty"):
            foreign.autonous(environment, find=everything)


def test_a_relative_root_refuses_to_start() -> None:
    """配置 启动期校验: every root is absolute."""
    with pytest.raises(SettingsFault, match="'work' is not absolute"):
        foreign.autonous({"AUTONOUS_TOOL_ALLOWED_ROOTS": "/a,work"}, find=everything)


def test_roots_are_cleaned_and_doubles_dropped() -> None:
    """配置 启动期校验: Clean, then without doubles."""
    assert foreign.allowed_roots("/a/b/../c/,/a/c, /a//c/. ,//d") == ("/a/c", "/d")


def test_a_bad_number_refuses_to_start(work: Path) -> None:
    """任务分解 5: wrong values are found at the start and named."""
    for name in ("TIMEOUT_SECONDS", "MAX_OUTPUT_LINES", "MAX_OUTPUT_BYTES"):
        for text in ("0", "-1", "ten", "1.5"):
            with pytest.raises(SettingsFault, match=f"AUTONOUS_TOOL_{name}: '{text}' is not a whole number above 0"):
                settings(work, **{name: text})


def test_every_variable_has_the_prefix() -> None:
    """配置: all variables begin with AUTONOUS_."""
    names = [foreign.ROOTS, foreign.DENYLIST, *foreign._NUMBERS]
    assert [name.startswith("AUTONOUS_TOOL_") for name in names] == [True] * 5


async def test_a_tool_is_switched_off_by_policy_and_that_is_on_record(speak: Speak, work: Path) -> None:
    """配置: there is no switch for all tools; policy disables one, and an event says so."""
    config = {**settings(work), "rules": [{"effect": "deny", "tool": "run_command", "why": "not here"}]}
    async with speak("autonous", config=config) as say:
        await say("bash", cmd="true")
        ended = say.events()[-1]
    assert (ended["kind"], ended["payload"]["error_class"]) == ("tool_call.failed", "policy")


async def test_a_refused_call_has_both_events_and_its_arguments(speak: Speak, work: Path) -> None:
    """总体架构: every tool call has tool_call.* events: what was refused can be read from them."""
    async with speak("autonous", config=settings(work)) as say:
        await say("read", path="/etc/passwd")
        await say("read", path=7)
        await say("ls", path=".")
        found = [event for event in say.events() if event["kind"].startswith("tool_call.")]
    assert [event["kind"].partition(".")[2] for event in found] == [
        "started", "failed", "started", "failed", "started", "completed",
    ]  # fmt: skip
    assert [event["payload"]["arguments"] for event in found[::2]] == [
        {"path": "/etc/passwd"},
        {"path": 7},
        {"path": "."},
    ]


@pytest.mark.parametrize("lines", [3, 10, 20, 50])
async def test_bash_obeys_a_small_limit_of_lines_and_has_pages(speak: Speak, work: Path, lines: int) -> None:
    """Safety Policy 3: at most so many lines; the rest comes page by page, and the command runs once."""
    config = settings(work, MAX_OUTPUT_LINES=str(lines))
    async with speak("autonous", config=config) as say:
        page = await say("bash", cmd="echo x >> runs.txt; seq 1 200")
        pages = [page]
        while "next_page_cursor" in pages[-1]:
            pages.append(await say("bash", cmd="any", cursor=pages[-1]["next_page_cursor"]))
        wrong = await say("bash", cmd="echo hi", cursor="nonsense")
    seen = [int(line) for told in pages for line in told["stdout"].splitlines() if line.isdigit()]
    assert set(seen) == set(range(1, 201))
    assert (work / "runs.txt").read_text() == "x\n"
    assert [told["stdout"] for told in pages if told["stdout"].count("\n") > lines] == []
    assert (page["truncated_lines"], "read_file" in json.dumps(pages)) == (True, False)
    assert wrong["meta"]["error_class"] == "validation"


@pytest.mark.parametrize("size", [20, 100, 1000, 4000])
async def test_bash_obeys_a_small_limit_of_bytes(speak: Speak, work: Path, size: int) -> None:
    """Safety Policy 3: at most so many bytes, failed or not; what fits is whole and not marked."""
    config = settings(work, MAX_OUTPUT_BYTES=str(size))
    async with speak("autonous", config=config) as say:
        page = await say("bash", cmd="seq 1 5000")
        failed = await say("bash", cmd="seq 1 5000; exit 3")
        small = await say("bash", cmd="echo hi")
    for told in (page, failed):
        assert len(told["stdout"].encode()) <= size
        assert (told["truncated_bytes"] or told["truncated_lines"], "next_page_cursor" in told) == (True, True)
    assert (failed["exit_code"], small["stdout"], small["truncated_bytes"]) == (3, "hi\n", False)


LONG = "printf '%081d' 1"
BOTH = "seq 1 1500; seq 2001 3500 >&2"
FEW = "seq 1 100; seq 2001 2100 >&2"


@pytest.mark.parametrize(
    ("cmd", "lines", "size"),
    [
        (LONG, 2000, 20), (f"{LONG}; exit 3", 2000, 20), (f"{LONG} >&2", 2000, 20), (BOTH, 2000, 51200),
        (f"{BOTH}; exit 3", 2000, 51200), (f"{FEW}; exit 3", 5, 51200), (f"{LONG}; {FEW}", 7, 60),
        ("printf 'ä%.0s' $(seq 1 300)", 2000, 31),
    ],
)  # fmt: skip
async def test_both_streams_together_keep_to_the_limits_and_pages_lead_through_both(
    speak: Speak, work: Path, cmd: str, lines: int, size: int
) -> None:
    """Safety Policy 3: one long line, and stderr beside stdout, too; the first page has a part of each stream."""
    config = settings(work, MAX_OUTPUT_LINES=str(lines), MAX_OUTPUT_BYTES=str(size))
    config["limits"]["max_calls"] = 2000
    async with speak("autonous", config=config) as say:
        pages = [await say("bash", cmd=cmd)]
        while "next_page_cursor" in pages[-1] and len(pages) < 1500:
            pages.append(await say("bash", cmd="any", cursor=pages[-1]["next_page_cursor"]))
    first = pages[0]
    assert len((first["stdout"] + first["stderr"]).splitlines()) <= lines
    assert len((first["stdout"] + first["stderr"]).encode()) <= size
    assert (first["truncated_bytes"], first["truncated_lines"]) == (size < 1000, size >= 1000)
    assert "next_page_cursor" not in pages[-1]
    assert ("stdout" in first["meta"].get("error", {}), len(json.dumps(first["meta"])) < 2000) == (False, True)
    written = subprocess.run(["bash", "-c", cmd], capture_output=True, check=False)
    for name, whole in (("stdout", written.stdout.decode()), ("stderr", written.stderr.decode())):
        seen = "".join(page[name] for page in pages)
        assert [line for line in set(whole.split()) if line not in seen and len(line) < 10] == []
        assert (not whole or first[name] != "", len(seen) >= len(whole)) == (True, True)


async def test_roots_hold_until_the_next_start(
    speak: Speak, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """配置: a changed environment changes nothing while the worker runs."""
    (tmp_path / "later").mkdir()
    (tmp_path / "later/a.txt").write_text("x")
    async with speak("autonous", config=settings(work)) as say:
        monkeypatch.setenv("AUTONOUS_TOOL_ALLOWED_ROOTS", str(tmp_path / "later"))
        told = await say("read", path=f"{tmp_path}/later/a.txt")
    assert told["meta"]["error"]["code"] == "PATH_OUTSIDE_ROOTS"


# ── the programs ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lost", ["bash", "rg"])
def test_a_missing_program_refuses_tool_mode(lost: str) -> None:
    """容器依赖要求: the self-check names the program that a tool would start and how to install it."""
    with pytest.raises(SettingsFault, match=rf"{lost} not found; apt-get install \S+"):
        foreign.autonous({"AUTONOUS_TOOL_ALLOWED_ROOTS": "/"}, find=lambda name: None if name == lost else name)


def test_several_missing_programs_are_listed_together() -> None:
    """容器依赖要求: one message names all of them."""
    with pytest.raises(SettingsFault, match="bash, rg not found; apt-get install bash ripgrep"):
        programs.require(lambda name: None if name in ("bash", "sed", "rg") else name)


@pytest.mark.parametrize("lost", ["ls", "cat", "head", "tee", "sed"])
def test_a_program_that_no_tool_starts_is_not_demanded(lost: str) -> None:
    """容器依赖要求: files are read and written by our own confined code, so these give a warning alone."""
    told = programs.require(lambda name: None if name == lost else name)
    assert [text.split()[0] for text in told] == [lost]


def test_fd_is_not_demanded_and_known_by_either_name() -> None:
    """容器依赖要求: find takes ripgrep, so fd gives a warning alone; Debian calls it fdfind."""
    told = programs.require(lambda name: None if name in ("fd", "fdfind") else name)
    assert [text.split()[0] for text in told] == ["fd"]
    assert programs.require(lambda name: None if name == "fd" else name) == ()
    assert programs.require(lambda name: None if name == "fdfind" else name) == ()


def test_perl_is_wanted_and_told() -> None:
    """M4 默认命令映射: perl is optional."""
    told = programs.require(lambda name: None if name == "perl" else name)
    assert [text.split()[0] for text in told] == ["perl"]


async def test_find_and_grep_use_ripgrep(
    speak: Speak, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M4 默认命令映射: modern engines: both run the ripgrep that is there, and nothing where it is gone."""
    (work / ".gitignore").write_text("built\n")
    (work / ".git").mkdir()
    for name in ("a.txt", "built"):
        (work / name).write_text("needle\n")
    engine = tmp_path / "engine"
    shutil.copy2(find_program(), engine)
    monkeypatch.setattr(ripgrep, "find_program", lambda _writable: str(engine))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find", {"path": ".", "name_pattern": "*"}), ("grep", {"path": ".", "pattern": "needle"}),
    ]  # fmt: skip
    async with speak("autonous", config=settings(work)) as say:
        found = [await say(name, args) for name, args in calls]
        engine.unlink()
        (work / "b.txt").write_text("needle\n")  # nothing is answered from memory
        gone = [await say(name, args) for name, args in calls]
    assert [result["stdout"] for result in found] == ["a.txt\n", "a.txt:1:needle\n"]
    assert [(result["ok"], str(engine) in result["stderr"]) for result in gone] == [(False, True)] * 2


def test_the_image_brings_every_program_and_looks_before_it_serves() -> None:
    """容器依赖要求: bash, coreutils, sed, cat, head, tee, rg and fd are installed when the image is built."""
    text = (Path(__file__).parents[2] / "Dockerfile").read_text().replace("\\\n", " ")
    installed = {word for line in re.findall(r"apt-get install ([^&]+)", text) for word in line.split()}
    needed = {item.name: item.package for item in programs.PROGRAMS}
    assert set(needed) == {"bash", "ls", "cat", "head", "tee", "sed", "rg", "fd", "perl"}
    assert set(needed.values()) - installed == set()
    entry = next(line for line in text.splitlines() if line.startswith("ENTRYPOINT"))
    assert entry.index("handrail doctor") < entry.index("exec handrail")


# ── tool by tool ─────────────────────────────────────────────────────────────────────────────


async def test_ls_lists_a_directory_and_pages(speak: Speak, work: Path) -> None:
    """ls: path, recursive, limit; text of entries, page by page."""
    (work / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (work / name).write_text("x")
    async with speak("autonous", config=settings(work)) as say:
        first = await say("ls", path=".", limit=2)
        rest = await say("ls", path=".", cursor=first["next_page_cursor"])
        deep = await say("ls", path=".", recursive=True)
    assert [first["stdout"], rest["stdout"], deep["stdout"]] == ["a\nb\n", "sub/\n", "a\nb\nsub/\nsub/c\n"]
    assert first["truncated_lines"] is True


async def test_find_matches_names_to_a_depth_and_limit(speak: Speak, work: Path) -> None:
    """find: path, name_pattern, max_depth, limit; a list of paths."""
    (work / "sub/deeper").mkdir(parents=True)
    for name in ("a.py", "b.txt", "sub/c.py", "sub/deeper/d.py"):
        (work / name).write_text("x")
    async with speak("autonous", config=settings(work)) as say:
        told = [
            await say("find", path=".", name_pattern="*.py"),
            await say("find", path=".", name_pattern="*.py", max_depth=1),
            await say("find", path=".", name_pattern="*.py", limit=2),
        ]
    assert [result["stdout"] for result in told] == ["a.py\nsub/c.py\nsub/deeper/d.py\n", "a.py\n", "a.py\nsub/c.py\n"]


async def test_find_gives_folders_as_fd_and_find_do(speak: Speak, work: Path) -> None:
    """find: a list of matching paths, folders among them, empty ones too; what is ignored or hidden is not."""
    for folder in ("deep/deeper", "other/deep", "built/deep", ".hidden/deep", ".git"):
        (work / folder).mkdir(parents=True)
    (work / "deep/deeper/deep.py").write_text("x")
    (work / ".gitignore").write_text("built\n")
    (work / "built/made.o").write_text("x")
    async with speak("autonous", config=settings(work)) as say:
        found = await say("find", path=".", name_pattern="deep*")
        near = await say("find", path=".", name_pattern="deep*", max_depth=1)
        first = await say("find", path=".", name_pattern="deep*", limit=2)
        rest = await say("find", path=".", name_pattern="deep*", cursor=first["next_page_cursor"])
    assert found["stdout"] == "deep\ndeep/deeper\ndeep/deeper/deep.py\nother/deep\n"
    assert near["stdout"] == "deep\n"
    assert first["stdout"] + rest["stdout"] == found["stdout"]


async def test_grep_gives_file_line_and_text(speak: Speak, work: Path) -> None:
    """grep: path, pattern, glob, limit; hits as file:line:text, no hit is no failure."""
    (work / "a.txt").write_text("x\nneedle 1\n")
    (work / "b.md").write_text("needle 2\n")
    async with speak("autonous", config=settings(work)) as say:
        told = [
            await say("grep", path=".", pattern="needle [0-9]"),
            await say("grep", path=".", pattern="needle", glob="*.md"),
            await say("grep", path=".", pattern="absent"),
            await say("grep", path=".", pattern="needle", limit=1),
        ]
    assert [result["stdout"] for result in told] == [
        "a.txt:2:needle 1\nb.md:1:needle 2\n",
        "b.md:1:needle 2\n",
        "",
        "a.txt:2:needle 1\n",
    ]
    assert [result["ok"] for result in told] == [True] * 4
    assert "next_page_cursor" in told[3]


async def test_grep_cuts_a_large_output(speak: Speak, work: Path) -> None:
    """Tool-by-tool E2E: many hits are cut, and the cut is marked."""
    (work / "a.txt").write_text("needle\n" * 5000)
    async with speak("autonous", config=settings(work)) as say:
        told = await say("grep", path=".", pattern="needle", limit=5000)
    assert (told["truncated_lines"], told["stdout"].count("\n") <= 2000) == (True, True)


async def test_read_gives_a_part_by_bytes(speak: Speak, work: Path) -> None:
    """read: path, offset, limit_bytes; a piece of the file."""
    (work / "a.txt").write_text("0123456789")
    async with speak("autonous", config=settings(work)) as say:
        told = [
            await say("read", path="a.txt"),
            await say("read", path="a.txt", offset=4),
            await say("read", path="a.txt", limit_bytes=5),
            await say("read", path="a.txt", offset=2, limit_bytes=5),
        ]
        beyond = await say("read", path="../a.txt")
    assert [result["stdout"] for result in told] == ["0123456789", "456789", "01234", "23456"]
    assert beyond["meta"]["error_class"] == "policy"


@pytest.mark.parametrize(("size", "text"), [(1, "a"), (2, "a"), (3, "aä"), (4, "aä\n"), (5, "aä\nb")])
async def test_read_gives_no_byte_more_than_it_is_asked_for(speak: Speak, work: Path, size: int, text: str) -> None:
    """首批工具规格 read: limit_bytes; a character is never torn, and the first one comes whole."""
    (work / "a.txt").write_text("aä\nbcd\n")
    async with speak("autonous", config=settings(work)) as say:
        told = await say("read", path="a.txt", limit_bytes=size)
        wide = await say("read", path="a.txt", offset=1, limit_bytes=1)
    assert (told["stdout"], wide["stdout"], told["truncated_bytes"]) == (text, "ä", True)


@pytest.mark.parametrize("args", [{}, {"limit_bytes": 700}, {"offset": 100, "limit_bytes": 700}])
async def test_read_goes_on_with_its_cursor(speak: Speak, work: Path, args: dict[str, int]) -> None:
    """read: a file that is too long for one answer comes page by page, whole."""
    text = "".join(f"line {number}\n" for number in range(2000))
    (work / "a.txt").write_text(text)
    found, cursor = "", None
    async with speak("autonous", config=settings(work, MAX_OUTPUT_LINES="300")) as say:
        for _ in range(100):
            told = await say("read", {"path": "a.txt", **(args if cursor is None else {"cursor": cursor})})
            found, cursor = found + told["stdout"], told.get("next_page_cursor")
            if cursor is None:
                break
        wrong = await say("read", path="a.txt", cursor='{"path": "/etc/passwd"}')
    assert found == text[args.get("offset", 0) :]
    assert wrong["meta"]["error"]["code"] == "INVALID_ARGS"


async def test_write_overwrites_and_appends(speak: Speak, work: Path) -> None:
    """write: path, content, mode; gives the bytes written, and reading them back agrees."""
    (work / "a.txt").write_text("former")
    async with speak("autonous", config=settings(work)) as say:
        over = await say("write", path="a.txt", content="one\n", mode="overwrite")
        more = await say("write", path="a.txt", content="two\n", mode="append")
        back = await say("read", path="a.txt")
        fresh = await say("write", path="b.txt", content="größe", mode="append")
        wrong = await say("write", path="b.txt", content="x", mode="prepend")
    assert (over["stdout"], more["stdout"], back["stdout"], fresh["stdout"]) == ("4\n", "4\n", "one\ntwo\n", "7\n")
    assert wrong["meta"]["error_class"] == "validation"


async def test_write_replaces_a_file_that_was_not_read_and_keeps_what_was_there(speak: Speak, work: Path) -> None:
    """write: overwrite needs no reading before; what it replaced can be put back."""
    (work / "a.txt").write_text("former")
    async with speak("autonous", config=settings(work)) as say:
        await say("write", path="a.txt", content="new")
        await say.runtime.undo(say.last.call_id)
    assert (work / "a.txt").read_text() == "former"


async def test_edit_replaces_once_or_everywhere(speak: Speak, work: Path) -> None:
    """edit: path, find, replace, all; gives the number of replacements."""
    (work / "a.txt").write_text("x x x")
    async with speak("autonous", config=settings(work)) as say:
        once = await say("edit", path="a.txt", find="x", replace="y")
        after = (work / "a.txt").read_text()
        rest = await say("edit", path="a.txt", find="x", replace="z", all=True)
    assert (once["stdout"], after, rest["stdout"], (work / "a.txt").read_text()) == ("1\n", "y x x", "2\n", "y z z")


async def test_edit_says_where_nothing_matches(speak: Speak, work: Path) -> None:
    """Tool-by-tool E2E: no match is a failure, and the file stays."""
    (work / "a.txt").write_text("one")
    async with speak("autonous", config=settings(work)) as say:
        told = await say("edit", path="a.txt", find="absent", replace="y")
    assert (told["ok"], told["meta"]["error"]["code"], (work / "a.txt").read_text()) == (False, "NO_MATCH", "one")


async def test_bash_gives_both_streams_and_the_exit_code(speak: Speak, work: Path) -> None:
    """bash: cmd, workdir, timeout_seconds; stdout, stderr, exit_code."""
    (work / "sub").mkdir()
    async with speak("autonous", config=settings(work)) as say:
        told = await say("bash", cmd="basename $PWD; echo no >&2; exit 3", workdir="sub")
        fine = await say("bash", cmd="echo yes; echo note >&2")
    assert (told["ok"], told["exit_code"], told["stdout"], told["stderr"]) == (False, 3, "sub\n", "no\n")
    assert told["meta"]["error"]["message"].endswith("ended with exit code 3.")
    assert (fine["ok"], fine["exit_code"], fine["stdout"], fine["stderr"]) == (True, 0, "yes\n", "note\n")


async def test_bash_is_bash(speak: Speak, work: Path) -> None:
    """M4 默认命令映射: bash reads the line, with what no plain sh has."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say("bash", cmd='words=(one two); [[ ${words[1]} == t* ]] && echo "${BASH##*/} ${words[1]^^}"')
    assert (told["exit_code"], told["stdout"]) == (0, "bash TWO\n")


async def test_bash_ends_at_its_own_time_limit_and_keeps_what_it_wrote(speak: Speak, work: Path) -> None:
    """Tool-by-tool E2E: a timeout is told, and the output until then."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say("bash", cmd="echo begun; sleep 60", timeout_seconds=1)
    assert (told["ok"], told["exit_code"], told["stdout"], told["meta"]["error_class"]) == (
        False,
        1,
        "begun\n",
        "timeout",
    )


async def test_no_call_changes_what_the_schema_does_not_name(speak: Speak, work: Path) -> None:
    """Safety Policy 2: arguments are checked against each tool's own schema, nothing is mended."""
    for word in dialects.get("autonous").words.values():
        with pytest.raises(Problem, match=r"one of|did you mean"):
            check(word.args, {**dict.fromkeys(word.args["required"], "x"), "surplus": 1}, repair=False)


async def test_a_bad_request_is_refused_and_the_next_one_works(speak: Speak, work: Path) -> None:
    """E2E: illegal arguments and unknown tools from a model do no harm."""
    async with speak("autonous", config=settings(work)) as say:
        told = await say.handle(
            {"tool_calls": [{"name": "rm", "arguments": {}}, {"name": "ls", "arguments": {"path": 7}},
                            {"name": "ls", "arguments": {"path": "."}}]}
        )  # fmt: skip
    assert [result["ok"] for result in told] == [False, False, True]
