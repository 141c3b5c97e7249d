"""handrail call: what goes in, what comes out on which stream, and the exit code."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fronts.conftest import Cli
from handrail.front.cli.call import exit_code
from handrail.words import ErrorInfo, Evidence, Outcome, Status

COMMAND = [sys.executable, "-c", "from handrail.front.cli import main; main()"]
OVERWRITE = ("write_file", "path=a.txt", "content=new", "mode=overwrite")


def read_then_ask(cli: Cli) -> str:
    """Read a file whole and ask to overwrite it, headless; gives the approval's id."""
    assert cli("call", "--run", "r", "read_file", "path=a.txt").code == 0
    asked = cli("call", "--run", "r", "--headless", *OVERWRITE)
    assert (asked.code, asked.out) == (4, "")
    return asked.err.strip().splitlines()[-1].removeprefix("approval: ")


def test_data_goes_to_stdout_and_nothing_else(cli: Cli) -> None:
    """A read prints the file as it is."""
    assert cli("call", "read_file", "path=a.txt") == (0, "one\ntwo\nthree\n", "")


def test_json_is_one_document_that_is_an_outcome(cli: Cli) -> None:
    """Of a success and of a failure alike, with nothing on stderr."""
    good, bad = (cli("call", "read_file", f"path={name}", "--json") for name in ("a.txt", "b.txt"))
    assert (json.loads(good.out)["status"], json.loads(bad.out)["error"]["code"]) == ("ok", "NOT_FOUND")
    assert (good.code, bad.code, good.err + bad.err) == (0, 1, "")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("read_file", "path=a.txt"), 0),
        (("read_file", "path=b.txt"), 1),
        (("read_file",), 1),
        (("nothing_like_it",), 1),
        ((), 2),
        (("read_file", "path"), 2),
        (("read_file", "path=.env"), 3),
        (("read_file", "path=/etc/passwd"), 3),
    ],
)
def test_the_exit_code_says_how_it_ended(cli: Cli, argv: tuple[str, ...], code: int) -> None:
    """As the contract lists them."""
    ended = cli("call", *argv)
    assert ended.code == code
    assert bool(ended.out) == (code == 0)


def test_a_timeout_has_a_code_of_its_own() -> None:
    """124, as `timeout` gives."""
    error = ErrorInfo("TIMEOUT", "timeout", "late")
    late = Outcome("1", "t", "1", Status.FAILED, "", "", None, error, (Evidence("tool", "t", ""),))
    assert exit_code(late) == 124


@pytest.mark.parametrize(
    ("pairs", "args"),
    [
        (("path=a.txt", "limit=1"), {"path": "a.txt", "limit": 1}),
        (("path=123",), {"path": "123"}),
        (("path=a=b",), {"path": "a=b"}),
        (("path=a.txt", "whole=true"), {"path": "a.txt", "whole": True}),
        (('path="a"',), {"path": '"a"'}),
    ],
)
def test_pairs_are_taken_as_the_schema_asks(cli: Cli, pairs: tuple[str, ...], args: dict[str, Any]) -> None:
    """Numbers and flags become what they are, text stays text."""
    cli("call", "--run", "r", "read_file", *pairs)
    recorded = json.loads(cli("runs", "show", "r", "--json").out)["calls"][0]["args"]
    assert {name: recorded[name] for name in args} == args


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--args", '{"path": "a", "path": "b"}'), "'path' stands twice"),
        (("--args", '{"limit": NaN}'), "NaN is not JSON"),
        (("--args", "[1]"), "a JSON object is needed"),
        (("--args", "{"), "--args:"),
        (("--args", "@missing.json"), "--args @missing.json: No such file"),
        (("--args", '{"path": "a"}', "path=b"), "given twice"),
        (("path",), "write arguments as key=value"),
        (("--approve", "path=a.txt"), "needs a terminal"),
        (("--approve", "--headless", "path=a.txt"), "choose one"),
        (("--workspace", "missing", "path=a.txt"), "missing does not exist"),
        (("--workspace", "a.txt", "path=a.txt"), "a.txt is not a folder"),
        (("--config", "missing.toml", "path=a.txt"), "there is no such settings file"),
        (("--run", "../x", "path=a.txt"), "cannot be a run id"),
        (("--approval", "apr_nothing", "path=a.txt"), "There is no approval"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(cli: Cli, argv: tuple[str, ...], says: str) -> None:
    """Exit code 2, nothing on stdout, no traceback."""
    ended = cli("call", "read_file", *argv)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


def test_arguments_come_from_a_file_or_from_stdin(cli: Cli) -> None:
    """`--args @file` and `--args @-`."""
    (cli.work / "args.json").write_text('{"path": "a.txt", "limit": 1}')
    from_file = cli("call", "read_file", "--args", "@args.json")
    from_stdin = cli("call", "read_file", "--args", "@-", stdin='{"path": "a.txt", "limit": 1}')
    assert from_file.out == from_stdin.out != ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mode = [", "handrail.toml:1: is not TOML"),
        ("[tools]\nenabel = []", "did you mean `tools.enable`?"),
        ('mode = "sometimes"', "expected one of"),
    ],
)
def test_a_broken_settings_file_is_named_with_its_line(cli: Cli, text: str, says: str) -> None:
    """Before anything is run."""
    (cli.work / "handrail.toml").write_text(text)
    ended = cli("call", "read_file", "path=a.txt")
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err


