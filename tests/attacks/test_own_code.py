"""An agent cannot rewrite the gate it runs behind: neither its files, nor its late imports, nor its entry points."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import handrail
from attacks._sandbox_users import ORDINARY, USERS, command, folder, missing

PACKAGE = Path(handrail.__file__).parent
LIBRARIES = [entry for entry in sys.path if entry.endswith("site-packages")]
ALL = ["fs", "exec", "search", "util", "quality", "http"]
CALLS = """
import asyncio, json, sys
from handrail import Runtime
from handrail.testing import ScriptedApprover
async def main():
    limits = {{"max_calls": 1000, "max_prompts": 1000, "max_repeats": 1000}}
    config = {{"tools": {{"enable": {enable!r}}}, "exec": {{"allow": ["*"]}}, "limits": limits}}
    async with Runtime.open(".", config=config, approver=ScriptedApprover({answer!r})) as runtime:
        told = []
        for name, args in json.loads(sys.argv[1]):
            outcome = await runtime.call(name, args)
            error = outcome.error
            told.append([error.code if error else "ok", outcome.content, error and error.message])
        print(json.dumps({{"told": told, "warnings": list(runtime.parts.loaded.warnings)}}))
if __name__ == "__main__":
    asyncio.run(main())
"""
MARK = "import os, pathlib; pathlib.Path({mark!r}).write_text(str(os.getpid()))\n"


def write(tool_path: str, text: str) -> tuple[str, dict[str, Any]]:
    """A call that makes or replaces a file."""
    return ("write_file", {"path": tool_path, "content": text})


def in_scripts(*lines: str) -> list[tuple[str, dict[str, Any]]]:
    """Calls that hand lines to programs, so that the sandbox alone judges what they change."""
    calls: list[tuple[str, dict[str, Any]]] = []
    for number, line in enumerate(lines):
        calls += [write(f"script{number}.sh", f"{line}\n"), ("run_command", {"command": f"bash script{number}.sh"})]
    return calls


def run(argv: Sequence[str], project: Path, calls: Sequence[tuple[str, dict[str, Any]]], **env: str) -> dict[str, Any]:
    """Run an agent in a project: the outcome of each call, and what opening warned of."""
    home = project.parent / "home"
    surroundings = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run(
        [*argv, json.dumps(calls)], cwd=project, env=surroundings, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["stderr"] = done.stderr
    return found


def make_project(above: Path, user: str = "this user", *, answer: str = "once") -> Path:
    """Make a project with an agent of its own, as README shows it."""
    project = above / "project"
    for made in (project, above / "home"):
        made.mkdir()
        if user != "this user":
            os.chown(made, ORDINARY, ORDINARY)
    (project / "agent.py").write_text(CALLS.format(enable=ALL, answer=answer))
    return project


def install(project: Path, base: str = sys.executable) -> Path:
    """Make a `.venv` of the project that holds Handrail; its libraries stay where they are. Gives the interpreter."""
    subprocess.run([base, "-m", "venv", "--symlinks", "--without-pip", str(project / ".venv")], check=True)
    site = next((project / ".venv/lib").glob("python3*/site-packages"))
    (site / "libraries.pth").write_text("\n".join(LIBRARIES))
    subprocess.run(["cp", "-r", str(PACKAGE), str(site / "handrail")], check=True)
    return project / ".venv/bin/python"


def own(project: Path, user: str) -> None:
    """Give a project to the user who works in it."""
    if user != "this user":
        subprocess.run(["chown", "-R", f"{ORDINARY}:{ORDINARY}", str(project)], check=True)


def interpreter_of(user: str) -> list[str]:
    """How a user starts an interpreter that can load the libraries of these tests; the last word is its path."""
    argv = command(user)
    env = {"PYTHONPATH": os.pathsep.join(LIBRARIES), "PYTHONDONTWRITEBYTECODE": "1"}
    tried = [*argv, "-c", "import orjson, pydantic_core, uuid_utils"]
    if subprocess.run(tried, env=env, capture_output=True, check=False, cwd="/").returncode:
        missing(f"{user} cannot load the libraries of these tests with {argv[-1]}")
    return argv


# ── (a) Handrail in the project's own environment ────────────────────────────────────────────


@pytest.mark.parametrize("user", USERS)
def test_tools_and_programs_cannot_change_a_gate_in_the_project(user: str) -> None:
    """Nobody has to say no: approving everything changes nothing."""
    with folder(user) as above:
        start = interpreter_of(user)
        project = make_project(above, user)
        python = install(project, start[-1])
        own(project, user)
        site = next((project / ".venv/lib").glob("python3*/site-packages")).relative_to(project)
        inside, mark = f"{site}/handrail/sandbox/inside/__main__.py", str(above / "home/mark")
        before = (project / inside).read_bytes()
        line = MARK.format(mark=mark)
        calls: list[tuple[str, dict[str, Any]]] = [
            ("edit_file", {"path": inside, "edits": [{"old": "import os\n", "new": f"import os\n{line}"}]}),
            write(inside, line),
            write(f"{site}/evil.pth", line),
            write(".venv/pyvenv.cfg", "home = /nowhere\n"),
            write(".venv/bin/rg", "#!/bin/sh\n"),
            ("delete_path", {"path": inside, "confirm": True}),
            ("delete_path", {"path": ".venv", "recursive": True, "confirm": True}),
            ("move_path", {"source": ".venv", "target": "other"}),
            ("move_path", {"source": ".venv/lib", "target": "lib"}),
            *in_scripts(
                f"echo hi > {inside}",
                f"echo hi > {site}/evil.pth",
                "mv .venv other",
                "mv .venv/lib lib",
                "rm -r .venv/bin",
            ),
            ("run_command", {"command": "true"}),
        ]
        found = run([*start[:-1], str(python), "agent.py"], project, calls)
        codes = [code for code, _, _ in found["told"]]
        assert codes[:-1] == ["PATH_PROTECTED"] * 9 + ["ok", "EXIT_NONZERO"] * 5, found["told"]
        assert found["told"][-1][0] == "ok"
        assert (project / inside).read_bytes() == before
        assert not (project / site / "evil.pth").exists()
        assert not Path(mark).exists()
        assert any("uv tool install handrail" in warning for warning in found["warnings"])


def test_doctor_warns_of_a_gate_in_the_project(tmp_path: Path) -> None:
    """Where it is installed apart, nothing is said."""
    project = make_project(tmp_path)
    python = install(project)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    for interpreter, state in ((str(python), "weaker"), (sys.executable, "good")):
        argv = [interpreter, "-m", "handrail", "doctor", "--json"]
        done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
        checks = {check["name"]: check for check in json.loads(done.stdout)}
        assert checks["own code"]["state"] == state


def test_hard_links_of_the_gate_in_a_projects_environment_are_locked(tmp_path: Path) -> None:
    """uv links every environment to its cache: what a program writes into one would be in Handrail's as well."""
    project = make_project(tmp_path)
    (tmp_path / "tool").mkdir()
    python = install(tmp_path / "tool")
    venv.create(project / ".venv", symlinks=True, with_pip=False)
    ours = next((tmp_path / "tool/.venv/lib").glob("python3*/site-packages"))
    theirs = next((project / ".venv/lib").glob("python3*/site-packages"))
    subprocess.run(["cp", "-rl", str(ours / "handrail"), str(theirs / "handrail")], check=True)
    site = theirs.relative_to(project)
    before = (ours / "handrail/words.py").read_bytes()
    calls = in_scripts(
        f"echo hi >> {site}/handrail/words.py",
        f"mv {site}/handrail {site}/moved && echo hi >> {site}/moved/words.py",
        f"ln {site}/handrail/words.py words.py && echo hi >> words.py",
        f"echo hi > {site}/other.py",
    )
    found = run([str(python), "agent.py"], project, calls)
    codes = [code for code, _, _ in found["told"]]
    assert codes == [*["ok", "EXIT_NONZERO"] * 3, "ok", "ok"], found["told"]
    assert (ours / "handrail/words.py").read_bytes() == before
    assert any("--link-mode copy" in warning for warning in found["warnings"])


