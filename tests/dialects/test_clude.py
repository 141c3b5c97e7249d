"""clude-code, promise by promise; each docstring begins with the section of its document.

Longer than 500 lines because every promise of the document is a test of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from dialects._speaking import Speak
from handrail import Decision, Problem, SettingsFault, dialects, preset, tool
from handrail.front.cli._tables import display_panel
from handrail.policy import decide
from handrail.settings import foreign
from handrail.testing import RecordingScreen, ScriptedApprover
from serving import serving

NAMES = [
    "list_dir", "glob_file_search", "read_file", "apply_patch", "delete_file", "grep", "codebase_search",
    "run_terminal_cmd", "job_list", "job_read", "job_stop", "display", "read_lints", "update_memory",
]  # fmt: skip
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+ONE\n*** End Patch\n"
LEVELS = ["info", "success", "warning", "error", "progress"]
HANDRAIL = [sys.executable, "-c", "from handrail.front.cli import main; main()"]
SECRET = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"


@pytest.fixture
def project(work: Path) -> Path:
    """A small project."""
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "src").mkdir()
    (work / "src/main.py").write_text("def main():\n    return 1\n")
    return work


# ── 1 principles ─────────────────────────────────────────────────────────────────────────────


async def test_exactly_the_listed_tools_and_those_for_background_tasks(speak: Speak) -> None:
    """6: the list of the document; job_* since 5.2 asks for querying and stopping."""
    async with speak("clude", start="clude") as say:
        assert list(say.specs()) == NAMES


@pytest.mark.parametrize(
    "field",
    ["name", "version", "description", "args_schema", "return_schema", "required_permissions", "side_effects"],
)
async def test_every_tool_declares_what_it_is(speak: Speak, field: str) -> None:
    """1: name, version, description, both schemas, permissions, side effects."""
    async with speak("clude", start="clude") as say:
        specs = say.specs()
    assert [name for name, spec in specs.items() if field not in spec or spec[field] is None] == []


SIGNATURES = """
list_dir(path, ignore_globs?)
glob_file_search(glob_pattern, target_directory?)
read_file(path, offset?, limit?)
apply_patch(patch_text)
delete_file(path)
grep(pattern, path?, glob?, multiline?, head_limit?, -i?)
codebase_search(query, target_directories)
run_terminal_cmd(command, is_background)
display(content, level?, title?, thought?, evidence?)
read_lints(paths)
update_memory(action, title, knowledge_to_store, existing_knowledge_id)
"""


async def test_every_tool_takes_the_arguments_of_its_signature(speak: Speak) -> None:
    """6: as listed, in that order; paged tools also take a cursor. What is marked with ? may be left out."""
    async with speak("clude", start="clude") as say:
        schemas = {name: spec["args_schema"] for name, spec in say.specs().items()}
    for line in SIGNATURES.split("\n")[1:-1]:
        name, _, rest = line.partition("(")
        asked = rest.rstrip(")").split(", ")
        known = [field for field in schemas[name]["properties"] if field != "cursor"]
        assert known == [field.rstrip("?") for field in asked], name
        assert not {field.rstrip("?") for field in asked if field.endswith("?")} & set(schemas[name]["required"]), name


async def test_side_effects_and_permissions_say_what_a_tool_may_do(speak: Speak) -> None:
    """1: whether it writes files, makes processes, deletes; and what it needs for that."""
    async with speak("clude", start="clude") as say:
        told = {name: (spec["side_effects"], spec["required_permissions"]) for name, spec in say.specs().items()}
    read, plain = ("reads", ["fs.read"]), ("none", ["tool.use"])
    assert told.pop("job_stop")[1] == ["tool.use"]
    assert told == {
        "list_dir": read, "glob_file_search": read, "read_file": read, "grep": read, "codebase_search": read,
        "read_lints": read, "display": plain, "job_list": plain, "job_read": plain,
        "apply_patch": ("deletes", ["fs.delete", "fs.read", "fs.write"]),
        "delete_file": ("deletes", ["fs.delete"]),
        "run_terminal_cmd": ("runs", ["fs.read", "fs.write", "git.write", "proc.exec"]),
        "update_memory": ("writes", ["memory.write"]),
    }  # fmt: skip


async def test_a_payload_fits_the_return_schema_of_its_tool(speak: Speak, project: Path) -> None:
    """1: return_schema is the tool's own, and what comes back fits it."""
    config = {"memory": {"write_mode": "external"}, "rules": [{"effect": "allow", "touch": "memory.write"}]}
    calls: dict[str, dict[str, Any]] = {
        "list_dir": {"path": "."},
        "glob_file_search": {"glob_pattern": "*.py"},
        "read_file": {"path": "a.txt"},
        "apply_patch": {"patch_text": PATCH},
        "grep": {"pattern": "main"},
        "codebase_search": {"query": "main", "target_directories": ["src"]},
        "run_terminal_cmd": {"command": "echo hi", "is_background": False},
        "job_list": {},
        "display": {"content": "x"},
        "read_lints": {"paths": ["src/main.py"]},
        "update_memory": {"action": "create", "title": "t", "knowledge_to_store": "x"},
        "delete_file": {"path": "a.txt"},
    }
    async with speak("clude", start="clude", config=config, approver=ScriptedApprover("once")) as say:
        specs = say.specs()
        for name, args in calls.items():
            told = await say(name, args)
            schema = specs[name]["return_schema"]
            assert told["ok"], (name, told)
            assert schema["properties"], name
            jsonschema.validate(told["payload"], schema)


# ── 2 messages ───────────────────────────────────────────────────────────────────────────────


def request(**fields: Any) -> dict[str, Any]:
    """A ToolCallRequest."""
    told = {"tool_call_id": "call-1", "name": "read_file", "version": "1.0.0", "args": {"path": "a.txt"}}
    return {**told, "trace_id": "trace-1", "timestamp": 1_700_000_000.0, **fields}


async def test_a_request_names_its_own_id_and_the_result_repeats_it(speak: Speak, project: Path) -> None:
    """2.1: tool_call_id."""
    async with speak("clude", start="clude") as say:
        told = await say.handle(request())
    assert told[0]["tool_call_id"] == "call-1"


@pytest.mark.parametrize("bad", ["call-1", "a/b", "x" * 300, ".."])
async def test_an_id_is_used_once(speak: Speak, project: Path, bad: str) -> None:
    """2.1: unique, so that a call can be replayed and found; one that was used or is no name is refused by a result."""
    async with speak("clude", start="clude") as say:
        await say.handle(request())
        (told,) = await say.handle(request(tool_call_id=bad))
        lines = say.events()
    assert list(told) == ["tool_call_id", "ok", "payload", "error", "duration_ms"]
    assert (told["tool_call_id"], told["ok"], told["payload"], told["error"]["code"]) == (
        bad,
        False,
        None,
        "INVALID_ARGS",
    )
    assert [(line["tool_call_id"], line["result"]["ok"]) for line in lines] == [
        ("call-1", True), (told["error"]["details"]["recorded_as"], False),
    ]  # fmt: skip


