"""`exec.hosts = "ask"`: a program's connection to a host that nobody named waits for a person, with that command."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from behaviour._commands import need_sandbox, run
from handrail import Outcome, Runtime
from handrail.errors import Code
from handrail.ports import Reply, Request
from handrail.store import reader
from handrail.testing import ScriptedApprover
from handrail.words import Scope
from serving import LOOPBACK, Names, Server, resolving, serving

CURL = "curl -sS --fail-with-body http://good.test:{port}/"

CLOSED = {"Connection": "close"}  # as servers answer to the proxy, which asks for it


class Person(ScriptedApprover):
    """Answers after some time; notes what was known and looked up at each question."""

    def __init__(self, *answers: Any, seconds: float = 0.0) -> None:
        super().__init__(*answers)
        self.seconds = seconds
        self.names = names()
        self.looked_up: list[list[str]] = []
        self.open = self.most_open = 0

    async def ask(self, request: Request) -> Reply:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        self.looked_up.append([*self.names.asked])
        await asyncio.sleep(self.seconds)
        self.open -= 1
        return await super().ask(request)


def names() -> Names:
    found = Names(inner__test=[["10.0.0.7"]])
    for name in ("good.test", "other.test", "third.test", "xn--mnchen-3ya.test"):
        found.set(name, ["127.0.0.1"])
    return found


def opened(work: Path, person: Any = None, **how: Any) -> Runtime:
    """A runtime whose programs run unasked and whose hosts are asked for; a person or nobody answers."""
    config = {
        "tools": {"enable": ["exec"]},
        "exec": {"hosts": "ask", **how.pop("exec", {})},
        "http": {"allowed_networks": LOOPBACK},
        "limits": {"max_repeats": 0},
        "approvals": dict(how.pop("approvals", {})),
        "rules": [{"effect": "allow", "touch": "proc.exec"}, *how.pop("rules", ())],
    }
    mode = "interactive" if person is not None else "headless"
    return Runtime.open(work, config=config, approver=person, mode=mode, **how)


async def ran(work: Path, command: str, person: Any = None, *, seen: list[Any] | None = None, **how: Any) -> Outcome:
    """Run one command in a runtime of its own; `seen` takes the events of its connections."""
    args = how.pop("args", {})
    async with opened(work, person, **how) as runtime:
        resolving(runtime, person.names if isinstance(person, Person) else names())
        outcome = await run(runtime, command, **args)
        if seen is not None:
            seen += [event for event in reader.events(runtime.parts.folder.path) if event["kind"].startswith("net.")]
        return outcome


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback that stands for public hosts, and a sandbox to reach it from."""
    need_sandbox()
    async with serving() as made:
        made.on("/", "fine")
        yield made


async def test_a_held_connection_goes_on_after_the_yes(work: Path, server: Server) -> None:
    """Nothing is looked up before; the person's time is not the command's."""
    person, seen = Person("once", seconds=1.5), list[Any]()
    line = CURL.format(port=server.port)
    outcome = await ran(work, line, person, args={"timeout_seconds": 1}, seen=seen)
    assert (outcome.ok, outcome.data["stdout"]) == (True, "fine")
    [asked] = person.asked
    assert person.looked_up == [[]]
    assert asked.impact == {"reaches": [f"good.test:{server.port}"], "runs": [line]}
    assert asked.reason == (
        f"the command reaches for good.test:{server.port}, which exec.allowed_hosts does not name; "
        "whatever this command can read may be sent there"
    )
    assert asked.max_scope is Scope.RUN
    assert asked.touches == (("net.connect", f"good.test:{server.port} by {line}"),)
    assert [(event["kind"], event["host"], event["address"]) for event in seen] == [
        ("net.connected", f"good.test:{server.port}", "127.0.0.1")
    ]


