"""Runs that settings keep elsewhere, and runs with a folder of their own: every verb reaches them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fronts.conftest import Cli

WRITE = ("write_file", "path=new.txt", "content=1")
REPLACE = ("write_file", "path=new.txt", "content=2", "mode=overwrite")


def pending(cli: Cli, *words: str) -> str:
    """The id of the request that a call leaves."""
    asked = cli("call", "--headless", "--json", *words)
    assert asked.code == 4, asked.err
    return str(json.loads(asked.out)["error"]["details"]["approval"]["id"])


def test_runs_that_a_preset_keeps_in_the_project_are_found_with_it(cli: Cli) -> None:
    """To list, show and verify; without the preset the folder that was looked into is told."""
    assert cli("call", "--preset", "kgent", "--run", "k", *WRITE).code == 0
    made = cli.work / "runs" / "k" / "workspace" / "new.txt"
    assert made.read_text() == "1"
    kgent = ("--preset", "kgent")
    assert [item["run_id"] for item in json.loads(cli("runs", "list", "--here", "--json", *kgent).out)] == ["k"]
    assert cli("runs", "show", *kgent).out.startswith("run k ")
    assert cli("runs", "verify", "k", *kgent).code == 0
    lost = cli("runs", "show", "k")
    assert (lost.code, "--preset may lie elsewhere" in lost.err) == (2, True)
    assert str(Path(cli.env["XDG_STATE_HOME"], "handrail", "runs")) in lost.err
    undone = cli("runs", "undo", *kgent)  # the preset denies deleting to its agents, not to who takes back
    assert (undone.code, made.exists()) == (0, False)


@pytest.mark.parametrize("root", [".", "run:workspace", "own/{run_id}"])
def test_runs_of_a_settings_file_are_found_with_it(cli: Cli, tmp_path: Path, root: str) -> None:
    """`--config` names the same file; what is undone is what the run made, wherever it works."""
    file = tmp_path / "mine.toml"
    file.write_text(f'runs_dir = "here"\ntools.enable = ["fs"]\nworkspace.root = "{root}"\n')
    assert cli("call", "--config", str(file), "--run", "c", *WRITE).code == 0
    assert cli("runs", "show", "c").code == 2
    assert cli("runs", "show", "--config", str(file)).out.startswith("run c ")
    assert len(list(cli.work.rglob("new.txt"))) == 1
    assert cli("runs", "undo", "--config", str(file)).code == 0
    assert list(cli.work.rglob("new.txt")) == []


def test_a_run_with_a_folder_of_its_own_is_undone_there_and_nowhere_else(cli: Cli) -> None:
    """A file of the same name and content in the project stays."""
    assert cli("call", "--preset", "tool-hub", "--run", "t", *WRITE).code == 0
    (cli.work / "new.txt").write_text("1")
    made = cli.work / "sandbox" / "t" / "new.txt"
    assert made.read_text() == "1"
    assert cli("runs", "undo", "t").code == 0
    assert (made.exists(), (cli.work / "new.txt").exists()) == (False, True)


@pytest.mark.parametrize("preset", ["tool-hub", "kgent"])
def test_an_approved_call_is_replayed_in_the_folder_of_its_run(cli: Cli, preset: str, tmp_path: Path) -> None:
    """The command that is told works from any folder; without its flags nothing runs anywhere."""
    assert cli("call", "--preset", preset, "--run", "t", *WRITE).code == 0
    request = pending(cli, "--preset", preset, "--run", "t", *REPLACE)
    told = cli.grant(request).err
    command = told.split("else: handrail ")[1].split()
    assert command == ["call", "--approval", request, "--preset", preset, "--workspace", str(cli.work)]
    before = sorted(tmp_path.rglob("new.txt"))
    assert cli("call", "--approval", request, "--preset", preset, cwd=tmp_path).code == (2 if preset == "kgent" else 0)
    if preset == "kgent":
        assert cli(*command, cwd=tmp_path).code == 0
    assert (sorted(tmp_path.rglob("new.txt")), [path.read_text() for path in before]) == (before, ["2"])


def test_doctor_looks_at_the_settings_it_is_told(cli: Cli, tmp_path: Path) -> None:
    """And says where their runs are kept."""
    file = tmp_path / "mine.toml"
    file.write_text(f'runs_dir = "{tmp_path}/there"\n')
    checks = {item["name"]: item for item in json.loads(cli("doctor", "--json", "--config", str(file)).out)}
    assert checks["runs"] == {"name": "runs", "state": "good", "says": f"kept in {tmp_path}/there", "mend": ""}
    file.write_text("nonsense = 1\n")
    assert cli("doctor", "--config", str(file)).code == 1
    assert "runs" in cli("doctor", "--preset", "kgent").out
