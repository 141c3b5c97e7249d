"""skills-agent, promise by promise; each docstring begins with the section of its document.

Longer than 500 lines because every promise of the document is a test of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dialects._speaking import Speak, skill
from fronts.terminal import MAIN, at_terminal
from handrail import Decision, dialects
from handrail.approvals.show import coverage, plain
from handrail.ports import Reply
from handrail.settings import foreign
from handrail.testing import ScriptedApprover
from serving import serving

SEVEN = ["read_file", "list_dir", "grep", "run_script", "write_file", "delete_file", "network_request"]
SECRET = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
FILL = "import sys\nprint('filled', *sys.argv[1:])\n"
WHO = {"name": "pdf-form-filler", "source": "project"}
RUN = {"skill": WHO, "relative_path": "scripts/fill.py", "args": ["--input", "data.json"]}
SCRIPTS = {"tools": {"enable": ["run_script"]}, "runs_dir": "../runs"}
ALL = {"tools": {"enable": ["run_script", "write_file", "delete_path", "http_fetch"]}}


def yes() -> ScriptedApprover:
    """A person who approves each call."""
    return ScriptedApprover("once")


# ── 1 position ───────────────────────────────────────────────────────────────────────────────


async def test_a_call_is_checked_before_it_is_executed(speak: Speak, work: Path) -> None:
    """1: arguments, paths and permissions first; a refused call did nothing."""
    async with speak("skills-agent", start="skills-agent", config=ALL, mode="headless") as say:
        await say("write_file", path="a.txt", content="x")
        await say("write_file", path="../a.txt", content="x")
        await say("write_file", path="a.txt")
        kinds = [event["kind"] for event in say.journal() if event["kind"].startswith("tool.")]
    assert (kinds, list(work.rglob("a.txt"))) == (["tool.failed"] * 3, [])


async def test_every_call_leaves_a_record(speak: Speak) -> None:
    """1: unified audit."""
    async with speak("skills-agent", start="skills-agent") as say:
        for path in (".", "../x", "missing"):
            await say("list_dir", path=path)
        assert [record["tool"] for record in say.events()] == ["list_dir"] * 3


# ── 2 tools ──────────────────────────────────────────────────────────────────────────────────


async def test_exactly_the_seven_tools_are_listed(speak: Speak) -> None:
    """2.1: the smallest set, and the high-risk ones of 2.2."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert list(say.specs()) == SEVEN


async def test_only_the_reading_tools_are_on(speak: Speak) -> None:
    """3.2: default only read_file, list_dir, grep."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert list(say.specs(every=False)) == ["read_file", "list_dir", "grep"]


CALLS: dict[str, dict[str, Any]] = {
    "run_script": RUN,
    "write_file": {"path": "new.txt", "content": "x"},
    "delete_file": {"path": "a.txt"},
    "network_request": {"url": "https://example.org/"},
}


@pytest.mark.parametrize("name", ["write_file", "delete_file", "network_request"])
async def test_a_high_risk_tool_is_off_by_default(speak: Speak, name: str) -> None:
    """2.2: write_file, delete_file, network_request."""
    async with speak("skills-agent", start="skills-agent", approver=yes()) as say:
        told = await say(name, CALLS[name])
    assert told["error"]["type"] == "ToolNotAllowed"


@pytest.mark.parametrize("name", ["write_file", "delete_file", "network_request"])
async def test_a_high_risk_tool_asks_even_when_it_is_enabled(speak: Speak, work: Path, name: str) -> None:
    """2.2: approval is forced."""
    (work / "a.txt").write_text("x")
    config = {**ALL, "http": {"allowed_hosts": ["example.org"]}}
    async with speak("skills-agent", start="skills-agent", config=config, mode="headless") as say:
        told = await say(name, CALLS[name])
    assert told["error"]["type"] == "ApprovalRequired"


@pytest.mark.parametrize("name", ["write_file", "delete_file", "network_request"])
async def test_a_refused_high_risk_call_can_be_replayed(speak: Speak, work: Path, name: str) -> None:
    """2.2: a request that can be replayed, for CI: the line names the approval that a person gives later."""
    (work / "a.txt").write_text("x")
    config = {**ALL, "http": {"allowed_hosts": ["example.org"]}}
    async with speak("skills-agent", start="skills-agent", config=config, mode="headless") as say:
        told = await say(name, CALLS[name])
        waiting = [request.id for request in say.runtime.parts.ledger.pending(say.runtime.parts.clock.now())]
    request = told["error"]["details"]["approval"]
    wanted = CALLS[name] | ({"method": "GET"} if name == "network_request" else {})
    assert (request["tool"], request["params"], len(waiting)) == (name, wanted, 1)
    assert shlex.split(request["replay"])[:2] == ["handrail", "call"]
    assert f"--approval {waiting[0]}" in request["replay"]


@pytest.mark.parametrize("name", ["write_file", "delete_file"])
async def test_an_approved_request_is_replayed_as_it_was(speak: Speak, work: Path, name: str) -> None:
    """4.2: a person approves the request elsewhere; the same call with its approval runs, another one does not."""
    (work / "a.txt").write_text("x")
    async with speak("skills-agent", start="skills-agent", config=ALL, mode="headless") as say:
        await say(name, CALLS[name])
        ledger = say.runtime.parts.ledger
        (request,) = ledger.pending(say.runtime.parts.clock.now())
        ledger.answer(request.id, Reply("granted", by="ann"))
        other = await say.call(name, {**CALLS[name], "path": "b.txt"}, approval=request.id)
        told = await say.call(name, CALLS[name], approval=request.id)
    assert (other["ok"], told["ok"]) == (False, True)
    assert sorted(path.name for path in work.glob("*.txt")) == (["a.txt", "new.txt"] if name == "write_file" else [])


async def test_an_approved_write_gives_size_and_hash(speak: Speak, work: Path) -> None:
    """2.2: write_file, once it is enabled and approved."""
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=yes()) as say:
        told = await say("write_file", path="a.txt", content="x")
    assert told == {"ok": True, "bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    assert (work / "a.txt").read_text() == "x"


async def test_an_approved_delete_removes_the_file(speak: Speak, work: Path) -> None:
    """2.2: delete_file, once it is enabled and approved."""
    (work / "a.txt").write_text("x")
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=yes()) as say:
        told = await say("delete_file", path="a.txt")
    assert (told["ok"], told["path"], (work / "a.txt").exists()) == (True, "a.txt", False)


async def test_an_approved_request_reaches_the_network(speak: Speak) -> None:
    """2.2: network_request, once it is enabled, the host is named and a person approved."""
    async with serving() as server:
        server.on("/a", b"hello", headers={"Content-Type": "text/plain"})
        hosts = {"allowed_hosts": [f"127.0.0.1:{server.port}"], "allowed_networks": ["127.0.0.0/8"]}
        config = {**ALL, "http": hosts}
        async with speak("skills-agent", start="skills-agent", config=config, approver=yes()) as say:
            told = await say("network_request", url=server.url("/a"))
    assert (told["ok"], told["status"], told["text"], [asked.method for asked in server.asked]) == (
        True, 200, "hello", ["GET"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("risk", "names"),
    [
        ("low", ["read_file", "list_dir", "grep"]),
        ("medium", ["run_script"]),
        ("high", ["write_file", "delete_file", "network_request"]),
    ],
)
async def test_risk_has_three_levels(speak: Speak, risk: str, names: list[str]) -> None:
    """2.3: low reads, medium executes, high writes, deletes or reaches out."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert [name for name, spec in say.specs().items() if spec["risk"] == risk] == names