async def test_after_no_the_outcome_says_first_why_and_nothing_was_looked_up(work: Path, server: Server) -> None:
    """With the advice; the name was never resolved, the host never dialled."""
    person, seen = Person(Reply("denied", by="ann", advice="use the mirror")), list[Any]()
    line = CURL.format(port=server.port)
    outcome = await ran(work, line, person, seen=seen)
    assert outcome.error is not None
    assert outcome.error.code == Code.EXIT_NONZERO
    first = outcome.content.splitlines()[0]
    assert f"`{line}` reached for good.test:{server.port}, which was refused: ann said no: use the mirror" in first
    assert (server.connections, person.names.asked) == (0, [])
    assert [(event["kind"], event["problem"][:15]) for event in seen] == [("net.refused", "APPROVAL_DENIED")]


async def test_after_a_no_no_further_host_of_the_call_is_asked_for(work: Path, server: Server) -> None:
    """One question, and the next call may ask again."""
    person = Person("no", "once")
    line = f"for host in good other third; do curl -sS http://$host.test:{server.port}/; done"
    async with opened(work, person) as runtime:
        resolving(runtime, names())
        outcome = await run(runtime, line)
        assert (len(person.asked), server.connections) == (1, 0)
        assert f"other.test:{server.port} was not asked for: a person said no" in outcome.data["stdout"]
        assert (await run(runtime, CURL.format(port=server.port))).ok
    assert len(person.asked) == 2


async def test_two_hosts_of_one_call_are_asked_for_one_after_the_other(work: Path, server: Server) -> None:
    """Also where both are reached for at once; several connections to one host share its question."""
    person = Person("once", seconds=0.2)
    each = " ".join(f"curl -sS http://{name}.test:{server.port}/ &" for name in ("good", "other", "good", "other"))
    outcome = await ran(work, f"{each} wait", person)
    assert outcome.data["stdout"] == "fine" * 4
    assert sorted(asked.impact["reaches"][0] for asked in person.asked) == [
        f"good.test:{server.port}",
        f"other.test:{server.port}",
    ]
    assert person.most_open == 1


@pytest.mark.parametrize(
    "host",
    ["10.0.0.7", "169.254.169.254", "metadata.google.internal", "printer.local", "nexus", "[fd00::7]"],
)
async def test_inner_hosts_are_denied_without_a_question(work: Path, server: Server, host: str) -> None:
    """Nobody is asked, nothing is looked up."""
    person, seen = Person("once"), list[Any]()
    outcome = await ran(work, f"curl -sS -m 5 'http://{host}:8080/'", person, seen=seen)
    assert (person.asked, person.names.asked) == ([], [])
    assert [event["problem"][:16] for event in seen] == ["HOST_NOT_ALLOWED"]
    assert "handrail: HOST_NOT_ALLOWED" in outcome.data["stdout"]


async def test_a_public_name_that_leads_inside_is_refused_after_the_yes(work: Path, server: Server) -> None:
    """Resolving and vetting come after the answer, and are not part of it."""
    person, seen = Person("once"), list[Any]()
    await ran(work, "curl -sS -m 5 http://inner.test/", person, seen=seen)
    assert len(person.asked) == 1
    assert ["HOST_NOT_ALLOWED: inner.test leads to 10.0.0.7" in event["problem"] for event in seen] == [True]


async def test_without_an_answer_the_request_stays_and_the_repeated_call_goes_through(
    work: Path, own_user: Path, server: Server
) -> None:
    """Headless: refused with the request on record; granted elsewhere, the same call in another run works, once."""
    line = f"{CURL.format(port=server.port)} -o got.txt"
    keep: dict[str, Any] = {"approvals": {"keep_after_run": True}}
    pending = await ran(work, line, **keep)
    assert pending.error is not None
    first = pending.content.splitlines()[0]
    async with opened(work, **keep) as runtime:
        [request] = runtime.parts.ledger.pending(runtime.parts.clock.now())
        assert (
            f"`{line}` reached for good.test:{server.port}, which a person must allow first (request {request.id}); "
            "repeat the same call when they have."
        ) in first
        runtime.parts.ledger.answer(request.id, Reply("granted", by="ann"))
    other = await ran(work, f"{line} -H X:y", **keep)
    assert not other.ok, "another command line is another question"
    assert (await ran(work, line, **keep)).ok
    assert (work / "got.txt").read_text() == "fine"
    assert not (await ran(work, line, **keep)).ok, "an answer for one call is spent"


