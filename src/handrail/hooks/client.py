"""The client of the hook daemon: it reads one payload, asks, and prints one answer.

It imports nothing but built-in modules, since an agent starts it before every tool. Whatever goes wrong here ends in
the agent's own form of deny. The line that is installed prints such a deny, too, when this process ends non-zero.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

AGENTS = {"claude-code": "claude-code", "codex": "codex", "gemini-cli": "gemini-cli", "gemini": "gemini-cli"}
BEFORE = {"claude-code": "PreToolUse", "codex": "PreToolUse", "gemini-cli": "BeforeTool"}
PERMISSION = "PermissionRequest"
_CLAUDE = (
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":%b}}'
)
_DENY = {"claude-code": _CLAUDE, "codex": _CLAUDE, "gemini-cli": b'{"decision":"deny","reason":%b}'}
_DENY_PERMISSION = (
    b'{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":%b}}}'
)
MARK = b"handrail-hook-1"
SOCKET, LOCK, PLACE, LOG = "daemon.sock", "start.lock", "place.json", "daemon.log"
MOST_BYTES = 32 * 1024 * 1024
START_SECONDS = 5.0  # that a new daemon has to answer the door
SPARE_SECONDS = 5.0  # that are left of the hook's time to print an answer
# Without a word on how long the agent waits: less than its own default.
SECONDS = {"claude-code": 300.0, "codex": 300.0, "gemini-cli": 50.0}
# An agent, and a project's settings of one, choose the environment of a hook. These change what programs load or find.
DROPPED = ("HANDRAIL_", "PYTHON", "LD_", "DYLD_", "GIT_", "BASH_", "PYDANTIC_", "XDG_")
DROPPED_NAMES = ("HOME", "ENV", "SHELLOPTS", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
UNREADABLE = "Handrail could not read what the agent sent, so the call is denied. `handrail hook status` shows more."
UNREACHED = "Handrail could not decide in time, so the call is denied. `handrail hook status` shows what is wrong."


class Unreachable(Exception):
    """Nobody answers at the daemon's socket."""


def quoted(text: str) -> bytes:
    """Write a text as JSON."""
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(text.encode("utf-8", "replace").decode()).encode()


def denial(agent: str, event: str, reason: str) -> bytes:
    """Write the deny of an agent; a message to its person for an event at which nothing can be denied any more."""
    said = quoted(reason.strip() or UNREACHED)
    if event == PERMISSION and agent != "gemini-cli":
        return _DENY_PERMISSION % said
    return (_DENY[agent] if event in ("", BEFORE[agent]) else b'{"systemMessage":%b}') % said


def guess_event(agent: str, payload: bytes) -> str:
    """Tell which event a payload is about where it cannot be read: that of a dialog, or the one before a tool."""
    dialog = agent != "gemini-cli" and b'"PermissionRequest"' in payload and b'"PreToolUse"' not in payload
    return PERMISSION if dialog else BEFORE[agent]


def folder_of(state: str) -> str:
    """Name the folder of the socket."""
    return f"{state}/hooks"


def is_private(folder: str) -> bool:
    """Say whether a folder is ours, no link, and closed to others: only then a socket in it is ours."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return found.st_mode & 0o170000 == 0o040000 and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def is_held(folder: str) -> bool:
    """Say whether somebody holds the lock of a daemon; a socket that nobody stands behind is none of ours."""
    import fcntl

    try:
        lock = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def stamp() -> bytes:
    """Name this code, so that a daemon of another version is not asked."""
    found = os.stat(__file__)
    return b"%d-%d-%d" % (found.st_mtime_ns, found.st_size, found.st_ino)


def ask(folder: str, agent: str, event: str, payload: bytes, seconds: float) -> bytes:
    """Ask the daemon; Unreachable where there is none, or it ended before it answered."""
    import _socket

    if not is_private(folder) or not is_held(folder):
        raise Unreachable
    here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        os.chdir(folder)  # a socket's path has at most 107 bytes
        try:
            connection.connect(SOCKET)
        finally:
            os.fchdir(here)
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
            raise Unreachable
        connection.settimeout(seconds)
        head = b"%b %b %b %b %d %d\n" % (
            MARK, stamp(), agent.encode(), event.encode() or b"-", int(seconds), len(payload)
        )  # fmt: skip
        connection.sendall(head + payload)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    except TimeoutError:
        return denial(agent, event or guess_event(agent, payload), UNREACHED)
    except OSError:
        raise Unreachable from None
    finally:
        connection.close()
        os.close(here)
    mark, _, rest = answer.partition(b"\n")
    words = mark.split(b" ")
    if len(words) != 2 or words[0] != MARK or not words[1].isdigit() or int(words[1]) != len(rest):
        raise Unreachable
    return rest


def environment(state: str) -> dict[str, str]:
    """Give the environment of a daemon: what settings and code are found by is fixed, whoever starts it."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(DROPPED) and name not in DROPPED_NAMES
    }
    return {**kept, **_places(state), "XDG_STATE_HOME": os.path.dirname(state), "PYTHONNOUSERSITE": "1"}


