"""Asking a person: what is asked, what the answer is bound to, how long it holds."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from handrail import Misuse, Reply, Request, Runtime, Scope
from handrail.compose import SystemClock
from handrail.ports import Answered
from handrail.store.ledger import SqliteLedger
from handrail.store.reader import events
from handrail.testing import FixedClock, ScriptedApprover
from handrail.words import Status

OVERWRITE = {"path": "a.txt", "content": "new\n", "mode": "overwrite"}


@pytest.fixture
def old(work: Path) -> Path:
    """A file that would be replaced."""
    file = work / "a.txt"
    file.write_text("old\n")
    return file


async def overwrite(runtime: Any, **how: Any) -> Any:
    """Read the file, then ask to replace it."""
    await runtime.call("read_file", {"path": "a.txt"})
    return await runtime.call("write_file", OVERWRITE, **how)


def kinds(runtime: Any, prefix: str = "approval.") -> list[str]:
    """The kinds of events about approvals, in order."""
    found = events(runtime.parts.folder.path)
    return [event["kind"] for event in found if event["kind"].startswith(prefix)]


async def test_what_is_approved_once_runs_once(opens: Any, old: Path) -> None:
    """The second time is asked for again."""
    approver = ScriptedApprover("once", "no")
    async with opens(enable=("fs",), approver=approver) as runtime:
        first = await overwrite(runtime)
        second = await runtime.call("write_file", {**OVERWRITE, "content": "newer\n"})
        asked = kinds(runtime)
    assert (first.status, first.scope, first.decision) == (Status.OK, "call", "ask")
    assert second.error.code == "APPROVAL_DENIED"
    assert old.read_text() == "new\n"
    assert asked == ["approval.required", "approval.granted", "approval.required", "approval.denied"]


async def test_the_person_sees_what_will_run(opens: Any, old: Path) -> None:
    """Tool, reason, arguments, impact, the diff, a digest and an expiry."""
    approver = ScriptedApprover("no")
    async with opens(enable=("fs",), approver=approver) as runtime:
        await overwrite(runtime)
    request = approver.asked[0]
    assert (request.tool, request.params["content"]) == ("write_file", "new\n")
    assert request.impact == {"reads": ["a.txt"], "writes": ["a.txt"]}
    assert "-old" in request.diff
    assert "+new" in request.diff
    assert "exists and would be replaced" in request.reason
    assert request.expires > request.created
    assert len(request.digest) == 64
    assert request.max_scope is Scope.RUN


async def test_a_run_grant_covers_the_same_tool_and_target_only(opens: Any, old: Path, work: Path) -> None:
    """Another file is asked for; the same one is not, also after the run was opened again."""
    (work / "b.txt").write_text("old\n")
    approver = ScriptedApprover("run", "no")
    async with opens(enable=("fs",), approver=approver, run_id="r") as runtime:
        first = await overwrite(runtime)
        again = await runtime.call("write_file", {**OVERWRITE, "content": "newer\n"})
        await runtime.call("read_file", {"path": "b.txt"})
        other = await runtime.call("write_file", {**OVERWRITE, "path": "b.txt"})
    async with opens(enable=("fs",), approver=ScriptedApprover("no"), run_id="r") as runtime:
        reopened = await runtime.call("write_file", {**OVERWRITE, "content": "newest\n"})
    async with opens(enable=("fs",), approver=ScriptedApprover("no"), run_id="other") as runtime:
        await runtime.call("read_file", {"path": "a.txt"})
        elsewhere = await runtime.call("write_file", {**OVERWRITE, "content": "no\n"})
    assert (first.scope, again.scope, reopened.scope) == ("run", "run", "run")
    assert other.error.code == elsewhere.error.code == "APPROVAL_DENIED"
    assert old.read_text() == "newest\n"


async def test_no_approval_lifts_a_denial(opens: Any, work: Path) -> None:
    """Nobody is even asked."""
    approver = ScriptedApprover("once")
    config = {"rules": [{"effect": "deny", "touch": "fs.write", "target": "secret/**"}]}
    async with opens(enable=("fs",), approver=approver, config=config) as runtime:
        outcome = await runtime.call("write_file", {"path": "secret/x", "content": "y"})
    assert outcome.error.code == "POLICY_DENIED"
    assert approver.asked == []
    assert not (work / "secret").exists()


async def test_advice_of_a_refusal_reaches_the_model(opens: Any, old: Path) -> None:
    """A no may say what to do instead."""
    approver = ScriptedApprover(Reply("denied", by="ann", advice="append instead"))
    async with opens(enable=("fs",), approver=approver) as runtime:
        outcome = await overwrite(runtime)
    assert outcome.error.code == "APPROVAL_DENIED"
    assert "append instead" in outcome.content


async def test_headless_gives_the_replayable_request_and_the_same_one_again(opens: Any, old: Path) -> None:
    """Pending, with an id; repeating the call asks nothing new."""
    async with opens(enable=("fs",), mode="headless") as runtime:
        first = await overwrite(runtime)
        second = await runtime.call("write_file", OVERWRITE)
    approval = first.error.details["approval"]
    assert (first.status, second.status) == (Status.PENDING, Status.PENDING)
    assert second.error.details["approval"]["id"] == approval["id"]
    assert approval["replay"]["command"] == f"handrail call --approval {approval['id']}"
    assert old.read_text() == "old\n"


async def test_a_grant_given_elsewhere_lets_the_repeated_call_run_exactly_once(opens: Any, old: Path) -> None:
    """Grants match by digest, not by call id, and are spent."""
    async with opens(enable=("fs",), mode="headless") as runtime:
        pending = await overwrite(runtime)
        request_id = pending.error.details["approval"]["id"]
        runtime.parts.ledger.answer(request_id, Reply("granted", by="ann"))
        granted = await runtime.call("write_file", OVERWRITE)
        old.write_text("old\n")
        replayed = await runtime.call("write_file", OVERWRITE, approval=request_id)
    assert granted.ok
    assert replayed.error.code == "APPROVAL_DENIED"
    assert old.read_text() == "old\n"


@pytest.mark.parametrize("change", ["arguments", "file", "link"])
async def test_what_changed_after_the_approval_does_not_run(opens: Any, old: Path, work: Path, change: str) -> None:
    """The digest covers arguments, resolved targets and the content that would be replaced."""
    (work / "other.txt").write_text("old\n")
    async with opens(enable=("fs",), mode="headless") as runtime:
        pending = await overwrite(runtime)
        request_id = pending.error.details["approval"]["id"]
        runtime.parts.ledger.answer(request_id, Reply("granted", by="ann"))
        args = dict(OVERWRITE)
        if change == "arguments":
            args["content"] = "something else"
        elif change == "file":
            old.write_text("changed by someone\n")
        else:
            old.unlink()
            old.symlink_to("other.txt")
        outcome = await runtime.call("write_file", args, approval=request_id)
    assert outcome.error.code == "APPROVAL_DENIED"
    assert "something else" not in (work / "a.txt").read_text()
    assert (work / "other.txt").read_text() == "old\n"


async def test_a_file_that_changes_while_the_person_thinks_is_not_overwritten(opens: Any, old: Path) -> None:
    """The digest is checked right before the effect."""

    def answer(request: Request) -> str:
        old.write_text("changed meanwhile\n")
        return "once"

    async with opens(enable=("fs",), approver=ScriptedApprover(answer)) as runtime:
        outcome = await overwrite(runtime)
    assert outcome.error.code == "APPROVAL_DENIED"
    assert old.read_text() == "changed meanwhile\n"


async def test_a_crashed_approver_is_a_refusal(opens: Any, old: Path) -> None:
    """Whatever went wrong, nobody said yes."""

    def crash(request: Request) -> str:
        raise RuntimeError("boom")

    async with opens(enable=("fs",), approver=ScriptedApprover(crash)) as runtime:
        outcome = await overwrite(runtime)
    assert outcome.error.code == "APPROVAL_DENIED"
    assert old.read_text() == "old\n"


async def test_an_expired_request_cannot_be_granted(opens: Any, old: Path) -> None:
    """Time is the clock's, passed in."""
    clock = FixedClock()
    async with opens(enable=("fs",), mode="headless", clock=clock) as runtime:
        pending = await overwrite(runtime)
        clock.advance(86_401)
        with pytest.raises(Answered):
            runtime.parts.ledger.answer(pending.error.details["approval"]["id"], Reply("granted", by="ann"))
        again = await runtime.call("write_file", OVERWRITE)
    assert again.error.details["approval"]["id"] != pending.error.details["approval"]["id"]


