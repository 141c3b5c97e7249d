"""Text that an agent controls: shown as text, wherever; files outside a run; secrets; requests without sense."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from service._serving import Served, grant, until
from service.test_access import log_in

EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>\'"><b>bold</b>{{7*7}}'
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
TAGS = re.compile(r"<script(?! nonce=)|<img|<b>bold|onerror=alert\(1\)>|>49<", re.IGNORECASE)
AWAY = (
    "../../../etc/passwd",
    "run:observations/../../../../etc/passwd",
    "observations/..%2f..%2fevents.jsonl",
    "run:archive/x",
    "events.jsonl",
    "run:observations",
    "run:observations/",
    "/etc/passwd",
    "run:observations/link",
    "run:observations/dir",
    "run:observations/pipe",
    "%2e%2e/%2e%2e/etc/passwd",
    "run:observations/a%00b",
    "lock",
)
PAGES = ("/", "/runs", "/tasks", "/health", "/policy?tab=standing", "/runs?q=script", "/runs?q=%3Cscript%3E")


def pages(served: Served, *more: str) -> dict[str, str]:
    """All pages as an admin's browser gets them."""
    client, cookie, _ = log_in(served, "admin")
    headers = {"cookie": cookie.partition(";")[0], "accept": "text/html"}
    found = {path: client.ask("GET", path, headers=headers).text for path in (*PAGES, *more)}
    client.close()
    return found


@pytest.fixture(scope="module")
def hostile(served: Served) -> dict[str, str]:
    """A run, a request and a task full of text that would do something; gives where each is shown."""
    caller = served.client("caller")
    name = "a<img src=x onerror=alert(1)>.txt"
    (served.work / name).write_text(f"{EVIL}\n")
    caller.call("read_file", {"path": name}, run="hostile")
    caller.call("display", {"content": EVIL, "title": EVIL}, run="hostile")
    caller.call(EVIL, {EVIL: EVIL}, run="hostile")
    caller.call("run_command", {"command": f"echo {EVIL!r}"}, run="hostile")
    caller.call("edit_file", {"path": name, "edits": [{"old": "bold", "new": f"bold {EVIL}"}]}, run="hostile")
    asked = caller.call("write_file", {"path": name, "content": f"{EVIL}\n{EVIL}", "mode": "overwrite"}, run="hostile")
    command = caller.call("run_command", {"command": f"python3 -c {EVIL!r}"}, run="hostile")
    task = caller.post("/v1/tasks", {"task": EVIL, "workspace": "demo"}).json["id"]
    caller.post(f"/v1/tasks/{task}/message", {"text": EVIL})
    denied = asked.json["approval"]["id"]
    served.client("approver").post(f"/v1/approvals/{denied}/answer", {"answer": "no", "advice": EVIL})
    assert until(lambda: served.client("auditor").get("/v1/runs/hostile").json.get("calls", 0) >= 6)
    calls = [
        node["id"]
        for node in served.client("auditor").get("/v1/runs/hostile").json["timeline"]
        if node["node"] == "call"
    ]
    found = {"run": "/runs/hostile", "denied": f"/requests/{denied}", "task": f"/tasks/{task}"}
    found |= {"undo": "/runs/hostile/undo", "changes": f"/changes?path={quote(str(served.work / name))}"}
    if command.status == 202:
        found["request"] = f"/requests/{command.json['approval']['id']}"
    return found | {f"call {number}": f"/runs/hostile/calls/{call}" for number, call in enumerate(calls)}


def test_script_in_any_text_of_an_agent_is_shown_as_text(served: Served, hostile: dict[str, str]) -> None:
    """Paths, contents, output, titles, names of tools and arguments, advice, tasks, what was searched for."""
    found = pages(served, *hostile.values())
    for path, text in found.items():
        assert TAGS.search(text) is None, (path, TAGS.search(text))
    shown = found[hostile["run"]] + found[hostile["task"]] + found[hostile["denied"]]
    assert "&lt;script&gt;" in shown, "it is there, as text"


def test_what_would_hide_or_reorder_text_is_written_out(served: Served) -> None:
    """A right-to-left mark in a path is shown as such."""
    caller = served.client("caller")
    name = "safe\u202etxt.exe"
    (served.work / name).write_text("x")
    caller.call("read_file", {"path": name}, run="bidi")
    assert until(lambda: served.client("auditor").get("/v1/runs/bidi").json.get("calls"))
    page = pages(served, "/runs/bidi")["/runs/bidi"]
    assert "&lt;U+202E&gt;" in page
    assert "\u202e" not in page


