"""Runs every probe where nothing confines it, as whoever runs this, and tells which of them got somewhere, as JSON.

It happens in a throw-away world, so that nothing is harmed: namespaces of its own in which this user is root, with
stand-ins for `/etc`, the homes and the devices. `python _sandbox_control.py <folder> <secret>`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import pty
import shutil
import signal
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from attacks._sandbox_probes import BATCH, BOUNDS, FILES, NETWORK, PRELUDE
from attacks._sandbox_scene import Scene, judge, state

NAMESPACES = 0x10000000 | 0x20000 | 0x20000000 | 0x40000000 | 0x4000000 | 0x8000000  # user, mount, pid, net, uts, ipc
BIND, RECURSIVE, PRIVATE = 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)

# What cannot succeed where nothing is harmed, and so is not shown to: what it ends with there, and why. That it comes
# to the kernel's own answer shows that the attempt is well-formed; a slip would end with another error.
EPERM, ENOENT, EACCES, ENOTBLK, EINVAL, ENOTTY, ENOSYS, EAFNOSUPPORT = 1, 2, 13, 15, 22, 25, 38, 97
UNSHOWN: dict[str, tuple[tuple[int, ...], str]] = {
    "device-node": ((EPERM,), "only the machine's own root makes one"),
    "pivot-root": ((EINVAL,), "the place is none to go to, which is looked at after the leave"),
    "load-a-module": ((EPERM, ENOSYS), "would change the machine"),
    "load-a-kernel": ((EPERM, ENOSYS), "would change the machine"),
    "reboot": ((EPERM, EINVAL), "would end the machine"),
    "swap": ((EPERM,), "would change the machine"),
    "accounting": ((EPERM, ENOSYS), "would change the machine"),
    "quota": ((EPERM, ENOENT, ENOTBLK, ENOSYS), "needs a disk with quotas"),
    "kernel-log": ((EPERM, ENOSYS), "only the machine's own root reads it"),
    "bpf": ((EPERM, ENOSYS), "only the machine's own root may"),
    "performance-counters": ((EPERM, EACCES, ENOENT, ENOSYS), "a setting of the machine may keep them to its root"),
    "fault-handling": ((EPERM, ENOSYS), "a setting of the machine may keep it to its root"),
    "io-uring": ((EPERM, ENOSYS), "a setting of the machine may turn it off"),
    "set-the-clock": ((EPERM,), "would change the machine"),
    "core-pattern": ((EPERM, EACCES), "belongs to the machine's own root"),
    "system-setting": ((EPERM, EACCES), "belongs to the machine's own root"),
    "sysrq": ((EPERM, ENOENT, EACCES), "belongs to the machine's own root"),
    "user-mapping": ((EPERM,), "a mapping is written once"),
    "calls-of-x32": ((ENOSYS,), "few kernels have them"),
    "type-into-the-terminal": ((EPERM,), "a setting of the machine turns it off"),
    "paste-into-the-terminal": ((ENOTTY, EPERM, EINVAL), "needs a console"),
    "vsock": ((EAFNOSUPPORT,), "a part of the kernel that may be missing"),
    "packet-socket": ((EAFNOSUPPORT,), "a part of the kernel that may be missing"),
    "audit-socket": ((93, EPERM), "a part of the kernel that may be missing"),
    "netfilter-socket": ((93,), "a part of the kernel that may be missing"),
    "kernel-crypto-socket": ((EAFNOSUPPORT,), "a part of the kernel that may be missing"),
    "bluetooth-socket": ((EAFNOSUPPORT, 93), "a part of the kernel that may be missing"),
    "new-time-namespace": ((EINVAL,), "a part of the kernel that may be missing"),
    "read-the-keyring": ((ENOSYS,), "a part of the kernel that may be missing"),
    "add-a-key": ((ENOSYS,), "a part of the kernel that may be missing"),
    "request-a-key": ((ENOSYS,), "a part of the kernel that may be missing"),
}
# The same, where Python answers before the kernel or the attempt says nothing.
UNSHOWN_SAYING = {
    "raise-one's-own-limits": ("! ValueError not allowed to raise maximum limit\n", "only the machine's own root may"),
    "gain-by-a-setuid-program": ("", "who is root already gains nothing"),
}


def throw_away(secret: str) -> None:
    """Go on as root of a world of its own; what was there is covered, never changed."""
    ids = os.getuid(), os.getgid()
    _checked(libc.unshare(NAMESPACES), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    for name, number in zip(("uid_map", "gid_map"), ids, strict=True):
        Path(f"/proc/self/{name}").write_text(f"0 {number} 1")
    for _ in range(2):  # the first is the world's init, which waits; the second goes on
        if child := os.fork():
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    _mount(None, "/", None, PRIVATE | RECURSIVE)
    _mount("proc", "/proc", "proc")
    _devices()
    shutil.copy2("/usr/bin/env", "/dev/env")
    _mount("/dev/env", "/usr/bin/env", None, BIND)
    for covered, name in (("/etc", "shadow"), ("/home", "notes"), ("/run", secret), ("/usr/share", "x")):
        _mount("tmpfs", covered, "tmpfs")
        Path(covered, name).write_text(f"a stand-in with a {secret}")
    with socket.socket() as end:
        fcntl.ioctl(end, 0x8914, struct.pack("16sh22x", b"lo", 0x41))


def _devices() -> None:
    """Cover `/dev` by plain files with the names of devices, and the few devices that all programs need."""
    place = "/run"
    _mount("tmpfs", place, "tmpfs")
    for name in ("mem", "kmsg", "vda", "null", "urandom"):
        Path(place, name).touch()
    for name in ("null", "urandom"):
        _mount(f"/dev/{name}", f"{place}/{name}", None, BIND)
    Path(place, "shm").mkdir()
    _mount(place, "/dev", None, BIND | RECURSIVE)


def _mount(source: str | None, target: str, kind: str | None, flags: int = 0) -> None:
    words = [word if word is None else word.encode() for word in (source, target, kind)]
    _checked(libc.mount(*words, flags, None), f"mount {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


class Attempt:
    """One probe, in a child of this process that nothing confines."""

    def __init__(self, code: str, facts: dict[str, Any], terminal: int) -> None:
        self._reads, writes = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._run(code, facts, terminal, writes)
        os.close(writes)

    def _run(self, code: str, facts: dict[str, Any], terminal: int, writes: int) -> None:
        os.setsid()
        libc.unshare(0x20000)  # what it mounts goes with it
        os.dup2(terminal, 0)
        for number in (1, 2):
            os.dup2(writes, number)
        os.close(writes)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        signal.alarm(30)
        os.environ["TMPDIR"] = "/dev/shm"
        sys.argv = ["", json.dumps(facts)]
        try:
            exec(PRELUDE + code, {})
        except BaseException as error:
            print("!", type(error).__name__, error, flush=True)
        sys.stdout.flush()
        os._exit(0)

    def said(self) -> str:
        """All that it printed, once it is over; whatever it left behind is ended."""
        said = b""
        while len(said) < 1 << 18 and (piece := os.read(self._reads, 1 << 16)):
            said += piece
        os.close(self._reads)
        os.waitpid(self._pid, 0)
        with contextlib.suppress(OSError):
            os.killpg(self._pid, signal.SIGKILL)
        return said.decode(errors="replace")


def everybody(scene: Scene, terminal: int) -> dict[str, str]:
    """Signal everybody, in a world where that is one process; its end is told by the innermost world's init."""
    reads, writes = os.pipe()
    if (child := os.fork()) == 0:
        _checked(libc.unshare(0x20000000), "unshare")
        if os.fork() == 0:
            victim = os.fork()
            if victim == 0:
                signal.pause()
            said = Attempt(BOUNDS["signal-everybody"][1], scene.facts(), terminal).said()
            ended = os.waitpid(victim, 0)[1] == signal.SIGKILL
            os.write(writes, json.dumps([ended, said]).encode())
        else:
            os.wait()
        os._exit(0)
    os.waitpid(child, 0)
    ended, said = json.loads(os.read(reads, 1 << 16))
    if ended:
        scene.victims["signal-everybody"].kill()
    return {"signal-everybody": said}


