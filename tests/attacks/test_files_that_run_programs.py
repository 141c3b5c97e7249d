"""Files that editors, shells and agents run unasked: no tool makes one without a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail import Runtime

NAMES = (
    *(".zshenv", ".bash_login", ".exrc", ".nvim.lua", ".dir-locals.el", ".gdbinit", ".Rprofile", ".yarnrc.yml"),
    *("mise.toml", "lefthook.yml", "own.code-workspace", ".zed/tasks.json", ".gemini/settings.json", "sub/.vimrc"),
)


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_that_runs_programs_asks(tmp_path: Path, name: str) -> None:
    """Nobody is there to say yes, so that nothing is made."""
    settings = {"tools": {"enable": ["fs"]}}
    async with Runtime.open(tmp_path, config=settings, approver=None, mode="headless") as runtime:
        outcome = await runtime.call("write_file", {"path": name, "content": "x\n"})
    assert outcome.error is not None
    assert outcome.error.code == "APPROVAL_REQUIRED"
    assert not (tmp_path / name).exists()
