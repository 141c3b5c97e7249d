"""Programs that write more than anyone can take: memory, disk and what is shown stay bounded."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from behaviour._commands import alive, need_sandbox, run, runtime
from handrail.errors import Code
from handrail.store.spill import STREAM_BYTES

FLOOD = 100_000_000
MOST_GROWTH = 24 * 1024 * 1024  # far below three times what is kept, and no matter how much comes

# Runs a command in a runtime of its own and prints how much its memory grew, in bytes, at the highest.
GROWTH = """
import asyncio, sys
from handrail import Runtime
from handrail.testing import ScriptedApprover

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

async def main():
    config = {"tools": {"enable": ["exec"]}}
    async with Runtime.open(sys.argv[1], config=config, approver=ScriptedApprover("once")) as runtime:
        await runtime.call("run_command", {"command": "seq 100000"})
        before = peak()
        outcome = await runtime.call("run_command", {"command": sys.argv[2]})
        kept = outcome.refs[0]
        print(peak() - before, outcome.status.value, len(outcome.content), kept.bytes, kept.sha256)
        print(runtime.parts.folder.path)
        sys.stdout.write(outcome.content)

asyncio.run(main())
"""


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


def flooded(work: Path, command: str) -> tuple[int, list[str], Path, str]:
    """Run a command in a fresh process: growth, the other figures, the run's folder, the content."""
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(work), command], capture_output=True, text=True, check=True, env=os.environ
    )
    first, folder, content = done.stdout.split("\n", 2)
    growth, *figures = first.split()
    return int(growth), figures, Path(folder), content


def test_one_endless_line_is_bounded_in_memory_and_kept_to_64_mib(work: Path) -> None:
    """100 MB without a line end: both ends are shown and kept, said to be only that, without the secrets in them."""
    tokens = [f"{letter}x7Q" + f"{letter}7Qm2Kd9" * 4 for letter in "abcd"]
    # Put together by the program, so that the command does not hold them.
    secrets = [f"printf ' %s_%s ' ghp {token}" for token in tokens]
    fifth = f"head -c {FLOOD // 5} /dev/zero | tr '\\0' x"
    parts = [secrets[0], fifth, secrets[1], fifth, fifth, secrets[2], fifth, fifth, secrets[3]]
    growth, (status, _, size, sha256), folder, content = flooded(work, "; ".join(["echo START", *parts, "echo END"]))
    assert status == "ok"
    assert growth <= MOST_GROWTH
    assert re.match(r"START\n \S*REDACTED\S* xxx", content)
    assert re.search(r"xxx \S*REDACTED\S* END\n\[exit code 0", content)
    files = sorted(folder.glob("observations/stdout_*.txt"), key=lambda path: path.stat().st_size)
    kept = files[-1]
    assert STREAM_BYTES <= int(size) == kept.stat().st_size <= STREAM_BYTES + 200
    data = kept.read_bytes()
    assert hashlib.sha256(data).hexdigest() == sha256
    assert re.match(rb"START\n \S*REDACTED\S* xxx", data)
    assert re.search(rb"xxx \S*REDACTED\S* END\n\Z", data[-200:])
    assert data.count(b"REDACTED") == 3  # the one in the middle is not kept
    assert [token for token in tokens for text in (data, content.encode()) if token[4:].encode() in text] == []
    dropped = re.search(rb"\n\[(\d+) bytes are not kept: ", data)
    assert dropped is not None
    assert abs(int(dropped[1]) - (FLOOD + 10 - STREAM_BYTES)) < 4 * len(" ghp_" + tokens[0] + " ")


def test_short_lines_without_end_are_bounded_in_memory(work: Path) -> None:
    """The other shape of a flood; the last line shown is the last that came."""
    growth, (status, length, _, _), _, content = flooded(work, "seq 1 6000000")
    assert status == "ok"
    assert growth <= MOST_GROWTH
    assert int(length) <= 51200
    assert "\n6000000\n[exit code 0" in content


