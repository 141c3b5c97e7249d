"""Several processes on one run, one ledger and one file: who owns what, and who said what to whom."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from approving import shown_digest
from handrail import Runtime
from handrail.errors import Code, RunFault
from handrail.ports import Answered, Reply
from handrail.settings import paths
from handrail.store.ledger import SqliteLedger
from handrail.store.reader import events
from handrail.testing import FixedClock
from handrail.words import Scope

ENABLE = {"tools": {"enable": ["fs", "delete_path"]}, "limits": {"max_repeats": 10**9}}
EDITS = 50

HOLDER = """
import asyncio, sys
from handrail import Runtime
async def main():
    async with Runtime.open(sys.argv[1], run_id=sys.argv[2]):
        print("open", flush=True)
        sys.stdin.read()
asyncio.run(main())
"""
WAITER = """
import asyncio, json, sys
from handrail import Runtime
config = json.loads(sys.argv[2])
async def main():
    async with Runtime.open(sys.argv[1], config=config, run_id="waits", mode="interactive") as runtime:
        print("open", flush=True)
        for line in sys.stdin:
            outcome = await runtime.call("delete_path", {"path": json.loads(line), "confirm": True})
            print(json.dumps(outcome.to_dict()), flush=True)
asyncio.run(main())
"""
COUNTER = """
import asyncio, json, sys
from handrail import Runtime
config, own, rounds = json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
async def main():
    done = 0
    async with Runtime.open(sys.argv[1], config=config) as runtime:
        print("open", flush=True)
        sys.stdin.readline()
        while done < rounds:
            edit = {"old": f"{own} = {done}\\n", "new": f"{own} = {done + 1}\\n"}
            outcome = await runtime.call("edit_file", {"path": "counters.txt", "edits": [edit]})
            if outcome.ok:
                done += 1
            elif outcome.error.code != "STALE_FILE":
                raise SystemExit(outcome.content)
    print(done, flush=True)
asyncio.run(main())
"""


class WallClock:
    """The machine's time, which the other processes go by."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


@contextmanager
def process(program: str, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, once it says that it is open."""
    command = [sys.executable, "-c", program, *argv]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "open\n"
            yield child
        finally:
            child.kill()


# ── one run ──────────────────────────────────────────────────────────────────────────────────


async def test_the_second_process_is_told_who_holds_the_run(work: Path) -> None:
    """And gets it once the holder is dead, however it died."""
    with process(HOLDER, str(work), "held") as holder:
        with pytest.raises(RunFault) as caught:
            async with Runtime.open(work, run_id="held"):
                pass
        assert (caught.value.code, caught.value.details["pid"]) == (Code.RUN_BUSY, holder.pid)
        assert str(holder.pid) in str(caught.value)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    async with Runtime.open(work, run_id="held") as runtime:
        assert (await runtime.call("now")).ok


async def test_a_run_held_by_this_process_is_busy_too_and_free_after_closing(work: Path) -> None:
    """A lock is of the run, not of the process."""
    async with Runtime.open(work, run_id="held"):
        with pytest.raises(RunFault) as caught:
            async with Runtime.open(work, run_id="held"):
                pass
        assert caught.value.details["pid"] == os.getpid()
    async with Runtime.open(work, run_id="held"):
        pass


# ── approvals ────────────────────────────────────────────────────────────────────────────────


class Waiting:
    """A call that waits in another process for a person, and the ledger that both share."""

    def __init__(self, child: subprocess.Popen[str], work: Path) -> None:
        self._child, self._work = child, work
        self.ledger = SqliteLedger(paths.state_dir() / "ledger.db", WallClock())

    async def ask(self, name: str) -> str:
        """Let it ask to delete a file, and give the request's id once it is on record."""
        (self._work / name).write_text("x")
        return await self.ask_again(name)

    async def ask_again(self, name: str) -> str:
        """Let it ask the same once more."""
        known = {request.id for request in self.ledger.pending(time.time())}
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(name) + "\n")
        async with asyncio.timeout(20):
            while not (new := [r.id for r in self.ledger.pending(time.time()) if r.id not in known]):
                await asyncio.sleep(0.005)
        return new[0]

    async def outcome(self) -> dict[str, Any]:
        """What the call came to."""
        assert self._child.stdout is not None
        line = await asyncio.wait_for(asyncio.to_thread(self._child.stdout.readline), 20)
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def waiting(work: Path) -> Iterator[Waiting]:
    """Another process with no terminal, in interactive mode."""
    with process(WAITER, str(work), json.dumps(ENABLE)) as child:
        made = Waiting(child, work)
        yield made
        made.ledger.close()


async def test_a_grant_from_another_process_lets_a_waiting_call_go_on(waiting: Waiting, work: Path) -> None:
    """Once: the same call asks again."""
    request = await waiting.ask("a")
    waiting.ledger.answer(request, Reply("granted", by="ann"))
    done = await waiting.outcome()
    assert (done["status"], (work / "a").exists()) == ("ok", False)
    again = await waiting.ask("a")
    assert again != request
    waiting.ledger.answer(again, Reply("denied", by="bob", advice="keep it"))
    refused = await waiting.outcome()
    assert (refused["error"]["code"], (work / "a").exists()) == ("APPROVAL_DENIED", True)
    assert "keep it" in refused["content"]


