"""Telling people that a request waits: a command of theirs, an ntfy topic. Each carries a link, and no content.

The link needs the device's own login. What is told is the tool and the workspace's name: a topic may be public, and a
command may print.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from handrail.ports import Request
from handrail.settings import Settings

log = logging.getLogger("handrail.service")
SECONDS = 15.0  # that a way may take
_MOST_KEPT = 20
_MOST_AT_ONCE = 50  # of new requests; of more, one message tells


class Telling:
    """Tells of each new request that still waits after a moment, once; keeps how that ended."""

    def __init__(self, settings: Settings, url: Callable[[], str], writable: Sequence[str]) -> None:
        self._settings, self._url, self._writable = settings.notify, url, tuple(writable)
        self._since = time.time()
        self._told: dict[str, float] = {}
        self.tried: deque[dict[str, Any]] = deque(maxlen=_MOST_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_set(self) -> bool:
        """Whether settings name a way."""
        return bool(self._settings.command or self._settings.ntfy)

    def look(self, pending: Sequence[Request], now: float) -> None:
        """Tell of what is new and has waited long enough."""
        known = {request.id for request in pending}
        self._told = {name: at for name, at in self._told.items() if name in known}
        due = [
            request
            for request in pending
            if request.created >= self._since
            and now - request.created >= self._settings.after_seconds
            and request.id not in self._told
        ]
        for request in due:
            self._told[request.id] = now
        if len(due) > _MOST_AT_ONCE:
            self._tell(f"{len(due)} requests wait for an answer", "/", due[-1])
            return
        for request in due:
            where = request.workspace.rstrip("/").rpartition("/")[2] or "/"
            self._tell(f"{request.tool} in {where} waits for an answer", f"/requests/{request.id}", request)

    def _tell(self, text: str, path: str, request: Request) -> None:
        link = f"{self._url()}{path}"
        if self._settings.ntfy:
            self._start("ntfy", self._publish(text, link))
        if self._settings.command:
            news = {"event": "approval.required", "message": text, "url": link, "request": request.id}
            told = {**news, "agent": request.caller, "workspace": request.workspace, "run": request.run_id}
            self._start("command", self._run(json.dumps(told).encode()))

    def _start(self, way: str, work: Any) -> None:
        async def watched() -> None:
            problem = ""
            try:
                async with asyncio.timeout(SECONDS):
                    await work
            except TimeoutError:
                problem = f"took longer than {SECONDS:g} s"
            except Exception as error:  # noqa: BLE001  (nobody is held up because nobody could be told)
                problem = str(error) or type(error).__name__
            if problem:
                log.warning("notify: %s: %s", way, problem)
            self.tried.appendleft({"way": way, "at": time.time(), "ok": not problem, "problem": problem})

        task = asyncio.ensure_future(watched())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _publish(self, text: str, link: str) -> None:
        """Post to a topic: a title, a line, and what a tap opens."""
        import aiohttp

        assert self._settings.ntfy is not None
        headers = {"Title": "Handrail", "Click": link, "Tags": "hand", "Priority": "high"}
        name = self._settings.ntfy_token_env
        if name and (token := os.environ.get(name)):
            headers["Authorization"] = f"Bearer {token}"
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.post(self._settings.ntfy, data=text.encode(), headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status >= 300:
                raise OSError(f"the server answered {answer.status}")

    async def _run(self, news: bytes) -> None:
        """Start the person's own program with the news on its input; nothing beneath a workspace is ever started."""
        from handrail.sandbox.executables import why_refused

        command = self._settings.command
        if why := why_refused(command[0], self._writable):
            raise OSError(f"{command[0]} {why}")
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet, cwd="/", start_new_session=True
        )
        try:
            await process.communicate(news)
        except asyncio.CancelledError:
            process.kill()
            raise
        if process.returncode != 0:
            raise OSError(f"{command[0]} ended with {process.returncode}")