async def test_a_connection_is_held_no_longer_than_settings_say(work: Path, server: Server) -> None:
    """Then it is refused, and the request waits on."""
    person = Person("once", seconds=30)
    outcome = await ran(work, CURL.format(port=server.port), person, approvals={"wait_seconds": 0.3})
    assert outcome.error is not None
    assert "repeat the same call when they have" in outcome.content.splitlines()[0]
    assert (person.looked_up, server.connections) == ([[]], 0)


async def test_the_wait_of_a_connection_counts_the_questions_before_it(work: Path, server: Server) -> None:
    """Two hosts at once, with a person who takes a second for each: the second one is held no longer than the first."""
    person = Person("once", seconds=1.0)
    each = " ".join(f"curl -sS http://{name}.test:{server.port}/ &" for name in ("good", "other", "third"))
    seen = list[Any]()
    began = time.monotonic()
    outcome = await ran(work, f"{each} wait", person, seen=seen, approvals={"wait_seconds": 1.6})
    assert time.monotonic() - began < 10
    assert sorted(event["kind"] for event in seen) == ["net.connected", "net.refused", "net.refused"]
    assert len(person.asked) == 1
    assert len(person.looked_up) == 2
    assert "which a person must allow first" in outcome.content.splitlines()[0]


async def test_a_program_that_gives_up_first_is_told_of_as_waiting(work: Path, server: Server) -> None:
    """Its request stays on record; the outcome says which host."""
    person = Person("once", seconds=30)
    outcome = await ran(work, f"curl -sS -m 1 http://good.test:{server.port}/", person)
    assert outcome.error is not None
    first = outcome.content.splitlines()[0]
    assert f"reached for good.test:{server.port}, which a person must allow first; repeat" in first


async def test_a_yes_for_the_run_is_for_the_same_command_with_that_host_and_port(work: Path, server: Server) -> None:
    """Never for the host alone, also where answers for the run cover any target of a tool."""
    person = Person("run", "no")
    async with opened(work, person, approvals={"run_covers": "tool"}) as runtime:
        resolving(runtime, names())
        line = CURL.format(port=server.port)
        assert [(await run(runtime, line)).ok for _ in range(2)] == [True, True]
        assert len(person.asked) == 1
        assert not (await run(runtime, f"{line} -H X:y")).ok
        assert not (await run(runtime, line.replace("good", "other"))).ok
    assert [asked.impact["reaches"] for asked in person.asked[1:]] == [
        [f"good.test:{server.port}"],
        [f"other.test:{server.port}"],
    ]


async def test_a_command_of_the_table_is_granted_with_the_host_by_its_pattern(work: Path, server: Server) -> None:
    """Never the host alone: another command, another port, another host and sending are asked for."""
    (work / "Makefile").write_text(
        f"get:\n\t@{CURL.format(port=server.port)}\n"
        f"other:\n\t@{CURL.format(port=server.port)}\n"
        f"send:\n\t@{CURL.format(port=server.port)} -d x\n"
    )
    person = Person("run", "no")
    async with opened(work, person) as runtime:
        resolving(runtime, names())
        assert (await run(runtime, "make get")).ok
        assert person.asked[0].touches == (("net.connect.pattern", f"good.test:{server.port} by make get"),)
        assert (await run(runtime, "make get 2>&1 | tail -1; cat Makefile")).ok
        assert len(person.asked) == 1
        for line in ("make other", "make get other", "make get; curl -sS http://good.test:1/"):
            await run(runtime, line)
        assert not (await run(runtime, "make get", env={"A": "b"})).ok, "variables are no part of a pattern"
        assert not (await run(runtime, "make send")).ok
    assert len(person.asked) == 6


