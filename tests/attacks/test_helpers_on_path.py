"""Programs that Handrail starts outside the sandbox never come from a project, whatever PATH says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail import Outcome, Runtime
from handrail.errors import SettingsFault
from handrail.quality.linters import find_linter
from handrail.sandbox.choose import report
from handrail.sandbox.dynamic import loader_of
from handrail.sandbox.executables import find_executable

SOURCE = Path(handrail.__file__).parent
NAMES = ("bwrap", "rg", "git", "ruff", "fd", "fdfind", "bash", "sh", "python3", "handrail", "newuidmap", "true")
AGENT = """
import asyncio, json, sys
from handrail import Runtime
async def main():
    sandbox = sys.argv[1]
    allowed = {"allow": ["*", "bash swap.sh"], "sandbox": sandbox}
    config = {"tools": {"enable": ["fs", "exec", "search", "quality"]}, "exec": allowed}
    async with Runtime.open(".", config=config, mode="headless") as runtime:
        for name, args in (
            ("grep", {"pattern": "x", "path": "."}),
            ("find_files", {"pattern": "*.py"}),
            ("read_lints", {"paths": ["some.py"]}),
            ("codebase_search", {"query": "main"}),
            ("run_command", {"command": "ls"}),
        ):
            outcome = await runtime.call(name, args)
            print(json.dumps([name, outcome.error and outcome.error.code, outcome.content]))
asyncio.run(main())
"""


def plant(project: Path, mark: Path) -> str:
    """Put programs into a project's folders, and give a PATH that finds them first: by name, absolute and relative."""
    folders = [project / "bin", project / "node_modules/.bin"]
    for made in folders:
        made.mkdir(parents=True)
        for name in NAMES:
            (made / name).write_text(f'#!/bin/sh\necho "$0" >> {mark}\nexit 1\n')
            (made / name).chmod(0o755)
    (project / "some.py").write_text("import os\nx = 1\n")
    return f"{folders[0]}:.:bin:node_modules/.bin::{folders[1]}:{os.environ['PATH']}"


def bare_interpreter(above: Path) -> Path:
    """Make an environment beside the project that holds Handrail and no program of any package."""
    venv.create(above / "tools", symlinks=True, with_pip=False)
    site = next((above / "tools/lib").glob("python3*/site-packages"))
    libraries = [entry for entry in sys.path if entry.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join([*libraries, str(SOURCE.parent)]))
    return above / "tools/bin/python"


@pytest.mark.parametrize("sandbox", ["auto", "bwrap"])
def test_planted_helpers_are_never_started(tmp_path: Path, sandbox: str) -> None:
    """Searches, linters, the index and programs are used with a PATH that leads into the project."""
    project, mark = tmp_path / "project", tmp_path / "mark"
    path = plant(project, mark)
    python = bare_interpreter(tmp_path)
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    env = {"PATH": path, "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [str(python), str(agent), sandbox]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not mark.exists(), mark.read_text()
    told = {name: (code, content) for name, code, content in map(json.loads, done.stdout.splitlines())}
    for name in ("grep", "find_files", "codebase_search"):  # a script in the stead of rg could not be started either
        assert "could not be started" not in told[name][1]
    if find_executable("bwrap") or sandbox == "auto":
        assert told["run_command"][0] is None, told["run_command"]
    if not any(os.path.exists(f"{folder}/rg") for folder in ("/usr/bin", "/usr/local/bin")):
        assert "ripgrep is missing" in told["grep"][1]


@pytest.mark.parametrize("verb", [["doctor"], ["tools", "list"], ["mcp", "install", "claude-code", "--print"]])
def test_the_command_line_starts_and_names_none_of_them(tmp_path: Path, verb: list[str]) -> None:
    """What is written into a client's settings is started by the client, outside any sandbox."""
    project, mark = tmp_path / "project", tmp_path / "mark"
    env = {"PATH": plant(project, mark), "HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-m", "handrail", *verb]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert not mark.exists(), mark.read_text()
    assert f"{project}/bin" not in done.stdout
    assert f"{project}/node_modules" not in done.stdout


def test_a_program_beneath_a_write_root_is_not_found() -> None:
    """Even in a folder of the system, where that folder is one that tools may write."""
    found = find_executable("sh")
    assert found is not None
    assert find_executable("sh", [os.path.dirname(os.path.realpath(found)), os.path.dirname(found), "/"]) is None


def test_no_module_looks_for_programs_in_its_own_way() -> None:
    """One function finds them; `mcp install` and `hook status` look at PATH for what others start."""
    asking = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"shutil\.which|from shutil import .*which|get_exec_path", path.read_text())
    }
    assert asking == {"front/mcp/install.py", "hooks/status.py"}


# ── paths that settings name ─────────────────────────────────────────────────────────────────


