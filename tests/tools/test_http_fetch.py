"""http_fetch: charsets, Markdown, pages that fit together, large bodies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Opens
from handrail import Runtime, __version__
from handrail.ports import Limits
from handrail.tools.http._charset import decode, is_binary
from handrail.tools.http._html import tokens
from handrail.tools.http._markdown import markdown
from handrail.tools.http._pages import Whole, end_of_page, wrapped
from handrail.urls import parse
from serving import Server, http_settings, serving

BASE = parse("https://example.org/a/b")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


def opened(opens: Opens, server: Server, **more: Any) -> Runtime:
    """A runtime that may reach the server."""
    http = more.pop("http", {})
    settings = http_settings(f"127.0.0.1:{server.port}", **http)
    settings["limits"] = {**settings["limits"], **more}
    return opens(config=settings, mode="headless")


# ── charset ──


@pytest.mark.parametrize(
    ("body", "kind", "text", "name", "by"),
    [
        ("é".encode(), "text/plain", "é", "utf-8", "bytes"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é", "cp1252", "header"),
        ("é".encode(), 'text/html; charset="UTF-8"', "é", "utf-8", "header"),
        ("日本".encode("cp932"), "text/html; charset=Shift_JIS", "日本", "cp932", "header"),
        ("\ufeffx".encode(), "text/plain; charset=latin-1", "x", "utf-8", "bom"),
        ("\ufeffé".encode("utf-16-le"), "text/plain", "é", "utf-16-le", "bom"),
        ('<meta charset="gb2312">中'.encode("gb18030"), "text/html", '<meta charset="gb2312">中', "gb18030", "meta"),
        ("<meta charset=utf-16>é".encode(), "text/html", "<meta charset=utf-16>é", "utf-8", "meta"),
        ("naïve – text".encode("cp1252"), "text/plain", "naïve – text", "windows-1252", "guess"),
        ("plain words".encode("utf-16-le"), "text/plain", "plain words", "utf-16-le", "bytes"),
        ("é".encode(), "text/plain; charset=no-such", "é", "utf-8", "bytes"),
        (b"abc", "text/plain; charset=rot13", "abc", "utf-8", "bytes"),
        (b"abc", "text/plain; charset=idna", "abc", "utf-8", "bytes"),
    ],
)
def test_a_charset_comes_from_header_mark_meta_or_bytes(body: bytes, kind: str, text: str, name: str, by: str) -> None:
    """In this order; what is no charset counts for nothing."""
    found, charset = decode(body, kind)
    assert (found, charset.name, charset.by, charset.replaced) == (text, name, by, 0)


@given(st.binary(max_size=300), st.text(max_size=40))
def test_any_bytes_are_read_as_some_text(body: bytes, kind: str) -> None:
    """Never an exception, whatever a server sends and says."""
    text, charset = decode(body, kind)
    assert "\ufffd" in text or charset.replaced == 0
    assert is_binary(body, kind) in (True, False)


# ── Markdown ──


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h2>A</h2><p>b <b>c</b> <i>d</i> <code>e</code></p>", "## A\n\nb **c** *d* `e`\n"),
        ("<p>one<br>two<p>three", "one\ntwo\n\nthree\n"),
        ('<a href="/x?a=1&amp;b=2"> t  u </a>', "[t u](https://example.org/x?a=1&b=2)\n"),
        ('<a href="javascript:alert(1)">t</a><a href="data:x,y">u</a>', "tu\n"),
        ('<img src="i.png" alt="pic"><img src="data:x" alt="p">', "![pic](https://example.org/a/i.png)p\n"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>", "- a\n- b\n  - c\n"),
        ("<ol><li>a</li><li>b</li></ol><p>c", "1. a\n2. b\n\nc\n"),
        ("<pre>x\n  y &lt; z</pre>", "```\nx\n  y < z\n```\n"),
        ("<pre>```</pre>", "````\n```\n````\n"),
        ("<blockquote><p>q</p></blockquote>", "> q\n"),
        (
            "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>a|b</td></tr></table>",
            "| A | B |\n| --- | --- |\n| 1 | a\\|b |\n",
        ),
        ("<head><title>T &amp; U</title><style>x</style></head><body>b</body>", "# T & U\n\nb\n"),
        ("a<script>document.write('<p>no')</script>b<!-- c --><style>d</style>", "ab\n"),
        ("a < b & c", "a < b & c\n"),
        ('<a title=">" href="x">y</a>', "[y](https://example.org/a/x)\n"),
        ("<b></b>", ""),
        ("", ""),
    ],
)
def test_html_is_written_as_markdown(html: str, text: str) -> None:
    """What a reader sees, without what a browser runs."""
    assert markdown(html, BASE) == text


@given(
    st.lists(st.sampled_from([*"<>/\"'=&;! \n-", "a", "<p>", "</p>", "<ul><li>", "<pre>", "<td>", "<!--", "<script>"]))
)
def test_any_html_is_written_somehow(parts: list[str]) -> None:
    """Never an exception, never a script."""
    html = "".join(parts)
    markdown(html, BASE)
    assert all(token.kind in ("text", "open", "close") for token in tokens(html))


@pytest.mark.parametrize(
    "unit",
    [
        *('<a "', '<a ">" ', "<", "<!--", "<script>", "</", "&", "<div>", "<ul><li>x", "<blockquote>x", "<a href=x>"),
        *("<td>", "<table><tr><td>x", "<b>", "<title>", "<head>", "<pre>", "&#x41", "<img alt='", "<p a=b ", "\n "),
    ],
)
def test_time_grows_with_the_page_alone(unit: str) -> None:
    """Pages made to be slow: eight times as long takes about eight times as long, not sixty-four."""
    import time

    def seconds(count: int) -> float:
        html = unit * count
        started = time.process_time()
        markdown(html, BASE)
        return time.process_time() - started

    small = max(min(seconds(2_000) for _ in range(3)), 0.002)
    assert min(seconds(16_000) for _ in range(2)) < small * 32


# ── pages ──


@given(st.text(alphabet="ab\né𝄞", max_size=3000), st.integers(1, 70), st.integers(2049, 2600))
def test_pages_fit_together(text: str, lines: int, size: int) -> None:
    """One after the other they are the whole text, none is empty, and all fit."""
    limits = Limits(max_output_lines=lines, max_output_bytes=size)
    whole, pages, at = Whole(text.encode()), [], 0
    while at < len(whole):
        end = end_of_page(whole, at, limits)
        pages.append(whole[at:end])
        at = end
    assert "".join(pages) == text
    assert all(pages)
    assert all(len(page.encode()) <= max(256, size - 2048) for page in pages)


@given(st.text(alphabet="ab\n", max_size=200), st.integers(1, 20))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    """Only line breaks are added."""
    shown = wrapped(text, width)
    assert shown.replace("\n", "") == text.replace("\n", "")
    assert max(map(len, shown.split("\n"))) <= width


async def test_pages_of_one_body_fit_together_though_the_page_changes(server: Server, opens: Opens) -> None:
    """All pages are cut from the body of the first; the host is asked once."""
    whole = "".join(f"line {number} é\n" for number in range(9000))
    server.on("/", whole)
    async with opened(opens, server) as runtime:
        args: dict[str, Any] = {"url": server.url("/")}
        pages, outcome = [], await runtime.call("http_fetch", args)
        server.on("/", "something else")
        while True:
            pages.append(outcome.data["text"])
            assert outcome.truncation is not None
            assert outcome.data["complete"] is False
            if outcome.truncation.next_cursor is None:
                break
            assert outcome.truncation.next_cursor in outcome.content
            outcome = await runtime.call("http_fetch", {**args, "cursor": outcome.truncation.next_cursor})
    assert "".join(pages) == whole
    assert (len(pages) > 2, len(server.asked)) == (True, 1)


async def test_a_cursor_of_another_run_is_taken_only_for_the_same_body(server: Server, opens: Opens) -> None:
    """The body is fetched again; if it has changed, pages would not fit."""
    server.on("/", "x\n" * 60_000)
    args = {"url": server.url("/")}
    async with opened(opens, server) as runtime:
        first = await runtime.call("http_fetch", args)
    assert first.truncation is not None
    again = {**args, "cursor": first.truncation.next_cursor}
    async with opened(opens, server) as runtime:
        assert (await runtime.call("http_fetch", again)).ok
    server.on("/", "y\n" * 60_000)
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_fetch", again)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.next_call) == ("INVALID_ARGS", {"tool": "http_fetch", "args": args})


@pytest.mark.parametrize("cursor", ["", "x", "0123456789abcdef", "0123456789abcdef.-1", "../../etc"])
async def test_what_is_no_cursor_is_refused(cursor: str, server: Server, opens: Opens) -> None:
    """Before anything is fetched."""
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/"), "cursor": cursor})
    assert outcome.error is not None
    assert (outcome.error.code, server.connections) == ("INVALID_ARGS", 0)


@pytest.mark.parametrize("spill", [True, False])
async def test_a_large_body_is_kept_whole_where_settings_say_so(spill: bool, server: Server, opens: Opens) -> None:
    """Redacted, with a ref that read_file takes; otherwise the hint names the cursor alone."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    whole = "".join(f"line {number}\n" for number in range(20_000)) + f"token {secret}\n"
    server.on("/", whole)
    async with opened(opens, server, http={"spill_large": spill}) as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/")})
        assert [ref.ref.startswith("run:observations/http_") for ref in outcome.refs] == [True] * spill
        if spill:
            kept = await runtime.call("read_file", {"path": outcome.refs[0].ref, "tail": 1})
            assert kept.data["text"].startswith("token ")
            files = runtime.parts.folder.path.rglob("*")
            assert not any(secret.encode() in file.read_bytes() for file in files if file.is_file())
    assert outcome.truncation is not None
    assert outcome.truncation.next_cursor is not None


