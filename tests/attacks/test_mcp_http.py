"""MCP over HTTP under attack: no token, foreign pages, floods, crooked JSON; refused with little memory and no 5xx."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks._mcp_http import TOKEN, Server, call, serving
from handrail.front.mcp.wire import MAX_MESSAGE_BYTES

MB = 1024 * 1024
DEEP = 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`handrail mcp --http` in a process of its own."""
    with serving(tmp_path_factory.mktemp("http")) as made:
        yield made


def test_with_everything_right_it_answers(server: Server) -> None:
    """So that the refusals below are refusals of what they name."""
    answer = server.post(call())
    assert (answer.status, json.loads(answer.body)["result"]["structuredContent"]["text"]) == (200, "one\n")


REFUSED: dict[str, tuple[dict[str, str | None], int]] = {
    "no token": ({"Authorization": None}, 401),
    "an empty token": ({"Authorization": "Bearer "}, 401),
    "a wrong token": ({"Authorization": f"Bearer {TOKEN}x"}, 401),
    "the start of the token": ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
    "the token as a password": ({"Authorization": f"Basic {TOKEN}"}, 401),
    "the token in another case": ({"Authorization": f"Bearer {TOKEN.upper()}"}, 401),
    "a token that is no ASCII": ({"Authorization": "Bearer \xff\xfe"}, 401),
    "a foreign Host": ({"Host": "evil.example"}, 403),
    "a foreign Host with our port": ({"Host": "evil.example:8420"}, 403),
    "a Host that ends like ours": ({"Host": "127.0.0.1.evil.example"}, 403),
    "a Host that begins like ours": ({"Host": "localhost.evil.example"}, 403),
    "another address as Host": ({"Host": "192.168.1.1"}, 403),
    "an empty Host": ({"Host": ""}, 403),
    "a Host with a name behind our address": ({"Host": "[::1]evil.example"}, 403),
    "a Host with an open bracket": ({"Host": "[::1"}, 403),
    "a foreign Origin": ({"Origin": "https://evil.example"}, 403),
    "an Origin without a name": ({"Origin": "null"}, 403),
    "an Origin of a file": ({"Origin": "file://localhost"}, 403),
    "an Origin with our name as user": ({"Origin": "http://localhost@evil.example"}, 403),
    "an Origin that is none": ({"Origin": "http://[::1"}, 403),
}


@pytest.mark.parametrize("name", REFUSED)
def test_who_may_not_ask_is_refused(server: Server, name: str) -> None:
    """Before anything of the body counts, and without a word about what is served."""
    headers, status = REFUSED[name]
    answer = server.post(call(), **headers)
    assert (answer.status, b"one" in answer.body) == (status, False)


@pytest.mark.parametrize("twice", ["Host", "Authorization", "Origin"])
def test_a_header_that_decides_stands_once(server: Server, twice: str) -> None:
    """Two readers could take two different ones."""
    value = {"Host": "127.0.0.1", "Authorization": f"Bearer {TOKEN}", "Origin": "http://localhost"}[twice]
    body = call()
    head = server.head(len(body), Origin="http://localhost").replace(b"\r\n", f"\r\n{twice}: {value}\r\n".encode(), 1)
    assert server.send(head + body).status in (400, 403)


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8443"])
def test_a_page_of_this_machine_may_ask(server: Server, origin: str) -> None:
    """With the token."""
    assert server.post(call(), Origin=origin).status == 200


def test_a_hundred_megabytes_are_refused_and_not_kept(server: Server) -> None:
    """By their announced length, and also without one; no more is kept than twice what one body may have."""
    before = server.memory()
    piece = b'"' + b"x" * (MB - 1)
    announced = server.send(server.head(100 * MB), more=(piece for _ in range(100)))
    assert announced.status in (413, 0)
    assert server.post(b"{}", Content_Length=str(100 * MB)).status == 413
    chunk = b"%x\r\n" % MB + b"x" * MB + b"\r\n"
    chunked = server.send(server.head(None, Transfer_Encoding="chunked"), more=(chunk for _ in range(100)))
    assert chunked.status in (413, 0)
    assert server.memory() - before < 2 * MAX_MESSAGE_BYTES
    assert server.post(call()).status == 200


CROOKED = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"jsonrpc": "2.0", "id": "\xff"}',
    "a key twice": call().replace(b'"id": 1', b'"id": 1, "id": 2'),
    "an argument twice": call().replace(b'"path": "a.txt"', b'"path": "a.txt", "path": "b.txt"'),
    "NaN": call().replace(b'"id": 1', b'"id": NaN'),
    "a hundred thousand deep": b"[" * DEEP + b"]" * DEEP,
    "a hundred thousand objects deep": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep arguments": call().replace(b'"a.txt"', b"[" * 5000 + b"]" * 5000),
    "many at once": b"[" + call() + b"]",
    "a number": b"1",
    "no method": b'{"jsonrpc": "2.0", "id": 1}',
    "another version": call(jsonrpc="1.0"),
    "an id that is a list": call(id=[1]),
    "a long number": call().replace(b'"id": 1', b'"id": 1' + b"0" * 4999),
}


