"""Whether an agent was started by a person at a terminal: looked up among the processes above a hook."""

from __future__ import annotations

import os
from collections.abc import Sequence

_MOST = 8  # processes above a hook that are looked at
_ONE_SHOT = ("-p", "--prompt")


def is_interactive(pid: int, name: str) -> bool:
    """Say whether an agent above a process reads from a terminal, and was given no prompt; False where in doubt."""
    for _ in range(_MOST):
        pid = _parent(pid)
        if pid <= 1:
            return False
        words = _words(pid)
        at = next((at for at, word in enumerate(words[:3]) if _is_program(word, name)), None)
        if at is not None:
            return _has_terminal(pid) and not _has_prompt(words[at + 1 :])
    return False


def _is_program(word: str, name: str) -> bool:
    return os.path.basename(word).partition(".")[0] == name or f"/{name}-cli/" in word


def _has_prompt(words: Sequence[str]) -> bool:
    """Say whether an agent was given what to do: by an option, or by a word that is no option's value."""
    if any(word in _ONE_SHOT or word.startswith(("-p=", "--prompt=")) for word in words):
        return True
    before = ("", *words)
    return any(not word.startswith("-") and not last.startswith("-") for last, word in zip(before, words, strict=False))


def _has_terminal(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/fd/0").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:
        return False


def _words(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read(65536).split(b"\0") if word]
    except OSError:
        return []


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