async def test_a_request_names_the_version_it_was_written_for(speak: Speak, project: Path) -> None:
    """2.1: version."""
    async with speak("clude", start="clude") as say:
        same, newer = (
            await say.handle(request(version="1.4.2")),
            await say.handle(request(version="9.0", tool_call_id="2")),
        )
    assert (same[0]["ok"], newer[0]["error"]["code"]) == (True, "UNSUPPORTED_VERSION")


async def test_requested_permissions_only_narrow(speak: Speak, project: Path) -> None:
    """2.1: requested_permissions; what is not among them is denied."""
    async with speak("clude", start="clude") as say:
        fine = await say.handle(request(requested_permissions=["fs.read"]))
        told = await say.handle(
            request(name="apply_patch", args={"patch_text": PATCH}, requested_permissions=["fs.read"], tool_call_id="2")
        )
    assert (fine[0]["ok"], told[0]["error"]["details"]["rule"]) == (True, "permissions.call")


async def test_the_trace_id_is_in_every_event_of_the_call(speak: Speak, project: Path) -> None:
    """2.1: trace_id."""
    async with speak("clude", start="clude") as say:
        await say.handle(request())
        found = {event["trace_id"] for event in say.journal() if event["kind"].startswith("tool.")}
    assert found == {"trace-1"}


async def test_a_request_says_when_it_was_made(speak: Speak, project: Path) -> None:
    """2.1: timestamp, a number."""
    async with speak("clude", start="clude") as say:
        told = await say.handle(request(timestamp=1_700_000_000))
        for wrong in ("2026-02-03", True, None):
            with pytest.raises(Problem, match="`timestamp`: expected a number"):
                await say.handle(request(timestamp=wrong, tool_call_id="2"))
    assert told[0]["ok"] is True


async def test_a_request_with_a_field_that_there_is_not_is_refused(speak: Speak, project: Path) -> None:
    """2.1: a slip in requested_permissions must not widen what a call may do."""
    async with speak("clude", start="clude") as say:
        with pytest.raises(Problem, match="did you mean requested_permissions") as error:
            await say.handle(request(requested_permission=["fs.read"]))
        calls = [event for event in say.journal() if event["kind"].startswith("tool.")]
    assert (error.value.code, calls) == ("INVALID_ARGS", [])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"requested_permission": ["fs.read"]}, "did you mean requested_permissions?"),
        ({"timestamp": "now"}, "`timestamp`: expected a number"),
        ({"requested_permissions": "fs.read"}, "`requested_permissions`: expected an array of texts"),
        ({"tool": "display"}, "names a tool twice, as `name` and as `tool`"),
        ({"args": None}, "needs `name` and `args`"),
        ({"name": 7}, "needs `name`"),
    ],
)
async def test_a_refused_request_is_a_result_under_its_own_id(
    speak: Speak, project: Path, wrong: dict[str, Any], why: str
) -> None:
    """2.1, 2.2: what is wrong with the request is told, on record with its ids, and the next request is served."""
    async with speak("clude", start="clude") as say:
        told = await say.runtime.call_from({**request(tool_call_id="mine", trace_id="t1"), **wrong})
        fine = await say.runtime.call_from(request(tool_call_id="next"))
        line = say.events()[0]
    assert (told["tool_call_id"], told["ok"], told["error"]["code"]) == ("mine", False, "INVALID_ARGS")
    assert (why in told["error"]["message"], fine["ok"]) == (True, True)
    assert (line["tool_call_id"], line["trace_id"], line["result"]) == ("mine", "t1", {"ok": False})
    assert "a.txt" in json.dumps(line["args"]) or wrong == {"args": None}


async def test_a_result_has_one_form(speak: Speak, project: Path) -> None:
    """2.2: success and failure, the same fields in every tool."""
    async with speak("clude", start="clude") as say:
        good, bad = await say("read_file", path="a.txt"), await say("read_file", path="missing")
    fields = ["tool_call_id", "ok", "payload", "error", "duration_ms"]
    assert [list(good), list(bad)] == [fields, fields]
    assert (good["payload"]["text"], good["error"], bad["payload"]) == ("one\ntwo\n", None, None)


async def test_an_error_has_code_message_and_details(speak: Speak) -> None:
    """2.2: error."""
    async with speak("clude", start="clude") as say:
        told = await say("read_file", path="missing")
    assert list(told["error"]) == ["code", "message", "details"]
    assert told["error"]["code"] == "NOT_FOUND"


async def test_artifacts_name_changed_files(speak: Speak, project: Path) -> None:
    """2.2: artifacts.files_changed."""
    async with speak("clude", start="clude") as say:
        told = await say("apply_patch", patch_text=PATCH)
    assert told["artifacts"] == {"files_changed": ["a.txt"], "commands_run": []}


async def test_artifacts_name_commands_that_ran(speak: Speak) -> None:
    """2.2: artifacts.commands_run."""
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="echo hi", is_background=False)
    assert told["artifacts"]["commands_run"] == ["echo hi"]


async def test_a_result_says_how_long_it_took(speak: Speak, project: Path) -> None:
    """2.2: duration_ms."""
    async with speak("clude", start="clude") as say:
        assert (await say("read_file", path="a.txt"))["duration_ms"] > 0


# ── 3 arguments and paths ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({}, "path"),
        ({"path": "a.txt", "mode": 1}, "mode"),
        ({"path": 7}, "path"),
        ({"path": "a.txt", "limit": "5"}, "limit"),
    ],
)
async def test_arguments_are_checked_strictly(speak: Speak, project: Path, args: dict[str, Any], field: str) -> None:
    """3.1: a missing, a further and a mistyped field are refused; nothing is mended."""
    async with speak("clude", start="clude") as say:
        told = await say("read_file", args)
    assert (told["error"]["code"], told["error"]["details"]["errors"][0]["field"]) == ("INVALID_ARGS", field)


async def test_no_schema_lets_further_properties_in(speak: Speak) -> None:
    """3.1: additionalProperties is false everywhere."""
    async with speak("clude", start="clude") as say:
        assert {spec["args_schema"]["additionalProperties"] for spec in say.specs().values()} == {False}


async def test_a_path_is_normalised_before_it_is_judged(speak: Speak, project: Path) -> None:
    """3.1: `src/../.ssh` is .ssh."""
    async with speak("clude", start="clude") as say:
        told = await say("read_file", path="src/../.ssh/id_rsa")
    assert told["error"]["code"] == "PATH_PROTECTED"


async def test_paths_are_relative_to_the_workspace(speak: Speak, project: Path) -> None:
    """3.2: relative paths first."""
    async with speak("clude", start="clude") as say:
        assert (await say("read_file", path="src/main.py"))["ok"] is True


