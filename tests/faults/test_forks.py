"""A process that forks while a runtime is open: the fork neither hangs nor takes part, and holds nothing back."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from behaviour._commands import need_sandbox
from handrail.sandbox.backends import OFFERED
from handrail.sandbox.domain import Domain
from handrail.sandbox.native import Native
from handrail.sandbox.plan import PATH, Plan
from handrail.settings import paths
from handrail.store.reader import events

HEAD = """
import asyncio, gc, json, multiprocessing, os, sys
from pathlib import Path
from handrail import Runtime
from handrail.errors import Misuse
from handrail.testing import ScriptedApprover
config = {"tools": {"enable": ["search", "exec", "fs"]}}

def opened():
    return Runtime.open(sys.argv[1], config=config, approver=ScriptedApprover("once"), run_id="forks")

async def used(runtime):
    await runtime.call("grep", {"pattern": "hit"})
    await runtime.call("run_command", {"command": "true"})

async def tried(runtime):
    told = []
    for name, args in (("grep", {"pattern": "hit"}), ("run_command", {"command": "true"}), ("now", {})):
        try:
            await asyncio.wait_for(runtime.call(name, args), 20)
            told.append("it worked")
        except Misuse as error:
            told.append(str(error))
    return told
"""
CALLS = (
    HEAD
    + """
async def own():
    async with Runtime.open(sys.argv[1], config=config, run_id="own") as runtime:
        return len((await runtime.call("grep", {"pattern": "hit"})).data["matches"])

async def main():
    read, write = os.pipe()
    async with opened() as runtime:
        await used(runtime)
        child = os.fork()
        if child == 0:
            told = [*asyncio.run(tried(runtime)), asyncio.run(own())]
            asyncio.run(runtime.__aexit__(None, None, None))
            os.write(write, json.dumps([*told, gc.isenabled()]).encode())
            os._exit(7)
        os.close(write)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        again = [(await runtime.call("grep", {"pattern": "hit"})).ok, (await runtime.call("now")).ok]
    print(json.dumps([code, json.loads(os.read(read, 10000)), again]))
asyncio.run(main())
"""
)
WORKERS = (
    HEAD
    + """
def work(number):
    return number * 2, gc.isenabled()

async def main():
    async with opened() as runtime:
        await used(runtime)
        searches = [asyncio.ensure_future(runtime.call("grep", {"pattern": f"hit {n}"})) for n in range(8)]
        await asyncio.sleep(0)
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            told = pool.map(work, range(4))
        oks = [(await search).ok for search in searches]
    print(json.dumps([told, oks]))
asyncio.run(main())
"""
)
REFUSED = "the runtime was opened before this process was forked; open one of its own here"


def told(program: str, work: Path) -> object:
    """What a program prints; it must not hang."""
    (work / "a.txt").write_text("hit\n")
    words = [sys.executable, "-W", "ignore", "-c", program, str(work)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_fork_that_uses_an_open_runtime_is_told_so_and_one_that_opens_its_own_works(work: Path) -> None:
    """Also its exit leaves the run alone: the journal has one end, written by the process that opened it."""
    need_sandbox()
    assert told(CALLS, work) == [7, [*[REFUSED] * 3, 1, True], [True, True]]
    kinds = [event["kind"] for event in map(dict, events(paths.runs_dir() / "forks"))]
    assert (kinds.count("run.finished"), kinds[-1]) == (1, "run.finished")


def test_worker_processes_made_while_searches_go_on_neither_hang_nor_lose_them(work: Path) -> None:
    """Every search is answered, and garbage is collected in the workers."""
    need_sandbox()
    assert told(WORKERS, work) == [[[number * 2, True] for number in range(4)], [True] * 8]


NET = """
import asyncio, json, os, threading
from handrail.net import gate, gathering

async def used():
    digest = gathering.Digest()
    digest.take(bytes(gathering.ASIDE))
    for _ in gathering._threads("watch"):  # each has its turn
        other = gathering.Lane(len)
        other.take(bytes(gathering.ASIDE))
        await other.done()
    async with asyncio.timeout(20):
        return [await digest.hexdigest(), list(await gate.system_resolver("127.0.0.1", 80))]

# All threads are there: none would be started in the fork.
for pool in (gate._threads(), *gathering._threads("hash"), *gathering._threads("watch")):
    together = threading.Barrier(pool._max_workers)
    list(pool.map(lambda _: together.wait(20), range(pool._max_workers)))
here, (read, write) = asyncio.run(used()), os.pipe()
child = os.fork()
if child == 0:
    try:
        os.write(write, json.dumps(asyncio.run(used())).encode())
    finally:
        os._exit(0)
os.close(write)
print(json.dumps([here, json.loads(os.read(read, 10000) or "null")]))
"""


def test_a_fork_looks_names_up_and_hashes_with_threads_of_its_own(work: Path) -> None:
    """Those of the process that it was forked from are not there."""
    digest = hashlib.sha256(bytes(1 << 18)).hexdigest()
    assert told(NET, work) == [[digest, ["127.0.0.1"]]] * 2


def test_a_view_that_no_program_came_for_goes_though_a_fork_has_its_descriptors(work: Path) -> None:
    """It is told to go: that its channel is closed here says nothing while another process has a copy."""
    need_sandbox()
    sandbox = OFFERED[0].make()
    assert isinstance(sandbox, Native)
    plan = Plan((), (str(work),))
    null = os.open(os.devnull, os.O_RDWR)
    try:
        started = sandbox.spawn(
            plan, ["/bin/true"], cwd=str(work), env={"PATH": PATH}, stdin=null, stdout=null, stderr=null
        )
        assert started.wait_blocking(20) is not None
        let_go = sandbox.prepare(plan)
        assert let_go is not None
        assert views(sandbox, 1)
        with stays_open():
            let_go()
            assert views(sandbox, 0)
    finally:
        os.close(null)
        sandbox.close()


@contextmanager
def stays_open() -> Iterator[None]:
    """A fork of this process that has all its descriptors and does nothing."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(write)
        os.close(read)
        os.waitpid(child, 0)


def test_a_fork_made_while_a_domain_is_at_work_collects_garbage_and_is_refused_the_domain(tmp_path: Path) -> None:
    """The thread is not there, and what it had switched off is on again."""
    folder = os.open(tmp_path, os.O_PATH)
    domain, ready = Domain([folder], []), threading.Event()
    doing = domain.do(lambda: ready.wait(20))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told: list[object] = [gc.isenabled()]
        try:
            domain.do(os.getpid).result()
        except RuntimeError as error:
            told.append(str(error))
        domain.close()
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    ready.set()
    said, own = json.loads(os.read(read, 1000)), doing.result()
    domain.close()
    for fd in (folder, read, write):
        os.close(fd)
    assert (said, own) == ([True, "the domain's thread is another process's: this one was forked from it"], True)


def views(sandbox: Native, number: int) -> bool:
    """Whether there come to be so many views that are built and alive."""
    server, end = sandbox._server._pid, time.monotonic() + 5
    while time.monotonic() < end:
        if len(Path(f"/proc/{server}/task/{server}/children").read_text().split()) == number:
            return True
        time.sleep(0.01)
    return False