async def test_the_risk_is_in_the_audit(speak: Speak) -> None:
    """2.3: risk marks the record."""
    async with speak("skills-agent", start="skills-agent") as say:
        await say("list_dir", path=".")
        await say("write_file", path="a", content="x")
        assert [record["risk"] for record in say.events()] == ["low", "high"]


# ── 3 permissions ────────────────────────────────────────────────────────────────────────────


async def test_global_settings_are_the_first_set(speak: Speak) -> None:
    """3.1: what settings do not allow, nobody may call."""
    async with speak("skills-agent", config=foreign.skills_agent(["read_file", "run_script"])) as say:
        names, told = list(say.specs(every=False)), await say("list_dir", path=".")
    assert (names, told["error"]["type"]) == (["read_file", "run_script"], "ToolNotAllowed")


async def test_a_skill_narrows_what_settings_allow(speak: Speak, work: Path) -> None:
    """3.1: ∩ allowed-tools of the skill, in the document's names."""
    skill(work, header="allowed-tools: read_file network_request\n")
    (work / "a.txt").write_text("x")
    async with speak("skills-agent", start="skills-agent") as say:
        fine = await say.call("read_file", {"path": "a.txt"}, skill="pdf-form-filler")
        told = await say.call("list_dir", {"path": "."}, skill="pdf-form-filler")
    assert (fine["ok"], told["error"]["type"]) == (True, "ToolNotAllowed")


async def test_a_skill_widens_nothing(speak: Speak, work: Path) -> None:
    """3.1: an intersection: what only the skill allows stays off."""
    skill(work, header="allowed-tools: read_file write_file\n")
    async with speak("skills-agent", start="skills-agent", approver=yes()) as say:
        told = await say.call("write_file", {"path": "a.txt", "content": "x"}, skill="pdf-form-filler")
    assert (told["error"]["type"], (work / "a.txt").exists()) == ("ToolNotAllowed", False)


async def test_the_mode_narrows_further(speak: Speak, work: Path) -> None:
    """3.1: ∩ runtime policy: the same call asks at a terminal and is refused in CI."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, mode="headless") as say:
        refused = await say("run_script", RUN)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=yes()) as say:
        ran = await say("run_script", RUN)
    assert (refused["error"]["type"], ran["ok"]) == ("ApprovalRequired", True)


@pytest.mark.parametrize(
    ("narrowed", "place", "denied"),
    [
        ({"risk": "high"}, "", ["write_file"]),
        ({"risk": "medium"}, "", []),
        ({"risk": "low"}, "", ["read_file"]),
        ({"environment": "ci"}, "ci", ["write_file", "read_file"]),
        ({"environment": "ci"}, "desk", []),
        ({"environment": "ci"}, "", []),
        ({"risk": "high", "environment": "ci"}, "ci", ["write_file"]),
        ({"risk": "high", "environment": "ci"}, "desk", []),
    ],
)
async def test_rules_narrow_by_risk_and_environment(
    speak: Speak, work: Path, narrowed: dict[str, str], place: str, denied: list[str]
) -> None:
    """3.1: ∩ runtime policy: a rule is about one level of risk, about the environment that settings name, or both."""
    (work / "a.txt").write_text("x")
    rules = [{"effect": "deny", "touch": "fs.*", "why": "not here", **narrowed}]
    config = {**ALL, "rules": rules, "environment": place}
    async with speak("skills-agent", start="skills-agent", config=config, approver=yes()) as say:
        told = {
            "write_file": await say("write_file", path="b.txt", content="x"),
            "read_file": await say("read_file", path="a.txt"),
        }
    assert {name: told[name]["error"]["type"] for name in told if not told[name]["ok"]} == dict.fromkeys(
        denied, "ToolNotAllowed"
    )
    assert (work / "b.txt").exists() is ("write_file" not in denied)


async def test_run_script_needs_to_be_enabled(speak: Speak, work: Path) -> None:
    """3.2: explicitly."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", approver=yes()) as say:
        assert (await say("run_script", RUN))["error"]["type"] == "ToolNotAllowed"


async def test_an_enabled_script_asks_by_default(speak: Speak, work: Path) -> None:
    """3.2: once for each call."""
    skill(work, fill__py=FILL)
    approver = ScriptedApprover("once")
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=approver) as say:
        told = [await say("run_script", RUN) for _ in range(2)]
    assert ([result["ok"] for result in told], len(approver.asked)) == ([True, True], 2)


async def test_a_script_can_be_approved_for_the_run(speak: Speak, work: Path) -> None:
    """3.2: "this run is authorised": one answer, then other scripts and arguments run, in this run only."""
    skill(work, fill__py=FILL, more__py=FILL)
    asked = []
    for run_id in ("one", "two"):
        approver = ScriptedApprover("run")
        config = {"tools": SCRIPTS["tools"]}
        async with speak("skills-agent", start="skills-agent", config=config, approver=approver, run_id=run_id) as say:
            told = [
                await say("run_script", RUN),
                await say("run_script", {**RUN, "args": ["other"]}),
                await say("run_script", {**RUN, "relative_path": "scripts/more.py"}),
            ]
            scopes = [record["policy"]["approval_scope"] for record in say.events() if "policy" in record]
        assert ([result["ok"] for result in told], scopes) == ([True] * 3, ["run"] * 3)
        asked.append(len(approver.asked))
    assert asked == [1, 1]


