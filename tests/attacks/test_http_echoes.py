"""A host that sends a credential back shows no part of it to anybody, wherever the text is cut or broken."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from conftest import Opens
from handrail.net.credentials import Credentials
from handrail.urls import parse
from serving import Asked, answer, code, journal, reaching, serving

SECRET = "Zq7vK2mN9pLw4xT8bR3cY6hJ1dF5gS0a"
TOOLS = ("http_fetch", "http_json", "http_head", "http_download")


def _body(before: int, status: int = 200, kind: str = "text/plain", first: bytes = b"") -> Callable[[str], bytes]:
    """An answer whose body holds what was sent after so many other bytes."""
    return lambda sent: answer(first + b"x" * before + sent.encode() + b"y" * 200, status, {"Content-Type": kind})


def _leading(to: str, before: int) -> Callable[[str], bytes]:
    return lambda sent: answer(b"", 302, {"Location": f"{to}{'x' * before}{sent}{'y' * 400}"})


ECHOES: dict[str, Callable[[str], bytes]] = {
    **{f"failed, cut {cut} into it": _body(500 - cut, 500) for cut in (1, 16, 31)},
    **{f"broken line, {cut} into it": _body(2000 - cut) for cut in (1, 16, 31)},
    "no JSON": _body(480, 200, "application/json"),
    "no text": _body(0, 200, "application/octet-stream", b"\0\1"),
    "another scheme": _leading("ftp://evil.test/", 170),
    "another scheme, long": _leading("ftp://evil.test/", 470),
    "no host": _leading("http:///", 180),
    "bad header": lambda sent: f"HTTP/1.1 200 Said\r\nX: {'x' * 255}{sent}{'y' * 99}\0\r\n\r\n".encode(),
    "coding": lambda sent: answer(b"", 200, {"Content-Encoding": f"{'x' * 25}{sent}"}),
}


def _parts(text: str) -> list[str]:
    """What of the secret stands in a text: eight characters in a row, in any case, or their bytes."""
    parts = [SECRET[at : at + 8] for at in range(len(SECRET) - 7)]
    forms = [form for part in parts for form in (part.lower(), part.encode().hex(), part.encode().hex(" "))]
    return [form for form in forms if form in text.lower()]


@pytest.mark.parametrize("name", ECHOES)
async def test_no_part_of_an_echoed_credential_is_seen(
    name: str, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the outcome of any tool, and in no file of the run."""
    monkeypatch.setenv("SOME_VALUE", SECRET)
    async with serving() as server:

        async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(ECHOES[name](asked.headers["authorization"].removeprefix("Bearer ")))

        server.answers["/"] = echo
        http = {"credentials": {f"a.test:{server.port}": "env:SOME_VALUE"}, "max_retries": 0}
        async with reaching(opens, server, http=http) as runtime:
            told = ""
            for tool in TOOLS:
                args = {"url": server.url("/", "a.test")} | ({"path": "f"} if tool == "http_download" else {})
                told += str((await runtime.call(tool, args)).to_dict())
            record = journal(runtime)
    assert len(server.asked) == len(TOOLS)
    assert (_parts(told), _parts(record)) == ([], [])


WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
SAID = ("", "; charset=utf-8", "; charset=utf-16", "; charset=utf-16le", "; charset=utf-32", "; charset=hz")


