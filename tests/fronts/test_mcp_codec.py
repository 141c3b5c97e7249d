"""The thin codec: it answers as the SDK would, takes nothing crooked, and stops what is cancelled."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types.version
import pytest

from fronts.mcp_talk import Talk
from handrail import Code, Problem, Screen, Tool, tool
from handrail.front.mcp import wire
from handrail.front.mcp.door import Door
from handrail.front.mcp.logs import HidingFormatter
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.results import output_schema
from handrail.front.mcp.watch import watching
from handrail.store.reader import events

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])


@asynccontextmanager
async def talking(
    work: Path, *, modern: bool = False, config: Any = None, sdk: bool = False, tools: tuple[Tool, ...] = (), **how: Any
) -> AsyncIterator[tuple[Talk, Door]]:
    """A client that has begun to talk."""
    async with Door(Opening(str(work), {} if config is None else config, tools=tools)) as door:
        talk = Talk(door, modern=modern, sdk=sdk, **how)
        talk.hello = await talk.greet()  # type: ignore[attr-defined]
        yield talk, door
        await talk.close()


def test_the_versions_are_those_of_the_sdk() -> None:
    """They are written down here to spare the import."""
    known = mcp_types.version
    assert known.HANDSHAKE_PROTOCOL_VERSIONS == wire.HANDSHAKE_VERSIONS
    assert (wire.MODERN_VERSION,) == known.MODERN_PROTOCOL_VERSIONS


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("tools/list", {"cursor": "nonsense"}),
    ("tools/list", {"cursor": "YWJj"}),
    ("tools/call", {"name": "read_file", "arguments": {"path": "a.txt"}}),
    ("tools/call", {"name": "read_file", "arguments": {"path": "b.txt"}}),
    ("tools/call", {"name": "read_file", "arguments": {"wrong": 1}}),
    ("tools/call", {"name": "read_fil", "arguments": {}}),
    ("tools/call", {"name": "read_file", "arguments": [1]}),
    ("tools/call", {"arguments": {}}),
    ("tools/call", {"name": "now", "_meta": {"progressToken": {}}}),
    ("ping", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "run:observations/nothing.txt"}),
    ("resources/read", {"uri": "file:///etc/passwd"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "nothing"}),
    ("tasks/get", {"taskId": "nothing"}),
    ("completion/complete", {}),
    ("no/such/method", {}),
    ("initialize", {}),
]


@ERAS
async def test_the_codec_answers_as_the_sdk_does(work: Path, modern: bool) -> None:
    """Every message of the table, and the greeting: equal but for ids and times, whichever of the two answers."""
    (work / "a.txt").write_text("one\n")
    told = []
    for sdk in (False, True):
        async with talking(work, modern=modern, sdk=sdk) as (talk, _):
            answers = [await talk.ask(method, params) for method, params in ASKED]
            told.append([plain(answer) for answer in [talk.hello, *answers]])  # type: ignore[attr-defined]
    for (method, params), ours, theirs in zip([("greeting", {}), *ASKED], *told, strict=True):
        assert ours == theirs, (method, params)


def plain(value: Any) -> Any:
    """A value without what no two calls share."""
    if isinstance(value, dict):
        own = ("call_id", "duration_ms", "sha256", "ref")
        return {name: plain(item) for name, item in value.items() if name not in own}
    return [plain(item) for item in value] if isinstance(value, list) else value


DEEP = 100_000
CROOKED = {
    "no JSON": (b"{", -32700, None),
    "no UTF-8": (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700, None),
    "a key twice": (b'{"jsonrpc": "2.0", "id": 9, "id": 1, "method": "ping"}', -32700, None),
    "a key twice, deep inside": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"now","arguments":{"a":[{"b":1,"b":2}]}}}',
        -32600,
        1,
    ),
    "a key twice, hidden by spaces": (b'{"jsonrpc" : "2.0", "id" : 1, "id":2, "method":"ping"}', -32700, None),
    "a key twice, spelled otherwise": (b'{"jsonrpc": "2.0", "id": 1, "\\u0069d": 2, "method": "ping"}', -32700, None),
    "NaN": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', -32600, 1),
    "a number too large": (b'{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": {"a": 1e999}}', -32600, "x"),
    "half a pair": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "\\ud800"}}', -32600, 1),
    "half a pair as an id": (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', -32700, None),
    "half a pair in an answer": (b'{"jsonrpc": "2.0", "id": 1, "result": {"a": "\\ud800"}}', -32700, None),
    "far too deep": (
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": ' + b"[" * DEEP + b"]" * DEEP + b"}",
        -32700,
        None,
    ),
    "deep": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 300 + b"]" * 300 + b"}}", -32600, 1),
    "many at once": (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None),
    "a text": (b'"ping"', -32600, None),
    "another version": (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600, None),
    "an id that is none": (b'{"jsonrpc": "2.0", "id": [1], "method": "ping"}', -32600, None),
    "an id that is nothing": (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
}


@pytest.mark.parametrize("name", CROOKED)
async def test_crooked_input_is_refused_and_the_server_lives(work: Path, name: str) -> None:
    """With an error that names the request where it can be told, and the next request is answered."""
    line, code, request_id = CROOKED[name]
    async with talking(work) as (talk, _):
        talk.heard.clear()
        talk.raw(line + b"\n")
        answer = await talk.until(lambda message: "error" in message)
        assert (answer["error"]["code"], answer["id"]) == (code, request_id)
        assert (await talk.ask("ping"))["result"] == {}


@pytest.mark.parametrize("text", ["1", "-0.5", '"a:b"', '{"a":"x:y"}', "[1e3]", "123456789012345678901234567890"])
def test_what_is_straight_is_read_as_json_reads_it(text: str) -> None:
    """Also where the quick way gives up."""
    assert wire.parse(text.encode()) == json.loads(text)


@ERAS
async def test_cancelling_stops_the_work_and_is_not_answered(work: Path, modern: bool) -> None:
    """The tool is cancelled, the journal says so."""
    began, stopped = asyncio.Event(), asyncio.Event()

    @tool(pure=True)
    async def wait_for_ever() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with talking(work, modern=modern, tools=(wait_for_ever,)) as (talk, door):
        talk.say("tools/call", {"name": "wait_for_ever", "arguments": {}}, "slow")
        await began.wait()
        talk.say("notifications/cancelled", {"requestId": "slow"})
        await asyncio.wait_for(stopped.wait(), 5)
        assert "result" in await talk.ask("tools/list")
        assert not [message for message in talk.heard if message.get("id") == "slow"]
        folder = door.runtime.parts.folder.path
    codes = [event.get("code") for event in events(folder) if event["kind"] == "tool.failed"]
    assert codes == ["CANCELLED"]


@ERAS
async def test_what_a_tool_shows_is_progress_of_its_own_call(work: Path, modern: bool) -> None:
    """In order, with the token of that call; without a token nothing is sent."""

    @tool(risk="low", permissions=("tool.use",))
    async def steps(screen: Screen, name: str) -> str:
        """Show two things."""
        screen.show({"content": f"{name} one"})
        await asyncio.sleep(0)
        screen.show({"content": f"{name} two"})
        return name

    async with talking(work, modern=modern, tools=(steps,)) as (talk, _):
        await asyncio.gather(*(
            talk.call("steps", {"name": name}, _meta={"progressToken": name}) for name in ("a", "b")
        ))  # fmt: skip
        await talk.call("steps", {"name": "c"})
        told = [message["params"] for message in talk.heard if message.get("method") == "notifications/progress"]
    assert sorted(told, key=lambda item: (item["progressToken"], item["progress"])) == [
        {"progressToken": name, "progress": number, "message": f"{name} {word}"}
        for name in ("a", "b")
        for number, word in ((1, "one"), (2, "two"))
    ]


async def all_pages(talk: Talk, kind: str, size: int) -> list[str]:
    """The names of a list, page by page; no page but the last is shorter than it may be."""
    found, params = list[list[str]](), dict[str, Any]()
    for _ in range(100):
        page = (await talk.ask(f"{kind}/list", params))["result"]
        found.append([item["name"] for item in page[kind]])
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert [len(names) for names in found[:-1]] == [size] * (len(found) - 1)
    assert 0 < len(found[-1]) <= size
    return [name for names in found for name in names]


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
async def test_a_list_comes_in_pages(work: Path, kind: str) -> None:
    """All of its entries, each once, whatever the size of a page."""
    for number in range(7):
        folder = work / ".agents" / "skills" / f"brew-{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: brew-{number}\ndescription: Make tea.\n---\nBoil.\n")
    async with talking(work) as (talk, _):
        whole = [item["name"] for item in (await talk.ask(f"{kind}/list"))["result"][kind]]
    async with talking(work, config={"mcp": {"page_size": 3}}) as (talk, _):
        found = await all_pages(talk, kind, 3)
    assert (found, len(found) >= 7) == (whole, True)


async def test_changed_settings_count_and_are_told(work: Path, tmp_path: Path) -> None:
    """The same run goes on with the new settings, and the client hears that the lists are others."""
    config = tmp_path / "settings.toml"
    config.write_text("")
    async with talking(work, config=str(config)) as (talk, door), watching(door, talk.codec.changed, 0.01):
        run = door.runtime.run_id
        assert (await talk.call("make_dir", {"path": "d"}))["isError"]
        config.write_text('tools.enable = ["fs"]\n')
        await talk.until(lambda message: message.get("method") == "notifications/tools/list_changed")
        names = [item["name"] for item in (await talk.ask("tools/list"))["result"]["tools"]]
        assert "make_dir" in names
        assert not (await talk.call("make_dir", {"path": "d"}))["isError"]
        assert door.runtime.run_id == run


async def test_broken_settings_leave_the_former_in_force(
    work: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the operator is told."""
    config = tmp_path / "settings.toml"
    config.write_text('tools.enable = ["fs"]\n')
    async with talking(work, config=str(config)) as (talk, door), watching(door, talk.codec.changed, 0.01):
        config.write_text("tools.enabel = 1\n")
        async with asyncio.timeout(5):
            while "cannot be taken" not in caplog.text:
                await asyncio.sleep(0.01)
        assert not (await talk.call("make_dir", {"path": "d"}))["isError"]


