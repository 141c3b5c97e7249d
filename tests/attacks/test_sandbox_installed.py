"""What is installed from a wheel can confine programs: no file that the sandbox needs stays behind in the tree."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from attacks._sandbox_users import missing

TREE = Path(__file__).parents[2]
CHOOSES = """
import json
from pathlib import Path
import handrail
from handrail.errors import Problem
from handrail.sandbox.choose import choose
home = Path(handrail.__file__).parent
try:
    chosen = choose()
except Problem as problem:
    print(json.dumps([str(home), [], problem.message]))
else:
    print(json.dumps([str(home), [chosen.confined.tier, chosen.confined.backend], ""]))
    chosen.close()
"""


def chosen(where: Path) -> tuple[str, list[str], str]:
    """Choose with the package that lies in a folder: its home, tier and backend, what was wrong."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(where), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", CHOOSES], env=env, cwd="/", capture_output=True, text=True, check=True)
    home, held, wrong = json.loads(done.stdout)
    return home, held, wrong


def test_the_package_from_a_wheel_confines_as_the_tree_does(tmp_path: Path) -> None:
    """Built and installed without a network; the self-test starts real programs with what was installed."""
    if importlib.util.find_spec("hatchling") is None:
        missing("hatchling is not installed")
    _, here, why = chosen(TREE / "src")
    if not here:
        missing(why)
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    offline = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    for argv in (
        ["hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        ["pip", "install", *offline, "--target", str(site), "--find-links", str(wheels), "handrail"],
    ):
        done = subprocess.run([sys.executable, "-m", *argv], cwd=TREE, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert chosen(site) == (str(site / "handrail"), here, "")
    assert _files(site / "handrail") == _files(TREE / "src/handrail")


def _files(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if "__pycache__" not in path.parts}
