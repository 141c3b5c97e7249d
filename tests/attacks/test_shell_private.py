"""A sandbox has a /tmp of its own; a workspace that lies below the machine's is no part of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox
from handrail import Runtime


@pytest.fixture
def below_tmp() -> Iterator[Path]:
    """A workspace below /tmp, wherever tests have their own folders."""
    need_sandbox()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "README.md").write_text("original\n")
        yield Path(folder)


@pytest.mark.parametrize(
    "line",
    [
        "echo evil > {}/README.md",
        "echo evil >> {}/README.md",
        "echo evil > /tmp/../{}/README.md",
        "cd /tmp && echo evil > {}/README.md",
        "echo evil | tee {}/README.md",
        "sort -o {}/README.md /dev/null",
        "bash -c 'echo evil > {}/README.md'",
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
async def test_a_file_of_a_workspace_below_tmp_is_not_the_sandboxes_own(
    below_tmp: Path, line: str, absolute: bool
) -> None:
    """By its whole path it is judged as by its name: nothing is replaced unasked."""
    config = {"tools": {"enable": ["exec"]}, "workspace": {"allow_absolute": absolute}}
    async with Runtime.open(below_tmp, config=config, mode="headless") as runtime:
        outcome = await runtime.call("run_command", {"command": line.format(below_tmp)})
    assert outcome.status == ("pending" if absolute else "denied")
    assert (below_tmp / "README.md").read_text() == "original\n"


async def test_what_only_the_sandbox_sees_is_written_unasked(below_tmp: Path) -> None:
    """Its own /tmp is gone with it, and nothing of the machine's is there."""
    aside = Path("/tmp", f"{below_tmp.name}-aside")
    async with Runtime.open(below_tmp, config={"tools": {"enable": ["exec"]}}, mode="headless") as runtime:
        outcome = await runtime.call("run_command", {"command": f"echo 1 > /tmp/{aside.name} && cat /tmp/{aside.name}"})
    assert (outcome.status, outcome.data["stdout"]) == ("ok", "1\n")
    assert not aside.exists()
