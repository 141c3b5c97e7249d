"""Ending the hook daemon of an account."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time

from handrail.hooks import client

SECONDS = 10.0


def find_daemon(state: str) -> int:
    """Give the process that answers at the daemon's socket; 0 where there is none of this account."""
    folder = client.folder_of(state)
    if not client.is_private(folder):
        return 0
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(f"/proc/self/fd/{handle}/{client.SOCKET}")
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        return 0
    finally:
        os.close(handle)
    pid, uid, _ = struct.unpack("iII", peer)
    return int(pid) if uid == os.geteuid() else 0


def end_daemon(state: str) -> bool:
    """Ask the daemon to end, and wait until it has; False where there was none."""
    pid = find_daemon(state)
    if not pid:
        return False
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if _is_gone(pid):
            return True
        time.sleep(0.02)
    return True


def _is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True
