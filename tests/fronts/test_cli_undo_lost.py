"""`handrail runs undo` passes over what cannot be taken back, says so, and goes on to what can."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from pathlib import Path

import pytest

from fronts.conftest import Cli
from handrail import Runtime
from handrail.testing import ScriptedApprover


async def _pipe_deleted(work: Path) -> str:
    """Delete something of which nothing can be kept, in a run of its own; gives the id of the call."""
    os.mkfifo(work / "p")
    config = {"tools": {"enable": ["delete_path"]}}
    async with Runtime.open(work, run_id="lost", config=config, approver=ScriptedApprover("once")) as runtime:
        gone = await runtime.call("delete_path", {"path": "p", "confirm": True})
    assert gone.ok, gone.content
    return str(gone.call_id)


@pytest.fixture
def lost(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> tuple[Cli, str]:
    """A file that was made, and after it something deleted that nobody can put back; with the id of that call."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, cli.env[name])
    assert cli("call", "--run", "r", "write_file", "path=b.txt", "content=1").code == 0
    return cli, asyncio.run(_pipe_deleted(cli.work))


def test_undo_alone_goes_on_to_the_change_before(lost: tuple[Cli, str]) -> None:
    """The call that is passed over is named with the reason; at the end there is nothing but that."""
    cli, call = lost
    said = f"Passed over: delete_path (call {call[-12:]}) changed what cannot be taken back: p (it was no regular file)"
    undone = cli("runs", "undo")
    assert (undone.code, (cli.work / "b.txt").exists()) == (0, False)
    assert said in undone.err.splitlines()
    nothing = cli("runs", "undo")
    assert (nothing.code, "There is nothing to take back" in nothing.err) == (2, True)
    assert said in nothing.err.splitlines()


def test_a_change_after_it_is_taken_back_without_a_word_of_it(lost: tuple[Cli, str]) -> None:
    """Only what came later than the change that is taken back is passed over."""
    cli, _ = lost
    assert cli("call", "--run", "s", "write_file", "path=c.txt", "content=1").code == 0
    undone = cli("runs", "undo")
    assert (undone.code, "Passed over" in undone.err) == (0, False)
    assert sorted(path.name for path in cli.work.iterdir()) == [".env", "a.txt", "b.txt"]


def test_undo_of_that_run_or_call_says_why_not(lost: tuple[Cli, str]) -> None:
    """It is no refusal for ever of something else: what to do instead is named."""
    cli, call = lost
    for argv in (("lost",), ("--call", call)):
        refused = cli("runs", "undo", *argv)
        assert (refused.code, "p (it was no regular file)" in refused.err) == (2, True)
        assert "`handrail runs undo` alone takes back the last change in this workspace" in refused.err


def test_where_a_former_content_is_gone_the_other_calls_are_named(cli: Cli) -> None:
    """One by one they can be taken back; nothing was before."""
    for name, old in (("a.txt", "one"), ("b.txt", "")):
        edit = {"path": name, "edits": [{"old": old, "new": "1"}]}
        given = ("edit_file", "--args", json.dumps(edit)) if old else ("write_file", f"path={name}", "content=1")
        assert cli("call", "--run", "r", *given).code == 0
    runs = Path(cli.env["XDG_STATE_HOME"], "handrail", "runs")
    (runs / "r/archive/images" / hashlib.sha256(b"one\ntwo\nthree\n").hexdigest()).unlink()
    refused = cli("runs", "undo", "r")
    assert (refused.code, (cli.work / "b.txt").exists()) == (1, True)
    assert "What stood at a.txt before call" in refused.err
    other = json.loads(cli("runs", "show", "r", "--json").out)["calls"][1]["call_id"]
    assert f"another: handrail runs undo r --call {other[-12:]}   (write_file: b.txt)" in refused.err