async def test_a_waiting_call_goes_on_when_the_answer_comes_from_elsewhere(opens: Any, old: Path) -> None:
    """Interactive without a terminal waits for the ledger."""
    async with opens(enable=("fs",)) as runtime:
        task = asyncio.ensure_future(overwrite(runtime))
        while not (waiting := runtime.parts.ledger.pending(runtime.parts.clock.now())):
            await asyncio.sleep(0.005)
        runtime.parts.ledger.answer(waiting[0].id, Reply("granted", by="ann"))
        outcome = await asyncio.wait_for(task, 10)
    assert outcome.ok


async def test_a_call_that_would_fail_anyway_is_not_asked_for(opens: Any, old: Path) -> None:
    """An overwrite of a file that was never read is stale; no person is bothered."""
    approver = ScriptedApprover("once")
    async with opens(enable=("fs",), approver=approver) as runtime:
        outcome = await runtime.call("write_file", OVERWRITE)
    assert outcome.error.code == "STALE_FILE"
    assert approver.asked == []


async def test_prompts_are_a_budget(opens: Any, old: Path) -> None:
    """An agent cannot tire the person out."""
    approver = ScriptedApprover("no")
    async with opens(enable=("fs",), approver=approver, config={"limits": {"max_prompts": 2}}) as runtime:
        await runtime.call("read_file", {"path": "a.txt"})
        outcomes = [await runtime.call("write_file", {**OVERWRITE, "content": str(n)}) for n in range(3)]
    assert [outcome.error.code for outcome in outcomes] == ["APPROVAL_DENIED", "APPROVAL_DENIED", "BUDGET_EXHAUSTED"]
    assert len(approver.asked) == 2