async def test_the_command_line_answers_a_waiting_call(waiting: Waiting, work: Path) -> None:
    """`handrail approvals grant` in another terminal; a second answer is told that it comes too late."""
    request = await waiting.ask("a")
    digest = shown_digest(request)
    first = await asyncio.to_thread(handrail, "approvals", "grant", request, "--digest", digest)
    done = await waiting.outcome()
    second = await asyncio.to_thread(handrail, "approvals", "grant", request, "--digest", digest)
    third = await asyncio.to_thread(handrail, "approvals", "deny", request)
    assert (first.returncode, done["status"], (work / "a").exists()) == (0, "ok", False)
    assert (second.returncode != 0, third.returncode != 0) == (True, True)


def handrail(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a person in another terminal would."""
    program = "import sys; from handrail.front.cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)


async def test_only_the_first_answer_counts(waiting: Waiting, work: Path) -> None:
    """Granted twice and denied after: told so, and the call runs once."""
    request = await waiting.ask("a")
    waiting.ledger.answer(request, Reply("granted", by="ann"))
    for late in (Reply("granted", by="bob"), Reply("denied", by="bob")):
        with pytest.raises(Answered) as told:
            waiting.ledger.answer(request, late)
        assert told.value.by == "ann"
    done = await waiting.outcome()
    ran = [event for event in events(run_folder("waits")) if event["kind"] == "approval.granted"]
    assert (done["status"], len(ran)) == ("ok", 1)


async def test_a_grant_is_used_once_across_processes(waiting: Waiting, work: Path) -> None:
    """Whoever else replays it with its id gets nothing."""
    request = await waiting.ask("a")
    grant = waiting.ledger.answer(request, Reply("granted", by="ann"))
    assert grant is not None
    done = await waiting.outcome()
    (work / "a").write_text("x")
    async with Runtime.open(work, config=ENABLE, mode="headless") as runtime:
        replayed = await runtime.call("delete_path", {"path": "a", "confirm": True}, approval=request)
    assert done["status"] == "ok"
    assert replayed.error is not None
    assert (replayed.error.code, (work / "a").exists()) == ("APPROVAL_DENIED", True)
    assert waiting.ledger.use(grant, time.time()) is False


async def test_a_request_that_expires_is_refused(work: Path) -> None:
    """Nothing runs, and an answer afterwards comes too late."""
    config = {**ENABLE, "approvals": {"expiry_seconds": 0.3}}
    (work / "a").write_text("x")
    with process(WAITER, str(work), json.dumps(config)) as child:
        waits = Waiting(child, work)
        request = await waits.ask("a")
        refused = await waits.outcome()
        with pytest.raises(Answered) as told:
            waits.ledger.answer(request, Reply("granted", Scope.RUN, by="ann"))
        waits.ledger.close()
    assert (refused["error"]["code"], (work / "a").exists()) == ("APPROVAL_DENIED", True)
    assert told.value.state == "expired"


async def test_a_call_answered_after_its_process_died_runs_only_when_it_is_made_again(work: Path) -> None:
    """A grant does nothing by itself; the same call finds it later, in whichever process."""
    with process(WAITER, str(work), json.dumps(ENABLE)) as child:
        waits = Waiting(child, work)
        request = await waits.ask("a")
        child.kill()
        child.wait()
        waits.ledger.answer(request, Reply("granted", by="ann"))
        waits.ledger.close()
    assert (work / "a").exists()
    async with Runtime.open(work, config=ENABLE, mode="headless") as runtime:
        done = await runtime.call("delete_path", {"path": "a", "confirm": True})
        (work / "a").write_text("x")
        again = await runtime.call("delete_path", {"path": "a", "confirm": True})
    assert done.ok, done.content
    assert again.error is not None
    assert again.error.code == "APPROVAL_REQUIRED"


async def test_the_clock_decides_about_expiry_not_the_order_of_events(work: Path) -> None:
    """A clock that jumps ahead expires a grant, one that jumps back does not bring it to life again once used."""
    clock = FixedClock()
    (work / "a").write_text("x")
    async with Runtime.open(work, config=ENABLE, mode="headless", clock=clock) as runtime:
        asked = await runtime.call("delete_path", {"path": "a", "confirm": True})
        assert asked.error is not None
        request = asked.error.details["approval"]["id"]
        runtime.parts.ledger.answer(request, Reply("granted", by="ann"))
        clock.advance(10**6)
        late = await runtime.call("delete_path", {"path": "a", "confirm": True})
        clock.advance(-(10**6))
        kept = (work / "a").exists()
    assert late.error is not None
    assert (late.error.code, kept) == ("APPROVAL_REQUIRED", True)


# ── one file ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_two_processes_that_edit_one_file_lose_no_update(work: Path, scale: int) -> None:
    """Each counts up in a line of its own, at once."""
    rounds = EDITS * min(scale, 4)
    (work / "counters.txt").write_text("one = 0\n" + "between\n" * 200 + "two = 0\n")
    with (
        process(COUNTER, str(work), json.dumps(ENABLE), "one", str(rounds)) as first,
        process(COUNTER, str(work), json.dumps(ENABLE), "two", str(rounds)) as second,
    ):
        for child in (first, second):
            assert child.stdin is not None
            child.stdin.write("go\n")
        done = [await asyncio.to_thread(child.communicate) for child in (first, second)]
    assert [out.strip() for out, _ in done] == [str(rounds), str(rounds)]
    assert (work / "counters.txt").read_text() == f"one = {rounds}\n" + "between\n" * 200 + f"two = {rounds}\n"


def run_folder(run: str) -> Path:
    """The folder of a run of this user."""
    return paths.state_dir() / "runs" / run
