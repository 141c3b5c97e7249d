"""http_fetch with every gate against bare clients without any: one warm connection, a large body, a thousand at once.

The server is a process of its own on loopback. httpx2 is measured where it is installed. Settings are the defaults
where a row names no other; rates, which are unbounded by default, have a bound that is looked at and never met, and no
URL is asked for twice, so that repeats are counted and never stopped. The large body is measured twice: all clients in
one process, where each profits from memory that another one holds, and each in its own. What a call kept is removed
before the next one; a row of its own tells how it is when files pile up, which on a virtual machine measures how
quickly its host gives memory that nobody has touched before. A text that is not ASCII has a table of its own: all of it
is looked through for bytes that are no UTF-8, where ASCII is seen at a glance.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any

import aiohttp
from common import interleaved

from handrail import Runtime
from handrail.settings.paths import cache_dir
from handrail.store import databases

LARGE = 5_000_000
AT_ONCE = 1000
SERVER = """
import asyncio, sys
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: %s\\r\\nContent-Length: %d\\r\\n\\r\\n"
LINE = b"the quick brown fox jumps over the lazy dog 0123456789\\n"
ACCENTS = "zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – 狐狸\\n".encode()
def body(size, line=LINE, kind=b"text/plain"):
    data = line * (size // len(line))
    return HEAD % (kind, size) + data + b"." * (size - len(data))
SMALL, LARGE, UTF8 = body(1024), body(5_000_000), body(5_000_000, ACCENTS, b"text/plain; charset=utf-8")
class Serve(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while b"\\r\\n\\r\\n" in self.data:
            head, _, self.data = self.data.partition(b"\\r\\n\\r\\n")
            self.transport.write(LARGE if b" /large" in head else UTF8 if b" /utf8" in head else SMALL)
async def main():
    server = await asyncio.get_running_loop().create_server(Serve, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
asyncio.run(main())
"""

Get = Callable[[str], Awaitable[Any]]
MOST_A_MINUTE = 1_000_000
DEFAULT = "handrail http_fetch, the default (whole body kept and redacted)"
UNKEPT = "handrail http_fetch, spill_large = false"
PILING = "handrail http_fetch, the default, files pile up"
HTTPX2, AIOHTTP = "httpx2, bare", "aiohttp, bare"
NUMBERS = count()
KEPT: list[str] = []  # files that the last calls left, to be removed when nobody counts the time


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """A server in its own process; gives its port."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()


@asynccontextmanager
async def handrail_client(port: int, *, spill: bool, pile: bool = False) -> AsyncIterator[Get]:
    """http_fetch through the kernel: parsed, judged, vetted, counted, journaled, redacted, bounded."""
    http: dict[str, Any] = {"allowed_hosts": [f"127.0.0.1:{port}"], "allowed_networks": ["127.0.0.0/8"]}
    http |= {"rate_per_minute": MOST_A_MINUTE} | ({} if spill else {"spill_large": False})
    config = {"tools": {"enable": ["http"]}, "http": http, "limits": {"rate": {"http_fetch": MOST_A_MINUTE}}}
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime.open(folder, config=config) as runtime:

            async def get(url: str) -> Any:
                outcome = await runtime.call("http_fetch", {"url": url})
                assert outcome.ok, outcome.content
                if not pile:
                    observations = runtime.parts.folder.observations
                    KEPT.extend(str(observations / ref.ref.rpartition("/")[2]) for ref in outcome.refs)
                return outcome

            yield get


@asynccontextmanager
async def aiohttp_client() -> AsyncIterator[Get]:
    """The client we build on, with 16 connections."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=16)) as session:

        async def get(url: str) -> bytes:
            async with session.get(url) as response:
                return await response.read()

        yield get


@asynccontextmanager
async def httpx2_client() -> AsyncIterator[Get]:
    """The client to hold against, behind a semaphore of 16."""
    import httpx2

    slots = asyncio.Semaphore(16)
    async with httpx2.AsyncClient(trust_env=False) as client:

        async def get(url: str) -> bytes:
            async with slots:
                found: bytes = (await client.get(url)).content
                return found

        yield get


def fresh(url: str) -> str:
    """A URL that nobody asked for before."""
    return f"{url}?{next(NUMBERS):08}"


async def burst(get: Get, url: str) -> float:
    """Seconds for a thousand at once."""
    started = time.perf_counter()
    await asyncio.gather(*[get(fresh(url)) for _ in range(AT_ONCE)])
    return time.perf_counter() - started


async def bursts(clients: dict[str, Get], url: str, rounds: int) -> None:
    """Print the median of each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for _ in range(rounds):
        for name, get in clients.items():
            times[name].append(await burst(get, url))
    print(f"\n{AT_ONCE} calls at once")
    for name, found in times.items():
        print(f"  {name:66} {statistics.median(found) * 1000:10.1f} ms")


async def table(title: str, clients: dict[str, Get], url: str, *, rounds: int, batch: int) -> None:
    """Print the median time of a call of each, in turns."""
    contestants = {name: _freshly(get, url) for name, get in clients.items()}
    print(f"\n{title}")
    for row in await interleaved(contestants, rounds=rounds, batch=batch):
        print(f"  {row.name:66} {row.microseconds:10.1f} us  x{row.ratio:.2f}")


async def large_table(title: str, clients: dict[str, Get], url: str, rounds: int) -> None:
    """Print the median and the least time of the large body for each, in turns."""
    times: dict[str, list[float]] = {name: [] for name in clients}
    for number in range(rounds + 3):
        for name, get in clients.items():
            taken = [await timed(get, fresh(url)) for _ in range(3)]
            times[name] += taken if number >= 3 else ()
    print(f"\n{title}, all clients in one process")
    print_large(times)


async def timed(get: Get, url: str) -> float:
    """Seconds of one call; what it kept is removed afterwards."""
    started = time.perf_counter()
    await get(url)
    taken = time.perf_counter() - started
    while KEPT:
        os.unlink(KEPT.pop())
    return taken


def print_large(times: dict[str, list[float]]) -> None:
    """Print one row for each, against bare httpx2 where it was measured."""
    against = statistics.median(times.get(HTTPX2) or next(iter(times.values())))
    for name, found in times.items():
        median, least = statistics.median(found), min(found)
        speed = f"{LARGE / median / 1e6:8.0f} MB/s  x{median / against:.2f}"
        print(f"  {name:66} {median * 1e6:10.1f} us (least {least * 1e6:8.1f}) {speed}")


def _freshly(get: Get, url: str) -> Callable[[int], Awaitable[Any]]:
    return lambda _: get(fresh(url))


CLIENTS: dict[str, Callable[[int], AbstractAsyncContextManager[Get]]] = {
    DEFAULT: lambda port: handrail_client(port, spill=True),
    HTTPX2: lambda _: httpx2_client(),
    AIOHTTP: lambda _: aiohttp_client(),
    UNKEPT: lambda port: handrail_client(port, spill=False),
    PILING: lambda port: handrail_client(port, spill=True, pile=True),
}
IN_SMALL, IN_UTF8 = (DEFAULT, HTTPX2, AIOHTTP), (DEFAULT, HTTPX2)


async def serve_turns(name: str, url: str) -> None:
    """Be one client: for each line of input fetch the large body three times, and print the times."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    async with CLIENTS[name](port) as get:
        while sys.stdin.readline():
            print(*[await timed(get, fresh(url)) for _ in range(3)], flush=True)


def alone(title: str, names: list[str], url: str, rounds: int) -> None:
    """Print the median of each client in a process of its own; they take turns."""
    pipe = subprocess.PIPE
    start = [sys.executable, __file__]
    clients = {name: subprocess.Popen([*start, name, url], stdin=pipe, stdout=pipe, text=True) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 2):
        for name, client in clients.items():
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write("\n")
            client.stdin.flush()
            taken = client.stdout.readline().split()
            times[name] += map(float, taken) if number >= 2 else ()
    for client in clients.values():
        client.communicate(timeout=30)
    print(f"\n{title}, each client in a process of its own")
    print_large(times)


async def main(*, rounds: int = 20) -> None:
    """Measure all, in one run."""
    databases.prepare(cache_dir())  # as `handrail doctor` does
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(served())
        base = f"http://127.0.0.1:{port}"
        names = [name for name in CLIENTS if not name.startswith("httpx2") or find_spec("httpx2") is not None]
        if len(names) < len(CLIENTS):
            print("httpx2 is not installed: not measured")
        large = {name: await stack.enter_async_context(CLIENTS[name](port)) for name in names}
        small, utf8 = ({name: large[name] for name in some if name in large} for some in (IN_SMALL, IN_UTF8))
        await table("1 KB over a warm connection", small, f"{base}/small", rounds=rounds, batch=50)
        for title, clients, url in (
            ("5 MB body", large, f"{base}/large"),
            ("5 MB body of UTF-8 that is not ASCII", utf8, f"{base}/utf8"),
        ):
            await large_table(title, clients, url, rounds)
            await asyncio.to_thread(alone, title, list(clients), url, rounds)
        await bursts(small, f"{base}/small", max(3, rounds // 4))


if __name__ == "__main__":
    asyncio.run(serve_turns(sys.argv[1], sys.argv[2]) if len(sys.argv) > 1 else main())
