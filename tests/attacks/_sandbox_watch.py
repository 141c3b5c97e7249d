"""Looks from outside at what programs use that try to use too much: processes, memory, files, processor time."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from attacks._sandbox_probes import WATCHED
from handrail.sandbox.plan import Bounds

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_SECONDS = 0.03
_TOGETHER_SECONDS = 2.0  # what processes hold together is measured four times a second, and ended then
_CPU_SECONDS = 0.5


@dataclass(slots=True)
class Used:
    """What a program and its children use at one time, or the most that was ever seen."""

    processes: int = 0
    memory: int = 0
    files: int = 0  # of one process
    stored: int = 0
    cpu: float = 0.0  # of one process

    def add(self, process: str) -> None:
        """Count one process; whoever started it may look at what it holds."""
        times = _text(f"{process}/stat").rpartition(")")[2].split()
        held = os.listdir(f"{process}/fd")
        memory = [line for line in _text(f"{process}/status").splitlines() if line.startswith("RssAnon:")]
        if not memory:
            return  # it has ended
        self.processes += 1
        self.memory += int(memory[0].split()[1]) * 1024
        self.files = max(self.files, len(held))
        self.stored += sum(_stored(f"{process}/fd/{number}") for number in held)
        self.cpu = max(self.cpu, (int(times[11]) + int(times[12])) / _TICKS)

    def most(self, other: Used) -> Used:
        """The greater of each."""
        return Used(*(max(getattr(self, field.name), getattr(other, field.name)) for field in fields(Used)))


class Watch:
    """The processes of the probes, found by the name that each gives itself and its children."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._mark = bounds, f"hr{os.getpid()}-"
        self.name = f"{self._mark}%d"
        self._most: dict[str, Used] = {}
        self._since: dict[str, float] = {}
        self._together = 0.0  # for how long the memory of one program's processes was over its bound

    def until(self, over: Callable[[], bool]) -> None:
        """Look again and again."""
        while not over():
            self._look()
            time.sleep(_EVERY_SECONDS)

    def _look(self) -> None:
        seen: dict[str, Used] = {}
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                name = _text(f"/proc/{number}/comm").strip()
                if name.startswith(self._mark):
                    now = seen.get(probe := WATCHED[int(name.removeprefix(self._mark))], Used())
                    now.add(f"/proc/{number}")
                    seen[probe] = now
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it ends; who is ending belongs to nobody but root
        for probe, used in seen.items():
            self._most[probe] = used.most(self._most.get(probe, Used()))
        self._time(seen.get("too-much-memory-together", Used()).memory > self._bounds.memory_bytes)

    def _time(self, over: bool) -> None:
        now = time.monotonic()
        began = self._since.setdefault("over", now) if over else self._since.pop("over", now)
        self._together = max(self._together, now - began)

    def over(self, probe: str) -> bool:
        """Whether a program used more than its bounds; what was never seen is not held to have kept them."""
        used, bounds = self._most.get(probe), self._bounds
        if used is None:
            return True
        return {
            "too-many-processes": used.processes > bounds.processes,
            "too-much-memory": used.memory > bounds.memory_bytes,
            "too-much-memory-together": self._together > _TOGETHER_SECONDS,
            "too-much-scratch": used.stored > bounds.scratch_bytes,
            "too-much-shared-memory": used.stored > bounds.scratch_bytes,
            "too-many-open-files": used.files > bounds.open_files,
            "too-much-processor-time": used.cpu > bounds.cpu_seconds + _CPU_SECONDS,
        }[probe]

    def told(self) -> dict[str, str]:
        """What was seen, for people."""
        return {probe: str(used) for probe, used in self._most.items()}


def _text(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def _stored(path: str) -> int:
    """The room that an open file takes."""
    try:
        seen = os.stat(path)
    except OSError:
        return 0
    return seen.st_blocks * 512 if stat.S_ISREG(seen.st_mode) else 0