# ── (b) late imports of an agent whose folder comes first on the path ────────────────────────

LATE = ("jmespath", "sqlite3", "shlex", "resource", "unicodedata", "difflib", "tree_sitter", "tree_sitter_bash", "yaml",
        "aiohttp", "charset_normalizer", "re2", "hyperscan", "tree_sitter_python", "wordllama", "numpy", "fcntl",
        "subprocess", "html", "zoneinfo", "tomlkit", "hashlib", "select", "array", "marshal", "sitecustomize",
        "usercustomize", "shutil", "inspect", "_strptime", "queue", "pydantic", "rich", "click")  # fmt: skip
WORK: list[tuple[str, dict[str, Any]]] = [
    ("json_select", {"json": {"a": 1}, "expression": "a"}),
    ("run_command", {"command": "ls | cat && echo 'a b'"}),
    ("grep", {"pattern": "héllo", "path": "."}),
    ("codebase_search", {"query": "where is main defined"}),
    ("edit_file", {"path": "notes.md", "edits": [{"old": "one", "new": "two"}]}),
    ("read_lints", {"paths": ["helper.py"]}),
    ("read_lints", {"paths": ["some.yaml"]}),
    ("http_fetch", {"url": "http://127.0.0.1:1/"}),
    ("find_files", {"pattern": "*.py"}),
    ("now", {"timezone": "Europe/Berlin"}),
]


