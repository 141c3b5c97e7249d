"""Where runs are kept inside the workspace, a program sees the folders of its own run and nothing else of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox
from handrail import Runtime
from handrail.words import Outcome


async def ran(work: Path, backend: str, command: str, run_id: str) -> Outcome:
    """Run a command in a run whose folder lies in the workspace."""
    config = {
        "runs_dir": ".agent/runs",
        "tools": {"enable": ["exec"]},
        "exec": {"sandbox": backend},
        "rules": [{"effect": "allow", "touch": "proc.exec"}],
    }
    async with Runtime.open(work, config=config, mode="headless", run_id=run_id) as runtime:
        return await runtime.call("run_command", {"command": command})


@pytest.mark.parametrize("backend", ["native", "bwrap"])
async def test_a_program_sees_its_own_run_folders_and_no_journal(work: Path, own_user: Path, backend: str) -> None:
    """Its scratch folder can be written; journal, archive and other runs are not there."""
    need_sandbox()
    if backend == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    assert (await ran(work, backend, "true", "first")).ok
    runs = work / ".agent" / "runs"
    line = f"ls {runs}; cd {runs}; ls second; echo x > second/sandbox/made; touch planted; touch second/planted; true"
    (work / "look.sh").write_text(line)  # a program's own doing, which no line says
    outcome = await ran(work, backend, "sh look.sh", "second")
    assert outcome.ok, outcome.content
    assert outcome.data["stdout"].split() == [
        "second",
        "artifacts",
        "deliverables",
        "observations",
        "sandbox",
        "workspace",
    ]
    assert (runs / "second" / "sandbox" / "made").read_text() == "x\n"
    assert not list(runs.rglob("planted"))