def write_program(path: Path, mark: Path, real: str) -> None:
    """Write a program that leaves a mark and then is the real one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0" >> {mark}\nexec {real} "$@"\n')
    path.chmod(0o755)


async def search(workspace: Path, config: Mapping[str, Any]) -> Outcome:
    """Search the workspace once."""
    async with Runtime.open(workspace, config=config, mode="headless") as runtime:
        return await runtime.call("grep", {"pattern": "here", "path": "."})


async def test_a_program_that_settings_name_is_started(tmp_path: Path, own_user: Path) -> None:
    """A copy of ripgrep outside the roots is what searches run, and the linter is the one named."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("here\n")
    real = find_executable("rg")
    assert real is not None
    copy = tmp_path / "opt/rg"
    copy.parent.mkdir()
    shutil.copy2(os.path.realpath(real), copy)
    outcome = await search(project, {"programs": {"rg": str(copy)}})
    assert outcome.ok, outcome
    assert "a.txt" in outcome.content
    copy.write_text("#!/bin/sh\nexit 77\n")
    assert (await search(project, {"programs": {"rg": str(copy)}})).error is not None
    linter = find_linter("a.py", {}, str(copy))
    assert linter is not None
    assert linter.argv[0] == str(copy)
    assert find_linter("a.py", {}, str(tmp_path / "absent")) is None


def test_the_bwrap_that_settings_name_is_started(tmp_path: Path) -> None:
    """Settings may name one in a folder that is not searched; a broken one is not replaced by another."""
    mark = tmp_path / "mark"
    write_program(tmp_path / "opt/bwrap", mark, find_executable("bwrap") or "/bin/false")
    found = report(str(tmp_path / "opt/bwrap"))
    assert mark.read_text().splitlines()[0] == str(tmp_path / "opt/bwrap")
    holds = next(holds for name, _, holds in found if name == "bwrap A")
    assert holds == next(holds for name, _, holds in report() if name == "bwrap A")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("opt/rg", "is a relative path; write the whole path"),
        ("{outside}/absent", "is not a file; correct the path"),
        ("{outside}/plain", "is not executable; run `chmod +x`"),
        ("{project}/rg", "lies beneath a folder that tools may write"),
        ("{outside}/../project/rg", "lies beneath a folder that tools may write"),
        ("{outside}/link", "lies beneath a folder that tools may write"),
    ],
)
async def test_a_named_path_that_cannot_be_used_is_refused(
    tmp_path: Path, own_user: Path, name: str, says: str
) -> None:
    """The message names the setting, the path, and what to do."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    write_program(project / "rg", tmp_path / "mark", "/bin/true")
    (outside / "plain").write_text("")
    (outside / "link").symlink_to(project / "rg")
    path = name.format(project=project, outside=outside)
    with pytest.raises(SettingsFault, match=re.escape(f"programs.rg: {path} {says}")):
        await search(project, {"programs": {"rg": path}})
    assert not (tmp_path / "mark").exists()


async def test_the_refusal_names_file_and_line(tmp_path: Path, own_user: Path) -> None:
    """A path in the user's own file is found by its line."""
    file = tmp_path / "settings.toml"
    file.write_text('[programs]\nruff = "/usr/bin/true"\nrg = "rg"\n')
    (tmp_path / "project").mkdir()
    with pytest.raises(SettingsFault, match=r"settings\.toml:3: programs\.rg: rg is a relative path"):
        async with Runtime.open(tmp_path / "project", config=file):
            pass


def test_a_link_to_the_environment_that_a_program_replaces_leads_to_no_helper(tmp_path: Path) -> None:
    """A link cannot be locked for programs; Handrail goes on with the folder that it led to at the start."""
    project, mark = tmp_path / "project", tmp_path / "mark"
    project.mkdir()
    python = bare_interpreter(tmp_path)
    shutil.copy(str(find_executable("rg")), python.parent / "rg")
    (project / ".venv").symlink_to(tmp_path / "tools")
    (project / "planted/bin").mkdir(parents=True)
    (project / "planted/bin/rg").write_text(f"#!/bin/sh\necho here > {mark}\n")
    (project / "planted/bin/rg").chmod(0o755)
    (project / "swap.sh").write_text("rm .venv && ln -s planted .venv && readlink .venv\n")
    agent = tmp_path / "agent.py"
    swap = '("run_command", {"command": "bash swap.sh"}),\n            ("grep", {"pattern": "readlink", "path": "."}),'
    agent.write_text(
        AGENT.replace("        for name, args in (\n", f"        for name, args in (\n            {swap}\n")
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [str(project / ".venv/bin/python"), str(agent), "auto"]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert "planted" in told[0][2], (told, done.stderr)
    assert "swap.sh" in told[1][2], told
    assert not mark.exists()


async def test_a_helper_that_is_linked_dynamically_can_be_started(tmp_path: Path) -> None:
    """As ripgrep of a distribution is: in its domain it also needs a loader and libraries, and gets no more."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "some.py").write_text("x = 1\n")
    program = "/bin/cat" if loader_of("/bin/cat") else sys.executable
    assert loader_of(program)
    outcome = await search(project, {"programs": {"rg": program}})
    # It was executed, and did not understand what ripgrep is asked for.
    assert "could not be started" not in outcome.content
    assert "cannot open shared object file" not in outcome.content


def test_only_programs_have_a_loader(tmp_path: Path) -> None:
    """A file that is cut off, or no program at all, has none."""
    assert loader_of(str(tmp_path / "absent")) == ""
    whole = Path(os.path.realpath(sys.executable)).read_bytes()
    for content in (b"", b"#!/bin/sh\n", whole[:20], whole[:80]):
        (tmp_path / "file").write_bytes(content)
        assert loader_of(str(tmp_path / "file")) == ""
