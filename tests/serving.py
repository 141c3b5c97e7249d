"""Servers on loopback for tests: whole answers, broken ones, a canary; and a runtime that may reach them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from handrail import Runtime
from handrail.words import Outcome

LOOPBACK = ["127.0.0.0/8", "::1/128"]
Serve = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


class Asked:
    """One request as a server saw it."""

    def __init__(self, head: bytes, body: bytes = b"") -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = first.split(" ", 2)
        self.path = self.target.partition("?")[0]
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        self.body = body


class Server:
    """Answers by path; keeps what it was asked. Paths that nobody serves give 404."""

    def __init__(self, host: str = "127.0.0.1", tls: Any = None) -> None:
        self.host, self._tls = host, tls
        self.port = 0
        self.asked: list[Asked] = []
        self.connections = 0
        self.answers: dict[str, Serve] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    def url(self, path: str = "/", host: str | None = None) -> str:
        """A URL of this server, by another name where one is given."""
        scheme = "http" if self._tls is None else "https"
        shown = host or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"{scheme}://{shown}:{self.port}{path}"

    def on(
        self, path: str, body: bytes | str = b"", status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer a path with this."""
        data = body.encode() if isinstance(body, str) else body

        async def serve(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(data if asked.method != "HEAD" else b"", status, headers, len(data)))

        self.answers[path] = serve

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in self.asked]

    async def start(self) -> None:
        """Listen on a port that is free."""
        self._server = await asyncio.start_server(self._serve, self.host, 0, ssl=self._tls, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                asked = Asked(head)
                asked.body = await reader.readexactly(int(asked.headers.get("content-length", "0")))
                self.asked.append(asked)
                serve = self.answers.get(asked.path)
                if serve is None:
                    writer.write(answer(b"nothing here", 404))
                else:
                    await serve(asked, writer)
                await writer.drain()
                if writer.is_closing() or asked.headers.get("connection") == "close":
                    return
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            with suppress(Exception):
                writer.close()


def answer(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, length: int | None = None
) -> bytes:
    """A whole answer."""
    given = {"Content-Type": "text/plain", "Content-Length": str(len(body) if length is None else length)}
    lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in {**given, **(headers or {})}.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@asynccontextmanager
async def serving(host: str = "127.0.0.1", tls: Any = None) -> AsyncIterator[Server]:
    """A server while it is needed."""
    server = Server(host, tls)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


class Names:
    """A resolver for tests: each name has a list of answers, given in turn; the last one stays."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self._names = {name.replace("__", "."): list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    def set(self, name: str, *answers: Sequence[str]) -> None:
        """Give a name its answers."""
        self._names[name] = list(answers)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if answers is None:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def http_settings(*hosts: str, networks: Sequence[str] = LOOPBACK, **more: Any) -> dict[str, Any]:
    """Settings that allow hosts, and loopback where a test does not say otherwise."""
    http = {"allowed_hosts": list(hosts), "allowed_networks": list(networks), **more}
    return {"tools": {"enable": ["http", "fs"]}, "http": http, "limits": {"max_repeats": 0}}


def resolving(runtime: Runtime, names: Names) -> None:
    """Have a runtime ask a test's names."""
    runtime.parts.outside.resolver = names


@asynccontextmanager
async def reaching(opens: Callable[..., Runtime], server: Server, *hosts: str, **how: Any) -> AsyncIterator[Runtime]:
    """A runtime that may reach a server by names, which all lead to loopback."""
    http, names = how.pop("http", {}), Names()
    settings = http_settings(*(hosts or (f"a.test:{server.port}",)), **http)
    settings |= {"rules": how.pop("rules", []), **how.pop("config", {})}
    for host in ("a.test", "b.test", "wrong.test"):
        names.set(host, ["127.0.0.1"])
    async with opens(config=settings, mode=how.pop("mode", "headless"), **how) as runtime:
        resolving(runtime, names)
        yield runtime


def code(outcome: Outcome) -> str | None:
    """The code of a failed call."""
    return outcome.error.code if outcome.error is not None else None


def journal(runtime: Runtime) -> str:
    """Everything that is on record of a run."""
    folder = runtime.parts.folder.path
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.rglob("*")) if path.is_file())
