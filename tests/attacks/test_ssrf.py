"""No spelling, redirect, name or variable makes the http tools reach an inner address.

A live canary listens on loopback. Every host is allowed by name, so that addresses alone stand between the canary and
the tools. One other loopback address is allowed by settings, and must answer: a wall that refuses everything proves
nothing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from attacks.spellings import SPELLINGS, sixes, suffixes
from conftest import Opens
from handrail import Runtime
from handrail.errors import Code, Problem
from handrail.net import gate
from handrail.net.addresses import METADATA_NAMES
from handrail.words import Outcome
from serving import Names, Server, http_settings, resolving, serving

GOOD = "127.0.0.2"
REFUSED = {"HOST_NOT_ALLOWED", "INVALID_ARGS", "UPSTREAM_ERROR"}


@dataclass
class Field:
    """A canary that must hear nothing, a good server, and a runtime that could reach both."""

    runtime: Runtime
    canary: Server
    good: Server
    names: Names

    async def fetch(self, url: str, tool: str = "http_fetch", **args: Any) -> Outcome:
        """Call a tool with a URL; `{c}` is the canary's port, `{g}` the good server's."""
        text = url.replace("{c}", str(self.canary.port)).replace("{g}", str(self.good.port))
        if tool == "http_download":
            args.setdefault("path", "x.bin")
        return await self.runtime.call(tool, {"url": text, **args})

    def silent(self) -> bool:
        """Whether nobody so much as connected to the canary."""
        return self.canary.connections == 0


@asynccontextmanager
async def field(opens: Opens, *, host: str = "127.0.0.1", **http: Any) -> AsyncIterator[Field]:
    """Put everything up."""
    names = Names(good__test=[[GOOD]], inner__test=[[host]])
    settings = http_settings("*:*", networks=[f"{GOOD}/32"], max_retries=0, **http)
    async with serving(host) as canary, serving(GOOD) as good:
        good.on("/", "fine")
        canary.on("/", "secret")
        async with opens(config=settings) as runtime:
            resolving(runtime, names)
            yield Field(runtime, canary, good, names)


def test_there_are_enough_spellings() -> None:
    """A hundred at the least, all different."""
    assert len(SPELLINGS) == len(set(SPELLINGS))
    assert len(SPELLINGS) >= 100


async def all_spellings(found: Field, tool: str) -> dict[str, str]:
    """Try each; gives the code of each."""
    for name in suffixes():
        found.names.set(name.lower().rstrip(".").replace("。", "."), ["127.0.0.1"])
    for name in ("localhost", "metadata.google.internal", "metadata.goog", "instance-data"):
        found.names.set(name, ["127.0.0.1"])
    codes = {}
    for spelling in SPELLINGS:
        outcome = await found.fetch(spelling, tool, **({"path": "x.bin"} if tool == "http_download" else {}))
        codes[spelling] = outcome.error.code if outcome.error is not None else "OK"
    return codes


@pytest.mark.parametrize("tool", ["http_fetch", "http_json", "http_head", "http_download"])
async def test_no_spelling_reaches_the_canary(tool: str, opens: Opens) -> None:
    """Each is refused as no URL or as no public address, and the allowed host still answers."""
    async with field(opens) as found:
        codes = await all_spellings(found, tool)
        assert {spelling: code for spelling, code in codes.items() if code not in REFUSED} == {}
        assert found.silent()
        assert (await found.fetch("http://good.test:{g}/")).ok


async def test_without_the_classifier_the_canary_sings(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: plain spellings, names and redirects do reach it where addresses are not looked at."""
    monkeypatch.setattr(gate, "refused", lambda *_: None)
    async with field(opens) as found:
        found.good.on("/go", "", 302, {"Location": found.canary.url()})
        for url in ("http://127.0.0.1:{c}/", "http://inner.test:{c}/", "http://good.test:{g}/go"):
            assert (await found.fetch(url)).data["text"] == "secret"
        assert len(found.canary.asked) == 3


