"""Nothing of a program is left: not after its time is up, nor after its own end, nor when the runtime is killed."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from attacks._sandbox_users import SOURCE, USERS, command, folder, missing
from handrail.sandbox.backends import OFFERED, UNCONFINED, Offer
from handrail.sandbox.launching import Child, Sandbox, SetupFailed
from handrail.sandbox.plan import PATH, Bounds, Plan

OFFERS = {"A": OFFERED[0], "bwrap": OFFERED[1], "B": OFFERED[2], "none": UNCONFINED}
SECONDS = 3.0
HEAD = "import os, signal, sys, time\nopen(sys.argv[1] + '/free/up', 'w').close()\n"
STUBBORN = {
    "ignores every signal": "for n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
    "    except OSError: pass\ntime.sleep(60)",
    "forks twice and leaves the session": "if os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
    "    signal.signal(15, signal.SIG_IGN)\n    time.sleep(60)\ntime.sleep(60)",
    "leaves a tree of sleepers": "for _ in range(5):\n    if os.fork() == 0:\n        os.fork(); os.setsid()\n"
    "        time.sleep(60)\ntime.sleep(60)",
    "forks all the time": "signal.signal(15, signal.SIG_IGN)\nif os.fork(): time.sleep(60)\n"
    "end = time.time() + 30\nwhile time.time() < end:\n"
    "    if os.fork(): os._exit(0)\n",
    "spreads and forks all the time": "signal.signal(15, signal.SIG_IGN)\nsignal.signal(17, signal.SIG_IGN)\n"
    "if os.fork(): time.sleep(60)\nfor _ in range(3): os.fork()\nend = time.time() + 30\nwhile time.time() < end:\n"
    "    try:\n        if os.fork(): os._exit(0)\n    except OSError: pass\n",
    "holds the pipe open": "signal.signal(15, signal.SIG_IGN)\nif os.fork() == 0:\n    os.setsid()\n"
    "    os.dup2(1, 9)\n    os.closerange(0, 3)\n    time.sleep(60)\nos.closerange(0, 3)\ntime.sleep(60)",
}  # fmt: skip
LEAVES_OTHERS = (
    "for _ in range(3):\n    if os.fork() == 0:\n        os.setsid(); os.fork(); time.sleep(60)\n"
    "time.sleep(0.05)\nos._exit(7)"
)
RUNTIME = """
import json, os, sys, time
from handrail.sandbox.backends import OFFERED, UNCONFINED
from handrail.sandbox.plan import PATH, Bounds, Plan
offer, room, codes, mark = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
sandbox = {"A": OFFERED[0], "bwrap": OFFERED[1], "B": OFFERED[2], "none": UNCONFINED}[offer].make()
null = os.open("/dev/null", os.O_RDWR)
for number, code in enumerate(codes):
    work = f"{room}/{number}"
    os.makedirs(work + "/free")
    sandbox.spawn(
        Plan(read=(), write=(work,), bounds=Bounds(processes=40)),
        [os.path.realpath(sys.executable), "-I", "-S", "-c", code, work, mark],
        cwd=work, env={"PATH": PATH}, stdin=null, stdout=null, stderr=null,
    )
print("started", flush=True)
time.sleep(60)
"""


@pytest.fixture(params=["A", "bwrap", "B"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Every way to confine programs."""
    offer: Offer = OFFERS[request.param]
    made = offer.make()
    yield made
    made.close()