def test_what_settings_warn_of_is_told_once(cli: Cli) -> None:
    """An untrusted project cannot widen; what of it is ignored is named on stderr."""
    (cli.work / "handrail.toml").write_text("[workspace]\nallow_absolute = true\n")
    ended = cli("call", "read_file", "path=a.txt")
    assert (ended.code, ended.out) == (0, "one\ntwo\nthree\n")
    assert ended.err.count("warning: ") == 1
    assert "handrail.toml:2" in ended.err
    # This one looks at the settings twice: for the place of the runs, and to open one.
    assert cli("runs", "undo").err.count("warning: ") == 1


def test_without_a_place_for_the_journal_nothing_runs(cli: Cli) -> None:
    """The state folder cannot be made; the message says where."""
    ended = cli("call", "read_file", "path=a.txt", XDG_STATE_HOME="/proc/nowhere")
    assert (ended.code, ended.out) == (1, "")
    assert "JOURNAL_UNAVAILABLE" in ended.err
    assert "/proc/nowhere" in ended.err


def test_an_argument_that_is_not_utf8_is_no_crash(cli: Cli) -> None:
    """A name of odd bytes is refused or not found, as text."""
    odd = os.fsdecode(b"path=\xff\xfe")
    ended = subprocess.run(
        [*COMMAND, "call", "read_file", odd], cwd=cli.work, env=cli.env, capture_output=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert b"INVALID_ARGS" in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_a_denial_names_the_rule_and_where_to_look(cli: Cli) -> None:
    """On stderr, for people."""
    ended = cli("call", "read_file", "path=.env")
    assert ended.err.splitlines()[:2] == [
        "PATH_PROTECTED: Denied: .env is protected (.env*).",
        "  rule: defaults.protected",
    ]


def test_a_failure_offers_the_command_that_works(cli: Cli) -> None:
    """`try:` can be run as it stands."""
    ended = cli("call", "read_file", "file_path=a.txt")
    offered = ended.err.strip().splitlines()[-1].removeprefix("  try: handrail ")
    assert offered == "call read_file path=a.txt"
    assert cli(*offered.split()).out == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("red_file", "path=a.txt"), "try: handrail tools show read_file"),
        (("zzzzzzzz",), "try: handrail tools list"),
        (("hash_file", "path=a.tx"), "try: handrail call hash_file path=a.txt"),
        (("read_file", "path=a.tx"), "try: handrail call read_file path=a.txt"),
    ],
)
def test_what_is_not_there_is_answered_with_a_command_that_works(cli: Cli, argv: tuple[str, ...], says: str) -> None:
    """The nearest name where there is one, else the list of all."""
    ended = cli("call", *argv)
    assert (ended.code, says in ended.err) == (1, True)
    assert cli(*says.removeprefix("try: handrail ").split()).code == 0


def test_a_job_that_is_looked_for_in_another_command_is_not_promised(cli: Cli) -> None:
    """It ended with the command that started it; listing jobs would show none either."""
    ended = cli("call", "--enable", "exec", "job_read", "job=1")
    assert (ended.code, "ends with the command that started it" in ended.err, "try:" in ended.err) == (1, True, False)


def test_a_skill_that_is_not_there_is_said_to_be_none(cli: Cli) -> None:
    """With near names, before the denial by a list of tools that it does not have."""
    skill = cli.work / ".agents" / "skills" / "notes"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: notes\ndescription: Takes notes.\n---\nWrite.\n")
    ended = cli("call", "--skill", "nots", "read_file", "path=a.txt")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("warning: There is no skill 'nots'. Did you mean")


