"""Views that are built before their program is known: used only as what would be built now, and never left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from handrail.sandbox.launching import Ended
from handrail.sandbox.native import Native
from handrail.sandbox.plan import Plan, environment
from handrail.words import Exclusion


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture
def native() -> Iterator[Native]:
    """Tier A with a fork server of its own, which knows that the workspace is small."""
    from handrail.sandbox.backends import OFFERED

    made = OFFERED[0].make()
    assert isinstance(made, Native)
    yield made
    made.close()


def plan_of(work: Path) -> Plan:
    """A plan that hides what is called secret."""
    return Plan((), (str(work),), excluded=(Exclusion("secret", "test"),))


def ran(native: Native, plan: Plan, line: str) -> tuple[Ended | None, str]:
    """Run a line; how it ended and what it wrote."""
    read, write = os.pipe()
    argv, env = ("/bin/sh", "-c", line), environment({}, {})
    child = native.spawn(plan, argv, cwd=plan.write[0], env=env, stdin=0, stdout=write, stderr=write)
    os.close(write)
    with os.fdopen(read) as output:
        return child.wait_blocking(30), output.read()


def server_of(native: Native) -> int:
    """The fork server's process."""
    return native._server._pid


def children_of(pid: int) -> list[str]:
    """Who lives below a process."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def has(native: Native, count: int) -> bool:
    """Whether the fork server has so many children, after a while at most."""
    until = time.monotonic() + 10
    while len(children_of(server_of(native))) != count:
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def test_a_view_that_is_ready_is_used_by_the_next_program_with_its_plan(work: Path, native: Native) -> None:
    """The process that waits becomes the program; its view is as any other."""
    plan = plan_of(work)
    assert native.prepare(plan) is None  # nobody knows yet how much there is to look at
    assert ran(native, plan, "echo first")[1] == "first\n"
    assert native.prepare(plan) is not None
    [view] = native._ready
    start = view.start
    assert ran(native, plan, "echo second > made; cat made; cat /etc/shadow 2>/dev/null || echo hidden")[1] == (
        "second\nhidden\n"
    )
    assert (native._ready, start._over, (work / "made").read_text()) == ([], True, "second\n")
    assert has(native, 0)


def test_what_came_to_be_protected_after_a_view_was_built_is_masked_all_the_same(work: Path, native: Native) -> None:
    """A view that would be another one by now is not used."""
    plan = plan_of(work)
    ran(native, plan, "true")
    assert native.prepare(plan) is not None
    (work / "secret").write_text("hidden-content")
    assert "hidden-content" not in ran(native, plan, "cat secret; cat < secret")[1]
    assert len(native._ready) == 1  # not used, and let go in time
    other = Plan((), (str(work),))
    assert ran(native, other, "cat secret")[1] == "hidden-content"


def test_a_view_that_nobody_comes_for_leaves_nothing_behind(work: Path, native: Native) -> None:
    """Let go by whoever asked for it, once or twice, or with the sandbox."""
    plan = plan_of(work)
    ran(native, plan, "true")
    before = sorted(os.listdir("/proc/self/fd"))
    let_go = native.prepare(plan)
    assert let_go is not None
    assert has(native, 1)
    let_go()
    let_go()
    assert (has(native, 0), native._ready) == (True, [])
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert [native.prepare(plan) is not None for _ in range(6)] == [True] * 4 + [False] * 2
    assert has(native, 4)
    pid = server_of(native)
    waiting = children_of(pid)
    native.close()
    assert not Path(f"/proc/{pid}").exists()
    until = time.monotonic() + 5
    while any(Path(f"/proc/{child}").exists() for child in waiting):
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_view_whose_fork_server_was_killed_does_not_keep_the_program_from_starting(
    work: Path, native: Native
) -> None:
    """Another one is built."""
    plan = plan_of(work)
    ran(native, plan, "true")
    assert native.prepare(plan) is not None
    os.kill(server_of(native), signal.SIGKILL)
    assert ran(native, plan, "echo alive")[1] == "alive\n"


def test_a_view_is_not_used_by_a_fork_of_the_process_that_asked_for_it(work: Path, native: Native) -> None:
    """Both would wait at the same door; the other one has a view built by a fork server of its own."""
    plan = plan_of(work)
    ran(native, plan, "true")
    assert native.prepare(plan) is not None
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, ran(native, plan, "echo forked")[1].encode() + b"%d" % len(native._ready))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        assert told.read() == "forked\n1"
    os.waitpid(pid, 0)
    assert ran(native, plan, "echo here")[1] == "here\n"
    assert native._ready == []


async def test_calls_that_start_no_program_prepare_none(work: Path) -> None:
    """Reading a job or a file needs no sandbox."""
    async with runtime(work) as opened:
        await run(opened, "true")
        sandbox = opened.parts.programs.made.host.sandbox
        await opened.call("job_list", {})
        await opened.call("list_dir", {"path": "."})
        assert isinstance(sandbox, Native)
        assert sandbox._ready == []
        await run(opened, "true")
        assert sandbox._ready == []


def test_a_view_is_not_used_once_a_masked_file_was_replaced(work: Path, native: Native) -> None:
    """The system takes a mask off a name that is replaced, as editors do: the new file is hidden all the same."""
    plan = plan_of(work)
    (work / "secret").write_text("old and quiet")
    assert "old" not in ran(native, plan, "cat secret")[1]
    assert native.prepare(plan) is not None
    (work / "new").write_text("new and quiet")
    os.replace(work / "new", work / "secret")
    assert "new and quiet" not in ran(native, plan, "cat secret")[1]


def test_a_view_is_not_used_once_it_is_old(work: Path, native: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps the loop from letting it go."""
    plan = plan_of(work)
    assert ran(native, plan, "echo first")[1] == "first\n"
    assert native.prepare(plan) is not None
    monkeypatch.setattr("handrail.sandbox.native.READY_SECONDS", 0.0)
    assert ran(native, plan, "echo second")[1] == "second\n"
    assert len(native._ready) == 1
