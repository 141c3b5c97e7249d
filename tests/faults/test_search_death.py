"""Searches when the embedding program is unkind: it ignores its children's ends, reaps them itself, or is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox
from searching import fill

GONE_SECONDS = 1.0
SLOW_BYTES = 8 << 20
FIRST_RUN = b"--sort=path"  # which is short, and followed by another
TICKS = 5  # of the processor's time, by which a search is in its midst
# A search that finds nothing and takes long: one file by many names, and a pattern that nothing shortens.
SEARCHER = """
import asyncio, sys
from handrail import Runtime
async def main():
    async with Runtime.open(sys.argv[1], config={"tools": {"enable": ["search"]}}) as runtime:
        print("open", flush=True)
        await runtime.call("grep", {"pattern": "[a-z]+ [a-z]+zz[a-z]qq"})
asyncio.run(main())
"""
UNKIND = """
import asyncio, json, os, signal, sys, threading, time
from handrail import Runtime
from handrail.testing import ScriptedApprover
if sys.argv[2] == "ignores":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
else:
    def reap():
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.0005)
    threading.Thread(target=reap, daemon=True).start()
async def main():
    config = {"tools": {"enable": ["search", "exec"]}, "limits": {"breaker_failures": 1000}}
    told = []
    async with Runtime.open(sys.argv[1], config=config, approver=ScriptedApprover("once")) as runtime:
        for number in range(12):
            found = await runtime.call("grep", {"pattern": f"hit {number}$"})
            none = await runtime.call("grep", {"pattern": f"nothing {number}"})
            names = await runtime.call("find_files", {"pattern": f"{number}.txt"})
            told.append([len(item.data[key]) if item.ok else item.error.message
                         for item, key in ((found, "matches"), (none, "matches"), (names, "paths"))])
        wrong = await runtime.call("grep", {"pattern": "("})
        command = await runtime.call("run_command", {"command": "echo said; exit 3"})
        code = command.error.details.get("exit_code", command.error.message)
    print(json.dumps([told, wrong.error.code, code]))
asyncio.run(main())
"""


def of_ripgrep(folder: Path, ticks: int = 0, without: bytes = b"-") -> list[int]:
    """The ripgreps that stand in a folder, have worked for some time, are without a word, and have not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stands = os.readlink(f"/proc/{name}/cwd") == str(folder)
            worked = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[11])
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            if stands and worked >= ticks and words[0].endswith(b"/rg") and without not in words:
                found.append(int(name))
    return found


def test_ripgrep_dies_with_a_runtime_that_is_killed(work: Path, scale: int) -> None:
    """Within a second, though it finds nothing to write and so would not notice that nobody listens."""
    (work / "0.txt").write_bytes(b"the quick brown fox jumps over the lazy dog 0123456789\n" * (SLOW_BYTES // 55))
    for number in range(1, 400):
        os.link(work / "0.txt", work / f"{number}.txt")
    for _ in range(2 * scale):
        with subprocess.Popen([sys.executable, "-c", SEARCHER, str(work)], stdout=subprocess.PIPE) as process:
            try:
                end = time.monotonic() + 20
                while not (running := of_ripgrep(work, TICKS, FIRST_RUN)):
                    assert time.monotonic() < end, "it never started"
                    time.sleep(0.005)
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        killed = time.monotonic()
        while of_ripgrep(work) and time.monotonic() < killed + GONE_SECONDS:
            time.sleep(0.01)
        assert (bool(running), of_ripgrep(work)) == (True, [])


@pytest.mark.parametrize("how", ["ignores", "reaps"])
def test_searches_and_commands_are_true_for_a_program_that_does_not_wait_for_its_children(work: Path, how: str) -> None:
    """Whoever takes a child's end away takes no answer away: found, not found, a wrong pattern, an exit code."""
    fill(work, {f"{number}.txt": f"hit {number}\n" for number in range(12)})
    need_sandbox()
    words = [sys.executable, "-c", UNKIND, str(work), how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, f'[{[[1, 0, 1]] * 12}, "INVALID_ARGS", 3]\n'), done.stderr
