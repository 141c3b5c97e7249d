"""http_json: strict JSON, and what is picked from it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conftest import Opens
from handrail import Outcome, Runtime
from handrail.output.patterns import MARK
from serving import Server, http_settings, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


def opened(opens: Opens, server: Server, **http: Any) -> Runtime:
    """A runtime that may reach the server."""
    return opens(config=http_settings(f"127.0.0.1:{server.port}", **http), mode="headless")


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


LARGE = {"items": [{"n": number, "text": f"é {number}"} for number in range(5000)]}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def body_of(outcome: Outcome) -> str:
    """The JSON of one page, without what stands before and after it."""
    return outcome.content.partition("\n\n")[2].rpartition("\n[bytes ")[0]


@pytest.mark.parametrize("select", [None, "items"])
@pytest.mark.parametrize("held", [True, False])
async def test_pages_lead_through_what_was_picked(
    held: bool, select: str | None, server: Server, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they are the JSON; `json` is whole with the first, and the others cost no request while it is held."""
    if not held:
        monkeypatch.setattr("handrail.net.client.KEPT_BYTES", 0)
    server.on("/", json.dumps({**LARGE, "token": SECRET}))
    args, pages = {"url": server.url("/"), **({"select": select} if select else {})}, list[Outcome]()
    async with opened(opens, server) as runtime:
        while not pages or (pages[-1].truncation and pages[-1].truncation.next_cursor):
            more = {"cursor": pages[-1].truncation.next_cursor} if pages and pages[-1].truncation else {}
            pages.append(await runtime.call("http_json", {**args, **more}))
            assert pages[-1].ok, pages[-1].content
    assert len(server.asked) == (1 if held else len(pages))
    whole = LARGE["items"] if select else {**LARGE, "token": MARK}
    assert (pages[0].data["json"], [page.data["json"] for page in pages[1:]]) == (whole, [None] * (len(pages) - 1))
    assert json.loads("".join(map(body_of, pages))) == whole
    assert SECRET not in str([page.to_dict() for page in pages])
    assert all(len(page.content.encode()) <= 51200 for page in pages)


@pytest.mark.parametrize("spill", [True, False])
@pytest.mark.parametrize("value", [LARGE, ["x" * 3000], ["x" * 200_000], [1] * 3000])
async def test_a_large_value_is_kept_only_where_settings_say_so(
    value: Any, spill: bool, server: Server, opens: Opens
) -> None:
    """Many bytes, many lines or one long line: nothing in the run's folder, and all of it in `data`."""
    server.on("/", json.dumps(value))
    async with opened(opens, server, spill_large=spill) as runtime:
        outcome = await runtime.call("http_json", {"url": server.url("/")})
        kept = list(runtime.parts.folder.observations.iterdir())
        back = [await runtime.call("hash_file", {"path": ref.ref}) for ref in outcome.refs]
    assert (outcome.ok, outcome.data["json"]) == (True, value)
    assert (len(kept), len(outcome.refs), [done.ok for done in back]) == (spill, spill, [True] * spill)


@pytest.mark.parametrize("spill", [True, False])
async def test_a_value_no_answer_holds_is_kept_or_refused(spill: bool, server: Server, opens: Opens) -> None:
    """As settings say; refused with what to do instead."""
    server.on("/", json.dumps(["x" * 100] * 25_000))
    async with opened(opens, server, spill_large=spill) as runtime:
        outcome = await runtime.call("http_json", {"url": server.url("/")})
        some = await runtime.call("http_json", {"url": server.url("/"), "select": "[:2]"})
        kept = [file.name for file in runtime.parts.folder.observations.iterdir()]
    assert (outcome.error.code if outcome.error else None, kept) == (
        (None, ["data_1.txt"]) if spill else ("HTTP_TOO_LARGE", [])
    )
    assert some.data["json"] == ["x" * 100] * 2


async def test_a_cursor_into_other_json_is_refused(server: Server, opens: Opens) -> None:
    """What has changed since, and what is no cursor."""
    server.on("/", json.dumps(LARGE))
    async with opened(opens, server) as runtime:
        first = await runtime.call("http_json", {"url": server.url("/")})
    assert first.truncation is not None
    told = []
    for body in (json.dumps(LARGE | {"more": 1}), "{}"):
        server.on("/", body)
        async with opened(opens, server) as runtime:
            for cursor in (first.truncation.next_cursor, "x"):
                outcome = await runtime.call("http_json", {"url": server.url("/"), "cursor": cursor})
                told.append(outcome.error.code if outcome.error else None)
    assert (told, len(server.asked)) == (["INVALID_ARGS"] * 4, 3)


async def test_a_number_that_cannot_be_handed_on_is_named_and_can_be_left_out(server: Server, opens: Opens) -> None:
    """UPSTREAM_ERROR, and no failure of ours."""
    server.on("/", f'{{"a": {10**30}, "b": 1}}')
    async with opened(opens, server) as runtime:
        whole = await runtime.call("http_json", {"url": server.url("/")})
        some = await runtime.call("http_json", {"url": server.url("/"), "select": "b"})
    assert whole.error is not None
    assert (whole.error.code, "64-bit" in whole.error.message, some.data["json"]) == ("UPSTREAM_ERROR", True, 1)
