"""Landlock by system call: a thread shuts itself, and whatever it starts, out of all but a few folders.

What a domain holds back: every file outside, all writing, TCP, abstract sockets and signals to others, each as far as
the kernel's ABI goes.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

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


@cache
def abi() -> int:
    """The Landlock version this kernel speaks; 0 where there is none or it is switched off."""
    return max(0, _call(_CREATE_RULESET, None, 0, 1))


def handled(version: int) -> bytes:
    """Name all that a domain of this version holds back unless a rule gives it, as the kernel reads it."""
    files = max(rights for since, rights in _FILE_RIGHTS.items() if since <= version)
    fields = [files, *([_TCP_RIGHTS] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    return struct.pack(f"={len(fields)}Q", *fields)


def ruleset(read_fds: Sequence[int], execute_paths: Sequence[str], read_paths: Sequence[str] = ()) -> int:
    """Describe a domain that reads below some folders, executes some files, and reads some where that can be had.

    The descriptor is the caller's.
    """
    attributes = handled(abi())
    fd = _checked(_call(_CREATE_RULESET, attributes, len(attributes), 0), "create a ruleset")
    try:
        for folder in read_fds:
            _allow(fd, folder, READ_FILE | READ_DIR)
        for path in execute_paths:
            _allow_file(fd, path, EXECUTE | READ_FILE)
        for path in read_paths:
            with suppress(OSError):
                _allow_file(fd, path, READ_FILE)
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


def _allow_file(ruleset_fd: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _allow(ruleset_fd, fd, rights)
    finally:
        os.close(fd)


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
