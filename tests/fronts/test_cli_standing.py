"""handrail rules: what is granted always, beside the settings' rules; and a server that runs meanwhile."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fronts.conftest import Cli
from fronts.mcp_ends import ENVELOPE
from fronts.terminal import at_terminal
from fronts.test_mcp_client import HANDRAIL

OVERWRITE = ["write_file", "path=a.txt", "content=one\ntwo!\nthree\n", "mode=overwrite", "expected_sha256=*"]
ARGS = {"path": "a.txt", "content": "x\n", "mode": "overwrite", "expected_sha256": "*"}
RULE = '[[rules]]\neffect = "deny"\ntouch = "fs.write"\ntarget = "secrets/**"\nwhy = "not here"\n'


@pytest.fixture(autouse=True)
def lasting(cli: Cli) -> None:
    """The user lets answers last."""
    user = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    user.write_text(f'{user.read_text()}approvals.max_scope = "always"\nmcp.wait_seconds = 0\n{RULE}')


def always(cli: Cli) -> str:
    """Overwriting a.txt, granted always; the id of the grant."""
    pending = cli("call", "--headless", "--json", *OVERWRITE)
    request = json.loads(pending.out)["error"]["details"]["approval"]["id"]
    granted = cli.grant(request, "--scope", "always")
    assert (granted.code, "handrail rules remove" in granted.err) == (0, True), granted.err
    (grant,) = json.loads(cli("rules", "list", "--json").out)["grants"]
    return str(grant["id"])


def test_rules_lists_shows_and_removes_what_is_granted_always(cli: Cli, tmp_path: Path) -> None:
    """With where each comes from; settings' rules stand beside, and are removed in their file."""
    grant = always(cli)
    assert [cli("call", "--headless", *OVERWRITE).code for _ in range(2)] == [0, 0]
    listed = cli("rules", "list", COLUMNS="200").out.splitlines()
    assert (listed[0].split(), len(listed)) == (["id", "effect", "covers", "from"], 3)
    assert f"{grant}  allow" in listed[1]
    assert "fs.write a.txt" in listed[1]
    assert "deny" in listed[2]
    assert "config.toml" in listed[2]
    shown = json.loads(cli("rules", "show", grant, "--json").out)
    assert (shown["workspace"], shown["tool"], shown["expires"]) == (str(cli.work.resolve()), "write_file", None)
    assert shown["given_by"]
    assert shown["given_at"]
    assert shown["request"].startswith("apr_")
    assert "covers" in cli("rules", "show", grant).out
    (rule,) = json.loads(cli("rules", "list", "--json").out)["rules"]
    assert "not here" in cli("rules", "show", rule["id"]).out
    refused = cli("rules", "remove", rule["id"])
    assert (refused.code, "removed in their file" in refused.err) == (2, True)
    other = tmp_path / "other"
    other.mkdir()
    assert json.loads(cli("rules", "list", "--json", cwd=other).out)["grants"] == []
    assert len(json.loads(cli("rules", "list", "--all", "--json", cwd=other).out)["grants"]) == 1
    assert cli("rules", "remove", grant).code == 0
    assert cli("call", "--headless", *OVERWRITE).code == 4
    assert cli("rules", "remove", grant).code == 2


def test_a_grant_for_minutes_ends(cli: Cli) -> None:
    """`--minutes` says when, and `rules show` says so."""
    pending = cli("call", "--headless", "--json", *OVERWRITE)
    request = json.loads(pending.out)["error"]["details"]["approval"]["id"]
    assert cli.grant(request, "--scope", "always", "--minutes", "60").code == 0
    (grant,) = json.loads(cli("rules", "list", "--json").out)["grants"]
    assert grant["expires"] is not None


def test_at_a_terminal_a_small_change_is_asked_for_in_twelve_lines(cli: Cli) -> None:
    """What changes, why, what each answer covers; details on a key; and always is one of the answers."""
    env = {**cli.env, "NO_COLOR": "1"}
    with at_terminal(["call", "--approve", *OVERWRITE], cli.work, env) as terminal:
        terminal.wait_for("Answer (once, always, no, advice): ")
        plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
        card = plain[plain.index(" write_file  a.txt") :]
        folded = [line for line in card.splitlines() if line.lstrip().startswith("┊")]  # the test's own long folder
        assert len(card.splitlines()) - len(folded) <= 12, terminal.shown
        parts = (
            " write_file  a.txt  replace, can be undone",
            *('mode: "overwrite"', "  │ -two\n", "  │ +two!\n", " why   a.txt exists and would be replaced"),
            *("(defaults.overwrite)", "y once", "a always: write_file a.txt", "n no", "t no, tell it why", "d details"),
        )
        places = [card.index(text) for text in parts]
        assert places == sorted(places), "what changes, why, what each answer covers, in that order"
        assert [text for text in ("mkdirs", "digest", "expires", " three") if text in card] == []
        terminal.type("d\n")
        terminal.wait_for("Answer (once")
        assert "mkdirs" in terminal.shown
        assert "digest" in terminal.shown
        terminal.type("a\n")
        assert terminal.end() == 0, terminal.shown
    assert cli("call", "--headless", *OVERWRITE).code == 0