async def test_a_script_may_be_held_to_the_approved_one(speak: Speak, work: Path) -> None:
    """3.2: where settings say so, the answer for the run is for this script, these arguments, this content."""
    folder = skill(work, fill__py=FILL)
    approver = ScriptedApprover("run")
    config = {"tools": SCRIPTS["tools"], "approvals": {"run_covers": "target"}}
    async with speak("skills-agent", start="skills-agent", config=config, approver=approver) as say:
        asked = []
        for args in (["a"], ["a"], ["b"]):
            await say("run_script", {**RUN, "args": args})
            asked.append(len(approver.asked))
        (folder / "scripts/fill.py").write_text("print('changed')\n")
        told = await say("run_script", {**RUN, "args": ["a"]})
        asked.append(len(approver.asked))
    assert (asked, told["stdout"]) == ([1, 1, 2, 3], "changed\n")


async def test_one_approval_serves_one_call(speak: Speak, work: Path) -> None:
    """3.3: scope call: asked again each time."""
    approver = ScriptedApprover("once")
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=approver) as say:
        for name in ("a", "b"):
            await say("write_file", path=f"{name}.txt", content="x")
    assert len(approver.asked) == 2


async def test_the_same_kind_of_tool_uses_an_approval_for_the_run_again(speak: Speak, work: Path) -> None:
    """3.3: scope run: another file is written without asking; another kind of tool asks for itself."""
    approver = ScriptedApprover("run")
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=approver) as say:
        told = [await say("write_file", path=f"{name}.txt", content=name) for name in "abc"]
        await say("delete_file", path="a.txt")
        await say("delete_file", path="b.txt")
    assert [result["ok"] for result in told] == [True] * 3
    assert [request.tool for request in approver.asked] == ["write_file", "delete_path", "delete_path"]


async def test_a_person_is_shown_what_an_approval_for_the_run_covers(speak: Speak, work: Path) -> None:
    """3.3: every target of the tool; what makes programs run elsewhere is never among them."""
    approver = ScriptedApprover("run")
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=approver) as say:
        for path in ("a.txt", ".vscode/tasks.json", "b.txt"):
            await say("write_file", path=path, content="x")
    shown = [plain(coverage(request)).splitlines() for request in approver.asked]
    assert [lines[-1].partition("fs.write ")[2] for lines in shown] == [
        "of any target, with any arguments (**)", ".vscode/tasks.json",
    ]  # fmt: skip


@pytest.mark.parametrize(("most", "scope"), [("call", "call"), ("run", "run"), ("session", "session")])
async def test_the_operator_sets_the_widest_scope(speak: Speak, most: str, scope: str) -> None:
    """3.3: three grains, from strict to wide: a person who says session is held to what settings allow."""
    config = {**ALL, "approvals": {"max_scope": most}}
    approver = ScriptedApprover("session")
    async with speak("skills-agent", start="skills-agent", config=config, approver=approver) as say:
        await say("write_file", path="a.txt", content="x")
        record = say.events()[-1]
    assert record["policy"] == {"approved": True, "approval_scope": scope}


async def test_session_scope_is_not_given_by_default(speak: Speak) -> None:
    """3.3: a person who says session is held to the run."""
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=ScriptedApprover("session")) as say:
        await say("write_file", path="a.txt", content="x")
        record = say.events()[-1]
    assert record["policy"]["approval_scope"] == "run"


async def test_grants_are_in_the_folder_of_the_run(speak: Speak, work: Path) -> None:
    """3.3: on record, so that they can be audited and replayed."""
    approver = ScriptedApprover("run")
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=approver, run_id="one") as say:
        await say("write_file", path="a.txt", content="x")
    grants = json.loads((work / ".agent/runs/one/grants.json").read_text())
    assert [(grant["tool"], grant["given_by"]) for grant in grants] == [("write_file", "script")]


async def test_a_grant_is_found_again_when_the_run_is_opened_again(speak: Speak, work: Path) -> None:
    """3.3: replayed: the person is asked in the first opening only."""
    asked = []
    for text in ("1", "2"):
        approver = ScriptedApprover("run")
        async with speak("skills-agent", start="skills-agent", config=ALL, approver=approver, run_id="one") as say:
            await say("read_file", path="a.txt")
            told = await say("write_file", path="a.txt", content=text)
        asked.append(len(approver.asked))
    assert (told["ok"], asked, (work / "a.txt").read_text()) == (True, [1, 0], "2")


# ── 4 approvals ──────────────────────────────────────────────────────────────────────────────

PRINTED = """{
  "tool": "run_script",
  "risk": "medium",
  "reason": "Skill pdf-form-filler requested script execution",
  "params": {
    "skill": {"name": "pdf-form-filler", "source": "project"},
    "relative_path": "scripts/fill.py",
    "args": ["--input", "data.json"]
  },
  "replay": "agent run --approve run_script --skill pdf-form-filler -- scripts/fill.py --input data.json"
}"""
REPLAY = "handrail call run_script --skill pdf-form-filler --approve -- scripts/fill.py --input data.json"


def test_the_replay_line_names_a_skill_of_another_source_with_it() -> None:
    """4.2: a user's skill may have the name of a project's: the line leads to the one that was asked for."""
    request = {"tool": "run_script", "id": "apr_1", "params": {"skill": "user:x", "script": "scripts/a.py"}}
    told = dialects.get("skills-agent").approval({**request, "replay": {"command": "handrail call --approval apr_1"}})
    assert told["replay"] == "handrail call run_script --skill user:x --approve -- scripts/a.py"


async def required(speak: Speak, work: Path) -> dict[str, Any]:
    """The approval_required event of a script, where nobody can be asked."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, mode="headless") as say:
        await say("run_script", RUN)
        return next(event for event in say.events() if event.get("event") == "approval_required")


async def test_an_approval_request_has_the_printed_form(speak: Speak, work: Path) -> None:
    """4.3: byte for byte, but for the program that replays it."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, mode="headless") as say:
        told = await say("run_script", RUN)
    wanted = json.loads(PRINTED)
    assert json.dumps(told["error"]["details"]["approval"]) == json.dumps({**wanted, "replay": REPLAY})


async def test_the_request_tells_tool_parameters_risk_and_replay(speak: Speak, work: Path) -> None:
    """4.1: what a person needs to decide."""
    event = await required(speak, work)
    assert (event["tool"], event["risk"], event["params"], event["replay"]) == ("run_script", "medium", RUN, REPLAY)


async def test_the_request_tells_what_would_be_touched(speak: Speak, work: Path) -> None:
    """4.1: the impact."""
    event = await required(speak, work)
    assert event["impact"]["runs"] == ["project:pdf-form-filler/scripts/fill.py --input data.json"]


async def test_approval_required_is_an_event(speak: Speak, work: Path) -> None:
    """4.1: approval_required."""
    assert (await required(speak, work))["event"] == "approval_required"