async def test_no_spelling_reaches_a_canary_on_ipv6(opens: Opens) -> None:
    """The same for ::1, where this machine has it: what has not cannot be reached either."""
    try:
        with socket.socket(socket.AF_INET6) as end:
            end.bind(("::1", 0))
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    async with field(opens, host="::1") as found:
        for host in sixes():
            await found.fetch(f"http://{host}:{{c}}/")
        assert found.silent()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    [
        *("http://127.0.0.1:{c}/", "//127.0.0.1:{c}/", "http://inner.test:{c}/", "http://[::ffff:127.0.0.1]:{c}/"),
        *("http://127.1:{c}/", "http://good.test@127.0.0.1:{c}/", "file:///etc/passwd", "http://169.254.169.254/"),
        *("\\\\127.0.0.1:{c}/", "http:\\\\127.0.0.1:{c}", "/\\127.0.0.1:{c}/", "http://127.0.0.1:{c}\r\n/"),
    ],
)
async def test_no_redirect_reaches_the_canary(status: int, target: str, opens: Opens) -> None:
    """Where an answer leads to is judged like where a call leads to."""
    async with field(opens) as found:
        location = target.replace("{c}", str(found.canary.port))
        found.good.on("/go", "", status, {"Location": location})
        outcome = await found.fetch("http://good.test:{g}/go")
        assert found.silent()
        # A path that only looks like a host leads back to the good server, which has no such page.
        assert outcome.error is None or outcome.error.code in REFUSED
        assert outcome.error is not None or outcome.data["status"] in (400, 404), outcome.content


async def test_a_redirect_to_a_host_that_rules_deny_is_not_followed(opens: Opens) -> None:
    """Policy judges each step: the address alone would be allowed."""
    async with serving(GOOD) as other, serving(GOOD) as good:
        other.on("/", "should not be read")
        good.on("/go", "", 302, {"Location": other.url("/", "other.test")})
        names = Names(good__test=[[GOOD]], other__test=[[GOOD]])
        async with opens(config=http_settings(f"good.test:{good.port}", networks=[f"{GOOD}/32"])) as runtime:
            resolving(runtime, names)
            outcome = await runtime.call("http_fetch", {"url": good.url("/go", "good.test")})
    assert outcome.error is not None
    assert outcome.error.code == "HOST_NOT_ALLOWED"
    assert f"good.test:{good.port}" in outcome.error.message
    assert (other.connections, names.asked) == (0, ["good.test"])


async def test_meta_refresh_and_refresh_headers_are_not_followed(opens: Opens) -> None:
    """A page is data: nothing in it is fetched."""
    async with field(opens) as found:
        inner = found.canary.url("/")
        page = f'<html><meta http-equiv="refresh" content="0;url={inner}"><img src="{inner}"><a href="{inner}">x</a>'
        found.good.on(
            "/", page, headers={"Content-Type": "text/html", "Refresh": f"0;url={inner}", "Link": f"<{inner}>"}
        )
        assert (await found.fetch("http://good.test:{g}/")).ok
        assert found.silent()


async def test_a_name_that_changes_its_address_is_refused(opens: Opens) -> None:
    """Rebinding: each answer that is dialled is one that was vetted; a warm connection stays where it is."""
    async with field(opens) as found:
        found.names.set("moves.test", [GOOD], ["127.0.0.1"])
        found.good.on("/", "first", headers={"Connection": "close"})
        first = await found.fetch("http://moves.test:{g}/")
        await asyncio.sleep(0)
        second = await found.fetch("http://moves.test:{c}/")
        third = await found.fetch("http://moves.test:{g}/")
        assert first.ok
        assert [outcome.error and outcome.error.code for outcome in (second, third)] == ["HOST_NOT_ALLOWED"] * 2
        assert found.silent()


async def test_a_name_is_looked_up_once_for_a_connection(opens: Opens) -> None:
    """No second look between check and use."""
    async with field(opens) as found:
        assert (await found.fetch("http://good.test:{g}/")).ok
        assert found.names.asked == ["good.test"]


@pytest.mark.parametrize("answers", [[GOOD, "127.0.0.1"], ["127.0.0.1", GOOD], [GOOD, "::1"], [GOOD, "10.0.0.1"]])
async def test_one_inner_address_among_the_answers_refuses_them_all(answers: list[str], opens: Opens) -> None:
    """A CNAME to inside, or a mixed answer: no address of such a name is dialled."""
    async with field(opens) as found:
        found.names.set("mixed.test", answers)
        outcome = await found.fetch("http://mixed.test:{c}/")
        assert outcome.error is not None
        assert outcome.error.code == "HOST_NOT_ALLOWED"
        assert found.silent()
        assert found.good.connections == 0


