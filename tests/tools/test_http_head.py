"""http_head: status and headers, no body."""

from __future__ import annotations

from conftest import Opens
from serving import http_settings, serving


async def test_a_head_gives_status_and_headers(opens: Opens) -> None:
    """The length is told though nothing is sent; evidence has no hash of nothing."""
    async with serving() as server:
        server.on("/", "x" * 1000, headers={"ETag": '"7"', "Set-Cookie": "a=b"})
        async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
            outcome = await runtime.call("http_head", {"url": server.url("/")})
    headers = {"content-type": "text/plain", "content-length": "1000", "etag": '"7"'}
    assert outcome.data == {"url": server.url("/"), "status": 200, "headers": headers}
    assert outcome.evidence[0].sha256 is None
    assert [asked.method for asked in server.asked] == ["HEAD"]


async def test_a_head_follows_redirects_as_a_head(opens: Opens) -> None:
    """Also through 303."""
    async with serving() as server:
        server.on("/", "", 303, {"Location": "/end"})
        server.on("/end", "x")
        async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
            outcome = await runtime.call("http_head", {"url": server.url("/")})
    assert outcome.data["url"] == server.url("/end")
    assert [asked.method for asked in server.asked] == ["HEAD", "HEAD"]
