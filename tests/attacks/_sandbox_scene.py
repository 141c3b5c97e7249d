"""Runs every probe in one sandbox, as whoever runs this, and tells which of them got somewhere, as JSON.

A program of its own, so that the whole of it (runtime, fork server, scene) can be run by another user:
`python _sandbox_scene.py <backend> <folder> <secret>`.
"""

from __future__ import annotations

import ctypes
import json
import os
import pty
import resource
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from handrail.sandbox import landlock
from handrail.sandbox.backends import OFFERED
from handrail.sandbox.launching import Sandbox, SetupFailed
from handrail.sandbox.plan import PATH, Bounds, Plan
from handrail.words import Exclusion, Root

sys.path.insert(0, str(Path(__file__).parent.parent))
from attacks._sandbox_probes import BATCH, BOUNDS, DESIGNED, NETWORK, PRELUDE, PROBES
from attacks._sandbox_watch import Watch

BACKENDS = {"A": OFFERED[0], "bwrap": OFFERED[1], "B": OFFERED[2]}
# Each has a process outside of its own to harm.
VICTIMS = (
    "see-the-runtime", "signal-another-process", "signal-by-process-descriptor", "signal-another-group",
    "slow-another-process", "limit-another-process", "signal-everybody",
)  # fmt: skip
TIGHT = Bounds(
    memory_bytes=200 << 20, processes=50, file_bytes=8 << 20, open_files=64, cpu_seconds=1, scratch_bytes=8 << 20
)
HIDDEN = (".ssh", ".netrc", ".pgpass")
LOCKED = (".git/**/hooks", ".git/**/config", "handrail.toml")
RUNNER = """
BATCH = json.loads(sys.argv[2])
results = {}
for name, code in BATCH.items():
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(w, 1); os.dup2(w, 2); os.close(r)
        import signal; signal.alarm(8)
        try:
            exec(code)
        except BaseException as e:
            print("!", type(e).__name__, e, flush=True)
        sys.stdout.flush()
        os._exit(0)
    os.close(w)
    said = b""
    while len(said) < 1 << 18 and (piece := os.read(r, 65536)):
        said += piece
    os.close(r)
    results[name] = said.decode(errors="replace")
    try:
        os.waitpid(pid, 0)
    except OSError:
        pass
print(json.dumps(results))
"""


class Ears:
    """Listeners outside that note who spoke to them."""

    def __init__(self, place: Path) -> None:
        self.heard: set[str] = set()
        self._news = threading.Condition()
        self.abstract = f"handrail-{secrets.token_hex(6)}"
        self.tcp, self.udp = self._on(socket.AF_INET, ("0.0.0.0", 0)), self._on(socket.AF_INET, ("0.0.0.0", 0), 2)
        self.tcp6 = self._on(socket.AF_INET6, ("::1", 0)) if socket.has_ipv6 else self.tcp
        self._on(socket.AF_UNIX, str(place / "socket"))
        self._on(socket.AF_UNIX, f"\0{self.abstract}")

    def _on(self, family: int, address: Any, kind: int = 1) -> int:
        listener = socket.socket(family, kind)
        listener.bind(address)
        if kind == 1:
            listener.listen(50)
        threading.Thread(target=self._listen, args=(listener, kind), daemon=True).start()
        return 0 if family == socket.AF_UNIX else int(listener.getsockname()[1])

    def _listen(self, listener: socket.socket, kind: int) -> None:
        while True:
            if kind == 1:
                end, _ = listener.accept()
                end.settimeout(3)
                said = end.recv(99)
                end.close()
            else:
                said = listener.recv(99)
            with self._news:
                self.heard.add(said.decode(errors="replace") or "somebody")
                self._news.notify_all()

    def wait(self, name: str) -> None:
        """Wait for what was sent a moment ago."""
        with self._news:
            self._news.wait_for(lambda: name in self.heard, 2)


