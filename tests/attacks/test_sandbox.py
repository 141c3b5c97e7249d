"""What programs try in a sandbox gets nowhere, as root and as an ordinary user, by every backend.

Each attempt is judged from outside: whether a secret came out, a file changed, a listener heard something, a process
is gone. What a backend does not hold is listed here, and nothing else may get through.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from pathlib import Path

import pytest

from attacks._sandbox_control import UNSHOWN, UNSHOWN_SAYING
from attacks._sandbox_probes import PROBES
from attacks._sandbox_users import USERS, folder, missing, run, run_planted
from attacks.conftest import Once
from handrail.sandbox import landlock
from handrail.sandbox.backends import OFFERED

# What is known to get through elsewhere, each told as a gap by the backend itself.
_SUPERVISED = {
    "list-hidden-folder", "chmod-outside", "utime-outside", "xattr-outside", "chmod-read-root", "chmod-a-hook",
    "see-the-runtime", "slow-another-process", "too-much-scratch",
}  # fmt: skip
GAPS: dict[tuple[str, bool], set[str]] = {
    ("bwrap", True): {"too-many-processes"},
    # Measured four times a second: where the machine is busy, too much is held for longer than the probe allows.
    ("B", False): _SUPERVISED | {"too-much-memory-together"},
    ("B", True): _SUPERVISED | {"too-many-processes", "chmod-system"},
}
# By attempt: the words of the gap that tells of it.
_ATTRIBUTES = (
    "permissions, times and attributes of files that the program's user owns can be changed, outside and locked"
)
TOLD = {
    "list-hidden-folder": "names in hidden folders be listed",
    **dict.fromkeys(
        ("chmod-outside", "utime-outside", "xattr-outside", "chmod-read-root", "chmod-a-hook"), _ATTRIBUTES
    ),
    "see-the-runtime": "whether a process exists",
    "slow-another-process": "can slow one of the same user down",
    "too-much-scratch": "scratch folders are measured four times a second",
    "too-much-memory-together": "memory of all processes together is measured four times a second",
    "too-many-processes": "process limits do not hold",
    "chmod-system": "root's files are their own",
}
# Where Landlock does not hold signals back, this one would reach everybody, so it is not tried.
UNTRIED = {"B": {"signal-everybody"} if landlock.abi() < 6 else set()}
SCENE = Path(__file__).with_name("_sandbox_scene.py")
CONTROL = Path(__file__).with_name("_sandbox_control.py")
BACKENDS = ("A", "bwrap", "B")


def _ran(backend: str, user: str) -> tuple[int, str, str]:
    secret = f"secret-{secrets.token_hex(12)}"
    with folder(user) as place:
        if backend == "none":
            done = run(user, CONTROL, str(place), secret, PROBE_SECRET=secret)
        else:
            done = run_planted(user, secret, place, SCENE, backend, str(place), secret, PROBE_SECRET=secret)
    return done.returncode, done.stdout, done.stderr


def outcome(once: Once, backend: str, user: str) -> tuple[dict[str, bool], dict[str, str]]:
    """Run every probe once in a backend as a user."""
    if backend == "bwrap" and shutil.which("bwrap") is None:
        missing("bubblewrap is not installed")
    code, printed, errors = once(f"probes {backend} {user}", lambda: _ran(backend, user))
    assert code == 0, errors
    told = json.loads(printed)
    if "failed" in told:
        missing(told["failed"])
    return told["found"], told["said"]


# Side by side those that one run of all probes answers: tests in several processes then wait for few of them.
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_attempt_gets_nowhere_unless_it_is_a_declared_gap(once: Once, probe: str, backend: str, user: str) -> None:
    """Tier A holds all of them; the others hold all but what they declare."""
    found, said = outcome(once, backend, user)
    root = user == "this user" and os.geteuid() == 0
    if probe in UNTRIED.get(backend, ()):
        assert probe not in found
    elif found[probe]:
        assert probe in GAPS.get((backend, root), set()), said[probe]


@pytest.mark.parametrize(("backend", "root"), GAPS)
def test_what_a_backend_is_excused_from_it_tells_itself(
    backend: str, root: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt that may get somewhere has a gap of the backend that says so."""
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    gaps = dict(zip(BACKENDS, OFFERED, strict=True))[backend].confined().gaps
    assert [probe for probe in sorted(GAPS[backend, root]) if not any(TOLD[probe] in gap for gap in gaps)] == []


@pytest.mark.parametrize("user", USERS)
def test_what_succeeds_in_tier_a_is_what_readers_are_told(once: Once, user: str) -> None:
    """All that gets somewhere stands in the list by design, and all that stands there gets somewhere."""
    found, said = outcome(once, "A", user)
    told = Path(__file__).parents[2].joinpath("SECURITY.md").read_text()
    table = told.split("## What programs may do in tier A, by design\n", 1)[1].split("\n## ", 1)[0]
    listed = [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:]
    assert sorted(name for name in found if found[name]) == sorted(listed), said


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("user", USERS)
def test_an_attempt_succeeds_where_nothing_confines(once: Once, probe: str, user: str) -> None:
    """Negative control: the same code, the same judges, no sandbox; the few that cannot come to the kernel's answer."""
    found, said = outcome(once, "none", user)
    if found[probe]:
        return
    if probe in UNSHOWN_SAYING:
        assert said[probe] == UNSHOWN_SAYING[probe][0]
        return
    assert probe in UNSHOWN, said[probe]
    answered = re.fullmatch(r"! \w+ \[Errno (\d+)\] .*\n", said[probe])
    assert answered is not None, said[probe]
    assert int(answered[1]) in UNSHOWN[probe][0], said[probe]


def test_most_attempts_can_be_judged_and_are_shown_to_succeed(once: Once) -> None:
    """What is excused from the control is a small part, and each of it is an attempt of the table."""
    found, _ = outcome(once, "none", "this user")
    assert set(UNSHOWN) | set(UNSHOWN_SAYING) <= set(PROBES)
    assert found.keys() == PROBES.keys()
    assert sum(found.values()) >= 130


def test_there_are_attempts_enough() -> None:
    """A table that was cut short would pass every test above."""
    assert len(PROBES) >= 160
