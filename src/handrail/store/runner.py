"""Who makes a call: a process by its number and start, so that another one with the same number is not taken for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def describe_process() -> dict[str, Any]:
    """Name this process."""
    return {"pid": os.getpid(), "since": _start_of(os.getpid()), "boot": _read_boot()}


def is_alive(runner: Mapping[str, Any]) -> bool:
    """Whether the process that `describe_process` named still runs on this machine."""
    pid = runner.get("pid")
    if not isinstance(pid, int) or runner.get("boot") != _read_boot():
        return False
    return runner.get("since") == _start_of(pid) != ""


def _start_of(pid: int) -> str:
    """Read when a process was started, in ticks since the machine was; empty where there is none, or a dead one."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    fields = line.rpartition(")")[2].split()  # the name before may hold anything
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]


@cache
def _read_boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "-"
