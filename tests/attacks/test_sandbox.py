"""What programs try in a sandbox gets nowhere, as root and as an ordinary user, by every backend.

Each attempt is judged from outside: whether a secret came out, a file changed, a listener heard something, a process
is gone. What a backend does not hold is listed here, and nothing else may get through.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from functools import cache
from pathlib import Path

import pytest

from attacks._sandbox_probes import PROBES
from attacks._sandbox_scene import CONTROL
from attacks._sandbox_users import USERS, folder, missing, run

# What tier A lets programs do on purpose, in words for SECURITY.md.
BY_DESIGN = {
    "see the system's programs": "everything below /usr, /opt and the like that the runtime's user can read",
    "make a repository of their own": "with hooks and config of its own; existing ones cannot be changed or replaced",
    "add what was not there": "a file of a protected name where there was none, such as a new handrail.toml, which "
    "counts only once a person trusts it",
    "change what is not protected": "every other file of a writable root, also those that build tools run later",
    "read the layout": "the path of each root and of the runtime's interpreter is known inside",
    "use a processor": "all cores for as long as the limits say",
    "talk among themselves": "sockets, signals and shared memory between programs of one sandbox work",
}
# What is known to get through elsewhere, each told as a gap by the backend itself.
_SUPERVISED = {
    "list-hidden-folder", "chmod-outside", "utime-outside", "xattr-outside", "chmod-read-root", "chmod-a-hook",
    "see-the-runtime", "slow-another-process", "too-much-scratch",
    "too-much-memory-together",
}  # fmt: skip
GAPS: dict[tuple[str, bool], set[str]] = {
    ("bwrap", False): {"too-much-memory-together"},
    ("bwrap", True): {"too-much-memory-together", "too-many-processes"},
    ("B", False): _SUPERVISED,
    ("B", True): _SUPERVISED | {"too-many-processes", "chmod-system"},
}
SCENE = Path(__file__).with_name("_sandbox_scene.py")
BACKENDS = ("A", "bwrap", "B")


@cache
def _ran(backend: str, user: str) -> tuple[int, str, str]:
    secret = f"secret-{secrets.token_hex(12)}"
    with folder(user) as place:
        done = run(user, SCENE, backend, str(place), secret, PROBE_SECRET=secret)
    return done.returncode, done.stdout, done.stderr


def outcome(backend: str, user: str) -> tuple[dict[str, bool], dict[str, str]]:
    """Run every probe once in a backend as a user."""
    if backend == "bwrap" and shutil.which("bwrap") is None:
        missing("bubblewrap is not installed")
    code, printed, errors = _ran(backend, user)
    assert code == 0, errors
    told = json.loads(printed)
    if "failed" in told:
        missing(told["failed"])
    return told["found"], told["said"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("probe", PROBES)
def test_an_attempt_gets_nowhere_unless_it_is_a_declared_gap(probe: str, backend: str, user: str) -> None:
    """Tier A holds all of them; the others hold all but what they declare."""
    found, said = outcome(backend, user)
    root = user == "this user" and os.geteuid() == 0
    if found.get(probe):
        assert probe in GAPS.get((backend, root), set()), said[probe]


@pytest.mark.parametrize("user", USERS)
def test_the_attempts_succeed_where_nothing_confines(user: str) -> None:
    """Negative control: the same code, the same judges, no sandbox."""
    found, said = outcome("none", user)
    assert found == dict.fromkeys(CONTROL, True), {name: said[name] for name in found if not found[name]}


def test_there_are_attempts_enough() -> None:
    """A table that was cut short would pass every test above."""
    assert len(PROBES) >= 160