async def test_absolute_paths_are_off_until_policy_takes_them(speak: Speak, project: Path) -> None:
    """3.2: absolute paths."""
    async with speak("clude", start="clude") as say:
        off = await say("read_file", path=f"{project}/a.txt")
    async with speak("clude", config=foreign.clude({"allow_absolute_paths": True})) as say:
        on = await say("read_file", path=f"{project}/a.txt")
    assert (off["ok"], on["ok"]) == (False, True)


async def test_links_are_resolved_before_anything_is_opened(speak: Speak, project: Path, tmp_path: Path) -> None:
    """3.2: realpath, then whether it lies in the workspace."""
    (tmp_path / "outside").write_text("x")
    (project / "link").symlink_to(tmp_path / "outside")
    async with speak("clude", start="clude") as say:
        assert (await say("read_file", path="link"))["error"]["code"] == "PATH_OUTSIDE_ROOTS"


# ── 4 policy ─────────────────────────────────────────────────────────────────────────────────


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "fs.read": ("read_file", {"path": "a.txt"}),
    "fs.write": ("apply_patch", {"patch_text": PATCH}),
    "fs.delete": ("delete_file", {"path": "a.txt"}),
    "proc.exec": ("run_terminal_cmd", {"command": "npm test", "is_background": False}),
    "git.write": ("run_terminal_cmd", {"command": "git commit -m x", "is_background": False}),
}


@pytest.mark.parametrize("kind", [*KINDS, "net.connect"])
async def test_the_kinds_of_permission_are_known(speak: Speak, project: Path, kind: str) -> None:
    """4.1: the six of the document: each is what a call is judged by, and a call that is held to others is denied."""
    others = [name for name in (*KINDS, "net.connect") if name != kind]
    spoken = "clude" if kind in KINDS else "tool-hub"
    name, args = KINDS.get(kind, ("core/http.head", {"url": "https://example.org/"}))
    http = {"http": {"allowed_hosts": ["example.org"]}, "tools": {"enable": ["http_head"]}}
    start, config = ("clude", {}) if kind in KINDS else (None, http)
    async with speak(spoken, start=start, config=config) as say:
        free = say.runtime.explanation(name, args)
        held = say.runtime.explanation(name, args, permissions=others)
    assert kind in {touch.kind.value for touch in free.touches}
    assert (free.verdict.decision is not Decision.DENY, held.verdict.decision) == (True, Decision.DENY)
    assert "permissions.call" in {finding.rule for finding in held.verdict.findings}


async def test_policy_is_a_pure_function_of_request_workspace_and_settings(speak: Speak, project: Path) -> None:
    """4.2: the same touches in the same world: the same verdict; nothing is opened, started or changed for it."""
    async with speak("clude", start="clude") as say:
        calls = [*KINDS.values(), ("read_file", {"path": "../x"}), ("read_file", {"path": ".ssh/id"})]
        told = [say.runtime.explanation(name, args) for name, args in calls]
    shutil.rmtree(project)  # what it was told of the workspace is all that it knows
    worlds = [pickle.dumps((one.touches, one.world)) for one in told]
    done: list[str] = []
    with watched(done):
        again = [[decide(one.touches, one.world) for one in told] for _ in range(2)]
    assert again == [[one.verdict for one in told]] * 2
    assert [pickle.dumps((one.touches, one.world)) for one in told] == worlds
    assert done == []
    assert [one.verdict.decision.name for one in told] == ["ALLOW", "ALLOW", "ASK", "ALLOW", "ASK", "DENY", "DENY"]


_watching: list[list[str]] = []
_NOTED = ("open", "os.", "socket.", "subprocess.", "shutil.", "time.", "sqlite3.", "tempfile.")


def _note(event: str, _: tuple[Any, ...]) -> None:
    for noted in _watching:
        if event.startswith(_NOTED):
            noted.append(event)


@contextmanager
def watched(done: list[str]) -> Iterator[None]:
    """Note what Python does with the world outside; a hook of this kind stays for good, and then notes nothing."""
    if not hasattr(watched, "there"):
        sys.addaudithook(_note)
        watched.there = True  # type: ignore[attr-defined]
    _watching.append(done)
    try:
        yield
    finally:
        _watching.clear()


def test_what_a_function_does_outside_is_noticed(tmp_path: Path) -> None:
    """4.2: the check of purity can fail."""
    done: list[str] = []
    with watched(done):
        (tmp_path / "a.txt").write_text("x")
    assert "open" in done


async def test_a_denial_has_a_code_and_a_reason(speak: Speak, project: Path) -> None:
    """4.2: DENY(code, reason), and the rule it comes from."""
    async with speak("clude", start="clude") as say:
        told = [await say("read_file", path="../x"), await say("run_terminal_cmd", command="rm -rf /")]
    assert [result["error"]["code"] for result in told] == ["PATH_OUTSIDE_ROOTS", "COMMAND_NOT_ALLOWED"]
    assert told[0]["error"]["message"].startswith("Denied: ../x leads out of the workspace; allowed roots: ")
    assert told[1]["error"]["message"] == "Denied: rm would remove all of /."
    assert [result["error"]["details"]["rule"] for result in told] == ["confine.roots", "builtin.command"]


async def test_policy_allows_denies_or_requires_confirmation(speak: Speak, project: Path) -> None:
    """4.2: three answers, told without running anything."""
    async with speak("clude", start="clude") as say:
        told = [
            say.runtime.explain("read_file", {"path": "a.txt"}).decision,
            say.runtime.explain("read_file", {"path": "../x"}).decision,
            say.runtime.explain("delete_file", {"path": "a.txt"}).decision,
        ]
    assert told == [Decision.ALLOW, Decision.DENY, Decision.ASK]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (["read_file", "path=a.txt"], {"decision": "ALLOW"}),
        (["apply_patch", f"patch_text={PATCH}"], {"decision": "ALLOW"}),
        (["delete_file", "path=a.txt"], {"decision": "REQUIRE_CONFIRMATION", "scope": "call"}),
        (["run_terminal_cmd", "command=rm -rf /"],
         {"decision": "DENY", "code": "COMMAND_NOT_ALLOWED", "reason": "rm would remove all of /"}),
    ],
)  # fmt: skip
def test_the_command_line_answers_in_the_words_of_the_document(
    project: Path, call: list[str], answer: dict[str, str]
) -> None:
    """4.2: ALLOW | DENY(code, reason) | REQUIRE_CONFIRMATION(scope)."""
    explain = [*HANDRAIL, "policy", "explain", "--preset", "clude", "--dialect", "clude", *call]
    told, shown = (
        subprocess.run([*explain, *more], cwd=project, capture_output=True, text=True, check=False, timeout=60).stdout
        for more in (["--json"], [])
    )
    fields = json.loads(told)
    decision, *details = answer.values()
    assert {name: fields.get(name) for name in ("tool", *answer)} == {"tool": call[0], **answer}
    assert shown.splitlines()[0] == f"{call[0]}: {decision}" + (f"({', '.join(details)})" if details else "")


