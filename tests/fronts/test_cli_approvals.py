"""handrail approvals: what waits, and the person's answer."""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest

from approving import asking
from fronts.conftest import Cli
from fronts.terminal import at_terminal
from handrail.compose import SystemClock
from handrail.store.ledger import SqliteLedger


@pytest.fixture
def request_id(cli: Cli) -> str:
    """A request to delete a file, on record."""
    asked = cli("call", "--headless", "--json", "delete_path", "path=a.txt", "confirm=true")
    assert asked.code == 4
    return str(json.loads(asked.out)["error"]["details"]["approval"]["id"])


def test_list_shows_what_waits(cli: Cli, request_id: str) -> None:
    """Until it is answered; with --all afterwards, too."""
    assert request_id in cli("approvals", "list").out
    cli("approvals", "deny", request_id)
    assert cli("approvals", "list")[:2] == (0, "")
    assert [item["state"] for item in json.loads(cli("approvals", "list", "--all", "--json").out)] == ["denied"]


def test_list_tells_the_requests_of_other_workspaces(cli: Cli, request_id: str, tmp_path: Path) -> None:
    """With --here they are left out, and where all are from here no column says so."""
    other = tmp_path / "other"
    other.mkdir()
    here, there = cli("approvals", "list"), cli("approvals", "list", cwd=other)
    assert here.out.splitlines()[0].split() == ["id", "left", "tool", "would", "why"]
    assert there.out.splitlines()[0].split() == ["id", "left", "tool", "would", "why", "workspace"]
    assert there.out.splitlines()[1].endswith(f"  {cli.work}")
    assert there.err == "1 of 1 come from other workspaces; --here leaves them out.\n"
    assert request_id in cli("approvals", "list", "--here").out
    assert request_id in cli("approvals", "list", "--here", "-w", str(cli.work), cwd=other).out
    assert cli("approvals", "list", "--here", cwd=other) == (
        0,
        "",
        "No request in this workspace waits for an answer.\n",
    )


def test_columns_share_the_room_there_is(cli: Cli, tmp_path: Path) -> None:
    """At 80 columns the reason and the effect are cut alike, and the workspace is told by its name."""
    cli("call", "--headless", "write_file", "path=a.txt", "content=x", "mode=overwrite", "expected_sha256=*")
    told = cli("approvals", "list", cwd=tmp_path, COLUMNS="80").out.splitlines()
    assert [len(line) <= 80 for line in told] == [True, True]
    places = [told[0].index(name) for name in ("would", "why", "workspace")]
    would, why, work = (told[1][start:end].strip() for start, end in zip(places, [*places[1:], None], strict=True))
    assert (len(would) >= 14, len(why) >= 14, work) == (True, True, cli.work.name)


def test_a_refused_request_is_replayed_as_denied(cli: Cli, request_id: str) -> None:
    """With the exit code of whatever is denied."""
    cli("approvals", "deny", request_id)
    replayed = cli("call", "--approval", request_id)
    assert (replayed.code, "APPROVAL_DENIED" in replayed.err) == (3, True)


def test_show_tells_everything_that_would_run(cli: Cli, request_id: str) -> None:
    """Arguments and what they touch."""
    shown = cli("approvals", "show", request_id).out
    assert f"Approval {request_id}" in shown
    assert 'path: "a.txt"' in shown
    assert "state    pending" in shown
    assert json.loads(cli("approvals", "show", request_id, "--json").out)["state"] == "pending"


def test_the_first_answer_counts(cli: Cli, request_id: str) -> None:
    """The second is told so, with exit code 1."""
    assert cli("approvals", "deny", request_id, "--advice", "keep it").code == 0
    late = cli("approvals", "grant", request_id)
    assert (late.code, "the first answer counts" in late.err) == (1, True)
    assert (cli.work / "a.txt").exists()


def test_a_wider_scope_than_offered_is_refused(cli: Cli, request_id: str) -> None:
    """Deleting is granted for one call only."""
    ended = cli("approvals", "grant", request_id, "--scope", "run")
    assert (ended.code, "for the call at most" in ended.err) == (2, True)


def test_a_grant_can_be_taken_back(cli: Cli, request_id: str) -> None:
    """Before it is used; then the replay is refused."""
    cli.grant(request_id)
    assert cli("approvals", "revoke", request_id).code == 0
    assert cli("approvals", "revoke", request_id).code == 1
    assert cli("call", "--approval", request_id).code == 3
    assert (cli.work / "a.txt").exists()


@pytest.mark.parametrize("verb", ["show", "grant", "deny", "revoke"])
def test_an_unknown_id_is_wrong_usage(cli: Cli, verb: str) -> None:
    """Also where there is no ledger yet."""
    ended = cli("approvals", verb, "apr_nothing")
    assert (ended.code, ended.out, "There is no" in ended.err) == (2, "", True)


def test_watch_needs_a_terminal(cli: Cli) -> None:
    """Nobody could answer."""
    assert cli("approvals", "watch").code == 2


