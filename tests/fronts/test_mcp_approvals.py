"""Approvals over MCP: answered on record by people elsewhere; a client's own word counts only where settings say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fronts.mcp_talk import Talk
from handrail import Scope
from handrail.front.mcp import tasks
from handrail.front.mcp.door import Door
from handrail.front.mcp.opening import Opening
from handrail.ports import Reply, Request

ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])
DELETE = {"path": "a.txt", "confirm": True}
FORMS: dict[str, Any] = {"elicitation": {}}
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
YES = {"action": "accept", "content": {"approve": True}}
GRANTED = Reply("granted", Scope.CALL, by="ann")

Opens = Callable[..., Any]


class Scene:
    """A client, the server, and the person elsewhere."""

    def __init__(self, talk: Talk, door: Door, file: Path) -> None:
        self.talk, self.door, self.file = talk, door, file

    @property
    def book(self) -> Any:
        """Where people answer."""
        return self.door.runtime.parts.ledger

    def pending(self) -> tuple[Request, ...]:
        """What waits."""
        found: tuple[Request, ...] = self.book.pending(self.door.runtime.parts.clock.now())
        return found

    async def asked(self) -> Request:
        """Wait for a request."""
        async with asyncio.timeout(5):
            while not self.pending():
                await asyncio.sleep(0.005)
        return self.pending()[0]

    def by(self) -> list[str]:
        """Who answered, of all requests."""
        return [record.reply.by for record in self.book.list() if record.reply is not None]


@asynccontextmanager
async def opened(work: Path, *, modern: bool, wait: float = 0.0, **how: Any) -> AsyncIterator[Scene]:
    """A workspace with a file that may be deleted once somebody says so."""
    file = work / "a.txt"
    file.write_text("one\n")
    settings = {
        "tools": {"enable": ["fs", "delete_path"]},
        "mcp": {"wait_seconds": wait, "trust_client_approval": how.pop("trust", False)},
        **how.pop("more", {}),
    }
    async with Door(Opening(str(work), settings, console=how.pop("console", None))) as door:
        talk = Talk(door, modern=modern, **how)
        await talk.greet()
        yield Scene(talk, door, file)
        await talk.close()


def code(result: dict[str, Any]) -> str | None:
    """The code of a result."""
    error = result["_meta"]["handrail/outcome"]["error"]
    return None if error is None else str(error["code"])


@ERAS
async def test_a_pending_call_names_its_approval_and_can_be_repeated_once(work: Path, modern: bool) -> None:
    """Granted elsewhere it runs; repeated once more it asks anew."""
    async with opened(work, modern=modern) as scene:
        first = await scene.talk.call("delete_path", DELETE)
        request = (await scene.asked()).id
        text = first["content"][0]["text"]
        assert (first["isError"], code(first)) == (True, "APPROVAL_REQUIRED")
        assert "A person must approve this; repeat the same call when they have." in text
        assert (request in text, "handrail approvals" in text, "--approval" in text) == (True, False, False)
        assert scene.file.exists()
        scene.book.answer(request, GRANTED)
        assert code(await scene.talk.call("delete_path", DELETE)) is None
        assert not scene.file.exists()
        scene.file.write_text("one\n")
        assert code(await scene.talk.call("delete_path", DELETE)) == "APPROVAL_REQUIRED"


@ERAS
async def test_a_call_waits_a_while_for_its_answer(work: Path, modern: bool) -> None:
    """Granted meanwhile, the same call goes on; progress says what it waits for."""
    async with opened(work, modern=modern, wait=20.0) as scene:
        meta = {"progressToken": "p"}
        calling = asyncio.ensure_future(scene.talk.call("delete_path", DELETE, _meta=meta))
        request = await scene.asked()
        scene.book.answer(request.id, GRANTED)
        assert code(await calling) is None
        told = [item["params"]["message"] for item in scene.talk.heard if "progress" in str(item.get("method"))]
        assert told == [f"waits for approval {request.id} by a person"]


@ERAS
async def test_arguments_changed_after_approval_are_refused(work: Path, modern: bool) -> None:
    """An approval is for one call, not for a tool."""
    async with opened(work, modern=modern) as scene:
        (work / "b.txt").write_text("two\n")
        await scene.talk.call("delete_path", DELETE)
        scene.book.answer((await scene.asked()).id, GRANTED)
        assert code(await scene.talk.call("delete_path", {**DELETE, "path": "b.txt"})) == "APPROVAL_REQUIRED"
        assert (work / "b.txt").exists()


@ERAS
async def test_a_clients_own_form_is_not_even_asked_for(work: Path, modern: bool) -> None:
    """Unless settings trust it; an answer that nobody asked for counts for nothing."""
    async with opened(work, modern=modern, capabilities=FORMS) as scene:
        first = await scene.talk.call("delete_path", DELETE)
        assert code(first) == "APPROVAL_REQUIRED"
        assert not [item for item in scene.talk.heard if item.get("method") == "elicitation/create"]
        request = (await scene.asked()).id
        answer = {"inputResponses": {"approval": YES}, "requestState": request}
        assert code(await scene.talk.call("delete_path", DELETE, **answer)) == "APPROVAL_REQUIRED"
        assert (scene.file.exists(), scene.by()) == (True, [])


@pytest.mark.parametrize(
    ("answer", "ends", "by"),
    [
        (YES, None, ["mcp-client"]),
        ({"action": "decline"}, "APPROVAL_DENIED", ["mcp-client"]),
        ({"action": "accept", "content": {"approve": "yes"}}, "APPROVAL_DENIED", ["mcp-client"]),
        ({"action": "cancel"}, "APPROVAL_REQUIRED", []),
        ({}, "APPROVAL_REQUIRED", []),
    ],
)
async def test_a_trusted_form_counts_and_is_recorded_as_the_clients(
    work: Path, answer: dict[str, Any], ends: str | None, by: list[str]
) -> None:
    """In the handshake era by a request of the server's; only a clear yes is one."""
    async with opened(work, modern=False, trust=True, capabilities=FORMS) as scene:
        calling = asyncio.ensure_future(scene.talk.call("delete_path", DELETE))
        form = await scene.talk.until(lambda message: message.get("method") == "elicitation/create")
        assert "a.txt" in form["params"]["message"]
        scene.talk.raw(_answer(form["id"], answer))
        assert code(await calling) == ends
        assert (scene.file.exists(), scene.by()) == (ends is not None, by)