async def test_confirmation_names_the_scope_it_would_hold_for(speak: Speak, project: Path) -> None:
    """4.2: REQUIRE_CONFIRMATION(scope)."""
    async with speak("clude", start="clude", mode="headless") as say:
        told = await say("delete_file", path="a.txt")
    asked = told["error"]["details"]["approval"]
    assert (asked["decision"], asked["scope"], asked["tool"], asked["params"]) == (
        "REQUIRE_CONFIRMATION", "call", "delete_file", {"path": "a.txt"},
    )  # fmt: skip


async def test_nothing_outside_the_workspace_is_reached(speak: Speak) -> None:
    """4.2.1: path boundary."""
    async with speak("clude", start="clude") as say:
        told = [await say("list_dir", path="/etc"), await say("grep", pattern="x", path="../..")]
    assert [result["error"]["code"] for result in told] == ["PATH_OUTSIDE_ROOTS"] * 2


@pytest.mark.parametrize("path", [".ssh/id_rsa", ".aws/credentials", ".netrc", ".gnupg/x"])
async def test_credentials_are_out_of_reach(speak: Speak, work: Path, path: str) -> None:
    """4.2.1: .ssh and the folders of credentials."""
    (work / path).parent.mkdir(exist_ok=True)
    (work / path).write_text("x")
    async with speak("clude", start="clude") as say:
        assert (await say("read_file", path=path))["error"]["code"] == "PATH_PROTECTED"


async def test_npm_test_is_allowed(speak: Speak) -> None:
    """4.2.1: the allow list of commands."""
    async with speak("clude", start="clude") as say:
        assert say.runtime.explain("run_terminal_cmd", {"command": "npm test"}).decision is Decision.ALLOW


@pytest.mark.parametrize("command", ["rm -rf /", "powershell Invoke-WebRequest http://x", "echo hi && rm -rf /"])
async def test_the_deny_list_beats_everything(speak: Speak, command: str) -> None:
    """4.2.1: rm -rf / and powershell Invoke-WebRequest are forbidden."""
    async with speak("clude", start="clude") as say:
        told = await say("run_terminal_cmd", command=command)
    assert told["error"]["code"] == "COMMAND_NOT_ALLOWED"


async def test_lists_of_commands_come_from_settings(speak: Speak) -> None:
    """4.2.1: allowlist and denylist of the operator."""
    config = foreign.clude({"command_allowlist": ["make *"], "command_denylist": ["git push"]})
    async with speak("clude", config=config) as say:
        told = [
            say.runtime.explain("run_terminal_cmd", {"command": c}).decision
            for c in ("make all", "git push", "touch a")
        ]
    assert told == [Decision.ALLOW, Decision.DENY, Decision.ASK]


async def test_the_network_is_denied_by_default(speak: Speak) -> None:
    """4.2.1: network DENY; there is no tool for it here, and others' tools are denied as well."""
    hosts = {"allowed_hosts": ["example.org"]}
    async with speak("tool-hub", start="clude", config={"tools": {"enable": ["http_fetch"]}, "http": hosts}) as say:
        told = await say("core/http.fetchText", url="https://example.org/")
        assert "http_fetch" not in {word.ours for word in dialects.get("clude").words.values()}
    assert (told["error"]["kind"], told["error"]["message"]) == (
        "HTTP_DISALLOWED_HOST", "Denied: the network is denied by default.",
    )  # fmt: skip


async def test_commands_have_no_network(speak: Speak) -> None:
    """4.2.1: denied for programs, too: a command that a person approved reaches nobody."""
    async with serving() as server:
        reach = f"import socket; socket.create_connection(('127.0.0.1', {server.port}), 5)"
        async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
            told = await say("run_terminal_cmd", command=f'python3 -c "{reach}"', is_background=False)
    assert (told["error"]["code"], server.connections) == ("EXIT_NONZERO", 0)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_hosts_and_networks_can_be_allowed(speak: Speak, name: str) -> None:
    """4.2.1: allow list of domains and addresses: a command reaches what it names, and nothing else."""
    fetch = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read())"
    async with serving() as server, serving() as other:
        listed = [f"{name}:{server.port}", "127.0.0.0/8"]
        server.on("/", b"ok")
        urls = [f"http://{name}:{one.port}/" for one in (server, other)]
        config = foreign.clude({"network_allowlist": listed})
        async with speak("clude", config=config, approver=ScriptedApprover("once")) as say:
            told = [
                await say("run_terminal_cmd", command=f'NO_PROXY= no_proxy= python3 -c "{fetch}" {url}') for url in urls
            ]
    assert (told[0]["payload"]["stdout"], told[1]["error"]["code"]) == ("b'ok'\n", "EXIT_NONZERO")
    assert (len(server.asked), len(other.asked)) == (1, 0)


async def test_an_address_on_the_list_is_reached_wherever_it_is(speak: Speak) -> None:
    """4.2.1: allow list of IPs: the address alone opens it, also on this machine; the one beside it stays closed."""
    fetch = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read())"
    async with serving() as server:
        server.on("/", b"ok")
        config = foreign.clude({"network_allowlist": [f"127.0.0.1:{server.port}"]})
        async with speak("clude", config=config, approver=ScriptedApprover("once")) as say:
            told = [
                await say(
                    "run_terminal_cmd", command=f'NO_PROXY= no_proxy= python3 -c "{fetch}" http://{one}:{server.port}/'
                )
                for one in ("127.0.0.1", "127.0.0.2")
            ]
    assert (told[0]["payload"]["stdout"], told[1]["error"]["code"]) == ("b'ok'\n", "EXIT_NONZERO")


@pytest.mark.parametrize(
    ("listed", "network"),
    [
        ("10.1.2.3", ["10.1.2.3/32"]),
        ("[fd00::1]:443", ["fd00::1/128"]),
        ("example.org:8080", []),
        ("10.1.0.0/16", ["10.1.0.0/16"]),
    ],
)
def test_an_address_opens_itself_and_no_more(listed: str, network: list[str]) -> None:
    """4.2.1: what a list names is what settings hold."""
    assert foreign.clude({"network_allowlist": [listed]})["http"]["allowed_networks"] == network


async def test_writing_is_allowed_and_can_be_taken_back(speak: Speak, project: Path) -> None:
    """4.2.1: writes need no confirmation, because they can be undone."""
    async with speak("clude", start="clude") as say:
        told = await say("apply_patch", patch_text=PATCH)
        await say.runtime.undo(say.last.call_id)
    assert (told["ok"], (project / "a.txt").read_text()) == (True, "one\ntwo\n")


async def test_deleting_needs_confirmation(speak: Speak, project: Path) -> None:
    """4.2.1: high risk."""
    approver = ScriptedApprover("no")
    async with speak("clude", start="clude", approver=approver) as say:
        told = await say("delete_file", path="a.txt")
    assert (told["error"]["code"], len(approver.asked), (project / "a.txt").exists()) == ("APPROVAL_DENIED", 1, True)


