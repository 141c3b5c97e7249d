"""The filter of system calls, as the kernel reads it. Pure: a table by machine, and the program made of it.

Denied are new namespaces and mounts, other processes' memory, kernel interfaces with a long record of holes, sockets
of families no tool needs, setuid bits, and typing into a terminal. What comes by another machine's calls is killed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

from handrail.words import noun

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_SET_ID_BITS = 0o6000
_CREATES = 0x400040  # O_CREAT, O_TMPFILE
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_TYPES_INTO_TERMINALS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_AS_IT_IS = 0xFFFFFFFF  # personality: only asks

# name: x86_64, aarch64; None where a machine does not have it
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "userfaultfd": (323, 282), "bpf": (321, 280),
    "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443), "syslog": (103, 116), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "vhangup": (153, 58), "fanotify_init": (300, 262), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "memfd_secret": (447, 447), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "uselib": (134, None),
    "ustat": (136, None), "sysfs": (139, None), "vmsplice": (278, 75),
}  # fmt: skip
_SYSV = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "semtimedop": (220, 192), "mq_open": (240, 180),
}  # fmt: skip
# name: numbers, and which argument is the mode
_MODES: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "chmod": ((90, None), 1), "fchmod": ((91, 52), 1), "fchmodat": ((268, 53), 2), "fchmodat2": ((452, 452), 2),
    "creat": ((85, None), 1), "mknod": ((133, None), 1), "mknodat": ((259, 33), 2),
}  # fmt: skip
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_Step = tuple[int, int, int, int]


@noun
class Filter:
    """What a filter is made for."""

    machine: str
    network: bool  # sockets of the internet's families: only in a network namespace of its own
    unix: bool  # sockets that could reach others by a path
    ipc: bool  # System V and POSIX message queues: only in a namespace of its own


def supported(machine: str) -> bool:
    """Whether there is a table for a machine."""
    return machine in _MACHINES


@lru_cache(maxsize=8)
def program(wanted: Filter) -> bytes:
    """Write the filter as the kernel takes it."""
    column, architecture = _MACHINES[wanted.machine]
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    steps += [(_LOAD, 0, 0, _NUMBER)]
    if wanted.machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    steps += [step for block in _blocks(wanted, column) for step in block]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, yes, no, value in steps)


def _blocks(wanted: Filter, column: int) -> Iterator[list[_Step]]:
    """The rules, those about frequent calls first."""
    yield from _opens(column)
    yield _one_of_argument((16, 29)[column], 1, _TYPES_INTO_TERMINALS, deny=True)
    yield _no_bits((56, 220)[column], 0, _NEW_NAMESPACES)
    yield _answer(435, _ENOSYS)  # clone3: its flags lie in memory, where no filter looks
    yield _answer(437, _ENOSYS)  # openat2: so do its mode bits
    yield from _sockets(wanted, column)
    for numbers, argument in _MODES.values():
        if (number := numbers[column]) is not None:
            yield _no_bits(number, argument, _SET_ID_BITS)
    yield _no_bits((272, 97)[column], 0, _NEW_NAMESPACES | _NEW_TIME)
    yield _one_of_argument((302, 261)[column], 0, (0,))  # prlimit64: of oneself
    yield _one_of_argument((135, 92)[column], 0, (0, _AS_IT_IS))  # personality
    for numbers in (*_CALLS.values(), *(() if wanted.ipc else _SYSV.values())):
        if (number := numbers[column]) is not None:
            yield _answer(number, _EPERM)


def _opens(column: int) -> Iterator[list[_Step]]:
    """No file is made with a setuid or setgid bit."""
    for number, flags in (((2, None)[column], 1), ((257, 56)[column], 2)):
        if number is not None:
            yield _about(
                number,
                [
                    (_LOAD, 0, 0, _argument(flags)),
                    (_ANY_BIT, 0, 3, _CREATES),
                    (_LOAD, 0, 0, _argument(flags + 1)),
                    (_ANY_BIT, 0, 1, _SET_ID_BITS),
                    (_RETURN, 0, 0, _ERRNO | _EPERM),
                ],
            )


def _sockets(wanted: Filter, column: int) -> Iterator[list[_Step]]:
    """Sockets of a few families; of the kernel's own family only the one that lists interfaces."""
    families = (_UNIX,) * wanted.unix + (_INET, _INET6) * wanted.network
    number, pair = ((41, 53), (198, 199))[column]
    if wanted.network:
        routes: list[_Step] = [
            (_LOAD, 0, 0, _argument(0)),
            (_EQUAL, 0, 3, _NETLINK),
            (_LOAD, 0, 0, _argument(2)),
            (_EQUAL, 0, 1, 0),
            (_RETURN, 0, 0, _ALLOW),
            (_LOAD, 0, 0, _NUMBER),
        ]
        yield [(_EQUAL, 0, len(routes), number), *routes]
    yield _one_of_argument(number, 0, families, answer=_EAFNOSUPPORT)
    yield _one_of_argument(pair, 0, (_UNIX,))


def _argument(index: int) -> int:
    """Where the low half of an argument lies; all that are looked at are no wider."""
    return _ARGUMENTS + 8 * index


def _about(number: int, steps: list[_Step]) -> list[_Step]:
    """Judge one call; what falls through is allowed."""
    whole = [*steps, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(whole), number), *whole]


def _answer(number: int, errno: int) -> list[_Step]:
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno)]


def _no_bits(number: int, argument: int, bits: int) -> list[_Step]:
    return _about(
        number,
        [(_LOAD, 0, 0, _argument(argument)), (_ANY_BIT, 0, 1, bits), (_RETURN, 0, 0, _ERRNO | _EPERM)],
    )


def _one_of_argument(
    number: int, argument: int, values: tuple[int, ...], *, deny: bool = False, answer: int = _EPERM
) -> list[_Step]:
    """Allow a call with one of some values only, or with none of them."""
    refused: _Step = (_RETURN, 0, 0, _ERRNO | answer)
    allowed: _Step = (_RETURN, 0, 0, _ALLOW)
    tests: list[_Step] = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    ends = [allowed, refused] if deny else [refused, allowed]
    steps = [(_LOAD, 0, 0, _argument(argument)), *tests, *ends]
    return [(_EQUAL, 0, len(steps), number), *steps]