async def test_settings_that_no_run_can_be_opened_with_refuse_every_call_until_mended(
    work: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They can be read, so the run was closed for them; the server lives, and goes on once they are mended."""
    (work / "a.txt").write_text("one\n")
    config = tmp_path / "settings.toml"
    config.write_text("")
    async with talking(work, config=str(config)) as (talk, door), watching(door, talk.codec.changed, 0.01):
        config.write_text('workspace.root = "nowhere"\n')
        async with asyncio.timeout(5):
            while "every call is refused" not in caplog.text:
                await asyncio.sleep(0.01)
        read = {"name": "read_file", "arguments": {"path": "a.txt"}}
        assert (await talk.ask("tools/call", read))["error"]["code"] in (-32603, -32602)
        config.write_text("")
        async with asyncio.timeout(5):
            while not door.is_open:
                await asyncio.sleep(0.01)
        assert (await talk.ask("tools/call", read))["result"]["isError"] is False


async def test_a_run_is_not_opened_anew_under_a_call_that_goes_on(work: Path) -> None:
    """The call ends as it began; then the run can be opened anew."""
    began, go_on = asyncio.Event(), asyncio.Event()

    @tool(pure=True)
    async def slow() -> str:
        """Wait for a sign."""
        began.set()
        await go_on.wait()
        return "done"

    async with talking(work, tools=(slow,)) as (talk, door):
        calling = asyncio.ensure_future(talk.call("slow", {}))
        await began.wait()
        assert not await door.reopen()
        assert not await door.reopen(patience=0.01)
        go_on.set()
        assert (await calling)["structuredContent"] == {"result": "done"}
        assert await door.reopen(patience=1.0)


async def test_logs_hide_what_outcomes_hide(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that repeats an argument shows no secret."""
    monkeypatch.setenv("MY_API_TOKEN", "correct-horse-battery-staple")
    async with talking(work):
        record = logging.LogRecord("mcp", logging.ERROR, "", 0, "got correct-horse-battery-staple", None, None)
        assert "horse" not in HidingFormatter("%(message)s").format(record)


async def test_an_error_tells_the_model_how_to_mend_its_call(work: Path) -> None:
    """Code, message, details and the next call stand in the text."""

    @tool(pure=True)
    async def fails() -> str:
        """Fail."""
        raise Problem(Code.NOT_FOUND, "not here", next_call={"tool": "now", "args": {}}, near=["there"])

    async with talking(work, tools=(fails,)) as (talk, _):
        result = await talk.call("fails", {})
    text = result["content"][0]["text"]
    assert (result["isError"], text.splitlines()) == (
        True,
        ["NOT_FOUND: not here", 'details: {"near":["there"]}', 'try: {"tool":"now","args":{}}'],
    )
    assert result["_meta"]["handrail/outcome"]["error"]["next_call"] == {"tool": "now", "args": {}}


async def test_output_that_was_cut_is_a_resource(work: Path) -> None:
    """Listed and read through the same gate."""
    (work / "long.txt").write_text("".join(f"line {number}\n" for number in range(100)))
    settings = {"limits": {"max_output_lines": 10}}
    template = {"template": "{{#n}}{{.}}\n{{/n}}", "data": {"n": list(range(100))}}
    async with talking(work, config=settings) as (talk, _):
        result = await talk.call("render_template", template)
        ref = result["_meta"]["handrail/outcome"]["truncation"]["ref"]
        assert [item["uri"] for item in (await talk.ask("resources/list"))["result"]["resources"]] == [ref]
        read = (await talk.ask("resources/read", {"uri": ref}))["result"]["contents"][0]
        assert (read["uri"], read["text"].startswith("0\n1\n")) == (ref, True)
        refused = await talk.ask("resources/read", {"uri": "run:../../ledger.db"})
        assert refused["error"]["data"]["code"] == "PATH_OUTSIDE_ROOTS"


async def test_asking_for_a_list_again_and_again_is_no_problem(work: Path) -> None:
    """Each listing is made of calls, and a run stops calls that always give the same; the list is the same, too."""
    async with talking(work) as (talk, _):
        for method in ("prompts/list", "resources/list"):
            told = [(await talk.ask(method))["result"] for _ in range(12)]
            assert told == [told[0]] * 12


@ERAS
async def test_skills_are_resources_and_prompts(work: Path, modern: bool) -> None:
    """Read through the gate; the prompt brings the person's task after the skill's text."""
    folder = work / ".agents" / "skills" / "brew"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: brew\ndescription: Make tea.\n---\nBoil water first.\n")
    async with talking(work, modern=modern) as (talk, _):
        listed = (await talk.ask("resources/list"))["result"]["resources"]
        assert [(item["uri"], item["description"]) for item in listed] == [("skill://brew/SKILL.md", "Make tea.")]
        read = (await talk.ask("resources/read", {"uri": "skill://brew/SKILL.md"}))["result"]["contents"]
        assert "Boil water first." in read[0]["text"]
        assert [item["name"] for item in (await talk.ask("prompts/list"))["result"]["prompts"]] == ["brew"]
        asked = {"name": "brew", "arguments": {"task": "Two cups."}}
        skill, task = (await talk.ask("prompts/get", asked))["result"]["messages"]
        assert ("Boil water first." in skill["content"]["text"], task["content"]["text"]) == (True, "Two cups.")


@pytest.mark.parametrize("dialect", ["mcp-filesystem", "tool-hub"])
async def test_a_dialect_is_spoken_in_lists_and_results(work: Path, dialect: str) -> None:
    """Its names and arguments, under the same gate; the tools of the runtime alone have no such names."""
    (work / "a.txt").write_text("one\n")
    name = {"mcp-filesystem": "read_text_file", "tool-hub": "core/fs.readText"}[dialect]
    async with Door(Opening(str(work), {}, dialect=dialect)) as door:
        talk = Talk(door, modern=False)
        await talk.greet()
        names = [item["name"] for item in (await talk.ask("tools/list"))["result"]["tools"]]
        assert (name in names, "list_dir" in names) == (True, False)
        result = await talk.call(name, {"path": "a.txt"})
        assert (result["isError"], "one" in result["content"][0]["text"]) == (False, True)
        refused = await talk.call(name, {"path": "../a.txt"})
        assert (refused["isError"], "PATH_OUTSIDE_ROOTS" in str(refused["_meta"])) == (True, True)
        await talk.close()


def test_data_that_is_no_object_is_put_into_one() -> None:
    """With its definitions where references find them."""
    schema = {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}}
    assert output_schema(schema) == {
        "$defs": {"A": {"type": "string"}},
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        "required": ["result"],
    }
