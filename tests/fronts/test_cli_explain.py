"""handrail policy explain: what it foresees, and that the change it names can be pasted and holds."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from fronts.conftest import Cli

INNER: dict[str, Any] = {"HANDRAIL_HTTP__ALLOWED_HOSTS": '["127.0.0.1:9123", "example.org"]'}


def explained(cli: Cli, *argv: str, **env: Any) -> dict[str, Any]:
    """What is told as JSON."""
    told: dict[str, Any] = json.loads(cli("policy", "explain", *argv, "--json", **env).out)
    return told


def test_no_line_break_is_written_out(cli: Cli) -> None:
    """An empty line stands before what fails first, not a mark for one."""
    out = cli("policy", "explain", "write_file", "path=a.txt", "content=x", "mode=overwrite").out
    assert "<U+" not in out
    assert "\n\n  as it is, it fails before anybody is asked: STALE_FILE: a.txt" in out


def test_an_address_that_would_be_refused_is_told_with_its_setting(cli: Cli) -> None:
    """Explained as the call ends: denied by confine.addresses, until a network is named."""
    url = "url=http://127.0.0.1:9123/"
    told = cli("policy", "explain", "http_fetch", url, **INNER)
    assert (told.code, "> deny  confine.addresses: 127.0.0.1 is not public" in told.out) == (3, True)
    assert cli("call", "http_fetch", url, **INNER).code == 3
    change = explained(cli, "http_fetch", url, **INNER)["change"]
    assert (change["to"], change["toml"]) == ("allow", '[http]\nallowed_networks = ["127.0.0.1/32"]')
    named = {**INNER, "HANDRAIL_HTTP__ALLOWED_NETWORKS": '["127.0.0.1/32"]'}
    assert cli("policy", "explain", "http_fetch", url, **named).code == 0


def test_an_address_that_is_blocked_gets_no_suggestion(cli: Cli) -> None:
    """Naming its network would not help."""
    blocked = {**INNER, "HANDRAIL_HTTP__BLOCKED_NETWORKS": '["127.0.0.0/8"]'}
    told = explained(cli, "http_fetch", "url=http://127.0.0.1:9123/", **blocked)
    assert (told["decision"], told["change"]) == ("deny", None)


def test_a_host_and_its_address_are_named_together(cli: Cli) -> None:
    """What is neither allowed as a host nor public needs both."""
    change = explained(cli, "http_fetch", "url=http://127.0.0.1:9124/", **INNER)["change"]
    assert tomllib.loads(change["toml"])["http"] == {
        "allowed_hosts": ["127.0.0.1:9123", "example.org", "127.0.0.1:9124"],
        "allowed_networks": ["127.0.0.1/32"],
    }


def test_names_are_said_to_be_vetted_at_connect_time(cli: Cli) -> None:
    """Nothing is looked up to explain."""
    told = cli("policy", "explain", "http_fetch", "url=http://example.org/", **INNER)
    assert told.code == 0
    assert "where example.org leads is looked up at connect time" in told.out
    assert "http.allowed_networks" in told.out


def test_permissions_mean_what_they_mean_for_a_call(cli: Cli) -> None:
    """A call that limits itself is explained as limited."""
    read = ("read_file", "path=a.txt", "--permissions")
    for kinds, code in (("fs.write", 3), ("fs.write, fs.read", 0)):
        assert cli("policy", "explain", *read, kinds).code == cli("call", *read, kinds).code == code
    assert "permissions.call" in cli("policy", "explain", *read, "fs.write").out


# ── trust ────────────────────────────────────────────────────────────────────────────────────


def project(cli: Cli, text: str) -> None:
    """Settings of the project, without any of the user's."""
    Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml").unlink(missing_ok=True)
    (cli.work / "handrail.toml").write_text(text)


def test_a_file_that_says_so_already_has_only_to_be_trusted(cli: Cli) -> None:
    """What is suggested is trust, with the decision that follows; after it the verdict is that."""
    project(cli, '[tools]\nenable = ["fs"]\n')
    told = explained(cli, "write_file", "path=b.txt", "content=x")
    assert (told["decision"], told["change"]["setting"], told["change"]["toml"]) == ("deny", "trust", "")
    assert "handrail config trust" in told["change"]["text"]
    assert cli("config", "trust", "--yes").code == 0
    assert explained(cli, "write_file", "path=b.txt", "content=x")["decision"] == told["change"]["to"] == "allow"