async def test_bulk_changes_need_confirmation(speak: Speak, work: Path) -> None:
    """4.2.1: many files at once: more than 20."""
    async with speak("clude", start="clude", mode="headless") as say:
        told = []
        for count in (20, 21):
            added = "".join(f"*** Add File: {count}/f{number}.txt\n+x\n" for number in range(count))
            told.append(await say("apply_patch", patch_text=f"*** Begin Patch\n{added}*** End Patch\n"))
    assert [(result["error"] or {}).get("code") for result in told] == [None, "APPROVAL_REQUIRED"]
    assert (len(list(work.glob("20/*"))), list(work.glob("21"))) == (20, [])


async def test_a_preview_of_the_change_is_shown_to_the_person(speak: Speak, project: Path) -> None:
    """4.2.1: preview of changes."""
    approver = ScriptedApprover("once")
    config = {"rules": [{"effect": "ask", "touch": "fs.write"}]}
    async with speak("clude", start="clude", config=config, approver=approver) as say:
        await say("apply_patch", patch_text=PATCH)
    assert "-one\n+ONE\n" in approver.asked[0].diff


# ── 5 sandbox ────────────────────────────────────────────────────────────────────────────────


async def test_a_write_is_there_whole_or_not_at_all(
    speak: Speak, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.1: temporary file, fsync, rename: synced while the old one stands, then another file with the same mode."""
    (project / "a.txt").chmod(0o640)
    before = (project / "a.txt").stat()
    steps: list[tuple[str, str]] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        fsync(fd)
        if os.readlink(f"/proc/self/fd/{fd}").startswith(str(project)):
            kind = "folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
            steps.append((kind, (project / "a.txt").read_text()))

    async with speak("clude", start="clude") as say:
        monkeypatch.setattr(os, "fsync", noted)
        await say("apply_patch", patch_text=PATCH)
        monkeypatch.undo()
    after = (project / "a.txt").stat()
    left = [path.name for path in project.iterdir() if path.name not in ("a.txt", "src")]
    assert (after.st_ino != before.st_ino, after.st_mode, left) == (True, before.st_mode, [])
    assert steps == [("file", "one\ntwo\n"), ("folder", "ONE\ntwo\n")]


async def test_dots_and_links_do_not_lead_out(speak: Speak, project: Path, tmp_path: Path) -> None:
    """5.1: for writing, too."""
    (project / "out").symlink_to(tmp_path)
    async with speak("clude", start="clude") as say:
        patch = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"
        told = [await say("apply_patch", patch_text=patch.format(path)) for path in ("../x.txt", "out/x.txt")]
    assert [result["error"]["code"] for result in told] == ["PATH_OUTSIDE_ROOTS"] * 2


async def test_commands_run_in_the_workspace(speak: Speak, project: Path) -> None:
    """5.2: working directory."""
    async with speak("clude", start="clude", config={"exec": {"allow": ["pwd", "ls"]}}) as say:
        told = await say("run_terminal_cmd", command="ls")
    assert told["payload"]["stdout"] == "a.txt\nsrc\n"


async def test_commands_see_no_tokens(speak: Speak, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.2: *_TOKEN and the like are not inherited."""
    monkeypatch.setenv("DEPLOY_TOKEN", "q8w7e6r5t4y3u2i1o0p9")
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="env")
    assert ("DEPLOY_TOKEN" in told["payload"]["stdout"], "PATH=" in told["payload"]["stdout"]) == (False, True)


async def test_a_command_may_take_two_minutes(speak: Speak) -> None:
    """5.2: timeout_ms, by default two to five minutes; what takes longer is ended."""
    assert foreign.clude({})["exec"]["timeout_seconds"] == preset("clude")["exec"]["timeout_seconds"] == 120
    assert foreign.clude({"timeout_ms": 300_000})["exec"]["timeout_seconds"] == 300
    config = foreign.clude({"timeout_ms": 1000})
    async with speak("clude", config=config, approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="echo begun; sleep 60", is_background=False)
    assert (told["error"]["code"], told["error"]["details"]["stdout"]) == ("TIMEOUT", "begun\n")


MEGABYTE = 1024 * 1024


async def test_a_megabyte_of_output_is_shown_by_default(speak: Speak) -> None:
    """5.2: max_output_bytes is 1 to 5 MB by default; 100,000 lines within it are all shown."""
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="seq 1 100000")
    assert told["payload"]["stdout"].split() == [str(number) for number in range(1, 100_001)]
    assert (foreign.clude({})["limits"]["max_output_bytes"], say.last.refs) == (MEGABYTE, ())


@pytest.mark.parametrize("most", [8000, 200_000, 3 * MEGABYTE])
async def test_max_output_bytes_is_a_setting(speak: Speak, most: int) -> None:
    """5.2: max_output_bytes stands beside timeout_ms; bytes bound what is shown, not lines."""
    config = foreign.clude({"max_output_bytes": most})
    async with speak("clude", config=config, approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="seq 1 300000")
    text, whole = told["payload"]["stdout"], "".join(f"{number}\n" for number in range(1, 300_001))
    assert (text == whole) == (most > len(whole))
    assert most // 4 < len(text) <= most
    assert text.endswith("300000\n")
    for wrong in (0, "8000", True, 1.5):
        with pytest.raises(SettingsFault, match="max_output_bytes: expected a whole number above 0"):
            foreign.clude({"max_output_bytes": wrong})


async def test_too_much_output_keeps_its_tail(speak: Speak) -> None:
    """5.2: what is over the limit is cut out; the tail stays, and the whole is kept."""
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="seq 1 200000")
    text = told["payload"]["stdout"]
    assert (text.endswith("200000\n"), len(text) <= MEGABYTE) == (True, True)
    kept = say.folder / told["payload"]["stdout_info"]["ref"].removeprefix("run:")
    assert kept.read_text() == "".join(f"{number}\n" for number in range(1, 200_001))


async def test_a_background_task_is_recorded_with_pid_and_arguments(speak: Speak) -> None:
    """5.2: background tasks."""
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="sleep 30", is_background=True)
        listed = await say("job_list")
        ended = next(event for event in say.journal() if event["kind"] == "tool.completed")
        line = say.events()[0]
    (job,), pid = listed["payload"]["jobs"], told["payload"]["pid"]
    assert (job["pid"], job["argv"][-1], job["running"], pid > 1) == (pid, "sleep 30", True, True)
    assert (ended["evidence"], ended["commands_run"]) == ([["process", f"{job['job']} pid {pid}", None]], ["sleep 30"])
    assert (line["args"], line["artifacts"]["commands_run"]) == (
        {"command": "sleep 30", "is_background": True}, ["sleep 30"],
    )  # fmt: skip


