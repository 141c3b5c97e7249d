"""Answers that are almost HTTP: bits of them lost, doubled, swapped; each call ends in time and says why."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import Opens
from serving import code, http_settings

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
PACKED = gzip.compress(b"x" * 1000)
ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 17\r\n\r\n<a href=x>yes</a>",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(PACKED), PACKED),
    b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy",
    b'HTTP/1.1 200 OK\r\nETag: "x"\r\nAccept-Ranges: bytes\r\nContent-Length: 400\r\n\r\nabcd',
    b'HTTP/1.1 206 Part\r\nETag: "x"\r\nContent-Range: bytes 4-7/8\r\nContent-Length: 4\r\n\r\nabcd',
    b"HTTP/1.0 200 OK\r\n\r\n\xff\xfeh\0i\0",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[1,2,3]",
)
BITS = (
    *(b"\r\n", b"\n", b"\0", b":", b" ", b"\xff", b"HTTP/1.1 ", b"0\r\n\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b"A" * 20_000),
    *(b"Content-Length: 99999999999\r\n", b"Content-Length: -1\r\n", b"Transfer-Encoding: gzip, chunked\r\n"),
    *(b"Location: //[\r\n", b"Location: \xff\xfe\r\n", b"Location: http://\r\n", b"Content-Encoding: gzip, br\r\n"),
    *(b"Content-Type: text/html; charset=\xff\r\n", b"Content-Type: x; charset=utf-16\r\n", b'ETag: W/"\r\n'),
    *(b"Retry-After: -1\r\n", b"Content-Range: bytes 4-399/400\r\n", b"Connection: close\r\n"),
)


def _broken(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(ANSWERS))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at:at] = chance.choice(BITS)
            case 1:
                del data[at : at + chance.randrange(1, 20)]
            case 2:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                line = data.find(b"\r\n", at) + 2
                data[line:line] = chance.choice(BITS)
            case _:
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("seed", range(2 * SCALE))
async def test_an_answer_that_is_almost_http_ends_in_time(seed: int, opens: Opens, work: Path) -> None:
    """Never a failure of our own, never longer than its deadline, never a file of which a part is missing."""
    chance = random.Random(seed)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_broken(chance))
            await writer.drain()
        writer.close()

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    config = http_settings(address) | {"limits": {"max_repeats": 0, "breaker_failures": 10**6}}
    async with server, opens(config=config, mode="headless") as runtime:
        runtime.parts.outside.network.sleep = at_once
        for number in range(60):
            tool = chance.choice(("http_fetch", "http_json", "http_head", "http_download"))
            args = {"url": f"http://{address}/{number}", "timeout_ms": 1000}
            args |= {"path": f"f{number}"} if tool == "http_download" else {}
            started = time.monotonic()
            outcome = await runtime.call(tool, args)
            assert time.monotonic() - started < 10
            known = (None, "UPSTREAM_ERROR", "HTTP_TOO_LARGE", "TIMEOUT", "NOT_TEXT", "HOST_NOT_ALLOWED")
            assert code(outcome) in known, outcome.content
            assert outcome.ok or not (work / f"f{number}").exists()
