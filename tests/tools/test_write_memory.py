"""write_memory: a note for later runs, once a person or the operator lets it through."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from handrail.faculties import memory_files
from handrail.output.patterns import MARK
from handrail.store.reader import events
from handrail.testing import ScriptedApprover
from tools._memories import EXTERNAL, candidates, kinds, stored

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
NOTE = {"content": "We lint with ruff.", "tags": ["style"]}


async def test_a_note_is_a_candidate_until_a_person_accepts_it(opens: Any, work: Path) -> None:
    """It lies in the run's archive, an event says so, and nobody recalls it."""
    async with opens(enable=("memory",)) as runtime:
        outcome = await runtime.call("write_memory", NOTE)
        recalled = await runtime.call("recall_memory", {"query": "ruff"})
        (written,) = candidates(runtime)
        (event,) = [item for item in events(runtime.parts.folder.path) if item["kind"] == "memory.candidate"]
        path = runtime.parts.folder.path / event["ref"]
        mode = stat.S_IMODE(os.stat(path).st_mode)
    assert outcome.data == {
        "id": written["id"],
        "action": "create",
        "scope": "workspace",
        "status": "candidate",
        "ref": f"run:archive/memory/{written['id']}.json",
    }
    assert recalled.data["notes"] == []
    assert (written["content"], written["tags"], written["state"]) == ("We lint with ruff.", ["style"], "pending")
    assert (written["call_id"], event["call_id"]) == (outcome.call_id, outcome.call_id)
    assert mode == 0o600
    assert await stored(work) == []


async def test_a_candidate_needs_no_second_question(opens: Any) -> None:
    """A person answers it anyway; where the operator's rule asks, that is asked all the same."""
    asking = ScriptedApprover("no")
    async with opens(enable=("memory",), approver=asking) as runtime:
        assert (await runtime.call("write_memory", NOTE)).ok
        assert asking.asked == []
    rules = {"rules": [{"effect": "ask", "touch": "memory.write", "target": "user"}]}
    async with opens(enable=("memory",), config=rules, approver=asking) as runtime:
        assert (await runtime.call("write_memory", NOTE)).ok
        refused = await runtime.call("write_memory", {**NOTE, "scope": "user"})
    assert refused.error is not None
    assert refused.error.code == "APPROVAL_DENIED"
    assert [request.tool for request in asking.asked] == ["write_memory"]


async def test_two_runs_at_once_lose_none_of_each_others_notes(opens: Any, work: Path) -> None:
    """Both write into the same file, and either recalls what the other wrote."""

    async def write(runtime: Any, name: str) -> list[bool]:
        return [(await runtime.call("write_memory", {"content": f"{name} {n}"})).ok for n in range(20)]

    async with (
        opens(enable=("memory",), config=EXTERNAL) as one,
        opens(enable=("memory",), config=EXTERNAL) as two,
    ):
        told: Any = await asyncio.gather(write(one, "ant"), write(two, "bee"))
        asked = [(one, "bee"), (two, "ant")]
        recalled = [await runtime.call("recall_memory", {"query": name}) for runtime, name in asked]
        assert one.run_id != two.run_id
    assert list(told) == [[True] * 20] * 2
    assert [outcome.data["notes"] != [] for outcome in recalled] == [True, True]
    wanted = [("workspace", "", f"{name} {n}") for name in ("ant", "bee") for n in range(20)]
    assert sorted(await stored(work)) == sorted(wanted)


async def test_external_writing_asks_unless_a_rule_allows_it(opens: Any, work: Path) -> None:
    """Then it is there at once."""
    asking = ScriptedApprover("no", "once")
    external = {"memory": {"write_mode": "external"}}
    async with opens(enable=("write_memory",), config=external, approver=asking) as runtime:
        refused = await runtime.call("write_memory", NOTE)
        assert await stored(work) == []
        allowed = await runtime.call("write_memory", {**NOTE, "content": "second"})
    assert refused.error is not None
    assert refused.error.code == "APPROVAL_DENIED"
    assert (allowed.data["status"], allowed.data["ref"]) == ("stored", None)
    async with opens(enable=("memory",), config=EXTERNAL) as runtime:
        assert (await runtime.call("write_memory", {**NOTE, "content": "third", "scope": "user"})).ok
        assert "memory.candidate" not in kinds(runtime)
    assert sorted(await stored(work)) == [("user", "", "third"), ("workspace", "", "second")]
    for path in memory_files(str(work)).values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "args",
    [
        {"content": f"the token is {TOKEN}"},
        {"content": "x", "tags": [TOKEN]},
        {"content": f"the token is {MARK}"},
    ],
)
@pytest.mark.parametrize("config", [{}, EXTERNAL])
async def test_a_secret_is_refused_and_stored_nowhere(
    opens: Any, work: Path, args: dict[str, Any], config: dict[str, Any], own_user: Path
) -> None:
    """The answer says what to do instead."""
    async with opens(enable=("memory",), config=config) as runtime:
        outcome = await runtime.call("write_memory", args)
        assert candidates(runtime) == []
    assert outcome.error is not None
    assert outcome.error.code == "POLICY_DENIED"
    assert "say where the secret is kept" in outcome.error.message
    assert await stored(work) == []
    for path in own_user.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


async def test_a_known_value_is_a_secret_too(opens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an environment variable of a secret name holds."""
    monkeypatch.setenv("SHOP_PASSWORD", "correct-horse-battery")
    async with opens(enable=("memory",)) as runtime:
        outcome = await runtime.call("write_memory", {"content": "log in with correct-horse-battery"})
        assert candidates(runtime) == []
    assert outcome.error is not None
    assert outcome.error.code == "POLICY_DENIED"


NAMES = ("recall_memory", "write_memory", "update_memory")


@pytest.mark.parametrize(
    ("config", "offered"),
    [
        ({}, ["recall_memory"]),
        ({"tools": {"enable": ["memory"]}}, ["recall_memory", "update_memory", "write_memory"]),
        ({"tools": {"enable": ["memory"]}, "memory": {"write_mode": "disabled"}}, ["recall_memory"]),
        ({"tools": {"enable": ["memory", *NAMES]}, "memory": {"enabled": False}}, []),
    ],
)
async def test_what_is_offered_follows_enabling_and_mode(
    opens: Any, config: dict[str, Any], offered: list[str]
) -> None:
    """What is not offered is not listed, and a call of it is denied."""
    async with opens(config=config, approver=ScriptedApprover("no")) as runtime:
        listed = [tool["name"] for tool in runtime.tools() if tool["name"] in NAMES]
        calls = {
            "recall_memory": {"query": ""},
            "write_memory": NOTE,
            "update_memory": {"action": "create", "content": "x"},
        }
        done = sorted([name for name in NAMES if (await runtime.call(name, calls[name])).ok])
    assert (sorted(listed), done) == (offered, offered)


async def test_the_notes_are_out_of_every_tools_reach(opens: Any, work: Path) -> None:
    """Also where the operator made the state folder a root by mistake."""
    config = {**EXTERNAL, "workspace": {"allow_absolute": True, "read": ["/"]}}
    async with opens(enable=("memory",), config=config) as runtime:
        await runtime.call("write_memory", NOTE)
        place = str(memory_files(str(work))["workspace"])
        outcome = await runtime.call("read_file", {"path": place})
        hashed = await runtime.call("hash_file", {"path": place})
    for refused in (outcome, hashed):
        assert refused.error is not None
        assert refused.error.code == "PATH_PROTECTED"
