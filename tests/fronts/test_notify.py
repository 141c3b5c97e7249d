"""`approvals.notify`: a person is told of a new request, by nothing that an agent could have written."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from approving import asking
from fronts.conftest import Cli
from fronts.terminal import at_terminal
from handrail import Runtime
from handrail.approvals import notify
from handrail.errors import SettingsFault
from handrail.settings import paths, trust_store

DELETE = {"path": "a.txt", "confirm": True}
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Where the command of these tests writes what it is given."""
    return tmp_path / "told"


def script(folder: Path, told: Path, more: str = "") -> Path:
    """Write a program that notes its arguments, one a line."""
    made = folder / "tell"
    made.write_text(f"#!/bin/sh\n{more}\nprintf '%s\\n' \"$@\" >> {told}\n")
    made.chmod(0o755)
    return made


def opened(work: Path, notify_with: str, **how: Any) -> Runtime:
    """Open a runtime where deleting asks and nobody answers."""
    config = {"tools": {"enable": ["fs", "delete_path"]}, "approvals": {"notify": notify_with}, **how.pop("config", {})}
    return Runtime.open(work, config=config, mode="headless", **how)


async def lines_of(told: Path, count: int) -> list[str]:
    """Wait until so many lines were written."""
    async with asyncio.timeout(20):
        while not told.exists() or len(told.read_text().splitlines()) < count:
            await asyncio.sleep(0.02)
    return told.read_text().splitlines()


async def test_a_command_is_given_what_waits_and_where(work: Path, tmp_path: Path, told: Path) -> None:
    """Once for each request: an equal call that is repeated joins it."""
    (work / "a.txt").write_text("x")
    program = script(tmp_path, told)
    async with opened(work, f"{program} 'Handrail asks' '{{text}}' {{id}} {{workspace}}") as runtime:
        first = await runtime.call("delete_path", DELETE)
        await runtime.call("delete_path", DELETE)
        lines = await lines_of(told, 4)
        await asyncio.sleep(0.3)
    request = first.error.details["approval"] if first.error is not None else {}
    assert lines == ["Handrail asks", f"delete_path: {request['reason']} (work)", request["id"], str(work)]
    assert told.read_text().splitlines() == lines


async def test_no_secret_reaches_it_and_no_shell_reads_it(work: Path, tmp_path: Path, told: Path) -> None:
    """The text may come from a file's name: it is hidden, and one argument."""
    name = f"{TOKEN} $(touch pwned).txt"
    (work / name).write_text("x")
    async with opened(work, f"{script(tmp_path, told)} {{text}}") as runtime:
        await runtime.call("write_file", {"path": name, "content": "y", "mode": "overwrite", "expected_sha256": "*"})
        (line,) = await lines_of(told, 1)
    assert (TOKEN in line, "$(touch pwned)" in line) == (False, True)


async def test_a_command_that_hangs_or_fails_holds_nothing_up(work: Path, tmp_path: Path, told: Path) -> None:
    """A call never waits for it."""
    (work / "a.txt").write_text("x")
    before = time.monotonic()
    async with opened(work, f"{script(tmp_path, told, 'sleep 5')} {{id}}") as runtime:
        await runtime.call("delete_path", DELETE)
    assert time.monotonic() - before < 4


def test_text_is_plain_and_never_looks_like_an_option() -> None:
    """Whatever a file is called."""
    request = asking(reason="--exec=evil\x1b[2J exists", workspace="/home/a")
    assert notify.fill_in("{text}", request) == "write_file: --exec=evil<U+001B>[2J exists (a)"
    assert notify.fill_in("{workspace}", request) == "/home/a"


# ── what is refused ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["itself", "link"])
async def test_a_program_that_tools_may_write_is_refused(work: Path, tmp_path: Path, told: Path, way: str) -> None:
    """Also one that only leads there."""
    program = script(work, told)
    if way == "link":
        (tmp_path / "link").symlink_to(program)
        program = tmp_path / "link"
    with pytest.raises(SettingsFault, match="beneath a folder that tools may write"):
        async with opened(work, f"{program} {{text}}"):
            pass


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("./tell", "relative path"),
        ("no-such-program-here", "not found in the system's folders"),
        ("tell 'open", "cannot be read as words"),
        (" ", "cannot be read as words"),
    ],
)
async def test_a_command_that_cannot_run_is_refused_at_start(work: Path, setting: str, why: str) -> None:
    """With its place and what to write instead."""
    with pytest.raises(SettingsFault, match=why):
        async with opened(work, setting):
            pass


async def test_a_project_never_names_a_command(work: Path, tmp_path: Path, told: Path) -> None:
    """Not trusted it is ignored, trusted it is refused; `bell` is taken from one that is trusted."""
    file = work / "handrail.toml"
    file.write_text(f'approvals.notify = "{script(tmp_path, told)}"\n')
    async with Runtime.open(work) as runtime:
        assert runtime.parts.loaded.settings.approvals.notify is None
    trust_store().trust(file, pin_of(work))
    with pytest.raises(SettingsFault, match="a project's file takes"):
        async with Runtime.open(work):
            pass
    file.write_text('approvals.notify = "bell"\n')
    trust_store().trust(file, pin_of(work))
    async with Runtime.open(work) as runtime:
        assert runtime.parts.loaded.settings.approvals.notify == "bell"


async def test_the_user_names_one(work: Path, tmp_path: Path, told: Path) -> None:
    """In their own file, and by a variable."""
    program = script(tmp_path, told)
    paths.user_file().parent.mkdir(parents=True)
    paths.user_file().write_text(f'approvals.notify = "{program} {{id}}"\n')
    async with Runtime.open(work) as runtime:
        assert runtime.parts.loaded.settings.approvals.notify == f"{program} {{id}}"


def pin_of(work: Path) -> str:
    """What trust in the project's file is bound to."""
    from handrail.settings.files import project_documents

    (document,) = project_documents(work)
    return document.pin


# ── the bell ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("setting", ["bell", None])
def test_the_bell_rings_at_the_terminal_of_the_process(cli: Cli, setting: str | None) -> None:
    """Only where settings want it."""
    user = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    if setting is not None:
        user.write_text(f'{user.read_text()}approvals.notify = "{setting}"\n')
    with at_terminal(["call", "delete_path", "path=a.txt", "confirm=true"], cli.work, cli.env) as terminal:
        terminal.wait_for("Answer (")
        terminal.type("no\n")
        terminal.end()
    assert ("\a" in terminal.shown) == (setting == "bell")
