"""tool-hub, promise by promise; each docstring begins with the section of its document.

Longer than 500 lines because every promise of the document is a test of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dialects._speaking import Speak, Voice
from handrail import Code, Decision, Problem, SettingsFault, __version__, dialects, tool
from handrail.dialects._dialect import encoded
from handrail.dialects._schema import check
from handrail.dialects.tool_hub import idempotency_key
from handrail.settings import foreign
from handrail.testing import ScriptedApprover, ScriptedNet, lend
from serving import Server, answer, serving

FIFTEEN = [
    "core/fs.readText", "core/fs.writeText", "core/fs.listDir", "core/fs.searchText", "core/fs.sha256",
    "core/fs.deletePath", "core/http.fetchText", "core/http.fetchJson", "core/http.downloadFile", "core/http.head",
    "core/util.json.select", "core/util.text.truncate", "core/util.hash.sha256Text", "core/util.time.now",
    "core/util.template.render",
]  # fmt: skip
MIB = 1024 * 1024
HUB = dialects.get("tool-hub")
Reach = Callable[..., AbstractAsyncContextManager[tuple[Voice, Server]]]


def sha(text: str) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def reach(speak: Speak) -> Reach:
    """A runtime with the document's defaults that may reach one server on loopback."""

    @asynccontextmanager
    async def make(rules: list[dict[str, Any]] | None = None, **http: Any) -> AsyncIterator[tuple[Voice, Server]]:
        async with serving() as server:
            allowed = {"allowed_hosts": [f"127.0.0.1:{server.port}"], "allowed_networks": ["127.0.0.0/8"], **http}
            config = {"http": allowed, "rules": rules or []}
            async with speak("tool-hub", start="tool-hub", config=config, mode="headless") as say:
                say.runtime.parts.outside.network.sleep = lambda _: asyncio.sleep(0)
                yield say, server

    return make


# ── 1 to 5 ───────────────────────────────────────────────────────────────────────────────────


async def test_exactly_the_fifteen_core_tools_are_listed(speak: Speak) -> None:
    """6 to 8: six for files, four for HTTP, five utilities."""
    async with speak("tool-hub", start="tool-hub") as say:
        assert list(say.specs()) == FIFTEEN


WITHOUT_LANGCHAIN = """
import asyncio, sys
for name in ("langchain", "langchain_core"):
    sys.modules[name] = None  # importing it fails
from handrail import Runtime, preset

async def main():
    async with Runtime.open(sys.argv[1], config=preset("tool-hub"), dialect="tool-hub") as runtime:
        told = await runtime.call("core/fs.listDir", {"path": "."})
        print(told.ok, len(runtime.tools(every=True)))

asyncio.run(main())
"""


def test_core_tools_need_no_langchain(work: Path) -> None:
    """3: local functions, registered when the runtime opens; where LangChain cannot be imported they work as well."""
    command = [sys.executable, "-c", WITHOUT_LANGCHAIN, str(work)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("True 15\n", 0), done.stderr


def test_all_names_are_in_the_namespace_core() -> None:
    """4: core/*."""
    assert [name for name in HUB.words if not name.startswith("core/")] == []


def test_names_survive_apis_that_take_no_slash_or_dot() -> None:
    """4: encoded for function calling, and found again."""
    plain = [encoded(name) for name in FIFTEEN]
    assert all(name.replace("_", "").isalnum() for name in plain)
    assert [HUB.word(name).name for name in plain] == FIFTEEN


async def test_a_name_without_its_namespace_is_adapted(speak: Speak) -> None:
    """9.2: the document itself writes fs.writeText; that is understood, and the full name is said."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("fs.listDir", path=".")
    assert (told["ok"], say.last.warnings) == (True, ("`fs.listDir` is called `core/fs.listDir` in tool-hub",))


async def test_every_call_goes_through_schema_policy_and_audit(speak: Speak) -> None:
    """1: controlled: one failed schema, one refusal by policy, one success, each on record."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = [
            await say("core/fs.listDir"),
            await say("core/fs.listDir", path="/etc"),
            await say("core/fs.listDir", path="."),
        ]
        ended = [event for event in say.events() if event["kind"] in ("tool.completed", "tool.failed")]
    assert [(result["error"] or {}).get("kind") for result in told] == [
        "INPUT_SCHEMA_INVALID", "PATH_OUTSIDE_SANDBOX", None,
    ]  # fmt: skip
    assert [event["tool"] for event in ended] == ["core/fs.listDir"] * 3


async def test_a_run_has_a_budget(speak: Speak) -> None:
    """1: budgets are kept for every call."""
    async with speak("tool-hub", start="tool-hub", config={"limits": {"max_calls": 1}}) as say:
        told = [await say("core/util.time.now") for _ in range(2)]
    assert [result["ok"] for result in told] == [True, False]
    assert told[1]["error"]["details"]["code"] == "BUDGET_EXHAUSTED"


async def test_tools_can_be_put_together(reach: Reach) -> None:
    """1: fetch, select, write: each result is what the next one takes."""
    async with reach() as (say, server):
        server.on("/", b'{"name": "core"}', headers={"Content-Type": "application/json"})
        fetched = await say("core/http.fetchJson", url=server.url("/"))
        picked = await say("core/util.json.select", json=fetched["result"]["json"], path="name")
        written = await say("core/fs.writeText", path="name.txt", text=picked["result"]["value"])
    assert written["result"]["sha256"] == sha("core")


async def test_calls_are_limited_in_rate(speak: Speak) -> None:
    """1: stable: so many calls of a tool a minute, and when to try again."""
    async with speak("tool-hub", start="tool-hub", config={"limits": {"rate": {"now": 1}}}) as say:
        told = [await say("core/util.time.now") for _ in range(2)]
    assert (told[0]["ok"], told[1]["error"]["details"]["code"]) == (True, "RATE_LIMITED")


async def test_a_host_that_keeps_failing_is_left_alone(reach: Reach) -> None:
    """1: stable: a circuit breaker."""
    async with reach(max_retries=0) as (say, server):
        server.on("/", b"", status=503)
        told = [await say("core/http.fetchText", url=server.url(f"/?{number}")) for number in range(7)]
    assert (told[0]["error"]["details"]["code"], told[-1]["error"]["details"]["code"]) == (
        "UPSTREAM_ERROR", "CIRCUIT_OPEN",
    )  # fmt: skip
    assert len(server.asked) < 7


async def test_output_is_free_of_secrets(speak: Speak) -> None:
    """1: safe: redacted before anybody sees it."""
    secret = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("core/util.template.render", template="key {{k}}", data={"k": secret})
    assert told["result"] == {"text": "key ***REDACTED***"}


async def test_an_event_of_every_call_names_tool_arguments_and_kind(speak: Speak) -> None:
    """1: observable: the event log, in the document's names."""
    async with speak("tool-hub", start="tool-hub") as say:
        await say("core/fs.readText", path="../x")
        event = say.events()[-1]
    assert (event["tool"], event["args"], event["errorKind"]) == (
        "core/fs.readText", {"path": "../x"}, "PATH_OUTSIDE_SANDBOX",
    )  # fmt: skip


async def test_an_application_brings_its_own_authorisation(speak: Speak) -> None:
    """2.2: the hook: what must be asked for is asked of the application, with tool and arguments."""
    approver = ScriptedApprover("once", "no")
    config = {"tools": {"enable": ["write_file", "delete_path"]}}
    async with speak("tool-hub", start="tool-hub", config=config, approver=approver) as say:
        for name in ("a.txt", "b.txt"):
            await say("core/fs.writeText", path=name, text="x")
        told = [await say("core/fs.deletePath", path=name, confirm=True) for name in ("a.txt", "b.txt")]
    assert [(result["ok"], (result["error"] or {}).get("kind")) for result in told] == [
        (True, None), (False, "POLICY_DENIED"),
    ]  # fmt: skip
    assert [(asked.tool, asked.params["path"]) for asked in approver.asked] == [
        ("delete_path", "a.txt"), ("delete_path", "b.txt"),
    ]  # fmt: skip


async def test_calls_can_be_made_side_by_side(reach: Reach) -> None:
    """2.1: asynchronous: a slow call holds no other up."""
    async with reach() as (say, server):
        met = asyncio.Barrier(3)

        async def together(_: Any, writer: asyncio.StreamWriter) -> None:
            await met.wait()  # nobody is answered before all have asked
            writer.write(answer(b"ok", 200, None, 2))

        server.answers["/"] = together
        told = await asyncio.wait_for(
            asyncio.gather(*(say("core/http.fetchText", url=server.url(f"/?{n}")) for n in range(3))), 60
        )
    assert [result["result"]["text"] for result in told] == ["ok"] * 3


@pytest.mark.parametrize(
    ("capability", "kinds"),
    [
        ("read:fs", {"fs.read"}),
        ("write:fs", {"fs.write"}),
        ("network", {"net.connect"}),
        ("danger:destructive", {"fs.delete"}),
    ],
)
def test_capabilities_are_kinds_of_touch(capability: str, kinds: set[str]) -> None:
    """5: the four of the document."""
    assert HUB.permissions([capability]) == kinds