async def test_a_form_that_nobody_answers_holds_no_call_that_is_granted_elsewhere(work: Path) -> None:
    """Whoever answers first counts; the client's form is withdrawn."""
    async with opened(work, modern=False, trust=True, capabilities=FORMS) as scene:
        calling = asyncio.ensure_future(scene.talk.call("delete_path", DELETE))
        form = await scene.talk.until(lambda message: message.get("method") == "elicitation/create")
        scene.book.answer((await scene.asked()).id, GRANTED)
        assert (code(await calling), scene.file.exists(), scene.by()) == (None, False, ["ann"])
        scene.talk.raw(_answer(form["id"], {"action": "decline"}))
        assert scene.by() == ["ann"]


async def test_a_form_that_nobody_answers_ends_with_its_request(work: Path) -> None:
    """A silent client keeps a call no longer than the request can be answered."""
    settings = {"approvals": {"expiry_seconds": 0.2}}
    async with opened(work, modern=False, trust=True, capabilities=FORMS, more=settings) as scene:
        result = await asyncio.wait_for(scene.talk.call("delete_path", DELETE), 10)
        assert (result["isError"], scene.file.exists()) == (True, True)


def _answer(request_id: Any, result: dict[str, Any]) -> bytes:
    import json

    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


async def test_a_trusted_form_of_the_stateless_era_comes_with_the_repeated_call(work: Path) -> None:
    """Bound to the request: with other arguments it is good for nothing, and it is good once."""
    async with opened(work, modern=True, trust=True, capabilities=FORMS) as scene:
        (work / "b.txt").write_text("two\n")
        first = await scene.talk.call("delete_path", DELETE)
        assert (first["resultType"], list(first["inputRequests"])) == ("input_required", ["approval"])
        answer = {"inputResponses": {"approval": YES}, "requestState": first["requestState"]}
        other = await scene.talk.call("delete_path", {**DELETE, "path": "b.txt"}, **answer)
        assert (other["resultType"], (work / "b.txt").exists()) == ("input_required", True)
        assert (scene.by(), len(scene.pending())) == ([], 2)  # a yes that came with another call is none to this one
        bare = await scene.talk.call("delete_path", DELETE)
        assert (bare["resultType"], scene.file.exists()) == ("input_required", True)
        assert code(await scene.talk.call("delete_path", DELETE, **answer)) is None
        assert (scene.file.exists(), scene.by()) == (False, ["mcp-client"])
        scene.file.write_text("one\n")
        again = await scene.talk.call("delete_path", DELETE, **answer)
        assert (again["resultType"], scene.file.exists()) == ("input_required", True)


