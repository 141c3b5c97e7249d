"""Calls whose caller is gone: made once when a person has granted them, and fetched by repeating the call."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime
from handrail.store.executions import Executions
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
from service._serving import Served, grant, until

# An agent of its own: asks for one write, tells the request's id, then waits to be killed or ends.
AGENT = """
import asyncio, json, sys
from handrail import Runtime
async def main():
    path, content, ends = sys.argv[2], sys.argv[3], sys.argv[4] == "ends"
    async with Runtime.open(sys.argv[1], caller="python") as runtime:
        await runtime.call("read_file", {"path": path})
        args = {"path": path, "content": content, "mode": "overwrite"}
        outcome = await runtime.call("write_file", args)
        print(json.dumps({"run": runtime.run_id, **outcome.to_dict()}), flush=True)
        if not ends:
            await asyncio.sleep(600)
asyncio.run(main())
"""
HEADLESS = {"HANDRAIL_MODE": "headless"}


@contextmanager
def agent(served: Served, path: Path, content: str, ends: str = "stays") -> Iterator[dict[str, Any]]:
    """Run an agent that asks for one write; gives what it tells of its call, and kills it in the end."""
    argv = [sys.executable, "-c", AGENT, str(served.work), path.name, content, ends]
    env = {**served.env, **HEADLESS}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        if ends == "stays":
            process.send_signal(signal.SIGKILL)
        process.stdout.read()


def ask(served: Served, path: Path, content: str = "after\n") -> dict[str, Any]:
    """Have an agent ask for one write and end."""
    with agent(served, path, content, "ends") as outcome:
        return outcome


def request_of(outcome: dict[str, Any]) -> str:
    """The request that a pending call names."""
    return str(outcome["error"]["details"]["approval"]["id"])


def state_of(served: Served, request_id: str) -> str:
    """How a request stands."""
    return str(served.client("auditor").get(f"/v1/approvals/{request_id}").json["state"])


def executions(served: Served) -> Executions:
    """The service's table of calls, as another process reads it."""
    clock = FixedClock(time.time())
    return Executions(SqliteLedger(served.state / "ledger.db", clock), clock)


def test_an_agent_killed_after_asking_has_its_call_made_once_and_fetched_by_repeating_it(
    served: Served, file: Path
) -> None:
    """Granted by REST; the outcome goes to the first equal call, and a second one asks anew."""
    with agent(served, file, "after\n") as asked:
        request = request_of(asked)
    assert grant(served, request).status == 200
    assert until(lambda: state_of(served, request) == "done")
    assert file.read_text() == "after\n"
    file.write_text("changed by somebody since\n")
    again = ask(served, file)
    assert (again["status"], again["ok"], again["summary"].startswith("Wrote")) == ("ok", True, True)
    assert file.read_text() == "changed by somebody since\n", "it was not made a second time"
    third = ask(served, file)
    assert third["status"] == "pending"
    assert request_of(third) != request


def test_a_file_changed_in_between_is_refused_with_the_reason(served: Served, file: Path) -> None:
    """The second look sees it; the caller is told once, then may ask again."""
    first = ask(served, file)
    file.write_text("somebody else was here\n")
    assert grant(served, request_of(first)).status == 200
    assert until(lambda: state_of(served, request_of(first)) == "done")
    assert file.read_text() == "somebody else was here\n"
    again = ask(served, file)
    assert again["status"] == "denied"
    assert again["error"]["code"] == "APPROVAL_DENIED"
    assert file.name in again["error"]["message"]
    assert ask(served, file)["status"] == "pending"


def test_a_run_that_is_free_is_gone_on_with_and_a_busy_one_is_named(served: Served, file: Path) -> None:
    """The call is made in the caller's run where nobody has it open, else in one that names it."""
    ended = ask(served, file, "one\n")
    runs = {ended["run"]: made_in(served, request_of(ended))}
    with agent(served, file, "two\n") as busy:
        runs[busy["run"]] = made_in(served, request_of(busy))
    assert runs[ended["run"]] == ended["run"]
    assert runs[busy["run"]] != busy["run"]
    shown = until(lambda: served.client("auditor").get(f"/v1/runs/{runs[busy['run']]}").json.get("parent"))
    assert shown == busy["run"]


def made_in(served: Served, request: str) -> str:
    """Grant a request, and give the run in which its call was made."""
    grant(served, request)
    assert until(lambda: state_of(served, request) == "done")
    found = executions(served).find(request)
    assert found is not None
    return str(found.runner["run"])


def test_two_approvers_at_once_grant_once(served: Served, file: Path) -> None:
    """One is told who decided; the call is made once."""
    request = request_of(ask(served, file))
    shown = served.client("approver").get(f"/v1/approvals/{request}").json
    answers: list[int] = []
    late: list[dict[str, Any]] = []

    def answer(role: str) -> None:
        body = {"answer": "once", "digest": shown["digest"]}
        found = served.client(role).post(f"/v1/approvals/{request}/answer", body)
        answers.append(found.status)
        if found.status == 409:
            late.append(found.json)

    threads = [threading.Thread(target=answer, args=(role,)) for role in ("approver", "admin") for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, *[409] * 7]
    assert {item["details"]["by"] for item in late} <= {"approver", "admin"}
    assert until(lambda: state_of(served, request) == "done")
    assert len(until(lambda: changes_of(served, file))) == 1