async def answered(speak: Speak, work: Path, word: str) -> list[str]:
    """The names of the events of a script that a person answered for."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=ScriptedApprover(word)) as say:
        await say("run_script", RUN)
        return [event.get("event", "audit") for event in say.events()]


async def test_approval_granted_is_an_event(speak: Speak, work: Path) -> None:
    """4.1: approval_granted, then the call."""
    assert await answered(speak, work, "once") == ["approval_required", "approval_granted", "audit"]


async def test_approval_denied_is_an_event(speak: Speak, work: Path) -> None:
    """4.1: approval_denied."""
    assert await answered(speak, work, "no") == ["approval_required", "approval_denied", "audit"]


async def test_nobody_to_ask_is_a_structured_refusal(speak: Speak, work: Path) -> None:
    """4.2: in CI the default is no."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, mode="headless") as say:
        told = await say("run_script", RUN)
    assert (told["ok"], told["error"]["type"], sorted(told["error"])) == (
        False, "ApprovalRequired", ["details", "message", "type"],
    )  # fmt: skip


def command(work: Path, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `handrail` in the workspace."""
    start = [sys.executable, "-c", MAIN, *argv]
    return subprocess.run(start, cwd=work, input=stdin, capture_output=True, text=True, check=False, timeout=60)


def settings_flags(tmp_path: Path, kind: str) -> list[str]:
    """Say on a command line which settings count: a preset, or a file in the document's own form."""
    if kind == "preset":
        return ["--dialect", "skills-agent", "--preset", "skills-agent", "--enable", "run_script"]
    (tmp_path / "sa.json").write_text(json.dumps({"allowed_tools": ["read_file", "run_script"]}))
    return ["--dialect", "skills-agent", "--config", str(tmp_path / "sa.json")]


@pytest.mark.parametrize("kind", ["preset", "config"])
def test_the_replay_line_is_what_the_command_line_takes(work: Path, tmp_path: Path, own_user: Path, kind: str) -> None:
    """4.2: the printed line, word by word, with its dialect and settings: a person at a terminal runs it."""
    skill(work, fill__py=FILL)
    asked = ["call", "run_script", *settings_flags(tmp_path, kind), "--headless", "--json", "--args", json.dumps(RUN)]
    told = command(work, *asked)
    line = json.loads(told.stdout)["error"]["details"]["approval"]["replay"]
    assert (told.returncode, "--dialect skills-agent" in line, f"--{kind} " in line) == (4, True, True)
    with at_terminal(shlex.split(line)[1:], work, dict(os.environ)) as terminal:
        terminal.wait_for("Answer (once, no, advice):")
        terminal.type("once\n")
        assert terminal.end() == 0
    assert "filled --input data.json" in terminal.shown


def test_a_request_over_mcp_is_replayed_under_its_settings(work: Path, tmp_path: Path, own_user: Path) -> None:
    """4.2: granted elsewhere, the line that is on record runs it: it names dialect and settings."""
    (work / "a.txt").write_text("x")
    (tmp_path / "sa.toml").write_text(
        'mode = "headless"\ntools.enable = ["delete_path"]\napprovals.keep_after_run = true\n'
    )
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "delete_file", "arguments": {"path": "a.txt"}}},
    ]  # fmt: skip
    settings = ["--dialect", "skills-agent", "--config", str(tmp_path / "sa.toml")]
    server = command(work, "mcp", *settings, stdin="".join(f"{json.dumps(line)}\n" for line in lines))
    answers = [json.loads(line) for line in server.stdout.splitlines()]
    result = next(answer["result"] for answer in answers if answer.get("id") == 2)
    line = result["structuredContent"]["error"]["details"]["approval"]["replay"]
    request = shlex.split(line)[shlex.split(line).index("--approval") + 1]
    digest = json.loads(command(work, "approvals", "show", request, "--json").stdout)["grant_digest"]
    assert command(work, "approvals", "grant", request, "--digest", digest).returncode == 0
    told = command(work, *shlex.split(line)[1:])
    assert (told.returncode, told.stderr, (work / "a.txt").exists()) == (0, "", False)


async def test_a_tool_on_the_white_list_runs_without_asking(speak: Speak, work: Path) -> None:
    """4.2: or a white list in the configuration: scripts need nobody then, everything else still does."""
    skill(work, fill__py=FILL)
    (work / "a.txt").write_text("x")
    rule = {"effect": "allow", "tool": "run_script", "touch": "proc.exec", "why": "its scripts were reviewed"}
    async with speak("skills-agent", config={**ALL, "runs_dir": "../runs", "rules": [rule]}, mode="headless") as say:
        told, other = await say("run_script", RUN), await say("delete_file", path="a.txt")
        record = next(one for one in say.events() if one["tool"] == "run_script")
    assert (told["stdout"], other["error"]["type"]) == ("filled --input data.json\n", "ApprovalRequired")
    assert record["policy"] == {"approved": False, "approval_scope": "none"}


# ── 5.1 read_file ────────────────────────────────────────────────────────────────────────────


async def test_reading_stays_beneath_the_roots(speak: Speak) -> None:
    """5.1: allowed roots."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert (await say("read_file", path="/etc/passwd"))["error"]["type"] == "PathTraversalBlocked"


async def test_a_file_of_a_skill_can_be_read(speak: Speak, work: Path, own_user: Path) -> None:
    """5.1: the folders of skills are among the roots, the user's as well, and nothing beside them."""
    skill(work)
    theirs = own_user / ".claude/skills/letters"
    theirs.mkdir(parents=True)
    (theirs / "SKILL.md").write_text("---\nname: letters\ndescription: Writes letters.\n---\n\nDear you.\n")
    (own_user / ".claude/notes.txt").write_text("private\n")
    config = {"workspace": {"allow_absolute": True}}
    async with speak("skills-agent", start="skills-agent", config=config) as say:
        paths = (".agents/skills/pdf-form-filler/SKILL.md", f"{theirs}/SKILL.md", f"{own_user}/.claude/notes.txt")
        told = [await say("read_file", path=path) for path in paths]
    assert [result["ok"] for result in told] == [True, True, False]
    assert told[1]["content_excerpt"].endswith("Dear you.\n")
    assert told[2]["error"]["type"] == "PathTraversalBlocked"