async def test_every_tool_names_its_capabilities(speak: Speak) -> None:
    """2.1: a ToolSpec has name, schema and capabilities."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = {name: spec.get("capabilities", []) for name, spec in say.specs().items()}
    read, net = ["read:fs"], ["network"]
    assert list(told.values()) == [
        read, ["write:fs"], read, read, read, ["danger:destructive", "write:fs"],
        net, net, ["network", "write:fs"], net, [], [], [], [], [],
    ]  # fmt: skip


async def test_a_call_can_be_held_to_capabilities(speak: Speak) -> None:
    """5: what goes beyond them is denied."""
    async with speak("tool-hub", start="tool-hub") as say:
        fine = await say.call("core/fs.listDir", {"path": "."}, permissions=["read:fs"])
        told = await say.call("core/fs.writeText", {"path": "a", "text": "x"}, permissions=["read:fs"])
    assert (fine["ok"], told["error"]["kind"]) == (True, "POLICY_DENIED")
    assert told["error"]["details"]["requiredCapabilities"] == ["write:fs"]


async def test_overwriting_needs_danger_destructive(reach: Reach) -> None:
    """5: deleting and overwriting; what may only write makes new files."""
    less, enough = ["read:fs", "write:fs", "network"], ["write:fs", "network", "danger:destructive"]
    async with reach([{"effect": "allow", "touch": "fs.write"}]) as (say, server):
        server.on("/", b"new")
        calls = {
            "core/fs.writeText": {"path": "a.txt", "text": "new", "overwrite": True},
            "core/http.downloadFile": {"url": server.url("/"), "destPath": "a.txt", "overwrite": True},
        }
        for name, args in calls.items():
            await say("core/fs.writeText", path="a.txt", text="old", overwrite=True)
            spelt = (name, encoded(name), name.removeprefix("core/"))
            refused = [await say.call(one, args, permissions=less) for one in spelt]
            asked = say.runtime.explain(name, args, permissions=less).decision
            before = await say("core/fs.readText", path="a.txt")
            made = await say.call(name, args, permissions=enough)
            after = await say("core/fs.readText", path="a.txt")
            assert [told["error"]["kind"] for told in refused] == ["POLICY_DENIED"] * 3
            needed = ["write:fs"] if name == "core/fs.writeText" else ["network", "write:fs"]
            assert refused[0]["error"]["details"]["requiredCapabilities"] == [*needed, "danger:destructive"]
            assert asked is Decision.DENY
            assert (before["result"]["text"], made["ok"], after["result"]["text"]) == ("old", True, "new")
        fine = await say.call("core/fs.writeText", {"path": "b.txt", "text": "x"}, permissions=["write:fs"])
        unread = await say.call("core/fs.readText", {"path": "b.txt"}, permissions=enough)
    assert (fine["ok"], unread["error"]["details"]["requiredCapabilities"]) == (True, ["read:fs"])


async def test_writing_is_allowed_only_in_the_sandbox(speak: Speak, work: Path) -> None:
    """5.1: write:fs."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = [await say("core/fs.writeText", path=p, text="x") for p in ("a.txt", "../a.txt", "/tmp/a.txt")]
    assert [(result["error"] or {}).get("kind") for result in told] == [
        None, "PATH_OUTSIDE_SANDBOX", "PATH_OUTSIDE_SANDBOX",
    ]  # fmt: skip


async def test_deleting_needs_explicit_authorisation(speak: Speak) -> None:
    """5.1: off by default; enabled it still asks."""
    async with speak("tool-hub", start="tool-hub") as say:
        off = await say("core/fs.deletePath", path="a.txt", confirm=True)
    on_config = {"tools": {"enable": ["write_file", "delete_path"]}}
    async with speak("tool-hub", start="tool-hub", config=on_config, mode="headless") as say:
        await say("core/fs.writeText", path="a.txt", text="x")
        on = await say("core/fs.deletePath", path="a.txt", confirm=True)
    assert (off["error"]["details"]["code"], on["error"]["details"]["code"]) == ("POLICY_DENIED", "APPROVAL_REQUIRED")


async def test_only_allowed_hosts_are_reached(speak: Speak) -> None:
    """5.1: allowedHosts; none are named at first."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("core/http.fetchText", url="https://example.org/")
    assert told["error"]["kind"] == "HTTP_DISALLOWED_HOST"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "172.31.255.255", "localhost"]
)
async def test_inner_addresses_are_not_reached_even_when_named(speak: Speak, host: str) -> None:
    """5.1: private, local and metadata addresses, unless their network is allowed explicitly."""
    config = {"http": {"allowed_hosts": [host]}}
    async with speak("tool-hub", start="tool-hub", config=config) as say:
        told = await say("core/http.fetchText", url=f"http://{host}/")
    assert told["error"]["kind"] == "HTTP_DISALLOWED_HOST"


async def test_core_tools_config_allows_an_inner_network(speak: Speak, work: Path) -> None:
    """5.1: unless explicitly allowed: in the document's own configuration, by naming host and network."""
    async with serving() as server:
        server.on("/", b"ok")
        host, told = f"127.0.0.1:{server.port}", []
        for hosts in ([host, "127.0.0.0/8"], [host]):
            given = foreign.tool_hub({"sandboxRoot": f"{work}/box", "allowedHosts": hosts, "blockedCidrs": []})
            async with speak("tool-hub", config=given) as say:
                told.append(await say("core/http.fetchText", url=server.url("/")))
    assert (told[0]["result"]["text"], told[1]["error"]["kind"]) == ("ok", "HTTP_DISALLOWED_HOST")


async def test_an_inner_address_is_reached_where_its_network_is_allowed(reach: Reach) -> None:
    """5.1: unless explicitly allowed: host and network both named."""
    async with reach() as (say, server):
        server.on("/", b"ok")
        told = await say("core/http.fetchText", url=server.url("/"))
    async with reach(allowed_networks=[]) as (say, other):
        refused = await say("core/http.fetchText", url=other.url("/"))
    assert (told["result"]["text"], refused["error"]["kind"], other.asked) == ("ok", "HTTP_DISALLOWED_HOST", [])


@pytest.mark.parametrize("name", ["core/fs.readText", "core/fs.listDir", "core/fs.searchText", "core/fs.sha256"])
async def test_what_is_not_there_was_looked_for_in_the_sandbox(speak: Speak, work: Path, name: str) -> None:
    """6.1: a file of the project is none of the sandbox's; the error says where it was looked for."""
    (work / "a.txt").write_text("x")
    args = {"root": "a.txt", "query": "x"} if name == "core/fs.searchText" else {"path": "a.txt"}
    async with speak("tool-hub", start="tool-hub", run_id="one") as say:
        inside = await say(name, args)
    box = foreign.tool_hub({"sandboxRoot": f"{work.parent}/box"})
    async with speak("tool-hub", config=box, run_id="one") as say:
        apart = await say(name, args)
    assert [(told["error"]["message"], told["error"]["details"]["sandbox"]) for told in (inside, apart)] == [
        ("a.txt does not exist in the sandbox sandbox/one.", "sandbox/one"),
        (f"a.txt does not exist in the sandbox {work.parent}/box/one.", f"{work.parent}/box/one"),
    ]


# ── 6.1 files: constraints ───────────────────────────────────────────────────────────────────


async def test_the_sandbox_is_a_folder_of_the_request(speak: Speak, work: Path) -> None:
    """6.1: sandboxRoot/<requestId>/: each request of a runtime has its own, the same one when it comes again."""
    write = {"tool": "core/fs.writeText", "args": {"path": "a.txt", "text": "x"}}
    read = {"tool": "core/fs.readText", "args": {"path": "a.txt"}}
    async with speak("tool-hub", config=foreign.tool_hub({"sandboxRoot": f"{work}/box"})) as say:
        ask = say.runtime.call_from
        wrote = await ask({**write, "requestId": "req-1"})
        other, own = await ask({**read, "requestId": "req-2"}), await ask({**read, "requestId": "req-1"})
        bad = await ask({**write, "requestId": "../out"})
        many = await asyncio.gather(*(ask({**read, "requestId": f"req-{n % 2 + 1}"}) for n in range(8)))
    assert (wrote["ok"], (work / "box/req-1/a.txt").read_text()) == (True, "x")
    assert (other["error"]["details"]["sandbox"], own["result"]["text"]) == ("box/req-2", "x")
    assert (bad["error"]["kind"], "requestId" in bad["error"]["message"]) == ("INPUT_SCHEMA_INVALID", True)
    assert [told["ok"] for told in many] == [True, False] * 4


async def test_a_request_that_is_open_elsewhere_is_refused_as_a_result(speak: Speak, work: Path) -> None:
    """6.1: one owner for each sandbox: another one is told to try again, and the runtime goes on."""
    config = foreign.tool_hub({"sandboxRoot": f"{work}/box"})
    now = {"tool": "core/util.time.now", "args": {}}
    async with speak("tool-hub", config=config) as say, speak("tool-hub", config=config, run_id="req-1"):
        told = await say.runtime.call_from({**now, "requestId": "req-1"})
        fine = await say.runtime.call_from({**now, "requestId": "req-2"})
    assert (told["error"]["details"]["code"], told["tool"], fine["ok"]) == ("RUN_BUSY", "core/util.time.now", True)