def test_watch_shows_the_same_card_and_takes_the_widest_answer(cli: Cli) -> None:
    """What changes, why, and what each answer covers, of a call that waits in another process."""
    with at_terminal(["approvals", "watch"], cli.work, {**cli.env, "NO_COLOR": "1"}) as terminal:
        terminal.wait_for("Waiting for approval requests")
        pending(cli)
        terminal.wait_for("Answer (once, run, always, no, advice, later): ")
        plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
        card = plain[plain.index(" write_file  a.txt") :]
        parts = (
            *("replace, can be undone", "  │ -two\n", "  │ +two!\n", " why   "),
            *("y once", "r this run: write_file a.txt", "a always: write_file a.txt", "l later", "d details"),
        )
        places = [card.index(text) for text in parts]
        assert places == sorted(places)
        terminal.type("a\n")
        terminal.wait_for("granted")
        terminal.type("\x03")
        terminal.end()
    assert cli("call", "--headless", *OVERWRITE).code == 0
    assert len(json.loads(cli("rules", "list", "--json").out)["grants"]) == 1


def test_a_server_that_runs_honours_a_standing_grant_at_its_next_call(cli: Cli) -> None:
    """And asks again once it is removed."""
    server = subprocess.Popen(
        [HANDRAIL, "mcp"], cwd=cli.work, env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None

    def called(number: int) -> Any:
        params = {"name": "write_file", "arguments": ARGS, "_meta": ENVELOPE}
        call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        server.stdin.write(json.dumps(call).encode() + b"\n")  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]
        return json.loads(server.stdout.readline())["result"]["isError"]  # type: ignore[union-attr]

    try:
        before = called(1)
        grant = always(cli)
        after = called(2)
        cli("rules", "remove", grant)
        removed = called(3)
    finally:
        server.communicate(timeout=20)
    assert (before, after, removed) == (True, False, True)


# ── uses and minutes ─────────────────────────────────────────────────────────────────────────


def pending(cli: Cli, *more: str) -> str:
    """Overwriting a.txt, asked for; the id of the request."""
    asked = cli("call", "--headless", "--json", *more, *OVERWRITE)
    return str(json.loads(asked.out)["error"]["details"]["approval"]["id"])


@pytest.mark.parametrize(("scope", "run"), [("run", ("--run", "r")), ("session", ()), ("always", ())])
def test_a_wider_grant_with_uses_is_used_so_often(cli: Cli, scope: str, run: tuple[str, ...]) -> None:
    """The call that it was asked for counts as one of them."""
    assert cli.grant(pending(cli, *run), "--scope", scope, "--uses", "3").code == 0
    codes = [cli("call", "--headless", *run, *OVERWRITE).code for _ in range(4)]
    assert codes == [0, 0, 0, 4]


@pytest.mark.parametrize(("scope", "run"), [("call", ()), ("run", ("--run", "r")), ("session", ()), ("always", ())])
def test_a_grant_with_minutes_holds_so_long(cli: Cli, scope: str, run: tuple[str, ...]) -> None:
    """Not a moment longer, whatever its scope and however many uses are left."""
    granted = cli.grant(pending(cli, *run), "--scope", scope, "--minutes", "0.001", "--uses", "9")
    assert granted.code == 0
    time.sleep(0.1)
    assert cli("call", "--headless", *run, *OVERWRITE).code == 4
    assert cli.grant(pending(cli, *run), "--scope", scope, "--minutes", "60", "--uses", "9").code == 0
    assert cli("call", "--headless", *run, *OVERWRITE).code == 0


@pytest.mark.parametrize(
    "more",
    [
        *(("--minutes", "nan"), ("--minutes", "inf"), ("--minutes", "0"), ("--minutes", "-1"), ("--minutes", "1e300")),
        *(("--uses", "0"), ("--uses", "-1"), ("--uses", "1.5"), ("--uses", str(2**63)), ("--scope", "for-ever")),
    ],
)
def test_what_cannot_be_granted_is_refused_and_the_request_stays(cli: Cli, more: tuple[str, ...]) -> None:
    """Nothing is granted in its stead."""
    request = pending(cli)
    refused = cli.grant(request, *more)
    assert refused.code == 2, refused.err
    assert "Traceback" not in refused.err
    assert json.loads(cli("approvals", "show", request, "--json").out)["state"] == "pending"


def test_a_scope_that_may_not_be_granted_is_refused(cli: Cli) -> None:
    """Deleting is granted for the call alone; nothing narrower is given in its stead."""
    asked = cli("call", "--headless", "--json", "delete_path", "path=a.txt", "confirm=true")
    request = json.loads(asked.out)["error"]["details"]["approval"]["id"]
    for scope in ("run", "session", "always"):
        refused = cli.grant(request, "--scope", scope)
        assert (refused.code, "for the call at most" in refused.err) == (2, True)
    assert json.loads(cli("approvals", "show", request, "--json").out)["state"] == "pending"