def test_nothing_is_imported_for_the_gate_from_the_workspace(tmp_path: Path) -> None:
    """Every module that could be loaded late is planted by a tool, then every kind of tool is used."""
    project = make_project(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()
    (project / "notes.md").write_text("one\n")
    (project / "helper.py").write_text("import os\n")
    (project / "some.yaml").write_text("a: 1\n")
    planted = [write(f"{name}.py", MARK.format(mark=str(marks / name))) for name in LATE]
    found = run([sys.executable, "agent.py"], project, [*planted, *WORK])
    assert [code for code, _, _ in found["told"]][: len(LATE)] == ["ok"] * len(LATE)
    assert sorted(mark.name for mark in marks.iterdir()) == []
    worked = dict(zip([name for name, _ in WORK], found["told"][len(LATE) :], strict=True))
    for name in ("json_select", "run_command", "grep", "codebase_search", "edit_file", "find_files", "now"):
        assert worked[name][0] == "ok", worked[name]


HELPER = """
import asyncio, json, os, pathlib, sys
from handrail import Runtime
def helpers(mark):
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text, parent = (place / "cmdline").read_text(), (place / "stat").read_text().rpartition(")")[2].split()[1]
            if mark in text and parent == str(os.getpid()):
                yield [text.split(chr(0)), (place / "environ").read_text()]
        except OSError:
            pass
async def main():
    async with Runtime.open(".", config={"tools": {"enable": ["search", "exec"]}}) as runtime:
        outcome = await runtime.call(sys.argv[1], json.loads(sys.argv[2]))
        assert outcome.ok, outcome.content
        print(json.dumps([found for found in helpers(sys.argv[3])]))
asyncio.run(main())
"""


def look_at_helper(project: Path, tool: str, args: dict[str, Any], mark: str, **env: str) -> list[Any]:
    """Call a tool and give the words and the environment of the process that serves it."""
    (project / "agent.py").write_text(HELPER)
    argv = [sys.executable, "agent.py", tool, json.dumps(args), mark]
    surroundings = {"PATH": os.environ["PATH"], "HOME": str(project.parent / "home"), **env}
    done = subprocess.run(argv, cwd=project, env=surroundings, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_the_index_helper_loads_no_library_from_the_workspace(tmp_path: Path) -> None:
    """Variables that name code are left out, and of LD_LIBRARY_PATH the folders that tools may write."""
    project = make_project(tmp_path)
    (tmp_path / "link").symlink_to(project)
    folders = [str(project / "lib"), "lib", "", str(tmp_path / "link"), str(tmp_path / "libraries")]
    env = {"LANG": "C.UTF-8", "LD_LIBRARY_PATH": ":".join(folders), "PYTHONSTARTUP": "agent.py"}
    asked = {"query": "where is main defined"}
    ((_, environ),) = look_at_helper(project, "codebase_search", asked, "handrail.index.reader", **env)
    assert environ.split("\0")[:-1] == ["LANG=C.UTF-8", f"LD_LIBRARY_PATH={tmp_path / 'libraries'}"]


def test_the_process_that_starts_programs_takes_nothing_from_its_surroundings(tmp_path: Path) -> None:
    """Neither variables nor packages nor a `sitecustomize`: it runs outside the sandbox."""
    project = make_project(tmp_path)
    inside = str(PACKAGE / "sandbox/inside")
    found = look_at_helper(project, "run_command", {"command": "ls"}, inside, PYTHONPATH=str(project))
    assert found
    for words, environ in found:
        assert {"-I", "-S"} <= set(words[1 : words.index(inside)])
        assert environ == ""


def test_the_users_own_imports_go_on_as_before(tmp_path: Path) -> None:
    """A tool of the agent loads a module of the project late, and one that has the name of an installed package."""
    project = make_project(tmp_path)
    (project / "mine.py").write_text("VALUE = 'mine'\n")
    (project / "tomlkit.py").write_text("VALUE = 'my own tomlkit'\n")
    agent = """
import asyncio
from handrail import Runtime, tool
@tool()
async def look() -> str:
    "Look."
    import importlib
    import tomlkit
    return importlib.import_module("mine").VALUE + ", " + tomlkit.VALUE
async def main():
    from handrail.testing import ScriptedApprover
    async with Runtime.open(".", tools=[look], approver=ScriptedApprover("once")) as runtime:
        print((await runtime.call("look")).content)
asyncio.run(main())
"""
    (project / "agent.py").write_text(agent)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=project, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert "mine, my own tomlkit" in done.stdout, done.stderr


def test_loaded_modules_of_the_agent_ask_and_others_do_not(tmp_path: Path) -> None:
    """With nobody to ask, the agent's own files stay, and the rest of the project is worked on."""
    project = make_project(tmp_path, answer="no")
    (project / "helper.py").write_text("VALUE = 1\n")
    agent = (project / "agent.py").read_text()
    (project / "agent.py").write_text(f"import helper\n{agent}")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("edit_file", {"path": "helper.py", "edits": [{"old": "1", "new": "2"}]}),
        ("edit_file", {"path": "agent.py", "edits": [{"old": "import helper\n", "new": ""}]}),
        ("move_path", {"source": "helper.py", "target": "helped.py"}),
        write("sitecustomize.py", "import os\n"),
        write("other.py", "VALUE = 1\n"),
        ("run_command", {"command": "echo 3 > other.txt"}),
    ]
    found = run([sys.executable, "agent.py"], project, calls)
    statuses = [status for status, _, _ in found["told"]]
    assert statuses == [*["APPROVAL_DENIED"] * 4, "ok", "ok"], found["told"]
    (project / "agent.py").write_text((project / "agent.py").read_text().replace("'no'", "'once'"))
    found = run([sys.executable, "agent.py"], project, in_scripts("echo 3 > helper.py", "mv helper.py helped.py"))
    assert [code for code, _, _ in found["told"]] == ["ok", "EXIT_NONZERO"] * 2, found["told"]
    assert (project / "helper.py").read_text() == "VALUE = 1\n"


# ── (c) entry points of a package that a tool wrote ──────────────────────────────────────────


def test_entry_points_beneath_a_write_root_are_ignored(tmp_path: Path) -> None:
    """The project's `src` is on the path, as an editable install puts it there."""
    project = make_project(tmp_path)
    mark = tmp_path / "mark"
    info = project / "src/evil-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[handrail.tools]\nevil = evil:evil\n")
    (project / "src/evil.py").write_text(MARK.format(mark=str(mark)) + "raise RuntimeError\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONPATH": str(project / "src")}
    argv = [sys.executable, "-m", "handrail", "tools", "list"]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
    assert "evil" in done.stderr
    assert "is ignored" in done.stderr
    found = run([sys.executable, "agent.py"], project, [("evil", {})], PYTHONPATH=str(project / "src"))
    assert found["told"][0][0] == "UNKNOWN_TOOL"
    assert not mark.exists()


