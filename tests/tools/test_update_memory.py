"""update_memory: create, change and delete notes by their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools._memories import EXTERNAL, candidates, stored


async def test_a_note_is_created_changed_and_deleted(opens: Any, work: Path) -> None:
    """What a change leaves out stays as it was."""
    async with opens(enable=("memory",), config=EXTERNAL) as runtime:

        async def update(**args: Any) -> Any:
            outcome = await runtime.call("update_memory", args)
            assert outcome.ok, outcome.error
            return outcome.data

        made = await update(action="create", title="Lint", content="with ruff")
        assert await stored(work) == [("workspace", "Lint", "with ruff")]
        changed = await update(action="update", id=made["id"], content="with mypy")
        assert await stored(work) == [("workspace", "Lint", "with mypy")]
        found = await runtime.call("recall_memory", {"query": "ruff"})
        assert found.data["notes"] == []
        deleted = await update(action="delete", id=made["id"])
    assert await stored(work) == []
    assert [item["action"] for item in (made, changed, deleted)] == ["create", "update", "delete"]
    assert {item["id"] for item in (made, changed, deleted)} == {made["id"]}


@pytest.mark.parametrize("args", [{"action": "update", "content": "x"}, {"action": "delete"}])
async def test_an_unknown_note_is_not_found(opens: Any, work: Path, args: dict[str, Any]) -> None:
    """And no file is made for it; one of the other scope is named."""
    async with opens(enable=("memory",), config=EXTERNAL) as runtime:
        outcome = await runtime.call("update_memory", {**args, "id": "nope"})
        made = await runtime.call("update_memory", {"action": "create", "content": "x", "scope": "user"})
        elsewhere = await runtime.call("update_memory", {**args, "id": made.data["id"]})
    assert outcome.error is not None
    assert outcome.error.code == "NOT_FOUND"
    assert elsewhere.error is not None
    assert "it is in scope 'user'" in elsewhere.error.message
    assert await stored(work) == [("user", "", "x")]


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"action": "create"}, "content"),
        ({"action": "create", "content": "x", "id": "n1"}, "id"),
        ({"action": "update", "content": "x"}, "id"),
        ({"action": "update", "id": "n1"}, "content"),
        ({"action": "delete"}, "id"),
    ],
)
async def test_a_change_says_what_it_is_about(opens: Any, args: dict[str, Any], field: str) -> None:
    """INVALID_ARGS names the field."""
    async with opens(enable=("memory",)) as runtime:
        outcome = await runtime.call("update_memory", args)
        assert candidates(runtime) == []
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details["field"]) == ("INVALID_ARGS", field)


async def test_a_rule_on_a_scope_cannot_be_passed_by_the_id_of_a_note(opens: Any, work: Path) -> None:
    """A note of the denied scope is neither changed nor deleted under the name of the other."""
    config = {**EXTERNAL, "rules": [*EXTERNAL["rules"], {"effect": "deny", "touch": "memory.write", "target": "user"}]}
    async with opens(enable=("memory",), config=EXTERNAL) as runtime:
        made = await runtime.call("update_memory", {"action": "create", "content": "x", "scope": "user"})
    async with opens(enable=("memory",), config=config) as runtime:
        for scope in ("user", "workspace"):
            args = {"action": "delete", "id": made.data["id"], "scope": scope}
            assert not (await runtime.call("update_memory", args)).ok
    assert await stored(work) == [("user", "", "x")]


async def test_a_candidate_may_change_and_delete_too(opens: Any) -> None:
    """It names the note, and carries no text for a deletion."""
    async with opens(enable=("memory",)) as runtime:
        await runtime.call("update_memory", {"action": "delete", "id": "n1", "content": "ignored"})
        (written,) = candidates(runtime)
    assert (written["action"], written["note_id"], written["content"]) == ("delete", "n1", None)


async def test_a_secret_is_refused_as_an_id_as_well(opens: Any, own_user: Path) -> None:
    """An id is written into the candidate, and into the address of a service."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with opens(enable=("memory",)) as runtime:
        outcome = await runtime.call("update_memory", {"action": "delete", "id": token})
        assert candidates(runtime) == []
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details["reason"]) == ("POLICY_DENIED", "secret")
    for path in own_user.rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path
