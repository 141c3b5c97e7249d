"""The filter of system calls, run as the kernel would run it."""

from __future__ import annotations

import struct
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.sandbox.seccomp import Filter, program, supported

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, FAMILY = 0x50001, 0x50026, 0x50061
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
INNER = Filter("x86_64", network=True, unix=True, ipc=True)
BARE = Filter("x86_64", network=False, unix=False, ipc=False)


def answer(wanted: Filter, number: int, *arguments: int, arch: int | None = None) -> int:
    """Run a filter on one call."""
    told = ARCH[wanted.machine] if arch is None else arch
    padded = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number, told, 0, *padded)
    code = [struct.unpack_from("=HBBI", program(wanted), at) for at in range(0, len(program(wanted)), 8)]
    held, at = 0, 0
    while True:
        kind, yes, no, value = code[at]
        at += 1
        if kind == 0x06:
            return int(value)
        if kind == 0x20:
            held = struct.unpack_from("=I", data, value)[0]
        else:
            met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[kind]
            at += yes if met else no


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (0, (), ALLOW),  # read
        (59, (), ALLOW),  # execve
        (257, (-100, 0, 0o101, 0o644), ALLOW),  # openat
        (257, (-100, 0, 0o101, 0o4755), EPERM),
        (257, (-100, 0, 0, 0o4755), ALLOW),  # creates nothing
        (257, (-100, 0, 0o20200000, 0o2755), EPERM),  # O_TMPFILE
        (2, (0, 0o101, 0o6755), EPERM),
        (90, (0, 0o755), ALLOW),  # chmod
        (90, (0, 0o2755), EPERM),
        (452, (-100, 0, 0o4755), EPERM),
        (437, (), ENOSYS),  # openat2
        (435, (), ENOSYS),  # clone3
        (56, (0x1200011,), ALLOW),  # clone as fork does it
        (56, (0x3D0F00,), ALLOW),  # a thread
        (56, (0x10000011,), EPERM),
        (272, (0x200,), ALLOW),  # unshare of files
        (272, (0x80,), EPERM),
        (16, (0, 0x5401), ALLOW),  # ioctl
        (16, (0, 0x5412), EPERM),
        (16, (0, 0x100005412), EPERM),  # the kernel looks at the low half only, and so does the filter
        (16, (0, 0x541C), EPERM),
        (41, (1, 1, 0), ALLOW),
        (41, (2, 1, 0), ALLOW),
        (41, (10, 2, 0), ALLOW),
        (41, (16, 3, 0), ALLOW),  # routes
        (41, (16, 3, 9), FAMILY),  # audit
        (41, (17, 3, 0), FAMILY),
        (41, (38, 5, 0), FAMILY),
        (41, (40, 1, 0), FAMILY),
        (53, (1, 1, 0), ALLOW),
        (53, (16, 3, 0), EPERM),
        (302, (0,), ALLOW),  # prlimit64 of oneself
        (302, (1,), EPERM),
        (135, (0,), ALLOW),
        (135, (0xFFFFFFFF,), ALLOW),
        (135, (0x40000,), EPERM),
        (101, (), EPERM),
        (165, (), EPERM),
        (250, (), EPERM),
        (425, (), EPERM),
        (29, (), ALLOW),  # shmget, in a namespace of its own
        (0x40000000 + 39, (), KILL),
    ],
)
def test_a_call_is_answered_by_the_table(number: int, arguments: tuple[int, ...], expected: int) -> None:
    """In namespaces of its own a program has sockets and shared memory, but none of the rest."""
    assert answer(INNER, number, *arguments) == expected


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [(41, (1, 1, 0), FAMILY), (41, (2, 1, 0), FAMILY), (41, (16, 3, 0), FAMILY), (53, (1,), ALLOW), (29, (), EPERM)],
)
def test_without_namespaces_no_socket_leads_out(number: int, arguments: tuple[int, ...], expected: int) -> None:
    """Only pairs of sockets are left, and no memory shared by key."""
    assert answer(BARE, number, *arguments) == expected


@given(st.integers(0, 500), st.lists(st.integers(0, 2**64 - 1), max_size=6), st.integers(0, 2**32 - 1))
def test_calls_of_another_machine_are_always_killed(number: int, arguments: list[int], arch: int) -> None:
    """Whatever the call."""
    if arch != ARCH["x86_64"]:
        assert answer(INNER, number, *arguments, arch=arch) == KILL


@given(
    st.sampled_from(["x86_64", "aarch64"]), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 2**64 - 1), max_size=6),
)  # fmt: skip
def test_every_call_gets_an_answer(
    machine: Literal["x86_64", "aarch64"], network: bool, unix: bool, ipc: bool, number: int, arguments: list[int]
) -> None:
    """No jump leads out of the program, and less confinement is never denied what more allows."""
    found = answer(Filter(machine, network, unix, ipc), number, *arguments)
    assert found in (ALLOW, KILL, EPERM, ENOSYS, FAMILY)
    if found == ALLOW:
        assert answer(Filter(machine, True, True, True), number, *arguments) == ALLOW


def test_a_machine_without_a_table_is_not_supported() -> None:
    """There is no filter by guessing."""
    assert [supported(name) for name in ("x86_64", "aarch64", "riscv64", "")] == [True, True, False, False]
