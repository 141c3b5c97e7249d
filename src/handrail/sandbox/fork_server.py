"""The runtime's end of the fork server: a small process, started apart, that starts programs for this one.

So the cost of a start does not grow with this process, and nothing of its memory or environment is in a child.
"""

from __future__ import annotations

import array
import contextlib
import errno
import marshal
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handrail.own_imports import INTERPRETER, PACKAGE
from handrail.sandbox.launching import Child, DiskLayer, SetupFailed, remove_layers
from handrail.sandbox.spawning import Started

_FOLDER = Path(PACKAGE) / "sandbox" / "inside"
_START_SECONDS = 30.0
_MAX_FDS = 8
_FILE_CLOCK = 5  # CLOCK_REALTIME_COARSE: what file systems take their times from
_PLAIN = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
_CLOSED = "Try again; if it stays so, run `handrail doctor`."
_ADVICE = {
    "exec": "Check the program's name: only the system's programs and the roots are visible inside.",
    "working folder": "The working folder must lie in a root of the run.",
    "masks": "A protected path changed while the program was being started; try again.",
    "owners of the workspace": "The workspace's file system cannot be shown with other owners.",
}
_DEFAULT_ADVICE = "Run `handrail doctor` to see what this machine offers."


class ForkServer:
    """Started when first needed, again after a fork of this process or when it was ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._pid = 0
        self._process: Started | None = None
        self._control: socket.socket | None = None

    def spawn(self, spec: dict[str, Any], stdin: int, stdout: int, stderr: int) -> Child:
        """Start what a specification says; back once the program was executed."""
        return self.begin(spec, (stdin, stdout, stderr)).finish()

    def begin(
        self, spec: dict[str, Any], standard: tuple[int, ...] = (), layers: Sequence[DiskLayer | None] = ()
    ) -> Start:
        """Begin a start; without standard descriptors only the view is built, and waits for `Start.go`.

        The layers on disk are those that the specification names; they are removed with what was started.
        """
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        told, tells = os.pipe()
        with contextlib.ExitStack() as theirs, far:
            theirs.callback(os.close, tells)
            try:
                request = _held(spec)
                theirs.callback(os.close, request)
                self._send((request, *standard, far.fileno(), tells))
            except BaseException:
                near.close()
                os.close(told)
                raise
        return Start(near, told, spec, layers)

    def close(self) -> None:
        """End the server and, with it, all that it started."""
        with self._lock:
            self._drop()

    def _send(self, fds: tuple[int, ...]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        for last in (False, True):
            control = self._ready()
            try:
                control.sendmsg([b"spawn"], rights, socket.MSG_NOSIGNAL)
                return
            except OSError as error:
                if last or error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.ENOTCONN):
                    raise SetupFailed("fork server", error.errno or 0, _CLOSED) from error
                with self._lock:
                    if self._control is control:
                        self._drop()

    def _ready(self) -> socket.socket:
        with self._lock:
            if self._control is None or self._owner != os.getpid():
                self._start()
            assert self._control is not None
            return self._control

    def _start(self) -> None:
        """Execute the server with nothing of this process but one socket."""
        if not INTERPRETER:
            raise SetupFailed("fork server", errno.ENOENT, "There is no interpreter to start it with (sys.executable).")
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far:
            argv = [INTERPRETER, "-I", "-S", "-E", str(_FOLDER), str(far.fileno()), str(os.getpid())]
            far.set_inheritable(True)
            try:
                # With the system's own ways of signals, whatever this process made of them.
                pid = os.posix_spawn(INTERPRETER, argv, {}, setsid=True, setsigmask=(), setsigdef=_PLAIN)
            except OSError as error:
                near.close()
                raise SetupFailed("fork server", error.errno or 0, _CLOSED) from error
        self._control, self._pid, self._owner = near, pid, os.getpid()
        self._process = Started.hold(pid)

    def _drop(self) -> None:
        control, process, owner = self._control, self._process, self._owner
        self._control, self._process, self._pid = None, None, 0
        if control is not None:
            control.close()
        if process is not None and owner == os.getpid():
            process.kill()
            process.reap()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._drop()


class Start:
    """What comes in while one program is being started."""

    def __init__(
        self, near: socket.socket, told: int, spec: dict[str, Any], disk: Sequence[DiskLayer | None] = ()
    ) -> None:
        self._near, self._told, self._spec = near, told, spec
        self._disk = disk
        self._began_ns = 0
        self._end_signal = signal.SIGKILL if spec["tier"] == "A" else signal.SIGTERM
        self._pid = 0
        self._first = self._leader = -1
        self._listener = self._layers = self._log = -1
        self._failure: tuple[str, int, str] | None = None
        self._over = False
        self.owner = os.getpid()  # after a fork it is not this process that it answers

    def go(self, program: dict[str, Any], stdin: int, stdout: int, stderr: int) -> Child:
        """Execute a program in the view that was begun; back once that was done."""
        standard = (stdin, stdout, stderr)
        request = _held(program)
        self._began_ns = time.clock_gettime_ns(_FILE_CLOCK)
        try:
            for layer in filter(None, self._disk):
                layer.begin()
            if self._spec["outer"]:
                _give(standard, self._spec["outer"])
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (request, *standard)))]
            self._near.sendmsg([b"go"], rights, socket.MSG_NOSIGNAL)
        except OSError:
            pass  # it failed already, and says why on its way back
        finally:
            os.close(request)
        return self.finish()

    def drop(self) -> None:
        """Let a view go that no program came for; afterwards, nothing."""
        if not self._over:
            self._over = True
            with contextlib.suppress(OSError):
                self._near.shutdown(socket.SHUT_RDWR)  # closing alone would not tell it where a fork has a copy
            self._near.close()
            os.close(self._told)
            remove_layers(self._disk)

    def finish(self) -> Child:
        """Receive until the program's execution closes the channel."""
        self._over = True
        try:
            with self._near:
                self._receive_all()
            if (failure := self._failed()) is not None:
                self._await_end()
                raise SetupFailed(failure[0], failure[1], _ADVICE.get(failure[0], _DEFAULT_ADVICE), failure[2])
        except BaseException:
            self._give_up()
            raise
        os.set_blocking(self._told, False)
        if self._log >= 0:
            os.close(self._log)
        return Child(
            self._pid,
            first=self._first,
            leader=self._leader,
            ended=self._told,
            listener=socket.socket(fileno=self._listener) if self._listener >= 0 else None,
            layers=self._layers if self._layers >= 0 else None,
            roots=[os.fsdecode(path) for path in self._spec["review"]],
            disk=self._disk,
            began_ns=self._began_ns,
            gaps=tuple(self._spec["gaps"]),
            scratch=os.fsdecode(self._spec["scratch_folder"]) if self._spec["scratch_folder"] else None,
            end_signal=self._end_signal,
        )

    def _failed(self) -> tuple[str, int, str] | None:
        if self._failure is not None or (self._leader >= 0 and self._first >= 0):
            return self._failure
        if self._log < 0:
            return "start", 0, ""
        return "bubblewrap", 0, os.pread(self._log, 2000, 0).decode(errors="replace").strip()

    def _receive_all(self) -> None:
        self._near.settimeout(_START_SECONDS)
        space = socket.CMSG_SPACE(4 * _MAX_FDS)
        while True:
            try:
                message, ancillary, _, _ = self._near.recvmsg(8192, space, socket.MSG_CMSG_CLOEXEC)
            except TimeoutError:
                raise SetupFailed("start", errno.ETIMEDOUT, _CLOSED) from None
            except ConnectionResetError:
                continue  # it went without taking what it was sent; what it said itself comes next
            if not message:
                return
            fds = array.array("i")
            for _, _, data in ancillary:
                fds.frombytes(data[: len(data) - len(data) % 4])
            self._take(marshal.loads(message), fds)  # noqa: S302  (from the fork server, which is our own)

    def _take(self, message: tuple[Any, ...], fds: array.array[int]) -> None:
        what, *facts = message
        if what == "born":
            self._pid, self._first = facts[0], fds[0]
        elif what == "going":
            self._leader = fds[0]
        elif what == "listener":
            self._listener = fds[0]
        elif what == "layers":
            self._layers = fds[0]
        elif what == "log":
            self._log = fds[0]
        elif what == "failed" and self._failure is None:
            self._failure = (facts[0], facts[1], facts[2])

    def _await_end(self) -> None:
        if self._first >= 0:
            poller = select.poll()
            poller.register(self._first, select.POLLIN)
            poller.poll(2000)

    def _give_up(self) -> None:
        """Leave nothing behind of a start that failed."""
        if self._first >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._first, self._end_signal)
        for fd in (self._told, self._first, self._leader, self._listener, self._layers, self._log):
            if fd >= 0:
                os.close(fd)
        remove_layers(self._disk)


def _give(standard: tuple[int, ...], outer: tuple[int, int]) -> None:
    """Let a program that runs under other ids open its own input and output again by /dev/stdin and the like."""
    for fd in standard:
        if os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:["):
            os.fchown(fd, *outer)


def _held(message: dict[str, Any]) -> int:
    """Hold a message of any size in a descriptor."""
    fd = os.memfd_create("request")
    view = memoryview(marshal.dumps(message))
    try:
        while view:
            view = view[os.write(fd, view) :]
    except BaseException:
        os.close(fd)
        raise
    return fd
