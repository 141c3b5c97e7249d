"""What a hook costs from the start of its process to its answer, in times of a Python that does nothing.

The installed shell line is started as an agent starts it, each time with another call. Its processor time is that of
the shell and the client, and of the daemon meanwhile. Then 1,000 hooks, 50 at a time, from ten sessions: each must get
its own answer, and be on record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS = int(os.environ.get("HANDRAIL_BENCH_ROUNDS", "30"))
MANY, AT_ONCE, SESSIONS = 1000, 50, 10
FILES = 1000
WITH_DAEMON, WITHOUT, MILLISECONDS = 4, 25, 60  # to hold: times of `python -c pass`, and milliseconds of processor

Took = tuple[float, float]  # seconds on the wall and of the processor


def once(command: list[str], data: bytes, others: Callable[[], float]) -> tuple[Took, bytes]:
    """Run a command with an input; `others` tells the processor time of who works for it."""
    before = others()
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data)
        process.stdin.close()
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    assert process.returncode == 0, out
    return (wall, usage.ru_utime + usage.ru_stime + others() - before), out


def payload(work: Path, session: str, number: int, tool: str, given: dict[str, Any]) -> bytes:
    """Write the payload before a tool, as Claude Code does."""
    about = {"session_id": session, "transcript_path": None, "cwd": str(work), "permission_mode": "default"}
    call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"toolu_{number}"}
    return json.dumps({**about, "hook_event_name": "PreToolUse", **call}).encode()


@contextmanager
def place() -> Iterator[tuple[Path, Path]]:
    """Give a user of our own: a workspace with files, and a state folder whose daemon ends with it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["HOME"] = str(home)
        for name in ("STATE", "CONFIG", "CACHE"):
            os.environ[f"XDG_{name}_HOME"] = str(home / name.lower())
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        work = home / "work"
        for number in range(FILES):
            (work / f"d{number % 40}").mkdir(parents=True, exist_ok=True)
            (work / f"d{number % 40}" / f"f{number}.txt").write_text(f"{number}\n" * 20)
        state = home / "state" / "handrail"
        try:
            yield work, state
        finally:
            from handrail.hooks.ending import end_daemon

            end_daemon(str(state))


def spent_by(pid: int) -> float:
    """Tell the processor time of a process and all its threads, to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def line(state: Path, more: str = "") -> list[str]:
    """Give the installed line, as the agent's shell runs it."""
    from handrail.hooks.agents import AGENTS
    from handrail.hooks.install import line_of

    agent = AGENTS["claude-code"]
    text = line_of(agent, agent.hooks[0], state)
    return ["/bin/sh", "-c", text.replace(" --state", f" {more} --state", 1)]


def calls(work: Path) -> dict[str, Callable[[int], bytes]]:
    """Give the calls that are measured, each time another one."""
    return {
        "a command that only reads": lambda number: payload(work, "s", number, "Bash", {"command": f"ls d{number}"}),
        "reading a file": lambda number: payload(
            work, "s", number, "Read", {"file_path": str(work / f"d{number % 40}/f{number % FILES}.txt")}
        ),
        "an edit, its pre-image kept": lambda number: payload(
            work, "s", number, "Edit",
            {"file_path": f"d{number % 40}/f{number}.txt", "old_string": f"{number}", "new_string": "x"},
        ),
        f"a command that asks, {FILES} files looked at": lambda number: payload(
            work, "s", number, "Bash", {"command": f"make target{number}"}
        ),
        "a command that is denied": lambda number: payload(
            work, "s", number, "Bash", {"command": f"handrail approvals grant {number}"}
        ),
    }  # fmt: skip


def measure(work: Path, state: Path) -> dict[str, list[Took]]:
    """Run everything in turns; the first row is what the others are compared with."""
    from handrail.hooks.ending import find_daemon

    bare = [sys.executable, "-c", "pass"]
    found: dict[str, list[Took]] = {"python -c pass": []}
    once(line(state), payload(work, "s", 0, "Bash", {"command": "ls"}), lambda: 0.0)
    daemon = find_daemon(str(state))
    assert daemon
    for number in range(1, ROUNDS + 4):
        rows = {"python -c pass": once(bare, b"", lambda: 0.0)[0]}
        for name, make in calls(work).items():
            rows[name] = once(line(state), make(number), lambda: spent_by(daemon))[0]
        alone = payload(work, "alone", number, "Bash", {"command": f"ls d{number}"})
        rows["without a daemon"] = once(line(state, "--no-daemon"), alone, lambda: 0.0)[0]
        if number > 3:
            for name, took in rows.items():
                found.setdefault(name, []).append(took)
    return found


def flood(work: Path, state: Path) -> tuple[float, int, int]:
    """Send many hooks at once; gives the seconds, how many were answered right, and how many are on record."""
    from handrail.hooks.ending import end_daemon
    from handrail.store.reader import events

    def one(number: int) -> bool:
        denied = number % 4 == 0
        given = {"command": f"handrail runs show {number}" if denied else f"ls {number}"}
        _, out = once(line(state), payload(work, f"flood{number % SESSIONS}", number, "Bash", given), lambda: 0.0)
        return (b'"deny"' in out) == denied and bool(out) == denied

    start = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        right = sum(pool.map(one, range(MANY)))
    seconds = time.perf_counter() - start
    end_daemon(str(state))
    kept = {
        event["args"]["command"]
        for run in (state / "runs").glob("claude-code-flood*")
        for event in events(run)
        if event["kind"] in ("tool.started", "tool.failed")
    }
    return seconds, right, len(kept)


def main() -> int:
    """Print a table; the exit code tells whether the figures hold."""
    with place() as (work, state):
        found = measure(work, state)
        seconds, right, kept = flood(work, state)
    bare = median(took[1] for took in found["python -c pass"])
    missed = []
    print("| | wall | processor | ratio | to hold |\n|---|---|---|---|---|")
    for name, times in found.items():
        wall, processor = median(took[0] for took in times), median(took[1] for took in times)
        bound = 1 if name == "python -c pass" else WITHOUT if name == "without a daemon" else WITH_DAEMON
        hold = f"{bound}×" if bound == WITHOUT else f"{bound}×, {MILLISECONDS} ms" if bound > 1 else ""
        print(f"| {name} | {wall * 1000:.1f} ms | {processor * 1000:.1f} ms | {processor / bare:.1f}× | {hold} |")
        over = processor / bare > bound and bound > 1
        if over or (bound == WITH_DAEMON and processor * 1000 > MILLISECONDS):
            missed.append(name)
    load = f"{MANY} hooks, {AT_ONCE} at a time, {SESSIONS} sessions"
    print(f"\n{load}: {right} answered right, {kept} on record, {seconds:.1f} s")
    if right < MANY or kept < MANY:
        missed.append("none lost")
    if missed:
        print(", ".join(missed), file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
