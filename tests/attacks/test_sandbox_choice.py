"""How programs are confined is found out by trying; what is missing leads to less or to a refusal, never to nothing.

What a machine lacks is played by a filter of system calls around the whole test program.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attacks._sandbox_users import USERS, missing, run
from handrail.errors import Code, Problem
from handrail.sandbox import landlock
from handrail.sandbox.backends import OFFERED, UNCONFINED, Offer
from handrail.sandbox.choose import choose, report
from handrail.sandbox.launching import Sandbox, SetupFailed
from handrail.sandbox.plan import PATH, Plan
from handrail.sandbox.selftest import self_test
from handrail.sandbox.unconfined import Unconfined

CHOOSES = """
import json, os, struct, sys
from handrail.errors import Problem
from handrail.sandbox.inside import calls
missing, how = json.loads(sys.argv[1]), json.loads(sys.argv[2])
numbers = {"x86_64": (56, 272), "aarch64": (220, 97)}[os.uname().machine]
steps = [(0x20, 0, 0, 0)]
if "namespaces" in missing:  # clone and unshare with a flag for a user namespace
    for number in numbers:
        steps += [(0x15, 0, 4, number), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000), (0x06, 0, 0, 0x50001)]
        steps += [(0x06, 0, 0, 0x7FFF0000)]
    steps += [(0x15, 0, 1, 435), (0x06, 0, 0, 0x50026)]
if "landlock" in missing:
    steps += [(0x15, 0, 1, 444), (0x06, 0, 0, 0x50026)]
if "seccomp" in missing:
    number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50026)]
steps += [(0x06, 0, 0, 0x7FFF0000)]
calls.prctl(calls.NO_NEW_PRIVS, 1)
calls.filter_calls(b"".join(struct.pack("=HBBI", *step) for step in steps))
from handrail.sandbox.choose import choose
try:
    confined = choose(**how).confined
    print(json.dumps([confined.tier, confined.backend, confined.gaps]))
except Problem as problem:
    print(json.dumps([problem.code, problem.message, problem.details.get("tried")]))
"""


def chosen(user: str, *missing: str, **how: Any) -> list[Any]:
    """Choose where something is missing."""
    done = run(user, CHOOSES, json.dumps(missing), json.dumps(how))
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    ("missing", "how", "expected"),
    [
        ((), {}, ["A", "native"]),
        ((), {"min_tier": "A"}, ["A", "native"]),
        (("landlock",), {}, ["A", "native"]),
        (("namespaces",), {}, ["B", "native"]),
        (("namespaces",), {"backend": "native"}, ["B", "native"]),
    ],
)
def test_the_strongest_that_holds_is_chosen(
    missing: tuple[str, ...], how: dict[str, Any], expected: list[str], user: str
) -> None:
    """Namespaces without Landlock make tier A with a gap more; Landlock without namespaces makes tier B."""
    found = chosen(user, *missing, **how)
    assert found[:2] == expected, found
    assert any("no Landlock" in gap for gap in found[2]) is ("landlock" in missing)
    assert len(found[2]) >= (2 if missing else 1)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    ("missing", "how", "words"),
    [
        (("namespaces", "landlock"), {}, ["native A: failed at namespaces", "native B: failed at Landlock"]),
        (("namespaces",), {"min_tier": "A"}, ["native A: failed at namespaces", 'min_tier = "B"']),
        (("namespaces",), {"backend": "bwrap"}, ["bwrap A: failed at"]),
        (("seccomp",), {}, ["native A: failed at system call filter", "native B: failed at system call filter"]),
        ((), {"backend": "none"}, ["allow_unconfined"]),
    ],
)
def test_where_nothing_fits_programs_are_refused_and_told_why(
    missing: tuple[str, ...], how: dict[str, Any], words: list[str], user: str
) -> None:
    """The message names each stage and what to do."""
    code, message, tried = chosen(user, *missing, **how)
    assert code == Code.SANDBOX_UNAVAILABLE
    assert [word for word in words if word not in message] == []
    if missing:
        assert all(item["stage"] for item in tried)
        assert tried[0]["errno"] in (1, 38) or how == {"backend": "bwrap"}


def unshares() -> bool:
    """Whether this machine lets this user's programs make a user namespace."""
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"
    return subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False).returncode == 0


