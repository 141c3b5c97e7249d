"""Names of processes that own a task: a number can be used again, so the moment of its start belongs to it."""

from __future__ import annotations

import os
from pathlib import Path


def name_owner() -> str:
    """Name this process: its number, when it started, and the machine's boot."""
    return f"{os.getpid()}:{_started(os.getpid())}:{_boot()}"


def is_alive(owner: str) -> bool:
    """Whether the process of this name still runs on this machine."""
    number, _, rest = owner.partition(":")
    started, _, boot = rest.partition(":")
    if not number.isdigit() or boot != _boot():
        return False
    return _started(int(number)) == started != ""


def _started(process: int) -> str:
    """Return when a process started, in ticks since boot; empty where there is none, or it is a zombie."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