@pytest.mark.parametrize("name", CROOKED)
def test_crooked_json_is_refused(server: Server, name: str) -> None:
    """With a 4xx, and the next request is answered."""
    answer = server.post(CROOKED[name])
    assert (400 <= answer.status < 500, b"Traceback" in answer.body) == (True, False), answer
    assert server.post(call()).status == 200


def test_half_of_a_surrogate_pair_is_answered_under_its_id(server: Server) -> None:
    """In the arguments by the call's own refusal; elsewhere by an error. Nothing fails, and nobody waits."""
    argument = server.post(call().replace(b'"a.txt"', b'"a\\ud83d.txt"'))
    told = json.loads(argument.body)
    assert (argument.status, told["id"], told["result"]["isError"]) == (200, 1, True)
    elsewhere = server.post(call().replace(b'"method"', b'"x": "\\ud83d", "method"'))
    assert (elsewhere.status, json.loads(elsewhere.body)["id"]) == (400, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"Mcp_Method": "tools/list"},
        {"Mcp_Name": "delete_path"},
        {"Mcp_Method": None},
        {"MCP_Protocol_Version": "2099-01-01"},
        {"Content_Type": "text/plain"},
    ],
    ids=str,
)
def test_headers_that_say_something_else_than_the_body_are_refused(server: Server, changed: dict[str, str]) -> None:
    """A proxy that judged by them would have judged another call."""
    answer = server.post(call(), **changed)
    assert 400 <= answer.status < 500


@pytest.mark.parametrize(
    "line", ["PUT /mcp", "GET /other", "POST /mcp/../x", "OPTIONS /mcp", "DELETE /mcp", "GET /mcp"]
)
def test_other_ways_lead_nowhere(server: Server, line: str) -> None:
    """With 4xx each."""
    method, path = line.split()
    raw = server.head(0, MCP_Protocol_Version=None).replace(b"POST /mcp ", f"{method} {path} ".encode(), 1)
    assert 400 <= server.send(raw).status < 500


@pytest.mark.parametrize("token", [None, f"Bearer {TOKEN}"], ids=["no token", "token"])
def test_an_upgrade_does_not_come_past_the_guard(server: Server, token: str | None) -> None:
    """A WebSocket handshake is a request like any other: refused without a token, and never with 5xx."""
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    head = server.head(None, Authorization=token, Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==", **asked)
    status = server.send(head.replace(b"POST /mcp ", b"GET /mcp ", 1)).status
    assert status == 401 if token is None else 400 <= status < 500


def test_a_session_of_somebody_else_is_not_found(server: Server) -> None:
    """A guessed name is none."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    answer = server.post(body, MCP_Protocol_Version="2025-11-25", Mcp_Session_Id="0" * 32)
    assert answer.status == 404


def test_garbage_never_breaks_the_server(server: Server, scale: int) -> None:
    """Bodies and heads changed at random bytes: no 5xx, and it still answers."""
    random.seed(7)
    for _ in range(150 * scale):
        body = bytearray(call())
        raw = bytearray(server.head(len(body)))
        target = raw if random.random() < 0.3 else body
        for _ in range(random.randint(1, 4)):
            target[random.randrange(len(target))] = random.randrange(256)
        status = server.send(bytes(raw + body), seconds=0.5).status  # a length too long is waited for
        assert status < 500, (raw, body)
    assert server.post(call()).status == 200


def test_slow_and_many_clients_do_not_keep_others_out(server: Server) -> None:
    """Sixty that never finish their request, and one that does."""
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(60)]
    try:
        for number, there in enumerate(held):
            there.sendall(server.head(1000) + b"{" if number % 2 else b"POST /mcp HT")
        assert server.post(call()).status == 200
    finally:
        for there in held:
            there.close()


async def test_a_token_is_made_once_kept_private_and_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0600 in the state folder; the second time it is read from there and not printed."""
    from handrail.front.mcp.token import bearer_token

    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    first = bearer_token(None, env)
    kept = tmp_path / "state" / "handrail" / "token"
    assert (capsys.readouterr().err, kept.stat().st_mode & 0o777) == (f"token: {first}\n", 0o600)
    assert (bearer_token(None, env), capsys.readouterr().err) == (first, "")


def test_two_first_starts_at_once_have_one_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one waits until the first has written it, and prints nothing."""
    from handrail.front.mcp import token
    from handrail.store.private import make_folder

    kept, others = tmp_path / "state" / "handrail" / "token", "t" * 43

    def outrun(folder: Path) -> None:
        make_folder(folder)
        kept.touch()
        threading.Timer(0.05, kept.write_text, (f"{others}\n",)).start()

    monkeypatch.setattr(token, "make_folder", outrun)
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    assert (token.bearer_token(None, env), capsys.readouterr().err) == (others, "")


@pytest.mark.parametrize("text", ["", "short", "with a space in the middle of it", "ünglücklicherweise-kein-ascii"])
def test_a_token_that_can_be_guessed_is_not_taken(tmp_path: Path, text: str) -> None:
    """Neither from a file nor, but for an empty one, from the environment."""
    from handrail import SettingsFault
    from handrail.front.mcp.token import bearer_token

    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(SettingsFault):
        bearer_token(str(file), {})
