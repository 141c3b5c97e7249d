"""The http tools through the kernel: policy, redirects, limits, idempotency, evidence."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from conftest import Opens
from handrail.testing import FixedClock, ScriptedApprover
from serving import Asked, Names, answer, code, journal, reaching, resolving, serving

POST_ALLOWED = [{"effect": "allow", "touch": "net.connect"}]


# ── policy ───────────────────────────────────────────────────────────────────────────────────


async def test_a_host_that_is_not_allowed_names_those_that_are(opens: Opens) -> None:
    """With the rule, before any name is looked up."""
    async with serving() as server, reaching(opens, server) as runtime:
        outcome = await runtime.call("http_fetch", {"url": "https://elsewhere.example/"})
        verdict = runtime.explain("http_fetch", {"url": "https://elsewhere.example/"})
    assert code(outcome) == "HOST_NOT_ALLOWED"
    assert f"a.test:{server.port}" in outcome.content
    assert outcome.error is not None
    assert outcome.error.details["rule"] == "confine.hosts"
    assert verdict.deciding.rule == "confine.hosts"


@pytest.mark.parametrize(
    ("host", "ends"),
    [
        *(("api.a.test", None), ("x.y.a.test", None), ("API.A.TEST", None)),
        *(("a.test", "HOST_NOT_ALLOWED"), ("nota.test", "HOST_NOT_ALLOWED"), ("a.test.b.test", "HOST_NOT_ALLOWED")),
    ],
)
async def test_a_pattern_allows_what_lies_below_a_name_and_nothing_else(
    host: str, ends: str | None, opens: Opens
) -> None:
    """Neither the name itself nor one that only ends or begins like it; the error names the pattern."""
    async with serving() as server:
        server.on("/", "fine")
        pattern = f"*.a.test:{server.port}"
        async with reaching(opens, server, pattern) as runtime:
            names = Names()
            names.set(host.lower(), ["127.0.0.1"])
            resolving(runtime, names)
            outcome = await runtime.call("http_fetch", {"url": server.url("/", host)})
    assert (code(outcome), len(server.asked)) == (ends, 0 if ends else 1), outcome.content
    assert ends is None or pattern in outcome.content


async def test_a_port_must_be_allowed_too(opens: Opens) -> None:
    """A name alone means 80 and 443."""
    async with serving() as server, reaching(opens, server, "a.test") as runtime:
        assert code(await runtime.call("http_fetch", {"url": server.url("/", "a.test")})) == "HOST_NOT_ALLOWED"
    assert server.connections == 0


async def test_a_post_asks_and_a_get_does_not(opens: Opens) -> None:
    """Nothing is sent before a person said yes."""
    async with serving() as server:
        server.on("/", "done")
        async with reaching(opens, server) as runtime:
            post = {"url": server.url("/", "a.test"), "method": "POST", "body": '{"x": 1}'}
            pending = await runtime.call("http_fetch", post)
            assert (code(pending), server.asked) == ("APPROVAL_REQUIRED", [])
            assert (await runtime.call("http_fetch", {"url": server.url("/", "a.test")})).ok
        async with reaching(opens, server, mode="interactive", approver=ScriptedApprover("once")) as runtime:
            assert (await runtime.call("http_fetch", post)).ok
    sent = server.asked[-1]
    assert (sent.method, sent.body, sent.headers["content-type"]) == ("POST", b'{"x": 1}', "application/json")


async def test_redirects_end_after_five(opens: Opens) -> None:
    """A circle is no answer."""
    async with serving() as server:
        server.on("/", "", 302, {"Location": "/"})
        async with reaching(opens, server) as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
    assert (code(outcome), len(server.asked)) == ("UPSTREAM_ERROR", 6)


@pytest.mark.parametrize(("status", "then"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_redirected_post_keeps_its_body_only_where_it_must(status: int, then: str, opens: Opens) -> None:
    """As HTTP says it."""
    async with serving() as server:
        server.on("/", "", status, {"Location": "/then"})
        server.on("/then", "then")
        async with reaching(opens, server, rules=POST_ALLOWED) as runtime:
            args = {"url": server.url("/", "a.test"), "method": "POST", "body": "hello"}
            assert (await runtime.call("http_fetch", args)).ok
    assert [(asked.method, asked.body) for asked in server.asked] == [
        ("POST", b"hello"),
        (then, b"hello" if then == "POST" else b""),
    ]


@pytest.mark.parametrize("status", [307, 308])
async def test_a_post_that_is_sent_on_to_a_host_that_asks_is_not_sent(status: int, opens: Opens) -> None:
    """The yes was for one host: the method is judged anew at the next."""
    async with serving() as server, serving() as other:
        server.on("/", "", status, {"Location": other.url("/there", "b.test")})
        other.on("/there", "done")
        hosts = [f"a.test:{server.port}", f"b.test:{other.port}"]
        rules = [{**POST_ALLOWED[0], "target": hosts[0]}]
        async with reaching(opens, server, *hosts, rules=rules) as runtime:
            args = {"url": server.url("/", "a.test"), "method": "POST", "body": "hello"}
            outcome = await runtime.call("http_fetch", args)
    assert (code(outcome), other.connections) == ("POLICY_DENIED", 0), outcome.content
    assert "asks unless a rule allows it" in outcome.content
    assert [(asked.method, asked.body) for asked in server.asked] == [("POST", b"hello")]


async def test_a_post_that_goes_on_as_a_get_asks_nobody(opens: Opens) -> None:
    """The negative control: the same two hosts, and an answer that says to look there."""
    async with serving() as server, serving() as other:
        server.on("/", "", 303, {"Location": other.url("/there", "b.test")})
        other.on("/there", "done")
        hosts = [f"a.test:{server.port}", f"b.test:{other.port}"]
        rules = [{**POST_ALLOWED[0], "target": hosts[0]}]
        async with reaching(opens, server, *hosts, rules=rules) as runtime:
            args = {"url": server.url("/", "a.test"), "method": "POST", "body": "hello"}
            outcome = await runtime.call("http_fetch", args)
    assert outcome.ok, outcome.content
    assert outcome.data["text"] == "done"
    assert [(asked.method, asked.body) for asked in (*server.asked, *other.asked)] == [("POST", b"hello"), ("GET", b"")]


# ── limits ───────────────────────────────────────────────────────────────────────────────────


async def test_a_breaker_belongs_to_its_host_and_half_opens(opens: Opens) -> None:
    """A host that keeps failing is left alone for a while; others are not; the tool itself works on."""
    clock = FixedClock()
    async with serving() as server:
        server.on("/bad", "", 500)
        server.on("/good", "good")
        hosts = [f"a.test:{server.port}", f"b.test:{server.port}"]
        limits = {"limits": {"breaker_failures": 3, "breaker_seconds": 30.0, "max_repeats": 0}}
        async with reaching(opens, server, *hosts, http={"max_retries": 0}, config=limits, clock=clock) as runtime:

            async def ask(path: str, host: str = "a.test") -> str | None:
                return code(await runtime.call("http_fetch", {"url": server.url(path, host)}))

            assert [await ask("/bad") for _ in range(3)] == ["UPSTREAM_ERROR"] * 3
            assert [await ask("/good"), await ask("/good", "b.test")] == ["CIRCUIT_OPEN", None]
            clock.advance(31)
            assert [await ask("/bad"), await ask("/good")] == ["UPSTREAM_ERROR", "CIRCUIT_OPEN"]
            clock.advance(31)
            assert [await ask("/good"), await ask("/good")] == [None, None]
    assert server.paths() == ["/bad"] * 3 + ["/good", "/bad", "/good", "/good"]


async def test_a_rate_holds_under_two_hundred_calls_at_once(opens: Opens) -> None:
    """Twenty a minute are twenty, however many ask."""
    async with serving() as server:
        server.on("/", "x")
        clock = FixedClock()
        async with reaching(opens, server, http={"rate_per_minute": 20}, clock=clock) as runtime:
            calls = [runtime.call("http_fetch", {"url": server.url(f"/?{n}", "a.test")}) for n in range(200)]
            codes = [code(outcome) for outcome in await asyncio.gather(*calls)]
            clock.advance(3.01)
            later = [code(await runtime.call("http_fetch", {"url": server.url("/", "a.test")})) for _ in range(2)]
    assert (codes.count(None), codes.count("RATE_LIMITED"), later) == (20, 180, [None, "RATE_LIMITED"])
    assert len(server.asked) == 21


async def test_no_more_connections_than_allowed_are_open_at_once(opens: Opens) -> None:
    """A thousand calls share a few connections; each gets its own answer."""
    async with serving() as server:
        now, most = 0, 0

        async def slow(asked: Asked, writer: asyncio.StreamWriter) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            writer.write(answer(asked.target.encode()))
            now -= 1

        server.answers["/"] = slow
        async with reaching(opens, server, http={"max_connections": 8}) as runtime:
            calls = [runtime.call("http_fetch", {"url": server.url(f"/?{n}", "a.test")}) for n in range(1000)]
            outcomes = await asyncio.gather(*calls)
    assert [outcome.data["text"] for outcome in outcomes] == [f"/?{n}" for n in range(1000)]
    assert most <= 8
    assert server.connections <= 8


@pytest.mark.parametrize(("header", "waited"), [("7", 7.0), ("9999", None), ("nonsense", None)])
async def test_a_retry_waits_as_long_as_the_host_asks(header: str, waited: float | None, opens: Opens) -> None:
    """More than the deadline leaves is not waited for."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with serving() as server:
        server.on("/", "", 503, {"Retry-After": header})
        async with reaching(opens, server) as runtime:
            network = runtime.parts.outside.network
            network.sleep, network.chance = sleep, lambda: 0.5
            outcome = await runtime.call("http_fetch", {"url": server.url("/", "a.test")})
    assert code(outcome) == "UPSTREAM_ERROR"
    expected = {"7": [7.0, 7.0], "9999": [], "nonsense": [0.1, 0.2]}[header]
    assert waits == pytest.approx(expected)
    assert outcome.error is not None
    assert outcome.error.details.get("retry_after") == header


