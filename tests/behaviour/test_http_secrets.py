"""TLS and credentials of the http tools: the right name passes, no secret is ever seen."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from conftest import Opens
from serving import Asked, answer, code, journal, reaching, serving

# ── TLS ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A certificate for a.test, made here; the server's context and the file to trust."""
    if shutil.which("openssl") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("openssl is needed to make a certificate")
        pytest.skip("openssl is needed to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    made += ["-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, folder / "cert.pem"


async def test_the_right_name_passes_on_a_pinned_address(
    certificate: tuple[ssl.SSLContext, Path], opens: Opens
) -> None:
    """The address is dialled; the name is what the server is asked for, and what is checked."""
    context, trusted = certificate
    asked_for: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked_for.append(name)
    try:
        async with serving(tls=context) as server:
            server.on("/", "sealed")
            async with reaching(opens, server, http={"ca_file": str(trusted)}) as runtime:
                outcome = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
    finally:
        context.sni_callback = None
    assert outcome.ok, outcome.content
    assert (asked_for, server.asked[0].headers["host"]) == (["a.test"], f"a.test:{server.port}")
    assert outcome.data["text"] == "sealed"
    assert outcome.evidence[0].summary == "GET 200, 6 bytes from 127.0.0.1"


@pytest.mark.parametrize("trusts", [True, False])
async def test_a_wrong_name_or_an_unknown_issuer_is_refused(
    trusts: bool, certificate: tuple[ssl.SSLContext, Path], opens: Opens
) -> None:
    """No request is sent, and it is not tried again."""
    context, trusted = certificate
    async with serving(tls=context) as server:
        http = {"ca_file": str(trusted)} if trusts else {}
        async with reaching(opens, server, "*:*", http=http) as runtime:
            host = "wrong.test" if trusts else "a.test"
            outcome = await runtime.call("http_fetch", {"url": server.url("/", host)})
    assert (code(outcome), server.asked) == ("UPSTREAM_ERROR", [])
    assert "certificate" in outcome.content


# ── credentials ──────────────────────────────────────────────────────────────────────────────


async def test_a_credential_is_sent_and_never_seen(
    opens: Opens, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Added after policy, hidden where the host echoes it, in no file of the run."""
    secret = "zebra-quilt-9f2c77"
    monkeypatch.setenv("SOME_VALUE", secret)
    (tmp_path / "token").write_text(f"X-Api-Key: {secret}-file\n")
    async with serving() as server:

        async def echo(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(str(asked.headers).encode(), headers={"X-Echo": str(asked.headers)}))

        server.answers["/"] = echo
        sources = {f"a.test:{server.port}": "env:SOME_VALUE", f"b.test:{server.port}": f"file:{tmp_path / 'token'}"}
        hosts = [f"a.test:{server.port}", f"b.test:{server.port}"]
        async with reaching(opens, server, *hosts, http={"credentials": sources}) as runtime:
            first = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
            second = await runtime.call("http_fetch", {"url": server.url("/", "b.test")})
            record = journal(runtime)
    assert server.asked[0].headers["authorization"] == f"Bearer {secret}"
    assert server.asked[1].headers["x-api-key"] == f"{secret}-file"
    assert [first.ok, second.ok] == [True, True]
    assert secret not in str(first.to_dict()) + str(second.to_dict()) + record


async def test_credentials_and_cookies_are_dropped_on_the_way_to_another_host(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was meant for one host is not told to the next; on the same host it stays."""
    monkeypatch.setenv("SOME_VALUE", "Basic dXNlcjpodW50ZXIyNDI0")
    async with serving() as server:
        server.on("/same", "", 302, {"Location": "/other", "Set-Cookie": "sid=1"})
        server.on("/other", "", 302, {"Location": server.url("/end", "b.test")})
        server.on("/end", "end")
        hosts = [f"a.test:{server.port}", f"b.test:{server.port}"]
        sources = {f"a.test:{server.port}": "env:SOME_VALUE"}
        async with reaching(opens, server, *hosts, http={"credentials": sources}) as runtime:
            headers = {"Cookie": "a=b", "X-Mine": "c", "Accept": "text/plain"}
            outcome = await runtime.call("http_fetch", {"url": server.url("/same", "a.test"), "headers": headers})
            record = journal(runtime)
    seen = [
        {name: asked.headers.get(name) for name in ("authorization", "cookie", "x-mine", "accept")}
        for asked in server.asked
    ]
    mine = {"authorization": "Basic dXNlcjpodW50ZXIyNDI0", "cookie": "a=b", "x-mine": "c", "accept": "text/plain"}
    assert seen == [mine, mine, {"authorization": None, "cookie": None, "x-mine": None, "accept": "text/plain"}]
    assert outcome.data["redirects"] == [server.url("/same", "a.test"), server.url("/other", "a.test")]
    assert not any(secret in record for secret in ("hunter2424", "dXNlcjpodW50ZXIyNDI0"))


async def test_a_credential_goes_over_plain_http_only_where_its_port_is_named(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`a.test` alone means https."""
    from handrail.net.credentials import Credentials
    from handrail.urls import parse

    monkeypatch.setenv("SOME_VALUE", "token-value-1234")
    learned: list[str] = []
    found = Credentials({"a.test": "env:SOME_VALUE", "*.b.test:80": "env:SOME_VALUE"}, learned.extend)
    urls = ("https://a.test/", "http://a.test/", "http://x.b.test/", "https://x.b.test/", "https://xa.test/")
    assert [(await found.header(parse(url))) is not None for url in urls] == [True, False, True, False, False]
    assert "token-value-1234" in learned


async def test_a_missing_credential_sends_nothing(opens: Opens) -> None:
    """Fail closed: a request without its credential is not the one that was meant."""
    async with serving() as server:
        sources = {f"a.test:{server.port}": "env:NOT_THERE_AT_ALL"}
        async with reaching(opens, server, http={"credentials": sources}) as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
    assert (code(outcome), server.connections) == ("UPSTREAM_ERROR", 0)