async def test_a_background_task_can_be_queried_and_stopped(speak: Speak) -> None:
    """5.2: query and stop."""
    async with speak("clude", start="clude", approver=ScriptedApprover("run")) as say:
        started = await say("run_terminal_cmd", command="echo begun; sleep 30", is_background=True)
        job = started["payload"]["job"]
        for _ in range(100):
            read = await say("job_read", job=job, wait_seconds=5)
            if "begun" in read["payload"]["text"]:
                break
            await asyncio.sleep(0)
        stopped = await say("job_stop", job=job)
        (listed,) = (await say("job_list"))["payload"]["jobs"]
        with pytest.raises(ProcessLookupError):
            os.kill(started["payload"]["pid"], 0)
    assert (read["payload"]["text"], stopped["ok"]) == ("begun\n", True)
    running = [state["running"] for state in (read["payload"]["state"], stopped["payload"], listed)]
    assert running == [True, False, False]


# ── 6 tools ──────────────────────────────────────────────────────────────────────────────────


async def test_list_dir_leaves_out_what_globs_name(speak: Speak, project: Path) -> None:
    """6.1: list_dir(path, ignore_globs?)."""
    async with speak("clude", start="clude") as say:
        told = [await say("list_dir", path="."), await say("list_dir", path=".", ignore_globs=["*.txt"])]
    assert [[entry["name"] for entry in result["payload"]["entries"]] for result in told] == [["a.txt", "src"], ["src"]]


async def test_glob_file_search_takes_pattern_and_directory(speak: Speak, project: Path) -> None:
    """6.1: glob_file_search(glob_pattern, target_directory?)."""
    async with speak("clude", start="clude") as say:
        told = [
            await say("glob_file_search", glob_pattern="*.py"),
            await say("glob_file_search", glob_pattern="*.txt", target_directory="src"),
        ]
    assert [result["payload"]["paths"] for result in told] == [["src/main.py"], []]


async def test_read_file_takes_offset_and_limit(speak: Speak, project: Path) -> None:
    """6.1: read_file(path, offset?, limit?)."""
    async with speak("clude", start="clude") as say:
        told = await say("read_file", path="a.txt", offset=2, limit=1)
    assert told["payload"]["text"] == "two\n"


async def test_apply_patch_is_the_one_way_to_write(speak: Speak, project: Path) -> None:
    """6.1: apply_patch(patch_text), and no other tool that writes files."""
    async with speak("clude", start="clude") as say:
        told = await say("apply_patch", patch_text=PATCH)
        writing = [name for name, spec in say.specs().items() if "fs.write" in spec["required_permissions"]]
    assert (told["ok"], (project / "a.txt").read_text()) == (True, "ONE\ntwo\n")
    assert writing == ["apply_patch", "run_terminal_cmd"]


async def test_delete_file_takes_a_path(speak: Speak, project: Path) -> None:
    """6.1: delete_file(path), once a person confirmed."""
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("delete_file", path="a.txt")
    assert (told["ok"], (project / "a.txt").exists()) == (True, False)


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        ({"pattern": "main"}, ["src/main.py:1"]),
        ({"pattern": "o", "path": "a.txt"}, ["a.txt:1", "a.txt:2"]),
        ({"pattern": "o", "glob": "*.txt", "head_limit": 1}, ["a.txt:1"]),
        ({"pattern": "ONE", "-i": True}, ["a.txt:1"]),
        ({"pattern": "one\\ntwo", "multiline": True}, ["a.txt:1", "a.txt:2"]),
        ({"pattern": "ONE"}, []),
    ],
)
async def test_grep_takes_the_options_of_the_document(
    speak: Speak, project: Path, args: dict[str, Any], lines: list[str]
) -> None:
    """6.2: grep(pattern, path?, glob?, multiline?, head_limit?, -i?)."""
    async with speak("clude", start="clude") as say:
        told = await say("grep", args)
    assert [f"{row['file']}:{row['line']}" for row in told["payload"]["matches"]] == lines


async def test_codebase_search_takes_a_query_and_directories(speak: Speak, project: Path) -> None:
    """6.2: codebase_search(query, target_directories[])."""
    async with speak("clude", start="clude") as say:
        told = await say("codebase_search", query="where is the main function", target_directories=["src"])
        beside = await say("codebase_search", query="one two", target_directories=["src"])
    (place,) = told["payload"]["places"]
    assert (place["file"], place["lines"], place["symbol"]) == ("src/main.py", [1, 2], "main")
    assert [found["file"] for found in beside["payload"]["places"] if found["file"] == "a.txt"] == []


async def test_no_target_directories_are_the_whole_workspace(speak: Speak, project: Path) -> None:
    """6.2: an empty list names no folder to leave anything out."""
    given: list[dict[str, Any]] = [{"target_directories": []}, {}, {"target_directories": ["src"]}]
    async with speak("clude", start="clude") as say:
        told = [await say("codebase_search", {"query": "main", **more}) for more in given]
    assert [result["payload"]["places"][0]["file"] for result in told] == ["src/main.py"] * 3


async def test_codebase_search_degrades_to_grep(speak: Speak, project: Path) -> None:
    """6.2: optional: without its index grep answers, and a warning says so."""
    async with speak("clude", start="clude", config={"search": {"index": False}}) as say:
        told = await say("codebase_search", query="main function", target_directories=["src"])
    assert (told["payload"]["index"]["ranking"], told["payload"]["places"][0]["file"]) == ("grep", "src/main.py")
    assert "The answer comes from grep instead" in say.last.warnings[0]


async def test_run_terminal_cmd_takes_a_command_and_is_background(speak: Speak) -> None:
    """6.3: run_terminal_cmd(command, is_background)."""
    async with speak("clude", start="clude", approver=ScriptedApprover("once")) as say:
        told = await say("run_terminal_cmd", command="echo hi", is_background=False)
    assert (told["payload"]["exit_code"], told["payload"]["stdout"]) == (0, "hi\n")


SCHEMA = """{
  "type": "object",
  "properties": {
    "content": { "type": "string", "description": "要显示给用户的内容（支持 Markdown）" },
    "level": {
      "type": "string",
      "enum": ["info", "success", "warning", "error", "progress"],
      "default": "info",
      "description": "消息级别（影响显示样式）"
    },
    "title": { "type": "string", "description": "可选标题（用于分段显示）" }
  },
  "required": ["content"],
  "additionalProperties": false
}"""


async def test_display_has_the_printed_schema(speak: Speak) -> None:
    """6.4.1: args_schema; and the two fields that the last example adds."""
    async with speak("clude", start="clude") as say:
        schema = say.specs()["display"]["args_schema"]
    added = {name: schema["properties"].pop(name) for name in ("thought", "evidence")}
    assert (json.dumps(schema), list(added)) == (json.dumps(json.loads(SCHEMA)), ["thought", "evidence"])


EXAMPLES = [
    '{"tool":"display","args":{"content":"正在分析第 3/10 个文件…","level":"progress"}}',
    '{"tool":"display","args":{"title":"代码审计","content":"发现 2 处高风险点，准备修复。","level":"warning"}}',
    """{
  "tool": "display",
  "args": {
    "title": "执行思路",
    "level": "info",
    "content": "准备收敛入口：先统一事件协议，再迁移 UI 到 plugins。",
    "thought": "原因：目前存在多入口导致行为分裂；先把链路收口才能保证 UI/工具/审计一致。",
    "evidence": ["入口: cli/chat_handler.py", "UI: plugins/ui/opencode_tui.py", "协议: docs/02-tool-protocol.md"]
  }
}""",
]