@pytest.mark.parametrize("way", ["command line", "runtime"])
def test_nothing_is_imported_from_the_project_before_its_settings_are_read(way: str, tmp_path: Path) -> None:
    """Names that only other systems have, and a plugin of pydantic, in the `src` of an editable install."""
    project = make_project(tmp_path)
    marks = tmp_path / "marks"
    marks.mkdir()
    info = project / "src/evil-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pydantic]\nevil = evil:evil\n")
    names = ["evil"]
    argv = [sys.executable, "agent.py", "[]"]
    if way == "command line":
        # The script that an installer makes: the folder of the project itself is not on the path.
        (tmp_path / "script.py").write_text("from handrail.front.cli import main\nmain()\n")
        names += ["nt", "_winapi", "msvcrt", "org"]
        argv = [sys.executable, str(tmp_path / "script.py"), "tools", "list"]
    for name in names:
        (project / f"src/{name}.py").write_text(MARK.format(mark=str(marks / name)))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONPATH": str(project / "src")}
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(mark.name for mark in marks.iterdir()) == []


# ── a project's environment that is not ours is ordinary work ────────────────────────────────


def test_a_projects_own_environment_without_handrail_is_ordinary_work(tmp_path: Path) -> None:
    """Programs run pytest with it and install a local wheel into it; tools write there."""
    project = make_project(tmp_path)
    venv.create(project / ".venv", symlinks=True, with_pip=True)
    wheel = project / "tiny-1.0-py3-none-any.whl"
    made = (
        "import zipfile\n"
        f"with zipfile.ZipFile({str(wheel)!r}, 'w') as file:\n"
        "    file.writestr('tiny.py', 'VALUE = 7\\n')\n"
        "    file.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n"
        "    file.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\n"
        "Root-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "    file.writestr('tiny-1.0.dist-info/RECORD', '')\n"
    )
    subprocess.run([sys.executable, "-c", made], check=True)
    site = next((project / ".venv/lib").glob("python3*/site-packages"))
    shutil.copy(Path(pytest.__file__).parents[1] / "py.py", site)
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(Path(pytest.__file__).parents[1] / name, site / name)
    (project / "test_it.py").write_text("import tiny\n\n\ndef test_it() -> None:\n    assert tiny.VALUE == 7\n")
    pip = ".venv/bin/python -m pip install --no-index --quiet --disable-pip-version-check"
    calls: list[tuple[str, dict[str, Any]]] = [
        write(f"{site.relative_to(project)}/made.py", "VALUE = 1\n"),
        ("run_command", {"command": f"{pip} ./{wheel.name}"}),
        ("run_command", {"command": ".venv/bin/python -c 'import tiny, made; print(tiny.VALUE + made.VALUE)'"}),
        ("run_command", {"command": ".venv/bin/python -m pytest -q test_it.py"}),
        ("run_command", {"command": "mv .venv .venv2 && mv .venv2 .venv"}),
    ]
    found = run([sys.executable, "agent.py"], project, calls)
    assert [status for status, _, _ in found["told"]] == ["ok"] * len(calls), found["told"]
