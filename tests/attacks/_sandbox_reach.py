"""Runs programs that try to reach a service, a prefix or too much memory in one sandbox, and prints what they got.

A program of its own, so that another user can run it: `python _sandbox_reach.py <attempt> <backend> <folder>`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from handrail.sandbox import system
from handrail.sandbox.backends import OFFERED
from handrail.sandbox.launching import Ended, SetupFailed
from handrail.sandbox.plan import PATH, Bounds, Plan

MIB = 1 << 20
BACKENDS = {"A": OFFERED[0], "bwrap": OFFERED[1], "B": OFFERED[2]}
TALK = """
import os, socket, sys
for path in sys.argv[1:]:
    try:
        if path.endswith(".sock"):
            service = socket.socket(socket.AF_UNIX)
            service.connect(path)
            service.sendall(path.encode())
        else:
            os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), path.encode())
        print("reached", os.path.basename(path))
    except OSError as error:
        print("failed", os.path.basename(path))
"""
FILL = "\nimport time\nwhile True: time.sleep(1)"
MAPPED = "import mmap\nb = mmap.mmap(-1, 240 << 20)\nfor p in range(0, 240 << 20, 4096): b[p] = 1" + FILL
UNMAPPED = "import os\nf = os.memfd_create('x')\nfor _ in range(240): os.write(f, b'x' * (1 << 20))" + FILL
CLOSED = "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + UNMAPPED
TOGETHER = (
    "import mmap, os\nkept = []\nfor n in range(4):\n    if n == 3 or os.fork() == 0:\n"
    "        b = mmap.mmap(-1, 60 << 20)\n        for p in range(0, 60 << 20, 4096): b[p] = 1\n        break" + FILL
)
SHARED = """
import mmap, os, time
b = mmap.mmap(-1, 90 << 20)
for n in range(3):
    if os.fork() == 0:
        break
for p in range(0, 90 << 20, 4096): b[p] = 1
time.sleep(1.5)
print("lived", flush=True)
"""
MEMORY = {"mapped": MAPPED, "unmapped": UNMAPPED, "closed": CLOSED, "together": TOGETHER, "shared": SHARED}


class Sandboxed:
    """One sandbox with a work folder for writing and another for reading."""

    def __init__(self, backend: str, place: Path) -> None:
        self.sandbox = BACKENDS[backend].make()
        self.work = place / "work"
        self.read = place / "read"
        self.work.mkdir()
        self.read.mkdir()

    def run(self, argv: list[str], seconds: float = 30, **plan: object) -> tuple[str, Ended | None]:
        """Run a program to its end."""
        made = Plan((str(self.read),), (str(self.work),), **plan)  # type: ignore[arg-type]
        reads, writes = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        env = {"PATH": PATH, "TMPDIR": "/tmp", "HOME": "/tmp"}
        child = self.sandbox.spawn(made, argv, cwd=str(self.work), env=env, stdin=null, stdout=writes, stderr=writes)
        os.close(writes)
        ended = child.wait_blocking(seconds)
        if ended is None:
            child.kill()
            child.wait_blocking(10)
        said = b""
        while piece := os.read(reads, 1 << 16):
            said += piece
        return said.decode(errors="replace"), ended


def endpoints(box: Sandboxed) -> object:
    """Try the sockets and FIFOs of both roots, without and with a setting that names one."""
    heard: list[str] = []
    paths = []
    for folder in (box.work, box.read):
        (folder / "deep").mkdir()
        paths += [str(folder / "deep" / name) for name in ("named.sock", "other.sock", "named.fifo")]
    for path in paths:
        listen(path, heard.append)
    argv = ["python3", "-c", TALK, *paths]
    hidden, _ = box.run(argv)
    before = list(heard)
    shown, _ = box.run(argv, sockets=("deep/named.*",))
    return {"hidden": hidden.split("\n")[:-1], "heard": before, "shown": shown.split("\n")[:-1]}


def listen(path: str, hear: Callable[[str], None]) -> None:
    """Serve a socket, or read a FIFO, outside."""
    if path.endswith(".fifo"):
        os.mkfifo(path)
        os.open(path, os.O_RDWR | os.O_NONBLOCK)
        return
    service = socket.socket(socket.AF_UNIX)
    service.bind(path)
    service.listen()

    def serve() -> None:
        while True:
            end, _ = service.accept()
            hear(end.recv(4096).decode())

    threading.Thread(target=serve, daemon=True).start()


def prefix(box: Sandboxed) -> object:
    """Read what lies in the prefix of an interpreter that is installed beside a user's own files."""
    home = box.work.parent / "home" / ".local"
    modules = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    planted = [
        *("bin/python3", "bin/.netrc", f"{modules}/os.py", f"{modules}/site-packages/.ssh/id_rsa"),
        *(f"{modules}/handrail/journal", "lib/libpython3.so", "lib/other/token", "share/keyrings/login", "token"),
    ]
    for path in planted:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(f"{path.replace(modules, 'lib/pythonX')}\n")
    planted.append("bin/service.fifo")
    os.mkfifo(home / planted[-1])
    held = os.open(home / planted[-1], os.O_RDWR | os.O_NONBLOCK)
    os.write(held, b"reached\n")
    sys.base_prefix = str(home)
    system.system.cache_clear()
    own = str(home / modules / "handrail")
    line = 'cd "$0"; for path in "$@"; do timeout 2 head -n 1 "$path" 2>/dev/null; done'
    argv = ["/bin/sh", "-c", line, str(home), *planted]
    said, _ = box.run(argv, own=(own,))
    again, _ = box.run(argv, own=(own,), sockets=(str(home / "bin/*.fifo"), str(home / "**")))
    return {"said": said.split(), "again": again.split()}


def memory(box: Sandboxed, how: str) -> object:
    """Hold more memory than is allowed, or exactly as much as is allowed but in several processes."""
    said, ended = box.run(["python3", "-c", MEMORY[how]], 20, bounds=Bounds(memory_bytes=160 * MIB))
    return {"said": said.split(), "signal": ended.signal if ended else "still running"}


def main() -> None:
    """Make one attempt."""
    attempt, backend, place = sys.argv[1:]
    box = Sandboxed(backend, Path(place))
    try:
        if attempt in ("endpoints", "prefix"):
            found = endpoints(box) if attempt == "endpoints" else prefix(box)
        else:
            found = memory(box, attempt)
    except SetupFailed as failure:
        found = {"failed": f"{failure.stage}: {failure}"}
    print(json.dumps(found))
    box.sandbox.close()


if __name__ == "__main__":
    main()
