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


def run(command: str, folder: Path, keep: Path) -> tuple[str, int]:
    """Run a line in a shell that keeps its variables for the next. Return its output and exit status."""
    kept = f"set | grep -E '^(id|digest)=' > {keep}"
    script = f"set -a; . {keep} 2>/dev/null; set +a\n{command}\nstatus=$?; {kept}; exit $status"
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
    return done.stdout, done.returncode


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
    """One folder a page, empty at first: what one example makes, the next one finds."""
    from handrail.settings import load

    folder = tmp_path / "project"
    folder.mkdir()
    for language, block in BLOCK.findall(page.read_text()):
        if language == "toml":
            (tmp_path / "settings.toml").write_text(block)
            load(folder, config=tmp_path / "settings.toml", environment={})
        elif language == "python":
            (tmp_path / "example.py").write_text(block)
            done = subprocess.run(
                [sys.executable, tmp_path / "example.py"],
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
                output, status = run(command, folder, tmp_path / "kept")
                if expected:
                    assert shows(output, expected), f"{page.name}: $ {command}\n{output}"
                # A failure is an example only where the page shows it.
                assert status == 0 or set(expected) - {"…"}, f"{page.name}: $ {command} ended with {status}\n{output}"


def programs() -> list[tuple[str, str]]:
    """List every Python example with a name for it."""
    found = []
    for page in PAGES:
        blocks = [block for language, block in BLOCK.findall(page.read_text()) if language == "python"]
        found += [(f"{page.relative_to(ROOT)} {number}", block) for number, block in enumerate(blocks, 1)]
    return found


@pytest.mark.parametrize("block", [block for _, block in programs()], ids=[name for name, _ in programs()])
def test_a_program_runs_by_itself_in_an_empty_folder(block: str, tmp_path: Path) -> None:
    """As somebody does who copies that one example: the file is in the folder, and nothing else is."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agent.py").write_text(block)
    argv = [sys.executable, "agent.py"]
    done = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


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