def test_a_grant_for_a_tool_of_a_program_leaves_the_call_to_the_program(cli: Cli) -> None:
    """The command line does not have the tool and could not replay it."""
    clock = SystemClock()
    ledger = SqliteLedger(Path(cli.env["XDG_STATE_HOME"], "handrail", "ledger.db"), clock)
    made = ledger.request(asking(tool="own_tool", now=clock.now()), {})
    said = cli.grant(made.id).err
    assert (
        said
        == "Granted. A call that waits goes on now; else: the program that has the tool own_tool repeats its call\n"
    )


def test_a_grant_for_a_call_over_mcp_leaves_it_to_the_agent(cli: Cli) -> None:
    """Repeated, it runs where it was asked for, and its answer reaches the model."""
    clock = SystemClock()
    ledger = SqliteLedger(Path(cli.env["XDG_STATE_HOME"], "handrail", "ledger.db"), clock)
    made = ledger.request(replace(asking(now=clock.now()), caller="mcp"), {})
    said = cli.grant(made.id).err
    assert said == "Granted. A call that waits goes on now; else: have the agent repeat it, it runs once\n"


def test_an_answer_that_comes_too_late_says_what_to_do(cli: Cli) -> None:
    """Nobody answered before, so nothing else counts either."""
    clock = SystemClock()
    ledger = SqliteLedger(Path(cli.env["XDG_STATE_HOME"], "handrail", "ledger.db"), clock)
    made = ledger.request(replace(asking(now=clock.now()), expires=clock.now() - 1), {})
    said = cli("approvals", "grant", made.id).err
    assert said == f"handrail: request {made.id} is expired already; its call has to be made anew\n"


# ── granting needs to have seen it ────────────────────────────────────────────────────────────


def test_without_a_terminal_a_grant_needs_the_digest_that_show_prints(cli: Cli, request_id: str) -> None:
    """Not the id alone, and no digest that others than `show` tell."""
    blind = cli("approvals", "grant", request_id)
    assert (blind.code, f"handrail approvals show {request_id}" in blind.err) == (2, True)
    (listed,) = json.loads(cli("approvals", "list", "--json").out)
    for other in (listed["digest"], listed["digest"][:16], ""):
        wrong = cli("approvals", "grant", request_id, "--digest", other)
        assert (wrong.code, "is not the digest" in wrong.err) == (2, True)
    shown = cli("approvals", "show", request_id)
    digest = next(line.split()[1] for line in shown.out.splitlines() if line.startswith("  digest"))
    assert digest not in json.dumps(listed)
    assert f"handrail approvals grant {request_id} --digest {digest}" in shown.err
    assert cli("approvals", "grant", request_id, "--digest", digest).code == 0
    assert cli("call", "--approval", request_id).code == 0


@pytest.mark.parametrize(
    ("typed", "ends", "state"), [("yes\n", 0, "granted"), ("no\n", 1, "pending"), ("\x04", 1, "pending")]
)
def test_at_a_terminal_a_grant_shows_the_request_and_asks(
    cli: Cli, request_id: str, typed: str, ends: int, state: str
) -> None:
    """Only a yes grants; leaving or a no leaves it pending."""
    with at_terminal(["approvals", "grant", request_id, "--uses", "2", "--minutes", "60"], cli.work, cli.env) as person:
        person.wait_for("Grant it? (yes, no): ")
        assert 'path: "a.txt"' in person.shown
        assert "Exactly this call, 2 times, within 60 minutes." in person.shown
        person.type(typed)
        assert person.end() == ends, person.shown
    assert [item["state"] for item in json.loads(cli("approvals", "list", "--all", "--json").out)] == [state]


def test_who_answered_is_the_account_whatever_the_environment_says(cli: Cli, request_id: str) -> None:
    """LOGNAME and USER are anybody's to set."""
    digest = json.loads(cli("approvals", "show", request_id, "--json").out)["grant_digest"]
    cli("approvals", "grant", request_id, "--digest", digest, LOGNAME="ceo", USER="ceo")
    shown = cli("approvals", "show", request_id).out
    assert f"state    granted by {pwd.getpwuid(os.getuid()).pw_name}\n" in shown


def test_a_grant_for_several_uses_is_used_so_often(cli: Cli, request_id: str) -> None:
    """As long as it is exactly the same call; then it is spent."""
    text = (cli.work / "a.txt").read_text()
    assert cli.grant(request_id, "--uses", "3", "--minutes", "60").code == 0
    codes = []
    for _ in range(4):
        (cli.work / "a.txt").write_text(text)
        codes.append(cli("call", "--approval", request_id).code)
    assert codes == [0, 0, 0, 3]


# ── how long a request waits ──────────────────────────────────────────────────────────────────


def test_what_was_asked_last_is_last_whatever_the_clock_says(cli: Cli) -> None:
    """A clock that was set back does not change the order."""
    clock = SystemClock()
    ledger = SqliteLedger(Path(cli.env["XDG_STATE_HOME"], "handrail", "ledger.db"), clock)
    made = [ledger.request(asking(str(number), now=clock.now() - number * 60), {}).id for number in range(3)]
    ledger.close()
    assert [item["id"] for item in json.loads(cli("approvals", "list", "--json").out)] == made
