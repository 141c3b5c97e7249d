"""The same action gets the same verdict through MCP, Python and the hook of each agent; a command never a laxer one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fronts.mcp_talk import Talk
from handrail import Runtime
from handrail.front.mcp.door import Door
from handrail.front.mcp.opening import Opening
from handrail.front.mcp.wire import OUTCOME_KEY
from handrail.hooks.sessions import Sessions
from hooking import ALL, SHELL, Speaker, patch, settings

STRICT = {"allow": 0, "ask": 1, "deny": 2}
FILES = {
    "a.txt": "one\n",
    "src/app.py": "DEBUG = True\n",
    "src/deep/b.py": "x = 1\n",
    ".env": "TOKEN=1\n",
    ".github/workflows/ci.yml": "on: push\n",
    "secrets/key.txt": "k\n",
    ".claude/notes.md": "n\n",
    "Makefile": "all:\n",
}
NEW = (
    "new.txt",
    "src/new.py",
    "secrets/new.txt",
    ".env.local",
    ".vscode/tasks.json",
    ".git/hooks/pre-commit",
    "x/y/z.txt",
)
OUTSIDE = ("/etc/hosts", "../elsewhere.txt", "/root/.ssh/id_rsa", "src/../../up.txt", "link-out")
HOSTS = ("https://example.org/", "https://docs.example.org:8443/a", "http://169.254.169.254/", "http://localhost:1/")
LINES = (
    *("ls", "ls -la src", "cat a.txt", "cat .env", "cat /etc/hosts", "git status", "git log --oneline", "git push"),
    *("git commit -m x", "npm test", "make all", "rm -rf build", "rm -rf /", "echo x > new.txt", "echo x > a.txt"),
    *(
        "echo x > /etc/x",
        "echo x >> ~/.bashrc",
        "cat secrets/key.txt",
        "grep -rn x .",
        "grep x a.txt",
        "rg TODO",
        "pytest -q",
    ),
    *("python -c 'print(1)'", "bash -c 'ls'", "sudo ls", "curl https://example.org", "find . -name '*.py'", "printenv"),
    *("cd src && ls", "cd .. && ls", "echo $HOME", "cat link-out", "sed -n 1p a.txt", "mkdir -p out", "tee a.txt"),
    *(
        "handrail runs list",
        "cat handrail.toml",
        "touch .git/hooks/x",
        "jq . a.txt",
        "env",
        "pytest -q",
        "head -1 src/*.py",
    ),
)


class Action(NamedTuple):
    """One action: as our tool, and as the tool of each agent that has one for it."""

    tool: str
    args: dict[str, Any]
    theirs: Mapping[str, tuple[str, dict[str, Any]]]

    @property
    def is_command(self) -> bool:
        """Whether it runs programs."""
        return self.tool == "run_command"

    @property
    def is_run_by_mcp(self) -> bool:
        """Whether it is made for real over MCP; programs and hosts are judged there, and not run."""
        return self.tool not in ("run_command", "http_fetch")


def action(chance: random.Random, work: Path) -> Action:
    """Choose an action."""
    path = chance.choice([*FILES, *FILES, *NEW, *OUTSIDE])
    whole = path if path.startswith("/") or chance.random() < 0.5 else str(work / path)
    kind = chance.choice(
        ["read", "write", "edit", "find", "grep", "list", "patch", "fetch", "run", "run", "run", "run"]
    )
    if kind == "run":
        line = chance.choice(LINES)
        return Action("run_command", {"command": line}, {agent: (SHELL[agent], {"command": line}) for agent in ALL})
    if kind == "fetch":
        url = chance.choice(HOSTS)
        theirs = {
            "claude-code": ("WebFetch", {"url": url, "prompt": "x"}),
            "gemini-cli": ("web_fetch", {"prompt": f"read {url}"}),
        }
        return Action("http_fetch", {"url": url}, theirs)
    if kind == "read":
        return Action("read_file", {"path": path}, _both("Read", "read_file", {"file_path": whole}))
    if kind == "write":
        there = (work / path).exists()
        how = {"mode": "overwrite", "expected_sha256": "*"} if there else {"mode": "create"}
        theirs = _both("Write", "write_file", {"file_path": whole, "content": "new\n"})
        return Action("write_file", {"path": path, "content": "new\n", **how}, theirs)
    if kind == "edit":
        given = {"file_path": whole, "old_string": "one", "new_string": "two"}
        edits = [{"old": "one", "new": "two"}]
        return Action("edit_file", {"path": path, "edits": edits}, _both("Edit", "replace", given))
    if kind == "patch":
        text = patch(f"*** Update File: {path}", "@@", "-one", "+two")
        return Action("apply_patch", {"patch": text}, {"codex": ("apply_patch", {"command": text})})
    folder = chance.choice([".", "src", "secrets", "..", "/etc", "nowhere", ".claude"])
    if kind == "list":
        return Action("list_dir", {"path": folder}, {"gemini-cli": ("list_directory", {"dir_path": folder})})
    theirs = {
        "claude-code": ("Glob" if kind == "find" else "Grep", {"pattern": "*.py", "path": folder}),
        "gemini-cli": ("glob" if kind == "find" else "grep_search", {"pattern": "*.py", "dir_path": folder}),
    }
    return Action("find_files" if kind == "find" else "grep", {"pattern": "*.py", "path": folder}, theirs)


def _both(claude: str, gemini: str, given: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    return {"claude-code": (claude, given), "gemini-cli": (gemini, given)}


def world(chance: random.Random) -> str:
    """Choose settings."""
    lines = ['tools.enable = ["fs", "exec", "http"]', "approvals.wait_seconds = 0", "limits.max_prompts = 0"]
    lines += ["workspace.allow_absolute = true", "limits.max_repeats = 0", "limits.breaker_failures = 0"]
    lines += ["approvals.max_pending = 100000"]
    lines.append(f'exec.ask = "{chance.choice(["border", "unless-allowed"])}"')
    lines.append(f'exec.workspace = "{chance.choice(["review", "direct"])}"')
    lines.append(f"http.allowed_hosts = {chance.choice(['[]', chr(91) + chr(34) + 'example.org' + chr(34) + chr(93)])}")
    if chance.random() < 0.5:
        lines.append('exec.allow = ["npm test", "cat *", "git push *", "make *"]')
    if chance.random() < 0.3:
        lines.append('exec.deny = ["grep *", "pytest *"]')
    if chance.random() < 0.3:
        lines.append(f'tools.disable = ["{chance.choice(["grep", "edit_file", "exec", "write_file"])}"]')
    for _ in range(chance.randrange(5)):
        touch = chance.choice(["fs.read", "fs.write", "fs.*", "proc.exec", "net.connect"])
        target = {"proc.exec": ["ls *", "git *", "rg *"], "net.connect": ["example.org", "*"]}.get(
            touch, ["src/**", "secrets/**", "**/*.py", "a.txt", ".env", "**"]
        )
        rule = [f'effect = "{chance.choice(["allow", "ask", "deny"])}"', f'touch = "{touch}"']
        if chance.random() < 0.8:
            rule.append(f'target = "{chance.choice(target)}"')
        if chance.random() < 0.2:
            rule.append(f'tool = "{chance.choice(["read_file", "write_file", "run_command"])}"')
        lines += ["[[rules]]", *rule]
    return "\n".join(lines) + "\n"


def lay_out(work: Path) -> None:
    """Put the workspace as it was."""
    for name in NEW:
        if (work / name).exists():
            (work / name).unlink()
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        if not (work / name).exists() or (work / name).read_text() != text:
            (work / name).write_text(text)
    if not (work / "link-out").is_symlink():
        (work / "link-out").symlink_to("/etc/hostname")


def python_verdict(runtime: Runtime, asked: Action) -> str:
    """Judge through Python."""
    return runtime.explain(asked.tool, asked.args).decision.word


async def mcp_verdict(talk: Talk, door: Door, asked: Action) -> str:
    """Call over MCP, or have the server's own run judge what would start a program or reach a host."""
    if not asked.is_run_by_mcp:
        return door.runtime.explain(asked.tool, asked.args).decision.word
    told = (await talk.call(asked.tool, asked.args))["_meta"][OUTCOME_KEY]
    return str(told["policy"]["decision"])