async def test_tries_of_many_calls_are_spread_and_each_waits_longer(opens: Opens) -> None:
    """By half of the pause to either side, so that calls that failed together do not come back together."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with serving() as server:

        async def third_time_lucky(_: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(b"", 503 if len(server.asked) % 3 else 200))

        server.answers["/"] = third_time_lucky
        async with reaching(opens, server) as runtime:
            network = runtime.parts.outside.network
            network.sleep, as_shipped = sleep, network.chance
            for lot in (0.0, 0.998):
                network.chance = partial(float, lot)
                await runtime.call("http_fetch", {"url": server.url(f"/?{lot}", "a.test")})
            network.chance = as_shipped
            for number in range(20):
                await runtime.call("http_fetch", {"url": server.url(f"/?{number}", "a.test")})
    assert waits[:4] == pytest.approx([0.05, 0.1, 0.1498, 0.2996])
    first, second = waits[4::2], waits[5::2]
    assert (len(set(first)), all(0.05 <= wait < 0.15 for wait in first)) == (20, True)
    assert (len(set(second)), all(0.1 <= wait < 0.3 for wait in second)) == (20, True)


# ── idempotency ──────────────────────────────────────────────────────────────────────────────


async def test_a_key_gives_the_first_outcome_also_after_a_restart(opens: Opens) -> None:
    """One POST is sent, however often and wherever it is asked for."""
    async with serving() as server:
        server.on("/", "made")
        args = {"url": server.url("/", "a.test"), "method": "POST", "body": "{}"}
        outcomes = []
        for _ in range(2):
            async with reaching(opens, server, rules=POST_ALLOWED, run_id="same") as runtime:
                outcomes += [await runtime.call("http_fetch", args, idempotency_key="k1") for _ in range(2)]
    assert len(server.asked) == 1
    assert [outcome.data for outcome in outcomes] == [outcomes[0].data] * 4
    assert [outcome.evidence for outcome in outcomes] == [outcomes[0].evidence] * 4


@pytest.mark.parametrize(("key", "allowed", "tries"), [("k", True, 3), ("k", False, 1), (None, True, 1)])
async def test_a_post_is_tried_again_only_with_key_and_permission(
    key: str | None, allowed: bool, tries: int, opens: Opens
) -> None:
    """Each try carries the same key, so that the other side can tell."""

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    async with serving() as server:
        server.on("/", "", 503)
        async with reaching(opens, server, rules=POST_ALLOWED, http={"retry_post": allowed}) as runtime:
            runtime.parts.outside.network.sleep = at_once
            args = {"url": server.url("/", "a.test"), "method": "POST", "body": "{}"}
            assert code(await runtime.call("http_fetch", args, idempotency_key=key)) == "UPSTREAM_ERROR"
    assert len(server.asked) == tries
    assert len({asked.headers.get("idempotency-key") for asked in server.asked}) == 1
    assert ("idempotency-key" in server.asked[0].headers) == (tries == 3)


# ── evidence ─────────────────────────────────────────────────────────────────────────────────


async def test_evidence_holds_address_status_hash_and_way_but_no_secret(opens: Opens) -> None:
    """Query values are left out everywhere but in what the caller itself wrote."""
    from hashlib import sha256

    async with serving() as server:
        server.on("/", "", 302, {"Location": "/end?access_token=abcdef123456&page=2"})
        server.on("/end", "the end")
        async with reaching(opens, server) as runtime:
            outcome = await runtime.call("http_fetch", {"url": server.url("/?q=1", "a.test")})
            record = journal(runtime)
    way = server.url("/?q=…", "a.test")
    (proof,) = outcome.evidence
    assert (proof.type, proof.ref) == ("http", server.url("/end?access_token=…&page=…", "a.test"))
    assert proof.summary == f"GET 200, 7 bytes from 127.0.0.1, by way of {way}"
    assert proof.sha256 == sha256(b"the end").hexdigest()
    assert "abcdef123456" not in record + str(outcome.to_dict())


async def test_fetch_select_render_write_is_one_chain_of_evidence(opens: Opens, work: Path) -> None:
    """Each step proves itself; the last one leaves the file."""
    async with serving() as server:
        server.on("/r.json", '{"name": "handrail", "releases": [{"tag": "1.0"}, {"tag": "1.1"}]}')
        async with reaching(opens, server) as runtime:
            fetched = await runtime.call("http_json", {"url": server.url("/r.json", "a.test")})
            picked = await runtime.call(
                "json_select", {"json": fetched.data["json"], "expression": "{name: name, tags: releases[].tag}"}
            )
            template = "# {{name}}\n{{#tags}}\n- {{.}}\n{{/tags}}\n"
            text = await runtime.call("render_template", {"template": template, "data": picked.data["value"]})
            written = await runtime.call("write_file", {"path": "NEWS.md", "content": text.data["text"]})
    steps = [fetched, picked, text, written]
    assert [step.ok for step in steps] == [True] * 4, [step.content for step in steps]
    assert [step.evidence[0].type for step in steps] == ["http", "tool", "tool", "file"]
    assert all(step.evidence[0].sha256 for step in steps)
    assert (work / "NEWS.md").read_text() == "# handrail\n- 1.0\n- 1.1\n"


async def test_settings_for_the_network_are_checked_when_a_run_opens(opens: Opens) -> None:
    """Not when the first request needs them."""
    from handrail.errors import SettingsFault

    for http in ({"allowed_networks": ["10.1.0.0/8"]}, {"credentials": {"a.test": "vault:x"}}):
        with pytest.raises(SettingsFault):
            async with opens(config={"http": http}):
                pass
