"""The Makefile sets up no more than its target needs, in either order."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
# Stands for Python: makes a `.venv` of itself, and writes down what it is asked for.
PYTHON = """#!/bin/sh
echo "$*" >> "$ASKED"
case "$* $PIP_CONSTRAINT" in *"pip install"*constraints.txt) ;; *"pip install"*) exit 1 ;; esac
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/handrail"
fi
"""
VENV = "-m venv .venv"
FAST = "-m pip install --quiet --disable-pip-version-check --editable .[fast,mcp,agent,serve]"
PIP = "-m pip install --quiet --disable-pip-version-check pip>=25.1"
DEV = f"{FAST} --group dev"
TEST = "-m pytest -n auto --dist worksteal"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, as far as `make` looks at it."""
    if shutil.which("make") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("make is not there")
        pytest.skip("make is not there")
    (tmp_path / "Makefile").write_text(MAKEFILE.read_text())
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "constraints.txt").touch()
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def made(clone: Path, target: str) -> list[str]:
    """What a target asks Python for."""
    asked = clone / "asked"
    asked.unlink(missing_ok=True)
    env = {"PATH": os.environ["PATH"], "ASKED": str(asked)}
    subprocess.run(
        ["make", "--silent", target, f"PYTHON={clone}/python", "JOBS=auto"], cwd=clone, env=env, check=True, timeout=60
    )
    return asked.read_text().splitlines()


def test_the_tour_needs_nothing_of_the_tests(clone: Path) -> None:
    """What tests need is added when they are run, and nothing is done twice."""
    assert made(clone, "run") == [VENV, FAST, "tour"]
    assert made(clone, "run") == ["tour"]
    assert made(clone, "test") == [PIP, DEV, TEST]
    assert made(clone, "test") == [TEST]
    assert made(clone, "run") == ["tour"]


def test_tests_can_come_first(clone: Path) -> None:
    """Then the tour finds all it needs."""
    assert made(clone, "test") == [VENV, FAST, PIP, DEV, TEST]
    assert made(clone, "run") == ["tour"]


def test_other_requirements_are_set_up_again(clone: Path) -> None:
    """They are in pyproject.toml and constraints.txt."""
    made(clone, "test")
    later = (clone / ".venv" / ".ready").stat().st_mtime + 10
    for name in ("pyproject.toml", "constraints.txt"):
        os.utime(clone / name, (later, later))
        assert made(clone, "run") == [FAST, "tour"]
        later += 10
        os.utime(clone / ".venv" / ".run", (later, later))
        later += 10
