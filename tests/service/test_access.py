"""Who may what: every route for every role, tokens, browsers, other sites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from handrail.front.web.access import ROLES as ALLOWED
from service._serving import ROLES, Answer, Client, Served, serving

FORM = "application/x-www-form-urlencoded"
OPEN = {"/healthz", "/readyz", "/static/{name:path}", "/login", "/login/{code}"}
# Values for the names in paths: nothing that exists, so that whoever may ask gets 404 and changes nothing.
FILLED = {"request_id": "apr_none", "run_id": "none", "call_id": "none", "rule_id": "none", "task_id": "none"}
FILLED |= {"ref:path": "run:observations/1.txt", "name:path": "app.css", "code": "none"}
BODIES = {
    "/v1/calls": {"tool": "now", "args": {}, "workspace": "demo"},
    "/v1/approvals/{request_id}/answer": {"answer": "no"},
    "/v1/runs/{run_id}/undo": {"preview": True},
    "/v1/policy/explain": {"tool": "now", "args": {}, "workspace": "demo"},
    "/v1/tasks": {"task": "x", "workspace": "none"},
    "/v1/tasks/{task_id}/answer": {"text": "x"},
    "/v1/tasks/{task_id}/message": {"text": "x"},
}
STREAMS = {"/v1/events", "/live/inbox", "/live/runs/{run_id}"}


def routes() -> Iterator[tuple[str, str]]:
    """Every route that the application has."""
    from handrail.front.web import (  # noqa: F401  (registered as they are imported)
        login,
        pages_inbox,
        pages_policy,
        pages_runs,
        pages_tasks,
        rest_approvals,
        rest_calls,
        rest_events,
        rest_runs,
        rest_tasks,
    )

    yield from sorted(ALLOWED)


def ask(client: Client, method: str, path: str) -> Answer:
    """Ask a route with values that lead nowhere."""
    target = re.sub(r"\{([^}]+)\}", lambda name: FILLED[name[1]], path)
    if method == "GET":
        return client.ask(method, target, headers={"accept": "application/json"})
    if path.startswith("/v1/"):
        return client.ask(method, target, BODIES.get(path, {}))
    return client.ask(method, target, b"", headers={"content-type": FORM, "accept": "application/json"})


@pytest.mark.parametrize(("method", "path"), [route for route in routes() if route[1] not in STREAMS], ids=str)
def test_every_route_refuses_every_role_that_it_does_not_name(served: Served, method: str, path: str) -> None:
    """Nobody without a token gets anything but the login, health and our own files."""
    allowed = ALLOWED[method, path]
    nobody = ask(served.client(), method, path).status
    if path in OPEN:
        assert (allowed, nobody in (200, 403, 404)) == ((), True)
        return
    assert allowed, "a route without roles must be in OPEN"
    assert nobody == 401
    for role in ROLES:
        status = ask(served.client(role), method, path).status
        assert (status != 403) == (role in allowed), (role, status)
        assert status < 500, (role, status)


def test_the_table_covers_the_routes_of_the_application() -> None:
    """No route is registered around `allow`, where its roles would not be checked."""
    from fastapi.routing import APIRoute

    from handrail.front.web import app, rest_calls

    known = {path for _, path in routes()}
    for part in (rest_calls.router, *app._pages()):
        for route in part.routes:
            assert isinstance(route, APIRoute)
            assert route.path in known


def test_a_callers_token_cannot_approve_and_an_approvers_cannot_call(served: Served, file: Path) -> None:
    """Also not its own call, and not by the console."""
    caller, approver = served.client("caller"), served.client("approver")
    caller.call("read_file", {"path": file.name})
    args = {"path": file.name, "content": "x", "mode": "overwrite"}
    request = caller.call("write_file", args).json["approval"]["id"]
    digest = approver.get(f"/v1/approvals/{request}").json["digest"]
    body = {"answer": "once", "digest": digest}
    assert caller.post(f"/v1/approvals/{request}/answer", body).status == 403
    assert approver.call("write_file", args).status == 403
    always = {"answer": "always", "digest": digest}
    assert approver.post(f"/v1/approvals/{request}/answer", always).status == 403, "always needs admin"
    assert approver.post(f"/v1/approvals/{request}/answer", {"answer": "once", "digest": "0" * 16}).status == 409
    assert approver.get(f"/v1/approvals/{request}").json["state"] == "pending"
    approver.post(f"/v1/approvals/{request}/answer", {"answer": "no"})


def test_a_caller_sees_its_own_runs_and_requests_alone(tmp_path: Path) -> None:
    """Those of another caller are not there for it."""
    with serving(tmp_path / "home", tmp_path / "work") as served:
        other = Client(served.url, served.run("identities", "add", "other", "--role", "caller").stdout.strip())
        (served.work / "a.txt").write_text("x")
        served.client("caller").call("read_file", {"path": "a.txt"})
        outcome = served.client("caller").call("write_file", {"path": "a.txt", "content": "y", "mode": "overwrite"})
        request, run = outcome.json["approval"]["id"], outcome.json["approval"]["run_id"]
        assert other.get("/v1/approvals").json["approvals"] == []
        assert other.get(f"/v1/approvals/{request}").status == 404
        assert other.get("/v1/runs").json["runs"] == []
        assert [other.get(f"/v1/runs/{run}{end}").status for end in ("", "/events")] == [404, 404]
        assert other.get("/v1/runs", q="a").json["found"] == []
        assert other.call("now", {}, run=run).status == 404, "nor can it work in that run"
        other.close()


def test_a_renewed_or_removed_token_ends_at_once(tmp_path: Path) -> None:
    """The service notices what the command line changed."""
    with serving(tmp_path / "home", tmp_path / "work") as served:
        client = Client(served.url, served.run("identities", "add", "eve", "--role", "auditor").stdout.strip())
        assert client.get("/v1/runs").status == 200
        assert served.run("identities", "renew", "eve").returncode == 0
        assert client.get("/v1/runs").status == 401
        assert served.run("identities", "remove", "auditor").returncode == 0
        assert served.client("auditor").get("/v1/runs").status == 401
        assert served.run("identities", "add", "mix", "--role", "caller", "--role", "approver").returncode == 2
        kept = (served.state / "service.db").read_bytes() + (served.state / "service.db-wal").read_bytes()
        assert served.tokens["admin"].encode() not in kept, "only hashes are kept"
        assert (served.state / "admin.token").stat().st_mode & 0o777 == 0o600
        client.close()


# ── browsers ─────────────────────────────────────────────────────────────────────────────────


def log_in(served: Served, role: str) -> tuple[Client, str, str]:
    """Log a browser in by a token; gives its client, its cookie and the token of its forms."""
    client = Client(served.url)
    body = urlencode({"token": served.tokens[role], "next": "/"}).encode()
    answer = client.ask("POST", "/login", body, {"content-type": FORM, "accept": "text/html"})
    assert answer.status == 303, answer.text
    cookie = answer.headers["set-cookie"]
    pair = cookie.partition(";")[0]
    page = client.ask("GET", "/", headers={"cookie": pair, "accept": "text/html"}).text
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf is not None
    return client, cookie, csrf[1]


def test_a_cookie_is_kept_from_scripts_and_other_sites(served: Served) -> None:
    """HttpOnly, SameSite=Strict; and no page says its value."""
    client, cookie, _ = log_in(served, "approver")
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    value = cookie.partition(";")[0].partition("=")[2]
    assert value not in client.ask("GET", "/", headers={"cookie": cookie.partition(";")[0], "accept": "text/html"}).text
    client.close()


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        ({}, {}),
        ({"csrf": "guessed"}, {}),
        ({"csrf": "right"}, {"origin": "https://evil.example"}),
        ({"csrf": "right"}, {"origin": "null"}),
        ({"csrf": "right"}, {"sec-fetch-site": "cross-site"}),
    ],
    ids=["no token", "wrong token", "another origin", "no origin", "another site"],
)
def test_a_change_by_a_browser_needs_the_token_of_its_session(
    served: Served, form: dict[str, str], headers: dict[str, str]
) -> None:
    """Whatever another site sends along; with the token, the same form is taken."""
    client, cookie, csrf = log_in(served, "admin")
    base = {"cookie": cookie.partition(";")[0], "content-type": FORM, "accept": "text/html"}
    told = {name: csrf if value == "right" else value for name, value in form.items()}
    refused = client.ask("POST", "/policy", urlencode({**told, "tool": "now"}).encode(), {**base, **headers})
    assert refused.status == 403
    good = client.ask("POST", "/policy", urlencode({"csrf": csrf, "tool": "now", "workspace": "demo"}).encode(), base)
    assert good.status == 200
    client.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1"])
def test_another_host_is_not_served(served: Served, host: str) -> None:
    """A page cannot be tricked into asking by its name server."""
    answer = served.client("admin").ask("GET", "/v1/runs", headers={"host": host})
    assert answer.status in (400, 421)


def test_every_answer_says_what_a_browser_may_do_with_it(served: Served) -> None:
    """No inline script, no frame, no sniffing; nothing is kept in caches but our own files."""
    for path in ("/login", "/v1/runs", "/healthz", "/static/app.css", "/nothing"):
        headers = {name.lower(): value for name, value in served.client("admin").get(path).headers.items()}
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert ("no-store" in headers["cache-control"]) == (path != "/static/app.css")
        assert "server" not in headers


def test_logins_that_fail_are_slowed_down(tmp_path: Path) -> None:
    """Ten a minute from one address; a right token waits as well."""
    with serving(tmp_path / "home", tmp_path / "work") as served:
        client = served.client()
        tries = [
            client.ask("POST", "/login", urlencode({"token": f"hr_{number}"}).encode(), {"content-type": FORM}).status
            for number in range(12)
        ]
        assert tries == [403] * 10 + [429] * 2
        right = urlencode({"token": served.tokens["admin"]}).encode()
        assert client.ask("POST", "/login", right, {"content-type": FORM}).status == 429


def test_a_link_logs_in_once_and_looking_at_it_uses_nothing_up(served: Served) -> None:
    """A program that looks at links in messages does not log in by them."""
    link = served.run("serve", "link", "approver").stdout.strip()
    path = link.removeprefix(served.url)
    client = served.client()
    assert [client.ask("GET", path, headers={"accept": "text/html"}).status for _ in range(2)] == [200, 200]
    form = urlencode({"code": path.rpartition("/")[2]}).encode()
    first = client.ask("POST", "/login", form, {"content-type": FORM})
    assert (first.status, "handrail=" in first.headers["set-cookie"]) == (303, True)
    assert client.ask("POST", "/login", form, {"content-type": FORM}).status == 403
    assert client.ask("GET", path, headers={"accept": "text/html"}).status == 404


def test_a_phone_is_paired_by_a_code_and_becomes_an_approver(served: Served) -> None:
    """For one use; an existing name with other roles is not taken over."""
    shown = served.run("serve", "pair", "ann-phone")
    assert "█" in shown.stdout or "▄" in shown.stdout
    assert "A phone cannot reach this address" in shown.stderr
    code = shown.stdout.strip().splitlines()[-1].rpartition("/")[2]
    client = served.client()
    answer = client.ask("POST", "/login", urlencode({"code": code}).encode(), {"content-type": FORM})
    assert answer.status == 303
    cookie = answer.headers["set-cookie"].partition(";")[0]
    page = client.ask("GET", "/", headers={"cookie": cookie, "accept": "text/html"}).text
    assert "ann-phone" in page
    listed = served.run("identities", "list", "--json").stdout
    assert '"ann-phone"' in listed
    assert served.run("serve", "pair", "admin").returncode == 2


def test_a_login_leads_nowhere_else(served: Served) -> None:
    """`next` is a path on this site."""
    for target in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        form = urlencode({"token": served.tokens["auditor"], "next": target}).encode()
        answer = served.client().ask("POST", "/login", form, {"content-type": FORM})
        assert (answer.status, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "nothing would be encrypted"),
        (["--host", "192.0.2.7"], "--tls-cert"),
        (["--behind-proxy", "http://handrail.example.org"], "needs https"),
        (["--behind-proxy", "not an address"], "is the address that people open"),
    ],
)
def test_another_address_needs_tls_or_a_proxy(served: Served, words: list[str], said: str) -> None:
    """Otherwise it does not start."""
    found = served.run("serve", "--port", "0", *words)
    assert (found.returncode, said in found.stderr) == (2, True), found.stderr


def test_a_second_service_of_the_account_is_refused(served: Served) -> None:
    """One inbox; the message says where the first one listens."""
    found = served.run("serve", "--port", "0")
    assert found.returncode != 0
    assert served.url in found.stderr


def test_a_unit_for_systemd_is_written(served: Served) -> None:
    """With the options that it was asked with."""
    found = served.run("serve", "--port", "9000", "--behind-proxy", "https://h.example.org", "--install-systemd")
    assert found.returncode == 0, found.stderr
    unit = (served.home / "config" / "systemd" / "user" / "handrail.service").read_text()
    assert "serve --host 127.0.0.1 --port 9000 --behind-proxy https://h.example.org" in unit