def test_a_sandbox_that_lets_programs_out_does_not_hold() -> None:
    """The self-test names all that got through: here, where nothing confines, every one of its attacks."""
    made = UNCONFINED.make()
    found = self_test(UNCONFINED, made)
    made.close()
    assert (found.holds, found.stage) == (False, "self-test")
    got_through = ["read-outside", "write-outside", "read-hidden", "write-locked", "tcp", "unix-socket", "signal"]
    got_through += ["environment", *(["namespaces"] if unshares() else [])]
    assert found.said == f"does not hold: {', '.join(got_through)}"


def test_a_leaky_sandbox_is_never_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever tier it claims; nor is it remembered as one that holds."""
    leaky = Offer("A", "native", Unconfined, tuple)
    monkeypatch.setattr("handrail.sandbox.choose.OFFERED", (leaky,))
    for _ in range(2):
        with pytest.raises(Problem) as caught:
            choose(cache_dir=tmp_path)
        assert caught.value.code == Code.SANDBOX_UNAVAILABLE
        assert caught.value.details["tried"] == [{"backend": "native", "tier": "A", "stage": "self-test", "errno": 0}]
        assert "native A: does not hold: read-outside, " in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_no_confinement_needs_two_settings() -> None:
    """And then it says that nothing is held."""
    sandbox = choose(backend="none", allow_unconfined=True)
    assert (sandbox.confined.tier, sandbox.confined.backend) == ("none", "none")
    assert sandbox.confined.gaps
    sandbox.close()


def test_what_was_found_is_remembered_for_this_boot_only(tmp_path: Path) -> None:
    """A memory of another boot, or one that is broken, counts for nothing."""
    first = choose(cache_dir=tmp_path)
    first.close()
    (place,) = tmp_path.iterdir()
    key = json.loads(place.read_bytes())
    began = time.perf_counter()
    choose(cache_dir=tmp_path).close()
    assert time.perf_counter() - began < 0.5
    for text in (json.dumps(["another boot", *key[1:]]), "{", "[]", "null"):
        place.write_text(text)
        again = choose(cache_dir=tmp_path)
        assert again.confined == first.confined
        again.close()
        assert json.loads(place.read_bytes()) == key


def test_the_report_names_tier_backend_probes_and_gaps() -> None:
    """What `doctor` prints."""
    names = [name for name, _, _ in report()]
    assert names[:5] == ["tier", "backend", "native A", "bwrap A", "native B"]
    assert "gap" in names
    assert "landlock" in names


@pytest.fixture
def sandbox() -> Any:
    """Tier A."""
    made = choose(backend="native", min_tier="A")
    yield made
    made.close()


def said(sandbox: Sandbox, plan: Plan, *argv: str, cwd: str = "", during: Any = None) -> tuple[int | None, str, Any]:
    """Run a program; give exit code, output and the child."""
    reads, writes = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        child = sandbox.spawn(
            plan, argv, cwd=cwd or plan.write[0], env={"PATH": PATH}, stdin=null, stdout=writes, stderr=writes
        )
    finally:
        os.close(writes)
        os.close(null)
    if during is not None:
        during(child)
    output = b""
    while piece := os.read(reads, 65536):
        output += piece
    os.close(reads)
    ended = child.wait_blocking(30)
    assert ended is not None
    return ended.exit_code, output.decode(), child


def test_changes_for_review_go_to_a_layer_and_are_gone_when_dropped(sandbox: Sandbox, tmp_path: Path) -> None:
    """The workspace itself stays as it was; the layer holds what was made, changed and removed."""
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("x")
    plan = Plan(read=(), write=(str(tmp_path),), review=True)
    code, output, child = said(sandbox, plan, "sh", "-c", "echo new > made; echo more >> old; rm gone; cat old")
    assert (code, output) == (0, "oldmore\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gone", "old"]
    assert (tmp_path / "old").read_text() == "old"
    upper = Path(child.upper[str(tmp_path)].path)
    assert sorted(os.listdir(upper)) == ["gone", "made", "old"]
    assert ((upper / "made").read_text(), (upper / "old").read_text()) == ("new\n", "oldmore\n")
    assert (upper / "gone").stat().st_rdev == 0  # a whiteout
    child.discard()
    assert child.upper is None
    assert not upper.exists()


def test_a_listener_inside_is_handed_out_and_is_the_only_way(sandbox: Sandbox, tmp_path: Path) -> None:
    """With hosts in the plan, the runtime answers at 127.0.0.1:3128 inside."""
    code = (
        "import socket; s = socket.create_connection(('127.0.0.1', 3128)); s.send(b'hello'); print(s.recv(9).decode())"
    )

    def answer(child: Any) -> None:
        assert isinstance(child.listener, socket.socket)
        child.listener.settimeout(20)
        end, _ = child.listener.accept()
        assert end.recv(9) == b"hello"
        end.send(b"welcome")
        end.close()
        child.listener.close()

    plan = Plan(read=(), write=(str(tmp_path),), hosts=("example.test",))
    python = os.path.realpath(sys.executable)
    assert said(sandbox, plan, python, "-c", code, during=answer)[:2] == (0, "welcome\n")


@pytest.mark.parametrize(
    ("argv", "cwd", "write", "stage", "errno"),
    [
        (["no-such-program"], "", "", "exec", 2),
        (["/no/such"], "", "", "exec", 2),
        (["true"], "/nowhere", "", "working folder", 2),
        (["true"], "/", "/", "plan", 0),
        (["true"], "/", "/proc/self", "plan", 0),
    ],
)
def test_a_start_that_fails_names_its_stage(
    sandbox: Sandbox, tmp_path: Path, argv: list[str], cwd: str, write: str, stage: str, errno: int
) -> None:
    """And leaves no descriptor open."""
    plan = Plan(read=(), write=(write or str(tmp_path),))
    said(sandbox, Plan(read=(), write=(str(tmp_path),)), "true")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SetupFailed) as caught:
        said(sandbox, plan, *argv, cwd=cwd or str(tmp_path))
    assert (caught.value.stage, caught.value.errno) == (stage, errno)
    assert caught.value.code == Code.SANDBOX_UNAVAILABLE
    assert isinstance(caught.value, Problem)
    leaked = len(os.listdir("/proc/self/fd")) - before
    assert leaked <= 2  # the pipe of this test itself


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    ("asked", "stage"), [({"hosts": ("example.test",)}, "network"), ({"review": True}, "layers for review")]
)
def test_tier_b_refuses_what_it_cannot_hold(tmp_path: Path, asked: dict[str, Any], stage: str) -> None:
    """Hosts and review need namespaces."""
    assert refused_at(OFFERED[2], Plan(read=(), write=(str(tmp_path),), **asked)) == stage


def test_bubblewrap_refuses_what_it_cannot_keep_apart(tmp_path: Path) -> None:
    """It has no layers for review, and does not run a program on the workspace itself instead."""
    if shutil.which("bwrap") is None:
        missing("bubblewrap is not installed")
    assert refused_at(OFFERED[1], Plan(read=(), write=(str(tmp_path),), review=True)) == "layers for review"


def refused_at(offer: Offer, plan: Plan) -> str:
    """See that a program is not run; gives the stage that is said to be the reason."""
    made = offer.make()
    try:
        with pytest.raises(SetupFailed) as caught:
            said(made, plan, "touch", "written")
    finally:
        made.close()
    assert caught.value.errno == 0
    assert os.listdir(plan.write[0]) == []
    return caught.value.stage