async def test_further_roots_are_listed_by_settings(speak: Speak, work: Path, tmp_path: Path) -> None:
    """5.1: or by configuration: what it names can be read, and not written."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.txt").write_text("x\n")
    place = {"read": [str(tmp_path / "more")], "allow_absolute": True}
    config = {**ALL, "workspace": place}
    async with speak("skills-agent", start="skills-agent", config=config, approver=yes()) as say:
        told = await say("read_file", path=f"{tmp_path}/more/a.txt")
        refused = await say("write_file", path=f"{tmp_path}/more/b.txt", content="x")
        other = await say("read_file", path=f"{tmp_path}/b.txt")
    assert (told["content_excerpt"], refused["error"]["type"], other["error"]["type"]) == (
        "x\n", "PathTraversalBlocked", "PathTraversalBlocked",
    )  # fmt: skip


async def test_one_read_gives_so_many_bytes_at_most(speak: Speak, work: Path) -> None:
    """5.1: limit of a single read."""
    (work / "a.txt").write_text("line of text\n" * 20_000)
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("read_file", path="a.txt")
    assert (len(told["content_excerpt"]) <= 51200, told["truncated"]) == (True, True)


async def test_a_large_file_gives_an_excerpt_and_where_the_whole_is(speak: Speak, work: Path) -> None:
    """5.1: excerpt and reference."""
    (work / "a.txt").write_text("line of text\n" * 20_000)
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("read_file", path="a.txt")
        rest = await say("read_file", path=told["storage_ref"], offset=19_999)
    assert rest["content_excerpt"].startswith("line of text\n")


async def test_a_read_gives_excerpt_hash_and_whether_it_was_cut(speak: Speak, work: Path) -> None:
    """5.1: content_excerpt, sha256, truncated, and storage_ref where something was left out."""
    (work / "a.txt").write_text("x\n")
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("read_file", path="a.txt")
    digest = hashlib.sha256(b"x\n").hexdigest()
    assert told == {"ok": True, "content_excerpt": "x\n", "sha256": digest, "truncated": False}


# ── 5.2 list_dir, 5.3 grep ───────────────────────────────────────────────────────────────────


async def test_listing_stays_beneath_the_roots(speak: Speak) -> None:
    """5.2: roots."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert (await say("list_dir", path=".."))["error"]["type"] == "PathTraversalBlocked"


async def test_listing_has_a_limit_of_entries(speak: Speak, work: Path) -> None:
    """5.2: so many entries, and where to go on."""
    for number in range(600):
        (work / f"{number:03}").touch()
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("list_dir", path=".")
        rest = await say("list_dir", path=".", cursor=told["next_cursor"])
    assert (len(told["entries"]), told["truncated"], len(rest["entries"])) == (500, True, 100)


async def test_listing_leaves_sensitive_files_out(speak: Speak, work: Path) -> None:
    """5.2: hidden by default, and counted."""
    for name in (".env", "a.txt", ".hidden"):
        (work / name).touch()
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("list_dir", path=".")
    assert ([entry["name"] for entry in told["entries"]], told["hidden"] + told["protected"] > 0) == (["a.txt"], True)


async def test_what_is_sensitive_is_a_setting(speak: Speak, work: Path) -> None:
    """5.2: configurable: a name that settings protect is left out and counted, one they do not is shown."""
    for name in ("a.txt", "payroll.csv"):
        (work / name).touch()
    told = []
    for names in ([], ["payroll*"]):
        config = {"workspace": {"protected": names}}
        async with speak("skills-agent", start="skills-agent", config=config) as say:
            found = await say("list_dir", path=".")
        told.append(([entry["name"] for entry in found["entries"]], found["protected"]))
    assert told == [(["a.txt", "payroll.csv"], 0), (["a.txt"], 1)]


async def test_searching_stays_beneath_the_roots(speak: Speak) -> None:
    """5.3: roots."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert (await say("grep", pattern="x", path="../.."))["error"]["type"] == "PathTraversalBlocked"


async def test_searching_can_be_limited_to_kinds_of_files(speak: Speak, work: Path) -> None:
    """5.3: file types."""
    for name in ("a.py", "a.txt"):
        (work / name).write_text("needle\n")
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("grep", pattern="needle", glob="*.py")
    assert [row["file"] for row in told["matches"]] == ["a.py"]


async def test_a_search_that_finds_nothing_has_both_lists(speak: Speak, work: Path) -> None:
    """5.3: whichever was asked for is there, and empty."""
    (work / "a.txt").write_text("x\n")
    async with speak("skills-agent", start="skills-agent") as say:
        told = [await say("grep", pattern="needle", files_only=files) for files in (True, False)]
    assert told == [{"ok": True, "files": [], "matches": [], "truncated": False}] * 2


async def test_searching_has_a_limit_of_lines_and_cuts_long_ones(speak: Speak, work: Path) -> None:
    """5.3: lines of the result, and characters of a line."""
    (work / "a.txt").write_text("needle\n" * 300 + "needle" + "x" * 3000 + "\n")
    async with speak("skills-agent", start="skills-agent") as say:
        told, wide = await say("grep", pattern="needle"), await say("grep", pattern="needlex")
    assert (len(told["matches"]), told["truncated"], len(wide["matches"][0]["text"]) <= 600) == (100, True, True)


async def test_searching_gives_files_or_snippets(speak: Speak, work: Path) -> None:
    """5.3: as an argument says."""
    (work / "a.txt").write_text("needle\nneedle\n")
    async with speak("skills-agent", start="skills-agent") as say:
        snippets, files = await say("grep", pattern="needle"), await say("grep", pattern="needle", files_only=True)
    assert ([row["line"] for row in snippets["matches"]], files["files"]) == ([1, 2], ["a.txt"])


# ── 5.4 run_script ───────────────────────────────────────────────────────────────────────────


async def script(
    speak: Speak, work: Path, text: str, *, name: str = "fill__py", config: Mapping[str, Any] = SCRIPTS, **more: Any
) -> Any:
    """Run a script that a person approved."""
    skill(work, **{name: text})
    asked = {**RUN, "relative_path": f"scripts/{name.replace('__', '.')}", "args": [], **more}
    async with speak("skills-agent", start="skills-agent", config=config, approver=yes()) as say:
        return await say("run_script", asked)


@pytest.mark.parametrize("path", ["fill.py", "SKILL.md", "/usr/bin/env", "scripts", "scriptsfill.py"])
async def test_a_script_lies_in_scripts_of_its_skill(speak: Speak, work: Path, path: str) -> None:
    """5.4.1: <skill_dir>/scripts/ and nowhere else."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=yes()) as say:
        told = await say("run_script", {**RUN, "relative_path": path})
        kinds = [event["kind"] for event in say.journal() if event["kind"].startswith("tool.")]
    assert (told["error"]["type"], say.last.status, kinds) == ("PathTraversalBlocked", "denied", ["tool.failed"])
    assert "does not lie beneath scripts/ of the skill" in told["error"]["message"]


