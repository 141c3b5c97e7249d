"""What fell short of the documents, run through the command line as it was seen there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dialects._speaking import skill
from fronts.conftest import Cli
from fronts.zygote import Zygote

SCRIPT = "import sys, time\nprint('ran', *sys.argv[1:], flush=True)\ntime.sleep(float(sys.argv[1]))\n"


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Processes for the command line."""
    made = Zygote(tmp_path_factory.mktemp("streams"))
    yield made
    made.close()


@pytest.fixture
def cli(zygote: Zygote, work: Path, own_user: Path) -> Cli:
    """`handrail` in an empty project."""
    return Cli(zygote, work, own_user)


def call(cli: Cli, dialect: str, tool: str, args: dict[str, Any], *more: str, **env: str) -> Any:
    """Make one call in a dialect, by its preset unless a file is named; give its envelope."""
    which = () if "--config" in more or dialect == "autonous" else ("--preset", dialect)
    words = ["call", "--headless", "--json", "--dialect", dialect, *which, *more, tool, "--args", json.dumps(args)]
    told = cli(*words, stdin="", cwd=None, **env)
    return json.loads(told.out)


def grant(cli: Cli, told: Any, *more: str) -> None:
    """Grant the request that a refused call left."""
    request = next(word for word in told["error"]["message"].split() if word.startswith("apr_")).rstrip(";.")
    assert cli.grant(request, *more).code == 0


def test_a_grant_for_the_run_covers_the_same_kind_of_tool(cli: Cli) -> None:
    """skills-agent 3.2, 3.3: other scripts, other arguments and other files; another run asks again."""
    skill(cli.work, a__py=SCRIPT, b__py=SCRIPT)
    flags = ["--enable", "run_script", "--enable", "write_file"]
    scripts = [
        {"skill": {"name": "pdf-form-filler"}, "relative_path": f"scripts/{name}.py", "args": ["0", name]}
        for name in "aba"
    ]
    files = [{"path": f"{name}.txt", "content": name} for name in "abc"]
    for tool, calls in (("run_script", scripts), ("write_file", files)):
        grant(cli, call(cli, "skills-agent", tool, calls[0], "--run", "one", *flags), "--scope", "run")
        told = [call(cli, "skills-agent", tool, args, "--run", "one", *flags) for args in calls[:2]]
        other = call(cli, "skills-agent", tool, calls[2], "--run", "two", *flags)
        assert ([one["ok"] for one in told], other["error"]["type"]) == ([True, True], "ApprovalRequired")
    lines = [
        json.loads(line)
        for line in cli(
            "runs", "events", "one", "--preset", "skills-agent", "--dialect", "skills-agent"
        ).out.splitlines()
    ]
    assert {line["policy"]["approval_scope"] for line in lines if line.get("policy", {}).get("approved")} == {"run"}


def test_the_time_limit_of_a_script_comes_from_settings(cli: Cli) -> None:
    """skills-agent 5.4.2: a script that sleeps is ended, with what it wrote."""
    skill(cli.work, a__py=SCRIPT)
    args = {"skill": {"name": "pdf-form-filler"}, "relative_path": "scripts/a.py", "args": ["5"]}
    how = ["--run", "one", "--enable", "run_script"]
    limit = {"HANDRAIL_EXEC__TIMEOUT_SECONDS": "1"}
    grant(cli, call(cli, "skills-agent", "run_script", args, *how, **limit), "--scope", "run")
    told = call(cli, "skills-agent", "run_script", args, *how, **limit)
    assert (told["error"]["type"], told["timeout"], told["stdout"]) == ("Timeout", True, "ran 5\n")


def test_large_results_are_kept_whole(cli: Cli) -> None:
    """skills-agent 6: a search and a listing, in the run's observations."""
    (cli.work / "big.txt").write_text("".join(f"line {number}\n" for number in range(3000)))
    (cli.work / "many").mkdir()
    for number in range(600):
        (cli.work / f"many/{number}").touch()
    told = [
        call(cli, "skills-agent", "grep", {"pattern": "line"}, "--run", "one"),
        call(cli, "skills-agent", "list_dir", {"path": "many"}, "--run", "one"),
    ]
    kept = [(cli.work / ".agent/runs/one" / one["storage_ref"].removeprefix("run:")).read_text() for one in told]
    assert [text.count("\n") for text in kept] == [3000, 600]