@pytest.mark.parametrize(("said", "ends"), [(YES, None), ({"action": "decline"}, "APPROVAL_DENIED")])
async def test_an_answer_that_comes_with_the_call_asks_nobody_again(
    work: Path, said: dict[str, Any], ends: str | None
) -> None:
    """A person is asked once for each request, also where the answer comes with a call that repeats it."""
    async with opened(work, modern=True, trust=True, capabilities=FORMS) as scene:
        first = await scene.talk.call("delete_path", DELETE)
        answer = {"inputResponses": {"approval": said}, "requestState": first["requestState"]}
        assert code(await scene.talk.call("delete_path", DELETE, **answer)) == ends
        assert (scene.file.exists(), scene.by()) == (ends is not None, ["mcp-client"])
        assert scene.door.runtime.parts.limits.usage.used["prompts"] == 1


def page(request: str) -> str:
    """Where a console would have people answer."""
    return f"http://127.0.0.1:8421/requests/{request}"


def is_question(message: dict[str, Any]) -> bool:
    """Whether the server asks the client something."""
    return message.get("method") == "elicitation/create"


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("sdk", [False, True], ids=["codec", "sdk"])
async def test_a_page_of_the_console_is_opened_and_decides_nothing(work: Path, sdk: bool, trust: bool) -> None:
    """The call waits on while somebody looks at it; what is granted there is the person's, not the client's."""
    async with opened(work, modern=False, trust=trust, capabilities=PAGES, sdk=sdk, console=page) as scene:
        calling = asyncio.ensure_future(scene.talk.call("delete_path", DELETE))
        asked = await scene.talk.until(is_question)
        request = (await scene.asked()).id
        told = asked["params"]
        assert (told["mode"], told["url"], told["elicitationId"]) == ("url", page(request), request)
        assert "a.txt" in told["message"]
        scene.talk.raw(_answer(asked["id"], YES))
        await scene.talk.ask("ping")
        assert (calling.done(), scene.file.exists(), scene.by()) == (False, True, [])
        scene.book.answer(request, GRANTED)
        assert (code(await calling), scene.file.exists(), scene.by()) == (None, False, ["ann"])


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}, {}])
async def test_a_page_that_nobody_opens_leaves_the_request_pending(work: Path, answer: dict[str, Any]) -> None:
    """A client that will not show it has not said no: a person may still answer elsewhere."""
    async with opened(work, modern=False, capabilities=PAGES, console=page) as scene:
        calling = asyncio.ensure_future(scene.talk.call("delete_path", DELETE))
        scene.talk.raw(_answer((await scene.talk.until(is_question))["id"], answer))
        assert (code(await calling), scene.by(), len(scene.pending())) == ("APPROVAL_REQUIRED", [], 1)