@pytest.fixture
def mark() -> str:
    """What the programs of a test carry on their command lines."""
    return f"mark-{secrets.token_hex(8)}"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A writable root."""
    (tmp_path / "free").mkdir()
    return tmp_path


def living(mark: str) -> list[int]:
    """Processes that carry a mark; what has ended and waits to be collected has no command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def gone(mark: str, within: float = SECONDS) -> bool:
    """Whether nothing with a mark is left before the time is up."""
    end = time.monotonic() + within
    while living(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def until_up(room: Path) -> None:
    """Wait for the program's first act."""
    end = time.monotonic() + 20
    while not (room / "free/up").exists():
        assert time.monotonic() < end, "the program did not start"
        time.sleep(0.005)


def start(sandbox: Sandbox, room: Path, code: str, mark: str, stdout: int | None = None) -> Child:
    """Start Python code in a sandbox and wait until it runs."""
    null = os.open(os.devnull, os.O_RDWR)
    argv = [os.path.realpath(sys.executable), "-I", "-S", "-c", HEAD + code, str(room), mark]
    plan = Plan(read=(), write=(str(room),), bounds=Bounds(processes=40))
    try:
        (room / "free/up").unlink(missing_ok=True)
        child = sandbox.spawn(
            plan, argv, cwd=str(room), env={"PATH": PATH}, stdin=null, stdout=stdout or null, stderr=null
        )
    except SetupFailed as failure:
        missing(str(failure))
        raise
    finally:
        os.close(null)
    until_up(room)
    return child


@pytest.mark.parametrize("how", STUBBORN)
async def test_a_stubborn_program_is_gone_soon_after_its_end_was_ordered(
    sandbox: Sandbox, room: Path, mark: str, how: str, scale: int
) -> None:
    """Twenty times each in tier A: gone when `end` is back, and that within three seconds; its output has ended."""
    native = (sandbox.confined.tier, sandbox.confined.backend) == ("A", "native")
    for _ in range(max(4 * scale, 20 if native else 0)):
        reads, writes = os.pipe()
        child = start(sandbox, room, STUBBORN[how], mark, stdout=writes)
        os.close(writes)
        assert child.wait_blocking(0.02) is None  # it is the order that ends it
        began = time.monotonic()
        ended = await child.end(grace_seconds=0.05)
        assert time.monotonic() - began < SECONDS
        assert living(mark) == []
        assert ended.exit_code is None or ended.exit_code >= 0
        os.set_blocking(reads, False)
        assert os.read(reads, 10) == b""  # nobody is left who could write
        os.close(reads)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", OFFERS)
def test_nothing_survives_the_runtime(backend: str, user: str, mark: str, scale: int) -> None:
    """Killed with -9 while twenty stubborn programs run: all twenty are gone within three seconds."""
    # Without a sandbox nothing would bound what spreads.
    chosen = [code for how, code in STUBBORN.items() if backend != "none" or not how.startswith("spreads")]
    codes = [HEAD + code for code in islice(cycle(chosen), 20)]
    for _ in range(scale):
        with folder(user) as place:
            argv = [*command(user), "-c", RUNTIME, backend, str(place), json.dumps(codes), mark]
            env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
            with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, cwd="/") as runtime:
                assert runtime.stdout is not None
                assert runtime.stdout.readline() == b"started\n"
                for number in range(len(codes)):
                    until_up(place / str(number))
                assert living(mark)
                runtime.send_signal(signal.SIGKILL)
            assert gone(mark)


async def test_what_a_program_leaves_behind_ends_with_it(sandbox: Sandbox, room: Path, mark: str) -> None:
    """A normal end is told with its code, and nothing is left when it is told."""
    child = start(sandbox, room, LEAVES_OTHERS, mark)
    ended = await child.wait()
    assert (ended.exit_code, ended.signal) == (7, None)
    assert living(mark) == []


async def test_a_pipe_held_open_by_a_leftover_is_closed(sandbox: Sandbox, room: Path, mark: str) -> None:
    """Whoever reads the output to its end does not wait for a process in the background."""
    reads, writes = os.pipe()
    child = start(sandbox, room, LEAVES_OTHERS, mark, stdout=writes)
    os.close(writes)
    await child.wait()
    os.set_blocking(reads, False)
    assert os.read(reads, 10) == b""
    os.close(reads)


async def test_several_may_wait_and_one_may_give_up(sandbox: Sandbox, room: Path, mark: str) -> None:
    """Cancelling one who waits disturbs nobody else."""
    child = start(sandbox, room, "time.sleep(0.3)", mark)
    waiting = [asyncio.create_task(child.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1] == results[2] == await child.wait()


async def test_a_signal_reaches_the_program_and_its_death_is_named(sandbox: Sandbox, room: Path, mark: str) -> None:
    """SIGTERM ends a program that does nothing about it."""
    child = start(sandbox, room, "time.sleep(60)", mark)
    child.send(signal.SIGTERM)
    ended = await asyncio.wait_for(child.wait(), SECONDS)
    by_code = sandbox.confined.backend == "bwrap"  # which has no other way to tell
    assert (ended.exit_code, ended.signal) == ((143, None) if by_code else (None, "SIGTERM"))
    child.send(signal.SIGTERM)  # nobody is there any more, and nothing happens


async def test_closing_the_sandbox_ends_its_programs(sandbox: Sandbox, room: Path, mark: str) -> None:
    """And whoever waits for them is told."""
    child = start(sandbox, room, STUBBORN["ignores every signal"], mark)
    sandbox.close()
    ended = await asyncio.wait_for(child.wait(), SECONDS)
    assert gone(mark)
    assert ended.exit_code is None


async def test_a_killed_fork_server_takes_its_programs_along_and_is_replaced(
    sandbox: Sandbox, room: Path, mark: str
) -> None:
    """The next program starts in a new one."""
    child = start(sandbox, room, STUBBORN["ignores every signal"], mark)
    os.kill(sandbox._server._pid, signal.SIGKILL)  # type: ignore[attr-defined]
    await asyncio.wait_for(child.wait(), SECONDS)
    assert gone(mark)
    again = start(sandbox, room, "os._exit(3)", mark)
    assert (await again.wait()).exit_code == 3


def test_the_runtime_never_becomes_a_reaper_of_others(sandbox: Sandbox, room: Path, mark: str) -> None:
    """The embedding process is no subreaper, and its only child is the fork server."""
    import ctypes

    child = start(sandbox, room, "time.sleep(0.1)", mark)
    flag = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0) == 0
    assert flag.value == 0
    assert child.wait_blocking(10) is not None
