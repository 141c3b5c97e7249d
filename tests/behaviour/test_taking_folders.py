"""Moving and deleting folders: judged by what lies in them, and what nobody judged is not taken along."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import DeletesBelow, Outcome, Workspace, tool
from handrail.settings import preset
from handrail.testing import ScriptedApprover
from handrail.workspace import moving, names, removing
from workspaces import below

CODING: dict[str, Any] = {**preset("coding"), "tools": {"enable": ["fs", "delete_path"]}}
DELETE: tuple[str, dict[str, Any]] = ("delete_path", {"path": "d", "recursive": True, "confirm": True})
MOVE: tuple[str, dict[str, Any]] = ("move_path", {"source": "d", "target": "e"})


@pytest.fixture
def folder(work: Path) -> Path:
    """A folder with a file and another folder in it."""
    (work / "d/sub").mkdir(parents=True)
    (work / "d/sub/a.txt").write_text("a")
    (work / "d/b.txt").write_text("b")
    return work / "d"


@pytest.fixture
def act(opens: Any) -> Callable[[tuple[str, dict[str, Any]]], Any]:
    """Make one call with the settings of the preset `coding`; a person says yes."""

    async def made(call: tuple[str, dict[str, Any]]) -> tuple[Outcome, int]:
        approver = ScriptedApprover("once")
        async with opens(config=CODING, approver=approver) as runtime:
            return await runtime.call(*call), len(approver.asked)

    return made


def error(outcome: Outcome) -> tuple[str, str]:
    assert outcome.error is not None
    return outcome.error.code, str(outcome.error.details.get("rule") or outcome.error.details.get("path"))


@pytest.mark.parametrize(("call", "left", "asked"), [(MOVE, ["e"], 0), (DELETE, [], 1)])
async def test_a_rule_about_secrets_holds_back_no_folder_without_any(
    act: Any, work: Path, folder: Path, call: tuple[str, dict[str, Any]], left: list[str], asked: int
) -> None:
    """Moving is allowed, deleting asks, as without the rule."""
    outcome, prompts = await act(call)
    assert (outcome.ok, prompts, os.listdir(work)) == (True, asked, left)


@pytest.mark.parametrize("call", [MOVE, DELETE])
async def test_a_folder_with_something_denied_in_it_stays_and_the_refusal_names_it(
    act: Any, work: Path, folder: Path, call: tuple[str, dict[str, Any]]
) -> None:
    """The rule, where it stands and the path are told; nobody is asked."""
    (folder / "sub/secrets").mkdir()
    (folder / "sub/secrets/prod.json").write_text("{}")
    before = below(work)
    outcome, prompts = await act(call)
    assert (error(outcome), prompts, below(work)) == (("POLICY_DENIED", "rules.2"), 0, before)
    assert outcome.error.message == "Denied: secrets are not for agents (d/sub/secrets lies below)."


async def test_a_rule_that_asks_for_something_below_asks_only_where_it_is(act: Any, work: Path, folder: Path) -> None:
    """A lock file in a moved folder is written anew, which the preset asks for."""
    (folder / "poetry.lock").write_text("")
    outcome, prompts = await act(MOVE)
    assert (outcome.ok, prompts, sorted(os.listdir(work / "e"))) == (True, 1, ["b.txt", "poetry.lock", "sub"])


@pytest.mark.parametrize("call", [MOVE, DELETE])
async def test_a_folder_with_more_in_it_than_is_looked_at_is_denied(
    act: Any, folder: Path, call: tuple[str, dict[str, Any]]
) -> None:
    """Nothing is taken to be harmless unseen."""
    (folder / "many").mkdir()
    for number in range(10_001):
        os.close(os.open(folder / f"many/{number}", os.O_CREAT | os.O_WRONLY))
    outcome, prompts = await act(call)
    assert (error(outcome), prompts) == (("PATH_PROTECTED", "builtin.unseen"), 0)


# ── what appears after the call was judged ───────────────────────────────────────────────────


def planting(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, plant: Path, *, after: bool = False) -> None:
    """Have a folder appear just before, or just after, the first call of a function."""
    real = getattr(module, name)

    def late(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(module, name, real)
        if not after:
            plant.mkdir()
        given = real(*args, **more)
        if after:
            plant.mkdir()
        return given

    monkeypatch.setattr(module, name, late)


@pytest.mark.parametrize("where", ["secrets", "sub/secrets", "harmless"])
async def test_what_appears_before_a_folder_is_deleted_keeps_all_of_it(
    act: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Nothing is deleted, whether the new thing would have been denied or not: nobody judged it."""
    planting(monkeypatch, removing, "delete", folder / where)
    before = {**below(folder), where: None}
    outcome, _ = await act(DELETE)
    assert (error(outcome), below(folder)) == (("STALE_FILE", f"d/{where}"), before)


