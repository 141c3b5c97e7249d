"""Held connections of the programs people use, over TLS: they go on after a late yes, and end soon after a no."""

from __future__ import annotations

import hashlib
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox
from behaviour.test_processes_hosts_asked import CLOSED, Person, ran, tarball, wheel
from handrail import Outcome
from handrail.ports import Reply
from handrail.words import Scope
from serving import Server, serving

LATE = 5.0  # seconds that the person takes for the answer
WAIT = 60.0  # approvals.wait_seconds
PIP = Path("/usr/bin/pip3")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A certificate of good.test, made by an authority of its own: the server's context, and the authority's file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("authority")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName = DNS:good.test\n")
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=A test's authority")
    openssl(*new, "-keyout", "its.key", "-out", "its.csr", "-subj", "/CN=good.test")
    openssl(
        *("x509", "-req", "-in", "its.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-days", "2", "-extfile", "names", "-out", "its.pem"),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "its.pem", folder / "its.key")
    return context, folder / "ca.pem"


@pytest.fixture
async def server(authority: tuple[ssl.SSLContext, Path], work: Path) -> AsyncIterator[Server]:
    """A server on loopback that stands for a public host with TLS; programs find its authority in the workspace."""
    need_sandbox()
    context, certificate = authority
    shutil.copy(certificate, work / "ca.pem")
    async with serving(tls=context) as made:
        made.on("/", "fine", headers=CLOSED)
        yield made


def curl(server: Server, _: Path) -> str:
    """Fetch a page."""
    return f"curl -sS --fail-with-body --cacert ca.pem {server.url('/', 'good.test')} -o got.txt"


def pip(server: Server, _: Path) -> str:
    """Fetch a package from an index; two pages, each with a connection of its own."""
    page = '<!doctype html><a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>'
    server.on("/simple/tiny/", page, headers=CLOSED | {"Content-Type": "text/html"})
    server.on("/tiny-1.0-py3-none-any.whl", wheel(), headers=CLOSED)
    index = f"--cert ca.pem --index-url {server.url('/simple', 'good.test')}"
    return f"/usr/bin/python3 -m pip download --no-cache-dir --no-deps -q -d got {index} tiny"


def npm(server: Server, _: Path) -> str:
    """Fetch a package from a registry."""
    data = tarball()
    dist = {"tarball": server.url("/tiny.tgz", "good.test"), "shasum": hashlib.sha1(data).hexdigest()}
    about = {
        "name": "tiny",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {"name": "tiny", "version": "1.0.0", "dist": dist}},
    }
    server.on("/tiny", json.dumps(about), headers=CLOSED | {"Content-Type": "application/json"})
    server.on("/tiny.tgz", data, headers=CLOSED)
    return f"npm pack --silent --cafile ca.pem --registry {server.url('/', 'good.test')} tiny"


def git(server: Server, folder: Path) -> str:
    """Clone a repository whose files are served as they are; one connection a file."""
    there = folder / "there"
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q", str(there)], ["-C", str(there), *who, "commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *words], check=True)
    subprocess.run(["git", "-C", str(there), "update-server-info"], check=True)
    for path in (there / ".git").rglob("*"):
        if path.is_file():
            server.on(f"/r.git/{path.relative_to(there / '.git')}", path.read_bytes(), headers=CLOSED)
    return f"git -c http.sslCAInfo=ca.pem ls-remote {server.url('/r.git', 'good.test')} > got.txt"


PROGRAMS = [
    pytest.param(curl, "got.txt", id="curl"),
    pytest.param(
        pip,
        "got/tiny-1.0-py3-none-any.whl",
        id="pip",
        marks=pytest.mark.skipif(not PIP.exists(), reason="needs the system's pip"),
    ),
    pytest.param(
        npm,
        "tiny-1.0.0.tgz",
        id="npm",
        marks=pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm"),
    ),
    pytest.param(git, "got.txt", id="git"),
]
Program = Callable[[Server, Path], str]