@pytest.mark.parametrize("charset", WIDE)
@pytest.mark.parametrize("said", SAID)
async def test_a_charset_with_wide_characters_carries_no_credential_past_the_gate(
    charset: str, said: str, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the header says, and however the answer ends: with or without a NUL beside each character."""
    monkeypatch.setenv("SOME_VALUE", SECRET)
    statuses = {"http_fetch": 200, "http_json": 500, "http_download": 404}
    async with serving() as server:

        def saying(status: int) -> Callable[[Asked, asyncio.StreamWriter], Any]:
            async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
                sent = asked.headers["authorization"].removeprefix("Bearer ")
                writer.write(answer(f"{sent} is it".encode(charset), status, {"Content-Type": f"text/plain{said}"}))

            return echo

        for status in (200, 404, 500):
            server.answers[f"/{status}"] = saying(status)
        http = {"credentials": {f"a.test:{server.port}": "env:SOME_VALUE"}, "max_retries": 0}
        async with reaching(opens, server, http=http) as runtime:
            told = ""
            for tool, status in [*statuses.items(), ("http_fetch", 500), ("http_download", 500)]:
                args = {"url": server.url(f"/{status}", "a.test")} | ({"path": "f"} if tool == "http_download" else {})
                told += str((await runtime.call(tool, args)).to_dict())
            told += journal(runtime)
    assert len(server.asked) == 5
    bare = re.sub(r"\\+u0000|\\+x00|\0|\ufffd", "", told)
    assert (_parts(told), _parts(bare), _parts(told.replace(" 00", ""))) == ([], [], [])


async def test_a_download_that_failed_is_told_the_same_whatever_it_may_take(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`max_bytes` is the caller's own, and must not halve what has to be hidden."""
    monkeypatch.setenv("SOME_VALUE", SECRET)
    async with serving() as server:

        async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(asked.headers["authorization"].removeprefix("Bearer ").encode(), 404))

        server.answers["/"] = echo
        http = {"credentials": {f"a.test:{server.port}": "env:SOME_VALUE"}, "max_retries": 0}
        async with reaching(opens, server, http=http) as runtime:
            args = {"url": server.url("/", "a.test"), "path": "f", "max_bytes": 20}
            outcome = await runtime.call("http_download", args)
    assert (code(outcome), _parts(str(outcome.to_dict()))) == ("UPSTREAM_ERROR", [])


async def test_a_file_that_is_no_text_is_offered_by_the_url_that_was_asked_for(opens: Opens) -> None:
    """Where a redirect led to may hold a key of its own in its query."""
    async with serving() as server:
        server.on("/here", "", 302, {"Location": "/there?sig=1&access_token=other-key-123456"})
        server.on("/there", b"\0\0\1\1", headers={"Content-Type": "application/octet-stream"})
        async with reaching(opens, server) as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/here", "a.test")})
            record = journal(runtime)
    assert code(outcome) == "NOT_TEXT"
    assert outcome.error is not None
    assert outcome.error.details["first_bytes"] == "00 00 01 01"
    assert "other-key-123456" not in str(outcome.to_dict()) + record


def _raises(error: Exception) -> Callable[[str], str]:
    def provider(_: str) -> str:
        raise error

    return provider


@pytest.mark.parametrize(
    "provider",
    [
        *map(_raises, (TimeoutError(SECRET), RuntimeError(SECRET), KeyError(SECRET), OSError(5, SECRET))),
        *(lambda _, given=given: given for given in (None, 5, SECRET.encode(), f"X-A: {SECRET}\r\nX-B: 1", "")),
    ],
)
async def test_a_provider_that_fails_sends_nothing_and_says_nothing(
    provider: Callable[[str], Any], opens: Opens, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The call fails as one without a credential; what the provider said is told to nobody."""
    module = ModuleType("a_provider_of_this_test")
    module.give = provider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    async with serving() as server:
        http = {"credentials": {f"a.test:{server.port}": f"python:{module.__name__}:give"}}
        async with reaching(opens, server, http=http) as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
            record = journal(runtime)
    assert (code(outcome), server.asked) == ("UPSTREAM_ERROR", [])
    assert _parts(str(outcome.to_dict()) + record + caplog.text) == []


def _at_once(host: str) -> str:
    return f"{SECRET} for {host}"


async def _later(host: str) -> str:
    await asyncio.sleep(0)
    return f"{SECRET} for {host}"


@pytest.mark.parametrize("provider", [_at_once, _later])
async def test_what_a_provider_gives_is_sent_and_never_shown(
    provider: Callable[[str], Any], opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function, plain or async, is asked with the host; what it gives goes there and is told to nobody."""
    module = ModuleType("a_provider_of_this_test")
    module.give = provider  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    async with serving() as server:

        async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(f"you said {asked.headers.get('authorization')}".encode()))
            await writer.drain()

        server.answers["/"] = echo
        http = {"credentials": {f"a.test:{server.port}": f"python:{module.__name__}:give"}}
        async with reaching(opens, server, http=http) as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
            record = journal(runtime)
    assert [asked.headers.get("authorization") for asked in server.asked] == [f"{SECRET} for a.test"]
    assert outcome.ok
    assert "you said" in outcome.content
    assert _parts(str(outcome.to_dict()) + record) == []


