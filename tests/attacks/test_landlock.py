"""The domain that searches run in: what starts in it is shut in, the rest of this process is not."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.sandbox import landlock
from handrail.sandbox.domain import Domain
from handrail.sandbox.spawning import Lifeline
from handrail.tools.search.grep import grep
from searching import Searching
from workspaces import refused

pytestmark = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")


def confined(code: str, *folders: Path) -> str:
    """Run Python code in a thread that confined itself first, in a process of its own; give what it printed."""
    program = f"""
import os, socket, sys, threading
from handrail.sandbox import landlock
fds = [os.open(path, os.O_PATH) for path in sys.argv[1:]]
def attempt(name, work):
    try:
        work()
    except OSError as error:
        print(name, error.errno)
    else:
        print(name, "done")
def inside():
    landlock.restrict_self(fds)
{code}
thread = threading.Thread(target=inside)
thread.start()
thread.join()
"""
    argv = [sys.executable, "-c", program, *map(str, folders)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_confined_thread_reads_below_its_folders_and_nothing_else(tmp_path: Path) -> None:
    """Reading inside works; reading outside, writing anywhere and executing do not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("a")
    (tmp_path / "out").write_text("b")
    code = f"""
    attempt("read in", lambda: open({str(tmp_path / "in/a")!r}).close())
    attempt("list in", lambda: os.listdir({str(tmp_path / "in")!r}))
    attempt("read out", lambda: open({str(tmp_path / "out")!r}).close())
    attempt("list out", lambda: os.listdir({str(tmp_path)!r}))
    attempt("write in", lambda: open({str(tmp_path / "in/a")!r}, "a").close())
    attempt("create in", lambda: open({str(tmp_path / "in/new")!r}, "x").close())
    attempt("remove in", lambda: os.unlink({str(tmp_path / "in/a")!r}))
    attempt("truncate in", lambda: os.truncate({str(tmp_path / "in/a")!r}, 0))
    attempt("run", lambda: os.posix_spawn("/bin/true", ["true"], {{}}))
"""
    told = dict(line.rsplit(" ", 1) for line in confined(code, tmp_path / "in").splitlines())
    done = {name for name, how in told.items() if how == "done"}
    assert done == {"read in", "list in"} | ({"truncate in"} if landlock.abi() < 3 else set())
    assert len(told) == 9


@pytest.mark.skipif(landlock.abi() < 4, reason="no network rules in this kernel's Landlock")
def test_a_confined_thread_reaches_no_network(tmp_path: Path) -> None:
    """TCP is shut as the ABI has it: neither a connection out nor a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
    attempt("connect", lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), 5))
    attempt("bind", lambda: socket.create_server(("127.0.0.1", 0)))
"""
        assert confined(code, tmp_path) == "connect 13\nbind 13\n"


@pytest.mark.skipif(landlock.abi() < 6, reason="no scopes in this kernel's Landlock")
def test_a_confined_thread_reaches_no_abstract_socket_and_signals_nobody(tmp_path: Path) -> None:
    """Sockets without a file and processes outside of the domain are out of reach."""
    name = f"\0handrail-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = f"""
    attempt("abstract", lambda: socket.socket(socket.AF_UNIX).connect({name!r}))
    attempt("signal", lambda: os.kill({os.getpid()}, 0))
"""
        assert confined(code, tmp_path) == "abstract 1\nsignal 1\n"


def test_the_rest_of_the_process_is_not_confined(tmp_path: Path) -> None:
    """Before, during and after a confined start, other threads open, write and run as ever."""
    (tmp_path / "ws").mkdir()
    folder = os.open(tmp_path / "ws", os.O_PATH)
    errors: list[OSError] = []
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                (tmp_path / "outside").write_text("x")
                os.listdir("/etc")
            except OSError as error:
                errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert [run_confined(["/bin/true"], folder)[0] for _ in range(50)] == [0] * 50
    finally:
        stop.set()
        thread.join()
        os.close(folder)
    subprocess.run(["/bin/true"], check=True)
    assert errors == []
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text()
    assert gc.isenabled()


def run_confined(argv: list[str], folder: int, inherit: tuple[int, ...] = ()) -> tuple[int, bytes, bytes]:
    """Start a program in a domain that reads one folder, and the system's libraries for its loader."""
    libraries = [os.open(path, os.O_PATH) for path in ("/lib", "/lib64", "/usr/lib") if os.path.exists(path)]
    loaders = [str(path) for folder in ("/lib", "/lib64") for path in Path(folder).glob("ld-*.so*")]
    domain = Domain([folder, *libraries], [argv[0], *loaders])
    out, err, line = os.memfd_create("out"), os.memfd_create("err"), Lifeline()
    try:
        child = domain.do(lambda: domain.spawn(argv, folder, (domain.null, out, err), inherit, line)).result()
        code = child.reap()
        assert code is not None
        return code, os.pread(out, 1 << 16, 0), os.pread(err, 1 << 16, 0)
    finally:
        line.close()
        domain.close()
        for fd in (*libraries, out, err):
            os.close(fd)