async def test_a_tool_intent_is_taken_whole(speak: Speak) -> None:
    """3: ToolIntent -> PTC Runtime: one message in, a ToolResult out; what it does not have is refused, on record."""
    intent = {"tool": "core/fs.writeText", "args": {"path": "a.txt", "text": "x"}}
    async with speak("tool-hub", start="tool-hub") as say:
        ask = say.runtime.call_from
        wrote = await ask(intent)
        narrowed = await ask({**intent, "capabilities": ["read:fs"]})
        unknown = await ask({**intent, "capabilites": ["read:fs"]})
        nothing = await ask({"args": {}})
        twice = await ask({**intent, "toolName": "core/fs.readText"})
        failed = [event for event in say.events() if event["kind"] == "tool.failed"]
    assert (wrote["ok"], wrote["result"]["path"]) == (True, "a.txt")
    assert narrowed["error"]["details"]["requiredCapabilities"] == ["write:fs"]
    assert unknown["error"]["kind"] == "INPUT_SCHEMA_INVALID"
    assert unknown["error"]["message"] == "A ToolIntent has no 'capabilites'; did you mean capabilities?"
    assert (nothing["error"]["kind"], len(failed)) == ("INPUT_SCHEMA_INVALID", 4)
    assert (nothing["error"]["message"], twice["error"]["message"]) == (
        "The message needs `tool`, a tool's name, and `args`, an object.",
        "The message names a tool twice, as `tool` and as `toolName`; give one.",
    )


async def test_the_real_path_must_lie_in_the_sandbox(speak: Speak, work: Path, tmp_path: Path) -> None:
    """6.1: realpath, then the prefix."""
    async with speak("tool-hub", start="tool-hub", run_id="one") as say:
        (work / "sandbox/one/link").symlink_to(tmp_path)
        told = await say("core/fs.writeText", path="link/a.txt", text="x")
    assert told["error"]["kind"] == "PATH_OUTSIDE_SANDBOX"


async def test_a_file_over_5_mb_is_not_read(speak: Speak, work: Path) -> None:
    """6.1: 5 MB by default, whatever the caller asks for, and settings may say another number."""
    async with speak("tool-hub", start="tool-hub", run_id="one") as say:
        (work / "sandbox/one/big.txt").write_bytes(b"x" * (5 * MIB + 1))
        told = await say("core/fs.readText", path="big.txt", maxBytes=10 * MIB)
        again = await say(told["error"]["details"]["next_call"]["tool"], told["error"]["details"]["next_call"]["args"])
    more = foreign.tool_hub({"sandboxRoot": f"{work}/sandbox", "maxReadBytes": 6 * MIB})
    async with speak("tool-hub", config=more, run_id="one") as say:
        fine = await say("core/fs.readText", path="big.txt", maxBytes=10 * MIB)
    assert (told["error"]["kind"], again["ok"], fine["ok"]) == ("FILE_TOO_LARGE", True, True)


async def test_nothing_is_overwritten_by_default(speak: Speak, work: Path) -> None:
    """6.1: overwrite=true is needed, and then a person or a rule must allow it."""
    async with speak("tool-hub", start="tool-hub", run_id="one", mode="headless") as say:
        await say("core/fs.writeText", path="a.txt", text="one")
        told = [
            await say("core/fs.writeText", path="a.txt", text="two"),
            await say("core/fs.writeText", path="a.txt", text="two", overwrite=True),
        ]
    assert [result["error"]["details"]["code"] for result in told] == ["ALREADY_EXISTS", "APPROVAL_REQUIRED"]
    assert told[0]["error"]["message"] == "a.txt exists already; overwrite=true replaces it where policy allows."
    assert told[0]["error"]["details"]["next_call"]["args"] == {"path": "a.txt", "text": "two", "overwrite": True}
    assert (work / "sandbox/one/a.txt").read_text() == "one"


async def test_an_allowed_overwrite_replaces_and_keeps_what_was_there(speak: Speak, work: Path) -> None:
    """6.1: with policy's leave; no reading before is demanded."""
    config = {"rules": [{"effect": "allow", "touch": "fs.write"}]}
    async with speak("tool-hub", start="tool-hub", config=config, run_id="one") as say:
        (work / "sandbox/one/a.txt").write_text("former")
        await say("core/fs.writeText", path="a.txt", text="new", overwrite=True)
        written = (work / "sandbox/one/a.txt").read_text()
        await say.runtime.undo(say.last.call_id)
    assert (written, (work / "sandbox/one/a.txt").read_text()) == ("new", "former")


async def test_missing_folders_are_made(speak: Speak, work: Path) -> None:
    """6.1: mkdirp=true by default; false refuses."""
    async with speak("tool-hub", start="tool-hub", run_id="one") as say:
        made = await say("core/fs.writeText", path="a/b/c.txt", text="x")
        told = await say("core/fs.writeText", path="d/e.txt", text="x", mkdirp=False)
    assert (made["ok"], told["ok"]) == (True, False)


# ── 6.2 files: tools ─────────────────────────────────────────────────────────────────────────

PRINTED = {
    "core/fs.readText": """{
  "type": "object",
  "properties": {
    "path": {"type":"string"},
    "maxBytes": {"type":"integer","minimum":1024,"maximum":10485760}
  },
  "required": ["path"],
  "additionalProperties": false
}""",
    "core/fs.writeText": """{
  "type":"object",
  "properties":{
    "path":{"type":"string"},
    "text":{"type":"string"},
    "overwrite":{"type":"boolean"},
    "mkdirp":{"type":"boolean"}
  },
  "required":["path","text"],
  "additionalProperties":false
}""",
    "core/fs.listDir": """{
  "type":"object",
  "properties":{
    "path":{"type":"string"},
    "maxEntries":{"type":"integer","minimum":1,"maximum":5000},
    "includeHidden":{"type":"boolean"},
    "recursive":{"type":"boolean"},
    "maxDepth":{"type":"integer","minimum":1,"maximum":10}
  },
  "required":["path"],
  "additionalProperties":false
}""",
    "core/fs.searchText": """{
  "type":"object",
  "properties":{
    "root":{"type":"string"},
    "query":{"type":"string"},
    "glob":{"type":"string"},
    "maxMatches":{"type":"integer","minimum":1,"maximum":5000},
    "maxFiles":{"type":"integer","minimum":1,"maximum":2000}
  },
  "required":["root","query"],
  "additionalProperties":false
}""",
    "core/http.fetchText": """{
  "type":"object",
  "properties":{
    "url":{"type":"string","format":"uri"},
    "method":{"type":"string","enum":["GET","POST"]},
    "headers":{"type":"object","additionalProperties":{"type":"string"}},
    "body":{"type":["string","null"]},
    "timeoutMs":{"type":"integer","minimum":1000,"maximum":60000},
    "maxBytes":{"type":"integer","minimum":1024,"maximum":10485760}
  },
  "required":["url"],
  "additionalProperties":false
}""",
    "core/http.downloadFile": """{
  "type":"object",
  "properties":{
    "url":{"type":"string","format":"uri"},
    "destPath":{"type":"string"},
    "timeoutMs":{"type":"integer","minimum":1000,"maximum":120000},
    "maxBytes":{"type":"integer","minimum":1024,"maximum":104857600},
    "overwrite":{"type":"boolean"}
  },
  "required":["url","destPath"],
  "additionalProperties":false
}""",
}
RESULTS = {
    "core/fs.readText": """{
  "type":"object",
  "properties":{
    "path":{"type":"string"},
    "text":{"type":"string"},
    "bytes":{"type":"integer"}
  },
  "required":["path","text","bytes"],
  "additionalProperties":false
}""",
    "core/fs.writeText": """{
  "type":"object",
  "properties":{
    "path":{"type":"string"},
    "bytes":{"type":"integer"},
    "sha256":{"type":"string"}
  },
  "required":["path","bytes","sha256"],
  "additionalProperties":false
}""",
    "core/http.fetchText": """{
  "type":"object",
  "properties":{
    "url":{"type":"string"},
    "status":{"type":"integer"},
    "headers":{"type":"object","additionalProperties":{"type":"string"}},
    "text":{"type":"string"},
    "bytes":{"type":"integer"}
  },
  "required":["url","status","text","bytes"],
  "additionalProperties":false
}""",
}


@pytest.mark.parametrize("name", PRINTED)
async def test_a_tool_has_the_printed_input_schema(speak: Speak, name: str) -> None:
    """6.2, 7.2: as printed; paged tools also take a cursor."""
    async with speak("tool-hub", start="tool-hub") as say:
        schema = say.specs()[name]["args_schema"]
    schema["properties"].pop("cursor", None) if name != "core/fs.readText" else None
    assert json.dumps(schema) == json.dumps(json.loads(PRINTED[name]))