def test_live_shows_start_and_end_on_stderr(cli: Cli) -> None:
    """stdout stays the data."""
    ended = cli("call", "--live", "read_file", "path=a.txt")
    assert ended.out == "one\ntwo\nthree\n"
    started, completed = ended.err.splitlines()
    assert "▶ read_file path=a.txt" in started
    assert "✔ ok in " in completed


def test_live_shows_displays_while_the_data_stays_on_stdout(cli: Cli) -> None:
    """A display is for the person; stdout has only the tool's answer."""
    ended = cli("call", "--live", "display", "content=hello there", "level=success")
    assert "hello there" in ended.err
    assert cli("call", "display", "content=hello there").err == "[info] hello there\n"


# ── approvals across processes ───────────────────────────────────────────────────────────────


def test_a_lone_dash_is_told_the_way_to_standard_input(cli: Cli) -> None:
    """Which is written as a file is."""
    ended = cli("call", "now", "--args", "-")
    assert (ended.code, ended.err.splitlines()[-1].endswith("For standard input write --args @-.")) == (2, True)


def test_a_pipe_is_told_for_what_it_may_be(cli: Cli) -> None:
    """In words, not by the name of its kind."""
    os.mkfifo(cli.work / "pipe")
    ended = cli("call", "read_file", "path=pipe")
    said = "NOT_A_FILE: pipe is not a regular file but a pipe, a socket or a device.\n"
    assert (ended.code, ended.err) == (1, said)


def test_a_script_that_is_named_by_its_file_alone_is_told_with_its_folder(cli: Cli) -> None:
    """Where there is such a file."""
    scripts = cli.work / ".agents" / "skills" / "s" / "scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\nbody\n")
    (scripts / "draft.py").write_text("")
    ended = cli("call", "--enable", "run_script", "run_script", "skill=s", "script=draft.py")
    said = (
        "'draft.py' does not lie in scripts/ of the skill, whose programs alone can be run. Did you mean scripts/draft"
    )
    assert (ended.code, said in ended.err) == (1, True)


def test_a_request_is_granted_in_one_process_and_replayed_in_another(cli: Cli) -> None:
    """Once: the second replay is refused."""
    request = read_then_ask(cli)
    assert cli.grant(request).code == 0
    replayed = cli("call", "--approval", request)
    assert (replayed.code, (cli.work / "a.txt").read_text()) == (0, "new")
    again = cli("call", "--approval", request)
    assert (again.code, "APPROVAL_DENIED" in again.err) == (3, True)