def test_progress_without_end_shows_its_last_state(work: Path) -> None:
    """A bar that is drawn a million times is one line."""
    growth, _, _, content = flooded(work, "seq -s $'\\r' 1 2000000; echo done")
    assert growth <= MOST_GROWTH
    assert "\n2000000\ndone\n[exit code 0" in content


async def test_a_program_that_writes_too_much_is_ended(work: Path) -> None:
    """At the bound the whole tree goes, and what is kept stays."""
    async with runtime(work, config={"exec": {"kill_output_bytes": 3_000_000}}) as opened:
        began = time.monotonic()
        outcome = await run(opened, "exec -a handrail-f1 yes")
        assert time.monotonic() - began < 10
        assert alive("handrail-f1") == []
    assert outcome.error is not None
    assert outcome.error.code == Code.EXIT_NONZERO
    assert "wrote more than exec.kill_output_bytes" in outcome.error.message
    assert outcome.error.details["refs"]


async def test_what_stays_below_the_bound_goes_on(work: Path) -> None:
    """The bound is the setting's: the same output is fine where it allows more."""
    async with runtime(work, config={"exec": {"kill_output_bytes": 3_000_000}}) as opened:
        below = await run(opened, "head -c 2900000 /dev/zero | tr '\\0' x")
        above = await run(opened, "head -c 3100000 /dev/zero | tr '\\0' x")
    assert (below.ok, above.ok) == (True, False)


async def test_a_job_that_writes_too_much_is_ended_and_says_why(work: Path) -> None:
    """In the background, too: the whole tree goes."""
    async with runtime(work, config={"exec": {"kill_output_bytes": 3_000_000}}) as opened:
        started = await run(opened, "exec -a handrail-f2 yes", background=True)
        job = started.data["job"]

        async def ended() -> bool:
            return not (await opened.call("job_list", {})).data["jobs"][0]["running"]

        end = time.monotonic() + 10
        while not await ended() and time.monotonic() < end:
            await opened.call("job_read", {"job": job, "cursor": 1 << 40, "wait_seconds": 1})
        wrote = (await opened.call("job_list", {})).data["jobs"][0]["bytes"]
        told = (await opened.call("job_read", {"job": job, "cursor": wrote})).data["text"]
        assert alive("handrail-f2") == []
    assert (wrote > 3_000_000, told) == (True, "\n[ended: it wrote more than exec.kill_output_bytes]\n")


async def test_the_loop_stays_awake_during_a_flood(work: Path) -> None:
    """Other calls go on while one floods."""
    import asyncio

    async with runtime(work) as opened:
        flood = asyncio.ensure_future(run(opened, "head -c 60000000 /dev/zero | tr '\\0' 'x'"))
        slowest = 0.0
        while not flood.done():
            began = time.monotonic()
            await opened.call("now", {})
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.sleep(0.005)
        assert (await flood).ok
    assert slowest < 0.5


async def test_no_descriptor_is_left_by_many_commands(work: Path, scale: int) -> None:
    """Fine, failed, timed out, refused, flooding: what was opened is closed."""
    config = {"limits": {"max_repeats": 1000, "breaker_failures": 1000}}
    async with runtime(work, config=config) as opened:
        commands = ["true", "exit 3", "seq 100000", "sleep 5", "head -c 2000000 /dev/zero", "\\/none/x", "cat"]

        async def each() -> None:
            for command in commands:
                await opened.call("run_command", {"command": command, "timeout_seconds": 0.3, "stdin": "x" * 100_000})

        await each()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2 * scale):
            await each()
        assert len(os.listdir("/proc/self/fd")) <= before + 1


async def test_hostile_names_do_not_break_a_call(work: Path) -> None:
    """Files named in bytes that are no text, with line breaks and control characters, are told or left out."""
    (work / "make").write_text("touch $'a\\nb' $'\\xff\\xfe' $'\\e[31mred' plain")
    async with runtime(work) as opened:
        outcome = await run(opened, "bash make")
    assert outcome.ok, outcome.content
    assert "plain" in outcome.data["files_changed"]