@pytest.mark.parametrize("printed", EXAMPLES, ids=["progress", "warning", "thought"])
async def test_the_printed_display_calls_go_through(speak: Speak, printed: str) -> None:
    """6.4.1: the examples, as they stand there; the person sees every character of them."""
    screen, asked = RecordingScreen(), json.loads(printed)
    async with speak("clude", start="clude", screen=screen) as say:
        told = await say.handle(asked)
    assert (told[0]["ok"], screen.shown) == (True, [asked["args"]])


async def test_display_needs_no_confirmation(speak: Speak) -> None:
    """6.4.1: it touches nothing."""
    async with speak("clude", start="clude", mode="headless") as say:
        assert (await say("display", content="hi"))["ok"] is True


async def test_display_is_an_event(speak: Speak) -> None:
    """6.4.1: broadcast and on record."""
    async with speak("clude", start="clude", screen=RecordingScreen()) as say:
        await say("display", content="hi", level="success")
        shown = next(event for event in say.journal() if event["kind"] == "display")
    assert (shown["content"], shown["level"]) == ("hi", "success")


async def test_display_reaches_whoever_watches_live(speak: Speak) -> None:
    """6.4.1: a live view listens, and sees title, level and content at once."""
    shown: list[Any] = []
    async with speak("clude", start="clude", screen=RecordingScreen()) as say:
        say.runtime.on_display(lambda item: shown.append(dict(item)))
        await say("display", content="hi", level="progress", title="Step 1")
    assert [(item["title"], item["level"], item["content"]) for item in shown] == [("Step 1", "progress", "hi")]


def test_display_is_a_panel_with_live_and_a_line_without(work: Path) -> None:
    """6.4.1: --live shows it among what happens, with thought and evidence; without, one line is its preview."""
    asked = ["call", "--dialect", "clude", "display", "content=正在分析…", "level=warning", "title=Step"]
    asked += ["thought=先把链路收口", 'evidence=["cli/chat_handler.py", "plugins/ui/opencode_tui.py"]']
    told = [
        subprocess.run([*HANDRAIL, *asked, *more], cwd=work, capture_output=True, text=True, check=True, timeout=60)
        for more in (["--live"], [])
    ]
    panel = told[0].stderr.partition("╯")[0]
    shown = ["Step", "正在分析…", "先把链路收口", "• cli/chat_handler.py", "• plugins/ui/opencode_tui.py"]
    assert [text in panel for text in shown] == [True] * 5
    assert "▶ display" in told[0].stderr
    assert told[1].stderr == "[warning] 正在分析…\n"


def test_live_tells_calls_in_the_words_of_the_document(work: Path) -> None:
    """6.4.1: observability with --live: the tool and arguments as they were asked for, also of a refused call."""
    asked = ["call", "--live", "--preset", "clude", "--dialect", "clude", "--headless"]
    lines = []
    for more in (["glob_file_search", "glob_pattern=*.py"], ["delete_file", "path=a.txt"]):
        told = subprocess.run([*HANDRAIL, *asked, *more], cwd=work, capture_output=True, text=True, check=False)
        lines += [line.partition("▶ ")[2] for line in told.stderr.splitlines() if "▶" in line]
    assert lines == ["glob_file_search glob_pattern=*.py (allow)", "delete_file path=a.txt (ask)"]


def test_the_level_changes_the_style_of_a_display() -> None:
    """6.4.1: message level (affects the display style)."""
    styles = [display_panel({"content": "x", "level": level}, 40).border_style for level in LEVELS]
    assert len(set(styles)) >= 4
    assert styles[LEVELS.index("error")] != styles[LEVELS.index("info")]


@pytest.mark.parametrize(
    ("args", "field"),
    [({"content": "x", "level": "loud"}, "level"), ({}, "content"), ({"content": "x", "colour": "red"}, "colour")],
)
async def test_display_refuses_what_its_schema_does_not_name(speak: Speak, args: dict[str, Any], field: str) -> None:
    """6.4.1: five levels, content required, nothing further."""
    async with speak("clude", start="clude", screen=RecordingScreen()) as say:
        told = await say("display", args)
    assert [error["field"] for error in told["error"]["details"]["errors"]] == [field]


async def test_display_falls_back_to_a_preview(speak: Speak, capsys: pytest.CaptureFixture[str]) -> None:
    """6.4.1: where nobody watches live, one line is printed."""
    async with speak("clude", start="clude") as say:
        await say("display", content="hi", level="warning")
    assert capsys.readouterr().err == "[warning] hi\n"


async def test_message_user_is_known_as_display(speak: Speak) -> None:
    """6.4.1: the name it goes by elsewhere is adapted, and that is said."""
    async with speak("clude", start="clude", screen=RecordingScreen()) as say:
        told = await say("message_user", content="hi")
    assert (told["ok"], say.last.warnings) == (True, ("`message_user` is called `display` in clude",))


async def test_read_lints_takes_paths(speak: Speak, project: Path) -> None:
    """6.4 quality: read_lints(paths[])."""
    (project / "bad.json").write_text("{")
    async with speak("clude", start="clude") as say:
        told = await say("read_lints", paths=["bad.json"])
    (found,) = told["payload"]["diagnostics"]
    assert (found["file"], found["line"], found["column"], found["severity"], found["source"]) == (
        "bad.json", 1, 2, "error", "json",
    )  # fmt: skip


@pytest.mark.parametrize("nothing", [None, ""])
async def test_a_new_note_names_no_note_before_it(speak: Speak, nothing: str | None) -> None:
    """6.5: the signature has four fields; where there is nothing to name, null and an empty text say so."""
    made = {"title": "t", "knowledge_to_store": "x", "existing_knowledge_id": nothing}
    async with speak("clude", start="clude") as say:
        created = await say("update_memory", {"action": "create", **made})
        empty = await say("update_memory", {"action": "delete", **dict.fromkeys(made, nothing)})
    assert (created["ok"], created["payload"]["action"]) == (True, "create")
    assert (empty["error"]["code"], "existing_knowledge_id" in empty["error"]["message"]) == ("INVALID_ARGS", True)


async def test_update_memory_takes_the_fields_of_the_document(speak: Speak) -> None:
    """6.5: update_memory(action, title, knowledge_to_store, existing_knowledge_id)."""
    config = {"memory": {"write_mode": "external"}, "rules": [{"effect": "allow", "touch": "memory.write"}]}
    async with speak("clude", start="clude", config=config) as say:
        made = await say("update_memory", action="create", title="Build", knowledge_to_store="Node 22 is needed.")
        known, held = made["payload"]["id"], []
        for args in (
            {"action": "update", "existing_knowledge_id": known, "knowledge_to_store": "Node 24 is needed."},
            {"action": "delete", "existing_knowledge_id": known},
        ):
            told = await say("update_memory", args)
            found = await say.runtime.call("recall_memory", {"query": "Node"}, dialect="native")
            held.append((told["ok"], [(note["title"], note["content"]) for note in found.data["notes"]]))
    assert held == [(True, [("Build", "Node 24 is needed.")]), (True, [])]


