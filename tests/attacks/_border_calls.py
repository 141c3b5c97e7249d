"""Calls that leave the machine, cannot be undone, or run elsewhere later: each must be asked for or denied.

A row is a call (a line stands for `run_command`), what becomes of it, and words of the reason that a person or the
caller is given.
"""

from __future__ import annotations

from typing import Any

Call = tuple[str, dict[str, Any]]
Row = tuple[str | Call, str, str]
ASKED, DENIED = "asked", "denied"


def write(path: str, content: str = "x\n") -> Call:
    """Write a new file with a tool."""
    return "write_file", {"path": path, "content": content}


def edit(path: str) -> Call:
    """Change one word of a file with a tool."""
    return "edit_file", {"path": path, "edits": [{"old": "old", "new": "new"}]}


_GET = "python3 -c 'import urllib.request; urllib.request.urlopen(\"{}\")'"
_SEND = 'python3 -c \'import urllib.request; urllib.request.urlopen("{}", data=open("a.txt", "rb"))\''

LEAVES: tuple[Row, ...] = (
    ("git push", DENIED, "run `git push` yourself"),
    ("cd d && git push origin HEAD", DENIED, "run `git push` yourself"),
    ("bash -c 'git push --force'", DENIED, "run `git push` yourself"),
    (_GET.format("http://good.test/"), ASKED, "good.test"),
    (_SEND.format("http://good.test/upload"), ASKED, "good.test"),
    (_GET.format("https://good.test/"), ASKED, "good.test:443"),
    ("curl -sS http://good.test/", ASKED, "good.test"),
    ("curl -sS -T a.txt http://good.test/a", ASKED, "good.test"),
    ("cat a.txt | curl -sS --data-binary @- https://good.test/", ASKED, "good.test:443"),
    ("wget -q -t 1 -O - http://good.test/", ASKED, "good.test"),
    ("git ls-remote https://good.test/x.git", ASKED, "good.test:443"),
    ("git clone -q https://good.test/x.git fetched", ASKED, "good.test:443"),
    (_GET.format("http://inner.test/"), ASKED, "inner.test"),
    (_GET.format("http://10.0.0.7/"), DENIED, "10.0.0.7"),
    (_GET.format("http://169.254.169.254/latest/meta-data/"), DENIED, "169.254.169.254"),
    (_GET.format("http://metadata.google.internal/"), DENIED, "metadata.google.internal"),
    (_GET.format("http://intranet/"), DENIED, "intranet"),
    (("http_fetch", {"url": "http://good.test/"}), DENIED, "good.test"),
    (("http_fetch", {"url": "http://169.254.169.254/"}), DENIED, "169.254.169.254"),
    (("http_download", {"url": "http://good.test/", "path": "x"}), DENIED, "good.test"),
)
LOST: tuple[Row, ...] = (
    ("rm -rf many", ASKED, "deletes more than 20 files"),
    ("mv many elsewhere", ASKED, "deletes more than 20 files"),
    ("find many -type f -delete", ASKED, "deletes more than 20 files"),
    ("git clean -qfdx", ASKED, "deletes more than 20 files"),
    ("git rm -rqf many2", ASKED, "deletes more than 20 files"),
    ("rm -rf .git/objects/??", ASKED, "deletes more than 20 files"),
    ("python3 -c 'import shutil; shutil.rmtree(\"many\")'", ASKED, "deletes more than 20 files"),
    ("rm large.bin", ASKED, "too large to be put back"),
    ("truncate -s 0 large.bin", ASKED, "too large to be put back"),
    ("echo x >> large.bin", ASKED, "too large to be put back"),
    ("mv large.bin moved.bin", ASKED, "too large to be put back"),
    (("run_command", {"command": "rm a.txt", "background": True}), ASKED, "neither reviewed nor undone"),
    (("run_command", {"command": "sleep 5; curl x", "background": True}), ASKED, "neither reviewed nor undone"),
    (("delete_path", {"path": "a.txt", "confirm": True}), ASKED, "deleting is for people to confirm"),
    (("delete_path", {"path": "d", "recursive": True, "confirm": True}), ASKED, "deleting is for people to confirm"),
    (("move_path", {"source": "many", "target": "other"}), ASKED, "more than 20 files"),
    (("write_file", {"path": "b.txt", "content": "", "mode": "overwrite", "expected_sha256": "*"}), ASKED, "replaced"),
    ("rm -rf /", DENIED, "would remove all of"),
    ("dd if=/dev/zero of=/dev/sda", DENIED, "dev"),
    (":(){ :|:& };:", DENIED, "itself"),
)
_HOOK = "printf '#!/bin/sh\\n' > {0}; chmod +x {0}"
LATER: tuple[Row, ...] = (
    (write(".github/workflows/ci.yml"), ASKED, "a forge runs what it names"),
    ("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", ASKED, "a forge runs what it names"),
    ("echo x > .gitlab-ci.yml", ASKED, "a forge runs what it names"),
    ("echo x > Jenkinsfile", ASKED, "a forge runs what it names"),
    (write(".vscode/tasks.json", "{}"), ASKED, "editors run what it names"),
    ("mkdir .vscode; echo {} > .vscode/settings.json", ASKED, "editors run what it names"),
    ("mkdir .husky; " + _HOOK.format(".husky/pre-commit"), ASKED, "git runs what it names"),
    ("mkdir .githooks; " + _HOOK.format(".githooks/pre-push"), ASKED, "git runs what it names"),
    ("echo x > .pre-commit-config.yaml", ASKED, "git runs what it names"),
    (write(".git/hooks/pre-commit"), DENIED, "decides which programs git runs"),
    (write(".git/config"), DENIED, "decides which programs git runs"),
    ("git init -q sub; " + _HOOK.format("sub/.git/hooks/pre-commit"), DENIED, "which programs git runs"),
    ("git init -q sub", ASKED, "git repositories"),
    (write("new/HEAD", "ref: refs/heads/main\n"), ASKED, "would make git take its folder for a repository"),
    ("mkdir bare; echo ref: refs/heads/main > bare/HEAD", ASKED, "would make git take its folder for a repository"),
    ("echo '*.c filter=x' > .gitattributes", ASKED, "filters and drivers"),
    (write(".envrc"), DENIED, "is protected"),
    ("echo x > sub.code-workspace", ASKED, "editors run what it names"),
    ("echo x > .bashrc", ASKED, "shells run it at start"),
    ("mkdir -p .config/systemd/user; echo x > .config/systemd/user/x.service", ASKED, "at login"),
    ("echo x > .npmrc", ASKED, "a package manager"),
    ("mkdir .cargo; echo x > .cargo/config.toml", ASKED, "a package manager"),
    ("echo x > .gdbinit", ASKED, "debugger"),
    (write("AGENTS.md"), ASKED, "agents read it"),
    ("echo x > CLAUDE.md", ASKED, "agents read it"),
    ("echo {} > .mcp.json", ASKED, "agents start the programs"),
    ("mkdir -p .claude; echo {} > .claude/settings.json", ASKED, "agents read it"),
    ("mkdir -p .agents/skills/x; echo x > .agents/skills/x/SKILL.md", ASKED, "agents read it"),
    (_HOOK.format("bin/ls"), ASKED, "your shell looks for commands"),
    ("ln -s ../a.txt bin/ls", ASKED, "your shell looks for commands"),
    (
        ("edit_file", {"path": "bin/tool", "edits": [{"old": "old", "new": "new"}]}),
        ASKED,
        "your shell looks for commands",
    ),
    ("ln -s /root/.ssh keys", ASKED, "lead out of the roots"),
    ("ln -s ../outside out", ASKED, "lead out of the roots"),
    (write("handrail.toml", "[tools]\n"), DENIED, "decides what tools may do"),
    ("echo '[tools]' > sub.toml; mv sub.toml handrail.toml", DENIED, "decides what tools may do"),
    ("git update-ref refs/remotes/origin/main HEAD", ASKED, "own records"),
    ("mkdir -p .git/rebase-merge; echo 'exec x' > .git/rebase-merge/git-rebase-todo", ASKED, "own records"),
)
ALL = (*LEAVES, *LOST, *LATER)
