"""Runs test programs as this user and, where this is root, as an ordinary one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

import handrail

ORDINARY = 54321
SOURCE = Path(handrail.__file__).parent.parent
USERS = ("this user", "an ordinary user")
_PRIVATE = ("unshare", "--mount", "--propagation", "private", "--")
_PLANT = (
    'mount --bind "$0" /etc/shadow && grep -q "$1" /etc/shadow && mount -t tmpfs tmpfs /run && : > "/run/$1" && '
    'shift && exec "$@"'
)


def missing(why: str) -> None:
    """Skip for want of something, but fail where everything must be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def command(user: str) -> list[str]:
    """How to run Python as a user; the ordinary one may not reach this interpreter."""
    if user == "this user":
        return [sys.executable]
    if os.geteuid() != 0:
        pytest.skip("this user is an ordinary one already")
    if shutil.which("setpriv") is None:
        missing("setpriv is not installed")
    found = _interpreter()
    if found is None:
        missing("an ordinary user can reach no Python of version 3.11 or later")
    assert found is not None
    return [*_as_ordinary(), found]


@contextmanager
def folder(user: str) -> Iterator[Path]:
    """A folder that belongs to a user and that others may look into."""
    place = Path(tempfile.mkdtemp(prefix="handrail-test-")).resolve()
    try:
        place.chmod(0o755)
        if user != "this user":
            os.chown(place, ORDINARY, ORDINARY)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(user: str, program: Path | str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a Python file or code as a user, with the package under test and a bare environment."""
    return _run([*command(user), *_how(program), *arguments], env)


def run_planted(
    user: str, secret: str, place: Path, program: Path, *arguments: str, **env: str
) -> subprocess.CompletedProcess[str]:
    """The same where a secret stands in the machine's passwords, for everybody to read, and is a name in `/run`.

    Only root can plant it, in mounts of its own that go with the program; others run it as things are.
    """
    argv = [*command(user), *_how(program), *arguments]
    if not _has_mounts_of_its_own():
        return _run(argv, env)
    stand_in = place / "shadow"
    stand_in.write_text(f"root:{secret}:20000:0:99999:7:::\n")
    stand_in.chmod(0o644)
    return _run([*_PRIVATE, "sh", "-c", _PLANT, str(stand_in), secret, *argv], env)


@cache
def _has_mounts_of_its_own() -> bool:
    if os.geteuid() != 0:
        return False
    able = shutil.which("unshare") is not None and subprocess.run([*_PRIVATE, "true"], check=False).returncode == 0
    if not able and os.environ.get("CI") == "true":
        pytest.fail("root cannot make mounts of its own here")
    return able


def _how(program: Path | str) -> list[str]:
    return [str(program)] if isinstance(program, Path) else ["-c", program]


def _run(argv: list[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    surroundings = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run(argv, env=surroundings, capture_output=True, text=True, timeout=120, check=False, cwd="/")


def _as_ordinary() -> list[str]:
    ids = ["--reuid", str(ORDINARY), "--regid", str(ORDINARY), "--clear-groups"]
    return ["setpriv", *ids, "--inh-caps=-all", "--bounding-set=-all"]


@cache
def _interpreter() -> str | None:
    # `setpriv` can execute what the user it becomes cannot.
    test = "import os, sys, handrail.words; sys.exit(sys.version_info < (3, 11) or not os.access(sys.executable, 1))"
    for found in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        argv = [*_as_ordinary(), found, "-c", test]
        env = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
        if os.path.exists(found) and subprocess.run(argv, env=env, capture_output=True, check=False).returncode == 0:
            return found
    return None