@pytest.mark.parametrize("trust", [False, True])
async def test_a_page_is_named_by_the_result_of_the_stateless_era(work: Path, trust: bool) -> None:
    """The repeated call does not ask for it again; it runs once a person has said yes."""
    async with opened(work, modern=True, trust=trust, capabilities=PAGES, console=page) as scene:
        first = await scene.talk.call("delete_path", DELETE)
        request = first["requestState"]
        told = first["inputRequests"]["approval"]["params"]
        assert (first["resultType"], told["mode"], told["url"]) == ("input_required", "url", page(request))
        back = {"inputResponses": {"approval": YES}, "requestState": request}
        assert code(await scene.talk.call("delete_path", DELETE, **back)) == "APPROVAL_REQUIRED"
        assert (scene.file.exists(), scene.by()) == (True, [])
        scene.book.answer(request, GRANTED)
        assert code(await scene.talk.call("delete_path", DELETE, **back)) is None
        assert (scene.file.exists(), scene.by()) == (False, ["ann"])


@ERAS
@pytest.mark.parametrize(
    ("capabilities", "console"), [(FORMS, page), ({}, page), (PAGES, None), (PAGES, lambda _: None)]
)
async def test_no_page_is_shown_where_none_is_or_can_be(
    work: Path, modern: bool, capabilities: dict[str, Any], console: Any
) -> None:
    """To a client that opens none, or without a console that has it."""
    async with opened(work, modern=modern, capabilities=capabilities, console=console) as scene:
        assert code(await scene.talk.call("delete_path", DELETE)) == "APPROVAL_REQUIRED"
        assert not [message for message in scene.talk.heard if is_question(message)]


async def test_a_client_with_tasks_polls_while_a_person_decides(work: Path) -> None:
    """The handle comes at once; once it is granted the task has the result, and it ran once."""
    async with opened(work, modern=True, capabilities=TASKS) as scene:
        handle = await scene.talk.call("delete_path", DELETE)
        request = await scene.asked()
        assert (handle["resultType"], handle["status"]) == ("task", "working")
        assert request.id in handle["statusMessage"]
        asking = {"taskId": handle["taskId"]}
        assert (await scene.talk.ask("tasks/get", asking))["result"]["status"] == "working"
        scene.book.answer(request.id, GRANTED)
        async with asyncio.timeout(5):
            while (state := (await scene.talk.ask("tasks/get", asking))["result"])["status"] == "working":
                await asyncio.sleep(0.005)
        assert (state["status"], state["result"]["isError"], scene.file.exists()) == ("completed", False, False)


async def test_a_client_with_tasks_and_pages_gets_a_task(work: Path) -> None:
    """Tasks come before pages, which come before the error: nothing is opened, and the task waits."""
    async with opened(work, modern=True, capabilities={**TASKS, **PAGES}, console=page) as scene:
        handle = await scene.talk.call("delete_path", DELETE)
        request = await scene.asked()
        assert (handle["resultType"], handle.get("status"), "inputRequests" in handle) == ("task", "working", False)
        scene.book.answer(request.id, GRANTED)
        async with asyncio.timeout(5):
            while scene.file.exists():
                await asyncio.sleep(0.005)
        assert scene.by() == ["ann"]


async def test_a_trusted_form_comes_before_a_task(work: Path) -> None:
    """The operator said that the client's word counts, so a client with tasks is asked by its form."""
    async with opened(work, modern=True, trust=True, capabilities={**TASKS, **FORMS}) as scene:
        first = await scene.talk.call("delete_path", DELETE)
        assert (first["resultType"], list(first.get("inputRequests", ()))) == ("input_required", ["approval"])
        answer = {"inputResponses": {"approval": YES}, "requestState": first["requestState"]}
        assert code(await scene.talk.call("delete_path", DELETE, **answer)) is None
        assert (scene.file.exists(), scene.by()) == (False, ["mcp-client"])


