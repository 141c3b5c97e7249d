"""http_json: strict JSON, and what is picked from it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from conftest import Opens
from handrail import Runtime
from serving import Server, http_settings, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


def opened(opens: Opens, server: Server) -> Runtime:
    """A runtime that may reach the server."""
    return opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless")


async def test_json_is_parsed_and_picked_from(server: Server, opens: Opens) -> None:
    """With and without an expression."""
    server.on("/", '{"items": [{"n": 1}, {"n": 2}]}')
    async with opened(opens, server) as runtime:
        whole = await runtime.call("http_json", {"url": server.url("/")})
        some = await runtime.call("http_json", {"url": server.url("/"), "select": "items[].n"})
    assert whole.data == {"json": {"items": [{"n": 1}, {"n": 2}]}, "status": 200, "url": server.url("/")}
    assert some.data["json"] == [1, 2]
    assert server.asked[0].headers["accept"] == "application/json"


@pytest.mark.parametrize(
    "body", ["<html>login</html>", '{"a": 1, "a": 2}', '{"a": NaN}', "", "[" * 5000, b"\xff\xfe\x00", "{'a': 1}"]
)
async def test_what_is_no_strict_json_is_an_upstream_error(body: str | bytes, server: Server, opens: Opens) -> None:
    """With the beginning of what came instead; not tried again, for it would come again."""
    server.on("/", body)
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_json", {"url": server.url("/")})
    assert outcome.error is not None
    assert (outcome.error.code, len(server.asked)) == ("UPSTREAM_ERROR", 1)
    assert outcome.error.details["status"] == 200
    if isinstance(body, str):
        assert outcome.error.details.get("excerpt", "") == body[:500]


async def test_an_expression_that_cannot_be_read_names_the_place(server: Server, opens: Opens) -> None:
    """INVALID_ARGS, as json_select says it."""
    server.on("/", "{}")
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_json", {"url": server.url("/"), "select": "a.["})
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details["position"]) == ("INVALID_ARGS", 3)


async def test_an_error_with_a_json_body_is_an_answer(server: Server, opens: Opens) -> None:
    """The status tells what it is."""
    server.on("/", '{"error": "no such thing"}', 404)
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_json", {"url": server.url("/")})
    assert (outcome.ok, outcome.data["status"], outcome.data["json"]) == (True, 404, {"error": "no such thing"})
