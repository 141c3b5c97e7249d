"""The hook daemon: one process an account that owns the runs of all agents, started by the first hook.

It answers on a UNIX socket in the user's state folder, only to processes of the same account. It ends after a while
without hooks, and when the code that it was started from has been replaced.
"""

from __future__ import annotations

import os
import sys

# Nothing for Handrail comes from a folder that no installer made; said before anything else is loaded.
from handrail.own_imports import OWN_IMPORTS

OWN_IMPORTS.doubt_path()

import asyncio  # noqa: E402
import contextlib  # noqa: E402
import fcntl  # noqa: E402
import gc  # noqa: E402
import logging  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import struct  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

from handrail.hooks import client  # noqa: E402

if TYPE_CHECKING:
    from handrail.hooks.sessions import Sessions

log = logging.getLogger("handrail.hooks")

IDLE_SECONDS = 1800.0  # without any hook, after which it ends
RUN_SECONDS = 600.0  # without a hook of its session, after which a run is closed
LOOK_SECONDS = 5.0
HEAD_BYTES = 1024
READ_SECONDS = 30.0


def listen(folder: str) -> socket.socket:
    """Open the socket; whoever holds the lock of the folder may take the place of one that is left over."""
    os.chdir(folder)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(client.SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(client.SOCKET)
    finally:
        os.umask(before)
    listener.listen(1024)
    listener.setblocking(False)
    return listener


class Daemon:
    """Answers hooks for as long as there are any."""

    def __init__(self, sessions: Sessions, idle_seconds: float = IDLE_SECONDS) -> None:
        self._sessions, self._idle_seconds = sessions, idle_seconds
        self._stamp = client.stamp()
        self._busy = 0
        self._used = 0.0
        self._ends = asyncio.Event()
        self._endings: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until nobody has asked for a while, or the code was replaced."""
        loop = asyncio.get_running_loop()
        self._used = loop.time()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ends.set)
        server = await asyncio.start_unix_server(self._meet, sock=listener, limit=client.MOST_BYTES)
        async with server:
            while not self._ends.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ends.wait(), LOOK_SECONDS)
                await self._sessions.close_idle(RUN_SECONDS)
                if not self._busy and loop.time() - self._used > self._idle_seconds:
                    break
            server.close()
            while self._busy:  # noqa: ASYNC110  a few hooks at the very end
                await asyncio.sleep(0.02)
        if self._endings:
            await asyncio.wait(self._endings)
        await self._sessions.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._busy += 1
        try:
            await self._answer(reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError, TimeoutError) as error:
            log.warning("a hook was not answered: %s", error)
        finally:
            self._busy -= 1
            self._used = asyncio.get_running_loop().time()
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid = _peer(writer.get_extra_info("socket"))
        if uid != os.geteuid():
            return
        async with asyncio.timeout(READ_SECONDS):
            words = (await reader.readuntil(b"\n"))[:HEAD_BYTES].split()
            if len(words) != 6 or words[0] != client.MARK:
                return
            if words[1] != self._stamp:
                self._ends.set()
                return
            agent, event, seconds, size = words[2].decode(), words[3].decode(), float(words[4]), int(words[5])
            if agent not in client.BEFORE or size > client.MOST_BYTES:
                return
            data = await reader.readexactly(size)
        told = await self._decide(reader, agent, "" if event == "-" else event, data, seconds, pid)
        if told is not None:
            writer.write(b"%b %d\n%b" % (client.MARK, len(told), told))
            await writer.drain()

    async def _decide(
        self, reader: asyncio.StreamReader, agent: str, event: str, data: bytes, seconds: float, pid: int
    ) -> bytes | None:
        """Decide, unless the agent gives up meanwhile: then nobody is asked any longer."""
        from handrail.hooks.answering import answer

        deciding = asyncio.ensure_future(answer(self._sessions, agent, data, event, seconds - 1.0, pid))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((deciding, gone), return_when=asyncio.FIRST_COMPLETED)
        if not deciding.done():
            deciding.cancel()
            await asyncio.wait((deciding,))
        gone.cancel()
        if deciding.cancelled():
            return None
        self._close_ended(agent, data, event)
        return deciding.result()

    def _close_ended(self, agent: str, data: bytes, event: str) -> None:
        """Close the run of a session that has ended, once its hook is answered."""
        from handrail.hooks.agents import AGENTS
        from handrail.hooks.payloads import BrokenPayload, Stage, read_payload

        if b'"SessionEnd"' not in data:
            return
        with contextlib.suppress(BrokenPayload):
            payload = read_payload(AGENTS[agent], data, event)
            if payload.stage is Stage.END:
                task = asyncio.ensure_future(self._sessions.end(AGENTS[agent], payload))
                self._endings.add(task)
                task.add_done_callback(self._endings.discard)


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Tell the process and the account at the other end."""
    pid, uid, _ = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def main(words: list[str]) -> None:
    """Run the daemon: the state folder, and the handle of the lock that its starter took."""
    state, lock = words[0], int(words[1])
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.set_inheritable(lock, False)
    folder = client.folder_of(state)
    if not client.is_private(folder):
        raise SystemExit(f"{folder} is not a private folder of this account")
    listener = listen(folder)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.set_threshold(100_000, 50, 100)
    from handrail.hooks.sessions import Sessions

    asyncio.run(_serve(Sessions(), listener))
    os._exit(0)


async def _serve(sessions: Sessions, listener: socket.socket) -> None:
    await Daemon(sessions).serve(listener)


if __name__ == "__main__":
    main(sys.argv[1:])