async def test_deleting_is_never_granted_for_a_run(opens: Any, old: Path) -> None:
    """The widest scope offered is the call."""
    approver = ScriptedApprover("run")
    async with opens(enable=("fs", "delete_path"), approver=approver) as runtime:
        unconfirmed = await runtime.call("delete_path", {"path": "a.txt"})
        outcome = await runtime.call("delete_path", {"path": "a.txt", "confirm": True})
    assert unconfirmed.error.code == "POLICY_DENIED"
    assert unconfirmed.error.next_call == {"tool": "delete_path", "args": {"path": "a.txt", "confirm": True}}
    assert approver.asked[0].max_scope is Scope.CALL
    assert (outcome.status, outcome.scope) == (Status.OK, "call")
    assert not old.exists()


async def test_nobody_is_asked_to_delete_what_is_not_there(opens: Any, old: Path) -> None:
    """The call fails at once, as it would after the answer."""
    approver = ScriptedApprover("once")
    async with opens(enable=("delete_path",), approver=approver) as runtime:
        outcome = await runtime.call("delete_path", {"path": "b.txt", "confirm": True})
    assert (outcome.error.code, approver.asked) == ("NOT_FOUND", [])


@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_whether_something_is_there_is_not_told_where_reading_is_not_allowed(
    opens: Any, work: Path, effect: str
) -> None:
    """Then both calls are asked for alike."""
    (work / "there.key").write_text("x")
    rule = {"effect": effect, "touch": "fs.read", "target": "*.key"}
    async with opens(enable=("delete_path",), mode="headless", config={"rules": [rule]}) as runtime:
        there, missing = [
            await runtime.call("delete_path", {"path": path, "confirm": True}) for path in ("there.key", "gone.key")
        ]
    assert (there.error.code, missing.error.code) == ("APPROVAL_REQUIRED", "APPROVAL_REQUIRED")


async def test_a_replay_that_does_not_fit_says_the_one_reason(opens: Any, old: Path) -> None:
    """Not granted, other arguments, a file that changed, other settings, refused, used."""
    told: dict[str, str] = {}
    other = {**OVERWRITE, "content": "other\n"}

    async with opens(enable=("fs",), mode="headless", run_id="r") as runtime:
        ledger = runtime.parts.ledger
        asked = (await overwrite(runtime)).error.details["approval"]["id"]
        refused = (await runtime.call("write_file", other)).error.details["approval"]["id"]

        async def replay(why: str, args: dict[str, Any], approval: str) -> Any:
            outcome = await runtime.call("write_file", args, approval=approval)
            told[why] = outcome.error.message if outcome.error is not None else "done"

        await replay("pending", OVERWRITE, asked)
        ledger.answer(asked, Reply("granted", Scope.CALL, by="ann"))
        ledger.answer(refused, Reply("denied", by="ann", advice="keep it"))
        await replay("refused", other, refused)
        await replay("arguments", {**OVERWRITE, "content": "x"}, asked)
        old.write_text("changed\n")
        await runtime.call("read_file", {"path": "a.txt"})
        await replay("file", OVERWRITE, asked)
        old.write_text("old\n")
        await runtime.call("read_file", {"path": "a.txt"})
    async with opens(enable=("fs", "delete_path"), mode="headless", run_id="r") as runtime:
        await replay("settings", OVERWRITE, asked)
    async with opens(enable=("fs",), mode="headless", run_id="r") as runtime:
        await replay("fits", OVERWRITE, asked)
        old.write_text("old\n")
        await runtime.call("read_file", {"path": "a.txt"})
        await replay("used", OVERWRITE, asked)
    assert told == {
        "pending": f"Approval {asked} is not granted yet. A person must approve it; repeat the call when they have.",
        "refused": f"Approval {refused} was refused by ann: keep it.",
        "arguments": f"Approval {asked} is for other arguments: `handrail approvals show {asked}` shows them.",
        "file": f"a.txt has changed since approval {asked} was asked for. Look at it, and repeat the call to ask "
        "again.",
        "settings": f"Approval {asked} was asked for under other settings or flags than these. The call as asked: "
        f"handrail call --approval {asked}",
        "fits": "done",
        "used": f"Approval {asked} is used: every call that it was given for was made. Repeat the call to ask again.",
    }


