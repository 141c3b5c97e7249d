"""Nothing that a tool or program writes becomes part of the gate's next start, by whatever form of file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

import handrail
from attacks.test_own_code import LIBRARIES, MARK, install, make_project, run, write

SOURCE = str(Path(handrail.__file__).parent.parent)
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
EXTENSION = EXTENSION_SUFFIXES[0]
BASE = os.path.realpath(sys.executable)  # no virtual environment: it takes the user's own packages, too
WITH_LIBRARIES = os.pathsep.join([SOURCE, *LIBRARIES])
STARTED = (
    "sitecustomize.py",
    "sitecustomize.pyc",
    f"sitecustomize{EXTENSION}",
    "sitecustomize.so",
    "sitecustomize/__init__.py",
    f"sitecustomize/__init__{EXTENSION}",
    "usercustomize/__init__.py",
    "helper/__init__.py",  # Python takes a package before a module
    f"helper{EXTENSION}",
)


@pytest.mark.parametrize("name", [name for name in STARTED if name.endswith(".py")])
def test_python_takes_these_files_for_code_of_its_start(name: str, tmp_path: Path) -> None:
    """What the test below guards is no invention."""
    (tmp_path / "helper.py").write_text("")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(MARK.format(mark=str(tmp_path / "mark")))
    env = {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([BASE, "-c", "import helper"], env=env, check=True, timeout=60)
    assert (tmp_path / "mark").exists()


def test_files_that_the_next_start_would_run_ask(tmp_path: Path) -> None:
    """In every form in which Python takes them: modules, packages, compiled and native ones."""
    project = make_project(tmp_path, answer="no")
    (project / "helper.py").write_text("VALUE = 1\n")
    (project / "made").mkdir()
    (project / "made/__init__.py").write_text("")
    (project / "agent.py").write_text(f"import helper\n{(project / 'agent.py').read_text()}")
    calls: list[tuple[str, dict[str, Any]]] = [
        *(write(name, "x") for name in STARTED),
        ("move_path", {"source": "made", "target": "sitecustomize"}),
        write("helper/data.txt", "x"),
        write("sitecustomized.py", "x"),
    ]
    found = run([sys.executable, "agent.py"], project, calls)
    codes = [code for code, _, _ in found["told"]]
    assert codes == [*["APPROVAL_DENIED"] * (len(STARTED) + 1), "ok", "ok"], found["told"]


def test_what_a_program_plants_for_the_next_start_is_taken_away(tmp_path: Path) -> None:
    """Where it would take effect: in a folder of the path that was there before."""
    project = make_project(tmp_path)
    (project / "src").mkdir()
    calls: list[tuple[str, dict[str, Any]]] = [
        write("plant.sh", "echo 'import os' > src/sitecustomize.py\necho fine > src/other.py\n"),
        ("run_command", {"command": "bash plant.sh"}),
    ]
    found = run([sys.executable, "agent.py"], project, calls, PYTHONPATH=str(project / "src"))
    assert [code for code, _, _ in found["told"]] == ["ok", "ok"], found["told"]
    assert (project / "src/other.py").exists()
    assert not (project / "src/sitecustomize.py").exists()
    assert "src/sitecustomize.py" in found["told"][1][1]


def test_a_native_library_of_the_program_asks(tmp_path: Path) -> None:
    """It is loaded without being a module."""
    project = make_project(tmp_path, answer="no")
    from pydantic_core import _pydantic_core  # any library

    shutil.copy(_pydantic_core.__file__, project / "mine.so")
    load = "import ctypes\nctypes.PyDLL('./mine.so')\n"
    (project / "agent.py").write_text(load + (project / "agent.py").read_text())
    shutil.copy(project / "mine.so", project / "idle.so")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("move_path", {"source": "mine.so", "target": "moved.so"}),
        ("move_path", {"source": "idle.so", "target": "moved.so"}),
    ]
    found = run([sys.executable, "agent.py"], project, calls)
    assert [code for code, _, _ in found["told"]] == ["APPROVAL_DENIED", "ok"], found["told"]


def test_an_interpreter_in_a_write_root_is_locked_with_its_library_and_settings(tmp_path: Path) -> None:
    """A `pyvenv.cfg` beside `bin` moves its whole standard library; a home may hold the interpreter."""
    project = make_project(tmp_path)
    (project / "py/bin").mkdir(parents=True)
    (project / "py/lib").mkdir()
    shutil.copy(BASE, project / "py/bin/python3")
    (project / "py/lib" / VERSION).symlink_to(Path(os.__file__).parent)
    (project / "py/lib/libpython3.so.1.0").write_text("the interpreter's own library")
    calls: list[tuple[str, dict[str, Any]]] = [
        write("py/pyvenv.cfg", "home = /nowhere\n"),
        write("py/lib/libpython3.so.1.0", "x"),
        ("delete_path", {"path": "py/lib/libpython3.so.1.0", "confirm": True}),
        write("py/bin/python3", "x"),
        write(f"py/lib/python{sys.version_info.major}{sys.version_info.minor}.zip", "x"),
        write("py/lib/other.txt", "x"),
        write("plant.sh", "echo home = /nowhere > py/pyvenv.cfg\n"),
        ("run_command", {"command": "bash plant.sh"}),
    ]
    found = run([str(project / "py/bin/python3"), "agent.py"], project, calls, PYTHONPATH=WITH_LIBRARIES)
    codes = [code for code, _, _ in found["told"]]
    assert codes == [*["PATH_PROTECTED"] * 5, "ok", "ok", "ok"], found["told"]
    assert not (project / "py/pyvenv.cfg").exists()


def test_the_users_own_packages_are_locked_before_there_are_any(tmp_path: Path) -> None:
    """A write root that holds the home: a `.pth` there runs at every start of an interpreter without an environment."""
    project = make_project(tmp_path)
    site = f".local/lib/{VERSION}/site-packages"
    calls: list[tuple[str, dict[str, Any]]] = [
        write(f"{site}/evil.pth", "import os\n"),
        write(f"{site}/usercustomize.py", "import os\n"),
        write(".local/share/notes.txt", "x"),
        write("plant.sh", f"mkdir -p {site} && echo import os > {site}/evil.pth\n"),
        ("run_command", {"command": "bash plant.sh"}),
    ]
    env = {"PYTHONPATH": WITH_LIBRARIES, "HOME": str(project), "XDG_STATE_HOME": str(tmp_path / "home")}
    found = run([BASE, "agent.py"], project, calls, **env)
    codes = [code for code, _, _ in found["told"]]
    assert codes == ["PATH_PROTECTED", "PATH_PROTECTED", "ok", "ok", "ok"], found["told"]
    assert not (project / site / "evil.pth").exists()


def test_a_cache_of_uv_that_holds_links_of_the_gate_is_locked(tmp_path: Path) -> None:
    """Continuous integration often has it in the project (`UV_CACHE_DIR`)."""
    project = make_project(tmp_path)
    (tmp_path / "tool").mkdir()
    python = install(tmp_path / "tool")
    ours = next((tmp_path / "tool/.venv/lib").glob("python3*/site-packages"))
    stored = project / ".uv-cache/archive-v0/Zk3x"
    stored.mkdir(parents=True)
    (stored.parent / "other").mkdir()
    subprocess.run(["cp", "-rl", str(ours / "handrail"), str(stored / "handrail")], check=True)
    place = stored.relative_to(project)
    calls: list[tuple[str, dict[str, Any]]] = [
        write("plant.sh", f"echo hi >> {place}/handrail/words.py\n"),
        ("run_command", {"command": "bash plant.sh"}),
        write("plain.sh", f"echo hi > {place.parent}/other/file.py\n"),
        ("run_command", {"command": "bash plain.sh"}),
    ]
    before = (ours / "handrail/words.py").read_bytes()
    found = run([str(python), "agent.py"], project, calls)
    assert [code for code, _, _ in found["told"]] == ["ok", "EXIT_NONZERO", "ok", "ok"], found["told"]
    assert (ours / "handrail/words.py").read_bytes() == before


def test_a_library_that_imports_in_a_thread_of_the_command_line_gets_nothing_from_the_workspace(tmp_path: Path) -> None:
    """There no code of Handrail is on the stack, and none of the user's either."""
    project = make_project(tmp_path)
    (project / "src").mkdir()
    mark = tmp_path / "mark"
    (project / "src/brotli.py").write_text(MARK.format(mark=str(mark)))
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries/late.py").write_text("def look():\n    import brotli\n")
    script = """
import sys, threading
from handrail.front.cli import root
def ask(words):
    from handrail.front.cli._common import loaded
    loaded({"workspace": "."})
    import late
    worker = threading.Thread(target=late.look)
    worker.start()
    worker.join()
    return 0
root.run = ask
from handrail.front.cli import main
main()
"""
    (tmp_path / "script.py").write_text(script)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    env["PYTHONPATH"] = os.pathsep.join([str(project / "src"), str(tmp_path / "libraries")])
    argv = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "No module named 'brotli'" in done.stderr, done.stderr
    assert not mark.exists()


def test_doctor_names_a_cache_that_shares_files_with_the_gate(tmp_path: Path) -> None:
    """The same check as for environments."""
    project = make_project(tmp_path)
    (tmp_path / "tool").mkdir()
    python = install(tmp_path / "tool")
    ours = next((tmp_path / "tool/.venv/lib").glob("python3*/site-packages"))
    stored = project / ".uv-cache/archive-v0/Zk3x"
    stored.mkdir(parents=True)
    subprocess.run(["cp", "-rl", str(ours / "handrail"), str(stored / "handrail")], check=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    argv = [str(python), "-m", "handrail", "doctor", "--json"]
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert checks["own code"]["state"] == "weaker"
