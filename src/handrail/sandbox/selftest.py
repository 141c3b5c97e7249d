"""The negative self-test: a program tries in the sandbox what must not work there, and one thing that must."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.sandbox.launching import Sandbox, SetupFailed
from handrail.sandbox.plan import PATH, Bounds, Plan
from handrail.sandbox.system import NEVER
from handrail.words import Exclusion, noun

if TYPE_CHECKING:
    from handrail.sandbox.backends import Offer

_SECONDS = 10.0
_MAX_AREA = 80  # of the 107 bytes of a socket's path
_PROGRAM = """
import _socket, ctypes, os, sys
outside, work, port, runtime = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def tries(name, act):
    try:
        act()
    except Exception:
        return
    print(name, end=" ")
def connects(family, address):
    end = _socket.socket(family, _socket.SOCK_STREAM)
    end.settimeout(1)
    end.connect(address)
def spaces():
    if ctypes.CDLL(None).unshare(0x10000000) < 0:
        raise OSError
tries("read-outside", lambda: open(outside + "/secret").read())
tries("write-outside", lambda: open(outside + "/written", "w"))
tries("read-hidden", lambda: open(work + "/.netrc").read() or 1 / 0)
tries("write-locked", lambda: open(work + "/locked", "a"))
tries("tcp", lambda: connects(_socket.AF_INET, ("127.0.0.1", port)))
tries("unix-socket", lambda: connects(_socket.AF_UNIX, outside + "/socket"))
tries("signal", lambda: os.kill(runtime, 0))
tries("environment", lambda: open("/proc/%d/environ" % runtime).read())
tries("namespaces", spaces)
open(work + "/free/done", "w").close()
print("end")
"""


@noun
class Finding:
    """What came of trying one way to confine programs."""

    backend: str
    tier: str
    holds: bool
    said: str
    stage: str = ""
    errno: int = 0


def self_test(offer: Offer, sandbox: Sandbox) -> Finding:
    """Start a program that attacks, and see that it fails at all but its work."""
    place = Path(tempfile.mkdtemp(prefix="handrail-", dir=_area()))
    try:
        return _tested(offer, sandbox, place)
    except SetupFailed as failure:
        said = f"failed at {failure.stage}: {failure.message}"
        return Finding(offer.backend, offer.tier, False, said, failure.stage, failure.errno)
    except OSError as error:
        return Finding(offer.backend, offer.tier, False, f"failed: {error}", "self-test", error.errno or 0)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _area() -> str:
    """Where temporary files go, unless no program can have its root there or a socket's path would be too long."""
    usual = os.path.realpath(tempfile.gettempdir())
    fits = len(os.fsencode(usual)) <= _MAX_AREA and not f"{usual}/".startswith(tuple(f"{name}/" for name in NEVER))
    return usual if fits else "/tmp"  # noqa: S108


def _tested(offer: Offer, sandbox: Sandbox, place: Path) -> Finding:
    work = _scene(place.resolve())
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        unix.bind(str(place / "socket"))
        unix.listen()
        said, code = _ran(sandbox, work, str(place.resolve()), tcp.getsockname()[1])
    if not said.endswith("end\n") or code != 0 or not (work / "free/done").exists():
        return Finding(
            offer.backend, offer.tier, False, f"a harmless program failed in it ({said[-200:]!r})", "self-test"
        )
    # In a sandbox's own /tmp the write may seem to work: what counts is the real place.
    escaped = [name for name in said.split()[:-1] if name != "write-outside" or (place / "written").exists()]
    if escaped:
        return Finding(offer.backend, offer.tier, False, f"does not hold: {', '.join(escaped)}", "self-test")
    return Finding(offer.backend, offer.tier, True, "holds: the self-test's attacks failed")


def _scene(place: Path) -> Path:
    work = place / "work"
    (work / "free").mkdir(parents=True)
    for name in ("secret", "work/.netrc", "work/locked"):
        (place / name).write_text("secret")
    return work


def _ran(sandbox: Sandbox, work: Path, outside: str, port: int) -> tuple[str, int | None]:
    """Run the attacks; give what they said and the exit code."""
    plan = Plan(
        read=(),
        write=(str(work),),
        excluded=(Exclusion(".netrc", "self-test"),),
        locked=(Exclusion("locked", "self-test"),),
        bounds=Bounds(scratch_bytes=1024 * 1024),
    )
    python = os.path.realpath(sys.executable)
    argv = [python, "-I", "-S", "-c", _PROGRAM, outside, str(work), str(port), str(os.getpid())]
    reads, writes = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            child = sandbox.spawn(
                plan, argv, cwd=str(work), env={"PATH": PATH}, stdin=null, stdout=writes, stderr=writes
            )
        finally:
            os.close(writes)
        ended = child.wait_blocking(_SECONDS)
        if ended is None:
            child.kill()
            ended = child.wait_blocking(_SECONDS)
        said = os.read(reads, 65536).decode(errors="replace")
        return said, ended.exit_code if ended else None
    finally:
        os.close(reads)
        os.close(null)