async def test_a_cancelled_task_never_runs(work: Path) -> None:
    """Not even when it is granted afterwards."""
    async with opened(work, modern=True, capabilities=TASKS) as scene:
        handle = await scene.talk.call("delete_path", DELETE)
        request = await scene.asked()
        asking = {"taskId": handle["taskId"]}
        await scene.talk.ask("tasks/cancel", asking)
        async with asyncio.timeout(5):
            while (await scene.talk.ask("tasks/get", asking))["result"]["status"] == "working":
                await asyncio.sleep(0.005)
        scene.book.answer(request.id, GRANTED)
        state = (await scene.talk.ask("tasks/get", asking))["result"]["status"]
        assert (state, scene.file.exists()) == ("cancelled", True)


async def test_a_call_that_no_task_is_left_for_never_runs(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refused, so a grant that comes later finds nothing that waits for it."""
    monkeypatch.setattr(tasks, "MOST", 1)
    async with opened(work, modern=True, capabilities=TASKS) as scene:
        other = work / "b.txt"
        other.write_text("two\n")
        await scene.talk.call("delete_path", DELETE)
        refused = await scene.talk.ask("tools/call", {"name": "delete_path", "arguments": {**DELETE, "path": "b.txt"}})
        for request in scene.pending():
            scene.book.answer(request.id, GRANTED)
        async with asyncio.timeout(5):
            while scene.file.exists():
                await asyncio.sleep(0.005)
            while scene.door._busy:
                await asyncio.sleep(0.005)
        assert (refused["error"]["code"], other.exists()) == (-32602, True)


@pytest.mark.parametrize("task", [[1], {}, None, 7])
async def test_a_task_that_is_no_text_is_unknown(work: Path, task: Any) -> None:
    """Told as such, not as a fault of the server."""
    async with opened(work, modern=True, capabilities=TASKS) as scene:
        answer = await scene.talk.ask("tasks/get", {"taskId": task})
    assert answer["error"]["code"] == -32602


async def test_a_call_that_needs_nobody_is_no_task(work: Path) -> None:
    """Its result comes as ever."""
    async with opened(work, modern=True, capabilities=TASKS) as scene:
        result = await scene.talk.call("read_file", {"path": "a.txt"})
        assert (result["resultType"], result["structuredContent"]["text"]) == ("complete", "one\n")


@pytest.mark.parametrize(("covers", "runs"), [("always", True), ("once", False), ("for ever", None)])
async def test_a_trusted_form_offers_what_may_be_granted_and_takes_it(
    work: Path, own_user: Path, covers: str, runs: bool | None
) -> None:
    """Once, this run and always as far as settings allow, with what they cover; another word is no yes."""
    args = {"path": "a.txt", "content": "x\n", "mode": "overwrite", "expected_sha256": "*"}
    more = {"approvals": {"max_scope": "always"}}
    async with opened(work, modern=False, trust=True, more=more, capabilities=FORMS) as scene:
        calling = asyncio.ensure_future(scene.talk.call("write_file", args))
        form = await scene.talk.until(is_question)
        assert form["params"]["requestedSchema"]["properties"]["covers"]["enum"] == ["once", "this run", "always"]
        assert "this run and always cover" in form["params"]["message"]
        answer = {"action": "accept", "content": {"approve": True, "covers": covers}}
        scene.talk.raw(_answer(form["id"], answer))
        assert (code(await calling) is None) is (runs is not None)
        standing = scene.book.standing(scene.door.runtime.parts.clock.now())
        assert len(standing) == (1 if runs else 0)
        if runs:
            assert code(await scene.talk.call("write_file", args)) is None


async def test_a_no_in_a_trusted_form_may_carry_advice(work: Path, own_user: Path) -> None:
    """The model reads what to do instead."""
    async with opened(work, modern=False, trust=True, capabilities=FORMS) as scene:
        calling = asyncio.ensure_future(scene.talk.call("delete_path", DELETE))
        form = await scene.talk.until(is_question)
        answer = {"action": "accept", "content": {"approve": False, "advice": "rename it"}}
        scene.talk.raw(_answer(form["id"], answer))
        assert "rename it" in str((await calling)["content"])