async def test_a_provider_is_not_asked_for_a_host_that_policy_denies(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where the call names it nor where an answer leads to it: credentials are looked up after policy."""
    asked_for: list[str] = []

    def give(host: str) -> str:
        asked_for.append(host)
        return SECRET

    module = ModuleType("a_provider_of_this_test")
    module.give = give  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    async with serving() as server:
        server.on("/", "", 302, {"Location": server.url("/there", "b.test")})
        server.on("/there", "there")
        sources = {f"{host}:{server.port}": f"python:{module.__name__}:give" for host in ("a.test", "b.test")}
        async with reaching(opens, server, f"a.test:{server.port}", http={"credentials": sources}) as runtime:
            urls = [server.url("/", "a.test"), server.url("/there", "b.test")]
            outcomes = [await runtime.call("http_fetch", {"url": url}) for url in urls]
            met = list(asked_for)
        async with reaching(opens, server, *sources, http={"credentials": sources}) as runtime:
            assert (await runtime.call("http_fetch", {"url": urls[0]})).ok  # the negative control: both are allowed
    assert [code(outcome) for outcome in outcomes] == ["HOST_NOT_ALLOWED"] * 2
    assert (met, asked_for) == (["a.test"], ["a.test", "a.test", "b.test"])
    assert server.paths() == ["/", "/", "/there"]


async def test_a_credential_for_port_443_is_never_sent_in_clear_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who names that port means https."""
    monkeypatch.setenv("SOME_VALUE", SECRET)
    found = Credentials({"a.test:443": "env:SOME_VALUE", "b.test:*": "env:SOME_VALUE"}, lambda _: None)
    urls = ("https://a.test/", "http://a.test:443/", "http://b.test:443/", "http://b.test:8080/", "https://b.test/")
    assert [(await found.header(parse(url))) is not None for url in urls] == [True, False, False, True, True]


@pytest.mark.parametrize(
    "select",
    [
        *("reverse(echo)", "reverse(reverse(echo))", "{a: starts_with(echo, 'Zq7v')}", "length(echo)", "echo"),
        *("pin_token", "reverse(pin_token)", "login.password", "to_string(login)", "keys(@)", "values(@)", "list[0]"),
    ],
)
async def test_an_expression_sees_only_what_the_caller_may_see(
    select: str, opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What picks from a body cannot turn a secret round, measure it, or take it out of the field that names it."""
    monkeypatch.setenv("SOME_VALUE", SECRET)
    async with serving() as server:
        given = {"echo": SECRET, "pin_token": "short-1", "login": {"password": "short-2"}, "list": [SECRET], SECRET: 1}
        server.on("/", json.dumps(given), headers={"Content-Type": "application/json"})
        http = {"credentials": {f"a.test:{server.port}": "env:SOME_VALUE"}}
        async with reaching(opens, server, http=http) as runtime:
            outcome = await runtime.call("http_json", {"url": server.url("/", "a.test"), "select": select})
    told = str(outcome.to_dict())
    assert outcome.ok, outcome.content
    assert (_parts(told), _parts(told[::-1])) == ([], [])
    assert not any(text in told or text[::-1] in told for text in ("short-1", "short-2"))
    assert outcome.data["json"] not in (len(SECRET), {"a": True})