@pytest.mark.parametrize("name", sorted(METADATA_NAMES))
@pytest.mark.parametrize("spelled", ["{}", "{}.", "{}\u3002", "UPPER"])
async def test_a_name_of_metadata_is_refused_wherever_it_leads(name: str, spelled: str, opens: Opens) -> None:
    """Also to an address that settings allow, and before it is looked up."""
    async with field(opens) as found:
        found.names.set(name, [GOOD])
        host = name.upper() if spelled == "UPPER" else spelled.format(name)
        outcome = await found.fetch(f"http://{host}:{{g}}/")
        assert outcome.error is not None
        assert (outcome.error.code, found.good.connections, found.names.asked) == ("HOST_NOT_ALLOWED", 0, [])
        assert "gives out a machine's credentials" in outcome.error.message


@pytest.mark.parametrize("allowed", [["169.254.0.0/16"], ["169.254.169.254/32"], ["0.0.0.0/0", "::/0"]])
async def test_a_name_that_leads_to_metadata_is_refused_though_its_network_is_allowed(
    allowed: list[str], opens: Opens
) -> None:
    """No name of its own gives it away, and settings allow all of the network: nobody is dialled."""
    names = Names(cloud__test=[["169.254.169.254"]])
    async with opens(config=http_settings("*:*", networks=allowed, max_retries=0)) as runtime:
        resolving(runtime, names)
        outcome = await runtime.call("http_fetch", {"url": "http://cloud.test/latest/meta-data/"})
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details["address"], names.asked) == (
        *("HOST_NOT_ALLOWED", "169.254.169.254"),
        ["cloud.test"],
    )
    assert outcome.error.message.endswith("gives out a machine's credentials. No setting allows it.")


@pytest.mark.parametrize("name", sorted(METADATA_NAMES))
async def test_the_gate_itself_refuses_a_name_of_metadata(name: str) -> None:
    """Also for whoever asks without a policy, with every network allowed, and before it is looked up."""
    names = Names()
    names.set(name, [GOOD])
    with pytest.raises(Problem, match="No setting allows it") as refused:
        await gate.Gate(["0.0.0.0/0", "::/0"], resolver=names).addresses(name, 80)
    assert (refused.value.code, names.asked) == (Code.HOST_NOT_ALLOWED, [])


async def test_proxy_variables_are_ignored(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment cannot lead a request elsewhere."""
    async with field(opens) as found:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, found.canary.url())
        monkeypatch.setenv("no_proxy", "")
        assert (await found.fetch("http://good.test:{g}/")).ok
        assert found.silent()


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "b\r\nHost: 127.0.0.1"},
        {"X-A\r\nHost": "127.0.0.1"},
        {"X-A": "b\nX-B: c"},
        {"X-A": "b\x00"},
        {"Host": "127.0.0.1"},
        {"hOsT": "127.0.0.1"},
        {"Transfer-Encoding": "chunked"},
        {"Content-Length": "999"},
        {"Connection": "upgrade"},
        {"Proxy-Authorization": "x"},
        {"X A": "b"},
        {"": "b"},
        {"X-Ü": "b"},
        {"X-A": "snow \u2603"},
    ],
)
async def test_headers_cannot_smuggle_a_second_request(headers: dict[str, str], opens: Opens) -> None:
    """Line breaks and what frames a message are refused before anything is sent."""
    async with field(opens) as found:
        outcome = await found.fetch("http://good.test:{g}/", headers=headers)
        assert outcome.error is not None
        assert outcome.error.code == "INVALID_ARGS"
        assert found.good.connections == 0


async def test_a_path_is_sent_as_one_line(opens: Opens) -> None:
    """What could end the request line is percent-encoded or refused."""
    async with field(opens) as found:
        await found.fetch("http://good.test:{g}/a%0d%0aHost:%20x/é?q=ü")
        assert [asked.target for asked in found.good.asked] == ["/a%0d%0aHost:%20x/%C3%A9?q=%C3%BC"]


async def test_a_connection_is_never_used_for_another_name(opens: Opens) -> None:
    """Two names with one address have two connections."""
    async with field(opens) as found:
        found.names.set("twin.test", [GOOD])
        for name in ("good.test", "twin.test", "good.test"):
            assert (await found.fetch(f"http://{name}:{{g}}/")).ok
        assert found.good.connections == 2
        assert [asked.headers["host"].partition(":")[0] for asked in found.good.asked] == [
            *("good.test", "twin.test", "good.test")
        ]


async def test_a_blocked_network_is_refused_though_it_is_allowed(opens: Opens) -> None:
    """What is blocked is blocked."""
    async with field(opens, blocked_networks=[f"{GOOD}/32"]) as found:
        outcome = await found.fetch("http://good.test:{g}/")
        assert outcome.error is not None
        assert outcome.error.code == "HOST_NOT_ALLOWED"
        assert found.good.connections == 0