async def test_secrets_in_arguments_are_hidden_from_request_and_journal(opens: Any, old: Path) -> None:
    """Values are hidden, structure stays."""
    secret = "ghp_" + "a1B2" * 9
    approver = ScriptedApprover("once")
    async with opens(enable=("fs",), approver=approver) as runtime:
        await runtime.call("read_file", {"path": "a.txt"})
        outcome = await runtime.call("write_file", {**OVERWRITE, "content": f"token {secret}\n"})
        folder = runtime.parts.folder.path
    everything = json.dumps(outcome.to_dict()) + (folder / "events.jsonl").read_text() + str(approver.asked[0])
    assert outcome.ok
    assert secret in old.read_text()
    assert secret not in everything


async def test_a_used_approval_named_by_a_stranger_is_refused(opens: Any, old: Path) -> None:
    """An id alone gives nothing."""
    async with opens(enable=("fs",), mode="headless") as runtime:
        await runtime.call("read_file", {"path": "a.txt"})
        outcome = await runtime.call("write_file", OVERWRITE, approval="apr_doesnotexist")
    assert outcome.error.code == "APPROVAL_DENIED"
    with pytest.raises(Misuse):
        await runtime.call("read_file", {"path": "a.txt"})


async def test_a_no_that_came_after_the_call_is_told_when_it_is_repeated(opens: Any, old: Path) -> None:
    """Once, with its advice; after that the same call asks anew."""
    async with opens(enable=("fs",), mode="headless") as runtime:
        first = await overwrite(runtime)
        request = first.error.details["approval"]["id"]
        runtime.parts.ledger.answer(request, Reply("denied", Scope.NONE, "ada", "use edit_file instead"))
        second = await runtime.call("write_file", OVERWRITE)
        third = await runtime.call("write_file", OVERWRITE)
        asked = kinds(runtime)
    assert (second.error.code, second.error.message) == ("APPROVAL_DENIED", "ada said no: use edit_file instead")
    assert second.error.details["approval"] == request
    assert third.error.code == "APPROVAL_REQUIRED"
    assert third.error.details["approval"]["id"] != request
    assert asked == ["approval.required", "approval.denied", "approval.required"]
    assert old.read_text() == "old\n"


@pytest.mark.parametrize(("caller", "keep", "state"), [
    ("python", False, "expired"), ("mcp", False, "expired"), ("python", True, "pending"), ("cli", False, "pending"),
])  # fmt: skip
async def test_requests_end_with_their_run_unless_asked_to_stay(
    work: Path, own_user: Path, caller: str, keep: bool, state: str
) -> None:
    """A command of the command line prints how it is replayed, so its request stays."""
    (work / "a.txt").write_text("x")
    config = {"tools": {"enable": ["delete_path"]}, "approvals": {"keep_after_run": keep}}
    async with Runtime.open(work, config=config, mode="headless", caller=caller) as runtime:
        outcome = await runtime.call("delete_path", {"path": "a.txt", "confirm": True})
        path = runtime.parts.ledger.path
    assert outcome.error is not None
    asked = outcome.error.details["approval"]["id"]
    recorded = SqliteLedger(path, SystemClock()).find(asked)
    assert recorded.state == state
    assert (recorded.reply is not None and recorded.reply.advice) == (
        "its run has ended" if state == "expired" else False
    )


async def test_a_request_that_two_runs_asked_for_ends_with_the_last(work: Path, own_user: Path) -> None:
    """Equal calls share it; the run that goes on can still be answered."""
    (work / "a.txt").write_text("x")
    config = {"tools": {"enable": ["delete_path"]}}
    call = ("delete_path", {"path": "a.txt", "confirm": True})
    async with Runtime.open(work, config=config, mode="headless") as second:
        async with Runtime.open(work, config=config, mode="headless") as first:
            await first.call(*call)
            await second.call(*call)
        (waiting,) = second.parts.ledger.pending(second.parts.clock.now())
        second.parts.ledger.answer(waiting.id, Reply("granted", by="ann"))
        assert (await second.call(*call)).ok