# ── 7 audit ──────────────────────────────────────────────────────────────────────────────────


async def test_every_call_writes_one_audit_line(speak: Speak, project: Path) -> None:
    """7: JSON Lines, one for each call, refused ones too."""
    async with speak("clude", start="clude") as say:
        await say("read_file", path="a.txt")
        await say("read_file", path="../x")
        await say("nothing")
        lines = say.events()
    assert [(line["name"], line["result"]["ok"]) for line in lines] == [
        ("read_file", True), ("read_file", False), ("nothing", False),
    ]  # fmt: skip


async def test_an_audit_line_has_the_fields_of_the_document(speak: Speak, project: Path) -> None:
    """7: trace_id, tool_call_id, name/version, args, result.ok, error.code, duration_ms, artifacts."""
    async with speak("clude", start="clude") as say:
        await say.handle(request(name="apply_patch", args={"patch_text": PATCH}))
        line = say.events()[0]
    assert line.pop("duration_ms") > 0
    assert line == {
        "trace_id": "trace-1",
        "tool_call_id": "call-1",
        "name": "apply_patch",
        "version": "1.0.0",
        "args": {"patch_text": PATCH},
        "result": {"ok": True},
        "error": None,
        "artifacts": {"files_changed": ["a.txt"], "commands_run": []},
    }


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"args": {}}, "INVALID_ARGS"),
        ({"args": {"path": "a.txt", "more": 1}}, "INVALID_ARGS"),
        ({"version": "9.0.0"}, "UNSUPPORTED_VERSION"),
        ({"args": {"path": "../x"}}, "PATH_OUTSIDE_ROOTS"),
    ],
)
async def test_the_line_of_a_refused_call_names_the_version(
    speak: Speak, project: Path, fields: dict[str, Any], code: str
) -> None:
    """7: name/version, also where the call was refused before it reached the tool."""
    async with speak("clude", start="clude") as say:
        await say.handle(request(**fields))
        (line,) = say.events()
    assert (line["name"], line["version"], line["error"]) == ("read_file", "1.0.0", {"code": code})


async def test_secrets_in_arguments_are_not_in_the_audit(speak: Speak, project: Path) -> None:
    """7: sensitive fields are redacted."""
    async with speak("clude", start="clude") as say:
        await say("grep", pattern=SECRET)
        line = say.events()[0]
    assert (line["args"]["pattern"], SECRET in json.dumps(line)) == ("***REDACTED***", False)


async def test_a_failed_call_has_its_code_in_the_audit(speak: Speak) -> None:
    """7: error.code."""
    async with speak("clude", start="clude") as say:
        await say("read_file", path="missing")
        assert say.events()[0]["error"] == {"code": "NOT_FOUND"}


# ── 8 versions ───────────────────────────────────────────────────────────────────────────────


async def test_a_new_minor_or_patch_is_compatible(speak: Speak, project: Path) -> None:
    """8.1: MINOR adds, PATCH mends; both are taken."""
    async with speak("clude", start="clude") as say:
        told = [await say.call("read_file", {"path": "a.txt"}, version=version) for version in ("1.0.9", "1.7.0", "1")]
    assert [result["ok"] for result in told] == [True] * 3


async def test_another_major_is_refused_with_what_is_spoken(speak: Speak, project: Path) -> None:
    """8.2: a clear error for an old schema that cannot be adapted."""
    async with speak("clude", start="clude") as say:
        told = await say.call("read_file", {"target_file": "a.txt"}, version="0.9")
    assert (told["error"]["code"], told["error"]["details"]["spoken"]) == ("UNSUPPORTED_VERSION", ["1.0.0"])


async def test_an_old_schema_with_an_adapter_is_adapted_and_says_so(
    speak: Speak, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8.2: automatic adaptation, all the way: the old call is made, warned of, and on record as it was written."""
    spoken = dialects.get("clude")
    word = spoken.words["read_file"]
    newer = replace(word, version="2.0.0", adapters={1: lambda args: {"path": args["target_file"]}})
    known = replace(spoken, words={**spoken.words, "read_file": newer})
    monkeypatch.setitem(dialects._loaded, "clude", known)
    async with speak("clude", start="clude") as say:
        told = await say.handle(request(version="1.3.0", args={"target_file": "a.txt"}))
        warned = say.last.warnings
        refused = await say.handle(request(version="1.3.0", args={"path": "a.txt"}, tool_call_id="2"))
        older = await say.handle(request(version="0.9", args={"path": "a.txt"}, tool_call_id="3"))
        line = say.events()[0]
    assert (told[0]["payload"]["text"], warned) == (
        "one\ntwo\n", ("arguments of version 1.3.0 were adapted to 2.0.0",),
    )  # fmt: skip
    assert [result[0]["error"]["code"] for result in (refused, older)] == ["INVALID_ARGS", "UNSUPPORTED_VERSION"]
    assert older[0]["error"]["details"]["spoken"] == ["2.0.0", "1.x"]
    assert line["args"] == {"target_file": "a.txt"}


async def test_an_own_tool_adapts_its_older_calls(speak: Speak) -> None:
    """8.2: an adapter is registered with a tool."""

    @tool(risk="low", pure=True, version="2.1.0", adapters={1: lambda args: {"text": args["message"]}})
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    async with speak("native", tools=[echo]) as say:
        told = [
            await say.call("echo", {"message": "x"}, version="1.0"),
            await say.call("echo", {"text": "x"}, version="2.7"),
            await say.call("echo", {"text": "x"}, version="3.0"),
        ]
    assert [(result["ok"], result["warnings"]) for result in told] == [
        (True, ["arguments of version 1.0 were adapted to 2.1.0"]), (True, []), (False, []),
    ]  # fmt: skip


async def test_a_field_of_an_older_schema_is_named_with_its_new_form(speak: Speak, project: Path) -> None:
    """8.2: an old argument name gives an error that says the new one."""
    async with speak("clude", start="clude") as say:
        told = await say("apply_patch", patch=PATCH)
    expected = {error["field"]: error["expected"] for error in told["error"]["details"]["errors"]}
    assert expected["patch"] == "did you mean patch_text?"


async def test_the_agent_is_asked_to_display_its_progress(speak: Speak) -> None:
    """6.4.1: what a model is told before a task asks for `display` as a step begins."""
    from handrail.agent.instructions import write_instructions

    async with speak("clude", start="clude") as say:
        told = write_instructions(say.runtime, "clude")
    assert "Report progress with `display` when a step begins" in told
