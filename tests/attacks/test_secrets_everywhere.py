"""Secrets planted wherever a call can meet them: none is left in what the runtime says or keeps.

Looked through are outcomes, journal, logs, spilled output, stored outcomes, run.json, grants, the terminal and the log.
Left out, as documented: pre-images in the archive, and the ledger, which holds raw arguments until it is answered.

Longer than 500 lines because it is one table of one subject.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from handrail import Answer, Outcome, Reads, Runtime, Workspace
from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.output.patterns import KINDS, MARK
from handrail.output.redact import Redactor
from handrail.settings import paths
from handrail.store import databases
from handrail.testing import ScriptedApprover
from handrail.words import Evidence, Truncation

TOKEN = 'zK4+mN/8"pQ\\2=rT6&wXo9'  # spelled differently in JSON, in a URL and plainly
PASSWORD = "Correct-Horse-9327-Staple"  # may stand in a file name
KEY_BODY = [f"{number:02d}aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0xX{number:02d}" * 2 for number in range(20)]
PEM = "\n".join(["-----BEGIN " + "RSA PRIVATE KEY-----", *KEY_BODY, "-----END " + "RSA PRIVATE KEY-----", ""])
ENABLED = ("fs", "delete_path")
NO_LIMITS = {"limits": {"max_repeats": 10**6, "max_prompts": 10**6, "breaker_failures": 10**6}}
_PLAIN = Redactor(engine="plain")


def base64_cores(secret: str) -> Iterator[str]:
    """What base64 makes of a secret at each of the three alignments, without what depends on its neighbours."""
    data = secret.encode()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        first, last = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        yield encoded[first:last]


def spellings(secret: str) -> dict[str, str]:
    """Every form in which a known value must be recognised."""
    aligned = {f"base64-{number}": core for number, core in enumerate(base64_cores(secret))}
    data = secret.encode()
    return {
        "plain": secret, **aligned, "hex": data.hex(), "HEX": data.hex().upper(), "url": quote(secret, safe=""),
        "url-path": quote(secret), "form": quote_plus(secret), "json": json.dumps(secret)[1:-1],
    }  # fmt: skip


def embedded(secret: str) -> dict[str, str]:
    """The forms as they come in real text: base64 inside a longer value."""
    whole = {
        f"base64-{before}": base64.b64encode(b"user:"[:before] + secret.encode() + b":x").decode()
        for before in range(3)
    }
    return {**spellings(secret), **whole}


TRACES = sorted({text for secret in (TOKEN, PASSWORD) for text in spellings(secret).values()} | set(KEY_BODY))


def traces_in(text: str, wanted: list[str] = TRACES) -> list[str]:
    """Which secrets, or halves of them, stand in a text."""
    halves = [part for whole in wanted for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :])]
    return [part for part in halves if part in text]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A cache with the fast engine's database in it; none where that engine is not installed."""
    folder = tmp_path_factory.mktemp("databases") / "cache"
    return folder if databases.prepare(folder) else None


