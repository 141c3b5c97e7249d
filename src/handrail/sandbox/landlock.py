"""Landlock by system call: a thread shuts itself, and whatever it starts, out of all but a few folders.

A domain belongs to one thread and is inherited by what that thread starts. So a fresh thread enters one, starts the
program and ends; the rest of the process is never confined. What the domain holds back: every file outside, all
writing, TCP, abstract sockets and signals to others, each as far as the kernel's ABI goes.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from subprocess import Popen

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVS = 38

EXECUTE, READ_FILE, READ_DIR = 1 << 0, 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the ABI that brought them
_TCP_RIGHTS = 0b11  # bind, connect: ABI 4
_SCOPES = 0b11  # abstract sockets, signals: ABI 6

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc["syscall"]
_syscall.restype = ctypes.c_long
_prctl = _libc["prctl"]
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_launching = _thread.allocate_lock()

T = TypeVar("T")


@cache
def abi() -> int:
    """The Landlock version this kernel speaks; 0 where there is none or it is switched off."""
    return max(0, _call(_CREATE_RULESET, None, 0, 1))


def handled(version: int) -> bytes:
    """Name all that a domain of this version holds back unless a rule gives it, as the kernel reads it."""
    files = max(rights for since, rights in _FILE_RIGHTS.items() if since <= version)
    fields = [files, *([_TCP_RIGHTS] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    return struct.pack(f"={len(fields)}Q", *fields)


def ruleset(read_fds: Sequence[int], execute_paths: Sequence[str]) -> int:
    """Describe a domain that reads below some folders and executes some files; the descriptor is the caller's."""
    attributes = handled(abi())
    fd = _checked(_call(_CREATE_RULESET, attributes, len(attributes), 0), "create a ruleset")
    try:
        for folder in read_fds:
            _allow(fd, folder, READ_FILE | READ_DIR)
        for path in execute_paths:
            program = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                _allow(fd, program, EXECUTE | READ_FILE)
            finally:
                os.close(program)
    except BaseException:
        os.close(fd)
        raise
    return fd


def enter(ruleset_fd: int) -> None:
    """Confine the calling thread for the rest of its life, and with it all that it starts."""
    _checked(_prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give up new privileges")
    _checked(_call(_RESTRICT_SELF, ruleset_fd, 0), "enter the domain")


def restrict_self(read_fds: Sequence[int], execute_paths: Sequence[str] = ()) -> None:
    """Confine the calling thread to reading below some folders and executing some files."""
    fd = ruleset(read_fds, execute_paths)
    try:
        enter(fd)
    finally:
        os.close(fd)


def start(
    argv: Sequence[str],
    *,
    ruleset_fd: int | None,
    cwd_fd: int,
    stdout: int,
    stderr: int,
    stdin: int | None = None,
    inherit: Sequence[int] = (),
) -> Popen[bytes]:
    """Start a program in an open folder with an empty environment, confined by a ruleset where there is one.

    Of other descriptors it has those named in `inherit`; the rest must be close-on-exec, as Python's own are.
    """
    import subprocess  # before the domain is entered: afterwards nothing can be imported

    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    given = null if stdin is None else stdin
    # The new process resolves /proc/self as itself, and has the folder's descriptor until it executes.
    where = f"/proc/self/fd/{cwd_fd}"

    def popen() -> Popen[bytes]:
        return subprocess.Popen(argv, cwd=where, env={}, stdin=given, stdout=stdout, stderr=stderr, close_fds=False)

    try:
        with _launching:
            for fd in inherit:
                os.set_inheritable(fd, True)
            return popen() if ruleset_fd is None else _in_domain(ruleset_fd, popen)
    finally:
        for fd in inherit:
            os.set_inheritable(fd, False)
        os.close(null)


def _in_domain(ruleset_fd: int, work: Callable[[], T]) -> T:
    """Do a short piece of work in a thread that enters a domain first and ends with it."""
    results: list[T] = []
    errors: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            enter(ruleset_fd)
            results.append(work())
        except BaseException as error:  # noqa: BLE001  (raised below, by the thread that asked)
            errors.append(error)
        finally:
            done.release()

    # No collection meanwhile: in there, the finalizers of other people's objects would find their files gone.
    collecting = gc.isenabled()
    gc.disable()
    try:
        _thread.start_new_thread(run, ())
        done.acquire()
    finally:
        if collecting:
            gc.enable()
    if errors:
        raise errors[0]
    return results[0]


def _allow(ruleset_fd: int, fd: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, fd)
    _checked(_call(_ADD_RULE, ruleset_fd, _PATH_BENEATH, rule, 0), "add a rule")


def _call(number: int, *arguments: int | bytes | None) -> int:
    # Whole registers: a plain int would be handed over as 32 bits.
    return int(_syscall(*(ctypes.c_long(item) if isinstance(item, int) else item for item in (number, *arguments))))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock could not {what}: {os.strerror(number)}")
    return int(result)