@pytest.mark.parametrize("ref", AWAY)
def test_an_artifact_is_a_file_of_the_runs_own_folders(served: Served, ref: str) -> None:
    """No way up, no link, no other folder, no pipe; what is there is given."""
    served.client("caller").call("now", {}, run="artifacts")
    folder = served.state / "runs" / "artifacts" / "observations"
    if not (folder / "link").exists():
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "dir").mkdir()
        (folder / "1.txt").write_text(f"kept {SECRET}")
        import os

        os.mkfifo(folder / "pipe")
    auditor = served.client("auditor")
    assert until(lambda: auditor.get("/v1/runs/artifacts").status == 200)
    found = auditor.get(f"/v1/runs/artifacts/artifacts/{ref}")
    assert found.status == 404, found.text
    good = auditor.get("/v1/runs/artifacts/artifacts/run:observations/1.txt")
    assert (good.status, good.headers["content-disposition"]) == (200, "attachment")
    assert good.text.startswith("kept ")
    assert SECRET not in good.text


def test_nothing_of_a_secret_is_in_pages_events_metrics(served: Served) -> None:
    """Written by an agent into arguments, files and commands; hidden everywhere that people look."""
    caller = served.client("caller")
    (served.work / "token.txt").write_text(f"token = {SECRET}\n")
    caller.call("read_file", {"path": "token.txt"}, run="secret")
    write = {"path": "token.txt", "content": f"token = {SECRET}\nmore\n", "mode": "overwrite"}
    request = caller.call("write_file", write, run="secret").json["approval"]["id"]
    caller.call("run_command", {"command": f"python3 -c 'print(\"{SECRET}\")'"}, run="secret")
    grant(served, request)
    auditor = served.client("auditor")
    assert until(lambda: auditor.get("/v1/runs/secret").json.get("calls", 0) >= 3)
    assert until(lambda: (served.work / "token.txt").read_text().endswith("more\n"))
    texts = pages(served, "/runs/secret", f"/requests/{request}", "/runs/secret/undo", "/runs/secret/export")
    told = {path: auditor.get(path).text for path in ("/v1/runs/secret/events", f"/v1/approvals/{request}", "/metrics")}
    told |= texts
    for path, text in told.items():
        assert SECRET not in text, path
    assert SECRET not in served.error.read_text()


@pytest.mark.slow
def test_requests_without_sense_get_no_500_and_nothing_away(served: Served, scale: int) -> None:
    """Made up by schemathesis from the OpenAPI description; each answer is one that it describes."""
    import schemathesis

    spec = served.client().get("/openapi.json").json
    schema = schemathesis.openapi.from_dict(spec)
    operations: Any = schema.get_all_operations()
    for operation in operations:
        found = operation.ok()
        if found.path != "/v1/events":
            fuzz(served, found, 3 * scale)


def fuzz(served: Served, operation: Any, examples: int) -> None:
    """Send made-up requests to one operation, with the tokens of two roles."""
    from hypothesis import HealthCheck, Phase, given, settings

    how: dict[str, Any] = {"max_examples": examples, "deadline": None, "database": None, "phases": [Phase.generate]}

    @given(case=operation.as_strategy())
    @settings(suppress_health_check=list(HealthCheck), **how)
    def send(case: Any) -> None:
        for role in ("admin", "caller"):
            response = case.call(base_url=served.url, headers={"authorization": f"Bearer {served.tokens[role]}"})
            assert response.status_code < 500, (operation.label, response.status_code, response.text[:500])
            assert "Traceback" not in response.text
            assert "site-packages" not in response.text

    send()


def test_a_slow_body_does_not_hold_others_up(served: Served) -> None:
    """A client that never sends what it promised waits alone."""
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port)) as slow:
        head = f"POST /v1/calls HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer {served.tokens['caller']}\r\n"
        slow.sendall(f"{head}content-length: 1000\r\n\r\n{{".encode())
        with urllib.request.urlopen(f"{served.url}/readyz", timeout=5) as answer:
            assert answer.status == 200


def test_our_own_files_alone_are_served(served: Served) -> None:
    """No other file of the disk, by whatever name."""
    client = served.client()
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/guard.py", "/etc/passwd", "vendor/../../app.py", "app.css/"):
        assert client.get(f"/static/{name}").status == 404, name
    assert client.get("/static/app.css").status == 200
    assert Path(served.work).is_dir()
