"""A real `handrail serve` for tests: a process, its identities, and a small client."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

ROLES = ("caller", "approver", "auditor", "admin")
CONFIG = """
[tools]
enable = ["fs", "exec"]
[approvals]
max_scope = "always"
{more}
[serve.workspaces]
demo = {{ path = "{work}" }}
"""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class Client:
    """One identity, or nobody, over one kept connection."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url, self.token = url, token
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, path: str, /, body: Any = None, headers: Mapping[str, str] | None = None, **query: Any
    ) -> Answer:
        """Ask, once more where a kept connection was closed meanwhile."""
        told = {"accept": "application/json", **(headers or {})}
        if self.token is not None:
            told.setdefault("authorization", f"Bearer {self.token}")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            told.setdefault("content-type", "application/json")
        target = f"{path}?{urlencode(query)}" if query else path
        for again in (True, False):
            if self._connection is None:
                parts = urlsplit(self.url)
                self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=70)
            try:
                self._connection.request(method, target, data, told)
                response = self._connection.getresponse()
                return Answer(response.status, dict(response.getheaders()), response.read())
            except (OSError, http.client.HTTPException):
                self.close()
                if not again:
                    raise
        raise AssertionError

    def get(self, path: str, /, **query: Any) -> Answer:
        """Ask for something."""
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any = None) -> Answer:
        """Ask for a change."""
        return self.ask("POST", path, {} if body is None else body)

    def call(self, tool: str, args: Mapping[str, Any], workspace: str = "demo", **more: Any) -> Answer:
        """Make a call."""
        return self.post("/v1/calls", {"tool": tool, "args": args, "workspace": workspace, **more})

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Served:
    """A service in a process of its own, with a home of its own."""

    def __init__(self, home: Path, work: Path, more: str = "") -> None:
        self.home, self.work = home, work
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.tokens: dict[str, str] = {}
        self._clients: dict[tuple[str | None, int, str], Client] = {}
        self.error = home / "serve.err"
        file = home / "config" / "handrail" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CONFIG.format(work=work, more=more))

    @property
    def state(self) -> Path:
        """The folder of runs, ledger and identities."""
        return self.home / "state" / "handrail"

    @property
    def env(self) -> dict[str, str]:
        """The environment of a user whose home this is."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HANDRAIL_", "XDG_"))}
        folders = {f"XDG_{name.upper()}_HOME": str(self.home / name) for name in ("state", "config", "cache")}
        return {**kept, **folders, "HOME": str(self.home), "PYDANTIC_DISABLE_PLUGINS": "__all__"}

    def start(self, *words: str) -> None:
        """Start the service, and wait until it listens."""
        argv = [sys.executable, "-m", "handrail", "serve", "--port", "0", *words]
        with open(self.error, "ab") as error:
            before = self.error.stat().st_size
            self.process = subprocess.Popen(argv, env=self.env, stderr=error, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            said = self.error.read_bytes()[before:].decode(errors="replace")
            if found := [line for line in said.splitlines() if line.startswith("listening on ")]:
                self.url = found[0].removeprefix("listening on ")
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"the service did not start: {self.error.read_text()}")

    def stop(self, with_signal: int = signal.SIGTERM) -> None:
        """End the service."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        if self.process is not None:
            self.process.send_signal(with_signal)
            self.process.wait(20)
            self.process = None

    def run(self, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run the command line as this user."""
        argv = [sys.executable, "-m", "handrail", *words]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60, check=False, **how)

    def add(self, *roles: str) -> None:
        """Make an identity for each role, called as the role."""
        from handrail.service.identities import DATABASE, Identities
        from handrail.testing import FixedClock

        identities = Identities(self.state / DATABASE, FixedClock(time.time()))
        for role in roles:
            if identities.find(role) is None:
                self.tokens[role] = identities.add(role, [role])
            else:
                self.tokens[role] = identities.renew(role)
        identities.close()

    def client(self, role: str | None = None) -> Client:
        """Give this thread's client with the role's token; none: nobody's. It is closed with the service."""
        key = (role, threading.get_ident(), self.url)
        if key not in self._clients:
            self._clients[key] = Client(self.url, None if role is None else self.tokens[role])
        return self._clients[key]


@contextmanager
def serving(home: Path, work: Path, more: str = "", *words: str) -> Iterator[Served]:
    """Serve for a while, with one identity for each role."""
    served = Served(home, work, more)
    work.mkdir(exist_ok=True)
    served.start(*words)
    served.add(*ROLES)
    try:
        yield served
    finally:
        served.stop()


def grant(served: Served, request_id: str, answer: str = "once", role: str = "approver") -> Answer:
    """Read a request as a person does, and answer it with its digest."""
    client = served.client(role)
    shown = client.get(f"/v1/approvals/{request_id}").json
    return client.post(f"/v1/approvals/{request_id}/answer", {"answer": answer, "digest": shown.get("digest", "")})


def until(found: Any, seconds: float = 10.0) -> Any:
    """Look until there is something; the last look's answer."""
    end = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.02)
    return value
