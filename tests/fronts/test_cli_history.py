"""`handrail history import`: transcripts of agents as runs, and what can be done with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fronts.conftest import Cli
from handrail.store.reader import events, verify

KEY = "ghp_" + "aB3" * 12
SESSION = "4febc02c-653e-5195-94ed-700f61d80acd"


def at(second: int) -> str:
    """A moment as transcripts write it."""
    return f"2026-08-21T10:00:{second:02d}.000Z"


class Claude:
    """Writes a transcript of Claude Code, after its documented shape."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self.lines: list[str] = []

    def add(self, kind: str, second: int, content: Any, **more: Any) -> None:
        """Add a line."""
        line: dict[str, Any] = {"type": kind, "uuid": f"u{len(self.lines)}", "parentUuid": None, "sessionId": SESSION}
        line |= {"cwd": str(self.cwd), "version": "2.1.239", "isSidechain": False, "timestamp": at(second)}
        self.lines.append(json.dumps({**line, "message": {"role": kind, "content": content}, **more}))

    def use(self, second: int, name: str, tool: str, given: dict[str, Any], **more: Any) -> None:
        """Add a call of a tool."""
        self.add("assistant", second, [{"type": "text", "text": "…"}, _use(name, tool, given)], **more)

    def result(self, second: int, name: str, content: Any, *, error: bool = False, **more: Any) -> None:
        """Add the result of a call."""
        part = {"type": "tool_result", "tool_use_id": name, "content": content, "is_error": error}
        self.add("user", second, [part], **more)