class Scene:
    """Folders with secrets and protected files, processes and listeners outside."""

    def __init__(self, place: Path, secret: str, tier: str, usr: str = "/usr") -> None:
        self.secret, self.tier, self.usr = secret, tier, f"{usr}/handrail-probe-{os.getpid()}"
        self.signalled = False
        signal.signal(signal.SIGUSR1, self._signalled)
        self.machine, self.watch = Machine(), Watch(TIGHT)
        self.work, self.outside, self.read = place / "work", place / "outside", place / "read"
        self._files()
        (self.work / "free/large").touch()
        self.ears = Ears(self.outside)
        mark = secrets.token_hex(6)  # where each has a world of its own, process numbers meet
        self.tmp_file, self.shm_file = (Path(f"{where}/handrail-probe-{mark}") for where in ("/tmp", "/dev/shm"))
        for path in (self.tmp_file, self.shm_file):
            path.write_text(secret)
        self.victims = {name: victim(secret) for name in VICTIMS}
        self.limits = resource.prlimit(self.victims["limit-another-process"].pid, resource.RLIMIT_NOFILE)
        os.chdir(self.outside)
        for path in (self.outside, self.outside / "secret"):
            os.set_inheritable(os.open(path, os.O_RDONLY), True)

    def _signalled(self, *_: object) -> None:
        self.signalled = True

    def restore(self) -> None:
        """Put the files back as they were, but for what is free to use."""
        for path in (*self.work.iterdir(), *self.read.iterdir()):
            if path.is_dir() and not path.is_symlink():
                if path.name != "free":
                    shutil.rmtree(path)
            else:
                path.unlink()
        for name in ("created", "created-too", "moved"):
            (self.outside / name).unlink(missing_ok=True)
        self._files()

    def _files(self) -> None:
        for folder in (
            "outside/home/.ssh", "read", "work/.ssh", "work/.SSH", "work/a/b/c", "work/.git/hooks", "work/free",
            "work/sub/.git/hooks", "work/tree", "work/.state",
        ):  # fmt: skip
            (self.work.parent / folder).mkdir(parents=True, exist_ok=True)
        for name in (
            "outside/secret", "outside/home/.ssh/id_rsa", "work/.netrc", "read/.netrc", "work/a/b/c/.pgpass",
            "work/.ssh/id_rsa", "work/.SSH/key", "work/.state/journal", f"work/.ssh/{self.secret}",
        ):  # fmt: skip
            (self.work.parent / name).write_text(f"{self.secret}\n")
        targets = [f"outside/target{number}" for number in ("", "2", "3", "4", "5", "6", "-link")]
        for name in (
            *targets, "read/text", "read/text2", "work/.git/config", "work/.git/HEAD", "work/.git/hooks/pre-commit",
            "work/.git/hooks/pre-push", "work/sub/.git/config", "work/tree/.git", "work/handrail.toml",
            "work/free/plain",
        ):  # fmt: skip
            (self.work.parent / name).write_text("original")
        (self.work / "link-out").symlink_to("../outside/secret")
        (self.work / "link-target").symlink_to("../outside/target-link")
        (self.work / "folder-out").symlink_to("../outside")

    def plan(self, bounds: Bounds) -> Plan:
        """What the programs of the scene may see."""
        hidden = (*(Exclusion(name, "test") for name in HIDDEN), Exclusion("/.state", "test", root="workspace"))
        roots = (Root("workspace", str(self.work), True), Root(str(self.read), str(self.read), False))
        return Plan(
            read=(str(self.read),),
            write=(str(self.work),),
            excluded=hidden,
            locked=tuple(Exclusion(name, "test") for name in LOCKED),
            roots=roots,
            bounds=bounds,
        )

    def facts(self) -> dict[str, Any]:
        """What the programs know of the scene: everything."""
        return {
            "work": str(self.work), "outside": str(self.outside), "read": str(self.read), "tier": self.tier,
            "runtime": os.getpid(), "victims": {name: process.pid for name, process in self.victims.items()},
            "tcp": self.ears.tcp, "tcp6": self.ears.tcp6,
            "udp": self.ears.udp, "abstract": self.ears.abstract, "address": own_address(), "uid": os.getuid(),
            "tmp_file": str(self.tmp_file), "shm_file": str(self.shm_file), "machine": os.uname().machine,
            "usr_file": self.usr, "etc_file": f"/etc/handrail-probe-{os.getpid()}",
            "shm_key": self.machine.key, "name": self.watch.name, "processors": len(os.sched_getaffinity(0)),
        }  # fmt: skip

    def watched(self) -> dict[str, tuple[Path, ...]]:
        """By probe: what must be as it was before."""
        work, outside, read = self.work, self.outside, self.read
        config, hooks = work / ".git/config", work / ".git/hooks"
        facts = {
            "write-outside": (outside / "target",), "create-outside": (outside / "created",),
            "write-outside-by-link": (outside / "target-link",),
            "create-outside-by-linked-folder": (outside / "created-too",), "move-outside": (outside / "moved",),
            "truncate-outside": (outside / "target2",), "delete-outside": (outside / "target3",),
            "chmod-outside": (outside / "target4",), "utime-outside": (outside / "target5",),
            "xattr-outside": (outside / "target6",), "write-read-root": (read / "text",),
            "create-in-read-root": (read / "made",), "chmod-read-root": (read / "text2",),
            "write-system": (Path(self.usr),),
            "write-etc": (Path(f"/etc/handrail-probe-{os.getpid()}"),),
            "write-locked-settings": (work / "handrail.toml",), "add-a-hook": (hooks / "post-commit",),
            "change-a-hook": (hooks / "pre-push",), "chmod-a-hook": (hooks / "pre-commit",),
            "rename-locked-away": (hooks, work / ".git/other"), "rename-repository-away": (work / "git2",),
            "rename-nested-repository-away": (work / "sub2", work / "sub"),
            "replace-a-worktree's-file": (work / "tree/.git",), "exchange-repository": (work / ".git/HEAD",),
            "device-node": (work / "dev",),
            "make a repository of their own": (work / "own/.git/hooks/pre-commit",),
            "add what was not there": (work / "free/handrail.toml",),
            "change what is not protected": (work / "free/plain",),
        }  # fmt: skip
        on_config = ("write-locked-file", "replace-locked-by-rename", "remove-locked", "write-locked-by-hard-link")
        facts |= dict.fromkeys((*on_config, "write-locked-by-unmounting", "write-locked-by-remounting"), (config,))
        return facts

    def close(self) -> None:
        """Leave nothing outside the scene's own folder."""
        for process in self.victims.values():
            process.kill()
            process.wait()
        self.machine.close()
        for path in (self.tmp_file, self.shm_file):
            path.unlink(missing_ok=True)


