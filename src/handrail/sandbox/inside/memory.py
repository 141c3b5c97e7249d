"""The memory that a tree of processes holds, shared memory counted once."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # as `typing` has it, without the time it takes to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")
_BLOCK = 512
_SHARE = 20  # of the time at most one part in so many goes into the dear looks


class Memory:
    """Measures the processes that a function lists, with the cheapest look that can say no.

    A process's own memory is read from `statm`. Shared memory is looked for only where the machine's whole shared
    memory would exceed the bound: first what descriptors and System V segments hold, then what is only mapped.
    """

    def __init__(self, processes: Callable[[], Iterable[int]], most: int, *, segments: bool) -> None:
        """Take what lists the processes; `segments` says that all System V segments in sight are theirs."""
        self._processes = processes
        self._segments = segments
        self._most = most
        self._device = _shared_device()
        self._at_start = _shared_of_machine()
        self._not_before = 0.0

    def excess(self) -> int:
        """Return how many bytes are held if they exceed the bound; else 0."""
        pids = list(self._processes())
        own, mapped = _resident(pids)
        if own > self._most:
            return own
        shared = _shared_of_machine()
        began = time.monotonic()
        if own + shared <= self._most or began < self._not_before:
            return 0
        held = own + self._shared(pids, shared, mapped, self._most - own)
        self._not_before = began + _SHARE * (time.monotonic() - began)
        return held if held > self._most else 0

    def _shared(self, pids: list[int], of_machine: int, mapped: int, room: int) -> int:
        objects: dict[int, int] = {}
        readable = [_open_objects(pid, self._device, objects) for pid in pids]
        held = sum(objects.values())
        if self._segments:
            held += _segments()
        if not all(readable):  # a process that hides its descriptors answers for what the machine has more than before
            held = max(held, of_machine - self._at_start)
        if held > room or held + mapped <= room:
            return held
        return held + sum(self._mapped_alone(pid, objects) for pid in pids)

    def _mapped_alone(self, pid: int, objects: dict[int, int]) -> int:
        """Add up a process's part of shared mappings that were not counted yet."""
        device = f"{os.major(self._device):02x}:{os.minor(self._device):02x}".encode()
        counts = False
        total = 0
        for line in _read(f"/proc/{pid}/smaps").splitlines():
            if counts and line.startswith(b"Pss:"):
                total += int(line.split()[1]) * 1024
                counts = False
            elif b"-" in line.split(b" ", 1)[0]:
                fields = line.split(None, 5)
                counted = self._segments and len(fields) > 5 and fields[5].startswith(b"/SYSV")
                counts = fields[3] == device and int(fields[4]) not in objects and not counted
        return total


def _shared_device() -> int:
    """Return the device that memory files and shared mappings have."""
    fd = os.memfd_create("device")
    try:
        return os.fstat(fd).st_dev
    finally:
        os.close(fd)


def _resident(pids: list[int]) -> tuple[int, int]:
    """Add up what each process has for itself, and what each has mapped that others may have, too."""
    own = 0
    mapped = 0
    for pid in pids:
        fields = _read(f"/proc/{pid}/statm").split()
        if len(fields) > 2:
            own += int(fields[1]) - int(fields[2])
            mapped += int(fields[2])
    return own * _PAGE, mapped * _PAGE


def _shared_of_machine() -> int:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith(b"Shmem:"):
            return int(line.split()[1]) * 1024
    return 0


def _open_objects(pid: int, device: int, objects: dict[int, int]) -> bool:
    """Note each memory file that a process holds open with its size; False where this cannot be seen."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    for name in names:
        try:
            found = os.stat(f"{folder}/{name}")
        except OSError:
            continue  # closed meanwhile
        if found.st_dev == device:
            objects[found.st_ino] = found.st_blocks * _BLOCK
    return True


def _segments() -> int:
    """Add up the System V segments of this namespace, attached or not."""
    header, *lines = _read("/proc/sysvipc/shm").splitlines() or [b""]
    names = header.split()
    if b"rss" not in names:
        return 0
    column = names.index(b"rss")
    return sum(int(line.split()[column]) for line in lines)


def _read(path: str) -> bytes:
    """Read a file of the kernel; one that is gone or closed to us is empty."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    found = b""
    try:
        while piece := os.read(fd, 1 << 16):
            found += piece
    except OSError:
        pass
    finally:
        os.close(fd)
    return found
