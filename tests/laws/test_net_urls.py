"""A URL has one spelling, which is judged, dialled and told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import urls
from handrail.errors import Code, Problem
from handrail.net.bodies import Cut, unpacking
from handrail.net.headers import checked, shown, travelling
from handrail.net.waiting import retry_after
from handrail.policy.patterns import host_matches

GOOD = {
    "https://Example.ORG": "https://example.org/",
    "HTTP://example.org.:80/a?b#c": "http://example.org/a?b",
    "https://example.org:8443?x=1": "https://example.org:8443/?x=1",
    "http://[2606:4700:0:0::1111]:80/": "http://[2606:4700::1111]/",
    "http://bücher。example/ä b".replace(" ", ""): "http://xn--bcher-kva.example/%C3%A4b",
    "http://a_b.example/%zz": "http://a_b.example/%25zz",
    "http://1.2.3.4./": "http://1.2.3.4/",
    "http://faß.example/": "http://xn--fa-hia.example/",
}


@pytest.mark.parametrize(("text", "meant"), GOOD.items())
def test_a_url_is_told_in_its_one_spelling(text: str, meant: str) -> None:
    """And that spelling is its own."""
    assert urls.parse(text).text == meant
    assert urls.parse(meant).text == meant


def _parsed(text: str) -> urls.Url | None:
    try:
        return urls.parse(text)
    except Problem as problem:
        if problem.code is not Code.INVALID_ARGS:
            raise
        return None


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://", "http://a", "//", "http://[", "http://1."]))
def test_any_text_is_a_url_or_a_problem(text: str, start: str) -> None:
    """Nothing else ever comes out, and what is taken stays the same when it is read again."""
    url = _parsed(start + text)
    if url is None:
        return
    assert urls.parse(url.text) == url
    assert url.text.isascii()
    assert not set(url.text) & set(" \t\r\n\\@#\x00") - ({"@"} if "@" in url.target else set())


@given(st.text(alphabet="abc.-_0x19%@:/\\ é。", max_size=20))
def test_a_host_is_read_the_same_by_the_transport(text: str) -> None:
    """What yarl makes of our spelling is our spelling."""
    from yarl import URL

    url = _parsed(f"http://{text}/")
    if url is None:
        return
    read = URL(url.text, encoded=True)
    assert (read.raw_host, read.port, read.raw_path_qs) == (url.host, url.port, url.target)


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("/x", "https://example.org/x"),
        ("y?z", "https://example.org/a/y?z"),
        ("//other.example/p", "https://other.example/p"),
        ("http://other.example", "http://other.example/"),
        ("?q", "https://example.org/a/b?q"),
        ("../../..", "https://example.org/"),
    ],
)
def test_a_redirect_is_read_from_where_it_came(reference: str, meant: str) -> None:
    """Relative and absolute."""
    assert urls.join(urls.parse("https://example.org/a/b"), reference).text == meant


def test_evidence_names_no_value_of_a_query() -> None:
    """Names stay, values go."""
    assert urls.parse("https://a.example/p?token=abc&x&y=").shown == "https://a.example/p?token=…&x&y=…"


def test_a_rule_may_spell_a_name_as_people_do() -> None:
    """An international name and its ASCII form are one host."""
    target = urls.parse("https://www.bücher.example/").authority
    assert host_matches("*.bücher.example", target)
    assert host_matches("*.xn--bcher-kva.example", target)
    assert not host_matches("*.bucher.example", target)


def test_only_harmless_headers_go_to_another_host() -> None:
    """Credentials, cookies and whatever a caller made up stay behind."""
    given = checked({"Accept": "a", "Authorization": "b", "Cookie": "c", "X-Api-Key": "d", "X-Mine": "e"})
    assert travelling(given) == {"accept": "a"}


def test_an_answers_cookies_and_credentials_are_not_shown() -> None:
    """Names are lower case; what stands twice is joined."""
    answer = [("Set-Cookie", "s"), ("X-Auth-Token", "t"), ("Vary", "a"), ("vary", "b"), ("Server", "x")]
    assert shown(answer) == {"vary": "a, b", "server": "x"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("120", 120.0), ("0", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 60.0), ("Wed, 21 Oct 2020 07:28:00 GMT", 0.0)),
        *(("", None), ("soon", None), ("-5", None), ("٣", None), ("Wed, 99 Foo", None)),
    ],
)
def test_a_retry_after_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    """Anything else asks for nothing."""
    assert retry_after({"retry-after": text}, 1_792_567_620.0) == seconds


@given(st.binary(max_size=3000), st.sampled_from(["gzip", "deflate"]), st.integers(1, 700))
def test_a_packed_body_comes_out_whole_however_it_is_cut(data: bytes, coding: str, size: int) -> None:
    """Chunk borders mean nothing; a missing end is found."""
    import gzip
    import zlib

    packed = gzip.compress(data) if coding == "gzip" else zlib.compress(data)
    body = unpacking(coding)
    pieces = [piece for at in range(0, len(packed), size) for piece in body.pieces(packed[at : at + size])]
    body.finish()
    assert b"".join(pieces) == data
    short = unpacking(coding)
    list(short.pieces(packed[:-1]))
    with pytest.raises(Cut):
        short.finish()


@pytest.mark.parametrize(
    "host", ["①②⑦.⓪.⓪.①", "１.２.３.４", "8。8。8。8", "0x08080808", "134744072", "8.8.2056", "010.8.8.8"]
)
def test_an_address_is_written_in_plain_digits_or_not_at_all(host: str) -> None:
    """Also a public one: programs read other digits in other ways."""
    assert _parsed(f"http://{host}/") is None
