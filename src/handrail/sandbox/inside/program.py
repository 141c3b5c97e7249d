"""The last steps before a program: nothing kept, nothing to be gained, then its execution."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the part of `signal` that loads at once
import _socket
import os

from handrail.sandbox.inside import calls
from handrail.sandbox.inside.channel import Channel

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from typing import Any, NoReturn


def become(spec: dict[str, Any], standard: list[int], channel: Channel) -> NoReturn:
    """Give up everything and execute the program; the channel's closing says that it runs."""
    try:
        _settle(spec, standard, channel)
        channel.send(("going",), own := os.pidfd_open(os.getpid()))
        os.close(own)
        if spec["confined"]:
            _filtered(spec, channel)
        channel.stage = "exec"
        _execute(spec["argv"], spec["env"])
    except BaseException as error:  # noqa: BLE001  (told to the runtime; the program does not run)
        channel.failed(error)
    finally:
        os._exit(126)


def _settle(spec: dict[str, Any], standard: list[int], channel: Channel) -> None:
    """Take the standard descriptors, a session, the folder and the limits."""
    channel.stage = "descriptors"
    for number, fd in enumerate(standard):  # each its own number or above 2: the server holds those itself
        if fd != number:
            os.dup2(fd, number)
    if channel.fd != 3:
        os.dup2(channel.fd, 3, inheritable=False)
        channel.fd = 3
    calls.close_from(4)
    channel.stage = "session"
    os.setsid()
    calls.new_keyring()
    _plain_signals()
    os.umask(spec["umask"])
    channel.stage = "working folder"
    os.chdir(spec["cwd"])
    channel.stage = "limits"
    for resource, amount in spec["limits"]:
        calls.limit(resource, amount)


def _plain_signals() -> None:
    """Undo what an interpreter does to signals."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT, _signal.SIGTERM, _signal.SIGCHLD):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])


def _filtered(spec: dict[str, Any], channel: Channel) -> None:
    channel.stage = "capabilities"
    calls.drop_capabilities()
    calls.prctl(calls.NO_NEW_PRIVS, 1)
    if spec["landlock"] is not None:
        channel.stage = "Landlock"
        calls.landlock(*spec["landlock"])
    channel.stage = "system call filter"
    calls.filter_calls(spec["seccomp"])


def _execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Execute the program, found as a shell would find it."""
    program = argv[0]
    if b"/" in program:
        os.execve(program, argv, env)  # noqa: S606
    missing: OSError | None = None
    for folder in env.get(b"PATH", b"").split(b":"):
        try:
            os.execve(os.path.join(folder or b".", program), argv, env)  # noqa: S606
        except OSError as error:
            if error.errno not in (2, 20) and missing is None:
                missing = error
    raise missing or FileNotFoundError(2, "no such program in PATH")


def hand_out_listener(port: int, channel: Channel) -> None:
    """Listen inside for whoever stands outside."""
    channel.stage = "listener inside"
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC, 0)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(128)
    channel.send(("listener",), listener.fileno())
    listener.close()