async def held(work: Path, line: str, person: Person) -> tuple[Outcome, list[Any]]:
    """Run a line whose own time limit is shorter than the person's answer; give the events of its connections, too."""
    seen: list[Any] = []
    how: dict[str, Any] = {"args": {"timeout_seconds": 60}, "approvals": {"wait_seconds": WAIT}}
    outcome = await ran(work, line, person, seen=seen, **how)
    return outcome, seen


@pytest.mark.parametrize(("program", "made"), PROGRAMS)
async def test_a_program_goes_on_when_the_person_says_yes_after_five_seconds(
    work: Path, tmp_path: Path, server: Server, program: Program, made: str
) -> None:
    """One question for all its connections; nothing was looked up or dialled before the answer."""
    person = Person("once", seconds=LATE)
    outcome, seen = await held(work, program(server, tmp_path), person)
    assert outcome.ok, outcome.content
    assert (work / made).stat().st_size > 0
    assert len(person.asked) == 1
    assert person.looked_up == [[]]
    assert {event["kind"] for event in seen} == {"net.connected"}
    assert person.asked[0].impact["reaches"] == [f"good.test:{server.port}"]


@pytest.mark.parametrize(("program", "made"), PROGRAMS)
async def test_a_program_ends_soon_after_a_no_with_the_reason_first(
    work: Path, tmp_path: Path, server: Server, program: Program, made: str
) -> None:
    """Its retries join the one question or are refused at once; the name was never looked up."""
    person = Person(Reply("denied", Scope.NONE, by="ann", advice="use the mirror"), seconds=LATE)
    began = time.monotonic()
    outcome, seen = await held(work, program(server, tmp_path), person)
    assert time.monotonic() - began < LATE + WAIT / 2
    assert outcome.error is not None
    first = outcome.content.splitlines()[0]
    assert f"reached for good.test:{server.port}, which was refused: ann said no: use the mirror" in first
    assert len(person.asked) == 1
    assert (server.connections, person.names.asked) == (0, [])
    assert {event["kind"] for event in seen} == {"net.refused"}


async def test_retries_join_the_question_when_a_program_gives_connections_up(work: Path, server: Server) -> None:
    """They are closed after two seconds and made again; the answer after seven is for the one that waits then."""
    person = Person("once", seconds=7.0)
    line = curl(server, work).replace("curl", "curl --max-time 2 --retry 9 --retry-delay 1 --retry-all-errors")
    outcome, seen = await held(work, line, person)
    assert outcome.ok, outcome.content
    assert len(person.asked) == 1
    assert server.connections == 1
    gave_up = [event for event in seen if "CANCELLED" in event.get("problem", "")]
    assert gave_up, seen
    assert not [event for event in gave_up if event["address"]], "what was given up is not dialled after the yes"


async def test_the_request_stays_pending_after_the_wait(work: Path, own_user: Path, server: Server) -> None:
    """The outcome's first line says which program reached for which host, and that the call may be repeated."""
    person = Person("once", seconds=60.0)
    line = curl(server, work)
    began = time.monotonic()
    keep: dict[str, Any] = {"approvals": {"wait_seconds": 1.0, "keep_after_run": True}}
    outcome = await ran(work, line, person, **keep)
    assert 1.0 <= time.monotonic() - began < 20
    first = outcome.content.splitlines()[0]
    assert f"`{line}` reached for good.test:{server.port}, which a person must allow first" in first
    assert "repeat the same call when they have" in first
    from handrail.compose import SystemClock
    from handrail.settings import paths
    from handrail.store.ledger import SqliteLedger

    ledger = SqliteLedger(paths.state_dir() / "ledger.db", SystemClock())
    (request,) = ledger.pending(time.time())
    ledger.answer(request.id, Reply("granted", by="ann"))
    ledger.close()
    again = await ran(work, line, Person("no"), **keep)
    assert again.ok, again.content
