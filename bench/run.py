"""Run every benchmark and write bench/RESULTS.md: ratios in one run, medians."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "call.py": "A governed read of 1 KB",
    "peers.py": "The same against peers",
    "writes.py": "Durable writes",
    "search.py": "grep and find_files against bare rg",
    "redaction.py": "Redaction",
    "startup.py": "Start-up of the command line",
    "sandbox.py": "Starting a program in the sandbox",
    "commands.py": "A command through every gate",
    "review.py": "Commands whose changes are reviewed",
    "rules.py": "A command in 60,000 files under rules",
    "shell.py": "Judging a shell line",
    "pydantic_step.py": "A step of an agent under Pydantic AI",
    "agent.py": "Turns of the agent, and an approval that wakes a task",
    "index.py": "codebase_search on 20,000 files",
    "mcp_front.py": "MCP against the reference filesystem server and the SDK's own",
    "network.py": "http_fetch against bare clients",
    "journal.py": "A journal of a million events",
    "hooks.py": "A hook of another agent",
}


def main() -> int:
    """Run all parts, one after the other; the exit code tells whether each ran."""
    failed = 0
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, Linux {platform.release()}"
    pages = [f"# Figures\n\n`make bench` on {machine}. Ratios within one run; absolute times are this machine's.\n"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for file, title in PARTS.items():
        print(f"{title} ({file}) …", flush=True)
        done = subprocess.run(
            [sys.executable, HERE / file], capture_output=True, text=True, env=environment, check=False
        )
        failed += done.returncode != 0
        text = done.stdout.strip() or done.stderr.strip()[-2000:]
        print(text, flush=True)
        body = text if text.startswith("| ") else f"```\n{text}\n```"
        notes = f"\n\nMissed: {done.stderr.strip().splitlines()[-1]}" if done.returncode and done.stderr.strip() else ""
        pages.append(f"## {title}\n\n{body}{notes}\n")
    (HERE / "RESULTS.md").write_text("\n".join(pages))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
