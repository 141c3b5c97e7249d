"""Telling a person that a request waits: the terminal's bell, or a command of theirs.

The command runs outside the sandbox, so it comes from the person's own settings, and its program never lies beneath a
folder that tools may write. It is given texts as arguments; no shell reads them.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from handrail.approvals.show import visible
from handrail.ports import Request
from handrail.sandbox.executables import find_executable, why_refused

log = logging.getLogger("handrail")

BELL = "bell"
_SECONDS = 20.0  # that a command may take
_MOST_TEXT = 300  # characters of a text that it is given

Notify = Callable[[Request], None]


def notifier(setting: str | None, writable: Iterable[str]) -> Notify | None:
    """Give what tells of a request, as `approvals.notify` says; None where nothing does."""
    if not setting:
        return None
    if setting == BELL:
        return lambda _: ring_bell()
    argv = split_command(setting)
    program = _find_program(argv[0], tuple(writable))
    return lambda request: _start([program, *(fill_in(word, request) for word in argv[1:])])


def why_no_notifier(setting: str, writable: Iterable[str]) -> str:
    """Say why a command cannot be taken; empty where it can."""
    if setting == BELL:
        return ""
    try:
        argv = split_command(setting)
    except ValueError as error:
        return f"cannot be read as words ({error}); quote it as in a shell"
    if "/" in argv[0]:
        why = why_refused(argv[0], writable)
        return f"{argv[0]} {why}" if why else ""
    if not _find_program(argv[0], tuple(writable)):
        return f"{argv[0]} is not found in the system's folders; write the program's whole path"
    return ""


def split_command(setting: str) -> list[str]:
    """Take a command apart as a shell does; ValueError where it has no words or a quote does not end."""
    words = shlex.split(setting)
    if not words:
        raise ValueError("no words")
    return words


def fill_in(word: str, request: Request) -> str:
    """Put what a request says in the place of `{text}`, `{id}` and `{workspace}`."""
    # Each begins with a character that no program takes for an option: a name of a tool, an id, a slash.
    text = f"{request.tool}: {request.reason} ({os.path.basename(request.workspace)})"
    for name, value in (("{text}", text), ("{id}", request.id), ("{workspace}", request.workspace)):
        word = word.replace(name, visible(value)[:_MOST_TEXT])
    return word


def ring_bell() -> None:
    """Ring the bell of the terminal that this process belongs to, where there is one."""
    with suppress(OSError):
        handle = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(handle, b"\a")
        finally:
            os.close(handle)


def _find_program(name: str, writable: tuple[str, ...]) -> str:
    if "/" in name:
        return "" if why_refused(name, writable) else name
    return find_executable(name, writable) or ""


def _start(argv: Sequence[str]) -> None:
    """Run a command beside everything else: a call never waits for it."""
    threading.Thread(target=_run, args=(argv,), daemon=True).start()


def _run(argv: Sequence[str]) -> None:
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv,
            cwd="/",
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            timeout=_SECONDS,
            check=False,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        log.warning("approvals.notify: %s could not tell of a request: %s", argv[0], error)
        return
    if done.returncode != 0:
        log.warning("approvals.notify: %s ended with exit code %d", argv[0], done.returncode)