async def test_a_secret_across_a_page_border_is_hidden_on_both(server: Server, opens: Opens) -> None:
    """Cutting does not make a secret readable."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    room = 51200 - 2048
    server.on("/", "x" * (room - 20) + " " + secret + " " + "y" * room)
    async with opened(opens, server) as runtime:
        first = await runtime.call("http_fetch", {"url": server.url("/")})
        assert first.truncation is not None
        second = await runtime.call("http_fetch", {"url": server.url("/"), "cursor": first.truncation.next_cursor})
    shown = str(first.to_dict()) + str(second.to_dict())
    assert not any(secret[at : at + 12] in shown for at in range(28))


async def test_a_body_that_is_no_text_names_the_download(server: Server, opens: Opens) -> None:
    """NOT_TEXT with size, type and first bytes."""
    server.on("/", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100), headers={"Content-Type": "image/png"})
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/")})
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.details["type"]) == ("NOT_TEXT", "image/png")
    assert outcome.error.details["first_bytes"].startswith("89 50 4e 47")
    assert outcome.error.next_call is not None
    assert outcome.error.next_call["tool"] == "http_download"


async def test_an_answer_is_told_whole(server: Server, opens: Opens) -> None:
    """Any status below 500 is an answer; cookies are not shown."""
    headers = {"Content-Type": "text/html", "Set-Cookie": "a=b", "X-Request-Id": "7"}
    server.on("/", "<h1>Gone</h1>", 404, headers)
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/")})
        raw = await runtime.call("http_fetch", {"url": server.url("/"), "format": "text"})
    assert outcome.ok
    url = server.url("/")
    assert outcome.data == {
        "url": url,
        "status": 404,
        "headers": {"content-type": "text/html", "content-length": "13", "x-request-id": "7"},
        "text": "# Gone\n",
        "bytes": 13,
        "sha256": outcome.evidence[0].sha256,
        "encoding": "utf-8",
        "complete": True,
        "redirects": [],
    }
    assert outcome.content == f"HTTP 404 {url}: 13 bytes\n\n# Gone\n"
    assert raw.data["text"] == "<h1>Gone</h1>"


async def test_a_get_with_a_body_is_refused(server: Server, opens: Opens) -> None:
    """It would not be sent."""
    async with opened(opens, server) as runtime:
        outcome = await runtime.call("http_fetch", {"url": server.url("/"), "body": "x"})
    assert outcome.error is not None
    assert (outcome.error.code, server.connections) == ("INVALID_ARGS", 0)


def test_the_pages_are_in_one_place(tmp_path: Path) -> None:
    """Wrapped lines of a page stay within what one answer may show."""
    text = Whole(b"x" * 200_000)
    limits = Limits()
    end = end_of_page(text, 0, limits)
    shown = wrapped(text[:end], limits.max_line_chars)
    assert len(shown.encode()) <= limits.max_output_bytes
    assert shown.count("\n") <= limits.max_output_lines


@pytest.mark.parametrize("tool", ["http_fetch", "http_json"])
async def test_settings_say_how_large_a_body_may_be_where_a_call_does_not(
    tool: str, server: Server, opens: Opens
) -> None:
    """Raised, they hold without an argument; lowered, they hold against one."""
    server.on("/", f'"{"x" * 6_000_000}"')
    codes = []
    for most, asked in ((7_000_000, {}), (7_000_000, {"max_bytes": 1000}), (1000, {"max_bytes": 7_000_000})):
        async with opened(opens, server, http={"max_bytes": most}) as runtime:
            outcome = await runtime.call(tool, {"url": server.url("/"), **asked})
            codes.append(outcome.error.code if outcome.error is not None else None)
    assert codes == [None, "HTTP_TOO_LARGE", "HTTP_TOO_LARGE"]


@pytest.mark.parametrize(
    ("named", "sent"),
    [("mybot/2.0", "mybot/2.0"), ("mybot", f"mybot/{__version__}"), (None, f"handrail/{__version__}")],
)
async def test_a_user_agent_with_a_version_is_sent_as_it_is(
    named: str | None, sent: str, server: Server, opens: Opens
) -> None:
    """One without a slash gets ours."""
    server.on("/", "x")
    async with opened(opens, server, http={} if named is None else {"user_agent": named}) as runtime:
        await runtime.call("http_fetch", {"url": server.url("/")})
    assert server.asked[0].headers["user-agent"] == sent