def test_a_root_that_waits_for_trust_is_not_suggested_again(cli: Cli, tmp_path: Path) -> None:
    """For relative and for absolute paths."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.txt").write_text("x\n")
    project(cli, f'[workspace]\nallow_absolute = true\nread = ["{tmp_path}/more"]\n')
    told = explained(cli, "read_file", f"path={tmp_path}/more/b.txt")
    assert (told["decision"], told["change"]["setting"], told["change"]["to"]) == ("deny", "trust", "allow")


def test_what_a_file_without_trust_says_is_kept_in_the_suggestion(cli: Cli) -> None:
    """A line that takes the place of another holds what the other held."""
    project(cli, '[tools]\nenable = ["fs"]\n')
    change = explained(cli, "write_memory", "content=x")["change"]
    assert tomllib.loads(change["toml"]) == {"tools": {"enable": ["fs", "write_memory"]}}


# ── what to paste, and where ─────────────────────────────────────────────────────────────────


def test_a_line_for_a_table_that_is_there_is_told_with_its_place(cli: Cli) -> None:
    """No table twice, no key twice; a table that is not there can be pasted below any other."""
    project(
        cli, '[workspace]\nprotected = []\n\n[tools]\nenable = []\n\n[[rules]]\neffect = "ask"\ntouch = "fs.read"\n'
    )
    outside = cli("policy", "explain", "read_file", "path=../x/y.txt").out
    enabling = cli("policy", "explain", "make_dir", "path=d").out
    bulk = cli("policy", "explain", "http_fetch", "url=https://example.org/").out
    assert "      # in the [workspace] table at handrail.toml:1\n      read = [" in outside
    assert (
        '      # in the [tools] table at handrail.toml:4\n      enable = ["make_dir"]  # in place of handrail.toml:5'
        in (enabling)
    )
    assert '      [http]\n      allowed_hosts = ["example.org:443"]' in bulk
    assert "counts once it is trusted: handrail config trust" in bulk


def test_dotted_keys_get_a_dotted_line_beside_them(cli: Cli) -> None:
    """A table would be declared twice."""
    project(cli, "tools.disable = []\n")
    out = cli("policy", "explain", "make_dir", "path=d").out
    assert '      # beside the line at handrail.toml:1\n      tools.enable = ["make_dir"]\n' in out


def test_the_narrowest_root_is_named(cli: Cli, tmp_path: Path) -> None:
    """The folder of a file; a folder itself."""
    (tmp_path / "o" / "p").mkdir(parents=True)
    (tmp_path / "o" / "p" / "f").write_text("x")
    for path in ("../o/p", "../o/p/f"):
        change = explained(cli, "stat_path", f"path={path}")["change"]
        assert tomllib.loads(change["toml"]) == {"workspace": {"read": [str(tmp_path / "o" / "p")]}}


def test_enabling_is_told_with_what_follows(cli: Cli) -> None:
    """Enabling notes brings a rule that allows them."""
    change = explained(cli, "write_memory", "content=x")["change"]
    assert (change["text"], change["to"]) == ("enable write_memory", "allow")
    assert cli("policy", "explain", "write_memory", "content=x", "--enable", "write_memory").code == 0


# ── commands that reach out ──────────────────────────────────────────────────────────────────


def test_a_command_that_reaches_out_is_told_which_network_it_lacks(cli: Cli) -> None:
    """An allow rule alone would not have it work."""
    argv = ("run_command", "command=curl -s https://example.org/x", "--enable", "exec")
    out = cli("policy", "explain", *argv).out
    assert "curl reaches out, but its sandbox has no network: name example.org:443 in exec.allowed_hosts, too" in out
    assert '      [exec]\n      allowed_hosts = ["example.org:443"]' in out
    assert explained(cli, *argv, HANDRAIL_EXEC__ALLOWED_HOSTS='["example.org"]')["notes"] == []
    assert explained(cli, "run_command", "command=ls", "--enable", "exec")["notes"] == []


# ── what pages say ───────────────────────────────────────────────────────────────────────────


def test_hooks_of_a_repository_may_be_read_and_not_changed(cli: Cli) -> None:
    """As the preset's comment and the list of codes say."""
    (cli.work / ".git" / "hooks").mkdir(parents=True)
    (cli.work / ".git" / "hooks" / "pre-push").write_text("exit 1\n")
    assert cli("policy", "explain", "read_file", "path=.git/hooks/pre-push").code == 0
    told = explained(cli, "write_file", "path=.git/hooks/post-merge", "content=x")
    assert (told["decision"], told["change"]) == ("deny", None)


def test_naming_a_host_enables_every_http_tool(cli: Cli) -> None:
    """As the page on the network says; one can be taken out again."""
    assert cli("policy", "explain", "http_head", "url=http://example.org/").code == 3
    assert cli("policy", "explain", "http_head", "url=http://example.org/", **INNER).code == 0
    without = {**INNER, "HANDRAIL_TOOLS__DISABLE": '["http_head"]'}
    assert cli("policy", "explain", "http_head", "url=http://example.org/", **without).code == 3


def test_exit_codes_tell_a_failed_call_from_wrong_usage(cli: Cli) -> None:
    """Arguments that do not fit are a failed call; what is no call at all is wrong usage."""
    codes = [cli("call", "read_file", word).code for word in ("pfad=a.txt", "a.txt", "--args=[]")]
    assert codes == [1, 2, 2]


def test_only_an_allow_rule_without_target_covers_a_command_that_cannot_be_looked_at(cli: Cli) -> None:
    """As the page on rules says."""
    argv = ("run_command", 'command=$(cat a.txt) "$X"', "--config", "rules.toml")
    for more, decision in (('target = "*"', "ask"), ("", "allow")):
        (cli.work / "rules.toml").write_text(
            f'[tools]\nenable = ["exec"]\n[[rules]]\neffect = "allow"\ntouch = "proc.exec"\n{more}\n'
        )
        assert explained(cli, *argv)["decision"] == decision