def changes_of(served: Served, file: Path) -> list[dict[str, Any]]:
    """The calls that changed a file, as the index knows them."""
    found: list[dict[str, Any]] = served.client("auditor").get("/v1/changes", path=str(file)).json["found"]
    return found


def test_an_equal_call_that_comes_while_it_is_made_waits_for_the_outcome(served: Served) -> None:
    """Who loses the race gets the winner's outcome; the effect happens once."""
    caller = served.client("caller")
    args = {"command": """python3 -c 'import time; time.sleep(1); open("log.txt", "a").write("made")'"""}
    asked = caller.call("run_command", args)
    assert asked.status == 202, asked.body
    grant(served, asked.json["approval"]["id"])
    assert until(lambda: state_of(served, asked.json["approval"]["id"]) in ("running", "done"))
    outcome = caller.call("run_command", args).json
    assert outcome["ok"] is True
    assert (served.work / "log.txt").read_text() == "made"


def test_a_caller_waits_for_the_answer_as_long_as_it_says(served: Served, file: Path) -> None:
    """`wait_seconds`: the call goes on by itself once it is granted."""
    caller = served.client("caller")
    caller.call("read_file", {"path": file.name})
    found: list[Any] = []
    args = {"path": file.name, "content": "waited\n", "mode": "overwrite"}
    waiting = threading.Thread(target=lambda: found.append(caller.call("write_file", args, wait_seconds=20)))
    waiting.start()
    pending = until(lambda: [item for item in listed(served) if item["impact"].get("writes") == [file.name]])
    assert pending[0]["parked"] is False, "its caller waits"
    grant(served, pending[0]["id"])
    waiting.join(20)
    assert (found[0].status, found[0].json["ok"]) == (200, True)


def listed(served: Served) -> list[dict[str, Any]]:
    """What waits for an answer."""
    found: list[dict[str, Any]] = served.client("approver").get("/v1/approvals").json["approvals"]
    return [item for item in found if item["state"] == "pending"]


def test_a_request_tells_its_caller_the_outcome(served: Served, file: Path) -> None:
    """`GET /approvals/{id}` is a way to fetch it; then an equal call asks anew."""
    caller = served.client("caller")
    caller.call("read_file", {"path": file.name})
    args = {"path": file.name, "content": "fetched\n", "mode": "overwrite"}
    request = caller.call("write_file", args).json["approval"]["id"]
    grant(served, request)
    shown = caller.get(f"/v1/approvals/{request}", wait_seconds=10).json
    assert (shown["state"], shown["outcome"]["ok"]) == ("done", True)
    assert "digest" not in shown, "a caller is not told what an approval needs"
    assert until(lambda: executions(served).find(request).state == "fetched")  # type: ignore[union-attr]


def test_later_is_not_no_and_no_is_told(served: Served, file: Path) -> None:
    """It stays pending for everybody; a no with advice reaches the caller."""
    caller, approver = served.client("caller"), served.client("approver")
    caller.call("read_file", {"path": file.name})
    args = {"path": file.name, "content": "x\n", "mode": "overwrite"}
    request = caller.call("write_file", args).json["approval"]["id"]
    assert approver.post(f"/v1/approvals/{request}/answer", {"answer": "later"}).json["later"] is True
    assert state_of(served, request) == "pending"
    denied = approver.post(f"/v1/approvals/{request}/answer", {"answer": "no", "advice": "append instead"})
    assert denied.json["state"] == "denied"
    told = caller.call("write_file", args).json
    assert (told["status"], "append instead" in told["error"]["message"]) == ("denied", True)


async def test_a_call_that_was_cancelled_is_not_made(
    served: Served, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives up wants no effect later, whatever a person says and however the process ends."""
    for name, value in served.env.items():
        if name.startswith("XDG_") or name == "HOME":
            monkeypatch.setenv(name, value)
    async with Runtime.open(served.work, config={"tools": {"enable": ["fs"]}, "approvals": {"park": True}}) as runtime:
        await runtime.call("read_file", {"path": file.name})
        args = {"path": file.name, "content": "never\n", "mode": "overwrite"}
        call = asyncio.ensure_future(runtime.call("write_file", args))
        ledger, own = runtime.parts.ledger, runtime.run_id
        while not (mine := [item.id for item in ledger.pending(time.time()) if item.run_id == own]):
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        found = executions(served).find(mine[0])
        assert found is not None
        assert found.state == "withdrawn"
        assert grant(served, mine[0]).status == 200
    await asyncio.sleep(1.5)  # the service looks at free runs every second
    assert file.read_text() == "before\n"
