"""An approval of a command is one of the files that it runs, and stands on record before its changes are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail import Runtime
from handrail.ports import Reply
from handrail.processes.keeping import Keeper
from handrail.testing import ScriptedApprover


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def headless(work: Path) -> Runtime:
    """A runtime in which nobody can be asked."""
    return Runtime.open(work, config={"tools": {"enable": ["exec"]}}, mode="headless")


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("./tool", "tool"),
        ("sh tool", "tool"),
        ("env X=1 ./tool", "tool"),
        ("cd sub && ./tool", "sub/tool"),
        ("cd sub && cd deep && ./tool", "sub/deep/tool"),
        ("python3 sub/tool.py", "sub/tool.py"),
        ("pytest tool.py", "tool.py"),
        ("make", "Makefile"),
        ("npm test", "package.json"),
        ("bash < tool", "tool"),
        ("python3 - < tool", "tool"),
        ("cd sub && bash < tool", "sub/tool"),
        ("python3 -m pkg", "pkg/__main__.py"),
        ("python3 -m pkg.inner", "pkg/inner.py"),
        ("python3 pkg", "pkg/__main__.py"),
        ("node app", "app.js"),
        ("make -C sub", "sub/Makefile"),
        ("make --directory=sub all", "sub/Makefile"),
        ("make -f other", "other"),
        ("npm --prefix sub run x", "sub/package.json"),
        ("sed -f script data.txt", "script"),
        ("sub/run --script=tool.sh", "tool.sh"),
    ],
)
async def test_a_script_that_changed_since_its_approval_does_not_run(work: Path, command: str, file: str) -> None:
    """What a person approved is what stood in the file then; put back, it is approved again."""
    place = work / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    async with headless(work) as opened:
        pending = await run(opened, command)
        assert pending.error is not None
        approval = pending.error.details["approval"]["id"]
        opened.parts.ledger.answer(approval, Reply("granted", by="ann"))
        place.write_text("#!/bin/sh\ntouch changed\n")
        swapped = await opened.call("run_command", {"command": command}, approval=approval)
        place.write_text("#!/bin/sh\n")
        again = await opened.call("run_command", {"command": command}, approval=approval)
    assert swapped.error is not None
    assert swapped.error.code == "APPROVAL_DENIED"
    assert again.error is None or again.error.code == "EXIT_NONZERO"
    assert not (work / "changed").exists()


async def test_other_files_that_a_command_names_may_change_before_it_runs(work: Path) -> None:
    """They are read when it runs, as the person who approved it expects."""
    (work / "data.txt").write_text("one")
    async with headless(work) as opened:
        pending = await run(opened, "gzip -c data.txt")
        assert pending.error is not None
        approval = pending.error.details["approval"]["id"]
        opened.parts.ledger.answer(approval, Reply("granted", by="ann"))
        (work / "data.txt").write_text("two")
        done = await opened.call("run_command", {"command": "gzip -c data.txt"}, approval=approval)
    assert done.error is None


async def test_an_approval_of_changes_is_on_disk_before_the_first_is_made(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that is killed while it keeps changes leaves the record of who approved them."""
    (work / "a.txt").write_text("old")
    seen: list[str] = []

    keep = Keeper.keep

    def looked(*args: Any) -> Any:
        lines = (opened.parts.folder.path / "events.jsonl").read_text().splitlines()
        seen.extend(json.loads(line)["kind"] for line in lines)
        return keep(*args)

    monkeypatch.setattr(Keeper, "keep", looked)
    config = {"exec": {"workspace": "review", "allow": ["sed *"]}}
    async with runtime(work, config=config, approver=ScriptedApprover("once")) as opened:
        await run(opened, "sed -i s/old/new/ a.txt")
    assert (work / "a.txt").read_text() == "new"
    assert seen[-2:] == ["approval.required", "approval.granted"]