def test_a_replay_takes_no_arguments(cli: Cli) -> None:
    """What was approved is what runs."""
    request = read_then_ask(cli)
    cli.grant(request)
    assert cli("call", "--approval", request, "write_file", "path=b.txt").code == 2
    assert (cli.work / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_command_without_a_terminal_does_not_wait_for_anybody(cli: Cli) -> None:
    """It ends as pending with the id at once; whoever wants it to wait says so."""
    cli("call", "--run", "r", "read_file", "path=a.txt")
    began = time.monotonic()
    asked = cli("call", "--run", "r", *OVERWRITE)
    assert time.monotonic() - began < 100  # `approvals.wait_seconds` is 300
    assert (asked.code, asked.out, "approval: apr_" in asked.err) == (4, "", True)
    assert cli("call", "--wait", "5", "--headless", *OVERWRITE).code == 2


def test_the_printed_replay_works_as_it_stands(cli: Cli, tmp_path: Path) -> None:
    """With the flags that say which settings count, wherever it is run; in JSON it is the same line."""
    config = tmp_path / "my settings.toml"
    config.write_text('[[rules]]\neffect = "ask"\ntouch = "fs.write"\n')
    call = ("call", "--config", f"../{config.name}", "--enable", "write_file", "--enable", "make_dir")
    asked = cli(*call, "write_file", "path=b.txt", "content=new")
    line = next(line for line in asked.err.splitlines() if line.startswith("  then:")).removeprefix("  then:").strip()
    request = asked.err.strip().splitlines()[-1].removeprefix("approval: ")
    told = json.loads(cli(*call, "--json", "write_file", "path=b.txt", "content=new").out)
    assert told["error"]["details"]["approval"]["replay"]["command"] == line
    assert cli.grant(request).code == 0
    command, *words = shlex.split(line)
    assert (command, cli(*words, cwd=tmp_path).code) == ("handrail", 0)
    assert (cli.work / "b.txt").read_text() == "new"


@pytest.mark.parametrize("how", ["flag", "setting"])
def test_a_command_that_is_asked_to_wait_goes_on_when_it_is_granted(cli: Cli, how: str) -> None:
    """By a flag, or by settings that name a time."""
    call, request = waiting(cli, how)
    cli.grant(request)
    call.communicate(timeout=60)
    assert (call.returncode, (cli.work / "a.txt").read_text()) == (0, "new")


def waiting(
    cli: Cli, how: str = "setting", before: Callable[[], object] | None = None
) -> tuple[subprocess.Popen[str], str]:
    """A call that waits for an answer from elsewhere, and the approval's id."""
    cli("call", "--run", "r", "read_file", "path=a.txt")
    call = subprocess.Popen(
        [*COMMAND, "call", "--run", "r", *(("--wait", "60") if how == "flag" else ()), *OVERWRITE],
        cwd=cli.work,
        env={**cli.env, **({} if how == "flag" else {"HANDRAIL_APPROVALS__WAIT_SECONDS": "60"})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,  # noqa: PLW1509  no thread runs here
    )
    assert call.stderr is not None
    line = call.stderr.readline()
    assert line.startswith("waits for an answer to apr_"), line
    return call, line.split()[5]


def test_a_waiting_call_says_so_and_goes_on_when_it_is_granted(cli: Cli) -> None:
    """Without a terminal the answer comes from elsewhere."""
    call, request = waiting(cli)
    cli.grant(request)
    out, err = call.communicate(timeout=60)
    assert (call.returncode, err, (cli.work / "a.txt").read_text()) == (0, "", "new")
    assert "a.txt" in out


def test_in_the_background_only_a_request_to_terminate_ends_a_call(cli: Cli) -> None:
    """A shell lets interrupts be ignored there, as does nohup; it is on record all the same."""
    call, _ = waiting(cli, before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    call.send_signal(signal.SIGINT)
    call.send_signal(signal.SIGTERM)
    out, err = call.communicate(timeout=60)
    assert (call.returncode, out, err) == (130, "", "\ninterrupted\n")
    assert "CANCELLED" in cli("runs", "show", "r", "--json").out


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_call_is_on_record_as_cancelled(cli: Cli, sent: signal.Signals) -> None:
    """Exit code 130, no traceback, nothing changed."""
    call, _ = waiting(cli)
    call.send_signal(sent)
    out, err = call.communicate(timeout=60)
    assert (call.returncode, out, err) == (130, "", "\ninterrupted\n")
    last = json.loads(cli("runs", "show", "r", "--json").out)["calls"][-1]
    assert (last["code"], last["effect"]) == ("CANCELLED", "none")
    assert (cli.work / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_run_that_is_open_elsewhere_is_not_touched(cli: Cli) -> None:
    """RUN_BUSY names who holds it."""
    call, request = waiting(cli)
    busy = cli("call", "--run", "r", "read_file", "path=a.txt")
    cli("approvals", "deny", request, "--advice", "write elsewhere")
    _, err = call.communicate(timeout=60)
    assert (busy.code, f"process {call.pid}" in busy.err) == (1, True)
    assert (call.returncode, "write elsewhere" in err) == (3, True)


def test_a_reader_that_had_enough_is_no_error(cli: Cli) -> None:
    """`handrail runs events | head -1` prints one line and nothing else."""
    cli("call", "--run", "r", "read_file", "path=a.txt")
    journal = Path(cli.env["XDG_STATE_HOME"], "handrail", "runs", "r", "events.jsonl")
    journal.write_bytes(journal.read_bytes() * 500)  # more than a pipe holds
    line = f"{sys.executable} -c 'from handrail.front.cli import main; main()' runs events r | head -1"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=cli.work,
        env=cli.env,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout)["kind"] == "run.started"


def test_a_key_needs_the_run_that_remembers_it(cli: Cli) -> None:
    """Without one, each call is a run of its own, and a repeated one would be made twice."""
    ended = cli("call", "--enable", "fs", "--key", "k", "write_file", "path=k.txt", "content=one")
    assert (ended.code, "name it with --run" in ended.err, (cli.work / "k.txt").exists()) == (2, True, False)
    named = ("call", "--enable", "fs", "--key", "k", "--run", "r", "write_file", "path=k.txt", "content=one")
    assert [cli(*named).code for _ in range(2)] == [0, 0]