@pytest.mark.parametrize("path", ["scripts/../../../../evil.py", "../evil.py", "scripts/../SKILL.md"])
async def test_a_script_path_does_not_lead_out(speak: Speak, work: Path, path: str) -> None:
    """5.4.1: the same guard as for reading: dots."""
    skill(work, fill__py=FILL)
    (work / "evil.py").write_text(FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=yes()) as say:
        told = await say("run_script", {**RUN, "relative_path": path})
    assert told["error"]["type"] == "PathTraversalBlocked"


async def test_a_script_that_is_a_link_out_does_not_run(speak: Speak, work: Path) -> None:
    """5.4.1: the real path counts: a skill with such a link cannot be used, and the link is named."""
    folder = skill(work, fill__py=FILL)
    (folder / "scripts/link.py").symlink_to("/usr/bin/env")
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=yes()) as say:
        told = await say("run_script", {**RUN, "relative_path": "scripts/link.py"})
    assert (told["error"]["type"], told["error"]["details"]["problems"]) == (
        "ToolNotAllowed", ["scripts/link.py is a link that leads out of the skill's folder"],
    )  # fmt: skip


async def test_a_script_has_30_seconds(speak: Speak) -> None:
    """5.4.2: for example 30 s."""
    async with speak("skills-agent", start="skills-agent") as say:
        assert say.runtime.parts.loaded.settings.exec.timeout_seconds == 30


async def test_the_time_limit_of_a_script_is_a_setting(speak: Speak, work: Path) -> None:
    """5.4.2: configurable; a call may ask for another one."""
    config = {**SCRIPTS, "exec": {"timeout_seconds": 1.0}}
    skill(work, fill__py="import time\nprint('begun', flush=True)\ntime.sleep(3)\n")
    async with speak("skills-agent", start="skills-agent", config=config, approver=yes()) as say:
        told = await say("run_script", RUN)
        longer = await say("run_script", {**RUN, "timeout_seconds": 30})
    assert (told["timeout"], told["error"]["type"], told["stdout"], longer["ok"]) == (True, "Timeout", "begun\n", True)


WRITES = """import os, sys
print(os.getcwd())
for path in sys.argv[1:]:
    try:
        open(path, 'w').write('x')
        print('wrote')
    except OSError as error:
        print(error.strerror)
"""


async def test_a_script_works_in_the_sandbox_folder_of_the_run(speak: Speak, work: Path) -> None:
    """5.4.2: .agent/runs/<run_id>/sandbox/ holds its temporary files; nothing else in the workspace can be written."""
    (work / "old.txt").write_text("old")
    paths = ["out.txt", f"{work}/new.txt", f"{work}/old.txt", "../events.jsonl", f"{work}/.agents/skills/x.md"]
    told = await script(speak, work, WRITES, config={"tools": SCRIPTS["tools"]}, args=paths)
    folder, *wrote = told["stdout"].splitlines()
    assert re.fullmatch(rf"{work}/\.agent/runs/[^/]+/sandbox", folder)
    assert wrote == ["wrote", *["Read-only file system"] * 4]
    assert (Path(folder, "out.txt").read_text(), (work / "old.txt").read_text()) == ("x", "old")
    assert not (work / "new.txt").exists()


async def test_a_script_may_work_in_its_skill_when_asked(speak: Speak, work: Path) -> None:
    """5.4.2: explicitly."""
    told = await script(speak, work, "import os\nprint(os.getcwd())\n", cwd="skill")
    assert told["stdout"].rstrip() == f"{work}/.agents/skills/pdf-form-filler"