async def test_a_tool_takes_and_gives_the_fields_that_are_named(speak: Speak) -> None:
    """6.2 to 8.5: where the document prints no schema but names fields: those are needed, and those come back."""
    async with speak("tool-hub", start="tool-hub") as say:
        specs = say.specs()
    told = {
        name: (spec["args_schema"]["required"], spec["return_schema"]["required"])
        for name, spec in specs.items()
        if name not in PRINTED or name not in RESULTS
    }
    assert told == {
        "core/fs.listDir": (["path"], ["entries"]),
        "core/fs.searchText": (["root", "query"], ["matches"]),
        "core/fs.sha256": (["path"], ["sha256", "bytes"]),
        "core/fs.deletePath": (["path"], ["path", "removed"]),
        "core/http.fetchJson": (["url"], ["json", "status"]),
        "core/http.downloadFile": (["url", "destPath"], ["destPath", "bytes", "sha256"]),
        "core/http.head": (["url"], ["status", "headers"]),
        "core/util.json.select": (["json", "path"], ["value"]),
        "core/util.text.truncate": (["text", "maxChars"], ["text"]),
        "core/util.hash.sha256Text": (["text"], ["sha256"]),
        "core/util.time.now": ([], ["iso", "epochMs", "timezone"]),
        "core/util.template.render": (["template"], ["text"]),
    }
    same = specs["core/http.fetchText"]["args_schema"]["properties"]
    assert {**specs["core/http.fetchJson"]["args_schema"]["properties"], "cursor": {"type": "string"}} == same
    assert "confirm" in specs["core/fs.deletePath"]["args_schema"]["properties"]


@pytest.mark.parametrize("name", RESULTS)
async def test_a_tool_has_the_printed_output_schema(speak: Speak, name: str) -> None:
    """6.2, 7.2: as printed; paged results also have a cursor, kept ones the fileRef of 9.2."""
    async with speak("tool-hub", start="tool-hub") as say:
        schema = say.specs()[name]["return_schema"]
    for added in ("nextCursor", "fileRef"):
        schema["properties"].pop(added, None)
    assert json.dumps(schema) == json.dumps(json.loads(RESULTS[name]))


async def written(say: Voice) -> None:
    """Files in the sandbox."""
    await say("core/fs.writeText", path="a.txt", text="one\nneedle\n")
    await say("core/fs.writeText", path="sub/b.py", text="needle()\n")
    await say("core/fs.writeText", path="sub/deep/c.bin", text="needle\n")


async def test_read_text_gives_path_text_and_bytes(speak: Speak) -> None:
    """6.2.1: core/fs.readText."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        told = await say("core/fs.readText", path="a.txt")
    assert told["result"] == {"path": "a.txt", "text": "one\nneedle\n", "bytes": 11}


async def test_read_text_takes_a_limit_between_1_kb_and_10_mb(speak: Speak) -> None:
    """6.2.1: maxBytes."""
    async with speak("tool-hub", start="tool-hub") as say:
        await say("core/fs.writeText", path="a.txt", text="x" * 2000)
        told = [await say("core/fs.readText", path="a.txt", maxBytes=size) for size in (1023, 1024, 2048, 10485761)]
    assert [(result["error"] or {}).get("kind") for result in told] == [
        "INPUT_SCHEMA_INVALID", "FILE_TOO_LARGE", None, "INPUT_SCHEMA_INVALID",
    ]  # fmt: skip


async def test_read_text_takes_utf_8_and_nothing_else(speak: Speak, work: Path) -> None:
    """6.2.1: text in UTF-8; other bytes are told and not guessed at."""
    async with speak("tool-hub", start="tool-hub", run_id="one") as say:
        (work / "sandbox/one/a.txt").write_bytes("größe".encode())
        (work / "sandbox/one/b.txt").write_bytes("größe".encode("latin-1"))
        (work / "sandbox/one/c.txt").write_bytes(bytes(range(256)))
        told = [await say("core/fs.readText", path=f"{name}.txt") for name in "abc"]
    assert told[0]["result"]["text"] == "größe"
    assert [result["error"]["details"]["code"] for result in told[1:]] == ["BAD_ENCODING", "NOT_TEXT"]


async def test_reading_is_proven_by_size_and_hash_of_the_first_lines(speak: Speak) -> None:
    """6.2.1: evidence of type file."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        told = await say("core/fs.readText", path="a.txt")
    digest = sha("one\nneedle\n")
    assert told["evidence"] == [
        {"type": "file", "ref": "a.txt", "summary": f"bytes=11 sha256={digest} first 20 lines sha256={digest}"}
    ]


async def test_write_text_gives_path_bytes_and_hash(speak: Speak) -> None:
    """6.2.2: core/fs.writeText."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("core/fs.writeText", path="a.txt", text="é")
    assert told["result"] == {"path": "a.txt", "bytes": 2, "sha256": sha("é")}


async def test_list_dir_gives_name_type_size_and_time(speak: Speak) -> None:
    """6.2.3: core/fs.listDir: not recursive, no hidden files, 2000 entries."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        told = await say("core/fs.listDir", path=".")
        args = next(event["args"] for event in say.journal() if event.get("tool") == "list_dir")
    rows = told["result"]["entries"]
    assert [(row["name"], row["type"]) for row in rows] == [("a.txt", "file"), ("sub", "directory")]
    assert [sorted(row) for row in rows] == [["mtime", "name", "size", "type"]] * 2
    assert [datetime.fromisoformat(row["mtime"]).tzinfo for row in rows] == [UTC] * 2
    assert (args["depth"], args["limit"], args["hidden"]) == (1, 2000, False)


async def test_list_dir_has_a_limit_of_entries(speak: Speak) -> None:
    """6.2.3: maxEntries, 1 to 5000; what follows is asked for with the cursor."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        first = await say("core/fs.listDir", path=".", maxEntries=1)
        rest = await say("core/fs.listDir", path=".", cursor=first["result"]["nextCursor"])
        wrong = [await say("core/fs.listDir", path=".", maxEntries=count) for count in (0, 5001)]
        wrong += [await say("core/fs.listDir", path=".", maxDepth=count) for count in (0, 11)]
    assert [[row["name"] for row in told["result"]["entries"]] for told in (first, rest)] == [["a.txt"], ["sub"]]
    assert [told["error"]["kind"] for told in wrong] == ["INPUT_SCHEMA_INVALID"] * 4


async def test_list_dir_shows_hidden_files_when_asked(speak: Speak) -> None:
    """6.2.3: includeHidden=false by default."""
    async with speak("tool-hub", start="tool-hub") as say:
        await say("core/fs.writeText", path=".hidden", text="x")
        told = [await say("core/fs.listDir", {"path": ".", **more}) for more in ({}, {"includeHidden": True})]
    assert [[row["name"] for row in result["result"]["entries"]] for result in told] == [[], [".hidden"]]


async def test_list_dir_goes_deeper_when_asked(speak: Speak) -> None:
    """6.2.3: recursive and maxDepth."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        deep = await say("core/fs.listDir", path=".", recursive=True)
        less = await say("core/fs.listDir", path=".", recursive=True, maxDepth=2)
    names = ["a.txt", "sub", "sub/b.py", "sub/deep", "sub/deep/c.bin"]
    assert [row["name"] for row in deep["result"]["entries"]] == names
    assert [row["name"] for row in less["result"]["entries"]] == names[:-1]


