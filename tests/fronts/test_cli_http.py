"""The http tools from the command line: it just works where the host is allowed, and says why not where it is not."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import pytest

from fronts.conftest import Cli
from fronts.terminal import at_terminal
from handrail.front.cli._progress import WIDTH, Bar, line


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with a page, or with a large file that takes its time."""
        large = self.path == "/large"
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.example/there")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if large else "text/html")
        self.send_header("Content-Length", str(20_000_000 if large else 14))
        self.end_headers()
        if not large:
            self.wfile.write(b"<h1>Hello</h1>")
            return
        for _ in range(20):
            self.wfile.write(bytes(1_000_000))
            threading.Event().wait(0.06)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port(cli: Cli) -> Iterator[int]:
    """A server in a thread, allowed in the user's settings."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    settings = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    hosts = f'http.allowed_hosts = ["127.0.0.1:{server.server_port}"]\nhttp.allowed_networks = ["127.0.0.0/8"]\n'
    settings.write_text(f'tools.enable = ["fs"]\n{hosts}')
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_fetch_from_an_allowed_host_just_works(cli: Cli, port: int) -> None:
    """One line in, Markdown out."""
    ended = cli("call", "http_fetch", f"url=http://127.0.0.1:{port}/")
    assert (ended.code, ended.out) == (0, f"HTTP 200 http://127.0.0.1:{port}/: 14 bytes\n\n# Hello\n")


def test_another_host_is_refused_and_explained(cli: Cli, port: int) -> None:
    """Both the call and `policy explain` name the rule and what is allowed."""
    call = cli("call", "http_fetch", "url=https://elsewhere.example/")
    explained = cli("policy", "explain", "http_fetch", "url=https://elsewhere.example/")
    assert call.code == 3
    for text in (call.err, explained.out):
        assert "confine.hosts" in text
        assert f"127.0.0.1:{port}" in text


def test_a_redirect_that_is_denied_is_explained_for_where_it_leads(cli: Cli, port: int) -> None:
    """The first address is allowed: to explain that one would help nobody."""
    call = cli("call", "http_fetch", f"url=http://127.0.0.1:{port}/away")
    tried = re.search(r"what would change that: handrail (.*)", call.err)
    assert call.code == 3, call.err
    assert tried is not None
    words = shlex.split(tried[1])
    assert words == ["policy", "explain", "http_fetch", "url=http://elsewhere.example/there"]
    assert cli(*words).code == 3


def test_a_long_download_shows_how_far_it_is(cli: Cli, port: int) -> None:
    """At a terminal only; the line is gone at the end."""
    call = ["call", "http_download", f"url=http://127.0.0.1:{port}/large", "path=large.bin"]
    with at_terminal(call, cli.work, cli.env) as terminal:
        assert terminal.end() == 0
    assert "of 20.0 MB" in terminal.shown
    assert "█" in terminal.shown
    assert (cli.work / "large.bin").stat().st_size == 20_000_000


@pytest.mark.parametrize(
    ("done", "total", "shown"),
    [
        (0, 0, "0.0 MB"),
        (5_000_000, 10_000_000, f"{'█' * (WIDTH // 2)}{'░' * (WIDTH // 2)}  50%  5.0 of 10.0 MB"),
        (20, 10, f"{'█' * WIDTH} 100%  0.0 of 0.0 MB"),
    ],
)
def test_the_line_says_how_far_a_download_is(done: int, total: int, shown: str) -> None:
    """Also where the length is not known, or wrong."""
    assert line(done, total) == shown


@pytest.mark.parametrize("columns", range(1, 61))
def test_the_line_never_wraps(columns: int) -> None:
    """A line that wraps is not written over, and each refresh would leave one behind."""
    for done, total in ((5_000_000, 10_000_000), (123_456_000_000, 987_654_000_000), (7, 0)):
        shown = line(done, total, columns)
        assert (len(shown) < columns, "\n" in shown) == (True, False)


def test_a_narrow_terminal_has_a_shorter_bar_or_none() -> None:
    """The figures are what is needed most."""
    assert (line(5, 10, 40), line(5, 10, 24)) == (f"{'█' * 10}{'░' * 9}  50%  0.0 of 0.0 MB", "50%  0.0 of 0.0 MB")


def test_a_short_download_shows_nothing() -> None:
    """No flicker for what is there at once."""
    stream = StringIO()
    bar = Bar(stream)
    bar.told("call", 1, 2)
    bar.clear()
    assert stream.getvalue() == ""