@pytest.fixture(params=["plain", "fast"])
def engine(request: pytest.FixtureRequest, own_user: Path, compiled: Path | None) -> str:
    """Once with each engine."""
    if request.param == "fast":
        if compiled is None:
            pytest.skip("hyperscan is not installed")
        copytree(compiled, paths.cache_dir())
        assert databases.cached(paths.cache_dir()) is not None
    return str(request.param)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets that the process knows by name."""
    monkeypatch.setenv("API_TOKEN", TOKEN)
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)


class Watch:
    """Makes calls and keeps all that was said, to be looked through at the end."""

    def __init__(self, opens: Any, home: Path, capsys: Any, caplog: Any) -> None:
        self._opens, self._home, self._capsys, self._caplog = opens, home, capsys, caplog
        self.outcomes: list[Outcome] = []
        self.runtime: Runtime

    async def __aenter__(self) -> Watch:
        self._open = self._opens(
            enable=ENABLED, config=NO_LIMITS, approver=ScriptedApprover("once"), tools=OWN, run_id="watched"
        )
        self.runtime = await self._open.__aenter__()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._open.__aexit__(None, None, None)

    async def call(self, name: str, args: dict[str, Any] | None = None, **how: Any) -> Outcome:
        """Make a call."""
        self.outcomes.append(outcome := await self.runtime.call(name, args, **how))
        return outcome

    def said(self) -> dict[str, str]:
        """Everything that left the runtime, by where it is."""
        told = {f"outcome {n} {o.tool}": str(o.to_dict()) + repr(o) for n, o in enumerate(self.outcomes)}
        told |= {f"json {n} {o.tool}": json.dumps(o.to_dict()) for n, o in enumerate(self.outcomes)}
        streams = self._capsys.readouterr()
        told |= {"stdout": streams.out, "stderr": streams.err, "log": self._caplog.text}
        for path in self._home.rglob("*"):
            if path.is_file() and "archive" not in path.parts and not path.name.startswith(("ledger", "redaction-")):
                told[str(path.relative_to(self._home))] = path.read_text("utf-8", "surrogateescape")
        return told

    def leaks(self, wanted: list[str] = TRACES) -> dict[str, list[str]]:
        """Where a secret or half of one stands."""
        return {where: found for where, text in self.said().items() if (found := traces_in(text, wanted))}


@pytest.fixture
def watch(opens: Any, own_user: Path, engine: str, capsys: Any, caplog: Any) -> Watch:
    """A runtime that is listened to."""
    caplog.set_level(logging.DEBUG)
    return Watch(opens, own_user, capsys, caplog)


# ── tools of a user ──────────────────────────────────────────────────────────────────────────


@tool(risk="low", pure=True)
async def gives(value: Any) -> Any:
    """Give back what it was given."""
    return value


@tool(risk="low", pure=True)
async def leaks_aside(how: str) -> Answer[int]:
    """Put a secret where no text is."""
    asides: dict[str, dict[str, Any]] = {
        "summary": {"summary": f"used {PASSWORD}"},
        "warnings": {"warnings": (f"weak: {PASSWORD}",)},
        "commands": {"commands": (f"login --password {PASSWORD}",)},
        "evidence": {"evidence": (Evidence("process", f"login {PASSWORD}", f"with {PASSWORD}"),)},
        "cursor": {"truncation": Truncation("entries", 1, 2, next_cursor=PASSWORD)},
        "content": {"content": f"{TOKEN} and {PASSWORD}"},
    }
    return Answer(1, **asides[how])


@tool(risk="low", pure=True)
async def fails(how: str) -> int:
    """Fail with a secret in the message."""
    if how == "problem":
        raise Problem(
            Code.NOT_FOUND, f"no {PASSWORD}", next_call={"tool": PASSWORD, "args": {PASSWORD: TOKEN}}, at=TOKEN
        )
    if how == "system":
        raise FileNotFoundError(2, "No such file", f"/x/{PASSWORD}")
    if how == "chained":
        try:
            raise KeyError(PASSWORD)
        except KeyError as error:
            raise ValueError(TOKEN) from error
    if how == "result":
        return {"wrong": PASSWORD}  # type: ignore[return-value]
    raise RuntimeError(f"{TOKEN} {PASSWORD}")


@tool(risk="low")
async def looks(files: Workspace, path: Reads) -> str:
    """Read a file as it is."""
    return (await files.read(path, 1 << 20)).data.decode()


OWN = (gives, leaks_aside, fails, looks)


# ── in files ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", embedded(TOKEN))
async def test_no_form_of_a_known_value_is_shown(watch: Watch, work: Path, form: str) -> None:
    """Whichever tool shows it, whichever argument or result holds it."""
    secret = embedded(TOKEN)[form]
    (work / "a.txt").write_text(f"first\nvalue is <{secret}> here\nlast {secret}\n")
    (work / "a.json").write_text(json.dumps({"name": f"x {secret} y", secret: [secret]}))
    async with watch:
        for args in ({}, {"offset": 2}, {"tail": 1}, {"byte_offset": 8, "byte_limit": 30}, {"column": 14}):
            await watch.call("read_file", {"path": "a.txt", **args})
        await watch.call("grep", {"pattern": "value", "context": 1})
        await watch.call("grep", {"pattern": secret[:8], "literal": True})
        await watch.call("json_select", {"path": "a.json", "expression": "@"})
        await watch.call("json_select", {"json": f"{{{secret}", "expression": "@"})
        await watch.call("edit_file", {"path": "a.txt", "edits": [{"old": "first", "new": f"new {secret}"}]})
        await watch.call("edit_file", {"path": "a.txt", "edits": [{"old": f"{secret}!", "new": "x"}]})
        await watch.call("write_file", {"path": "b.txt", "content": secret})
        await watch.call("render_template", {"template": "<{{s}}>", "data": {"s": secret, secret: 1}})
        await watch.call("truncate_text", {"text": f"{'x' * 30}{secret}{'y' * 30}", "max_chars": 50})
        await watch.call("gives", {"value": {secret: [secret, {"deep": secret}]}})
        await watch.call("display", {"content": secret, "title": secret, "thought": secret, "evidence": [secret]})
        await watch.call("looks", {"path": "a.txt"}, idempotency_key="k")
    assert watch.leaks() == {}
    assert sum(outcome.ok for outcome in watch.outcomes) >= 13


@pytest.mark.parametrize("border", [4096, 1 << 14, 51_200, 1 << 16, 1 << 20, 5 << 20])
async def test_no_border_cuts_a_secret_so_that_it_shows(watch: Watch, work: Path, border: int) -> None:
    """At every chunk, window and output border, in lines and in one long line; parts begin in the midst of it."""
    for name, line in (("lines", "word " * 12 + "\n"), ("long", "word ")):
        text = (line * (border // len(line) + 2))[: border - 11] + TOKEN
        (work / name).write_text(text + "\n" + line * 50 + PASSWORD)
    async with watch:
        for name in ("lines", "long"):
            for at in (0, border - 11, border - 9, border - 1, border, border + 3):
                await watch.call("read_file", {"path": name, "byte_offset": at, "byte_limit": 40})
                await watch.call("read_file", {"path": name, "byte_offset": max(0, at - 40), "byte_limit": 40})
            await watch.call("read_file", {"path": name})
            await watch.call("read_file", {"path": name, "max_bytes": 100})
            await watch.call("read_file", {"path": name, "tail": 51})
            await watch.call("read_file", {"path": name, "offset": border // 61})
            await watch.call("read_file", {"path": name, "column": border - 9})
            await watch.call("grep", {"pattern": "mN/8", "literal": True, "path": name})
            await watch.call("looks", {"path": name})
        await watch.call("gives", {"value": "x" * (border - 11) + TOKEN + "y" * 100})
    assert watch.leaks() == {}


async def test_bounded_output_and_its_spill_hide_what_lies_at_the_cut(watch: Watch) -> None:
    """Whole lines, long lines, keys and values: whatever is cut is hidden first."""
    async with watch:
        for size in (1990, 1999, 51_180, 51_195, 51_199, 51_200):
            await watch.call("gives", {"value": "x" * size + PASSWORD + "y" * 60_000})
            await watch.call("gives", {"value": "word\n" * (size // 5) + PASSWORD + "\nword" * 10_000})
            await watch.call("gives", {"value": {PASSWORD: "x" * size, "list": [PASSWORD] * 3000}})
        refs = [ref.ref for outcome in watch.outcomes for ref in outcome.refs]
        for ref in refs:
            await watch.call("read_file", {"path": ref, "tail": 3})
            await watch.call("grep", {"path": ref, "pattern": "Correct|Horse|Staple"})
    assert refs != []
    assert watch.leaks() == {}


async def test_no_part_of_a_private_key_is_shown(watch: Watch, work: Path) -> None:
    """From its second line, from its end, by bytes, by a search for one of its inner lines, in JSON and in patches."""
    (work / "key.txt").write_text(f"a key\n{PEM}after\n")
    (work / "key.json").write_text(json.dumps({"key": PEM, "list": [PEM]}))
    async with watch:
        for offset in (1, 2, 3, 10, 21, 22):
            await watch.call("read_file", {"path": "key.txt", "offset": offset, "limit": 2})
        for tail in (2, 3, 5, 20):
            await watch.call("read_file", {"path": "key.txt", "tail": tail})
        for at in (10, 60, 200, 900, 1400):
            await watch.call("read_file", {"path": "key.txt", "byte_offset": at, "byte_limit": 100})
        for line in (0, 5, 19):
            await watch.call("grep", {"pattern": KEY_BODY[line][:20], "literal": True})
            await watch.call("grep", {"pattern": KEY_BODY[line][:20], "literal": True, "context": 1, "path": "key.txt"})
        await watch.call("grep", {"pattern": "after", "context": 3, "path": "key.txt"})
        await watch.call("grep", {"pattern": "(?s)a key.*after", "multiline": True, "path": "key.txt"})
        await watch.call("json_select", {"path": "key.json", "expression": "@"})
        await watch.call("json_select", {"path": "key.json", "expression": "list[0]"})
        await watch.call("edit_file", {"path": "key.txt", "edits": [{"old": "after\n!", "new": "x"}]})
        await watch.call("edit_file", {"path": "key.txt", "edits": [{"old": f"{PEM.splitlines()[0]}\nx", "new": "x"}]})
        await watch.call("edit_file", {"path": "key.txt", "edits": [{"old": "after", "new": "x"}]})
        await watch.call("edit_file", {"path": "key.txt", "edits": [{"old": "a key", "new": "x"}]})
        await watch.call("looks", {"path": "key.txt"})
    assert watch.leaks() == {}


async def test_no_kind_of_secret_known_by_its_shape_is_left(watch: Watch, work: Path) -> None:
    """The example of every kind: in a file, as a result, as an argument, in an error."""
    found = {kind.name: [kind.example[a:b] for a, b in _PLAIN.spans(kind.example)] for kind in KINDS}
    wanted = [text for texts in found.values() for text in texts if len(text) >= 8]
    assert len(wanted) >= 150
    (work / "all.txt").write_text("\n\n".join(f"# {kind.name}\n{kind.example}\n" for kind in KINDS))
    (work / "each").mkdir()
    for number, kind in enumerate(KINDS):
        (work / f"each/{number}.txt").write_text(f"# {kind.name}\n{kind.example}\n")
    async with watch:
        first = await watch.call("read_file", {"path": "all.txt"})
        while (ref := first.truncation) is not None and ref.next_cursor:
            first = await watch.call("read_file", {"path": "all.txt", "offset": int(ref.next_cursor)})
        await watch.call("grep", {"pattern": ".", "path": "each", "limit": 5000})
        await watch.call("grep", {"pattern": ".", "path": "all.txt", "limit": 50})
        for kind in KINDS:
            await watch.call("gives", {"value": {"text": f"it is {kind.example} here"}})
        await watch.call("display", {"content": "\n".join(kind.example for kind in KINDS)})
    told = watch.said()
    assert {where: [text for text in wanted if text in said] for where, said in told.items() if any(
        text in said for text in wanted)} == {}  # fmt: skip


# ── in names ─────────────────────────────────────────────────────────────────────────────────


async def test_no_secret_in_a_file_or_folder_name_is_shown(watch: Watch, work: Path) -> None:
    """By tools that find, look, read, change, move and delete, and by those that fail."""
    folder = work / f"dir-{PASSWORD}"
    folder.mkdir()
    (folder / "inner.txt").write_text("inner\n")
    for name in ("a", "b", "c", "d"):
        (work / f"{name}-{PASSWORD}.txt").write_text('{"word": 1}\n')
    (work / "link").symlink_to(f"a-{PASSWORD}.txt")
    one, other = f"a-{PASSWORD}.txt", f"b-{PASSWORD}.txt"
    async with watch:
        await watch.call("list_dir", {"depth": 3})
        await watch.call("list_dir", {"depth": 3, "limit": 1, "sort": "mtime"})
        await watch.call("find_files", {"pattern": "*"})
        await watch.call("find_files", {"pattern": "*", "limit": 1})
        for mode in ("content", "files", "count"):
            await watch.call("grep", {"pattern": "word", "mode": mode, "limit": 2})
        for tool_name in ("read_file", "stat_path", "hash_file"):
            await watch.call(tool_name, {"path": one})
            await watch.call(tool_name, {"path": f"x{one}"})
            await watch.call(tool_name, {"path": f"{one}/x"})
        await watch.call("stat_path", {"path": "link"})
        await watch.call("read_file", {"path": "link"})
        await watch.call("json_select", {"path": one, "expression": "word"})
        await watch.call("edit_file", {"path": one, "edits": [{"old": "word", "new": "changed"}]})
        await watch.call("edit_file", {"path": one, "edits": [{"old": "nowhere", "new": "changed"}]})
        await watch.call("write_file", {"path": f"new/{PASSWORD}/x", "content": "x"})
        await watch.call("write_file", {"path": one, "content": "x", "mode": "overwrite"})
        await watch.call("write_file", {"path": one, "content": "x"})
        await watch.call("make_dir", {"path": f"made-{PASSWORD}/sub"})
        await watch.call("move_path", {"source": other, "target": f"moved-{PASSWORD}"})
        await watch.call("move_path", {"source": f"dir-{PASSWORD}", "target": "plain"})
        await watch.call("delete_path", {"path": f"c-{PASSWORD}.txt", "confirm": True})
        await watch.call("delete_path", {"path": f"d-{PASSWORD}.txt"})
        await watch.call("read_file", {"path": f"/{PASSWORD}"})
        await watch.call("read_file", {"path": f"../{PASSWORD}"})
        await watch.call("apply_patch", {"patch": f"--- a/{one}\n+++ b/{one}\n@@ -1 +1 @@\n-nothing\n+x\n"})
        await watch.call("apply_patch", {"patch": f"*** Begin Patch\n*** Add File: p-{PASSWORD}\n+x\n*** End Patch\n"})
    assert watch.leaks() == {}


# ── in arguments, errors and asides ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "args"),
    [
        (PASSWORD, {}),
        ("read_file", {PASSWORD: 1}),
        ("read_file", {"path": [PASSWORD]}),
        ("read_file", {"path": "x", "offset": PASSWORD}),
        ("read_file", {"path": f"{PASSWORD}\0"}),
        ("write_file", {"path": "x", "content": {"a": PASSWORD}}),
        ("grep", {"pattern": f"({PASSWORD}"}),
        ("grep", {"pattern": PASSWORD, "path": "nowhere"}),
        ("find_files", {"pattern": f"{PASSWORD}[", "cursor": PASSWORD}),
        ("json_select", {"json": PASSWORD, "expression": "@"}),
        ("json_select", {"json": {}, "expression": f"'{PASSWORD}' | ["}),
        ("render_template", {"template": f"{{{{#{PASSWORD}}}}}"}),
        ("render_template", {"template": f"{{{{>{PASSWORD}}}}}", "partials": {PASSWORD: PASSWORD}}),
        ("now", {"timezone": PASSWORD}),
        ("apply_patch", {"patch": PASSWORD}),
        ("list_dir", {"ignore": [PASSWORD], "cursor": PASSWORD}),
        ("truncate_text", {"text": PASSWORD * 3, "max_chars": 30, "keep": "middle"}),
        ("fails", {"how": "problem"}),
        ("fails", {"how": "system"}),
        ("fails", {"how": "chained"}),
        ("fails", {"how": "result"}),
        ("fails", {"how": "bug"}),
        *(
            ("leaks_aside", {"how": how})
            for how in ("summary", "warnings", "commands", "evidence", "cursor", "content")
        ),
    ],
)
async def test_no_argument_error_or_aside_gives_a_secret_away(watch: Watch, name: str, args: dict[str, Any]) -> None:
    """Also not in the log of what went wrong."""
    async with watch:
        await watch.call(name, args)
        await watch.call(name, args, idempotency_key="key")
    assert watch.leaks() == {}


async def test_no_secret_is_in_what_a_person_is_asked(watch: Watch, work: Path) -> None:
    """The request, as journal, grant and outcome keep it."""
    (work / f"{PASSWORD}.txt").write_text(f"{TOKEN}\n")
    async with watch:
        args = {"path": f"{PASSWORD}.txt", "content": f"{TOKEN} x", "mode": "overwrite"}
        await watch.call("read_file", {"path": f"{PASSWORD}.txt"})
        asked = await watch.call("write_file", args)
        assert asked.ok, asked.content
    refusing = ScriptedApprover("pending")
    async with watch._opens(enable=ENABLED, approver=refusing, run_id="again") as runtime:
        watch.outcomes.append(await runtime.call("delete_path", {"path": f"{PASSWORD}.txt", "confirm": True}))
    assert watch.outcomes[-1].error.code == "APPROVAL_REQUIRED"  # type: ignore[union-attr]
    assert watch.leaks() == {}


# ── the marker ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("write_file", {"path": "new.txt", "content": f"key = {MARK}\n"}),
        ("write_file", {"path": "a.txt", "content": f"key = {MARK}\n", "mode": "append"}),
        ("edit_file", {"path": "a.txt", "edits": [{"old": "word", "new": MARK}]}),
        ("edit_file", {"path": "a.txt", "edits": [{"old": "w", "new": MARK[:6]}, {"old": "ord", "new": MARK[6:]}]}),
        ("apply_patch", {"patch": f"*** Begin Patch\n*** Add File: new.txt\n+{MARK}\n*** End Patch\n"}),
        ("apply_patch", {"patch": f"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-word\n+{MARK}\n"}),
    ],
)
async def test_a_write_that_adds_the_marker_is_refused(opens: Any, work: Path, name: str, args: dict[str, Any]) -> None:
    """A model writes back what it read; the secret would be gone."""
    (work / "a.txt").write_text("word\n")
    async with opens(enable=ENABLED, approver=ScriptedApprover("once")) as runtime:
        await runtime.call("read_file", {"path": "a.txt"})
        outcome = await runtime.call(name, args)
    assert not outcome.ok
    assert {path.name: path.read_text() for path in work.iterdir()} == {"a.txt": "word\n"}