async def hook_verdict(speaker: Speaker, asked: Action) -> str:
    """Ask as the agent does."""
    decided, why = await speaker.before(*asked.theirs[speaker.agent])
    if decided == "deny" and why.startswith("A person must approve this first"):
        return "ask"
    return "allow" if decided == "silent" else decided


@pytest.mark.parametrize("number", range(4))
async def test_no_way_in_is_laxer_than_another(work: Path, own_user: Path, scale: int, number: int) -> None:
    """Random settings, random actions."""
    for more in range(scale):
        chance = random.Random(number * 1000 + more)
        shutil.rmtree(work / ".git", ignore_errors=True)
        lay_out(work)
        text = world(chance)
        settings(own_user, text)
        sessions = Sessions()
        speakers = {agent: Speaker(agent, work, sessions, f"s{number}-{more}") for agent in ALL}
        async with Runtime.open(work) as runtime, Door(Opening(str(work))) as door:
            talk = Talk(door, modern=True)
            await talk.greet()
            for _ in range(40):
                asked = action(chance, work)
                verdict = python_verdict(runtime, asked)
                hooked = {agent: await hook_verdict(speakers[agent], asked) for agent in asked.theirs}
                over_mcp = await mcp_verdict(talk, door, asked)
                lay_out(work)
                said = f"{asked.tool} {asked.args}: python {verdict}, mcp {over_mcp}, hooks {hooked}\n{text}"
                assert over_mcp == verdict, said
                for found in hooked.values():
                    assert STRICT[found] >= STRICT[verdict], said
                    assert asked.is_command or found == verdict, said
            await talk.close()
        await sessions.close()


async def test_what_is_not_enabled_for_a_model_is_the_agents_own(work: Path, own_user: Path) -> None:
    """The one difference: enabling offers tools of ours to a model, and an agent brings its own along."""
    settings(own_user, "")
    sessions = Sessions()
    claude = Speaker("claude-code", work, sessions)
    async with Runtime.open(work) as runtime:
        asked = {"path": "new.txt", "content": "x"}
        assert runtime.explain("write_file", asked).deciding.rule == "enablement.not-enabled"
    assert (await claude.before("Write", {"file_path": "new.txt", "content": "x"}))[0] == "silent"
    settings(own_user, 'tools.disable = ["write_file"]\n')
    assert (await claude.before("Write", {"file_path": "new.txt", "content": "x"}))[0] == "deny"
    await sessions.close()