async def test_always_covers_the_pattern_or_the_exact_line_with_the_host_in_later_runs(
    work: Path, own_user: Path, server: Server
) -> None:
    """Also under other settings; a changed script, another host and sending ask."""
    always: dict[str, Any] = {"approvals": {"max_scope": "always"}}
    (work / "Makefile").write_text(f"get:\n\t@{CURL.format(port=server.port)}\n")
    (work / "get.sh").write_text(CURL.format(port=server.port))
    for line in ("make get", "bash get.sh"):
        person = Person("always")
        assert (await ran(work, line, person, **always)).ok
        assert [asked.max_scope for asked in person.asked] == [Scope.ALWAYS]
        other = Person("no")
        assert (await ran(work, line, other, exec={"max_processes": 99}, **always)).ok
        assert other.asked == []
    (work / "get.sh").write_text(f"{CURL.format(port=server.port)} # and more")
    for line in ("bash get.sh", "bash get.sh x", f"make get; {CURL.format(port=server.port)}"):
        person = Person("no")
        await ran(work, line, person, **always)
        assert len(person.asked) == 1, line


async def test_a_script_that_puts_its_former_self_back_is_asked_for_all_the_same(work: Path, server: Server) -> None:
    """What counts is what its file held when it was started."""
    person = Person("run", "no")
    good = CURL.format(port=server.port)
    (work / "get.sh").write_text(good)
    async with opened(work, person) as runtime:
        resolving(runtime, names())
        assert (await run(runtime, "bash get.sh")).ok
        (work / "get.sh").write_text(f"printf %s '{good}' > get.sh; {good}?all-of-it\n")
        assert not (await run(runtime, "bash get.sh")).ok
        assert (work / "get.sh").read_text() == good
    assert len(person.asked) == 2


async def test_a_script_that_changed_is_asked_for_again(work: Path, server: Server) -> None:
    """The file that a line runs is part of what was approved."""
    person = Person("run", "no")
    (work / "get.sh").write_text(CURL.format(port=server.port))
    async with opened(work, person) as runtime:
        resolving(runtime, names())
        assert (await run(runtime, "bash get.sh")).ok
        (work / "get.sh").write_text(f"{CURL.format(port=server.port)} -d @get.sh")
        assert not (await run(runtime, "bash get.sh")).ok
    assert len(person.asked) == 2


async def test_listed_hosts_are_not_asked_for_and_denied_ones_neither(work: Path, server: Server) -> None:
    """`exec.allowed_hosts` and rules hold as before."""
    person = Person("once")
    deny = {"effect": "deny", "touch": "net.connect", "target": "other.test"}
    outcome = await ran(
        work,
        f"curl -sS http://good.test:{server.port}/; curl -sS http://other.test:{server.port}/",
        person,
        exec={"allowed_hosts": [f"good.test:{server.port}"]},
        rules=[deny],
    )
    assert outcome.data["stdout"].startswith("finehandrail: HOST_NOT_ALLOWED")
    assert person.asked == []


async def test_international_names_are_shown_in_ascii(work: Path, server: Server) -> None:
    """As they are looked up, so that no letter passes for another."""
    person = Person("once")
    client = (
        "import http.client; c = http.client.HTTPConnection('127.0.0.1', 3128); "
        f"c.request('GET', 'http://xn--mnchen-3ya.test:{server.port}/'); print(c.getresponse().read().decode())"
    )
    outcome = await ran(work, f'python3 -c "{client}"', person)
    assert outcome.data["stdout"] == "fine\n"
    assert person.asked[0].impact["reaches"] == [f"xn--mnchen-3ya.test:{server.port}"]


async def test_sending_much_is_asked_for_once_more(work: Path, server: Server) -> None:
    """The first yes is for reading; a large upload asks as sending, and a no ends the connection."""
    (work / "large").write_bytes(b"x" * 300_000)
    person = Person("once", "no")
    line = f"curl -sS -p -T large http://good.test:{server.port}/"  # through a tunnel, where nobody sees the method
    outcome = await ran(work, line, person)
    assert outcome.error is not None
    assert [asked.reason.partition(" good.test")[0] for asked in person.asked] == [
        "the command reaches for",
        "the command sends data to",
    ]
    assert "wanted to send data to good.test" in outcome.content.splitlines()[0]
    assert all(len(asked.body) < 300_000 for asked in server.asked)


