"""Every example in README and docs runs, and says what it says."""

from __future__ import annotations

import atexit
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
]
BLOCK = re.compile(r"^```(python|console|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def stand_ins() -> str:
    """A folder with what pages speak of and a machine may lack: `fd` is asked for, and never started."""
    folder = Path(tempfile.mkdtemp(prefix="handrail-docs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "fd").write_text("#!/bin/sh\nexit 1\n")
    (folder / "fd").chmod(0o755)
    return str(folder)


def environment() -> dict[str, str]:
    """The user's own, with our script first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"], stand_ins()))
    return {**os.environ, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1"}


def run(command: str, folder: Path, keep: Path) -> str:
    """Run a line in a shell that keeps its variables for the next."""
    script = f"set -a; . {keep} 2>/dev/null; set +a\n{command}\nstatus=$?; set | grep -E '^id=' > {keep}; exit $status"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def shows(output: str, expected: list[str]) -> bool:
    """Whether an output has the lines shown; `…` stands for anything, also for any number of lines."""
    pattern = "\n".join(expected)
    escaped = re.sub(r"([\[\]*?])", r"[\1]", pattern).replace("…", "*")
    return fnmatch.fnmatchcase(output.strip(), escaped.strip())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    """One folder a page: what one example makes, the next one finds."""
    from handrail.settings import load

    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# A project\n\nHandrail looks after it.\n")
    for language, block in BLOCK.findall(page.read_text()):
        if language == "toml":
            (tmp_path / "settings.toml").write_text(block)
            load(folder, config=tmp_path / "settings.toml", environment={})
        elif language == "python":
            done = subprocess.run(
                [sys.executable, "-c", block],
                cwd=folder,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        else:
            for command, expected in commands(block):
                output = run(command, folder, tmp_path / "kept")
                if expected:
                    assert shows(output, expected), f"{page.name}: $ {command}\n{output}"


def test_every_link_between_pages_leads_somewhere() -> None:
    """No page points to a file that is not there."""
    for page in [*PAGES, *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} -> {target}"


def test_both_readmes_show_the_two_commands_first() -> None:
    """Nothing by hand before them."""
    for name in ("README.md", "README.zh-CN.md"):
        first = re.search(r"^```\n(.*?)^```$", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
        assert first is not None
        assert [line.split("#")[0].strip() for line in first[1].splitlines()] == ["make run", "make test"]