class Machine:
    """Shared memory, a message queue and a key of the runtime's own, as other programs of the machine have them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self.key = 0x48520000 + os.getpid() % 0xFFFF
        self._memory = self._libc.shmget(self.key, 4096, 0o1666)
        self._queue = self._libc.msgget(self.key, 0o1666)
        if os.uname().machine == "x86_64":
            self._libc.syscall(250, 1, None)  # a session's keyring of its own
            self._libc.syscall(248, b"user", b"handrail", b"x", 1, -3)

    def close(self) -> None:
        """Take them away."""
        self._libc.shmctl(self._memory, 0, None)
        self._libc.msgctl(self._queue, 0, None)


def victim(secret: str) -> subprocess.Popen[bytes]:
    """A process outside that does nothing."""
    argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", secret]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)


def own_address() -> str:
    """An address of this machine that is not loopback, if it has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            end.connect(("192.0.2.1", 9))  # sends nothing
            return str(end.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def state(path: Path) -> object:
    """All that a program could change about a path."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    content = path.read_bytes() if stat.S_ISREG(seen.st_mode) else None
    return (
        seen.st_ino,
        seen.st_mode,
        seen.st_uid,
        int(seen.st_mtime) if content is not None else 0,
        content,
        (os.listxattr(path) if content is not None else None),
    )


def ran(sandbox: Sandbox, plan: Plan, code: str, *arguments: str) -> str:
    """Run Python code in the sandbox, with a terminal as its input; give what it printed."""
    reads, writes = os.pipe()
    master, slave = pty.openpty()
    python = os.path.realpath(sys.executable)
    argv = [python, "-I", "-S", "-c", PRELUDE + code, *arguments]
    env = {"PATH": PATH, "TMPDIR": "/tmp", "HOME": "/tmp"}
    try:
        child = sandbox.spawn(plan, argv, cwd=plan.write[0], env=env, stdin=slave, stdout=writes, stderr=writes)
    finally:
        os.close(writes)
        os.close(slave)
    said = b""
    while piece := os.read(reads, 1 << 16):
        said += piece
    if child.wait_blocking(60) is None:
        child.kill()
        child.wait_blocking(10)
    os.close(reads)
    os.close(master)
    return said.decode(errors="replace")


def harmed(scene: Scene, name: str) -> bool:
    """Whether a process outside is not as it was."""
    process = scene.victims[name]
    if name == "slow-another-process":
        return os.getpriority(os.PRIO_PROCESS, process.pid) != os.getpriority(os.PRIO_PROCESS, 0)
    if name == "limit-another-process":
        return resource.prlimit(process.pid, resource.RLIMIT_NOFILE) != scene.limits
    try:
        process.wait(5 if scene.tier == "none" else 0.02)
    except subprocess.TimeoutExpired:
        return False
    return True


def judge(scene: Scene, said: dict[str, str], before: dict[str, list[object]]) -> dict[str, bool]:
    """Which probes got somewhere."""
    watched = scene.watched()
    found: dict[str, bool] = {}
    for name, text in said.items():
        how = (PROBES | DESIGNED)[name][0]
        if how == "leak":
            found[name] = scene.secret in text
        elif how == "said":
            found[name] = "ESCAPED" in text
        elif how == "used":
            found[name] = scene.watch.over(name)
        elif name in NETWORK:
            found[name] = name in scene.ears.heard
        elif name.startswith("set"):
            made = [scene.work / f"s{number}" for number in range(1, 8)]
            found[name] = any(path.exists() and path.stat().st_mode & 0o6000 for path in made)
        elif name in VICTIMS:
            found[name] = harmed(scene, name)
        elif name == "signal-the-runtime":
            found[name] = scene.signalled
        elif name == "too-large-a-file":
            found[name] = (scene.work / "free/large").stat().st_size > TIGHT.file_bytes
        else:
            found[name] = [state(path) for path in watched[name]] != before[name]
    return found


def main(backend: str, place: Path, secret: str) -> None:
    """Run the probes and print what came of each."""
    scene = Scene(place, secret, backend)
    sandbox = BACKENDS[backend].make()
    try:
        before = {name: [state(path) for path in paths] for name, paths in scene.watched().items()}
        batch = json.dumps({name: code for name, (_, code) in (BATCH | DESIGNED).items()})
        printed = ran(sandbox, scene.plan(Bounds()), RUNNER, json.dumps(scene.facts()), batch)
        said = json.loads(printed.splitlines()[-1])
        found = judge(scene, said, before)
        bounds = bounded(sandbox, scene)
        found |= judge(scene, bounds, before)
        said |= bounds
    except SetupFailed as failure:
        print(json.dumps({"failed": str(failure)}))
        return
    finally:
        sandbox.close()
        scene.close()
    print(json.dumps({"found": found, "said": {name: text[-300:] for name, text in said.items()}}))


def bounded(sandbox: Sandbox, scene: Scene) -> dict[str, str]:
    """Run what tries to use too much, each as a program of its own, all at once."""
    # Where Landlock does not hold signals back, that one would reach everybody.
    reaches_all = scene.tier == "B" and landlock.abi() < 6
    wanted = {name: code for name, (_, code) in BOUNDS.items() if name != "signal-everybody" or not reaches_all}
    facts = json.dumps(scene.facts())
    with ThreadPoolExecutor(len(wanted)) as pool:
        running = {name: pool.submit(ran, sandbox, scene.plan(TIGHT), code, facts) for name, code in wanted.items()}
        scene.watch.until(lambda: all(done.done() for done in running.values()))
        said = {name: done.result() for name, done in running.items()}
    return {name: text + scene.watch.told().get(name, "") for name, text in said.items()}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