def _use(name: str, tool: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def claude_transcript(cwd: Path) -> Claude:
    """A session: reading, a denial, a subagent, a secret, a call without an end."""
    made = Claude(cwd)
    made.lines.append(json.dumps({"type": "summary", "summary": "a title", "leafUuid": "x"}))
    made.add("user", 0, "mend the test")
    made.use(1, "toolu_1", "Read", {"file_path": str(cwd / "a.txt")})
    made.result(2, "toolu_1", "one\ntwo")
    made.use(3, "toolu_2", "Bash", {"command": f"curl -H 'Authorization: {KEY}' https://x.example"})
    made.result(4, "toolu_2", f"token {KEY}", error=True)
    made.use(5, "toolu_3", "Task", {"description": "look", "prompt": "List all", "subagent_type": "Explore"})
    made.add("user", 6, "List all", isSidechain=True)
    made.use(7, "toolu_4", "Grep", {"pattern": "x", "path": str(cwd)}, isSidechain=True)
    made.result(8, "toolu_4", [{"type": "text", "text": "found"}], isSidechain=True)
    made.result(9, "toolu_3", "done", toolUseResult={"agentId": "sub1"})
    made.use(10, "toolu_5", "Bash", {"command": "git push"})
    made.result(11, "toolu_5", "The user doesn't want to proceed", error=True, toolDenialKind="user-rejected")
    made.use(12, "toolu_6", "Write", {"file_path": str(cwd / ".env"), "content": "A=1"})
    return made


@pytest.fixture
def transcript(cli: Cli) -> Path:
    """A transcript of Claude Code where it keeps them, with a subagent's own file beside it."""
    folder = Path(cli.env["HOME"], ".claude", "projects", "-ws")
    folder.mkdir(parents=True)
    file = folder / f"{SESSION}.jsonl"
    file.write_text("\n".join(claude_transcript(cli.work).lines) + "\n")
    inner = Claude(cli.work)
    inner.add("user", 6, "List all", isSidechain=True)
    inner.use(7, "toolu_7", "Glob", {"pattern": "*.py"}, isSidechain=True)
    inner.result(8, "toolu_7", "none", isSidechain=True)
    (folder / SESSION / "subagents").mkdir(parents=True)
    (folder / SESSION / "subagents" / "agent-sub1.jsonl").write_text("\n".join(inner.lines) + "\n")
    return file


RUN = f"claude-code-{SESSION}-imported"


def run_of(cli: Cli, name: str = RUN) -> Path:
    """The folder of an imported run."""
    return Path(cli.env["XDG_STATE_HOME"], "handrail", "runs", name)


def test_a_session_of_claude_code_becomes_a_run(cli: Cli, transcript: Path) -> None:
    """Each call with its end, its parent and the verdict that policy gives; nothing is run."""
    ended = cli("history", "import", "claude-code")
    assert (ended.code, ended.out) == (0, f"{RUN}: 7 calls\n"), ended.err
    calls = {call["call_id"]: call for call in json.loads(cli("runs", "show", RUN, "--json").out)["calls"]}
    told = {name: (call["asked"], call["decision"], call["status"]) for name, call in calls.items()}
    assert told == {
        "toolu_1": ("Read", "allow", "ok"),
        "toolu_2": ("Bash", "ask", "failed"),
        "toolu_3": ("Task", "allow", "ok"),
        "toolu_4": ("Grep", "allow", "ok"),
        "toolu_5": ("Bash", "deny", "denied"),
        "toolu_6": ("Write", "deny", "not seen"),
        "toolu_7": ("Glob", "allow", "ok"),
    }
    parents = {name: call["parent"] for name, call in calls.items()}
    assert {name: parent for name, parent in parents.items() if parent} == {"toolu_4": "toolu_3", "toolu_7": "toolu_3"}
    assert not (cli.work / ".env.new").exists()
    assert verify(run_of(cli)).ok
    (first,) = [event for event in events(run_of(cli)) if event["kind"] == "run.started"]
    assert first["ts"].startswith("2026-08-21T10:00:01")


def test_the_tree_shows_who_started_what(cli: Cli, transcript: Path) -> None:
    """The calls of a subagent stand below the call that started it."""
    cli("history", "import", "claude-code")
    lines = cli("runs", "tree", RUN).out.splitlines()
    depth = {line.split("●")[1].split()[0]: line.index("●") for line in lines if "●" in line}
    assert depth["Grep"] > depth["Task"]
    assert depth["Glob"] > depth["Task"] == depth["Read"]


def test_secrets_of_transcripts_are_hidden(cli: Cli, transcript: Path) -> None:
    """In arguments and in answers."""
    cli("history", "import", "claude-code")
    for file in run_of(cli).rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file


def test_what_was_done_can_be_searched(cli: Cli, transcript: Path) -> None:
    """By words, by tool in either name, by decision and status."""
    cli("history", "import", "claude-code")
    found = json.loads(cli("runs", "search", "push", "--json").out)
    assert [(call["call_id"], call["run_id"]) for call in found] == [("toolu_5", RUN)]
    assert len(json.loads(cli("runs", "search", "command", "--tool", "Bash", "--json").out)) == 2
    assert len(json.loads(cli("runs", "search", "command", "--tool", "run_command", "--json").out)) == 2
    assert "toolu_6" in cli("runs", "search", ".env", "--status", "not seen").out
    missing = cli("runs", "search", "nothing like this")
    assert (missing.code, "No call holds" in missing.err) == (1, True)


def test_policy_explains_what_was_done(cli: Cli, transcript: Path) -> None:
    """As it judges it now; what was hidden cannot be judged again."""
    cli("history", "import", "claude-code")
    ended = cli("policy", "explain", "--call", "toolu_5", "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["tool"], told["decision"]) == (3, "Bash", "deny")
    assert "defaults.git-push" in [finding["rule"] for finding in told["findings"]]
    user = Path(cli.env["XDG_CONFIG_HOME"], "handrail", "config.toml")
    user.write_text(user.read_text() + 'exec.allow = ["git push"]\n')
    assert cli("policy", "explain", "--call", "toolu_5").code == 0
    hidden = cli("policy", "explain", "--call", "toolu_2")
    assert (hidden.code, "hidden or cut" in hidden.err) == (2, True)
    assert cli("policy", "explain", "--call", "nothing").code == 2
    assert cli("policy", "explain").code == 2


def test_a_broken_line_costs_that_line(cli: Cli, transcript: Path) -> None:
    """It is counted and named; the rest is imported."""
    lines = transcript.read_text().splitlines()
    lines[3] = lines[3][:40]
    lines.insert(5, '{"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "x"}]}}')
    lines.insert(7, "[1, 2]")
    lines.append('{"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "gone"}]}}')
    transcript.write_text("\n".join(lines) + "\n")
    ended = cli("history", "import", "claude-code", str(transcript))
    assert (ended.code, "7 calls" in ended.out, "4 lines could not be read" in ended.err) == (0, True, True)
    for number in (4, 6, 8, len(lines)):
        assert f"{transcript.name}:{number}: " in ended.err
    (told,) = json.loads(cli("history", "import", "claude-code", str(transcript), "--json").out)
    assert ([item["line"] for item in told["broken"]], told["known"]) == ([4, 6, 8, len(lines)], 7)


def test_a_transcript_that_has_grown_is_added_to(cli: Cli, transcript: Path) -> None:
    """What is there already is not read twice."""
    cli("history", "import", "claude-code")
    more = Claude(cli.work)
    more.use(20, "toolu_8", "Bash", {"command": "ls"})
    more.result(21, "toolu_8", "a.txt")
    with transcript.open("a") as file:
        file.write("\n".join(more.lines) + "\n")
    ended = cli("history", "import", "claude-code", str(transcript.parent))
    assert (ended.code, ended.out) == (0, f"{RUN}: 1 call, 7 known already\n")
    assert len(json.loads(cli("runs", "show", RUN, "--json").out)["calls"]) == 8
    assert verify(run_of(cli)).ok


def test_a_folder_that_is_gone_leaves_calls_unjudged(cli: Cli) -> None:
    """They are on record all the same, with secrets hidden."""
    file = cli.work.parent / "gone.jsonl"
    file.write_text("\n".join(claude_transcript(Path("/nowhere/at/all")).lines) + "\n")
    assert cli("history", "import", "claude-code", str(file)).code == 0
    calls = json.loads(cli("runs", "show", RUN, "--json").out)["calls"]
    assert {call["decision"] for call in calls} == {None}
    assert KEY not in run_of(cli).joinpath("events.jsonl").read_text()


def codex_rollout(cwd: Path) -> list[str]:
    """A rollout of Codex: commands in each of its forms, a patch, a block, a call without an end."""

    def line(second: int, kind: str, payload: dict[str, Any]) -> str:
        return json.dumps({"timestamp": at(second), "type": kind, "payload": payload})

    def call(second: int, name: str, tool: str, given: dict[str, Any]) -> str:
        about = {"type": "function_call", "name": tool, "arguments": json.dumps(given), "call_id": name}
        return line(second, "response_item", about)

    def output(second: int, name: str, text: Any, kind: str = "function_call_output") -> str:
        return line(second, "response_item", {"type": kind, "call_id": name, "output": text})

    patch = "*** Begin Patch\n*** Add File: new.txt\n+x\n*** End Patch"
    blocked = "Command blocked by PreToolUse hook: no. Command: git push"
    return [
        line(0, "session_meta", {"id": "0199-codex", "cwd": str(cwd), "cli_version": "0.9"}),
        line(0, "turn_context", {"cwd": str(cwd), "approval_policy": "on-request"}),
        line(1, "event_msg", {"type": "user_message", "message": "hi"}),
        call(2, "call_1", "shell", {"command": ["bash", "-lc", "cat a.txt"], "workdir": str(cwd)}),
        output(3, "call_1", json.dumps({"output": "one", "metadata": {"exit_code": 0}})),
        call(4, "call_2", "exec_command", {"cmd": "npm test", "workdir": str(cwd)}),
        output(5, "call_2", "Exit code: 1\nfailed"),
        line(
            6, "response_item", {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "call_3"}
        ),
        output(7, "call_3", "Success", "custom_tool_call_output"),
        call(8, "call_4", "exec_command", {"cmd": "git push"}),
        output(9, "call_4", blocked),
        call(10, "call_5", "update_plan", {"plan": []}),
        call(11, "call_6", "mcp__memory__delete", {"token": KEY}),
        "not json",
    ]


def test_a_session_of_codex_becomes_a_run(cli: Cli) -> None:
    """Every way to run a command is judged as one; a block is a denial."""
    folder = Path(cli.env["HOME"], ".codex", "sessions", "2026", "08", "21")
    folder.mkdir(parents=True)
    (folder / "rollout-2026-08-21T10-00-00-0199-codex.jsonl").write_text("\n".join(codex_rollout(cli.work)) + "\n")
    ended = cli("history", "import", "codex")
    assert (ended.out, "1 line could not be read" in ended.err) == ("codex-0199-codex-imported: 6 calls\n", True)
    calls = json.loads(cli("runs", "show", "codex-0199-codex-imported", "--json").out)["calls"]
    told = [(call["asked"], call["tool"], call["decision"], call["status"]) for call in calls]
    assert told == [
        ("Bash", "run_command", "allow", "ok"),
        ("Bash", "run_command", "ask", "failed"),
        ("apply_patch", "apply_patch", "allow", "ok"),
        ("Bash", "run_command", "deny", "denied"),
        ("update_plan", "agent_own", "allow", "not seen"),
        ("mcp__memory__delete", "agent_use", "ask", "not seen"),
    ]
    assert not (cli.work / "new.txt").exists()
    assert KEY not in run_of(cli, "codex-0199-codex-imported").joinpath("events.jsonl").read_text()


def test_an_agent_without_transcripts_is_told(cli: Cli) -> None:
    """Which there are, and that there are none."""
    assert "claude-code" in cli("history", "import", "gemini-cli").err
    ended = cli("history", "import", "codex")
    assert (ended.code, "no transcripts of codex" in ended.err) == (1, True)