async def test_a_script_sees_a_clean_environment(speak: Speak, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.4.2: PATH and little else; nothing secret."""
    monkeypatch.setenv("MY_SECRET", "q8w7e6r5t4y3u2i1o0p9")
    monkeypatch.setenv("UNRELATED", "1")
    told = await script(speak, work, "import os\nprint(sorted(os.environ))\n")
    assert ("'PATH'" in told["stdout"], "MY_SECRET" in told["stdout"], "UNRELATED" in told["stdout"]) == (
        True,
        False,
        False,
    )


async def test_long_output_is_cut_and_kept_in_observations(speak: Speak, work: Path) -> None:
    """5.4.2: cut by size; the whole lies in observations/."""
    both = "import sys\nfor n in range(1500): print(f'{n:0100d}'); print(f'-{n:099d}', file=sys.stderr)\n"
    told = await script(speak, work, both)
    assert told["ok"] is True
    for stream, sign in (("stdout", "0"), ("stderr", "-")):
        whole = "".join(f"{sign}{number:099d}\n" for number in range(1500))
        kept = next(work.parent.glob(f"runs/*/{told[f'{stream}_ref']}"))
        assert (len(whole) > 51_200, len(told[stream].encode()) <= 51_200, kept.read_text()) == (True, True, whole)
        assert told[f"{stream}_ref"].startswith(f"observations/{stream}_")


async def test_arguments_are_an_array_of_bounded_texts(speak: Speak, work: Path) -> None:
    """5.4.3: an array; each element has a limit."""
    skill(work, fill__py=FILL)
    async with speak("skills-agent", start="skills-agent", config=SCRIPTS, approver=yes()) as say:
        told = [
            await say("run_script", {**RUN, "args": "--input data.json"}),
            await say("run_script", {**RUN, "args": ["x" * 4097]}),
            await say("run_script", {**RUN, "args": ["x"] * 65}),
        ]
    assert [result["error"]["details"]["code"] for result in told] == ["INVALID_ARGS"] * 3


async def test_no_shell_reads_the_arguments(speak: Speak, work: Path) -> None:
    """5.4.3: shell=False: what would be a command is text."""
    told = await script(speak, work, FILL, args=["; touch owned", "$(touch owned)", "`touch owned`"])
    assert told["stdout"] == "filled ; touch owned $(touch owned) `touch owned`\n"
    assert list(work.rglob("owned")) == []


async def test_a_bash_script_runs_by_path_and_arguments(speak: Speak, work: Path) -> None:
    """5.4.3: no line is put together."""
    told = await script(speak, work, 'printf "%s|" "$@"\n', name="go__sh", args=["a b", "c;d"])
    assert told["stdout"] == "a b|c;d|"


async def test_an_exit_code_is_an_error_with_both_streams(speak: Speak, work: Path) -> None:
    """5.4.4: ExitNonZero, with what the script wrote."""
    told = await script(speak, work, "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)\n")
    assert (told["error"]["type"], told["exit_code"], told["stdout"], told["stderr"], told["timeout"]) == (
        "ExitNonZero", 3, "out\n", "err\n", False,
    )  # fmt: skip


async def test_a_timeout_is_marked_and_keeps_the_output(speak: Speak, work: Path) -> None:
    """5.4.4: timeout=true."""
    told = await script(speak, work, "import time\nprint('begun', flush=True)\ntime.sleep(60)\n", timeout_seconds=2)
    assert (told["error"]["type"], told["timeout"], told["stdout"]) == ("Timeout", True, "begun\n")


# ── 6 output, 7 audit ────────────────────────────────────────────────────────────────────────


async def test_large_content_is_a_reference_with_its_hash(speak: Speak, work: Path) -> None:
    """6: storage_ref and sha256 instead of the content."""
    (work / "a.txt").write_text("line of text\n" * 20_000)
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("read_file", path="a.txt")
    digest = hashlib.sha256(("line of text\n" * 20_000).encode()).hexdigest()
    assert (told["sha256"], bool(told["storage_ref"])) == (digest, True)


async def test_a_read_can_be_replayed_once_the_file_has_changed(speak: Speak, work: Path) -> None:
    """6: what was read of a large file lies in observations/, by its hash; of a part, the file itself is named."""
    text = "line of text\n" * 20_000
    (work / "a.txt").write_text(text)
    async with speak("skills-agent", start="skills-agent", run_id="one") as say:
        told = await say("read_file", path="a.txt")
        part = await say("read_file", path="a.txt", offset=5000)
        few = await say("read_file", path="a.txt", limit=1)
        record = say.events()[0]
    (work / "a.txt").write_text("another\n")
    kept = work / ".agent/runs/one" / told["storage_ref"].removeprefix("run:")
    assert (kept.parent.name, kept.read_text()) == ("observations", text)
    assert told["sha256"] == record["hashes"]["storage_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (part["truncated"], part["storage_ref"]) == (True, "a.txt")
    assert (few["content_excerpt"], few["storage_ref"]) == ("line of text\n", "a.txt")
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


async def test_a_large_answer_lies_in_the_folder_of_the_run(speak: Speak, work: Path) -> None:
    """6: .agent/runs/<run_id>/observations/, named by storage_ref with its sha256."""
    text = "a line of text\n" * 20_000
    async with serving() as server:
        server.on("/", text.encode(), headers={"Content-Type": "text/plain"})
        hosts = {"allowed_hosts": [f"127.0.0.1:{server.port}"], "allowed_networks": ["127.0.0.0/8"]}
        config = {**ALL, "http": {**hosts, "spill_large": True}}
        async with speak("skills-agent", start="skills-agent", config=config, approver=yes(), run_id="one") as say:
            told = await say("network_request", url=server.url("/"))
            record = say.events()[-1]
    kept = work / ".agent/runs/one" / told["storage_ref"].removeprefix("run:")
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert (kept.parent.name, kept.read_text(), told["sha256"]) == ("observations", text, digest)
    assert (record["result"]["storage_ref"], record["hashes"]["storage_sha256"]) == (
        told["storage_ref"].removeprefix("run:"), digest,
    )  # fmt: skip
    assert len(json.dumps(told)) < 60_000


async def test_a_large_search_is_kept_whole(speak: Speak, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """6: every match in observations/, with storage_ref and sha256, by one call of the run."""
    monkeypatch.setattr("handrail.tools.search.grep._KEPT_AT_ONCE", 3000)
    for name in "ab":
        (work / f"{name}.txt").write_text("".join(f"needle {number}\n" for number in range(4000)))
    config = {"limits": {"max_calls": 2}}
    async with speak("skills-agent", start="skills-agent", config=config, run_id="one") as say:
        told = await say("grep", pattern="needle")
        files = await say("grep", pattern="needle", files_only=True, limit=1)
        lines = [record["tool"] for record in say.events()]
    for answer, wanted in (
        (told, [f"{name}.txt:{number + 1}:needle {number}" for name in "ab" for number in range(4000)]),
        (files, ["a.txt", "b.txt"]),
    ):
        kept = work / ".agent/runs/one" / answer["storage_ref"].removeprefix("run:")
        assert (kept.parent.name, kept.read_text().splitlines()) == ("observations", wanted)
        assert answer["sha256"] == hashlib.sha256(kept.read_bytes()).hexdigest()
    assert (len(told["matches"]), told["truncated"], lines) == (100, True, ["grep", "grep"])


async def test_a_large_listing_is_kept_whole(speak: Speak, work: Path) -> None:
    """6: every entry in observations/, with storage_ref and sha256."""
    for number in range(600):
        (work / f"{number:03}").touch()
    async with speak("skills-agent", start="skills-agent", run_id="one") as say:
        told = await say("list_dir", path=".")
    kept = work / ".agent/runs/one" / told["storage_ref"].removeprefix("run:")
    assert [line.split()[0] for line in kept.read_text().splitlines()] == [f"{number:03}" for number in range(600)]
    assert (len(told["entries"]), told["sha256"]) == (500, hashlib.sha256(kept.read_bytes()).hexdigest())


@pytest.mark.parametrize("name", ["events.jsonl", "grants.json", "sandbox", "observations", "artifacts"])
async def test_a_run_lies_in_dot_agent_runs(speak: Speak, work: Path, name: str) -> None:
    """5.4.2: .agent/runs/<run_id>/ holds what the run leaves."""
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=yes(), run_id="one") as say:
        await say("write_file", path="a.txt", content="x")
    assert (work / ".agent/runs/one" / name).exists()


async def test_audit_records_can_be_read_from_events_jsonl(speak: Speak, work: Path) -> None:
    """7: the file is all that is needed."""
    from handrail.store.reader import events

    async with speak("skills-agent", start="skills-agent", run_id="one") as say:
        await say("list_dir", path=".")
        told = say.events()
    read = list(dialects.get("skills-agent").events(events(work / ".agent/runs/one")))
    assert (len(told), json.loads(json.dumps(read))) == (1, told)


PRINTED_AUDIT = """{
  "tool": "run_script",
  "risk": "medium",
  "ts_start": "2026-02-03T12:34:56.789Z",
  "ts_end": "2026-02-03T12:34:57.120Z",
  "params": {"...": "..."},
  "result": {"ok": true, "exit_code": 0, "stdout_ref": "observations/stdout_3.txt"},
  "policy": {"approved": true, "approval_scope": "run"},
  "hashes": {"stdout_sha256": "..."}
}"""


async def test_an_audit_record_has_the_printed_fields(speak: Speak, work: Path) -> None:
    """7: the record of the document, field by field, with the scope that it prints."""
    skill(work, fill__py="for n in range(20000): print(n)\n")
    config = {**SCRIPTS, "limits": {"max_output_bytes": 4096}}
    approver = ScriptedApprover("run")
    async with speak("skills-agent", start="skills-agent", config=config, approver=approver) as say:
        await say("run_script", RUN)
        record = say.events()[-1]
    ref = record["result"]["stdout_ref"]
    kept = next(work.parent.glob(f"runs/*/{ref}"))
    printed = json.loads(PRINTED_AUDIT)
    assert list(record) == list(printed)
    assert [list(record[name]) for name in ("result", "policy", "hashes")] == [
        list(printed[name]) for name in ("result", "policy", "hashes")
    ]
    assert re.fullmatch(r"observations/stdout_\d+\.txt", ref)
    assert (record["tool"], record["risk"], record["params"]) == ("run_script", "medium", RUN)
    assert record["result"] == {"ok": True, "exit_code": 0, "stdout_ref": ref}
    assert record["policy"] == printed["policy"]
    assert record["hashes"] == {"stdout_sha256": hashlib.sha256(kept.read_bytes()).hexdigest()}


async def test_times_are_utc_with_milliseconds(speak: Speak) -> None:
    """7: as printed: 2026-02-03T12:34:56.789Z; the end is not before the start."""
    async with speak("skills-agent", start="skills-agent") as say:
        await say("list_dir", path=".")
        record = say.events()[0]
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert (bool(re.fullmatch(form, record["ts_start"])), record["ts_start"] <= record["ts_end"]) == (True, True)


async def test_parameters_are_redacted(speak: Speak) -> None:
    """7: params can be freed of secrets."""
    async with speak("skills-agent", start="skills-agent") as say:
        await say("grep", pattern=SECRET)
        record = say.events()[0]
    assert (record["params"]["pattern"], SECRET in json.dumps(record)) == ("***REDACTED***", False)


async def test_products_can_be_traced_by_hash(speak: Speak, work: Path) -> None:
    """7: reference and hash of what was made."""
    async with speak("skills-agent", start="skills-agent", config=ALL, approver=yes()) as say:
        await say("write_file", path="a.txt", content="x")
        record = say.events()[-1]
    assert record["hashes"] == {"a.txt": hashlib.sha256(b"x").hexdigest()}


# ── 8 errors ─────────────────────────────────────────────────────────────────────────────────


async def refused(speak: Speak, name: str, args: dict[str, Any], **how: Any) -> str:
    """The type of the error that a call ends with."""
    async with speak("skills-agent", start="skills-agent", **how) as say:
        return str((await say(name, args))["error"]["type"])


async def test_tool_not_allowed(speak: Speak) -> None:
    """8: ToolNotAllowed."""
    assert await refused(speak, "write_file", {"path": "a", "content": "x"}) == "ToolNotAllowed"


async def test_approval_required(speak: Speak) -> None:
    """8: ApprovalRequired."""
    how = {"config": ALL, "mode": "headless"}
    assert await refused(speak, "write_file", {"path": "a", "content": "x"}, **how) == "ApprovalRequired"


async def test_approval_denied(speak: Speak) -> None:
    """8: ApprovalDenied."""
    how = {"config": ALL, "approver": ScriptedApprover("no")}
    assert await refused(speak, "write_file", {"path": "a", "content": "x"}, **how) == "ApprovalDenied"


async def test_path_traversal_blocked(speak: Speak) -> None:
    """8: PathTraversalBlocked."""
    assert await refused(speak, "read_file", {"path": "../../x"}) == "PathTraversalBlocked"


async def test_file_too_large(speak: Speak) -> None:
    """8: FileTooLarge: more than the limit is not taken in."""
    async with serving() as server:
        server.on("/", b"x" * 5000)
        hosts = {"allowed_hosts": [f"127.0.0.1:{server.port}"], "allowed_networks": ["127.0.0.0/8"]}
        how = {"config": {**ALL, "http": {**hosts, "max_bytes": 2048}}, "approver": yes()}
        assert await refused(speak, "network_request", {"url": server.url("/")}, **how) == "FileTooLarge"


async def test_timeout(speak: Speak, work: Path) -> None:
    """8: Timeout."""
    told = await script(speak, work, "import time\ntime.sleep(60)\n", timeout_seconds=1)
    assert told["error"]["type"] == "Timeout"


async def test_exit_non_zero(speak: Speak, work: Path) -> None:
    """8: ExitNonZero."""
    assert (await script(speak, work, "raise SystemExit(1)\n"))["error"]["type"] == "ExitNonZero"


async def test_io_error(speak: Speak) -> None:
    """8: IOError; our own code stands in the details."""
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("read_file", path="missing")
    assert (told["error"]["type"], told["error"]["details"]["code"]) == ("IOError", "NOT_FOUND")


def test_every_code_has_one_of_the_eight_names() -> None:
    """8: one table, and nothing outside it."""
    assert set(dialects.get("skills-agent").errors.values()) == {
        "ToolNotAllowed", "ApprovalRequired", "ApprovalDenied", "PathTraversalBlocked", "FileTooLarge", "Timeout",
        "ExitNonZero", "IOError",
    }  # fmt: skip


async def test_an_error_suggests_another_way(speak: Speak, work: Path) -> None:
    """8: so that the plan can change: the call that would work is named in the document's words."""
    (work / "sub").mkdir()
    async with speak("skills-agent", start="skills-agent") as say:
        told = await say("read_file", path="sub")
    assert told["error"]["details"]["next_call"] == {"tool": "list_dir", "args": {"path": "sub"}}


async def test_a_dialect_never_decides(speak: Speak) -> None:
    """3.2: the default policy is the preset's; without it the same words are judged by other settings."""
    async with speak("skills-agent", config={"tools": {"enable": ["fs"]}}) as say:
        verdict = say.runtime.explain("write_file", {"path": "a.txt", "content": "x"})
    assert verdict.decision is Decision.ALLOW


async def test_an_error_is_an_observation_of_the_agents_next_turn(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """8: the loop gives the error to the model, which goes on with another plan."""
    from agent._harness import Agent, call, calls, results_in, watch

    (work / "sub").mkdir()
    agent = Agent(work, {})
    model = watch(agent, monkeypatch)
    script = [calls(call("read_file", path="sub")), calls(call("list_dir", path="sub")), {"final_answer": "empty"}]
    task = await agent.run(script, dialect="skills-agent")
    assert task.answer == "empty"
    first, second = (json.loads(result.text) for result in results_in(model().asked[-1]))
    assert (first["ok"], second["ok"]) == (False, True)
    assert first["error"]["details"]["next_call"]["tool"] == "list_dir"