async def test_search_text_gives_file_line_and_excerpt(speak: Speak) -> None:
    """6.2.4: core/fs.searchText: a keyword, in files of the default kinds."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        told = await say("core/fs.searchText", root=".", query="needle(")
        every = await say("core/fs.searchText", root=".", query="needle")
    assert told["result"]["matches"] == [{"file": "sub/b.py", "lineNo": 1, "excerpt": "needle()"}]
    assert [row["file"] for row in every["result"]["matches"]] == ["a.txt", "sub/b.py"]


async def test_search_text_looks_into_files_of_nine_kinds(speak: Speak) -> None:
    """6.2.4: glob, by default **/*.{md,txt,log,json,ts,js,py,java,scala}."""
    kinds = ["md", "txt", "log", "json", "ts", "js", "py", "java", "scala"]
    async with speak("tool-hub", start="tool-hub") as say:
        for kind in (*kinds, "bin", "html", "pyc"):
            await say("core/fs.writeText", path=f"deep/er/a.{kind}", text="needle\n")
        told = await say("core/fs.searchText", root=".", query="needle")
        other = await say("core/fs.searchText", root=".", query="needle", glob="*.html")
    assert [row["file"] for row in told["result"]["matches"]] == sorted(f"deep/er/a.{kind}" for kind in kinds)
    assert [row["file"] for row in other["result"]["matches"]] == ["deep/er/a.html"]


async def test_search_text_has_limits(speak: Speak) -> None:
    """6.2.4: maxMatches up to 5000 and maxFiles up to 2000."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        told = [
            await say("core/fs.searchText", root=".", query="needle", maxMatches=1),
            await say("core/fs.searchText", root=".", query="needle", maxFiles=1),
            await say("core/fs.searchText", root=".", query="needle", maxMatches=5000, maxFiles=2000),
        ]
        wrong = [
            await say("core/fs.searchText", {"root": ".", "query": "needle", name: count})
            for name, count in (("maxMatches", 0), ("maxMatches", 5001), ("maxFiles", 0), ("maxFiles", 2001))
        ]
    assert [len(result["result"]["matches"]) for result in told] == [1, 1, 2]
    assert [result["error"]["kind"] for result in wrong] == ["INPUT_SCHEMA_INVALID"] * 4


async def test_sha256_gives_hash_and_size(speak: Speak) -> None:
    """6.2.5: core/fs.sha256."""
    async with speak("tool-hub", start="tool-hub") as say:
        await written(say)
        told = await say("core/fs.sha256", path="a.txt")
    assert told["result"] == {"sha256": sha("one\nneedle\n"), "bytes": 11}


async def test_delete_path_needs_confirm(speak: Speak, work: Path) -> None:
    """6.2.6: confirm=true in the same call, checked by policy; files and directories."""
    config = {"tools": {"enable": ["write_file", "delete_path"]}, "rules": [{"effect": "allow", "touch": "fs.delete"}]}
    async with speak("tool-hub", start="tool-hub", config=config, run_id="one") as say:
        await written(say)
        refused = await say("core/fs.deletePath", path="sub")
        told = await say("core/fs.deletePath", path="sub", confirm=True)
    assert (refused["error"]["kind"], refused["error"]["details"]["rule"]) == ("POLICY_DENIED", "builtin.confirm")
    assert refused["error"]["details"]["next_call"]["args"] == {"path": "sub", "confirm": True}
    assert (told["result"]["path"], (work / "sandbox/one/sub").exists()) == ("sub", False)


# ── 7 HTTP ───────────────────────────────────────────────────────────────────────────────────


async def test_hosts_may_be_named_with_a_wildcard(speak: Speak) -> None:
    """7.1: *.github.com."""
    config = {"http": {"allowed_hosts": ["*.github.com"]}}
    async with speak("tool-hub", start="tool-hub", config=config) as say:
        told = [
            say.runtime.explain("core/http.head", {"url": f"https://{host}/"}).decision.word
            for host in ("api.github.com", "github.com.evil.org", "example.org")
        ]
    assert told == ["allow", "deny", "deny"]


async def test_requests_have_15_seconds_by_default(speak: Speak) -> None:
    """7.1: timeoutMs=15000: a call that names none goes by the setting, another by its own."""
    net = ScriptedNet({"https://example.org/": "ok"})
    async with speak("tool-hub", start="tool-hub", config={"http": {"allowed_hosts": ["example.org"]}}) as say:
        lend(say.runtime.kernel, Net=net)
        await say("core/http.fetchText", url="https://example.org/")
        await say("core/http.fetchText", url="https://example.org/", timeoutMs=2000)
        usual = say.runtime.parts.loaded.settings.http.timeout_ms
    assert ([asked.timeout_seconds for asked in net.asked], usual) == ([None, 2.0], 15000)


async def test_a_slow_host_is_a_http_timeout(reach: Reach) -> None:
    """7.1: the limit holds, and has a name of its own."""
    async with reach(max_retries=0) as (say, server):

        async def slow(*_: Any) -> Any:
            await asyncio.sleep(30)

        server.answers["/"] = slow
        told = await say("core/http.fetchText", url=server.url("/"), timeoutMs=1000)
    assert told["error"]["kind"] == "HTTP_TIMEOUT"


@pytest.mark.parametrize("name", [name for name in FIFTEEN if name.startswith("core/http.")])
async def test_get_is_tried_twice_more(reach: Reach, name: str) -> None:
    """7.1: two retries of GET and HEAD."""
    where = {"destPath": "a.bin"} if name == "core/http.downloadFile" else {}
    async with reach() as (say, server):
        server.on("/", b"", status=503)
        told = await say(name, {"url": server.url("/"), **where})
    method = "HEAD" if name == "core/http.head" else "GET"
    assert (told["error"]["kind"], [asked.method for asked in server.asked]) == ("UPSTREAM_ERROR", [method] * 3)


async def test_post_is_not_tried_again(reach: Reach) -> None:
    """7.1: unless a key is given and policy lets it."""
    async with reach([{"effect": "allow", "touch": "net.connect"}]) as (say, server):
        server.on("/", b"", status=503)
        await say("core/http.fetchText", url=server.url("/"), method="POST", body="x")
    assert len(server.asked) == 1


async def test_post_with_a_key_is_tried_again_where_policy_lets_it(reach: Reach) -> None:
    """7.1: idempotencyKey, the caller's or the one that is made, and a setting. Every attempt carries the same key."""
    counts, keys = [], set()
    for key, leave in (("k1", False), (None, True), ("k1", True)):
        async with reach([{"effect": "allow", "touch": "net.connect"}], retry_post=leave) as (say, server):
            server.on("/", b"", status=503)
            intent = {"tool": "core/http.fetchText", "args": {"url": server.url("/"), "method": "POST", "body": "x"}}
            await say.handle({**intent, "idempotencyKey": key} if key else intent)
        counts.append(len(server.asked))
        keys |= {asked.headers.get("idempotency-key") for asked in server.asked if leave and key}
    assert (counts, len(keys), None in keys) == ([1, 3, 3], 1, False)


@pytest.mark.parametrize("spills", [False, True])
async def test_a_response_over_the_limit_is_cut_or_stored(reach: Reach, spills: bool) -> None:
    """7.1: 5 MB by default; more is cut, or stored in a file with enableAutoWriteLargeResponses."""
    async with reach(spill_large=spills) as (say, server):
        server.on("/", b"a line\n" * (6 * MIB // 7))
        server.on("/json", json.dumps(["x" * 100] * (6 * MIB // 100)).encode())
        server.on("/fits", b"a line\n" * (5 * MIB // 7))
        told = await say("core/http.fetchText", url=server.url("/"))
        fits = await say("core/http.fetchText", url=server.url("/fits"))
        kept = await say("core/http.downloadFile", url=server.url("/"), destPath="a.bin")
        whole = await say("core/fs.sha256", path=told["result"]["fileRef"]) if spills else None
        broken = await say("core/http.fetchJson", url=server.url("/json"))
    size = 6 * MIB // 7 * 7
    assert (told["ok"], told["result"]["bytes"]) == (True, size if spills else 5 * MIB)
    assert told["result"]["text"].startswith("a line\n")
    assert ("larger than maxHttpBytes" in told["result"]["text"]) is not spills
    assert whole is None or whole["result"]["bytes"] == size
    assert (broken["error"]["kind"], broken["error"]["details"]["mend"]) == (
        "HTTP_TOO_LARGE", "core/http.downloadFile takes larger files",
    )  # fmt: skip
    assert ("[truncated; " in fits["result"]["text"], "fileRef" in fits["result"]) == (True, spills)
    assert kept["result"]["bytes"] == size


async def test_fetch_text_gives_what_the_document_says(reach: Reach) -> None:
    """7.2.1: core/http.fetchText: url, status, headers, text, bytes; GET by default."""
    async with reach() as (say, server):
        server.on("/a", b"hello", headers={"Content-Type": "text/plain"})
        told = await say("core/http.fetchText", url=server.url("/a"))
    headers = told["result"].pop("headers")
    assert told["result"] == {"url": server.url("/a"), "status": 200, "text": "hello", "bytes": 5}
    assert headers["content-type"] == "text/plain"


async def test_post_needs_explicit_leave(reach: Reach) -> None:
    """7.2.1: POST asks; where nobody can be asked it is refused."""
    async with reach() as (say, server):
        server.on("/", b"ok")
        told = await say("core/http.fetchText", url=server.url("/"), method="POST", body="x")
    assert (told["error"]["details"]["code"], len(server.asked)) == ("APPROVAL_REQUIRED", 0)


async def test_post_sends_body_and_headers(reach: Reach) -> None:
    """7.2.1: method, headers and body go out as they were given, once policy allows it."""
    async with reach([{"effect": "allow", "touch": "net.connect"}]) as (say, server):
        server.on("/", b"ok")
        args = {"url": server.url("/"), "method": "POST", "headers": {"X-Step": "7"}, "body": "größe"}
        told = await say("core/http.fetchText", args)
    (asked,) = server.asked
    assert (told["result"]["text"], asked.method, asked.headers["x-step"], asked.body.decode()) == (
        "ok", "POST", "7", "größe",
    )  # fmt: skip


@pytest.mark.parametrize(
    "more", [{"method": "PUT"}, {"timeoutMs": 999}, {"timeoutMs": 60001}, {"maxBytes": 1023}, {"maxBytes": 10485761}]
)
async def test_fetch_text_keeps_to_its_limits(speak: Speak, more: dict[str, Any]) -> None:
    """7.2.1: GET or POST, 1 to 60 seconds, 1 KB to 10 MB."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("core/http.fetchText", {"url": "https://example.org/", **more})
    assert told["error"]["kind"] == "INPUT_SCHEMA_INVALID"


async def test_json_may_come_as_another_content_type(reach: Reach) -> None:
    """7.2.2: tolerated: what can be parsed is JSON."""
    async with reach() as (say, server):
        server.on("/", b"[1, 2]", headers={"Content-Type": "text/plain"})
        told = await say("core/http.fetchJson", url=server.url("/"))
    assert told["result"] == {"json": [1, 2], "status": 200}


async def test_fetch_json_gives_json_and_status(reach: Reach) -> None:
    """7.2.2: core/http.fetchJson."""
    async with reach() as (say, server):
        server.on("/", b'{"a": [1]}', headers={"Content-Type": "application/json"})
        told = await say("core/http.fetchJson", url=server.url("/"))
    assert told["result"] == {"json": {"a": [1]}, "status": 200}


async def test_what_is_no_json_is_an_upstream_error(reach: Reach) -> None:
    """7.2.2: with an excerpt of the text."""
    async with reach() as (say, server):
        server.on("/", b"<html>no</html>")
        told = await say("core/http.fetchJson", url=server.url("/"))
    assert (told["error"]["kind"], told["error"]["details"]["excerpt"]) == ("UPSTREAM_ERROR", "<html>no</html>")


async def test_download_file_gives_path_bytes_and_hash(reach: Reach) -> None:
    """7.2.3: core/http.downloadFile."""
    async with reach() as (say, server):
        server.on("/f", b"content")
        told = await say("core/http.downloadFile", url=server.url("/f"), destPath="in/f.bin")
        back = await say("core/fs.readText", path="in/f.bin")
    assert (told["result"], back["result"]["text"]) == (
        {"destPath": "in/f.bin", "bytes": 7, "sha256": sha("content")}, "content",
    )  # fmt: skip


async def test_a_download_stays_in_the_sandbox_and_overwrites_nothing(reach: Reach) -> None:
    """7.2.3: destPath, and overwrite=false."""
    async with reach() as (say, server):
        server.on("/f", b"content")
        await say("core/fs.writeText", path="f.bin", text="here")
        told = [
            await say("core/http.downloadFile", url=server.url("/f"), destPath="../f.bin"),
            await say("core/http.downloadFile", url=server.url("/f"), destPath="f.bin"),
        ]
    assert [result["error"]["kind"] for result in told] == ["PATH_OUTSIDE_SANDBOX", "POLICY_DENIED"]


async def test_a_download_over_the_limit_leaves_no_file(reach: Reach) -> None:
    """7.2.3: maxBytes, 1 KB to 100 MB, and maxDownloadBytes of the settings."""
    async with reach(max_download_bytes=3000) as (say, server):
        server.on("/f", b"x" * 4000)
        told = [
            await say("core/http.downloadFile", {"url": server.url("/f"), "destPath": "f.bin", **more})
            for more in ({"maxBytes": 2048}, {}, {"maxBytes": 1023}, {"maxBytes": 104857601}, {"timeoutMs": 120001})
        ]
        left = await say("core/fs.listDir", path=".")
    assert [result["error"]["kind"] for result in told] == ["HTTP_TOO_LARGE"] * 2 + ["INPUT_SCHEMA_INVALID"] * 3
    assert left["result"]["entries"] == []


async def test_a_download_overwrites_where_it_is_allowed(reach: Reach) -> None:
    """7.2.3: overwrite=true, with policy's leave."""
    async with reach([{"effect": "allow", "touch": "fs.write"}]) as (say, server):
        server.on("/f", b"content")
        await say("core/fs.writeText", path="f.bin", text="here")
        told = await say("core/http.downloadFile", url=server.url("/f"), destPath="f.bin", overwrite=True)
        back = await say("core/fs.readText", path="f.bin")
    assert (told["result"]["sha256"], back["result"]["text"]) == (sha("content"), "content")


async def test_head_gives_status_and_headers(reach: Reach) -> None:
    """7.2.4: core/http.head, to judge before fetching."""
    async with reach() as (say, server):
        server.on("/", b"12345", headers={"ETag": '"1"'})
        told = await say("core/http.head", url=server.url("/"))
    headers = told["result"]["headers"]
    assert (told["result"]["status"], headers["etag"], headers["content-length"], sorted(told["result"])) == (
        200, '"1"', "5", ["headers", "status"],
    )  # fmt: skip


# ── 8 utilities ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("core/util.json.select", {"json": {"a": [{"b": 1}, {"b": 2}]}, "path": "a[].b"}, {"value": [1, 2]}),
        ("core/util.hash.sha256Text", {"text": "x"}, {"sha256": sha("x")}),
        (
            "core/util.template.render",
            {"template": "# {{title}}\n{{#rows}}- {{.}}\n{{/rows}}", "data": {"title": "R", "rows": ["a", "b"]}},
            {"text": "# R\n- a\n- b\n"},
        ),
    ],
)
async def test_a_utility_gives_what_the_document_says(
    speak: Speak, name: str, args: dict[str, Any], result: dict[str, Any]
) -> None:
    """8.1, 8.3, 8.5: json.select, hash.sha256Text, template.render."""
    async with speak("tool-hub", start="tool-hub") as say:
        assert (await say(name, args))["result"] == result


async def test_truncate_cuts_and_marks(speak: Speak) -> None:
    """8.2: core/util.text.truncate."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("core/util.text.truncate", text="word " * 100, maxChars=60)
    text = told["result"]["text"]
    assert text == ("word " * 12)[:59] + "…"


async def test_now_gives_iso_epoch_and_zone(speak: Speak) -> None:
    """8.4: core/util.time.now."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = (await say("core/util.time.now"))["result"]
    assert (sorted(told), told["timezone"]) == (["epochMs", "iso", "timezone"], "UTC")
    assert round(datetime.fromisoformat(told["iso"]).timestamp() * 1000) == told["epochMs"] > 1_700_000_000_000


LONG: dict[str, dict[str, Any]] = {
    "core/util.json.select": {"json": {"rows": [f"row {n}" for n in range(20_000)]}, "path": "rows"},
    "core/util.text.truncate": {"text": "a line of text\n" * 30_000, "maxChars": 400_000},
    "core/util.template.render": {"template": "{{#rows}}row {{.}}\n{{/rows}}", "data": {"rows": list(range(20_000))}},
}


@pytest.mark.parametrize("name", LONG)
async def test_a_utility_shows_so_much_and_names_the_file_of_the_rest(speak: Speak, name: str) -> None:
    """8: output has a limit; over it a beginning, where the whole is, and that fs.writeText is for long texts."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say(name, LONG[name])
        ref = told["result"]["fileRef"]
        back = await say("core/fs.readText", path=ref)
    shown = next(value for key, value in told["result"].items() if key != "fileRef")
    assert (len(json.dumps(told)) < 80_000, shown.count("\n") <= 2001) == (True, True)
    assert f"the whole is {ref}; keep long texts in files with core/fs.writeText]" in shown
    assert (back["ok"], back["result"]["bytes"] > 150_000) == (True, True)
    check(HUB.words[name].result or {}, told["result"], repair=False)


async def test_utilities_need_no_capability(speak: Speak) -> None:
    """8: no side effects: a call held to nothing may still use them."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say.call("core/util.time.now", {}, permissions=[])
    assert told["ok"] is True


# ── 9 defaults, 10 evidence ──────────────────────────────────────────────────────────────────


async def test_defaults_are_filled_in_by_the_runtime(reach: Reach) -> None:
    """9.1: overwrite=false, mkdirp=true, timeoutMs, maxBytes, maxRetries; none of them asked from the model."""
    async with reach(timeout_ms=1000, max_bytes=2048, max_retries=1) as (say, server):

        async def slow(*_: Any) -> Any:
            await asyncio.sleep(60)

        server.answers["/slow"] = slow
        server.on("/large", b"x" * 2049)
        server.on("/broken", b"", status=503)
        told = [await say("core/http.fetchText", url=server.url(f"/{name}")) for name in ("slow", "large", "broken")]
        await say("core/fs.writeText", path="a/b.txt", text="x")
        started = [event for event in say.journal() if event["kind"] == "tool.started"]
    args = started[-1]["args"]
    assert (args["mode"], args["mkdirs"], args["expected_sha256"]) == ("create", True, None)
    assert [(result["error"] or {}).get("kind") for result in told] == ["HTTP_TIMEOUT", None, "UPSTREAM_ERROR"]
    assert (told[1]["result"]["bytes"], "[truncated; " in told[1]["result"]["text"]) == (2048, True)
    assert server.paths() == ["/slow", "/large", "/broken", "/broken"]
    assert [set(event["asked"]["args"]) for event in started] == [{"url"}] * 3 + [{"path", "text"}]


def test_an_idempotency_key_is_made_from_the_step() -> None:
    """9.1: request, task, tool and a hash of the arguments; only for calls that change something."""
    args = {"path": "a.txt", "text": "x"}
    intent = {"tool": "core/fs.writeText", "args": args, "requestId": "r1", "taskId": "t1"}
    made = HUB.messages(intent).calls[0].idempotency_key
    assert made == idempotency_key("r1", "t1", "core/fs.writeText", {"text": "x", "path": "a.txt"})
    assert HUB.messages({**intent, "tool": "core/fs.readText"}).calls[0].idempotency_key is None
    assert HUB.messages({**intent, "idempotencyKey": "mine"}).calls[0].idempotency_key == "mine"


async def test_a_key_is_made_for_every_call_that_changes_something(speak: Speak, work: Path) -> None:
    """9.1: made by tool-hub where the caller gave none, task or not: a retry gives the first outcome."""
    args = {"path": "a.txt", "text": "x"}
    async with speak("tool-hub", start="tool-hub", run_id="r1") as say:
        told = [await say.call("core/fs.writeText", args) for _ in range(2)]
        intents = [await say.runtime.call_from({"tool": "core/fs.writeText", "args": args}) for _ in range(2)]
        keys = [event["key"] for event in say.journal() if event["kind"] == "tool.started"]
    async with speak("tool-hub", start="tool-hub", run_id="r1") as say:
        later = await say.call("core/fs.writeText", args)
    assert [result["ok"] for result in (*told, *intents, later)] == [True] * 5
    assert len({result["toolCallId"] for result in (*told, *intents, later)}) == 1
    assert keys == [idempotency_key("r1", "", "core/fs.writeText", args)]


async def test_a_made_key_never_hides_that_something_else_came_between(speak: Speak) -> None:
    """9.1: the same call after another change, or after a failure, is a new step and is made."""
    rules = [{"effect": "allow", "touch": "fs.*"}]
    config = {"rules": rules, "tools": {"enable": ["write_file", "delete_path"]}}
    args = {"path": "a.txt", "text": "x"}
    async with speak("tool-hub", start="tool-hub", config=config) as say:
        first = await say.call("core/fs.writeText", args)
        await say("core/fs.deletePath", path="a.txt", confirm=True)
        second = await say.call("core/fs.writeText", args)
        lost = [await say("core/fs.deletePath", path="b.txt", confirm=True) for _ in range(2)]
        there = await say("core/fs.readText", path="a.txt")
    assert (first["toolCallId"] != second["toolCallId"], there["result"]["text"]) == (True, "x")
    assert lost[0]["toolCallId"] != lost[1]["toolCallId"]


async def test_a_repeated_step_is_joined_with_the_first(speak: Speak) -> None:
    """9.1: a retry of the same step gives the first outcome and does nothing twice."""
    intent = {"tool": "core/fs.writeText", "args": {"path": "a.txt", "text": "x"}, "requestId": "r", "taskId": "t"}
    async with speak("tool-hub", start="tool-hub") as say:
        first, again = (await say.handle(intent))[0], (await say.handle(intent))[0]
    assert (first["ok"], again["ok"], first["toolCallId"] == again["toolCallId"]) == (True, True, True)


async def test_a_long_text_is_cut_with_a_hint(reach: Reach) -> None:
    """9.2: plan A: truncated, and the hint says how to go on."""
    async with reach() as (say, server):
        server.on("/", b"a line of text\n" * 20_000, headers={"Content-Type": "text/plain"})
        told = await say("core/http.fetchText", url=server.url("/"))
        more = await say("core/http.fetchText", url=server.url("/"), cursor=told["result"]["nextCursor"])
    assert (len(told["result"]["text"]) < 60_000, "[truncated; " in told["result"]["text"]) == (True, True)
    assert more["error"] is None, more
    assert more["result"]["text"].startswith("a line of text\n")


async def test_a_large_response_is_written_to_a_file_when_settings_say_so(reach: Reach) -> None:
    """9.2: plan B: enableAutoWriteLargeResponses keeps the whole, and the result names it as fileRef."""
    text = "a line of text\n" * 20_000
    async with reach(spill_large=True) as (say, server):
        server.on("/", text.encode(), headers={"Content-Type": "text/plain"})
        told = await say("core/http.fetchText", url=server.url("/"))
        ref = told["result"]["fileRef"]
        back = await say("core/fs.sha256", path=ref)
    assert (len(told["result"]["text"]) < 60_000, f"the whole is {ref}]" in told["result"]["text"]) == (True, True)
    assert back["result"] == {"sha256": sha(text), "bytes": len(text)}


async def test_a_large_file_gives_an_excerpt_a_hash_and_a_pointer(speak: Speak, work: Path) -> None:
    """9.2: fs.readText: also over the 5 MB that may be read whole."""
    async with speak("tool-hub", start="tool-hub", run_id="one") as say:
        (work / "sandbox/one/huge.txt").write_text("a line of text\n" * 400_000)
        huge = await say("core/fs.readText", path="huge.txt")
    assert (huge["result"]["bytes"], len(huge["result"]["text"]) < 60_000) == (6_000_000, True)
    assert "the whole is huge.txt" in huge["result"]["text"]
    assert sha("a line of text\n" * 400_000) in huge["result"]["text"]
    text = "a line of text\n" * 20_000
    async with speak("tool-hub", start="tool-hub") as say:
        await say("core/fs.writeText", path="big.txt", text=text)
        told = await say("core/fs.readText", path="big.txt")
    shown = told["result"]["text"]
    assert (len(shown) < 60_000, told["result"]["bytes"], f"the whole is big.txt, sha256 {sha(text)}" in shown) == (
        True, len(text), True,
    )  # fmt: skip


async def test_every_call_has_evidence_failures_too(speak: Speak) -> None:
    """10: at least one entry."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = [
            await say("core/util.time.now"),
            await say("core/fs.readText", path="missing"),
            await say("core/fs.listDir", path="/etc"),
            await say("nothing"),
        ]
    assert [len(result["evidence"]) >= 1 for result in told] == [True] * 4
    assert {item["type"] for result in told for item in result["evidence"]} <= {"file", "tool"}


async def test_writing_is_proven_by_the_file(speak: Speak) -> None:
    """10: fs.writeText: file, ref=path, bytes and sha256."""
    async with speak("tool-hub", start="tool-hub") as say:
        told = await say("core/fs.writeText", path="a.txt", text="x")
    assert told["evidence"] == [{"type": "file", "ref": "a.txt", "summary": f"bytes=1 sha256={sha('x')}"}]


async def test_fetched_json_is_proven_by_status_and_fields(reach: Reach) -> None:
    """10: http.fetchJson: tool, ref=toolCallId, status and the main fields, never what sounds secret."""
    async with reach() as (say, server):
        server.on("/", b'{"id": 1, "name": "x", "access_token": "q8w7e6r5t4y3u2i1"}')
        told = await say("core/http.fetchJson", url=server.url("/"))
    assert told["evidence"] == [{"type": "tool", "ref": told["toolCallId"], "summary": "status=200 fields=id,name"}]


async def test_a_download_is_proven_by_file_and_source(reach: Reach) -> None:
    """10: http.downloadFile: file, ref=destPath, bytes, sha256 and sourceUrl."""
    async with reach() as (say, server):
        server.on("/f", b"x")
        told = await say("core/http.downloadFile", url=server.url("/f"), destPath="f.bin")
    said = f"bytes=1 sha256={sha('x')} sourceUrl={server.url('/f')}"
    assert told["evidence"] == [{"type": "file", "ref": "f.bin", "summary": said}]


async def test_evidence_holds_no_credentials(reach: Reach) -> None:
    """10: no token, cookie or authorization."""
    secret = "ghp_" + "x7Qm2Kd9" * 4 + "x7Qm"
    async with reach() as (say, server):
        server.on("/", b"{}", headers={"Set-Cookie": "sid=s3cr3tcookievalue"})
        told = await say("core/http.fetchJson", url=server.url("/"), headers={"Authorization": f"Bearer {secret}"})
        events = json.dumps(say.journal())
    assert [word in json.dumps(told) + events for word in (secret, "s3cr3tcookievalue")] == [False, False]


# ── 11 errors ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.INVALID_ARGS, "INPUT_SCHEMA_INVALID"),
        (Code.POLICY_DENIED, "POLICY_DENIED"),
        (Code.PATH_OUTSIDE_ROOTS, "PATH_OUTSIDE_SANDBOX"),
        (Code.FILE_TOO_LARGE, "FILE_TOO_LARGE"),
        (Code.HOST_NOT_ALLOWED, "HTTP_DISALLOWED_HOST"),
        (Code.HTTP_TOO_LARGE, "HTTP_TOO_LARGE"),
        (Code.UPSTREAM_ERROR, "UPSTREAM_ERROR"),
        (Code.INVALID_RESULT, "OUTPUT_SCHEMA_INVALID"),
    ],
)
def test_a_code_has_the_kind_of_the_document(code: Code, kind: str) -> None:
    """11: one table."""
    assert HUB.errors[code] == kind


async def test_a_result_that_does_not_fit_is_an_output_error(speak: Speak) -> None:
    """11: OUTPUT_SCHEMA_INVALID: what a tool gives is checked, and never passed on where it does not fit."""

    @tool(risk="low", pure=True)
    async def liar() -> int:
        """Promise a number."""
        return "no number"  # type: ignore[return-value]

    async with speak("tool-hub", start="tool-hub", tools=[liar]) as say:
        outcome = await say.runtime.call("liar", {}, dialect="native")
    told = outcome.to("tool-hub")
    assert (told["ok"], told["error"]["kind"], told["result"]) == (False, "OUTPUT_SCHEMA_INVALID", None)


def test_a_timeout_of_http_has_its_own_kind() -> None:
    """11: HTTP_TIMEOUT for http tools; another tool's timeout is UPSTREAM_ERROR."""
    from handrail.dialects.tool_hub import error_kind

    assert (error_kind("TIMEOUT", "http_fetch"), error_kind("TIMEOUT", "grep")) == ("HTTP_TIMEOUT", "UPSTREAM_ERROR")


def test_every_code_has_one_of_the_nine_kinds() -> None:
    """11: no other kind exists."""
    assert {*HUB.errors.values(), *HUB.special} == {
        "INPUT_SCHEMA_INVALID", "POLICY_DENIED", "PATH_OUTSIDE_SANDBOX", "FILE_TOO_LARGE", "HTTP_DISALLOWED_HOST",
        "HTTP_TIMEOUT", "HTTP_TOO_LARGE", "UPSTREAM_ERROR", "OUTPUT_SCHEMA_INVALID",
    }  # fmt: skip


async def test_an_error_says_what_would_mend_it(speak: Speak) -> None:
    """11: the allowed hosts, the most bytes, the permission that is missing."""
    config = {"http": {"allowed_hosts": ["api.github.com"]}, "limits": {"max_read_bytes": 1024}}
    async with speak("tool-hub", start="tool-hub", config=config) as say:
        await say("core/fs.writeText", path="a.txt", text="x" * 2000)
        host = await say("core/http.head", url="https://example.org/")
        size = await say("core/fs.readText", path="a.txt", maxBytes=2048)
        denied = await say("core/fs.deletePath", path="a.txt", confirm=True)
    assert "api.github.com" in host["error"]["message"]
    assert (size["error"]["details"]["max_bytes"], size["error"]["details"]["bytes"]) == (1024, 2000)
    assert 'tools.enable = ["delete_path"]' in denied["error"]["message"]
    assert denied["error"]["details"]["requiredCapabilities"] == ["danger:destructive", "write:fs"]


async def test_a_tool_result_has_one_form(speak: Speak) -> None:
    """11: ToolResult with result or error, and evidence."""
    async with speak("tool-hub", start="tool-hub") as say:
        good, bad = await say("core/util.time.now"), await say("core/fs.readText", path="missing")
    fields = ["ok", "toolCallId", "tool", "result", "evidence", "error"]
    assert [list(good), list(bad)] == [fields, fields]
    assert (good["error"], bad["result"], sorted(bad["error"])) == (None, None, ["details", "kind", "message"])


# ── 12 configuration ─────────────────────────────────────────────────────────────────────────

CORE_TOOLS = {
    "sandboxRoot": "/var/tool-hub/sandbox",
    "maxReadBytes": 5 * MIB,
    "maxHttpBytes": 5 * MIB,
    "maxDownloadBytes": 100 * MIB,
    "allowedHosts": ["api.github.com", "*.openai.com"],
    "blockedCidrs": ["203.0.113.0/24"],
    "defaultTimeoutMs": 15000,
    "httpUserAgent": "tool-hub",
    "enableAutoWriteLargeResponses": True,
}


@pytest.mark.parametrize(
    ("name", "section", "key", "value"),
    [
        ("sandboxRoot", "workspace", "root", "/var/tool-hub/sandbox/{run_id}"),
        ("maxReadBytes", "limits", "max_read_bytes", 5 * MIB),
        ("maxHttpBytes", "http", "max_bytes", 5 * MIB),
        ("maxDownloadBytes", "http", "max_download_bytes", 100 * MIB),
        ("allowedHosts", "http", "allowed_hosts", ["api.github.com", "*.openai.com"]),
        ("blockedCidrs", "http", "blocked_networks", ["203.0.113.0/24"]),
        ("defaultTimeoutMs", "http", "timeout_ms", 15000),
        ("httpUserAgent", "http", "user_agent", "tool-hub"),
        ("enableAutoWriteLargeResponses", "http", "spill_large", True),
    ],
)
def test_a_key_of_core_tools_config_is_a_setting(name: str, section: str, key: str, value: Any) -> None:
    """12: CoreToolsConfig, key by key."""
    assert (name in CORE_TOOLS, foreign.tool_hub(CORE_TOOLS)[section][key]) == (True, value)


def test_defaults_are_those_of_the_document() -> None:
    """12: 5 MB, 5 MB, 100 MB, 15000 ms, tool-hub/<ver>, large responses not written."""
    told = foreign.tool_hub({"sandboxRoot": "/box"})
    assert (told["limits"]["max_read_bytes"], told["http"]["max_bytes"], told["http"]["max_download_bytes"]) == (
        5 * MIB, 5 * MIB, 100 * MIB,
    )  # fmt: skip
    assert (told["http"]["timeout_ms"], told["http"]["spill_large"], told["http"]["allowed_hosts"]) == (
        15000,
        False,
        [],
    )


async def test_requests_name_the_hub_and_its_version(reach: Reach) -> None:
    """12: httpUserAgent, tool-hub/<ver>; CoreToolsConfig may say another."""
    seen = []
    for more in ({}, {"user_agent": "hub-test"}):
        async with reach(**more) as (say, server):
            server.on("/", b"ok")
            await say("core/http.fetchText", url=server.url("/"))
        seen += [asked.headers["user-agent"] for asked in server.asked]
    assert seen == [f"tool-hub/{__version__}", f"hub-test/{__version__}"]


async def test_blocked_networks_are_not_reached(reach: Reach) -> None:
    """12: blockedCidrs beat what is allowed."""
    async with reach(blocked_networks=["127.0.0.0/8"]) as (say, server):
        told = await say("core/http.fetchText", url=server.url("/"))
    assert (told["error"]["kind"], server.asked) == ("HTTP_DISALLOWED_HOST", [])


@pytest.mark.parametrize("blocked", [[], ["203.0.113.0/24"]])
async def test_private_networks_are_blocked_whatever_is_configured(
    speak: Speak, work: Path, blocked: list[str]
) -> None:
    """12: blockedCidrs, default private ranges: a list of one's own adds to them."""
    hosts = ["127.0.0.1", "10.0.0.1", "203.0.113.9"]
    config = foreign.tool_hub({"sandboxRoot": f"{work}/box", "allowedHosts": hosts, "blockedCidrs": blocked})
    async with speak("tool-hub", config=config) as say:
        told = [await say("core/http.head", url=f"http://{host}/") for host in hosts[: 2 + len(blocked)]]
    assert [result["error"]["kind"] for result in told] == ["HTTP_DISALLOWED_HOST"] * (2 + len(blocked))


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    """12: a slip in a key does not pass unseen."""
    with pytest.raises(SettingsFault, match="did you mean allowedHosts"):
        foreign.tool_hub({"sandboxRoot": "/box", "allowedHost": []})
    with pytest.raises(SettingsFault, match="sandboxRoot is needed"):
        foreign.tool_hub({})


# ── 15 practice ──────────────────────────────────────────────────────────────────────────────


async def test_head_tells_before_fetching_whether_it_is_worth_it(reach: Reach) -> None:
    """15: http.head, then maxBytes."""
    async with reach() as (say, server):
        server.on("/", b"x" * 5000)
        head = await say("core/http.head", url=server.url("/"))
        told = await say("core/http.fetchText", url=server.url("/"), maxBytes=1024)
    assert (head["result"]["headers"]["content-length"], told["result"]["bytes"]) == ("5000", 1024)


async def test_long_text_can_be_fetched_cut_and_written(reach: Reach) -> None:
    """15: fetchText, truncate, writeText."""
    async with reach() as (say, server):
        server.on("/", b"word " * 1000)
        text = (await say("core/http.fetchText", url=server.url("/")))["result"]["text"]
        short = (await say("core/util.text.truncate", text=text, maxChars=100))["result"]["text"]
        told = await say("core/fs.writeText", path="a.txt", text=short)
    assert told["result"]["bytes"] <= 110


async def test_results_fit_their_own_schemas(reach: Reach) -> None:
    """9: what each of the fifteen gives fits its own output schema; what does not fit is refused."""
    async with reach() as (say, server):
        server.on("/", b'{"a": 1}', headers={"Content-Type": "application/json"})
        url = server.url("/")
        calls: dict[str, dict[str, Any]] = {
            "core/fs.writeText": {"path": "a.txt", "text": "x"},
            "core/fs.readText": {"path": "a.txt"},
            "core/fs.listDir": {"path": "."},
            "core/fs.searchText": {"root": ".", "query": "x"},
            "core/fs.sha256": {"path": "a.txt"},
            "core/http.fetchText": {"url": url},
            "core/http.fetchJson": {"url": url},
            "core/http.downloadFile": {"url": url, "destPath": "b.json"},
            "core/http.head": {"url": url},
            "core/util.json.select": {"json": {"a": 1}, "path": "a"},
            "core/util.text.truncate": {"text": "x", "maxChars": 9},
            "core/util.hash.sha256Text": {"text": "x"},
            "core/util.time.now": {},
            "core/util.template.render": {"template": "{{a}}", "data": {"a": 1}},
        }
        specs = say.specs()
        for name, args in calls.items():
            told = await say(name, args)
            assert told["ok"], told
            check(specs[name]["return_schema"], told["result"], repair=False)
    assert set(FIFTEEN) - set(calls) == {"core/fs.deletePath"}
    with pytest.raises(Problem, match="it is required"):
        check(HUB.words["core/fs.readText"].result or {}, {"path": "a"}, repair=False)