def _places(state: str) -> dict[str, str]:
    """Read where the user's folders are, as it was when hooks were installed; else as this process has it."""
    named = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME") if name in os.environ}
    folder = folder_of(state)
    if not is_private(folder):
        return named
    import json

    try:
        with open(f"{folder}/{PLACE}", encoding="utf-8") as file:
            known = json.load(file)
    except (OSError, ValueError):
        return named
    texts = {name: value for name, value in known.items() if isinstance(value, str)} if isinstance(known, dict) else {}
    return texts or named


def start(state: str) -> None:
    """Start the daemon, unless somebody does so already; the lock that says so goes over to it."""
    import fcntl

    folder = folder_of(state)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not is_private(folder):
        os.chmod(folder, 0o700)
    lock = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return
    if os.path.lexists(f"{folder}/{SOCKET}"):
        os.unlink(f"{folder}/{SOCKET}")  # left over, or put there by somebody else
    log = os.open(f"{folder}/{LOG}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(lock, True)
    actions = [(os.POSIX_SPAWN_DUP2, nothing, 0), (os.POSIX_SPAWN_DUP2, nothing, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    words = [sys.executable, "-I", "-m", "handrail.hooks.daemon", state, str(lock)]
    os.posix_spawn(sys.executable, words, environment(state), file_actions=actions, setsid=True)
    for handle in (lock, log, nothing):
        os.close(handle)


def reach(state: str, agent: str, event: str, payload: bytes, seconds: float) -> bytes:
    """Ask the daemon, and start it where there is none; Unreachable where none comes up."""
    folder = folder_of(state)
    until = monotonic() + min(START_SECONDS, seconds)
    pause = 0.005
    while True:
        try:
            return ask(folder, agent, event, payload, max(1.0, seconds))
        except Unreachable:
            if monotonic() > until:
                raise
        start(state)
        sleep(pause)
        pause = min(pause * 1.5, 0.1)


def decide_alone(state: str, agent: str, event: str, payload: bytes, seconds: float) -> NoReturn:
    """Become the process that decides by itself; the payload is its input."""
    handle = os.memfd_create("payload")
    os.write(handle, payload)
    os.lseek(handle, 0, os.SEEK_SET)
    os.dup2(handle, 0)
    words = [sys.executable, "-I", "-m", "handrail.hooks.alone", agent, event or "-", str(int(seconds))]
    os.execve(sys.executable, words, environment(state))  # noqa: S606  this very interpreter


def read_input() -> bytes:
    """Read the payload; ValueError where it is too large."""
    parts = []
    size = 0
    while part := os.read(0, 1 << 20):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ValueError("the payload is too large")
    return b"".join(parts)


def put(answer: bytes) -> NoReturn:
    """Print the answer whole, and end."""
    while answer:
        answer = answer[os.write(1, answer) :]
    os._exit(0)


def option(words: Sequence[str], name: str, default: str) -> str:
    """Find the value of an option."""
    return words[words.index(name) + 1] if name in words[:-1] else default


def default_state() -> str:
    """Name the state folder as the environment has it; for a hook that was not installed."""
    base = os.environ.get("XDG_STATE_HOME", "")
    home = os.environ.get("HOME", "")
    return f"{base if base.startswith('/') else f'{home}/.local/state'}/handrail"


def main(words: Sequence[str], alone: Callable[..., NoReturn] = decide_alone) -> NoReturn:
    """Answer one hook: `AGENT [EVENT] [--state FOLDER] [--seconds N] [--no-daemon]`."""
    agent = AGENTS[words[0]]
    event = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
    state = option(words, "--state", default_state())
    given = float(option(words, "--seconds", str(SECONDS[agent])))
    seconds = given - min(SPARE_SECONDS, given / 2)
    payload = b""
    try:
        payload = read_input()
        if "--no-daemon" in words:
            alone(state, agent, event, payload, seconds)
        put(reach(state, agent, event, payload, seconds))
    except Unreachable:
        alone(state, agent, event, payload, seconds)
    except (OSError, ValueError) as error:
        put(denial(agent, event or guess_event(agent, payload), f"{UNREACHED} ({error})"))


if __name__ == "__main__":
    main(sys.argv[1:])