def test_a_megabyte_of_output_is_shown(cli: Cli) -> None:
    """clude 5.2: by default, and by max_output_bytes; lines do not bound before bytes."""
    (cli.work / "policy.json").write_text('{"max_output_bytes": 2000000, "command_allowlist": ["seq *"]}')
    shown = call(cli, "clude", "run_terminal_cmd", {"command": "seq 1 100000"})
    whole = call(cli, "clude", "run_terminal_cmd", {"command": "seq 1 200000"}, "--config", "policy.json")
    assert [len(one["payload"]["stdout"].splitlines()) for one in (shown, whole)] == [100_000, 200_000]


def test_a_search_of_any_size_is_one_call(cli: Cli) -> None:
    """kgent: 20,000 matches are in the artifact, one call is spent, and the log has one line for it."""
    (cli.work / "kgent.yaml").write_text("memory: {enabled: true}\n")
    how = ("--config", "kgent.yaml", "--run", "one")
    call(cli, "kgent", "list_files", {"path": "."}, *how)
    run = cli.work / "runs/one"
    (run / "workspace/a.txt").write_text("".join(f"needle {number}\n" for number in range(20_000)))
    limit = {"HANDRAIL_LIMITS__MAX_CALLS": "3"}
    told = call(cli, "kgent", "grep_files", {"pattern": "needle", "path": "."}, *how, **limit)
    after = call(cli, "kgent", "read_file", {"path": "a.txt"}, *how, **limit)
    [artifact] = told["artifacts"]
    assert (run / artifact["ref"].removeprefix("run:")).read_text().count("\n") == 20_000
    lines = [json.loads(line) for line in (run / "logs/tools.jsonl").read_text().splitlines()]
    assert ([line["tool"] for line in lines], after["ok"]) == (["list_files", "grep_files", "read_file"], True)
    assert [line["args"] for line in lines[1:]] == [{"pattern": "needle", "path": "."}, {"path": "a.txt"}]


@pytest.mark.parametrize(
    ("limit", "bound", "cmd"),
    [
        ("LINES", 3, "seq 1 100"),
        ("LINES", 10, "seq 1 100"),
        ("BYTES", 20, "printf '%081d' 1"),
        ("BYTES", 200, "seq 9000"),
    ],
)
def test_bash_obeys_small_limits_of_the_environment(cli: Cli, limit: str, bound: int, cmd: str) -> None:
    """autonous Safety Policy 3: and the next page comes by its cursor, without running anything."""
    env = {"AUTONOUS_TOOL_ALLOWED_ROOTS": str(cli.work), f"AUTONOUS_TOOL_MAX_OUTPUT_{limit}": str(bound)}
    told = call(cli, "autonous", "bash", {"cmd": cmd}, "--run", "one", **env)
    page = call(cli, "autonous", "bash", {"cmd": "exit 1", "cursor": told["next_page_cursor"]}, "--run", "one", **env)
    size = len(told["stdout"].splitlines()) if limit == "LINES" else len(told["stdout"])
    assert (size <= bound, told[f"truncated_{limit.lower()}"], page["ok"]) == (True, True, True)


def test_folders_are_found_and_refused_calls_have_both_events(cli: Cli) -> None:
    """autonous find, 总体架构: what was refused can be read from the document's events."""
    (cli.work / "src/deep").mkdir(parents=True)
    env = {"AUTONOUS_TOOL_ALLOWED_ROOTS": str(cli.work)}
    found = call(cli, "autonous", "find", {"path": ".", "name_pattern": "deep"}, "--run", "one", **env)
    call(cli, "autonous", "bash", {"cmd": "rm -rf /"}, "--run", "one", **env)
    events = [json.loads(line) for line in cli("runs", "events", "one", "--dialect", "autonous").out.splitlines()]
    told = [(event["kind"], event["payload"]) for event in events if event["kind"].startswith("tool_call.")][2:]
    assert found["stdout"] == "src/deep\n"
    assert [kind for kind, _ in told] == ["tool_call.started", "tool_call.failed"]
    assert (told[0][1]["arguments"], told[1][1]["error_class"]) == ({"cmd": "rm -rf /"}, "policy")