def main(place: Path, secret: str) -> None:
    """Run the probes and print what came of each."""
    for name in ("resource", "mmap", "subprocess", "signal", "shutil"):  # nothing is imported once the world is covered
        importlib.import_module(name)
    _, terminal = pty.openpty()
    try:
        throw_away(secret)
    except OSError as error:
        print(json.dumps({"failed": f"there is no throw-away world here: {error}"}))
        return
    scene = Scene(place, secret, "none", usr="/usr/share")
    found: dict[str, bool] = {}
    said: dict[str, str] = {}
    try:
        facts, watched = scene.facts() | {"uid": 1}, scene.watched()  # who is root here was somebody else before
        bounds = {name: row for name, row in BOUNDS.items() if name != "signal-everybody"}
        running = {name: Attempt(code, facts, terminal) for name, (_, code) in bounds.items()}
        over = threading.Event()
        watching = threading.Thread(target=scene.watch.until, args=(over.is_set,), daemon=True)
        watching.start()
        for name, (how, code) in BATCH.items():
            if name in FILES:
                scene.restore()
            before = {name: [state(path) for path in watched.get(name, ())]}
            said[name] = Attempt(code, facts, terminal).said()
            if name in NETWORK and how == "heard":
                scene.ears.wait(name)
            found |= judge(scene, {name: said[name]}, before)
        scene.restore()
        last = {name: attempt.said() for name, attempt in running.items()}
        over.set()
        watching.join()
        last = {name: text + scene.watch.told().get(name, "") for name, text in last.items()}
        last |= everybody(scene, terminal)
        found |= judge(scene, last, {})
        said |= last
    finally:
        scene.close()
        os.kill(1, signal.SIGCONT)  # one of them stopped it
    print(json.dumps({"found": found, "said": {name: text[-300:] for name, text in said.items()}}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
