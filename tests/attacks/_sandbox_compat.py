"""Runs what programs must be able to do inside tier A, as whoever runs this; prints JSON of what failed.

`python _sandbox_compat.py <backend> <folder>`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from handrail.sandbox.backends import OFFERED
from handrail.sandbox.launching import Sandbox
from handrail.sandbox.plan import PATH, Plan
from handrail.words import Exclusion

PYTHON = os.path.realpath(sys.executable)
C = '#include <stdio.h>\nint main(void){printf("built\\n");return 0;}\n'
MAKEFILE = "all: prog\n\t./prog\nprog: prog.c\n\tgcc -o prog prog.c\n"
SERVER = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
assert opener.open(f"http://localhost:{server.server_port}/prog.c").status == 200
"""
UNIX = """
import socket
a = socket.socket(socket.AF_UNIX); a.bind("s.sock"); a.listen()
b = socket.socket(socket.AF_UNIX); b.connect("s.sock"); b.send(b"x")
assert a.accept()[0].recv(1) == b"x"
"""
PTY = """
import os, pty
pid, fd = pty.fork()
if pid == 0:
    os.execv("/bin/sh", ["sh", "-c", "tty; echo hello"])
data = b""
try:
    while piece := os.read(fd, 999): data += piece
except OSError: pass
assert b"hello" in data and b"/dev/pts/" in data, data
"""
PARALLEL = """
import multiprocessing, time
def square(n): return n * n
if __name__ == "__main__":
    for how in ("fork", "spawn"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
"""
DEVICES = """
import os
open("/dev/null", "w").write("x"); assert open("/dev/zero", "rb").read(3) == bytes(3)
assert len(open("/dev/urandom", "rb").read(8)) == 8; assert len(open("/dev/random", "rb").read(8)) == 8
try: open("/dev/full", "w").write("x" * 99999); raise SystemExit("full")
except OSError: pass
os.write(os.open("/dev/stdout", os.O_WRONLY), b""); open("/dev/fd/2", "w").close()
"""
THREADS = "import threading; [threading.Thread(target=print).start() for _ in range(20)]"
WHEEL = """
import zipfile
z = zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w")
z.writestr("tiny.py", "x = 1\\n")
z.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
lines = ["Wheel-Version: 1.0", "Generator: t", "Root-Is-Purelib: true", "Tag: py3-none-any", ""]
z.writestr("tiny-1.0.dist-info/WHEEL", "\\n".join(lines))
z.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\\ntiny-1.0.dist-info/METADATA,,\\n")
"""
NODE = "const fs=require('fs');fs.writeFileSync('n.txt','x');const{execSync}=require('child_process');execSync('true')"
GIT = (
    "git init -q repo && cd repo && git config user.email a@b && git config user.name n && "
    "echo x > f && git add f && git commit -qm one && git log --oneline | grep one && git mv f g && git status"
)
INSIDE_GIT = "git -C kept status && touch kept/new && git -C kept add new && git -C kept commit -qm two"
KINDS = "ln -s a b; mkfifo p; ln prog.c hard; chmod 755 prog.c; touch -d yesterday hard; mv hard h2; rm h2"
CASES: dict[str, list[str]] = {
    "python": [PYTHON, "-c", "import ssl, sqlite3, json, decimal; print(sqlite3.connect(':memory:'))"],
    "git init and commit": ["sh", "-c", GIT],
    "commit in a repository whose hooks and config are locked": ["sh", "-c", INSIDE_GIT],
    "gcc and make": ["make"],
    "node": ["node", "-e", NODE],
    "local HTTP server and client": [PYTHON, "-c", SERVER],
    "unix sockets": [PYTHON, "-c", UNIX],
    "pseudo-terminals": [PYTHON, "-c", PTY],
    "multiprocessing": [PYTHON, "parallel.py"],
    "threads": [PYTHON, "-c", THREADS],
    "devices": [PYTHON, "-c", DEVICES],
    "locale": [PYTHON, "-c", "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8'); print('é')"],
    "time zone": ["sh", "-c", "date && TZ=UTC date"],
    "system libraries": ["sh", "-c", "ldd /bin/sh && ls /usr/lib && head -c 10 /usr/bin/env >/dev/null"],
    "user names": ["sh", "-c", "id -un && whoami && getent passwd root && test -w $HOME"],
    "scratch": ["sh", "-c", "mktemp && mktemp -d && echo x > /tmp/x && cat /tmp/x && echo y > /var/tmp/y"],
    "own process listing": ["sh", "-c", "ps ax && cat /proc/self/status /proc/meminfo /proc/cpuinfo >/dev/null"],
    "job control and pipes": ["bash", "-c", "sleep 0.01 & wait; seq 100 | grep 5 | wc -l; cat <(echo x)"],
    "shell with here-document": ["bash", "-c", "cat <<X\nhi\nX\ntrap 'echo bye' EXIT; ulimit -a"],
    "files of all kinds": ["sh", "-c", KINDS],
    "archives": ["sh", "-c", "tar czf t.tgz prog.c && mkdir -p x && tar xzf t.tgz -C x && cp -a x y"],
    "name lookup of localhost": [PYTHON, "-c", "import socket; print(socket.getaddrinfo('localhost', 80))"],
    "interfaces": [PYTHON, "-c", "import socket; assert socket.if_nameindex()[0][1] == 'lo'"],
}  # fmt: skip


def ran(sandbox: Sandbox, work: Path, argv: list[str]) -> tuple[int | None, str]:
    """Run a program; give its exit code and what it wrote."""
    reads, writes = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    plan = Plan(
        read=(), write=(str(work),), excluded=(Exclusion(".ssh", "t"),),
        locked=(Exclusion(".git/**/hooks", "t"), Exclusion(".git/**/config", "t")),
    )  # fmt: skip
    env = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
    try:
        child = sandbox.spawn(plan, argv, cwd=str(work), env=env, stdin=null, stdout=writes, stderr=writes)
    finally:
        os.close(writes)
        os.close(null)
    said = b""
    while piece := os.read(reads, 1 << 16):
        said += piece
    ended = child.wait_blocking(60)
    os.close(reads)
    return (ended.exit_code if ended else None), said.decode(errors="replace")[-400:]


def main(backend: str, work: Path) -> None:
    """Run each case, in one folder."""
    import subprocess

    (work / "prog.c").write_text(C)
    (work / "Makefile").write_text(MAKEFILE)
    (work / "parallel.py").write_text(PARALLEL)
    lines = "git init -q kept; cd kept; git config user.email a@b; git config user.name n"
    subprocess.run(["sh", "-c", lines], cwd=work, check=True, env={"PATH": os.environ["PATH"], "HOME": str(work)})
    sandbox = OFFERED[0 if backend == "A" else 1].make()
    failed: dict[str, object] = {}
    cases = dict(CASES)
    pip = [PYTHON, "-m", "pip", "--version"]
    if subprocess.run(pip, capture_output=True, check=False).returncode == 0:
        install = f"{PYTHON} -c '{WHEEL}' && {PYTHON} -m pip install -q --no-index --target t tiny-1.0-py3-none-any.whl"
        cases["pip install from a wheel"] = ["sh", "-c", f"{install} && PYTHONPATH=t {PYTHON} -c 'import tiny'"]
    for name, argv in cases.items():
        if "/" not in argv[0] and shutil.which(argv[0]) is None:
            failed[name] = f"missing {argv[0]}"
            continue
        code, said = ran(sandbox, work, argv)
        if code != 0:
            failed[name] = [code, said]
    sandbox.close()
    print(json.dumps({"ran": list(cases), "failed": failed}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
