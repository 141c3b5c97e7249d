"""Calls that leave the machine, cannot be undone, or run elsewhere later: under the coding preset none just happens."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from attacks._border import picture
from attacks._border_calls import ALL, ASKED, DENIED, LATER, LEAVES, LOST, Row
from behaviour._commands import need_sandbox
from handrail import Outcome, Runtime
from handrail.settings.presets import preset
from handrail.store import reader
from handrail.testing import ScriptedApprover
from serving import Names, resolving


def coding() -> dict[str, Any]:
    """Give the coding preset at the border, with the tools that the rows call."""
    told: dict[str, Any] = {**preset("coding")}
    told["tools"] = {"enable": ["fs", "exec", "delete_path", "http"]}
    told["exec"] = {"workspace": "review", "ask": "border", "hosts": "ask"}
    told["limits"] = {**told["limits"], "max_repeats": 0, "max_prompts": 1000}
    return told


def make_project(work: Path) -> None:
    """Make what the rows speak of: a repository with few, many and large files, and a folder on the person's PATH."""
    files = {
        "a.txt": "one\n",
        "b.txt": "two\n",
        "d/1": "1\n",
        ".gitignore": "many/\n*.bin\n",
        "bin/tool": "#!/bin/sh old\n",
    }
    for name in files | {f"{folder}/{number}": "" for folder in ("many", "many2") for number in range(30)}:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(files.get(name, name))
    (work / "bin/tool").chmod(0o755)
    with open(work / "large.bin", "wb") as file:
        file.truncate(33 << 20)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        subprocess.run(["git", *identity, *words], cwd=work, check=True, capture_output=True)


class Table:
    """Makes the calls, and says what became of each."""

    def __init__(self, opened: Runtime, approver: ScriptedApprover) -> None:
        self._opened = opened
        self._approver = approver

    async def judge(self, row: Row) -> str:
        """Say what differs from a row; nothing: all is as it says."""
        call, expected, words = row
        tool, args = call if isinstance(call, tuple) else ("run_command", {"command": call, "timeout_seconds": 20})
        before = len(self._approver.asked)
        outcome = await self._opened.call(tool, args)
        asked = self._approver.asked[before:]
        reasons = " ".join(f"{request.reason} {request.impact}" for request in asked)
        if asked:
            found = ASKED
        else:
            found = DENIED if self._is_denied(outcome) else "neither"
            reasons = f"{outcome.content} {outcome.warnings}"
        return "" if (found, words in reasons) == (expected, True) else f"{call}: {found}, {reasons[:300]}"

    def _is_denied(self, outcome: Outcome) -> bool:
        """Say whether policy refused a call, a change that it made, or a connection."""
        if outcome.error is not None and outcome.status == "denied":
            return True
        events = list(reader.events(self._opened.parts.folder.path))
        mine = [event for event in events if event.get("call_id") == outcome.call_id]
        judged = [item for event in mine if event["kind"] == "changes.judged" for item in event["judged"]]
        return any(event["kind"] == "net.refused" for event in mine) or any(
            item["decision"] == "deny" for item in judged
        )


KINDS = {"leave the machine": LEAVES, "cannot be undone": LOST, "run elsewhere later": LATER}


@pytest.mark.parametrize("rows", KINDS.values(), ids=KINDS.keys())
async def test_each_is_asked_for_or_denied(work: Path, rows: tuple[Row, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason; and where the person says no, nothing of it is there afterwards."""
    need_sandbox()
    make_project(work)
    monkeypatch.setenv("PATH", f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}")
    before = picture(work)
    approver = ScriptedApprover(lambda _: "no")
    async with Runtime.open(work, config=coding(), approver=approver) as opened:
        names = Names(good__test=[["93.184.216.34"]], inner__test=[["10.0.0.7"]])
        resolving(opened, names)
        table = Table(opened, approver)
        wrong = [said for row in rows if (said := await table.judge(row))]
        assert wrong == []
        assert names.asked == []  # no name is looked up before a yes: that alone would tell somebody
        events = list(reader.events(opened.parts.folder.path))
        assert [event for event in events if event["kind"] == "net.connected"] == []
    after = picture(work)
    changed = [name for name, what in before.items() if after.get(name) != what]
    assert changed in ([], [".git/index"])  # `git rm` has taken files out of it, which are still there
    # What such a command makes beside it is ordinary work: empty folders, and copies of what it was to move.
    made = [name for name, what in after.items() if name not in before and what[1] is not None]
    assert [name for name in made if not name.startswith(("elsewhere/", "moved.bin"))] == []


def test_there_are_sixty_of_them_and_each_has_a_reason() -> None:
    """Of every kind."""
    assert len({str(call) for call, _, _ in ALL}) == len(ALL) >= 60
    assert min(len(LEAVES), len(LOST), len(LATER)) >= 20
    assert all(words for _, _, words in ALL)