def test_what_is_started_is_confined_and_stands_in_the_folder(tmp_path: Path) -> None:
    """It reads below its folder by relative path, nothing above, and has neither variables nor descriptors of ours."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a").write_text("inside")
    (tmp_path / "out").write_text("outside")
    (tmp_path / "ws/link").symlink_to(tmp_path / "out")
    folder = os.open(tmp_path / "ws", os.O_PATH)
    stray = os.open(tmp_path / "out", os.O_RDONLY)
    try:
        assert run_confined(["/bin/cat", "a"], folder)[:2] == (0, b"inside")
        for path in ("link", "../out", str(tmp_path / "out"), "/etc/passwd", f"/proc/self/fd/{stray}"):
            code, out, _ = run_confined(["/bin/cat", path], folder)
            assert (code, out) == (1, b""), path
        assert run_confined(["/usr/bin/env"], folder)[:2] == (0, b"")
    finally:
        os.close(folder)
        os.close(stray)


def test_an_inherited_descriptor_is_read_and_given_to_nobody_else(tmp_path: Path) -> None:
    """`inherit` reaches the one program; afterwards the descriptor is close-on-exec again."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a").write_text("inside")
    folder = os.open(tmp_path / "ws", os.O_PATH)
    fd = os.open(tmp_path / "ws/a", os.O_RDONLY)
    try:
        assert run_confined(["/bin/cat", f"/proc/self/fd/{fd}"], folder, (fd,))[:2] == (0, b"inside")
        assert not os.get_inheritable(fd)
    finally:
        os.close(folder)
        os.close(fd)


def test_a_failed_start_is_raised_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """An error inside the confined thread reaches the caller; afterwards it serves on, and collection is on again."""
    folder = os.open(tmp_path, os.O_PATH)
    before = len(os.listdir("/proc/self/fd"))
    domain, out, line = Domain([folder], []), os.memfd_create("out"), Lifeline()
    for inherit in ((), (folder,)):  # started by the system's own call, and by Python's
        start = partial(domain.spawn, ["/bin/true"], folder, (domain.null, out, out), inherit, line)
        with pytest.raises(PermissionError):
            domain.do(start).result()
    os.close(out)
    line.close()
    domain.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert gc.isenabled()
    os.close(folder)


def test_nothing_is_collected_while_a_domain_is_at_work(tmp_path: Path) -> None:
    """Finalizers that open files never run in there, however many pieces of work overlap."""
    folder = os.open(tmp_path, os.O_PATH)
    domains = [Domain([folder], []) for _ in range(2)]
    pieces = [domain.do(gc.isenabled) for domain in domains * 2]
    assert [piece.result() for piece in pieces[:3]] == [False] * 3
    assert not gc.isenabled()
    assert (pieces[3].result(), gc.isenabled()) == (False, True)
    for domain in domains:
        domain.close()
    os.close(folder)


def test_a_domain_reads_single_files_outside_only_where_they_were_named(tmp_path: Path) -> None:
    """What stands beside such a file stays out of reach."""
    (tmp_path / "in").mkdir()
    for name in ("named", "beside"):
        (tmp_path / name).write_text(name)
    folder = os.open(tmp_path / "in", os.O_PATH)
    domain = Domain([folder], [], [str(tmp_path / "named")])
    try:
        assert domain.do((tmp_path / "named").read_text).result() == "named"
        with pytest.raises(PermissionError):
            domain.do((tmp_path / "beside").read_text).result()
    finally:
        domain.close()
        os.close(folder)


def test_a_closed_domain_leaves_neither_thread_nor_descriptor(tmp_path: Path) -> None:
    """It ends with its workspace; one that cannot be made leaves nothing either."""
    folder = os.open(tmp_path, os.O_PATH)
    before = (threading.active_count(), len(os.listdir("/proc/self/fd")))
    Domain([folder], ["/bin/true"], ["/nowhere"]).close()
    with pytest.raises(FileNotFoundError):
        Domain([folder], ["/nowhere"])
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before
    os.close(folder)


def test_a_domain_holds_on_to_no_folder_it_started_a_program_in(tmp_path: Path) -> None:
    """Its thread stands in the root again, so that the folder can be removed and its disk be let go of."""
    (tmp_path / "below").mkdir()
    root, below = os.open(tmp_path, os.O_PATH), os.open(tmp_path / "below", os.O_PATH)
    true = os.path.realpath("/bin/true")
    domain, line = Domain([root], [true]), Lifeline()
    try:
        with suppress(OSError):
            domain.do(lambda: domain.spawn([true], below, (domain.null,) * 3, (), line)).result().reap()
        stands = domain.do(os.getcwd).result()
    finally:
        line.close()
        domain.close()
        os.close(root)
        os.close(below)
    assert stands in (str(tmp_path), os.getcwd())


@pytest.mark.parametrize(("version", "size"), [(1, 8), (2, 8), (3, 8), (4, 16), (5, 16), (6, 24), (7, 24), (9, 24)])
def test_each_version_is_asked_only_for_what_it_knows(version: int, size: int) -> None:
    """An older kernel refuses rights it has never heard of; a newer one is asked for all we know."""
    asked = landlock.handled(version)
    rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    assert len(asked) == size
    assert int.from_bytes(asked[:8], sys.byteorder) == (1 << rights) - 1


async def test_a_search_runs_in_the_domain_unless_told_otherwise(tmp_path: Path) -> None:
    """A program in ripgrep's place that needs more than its own file and the root cannot even start."""
    (tmp_path / "ws").mkdir()
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    async with Searching(tmp_path / "ws", program=str(program), confined=False) as search:
        assert (await search.call(grep, pattern="x")).data.matches == []
    async with Searching(tmp_path / "ws", program=str(program)) as search:
        problem = await refused(search.call(grep, pattern="x"))
    assert (problem.code, "Permission denied" in problem.message) == (Code.IO_ERROR, True)
