"""Notes from a run to the next: a person answers candidates, or a service keeps them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from handrail.errors import Code, Problem, SettingsFault
from handrail.front.cli.root import run
from handrail.memory import candidates as waiting
from handrail.memory.http import HttpMemory
from handrail.ports import HttpRequest, HttpResponse, Note
from tools._memories import put, stored

# ── candidates ───────────────────────────────────────────────────────────────────────────────


def wanted(work: Path, opens: Any, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Have a run ask for notes; gives the candidates' ids."""

    async def ask() -> list[str]:
        async with opens(enable=("memory",)) as runtime:
            return [(await runtime.call(name, args)).data["id"] for name, args in calls]

    return asyncio.run(ask())


def listed(capsys: pytest.CaptureFixture[str], work: Path, *more: str) -> list[dict[str, Any]]:
    """What `handrail memory list --json` prints."""
    capsys.readouterr()
    assert run(["memory", "list", "--json", "-w", str(work), *more]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_an_accepted_note_is_recalled_and_a_rejected_one_is_not(
    opens: Any, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both leave the list of what waits, and stay on record."""
    first, second = wanted(
        work,
        opens,
        ("write_memory", {"content": "keep me", "tags": ["a"]}),
        ("update_memory", {"action": "create", "title": "t", "content": "drop me", "scope": "user"}),
    )
    assert [(item["id"], item["content"], item["state"]) for item in listed(capsys, work)] == [
        (first, "keep me", "pending"),
        (second, "drop me", "pending"),
    ]
    assert run(["memory", "accept", first[-12:], "-w", str(work)]) == 0
    assert run(["memory", "reject", second, "-w", str(work)]) == 0
    assert listed(capsys, work) == []
    assert [item["state"] for item in listed(capsys, work, "--all")] == ["accepted", "rejected"]
    assert asyncio.run(stored(work)) == [("workspace", "", "keep me")]


def test_a_note_does_nothing_to_the_terminal_it_is_listed_on(
    opens: Any, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Escape sequences and markup are shown as what they are, one line a note."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "a\x1b]0;owned\x07b\n[red]c[/]\u202ed"}))
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["memory", "list", "-w", str(work)]) == 0
    out = capsys.readouterr().out
    assert (out.count("\n"), note[-12:] in out, "[red]c[/]" in out) == (2, True, True)
    assert not set(out) & {"\x1b", "\x07", "\u202e"}


def test_a_second_answer_is_told_of_the_first(opens: Any, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever it was."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    assert run(["memory", "accept", note, "-w", str(work)]) == 0
    for verb in ("accept", "reject"):
        assert run(["memory", verb, note, "-w", str(work)]) == 1
        assert f"Candidate {note} is accepted already" in capsys.readouterr().err
    assert run(["memory", "accept", "nope", "-w", str(work)]) == 2
    assert asyncio.run(stored(work)) == [("workspace", "", "x")]


def test_what_was_rejected_cannot_be_accepted(opens: Any, work: Path) -> None:
    """The provider hears nothing of it."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    assert run(["memory", "reject", note, "-w", str(work)]) == 0
    assert run(["memory", "accept", note, "-w", str(work)]) == 1
    assert asyncio.run(stored(work)) == []


def test_changes_and_deletions_wait_as_well(opens: Any, work: Path) -> None:
    """They are carried out when they are accepted, on what the notes are then."""
    asyncio.run(put(work, Note("n1", "old", "t"), Note("n2", "gone")))
    change, deletion = wanted(
        work,
        opens,
        ("update_memory", {"action": "update", "id": "n1", "content": "new"}),
        ("update_memory", {"action": "delete", "id": "n2"}),
    )
    assert sorted(asyncio.run(stored(work))) == [("workspace", "", "gone"), ("workspace", "t", "old")]
    assert run(["memory", "accept", change, deletion, "-w", str(work)]) == 0
    assert asyncio.run(stored(work)) == [("workspace", "t", "new")]


def test_accepting_leaves_no_run_behind(opens: Any, work: Path, own_user: Path) -> None:
    """Nothing was called."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    runs = own_user / "state/handrail/runs"
    before = sorted(path.name for path in runs.iterdir())
    assert run(["memory", "accept", note, "-w", str(work)]) == 0
    assert sorted(path.name for path in runs.iterdir()) == before


class Torn:
    """A provider that is there, and a disk that fails right after it."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    async def add(self, note: Note) -> Note:
        """Keep the note, then fail as if the process had died before the answer was on record."""
        await self.provider.add(note)
        raise OSError("the lights went out")


def test_accepting_again_after_a_crash_keeps_one_note(opens: Any, work: Path, own_user: Path) -> None:
    """The candidate brings its id along."""
    from handrail.faculties import memory_files
    from handrail.memory.sqlite import SqliteMemory

    wanted(work, opens, ("write_memory", {"content": "once"}))
    runs = own_user / "state/handrail/runs"

    async def twice() -> None:
        (candidate,) = waiting.listed(runs)
        provider = SqliteMemory(memory_files(str(work)))
        with pytest.raises(OSError, match="lights"):
            await waiting.accept(runs, candidate, Torn(provider), 1.0)  # type: ignore[arg-type]
        assert waiting.listed(runs) == [candidate]
        await waiting.accept(runs, candidate, provider, 2.0)
        await provider.close()

    asyncio.run(twice())
    assert waiting.listed(runs) == []
    assert asyncio.run(stored(work)) == [("workspace", "", "once")]


def test_what_is_no_candidate_is_passed_over(opens: Any, work: Path, own_user: Path) -> None:
    """Broken, foreign and renamed files in the archive are not listed, and a file does not say its own run."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    runs = own_user / "state/handrail/runs"
    (path,) = runs.glob("*/archive/memory/*.json")
    whole = json.loads(path.read_text())
    for name, text in {
        "a": "{",
        "b": "[]",
        "c": json.dumps({**whole, "id": "c", "more": 1}),
        "d": json.dumps({**whole, "id": "other"}),
    }.items():
        path.with_name(f"{name}.json").write_text(text)
    path.write_text(json.dumps({**whole, "run_id": "../elsewhere", "state": "accepted"}))
    assert [(item.id, item.run_id, item.state) for item in waiting.listed(runs)] == [
        (note, path.parents[2].name, "pending")
    ]


# ── a service ────────────────────────────────────────────────────────────────────────────────


class Service:
    """A memory service as the contract describes it, in memory."""

    def __init__(self) -> None:
        self.notes: dict[str, dict[str, Any]] = {}
        self.headers: list[dict[str, str]] = []
        self.app = web.Application()
        self.app.router.add_post("/v1/search", self.search)
        self.app.router.add_post("/v1/notes", self.add)
        self.app.router.add_post("/v1/notes/{id}", self.change)
        self.app.router.add_post("/v1/notes/{id}/delete", self.remove)

    async def search(self, request: web.Request) -> web.Response:
        """Notes that hold the query."""
        self.headers.append(dict(request.headers))
        asked = await request.json()
        fits = [note for note in self.notes.values() if asked["query"] in note["content"]]
        fits = [note for note in fits if asked["scope"] in (None, note["scope"])]
        return web.json_response({"notes": [{**note, "score": 1.0} for note in fits[: asked["limit"]]]})

    async def add(self, request: web.Request) -> web.Response:
        """Keep a note."""
        note = await request.json()
        return web.json_response(self.notes.setdefault(note["id"], note), status=201)

    async def change(self, request: web.Request) -> web.Response:
        """Change a note."""
        note = self.notes.get(request.match_info["id"])
        if note is None:
            raise web.HTTPNotFound
        note |= {name: value for name, value in (await request.json()).items() if value is not None}
        return web.json_response(note)

    async def remove(self, request: web.Request) -> web.Response:
        """Forget a note."""
        if self.notes.pop(request.match_info["id"], None) is None:
            raise web.HTTPNotFound
        return web.Response(status=204)


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """A real server on loopback."""
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await runner.cleanup()


def settings(url: str, **more: Any) -> dict[str, Any]:
    """Notes in a service on an inner network that the operator names."""
    return {
        "memory": {"provider": "http", "url": url, "write_mode": "external"},
        "http": {"allowed_networks": ["127.0.0.0/8"]},
        "rules": [{"effect": "allow", "touch": "memory.write"}],
        **more,
    }


async def test_a_service_keeps_changes_and_forgets_notes(opens: Any) -> None:
    """Through the three tools, against a real server."""
    service = Service()
    async with serving(service.app) as url, opens(enable=("memory",), config=settings(url)) as runtime:
        made = await runtime.call("write_memory", {"content": "over the wire", "tags": ["a"], "scope": "user"})
        assert made.ok, made.error
        changed = {"action": "update", "id": made.data["id"], "title": "T", "scope": "user"}
        assert (await runtime.call("update_memory", changed)).ok
        found = await runtime.call("recall_memory", {"query": "wire"})
        (note,) = found.data["notes"]
        assert (note["title"], note["content"], note["scope"], note["tags"]) == ("T", "over the wire", "user", ["a"])
        gone = {"action": "delete", "id": made.data["id"], "scope": "user"}
        assert (await runtime.call("update_memory", gone)).ok
        missing = await runtime.call("update_memory", gone)
    assert service.notes == {}
    assert missing.error is not None
    assert missing.error.code == "NOT_FOUND"


async def test_credentials_of_the_service_are_sent_and_never_shown(opens: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from `http.credentials`, as for every host."""
    monkeypatch.setenv("NOTES_TOKEN", "Bearer very-secret-value-1")
    service = Service()
    async with serving(service.app) as url:
        http = {"allowed_networks": ["127.0.0.0/8"], "credentials": {url.split("/")[2]: "env:NOTES_TOKEN"}}
        async with opens(config=settings(url, http=http)) as runtime:
            outcome = await runtime.call("recall_memory", {"query": "x"})
    assert outcome.ok, outcome.error
    assert [head.get("Authorization") for head in service.headers] == ["Bearer very-secret-value-1"]
    assert "very-secret" not in str(outcome.to_dict())


async def test_an_inner_address_is_reached_only_where_settings_name_its_network(opens: Any) -> None:
    """Naming the URL alone does not open an inner network."""
    service = Service()
    async with serving(service.app) as url, opens(config=settings(url, http={})) as runtime:
        outcome = await runtime.call("recall_memory", {"query": "x"})
    assert outcome.error is not None
    assert outcome.error.code == "HOST_NOT_ALLOWED"
    assert service.headers == []


async def test_the_service_leads_nowhere_else(opens: Any) -> None:
    """A redirect to another host is refused; that host hears nothing."""
    other = Service()
    app = web.Application()
    async with serving(other.app) as target:

        async def lead(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{target}/search")

        app.router.add_post("/v1/search", lead)
        async with serving(app) as url, opens(config=settings(url)) as runtime:
            outcome = await runtime.call("recall_memory", {"query": "x"})
    assert outcome.error is not None
    assert outcome.error.code == "HOST_NOT_ALLOWED"
    assert other.headers == []


@pytest.mark.parametrize("url", [None, "no url", "ftp://notes/"])
async def test_a_service_that_is_not_named_is_refused_at_the_start(opens: Any, url: str | None) -> None:
    """Not in the middle of a run."""
    with pytest.raises(SettingsFault, match=r"memory\.url"):
        async with opens(config={"memory": {"provider": "http", "url": url}}):
            pass


class Answering:
    """A network that gives one answer."""

    def __init__(self, status: int, body: bytes) -> None:
        self.answer = (status, body)
        self.urls: list[str] = []

    async def fetch(self, request: HttpRequest) -> HttpResponse:
        """Give the answer."""
        self.urls.append(request.url)
        status, body = self.answer
        return HttpResponse(request.url, status, {}, body, "127.0.0.1")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (301, b"{}"),
        (404, b""),
        (200, b"no json"),
        (200, b"[]"),
        (200, b'{"notes": 1}'),
        (200, b'{"notes": [{"id": 1, "content": "x"}]}'),
        (200, b'{"notes": [{"id": "x"}]}'),
        (200, b'{"notes": [], "notes": []}'),
        (200, b"[" * 100_000),
    ],
)
async def test_an_answer_that_is_none_is_the_services_fault(status: int, body: bytes) -> None:
    """UPSTREAM_ERROR, whatever it is."""
    with pytest.raises(Problem) as caught:
        await HttpMemory(Answering(status, body), "http://notes").search("x", None, 5)  # type: ignore[arg-type]
    assert caught.value.code is Code.UPSTREAM_ERROR


@pytest.mark.parametrize("note_id", ["..", "a/b", "a?b", "a#b", "%2e%2e", "ü"])
async def test_an_id_stays_one_segment_of_the_path(note_id: str) -> None:
    """It cannot lead to another of the service's addresses."""
    net = Answering(200, b"")
    await HttpMemory(net, "http://notes/v1/").remove(note_id, "user")  # type: ignore[arg-type]
    (url,) = net.urls
    segment = url.removeprefix("http://notes/v1/notes/").removesuffix("/delete")
    assert not set(segment) & set("/?#.")
