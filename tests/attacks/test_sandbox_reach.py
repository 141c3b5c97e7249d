"""Services behind sockets, an interpreter's prefix and shared memory: out of reach, as root and as an ordinary user."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from attacks._sandbox_users import USERS, folder, missing, run

REACH = Path(__file__).with_name("_sandbox_reach.py")
STRONG = ("A", "bwrap")
ENDPOINTS = ("named.sock", "other.sock", "named.fifo")


def attempt(name: str, backend: str, user: str) -> Any:
    """Make one attempt in a sandbox as a user."""
    if backend == "bwrap" and shutil.which("bwrap") is None:
        missing("bubblewrap is not installed")
    with folder(user) as place:
        done = run(user, REACH, name, backend, str(place))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if "failed" in found:
        missing(found["failed"])
    return found


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", STRONG)
def test_services_behind_sockets_and_fifos_are_not_reached_unless_they_are_named(backend: str, user: str) -> None:
    """In roots for writing and for reading alike; the setting lets exactly the named ones through."""
    found = attempt("endpoints", backend, user)
    assert found["hidden"] == [f"failed {name}" for name in ENDPOINTS] * 2
    assert found["heard"] == []
    named = ["reached named.sock", "failed other.sock"]
    assert found["shown"][:5] == [*named, "reached named.fifo", *named]  # Landlock may deny writing in the last one


@pytest.mark.parametrize("user", USERS)
def test_tier_b_reaches_no_service_at_all(user: str) -> None:
    """It has no local sockets, and Landlock gives no right to a hidden FIFO."""
    found = attempt("endpoints", "B", user)
    assert (found["hidden"], found["heard"]) == ([f"failed {name}" for name in ENDPOINTS] * 2, [])


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", [*STRONG, "B"])
def test_of_the_interpreters_prefix_only_its_own_parts_are_shown(backend: str, user: str) -> None:
    """Neither what lies beside them, nor key material, Handrail's own files and services inside them.

    A setting that names a service lets that one through, and no key that its pattern happens to fit.
    """
    shown = ["bin/python3", "lib/pythonX/os.py", "lib/libpython3.so"]
    assert attempt("prefix", backend, user) == {"said": shown, "again": [*shown, "reached"]}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("how", ["mapped", "unmapped", "closed", "together"])
@pytest.mark.parametrize("backend", [*STRONG, "B"])
def test_too_much_shared_memory_ends_the_program(backend: str, how: str, user: str) -> None:
    """Mapped, in a file without a name, in a process that hides its descriptors, or spread over several."""
    assert attempt(how, backend, user) == {"said": [], "signal": "SIGKILL"}


@pytest.mark.parametrize("backend", STRONG)
def test_memory_that_processes_share_counts_once(backend: str) -> None:
    """Four processes with the same 90 MiB stay below 160 MiB."""
    found = attempt("shared", backend, "this user")
    assert found == {"said": ["lived"] * len(found["said"]), "signal": None}
    assert found["said"]