async def test_a_job_in_the_background_is_held_as_well(work: Path, server: Server) -> None:
    """The call has ended by then; the question names it all the same."""
    person = Person("once", seconds=0.3)
    async with opened(work, person) as runtime:
        resolving(runtime, names())
        started = await run(runtime, CURL.format(port=server.port), background=True)
        while not (read := await runtime.call("job_read", {"job": "job-1", "wait_seconds": 5})).data["text"]:
            assert read.ok
    assert read.data["text"] == "fine"
    assert [asked.call_id for asked in person.asked] == [started.call_id]


# ── the tools people have ────────────────────────────────────────────────────────────────────


def wheel() -> bytes:
    """The least that pip takes for a package."""
    data, info = io.BytesIO(), "tiny-1.0.dist-info"
    files = {
        "tiny.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def tarball() -> bytes:
    """The least that npm takes for a package."""
    data, text = io.BytesIO(), b'{"name": "tiny", "version": "1.0.0"}'
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        info = tarfile.TarInfo("package/package.json")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return data.getvalue()


@pytest.mark.skipif(not Path("/usr/bin/pip3").exists(), reason="needs the system's pip")
async def test_pip_waits_for_a_person(work: Path, server: Server) -> None:
    """From a local index by a public name."""
    page = '<!doctype html><a href="/tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>'
    server.on("/simple/tiny/", page, headers=CLOSED | {"Content-Type": "text/html"})
    server.on("/tiny-1.0-py3-none-any.whl", wheel(), headers=CLOSED)
    person = Person("once", seconds=1.0)
    index = f"--index-url http://good.test:{server.port}/simple --trusted-host good.test"
    line = f"/usr/bin/python3 -m pip download --no-cache-dir --no-deps -q -d got {index} tiny"
    outcome = await ran(work, line, person, args={"timeout_seconds": 60})
    assert outcome.ok, outcome.content
    assert [path.name for path in (work / "got").iterdir()] == ["tiny-1.0-py3-none-any.whl"]
    assert len(person.asked) == 1


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
async def test_npm_waits_for_a_person(work: Path, server: Server) -> None:
    """From a local registry by a public name."""
    data = tarball()
    dist = {"tarball": server.url("/tiny.tgz", "good.test"), "shasum": hashlib.sha1(data).hexdigest()}
    version = {"name": "tiny", "version": "1.0.0", "dist": dist}
    about = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    server.on("/tiny", json.dumps(about), headers=CLOSED | {"Content-Type": "application/json"})
    server.on("/tiny.tgz", data, headers=CLOSED)
    person = Person("once", seconds=1.0)
    line = f"npm pack --silent --registry http://good.test:{server.port}/ tiny"
    outcome = await ran(work, line, person, args={"timeout_seconds": 60})
    assert outcome.ok, outcome.content
    assert (work / "tiny-1.0.0.tgz").read_bytes() == data
    assert len(person.asked) == 1


async def test_git_over_http_waits_for_a_person(work: Path, server: Server, tmp_path: Path) -> None:
    """The files of a repository, served as they are."""
    there = tmp_path / "there"
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q", str(there)], ["-C", str(there), *who, "commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *words], check=True)
    subprocess.run(["git", "-C", str(there), "update-server-info"], check=True)
    for path in (there / ".git").rglob("*"):
        if path.is_file():
            server.on(f"/r.git/{path.relative_to(there / '.git')}", path.read_bytes(), headers=CLOSED)
    person = Person("once", seconds=1.0)
    outcome = await ran(work, f"git ls-remote http://good.test:{server.port}/r.git", person)
    assert outcome.ok, outcome.content
    assert "refs/heads/" in outcome.data["stdout"]
    assert len(person.asked) == 1