@pytest.mark.parametrize("where", ["secrets", "sub/secrets"])
async def test_what_appears_while_a_folder_is_deleted_is_not_deleted(
    act: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It appears after the last look at the whole; what was judged may be gone by then, and is on record."""
    planting(monkeypatch, removing, "_survey", folder / where, after=True)
    outcome, _ = await act(DELETE)
    assert (error(outcome), (folder / where).is_dir()) == (("STALE_FILE", f"d/{where}"), True)


@pytest.mark.parametrize("where", ["secrets", "sub/secrets", "harmless"])
@pytest.mark.parametrize("moment", [(moving, "move"), (names, "put_new")], ids=["before", "last moment"])
async def test_what_appears_in_a_folder_that_is_moved_is_not_moved(
    act: Any, work: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str, moment: tuple[Any, str]
) -> None:
    """In the last moment the folder has been renamed already, and is named as before again."""
    planting(monkeypatch, *moment, folder / where)
    before = {**below(folder), where: None}
    outcome, _ = await act(MOVE)
    assert (error(outcome), below(folder), os.listdir(work)) == (("STALE_FILE", f"d/{where}"), before, ["d"])


async def test_a_folder_that_is_known_to_hold_more_is_not_even_renamed(
    act: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renaming and naming it back is for the last moment only: others could miss it meanwhile."""
    renamed: list[Any] = []
    monkeypatch.setattr(names, "put_new", lambda *args: renamed.append(args))
    planting(monkeypatch, moving, "move", folder / "late")
    outcome, _ = await act(MOVE)
    assert (error(outcome), renamed) == (("STALE_FILE", "d/late"), [])


async def test_a_move_that_cannot_be_taken_back_is_on_record(
    act: Any, work: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has taken the old name meanwhile: the call fails, and says what it changed."""
    put_new = names.put_new

    def late(*args: Any) -> None:
        (folder / "secrets").mkdir()
        put_new(*args)
        folder.mkdir()
        monkeypatch.setattr(names, "put_new", put_new)

    monkeypatch.setattr(names, "put_new", late)
    outcome, _ = await act(MOVE)
    assert (outcome.ok, [(change.op, change.source, change.path) for change in outcome.changes]) == (
        False,
        [("move", "d", "e")],
    )


async def test_a_tool_of_ones_own_deletes_what_was_judged_and_nothing_else(
    opens: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`DeletesBelow` gives a place that knows what lay below it."""

    @tool(risk="high")
    async def clear(files: Workspace, tree: DeletesBelow) -> int:
        """Clear a folder away."""
        return len(await files.delete(tree, recursive=True))

    async with opens(config=CODING, tools=[clear], approver=ScriptedApprover("once")) as runtime:
        gone = await runtime.call("clear", {"tree": "d"})
        (folder / "x").mkdir(parents=True)
        planting(monkeypatch, removing, "delete", folder / "late")
        kept = await runtime.call("clear", {"tree": "d"})
    assert (gone.ok, gone.data, error(kept)) == (True, 4, ("STALE_FILE", "d/late"))
