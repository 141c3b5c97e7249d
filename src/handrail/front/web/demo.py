"""`make console`: a demo workspace, a scripted agent that waits for an answer, the service, in a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PORT = 8421
FILES = {
    "shop/prices.py": (
        '"""Prices of the shop, in cents."""\n\n\ndef total(items):\n    """Add up what is in the basket."""\n'
        "    return sum(item.price for item in items)\n\n\ndef discount(price, percent):\n"
        '    """Take a discount off a price."""\n    return price - price * percent / 10\n'
    ),
    "shop/basket.py": (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Item:\n    name: str\n    price: int\n"
    ),
    "tests/test_prices.py": (
        "from shop.prices import discount\n\n\ndef test_a_tenth_off():\n    assert discount(1000, 10) == 900\n"
    ),
    "README.md": "# Shop\n\nA small shop.\n\nRun the tests with `python -m unittest`.\n",
    ".env": "PAYMENT_KEY=not-for-agents\n",
}
SETTINGS = """
[tools]
enable = ["fs", "exec", "talk", "delete_path"]
[approvals]
max_scope = "always"
park = true
[serve.workspaces]
shop = {{ path = "{work}" }}
"""
FIXED = FILES["shop/prices.py"].replace("percent / 10", "percent // 100").replace("in cents.", "in whole cents.")
# What the scripted agent does: reads, is refused, mends a file without a question, then asks twice.
STEPS = [
    {"tool_calls": [{"name": "list_dir", "arguments": {"path": "."}}]},
    {
        "tool_calls": [
            {"name": "read_file", "arguments": {"path": "shop/prices.py"}},
            {"name": "read_file", "arguments": {"path": "tests/test_prices.py"}},
            {"name": "read_file", "arguments": {"path": "README.md"}},
        ]
    },
    {"tool_calls": [{"name": "read_file", "arguments": {"path": ".env"}}]},
    {
        "tool_calls": [
            {
                "name": "display",
                "arguments": {
                    "content": "The discount divides by 10 and must divide by 100.",
                    "title": "Found it",
                    "level": "info",
                },
            }
        ]
    },
    {"tool_calls": [{"name": "grep", "arguments": {"pattern": "percent", "path": "."}}]},
    {
        "tool_calls": [
            {
                "name": "write_file",
                "arguments": {"path": "shop/prices.py", "content": FIXED, "mode": "overwrite"},
            }
        ]
    },
    {"tool_calls": [{"name": "run_command", "arguments": {"command": "python3 -m unittest discover -s tests"}}]},
    {"final_answer": "The discount divided by 10 in place of 100. It is mended, and the test passes."},
]


def prepare(home: Path) -> dict[str, str]:
    """Make the demo's home and workspace; gives the environment of its user."""
    work = home / "shop-project"
    for name, text in FILES.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (home / "config" / "handrail").mkdir(parents=True)
    (home / "config" / "handrail" / "config.toml").write_text(SETTINGS.format(work=work))
    (home / "steps.json").write_text(json.dumps(STEPS))
    folders = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "state", "cache")}
    return {**os.environ, **folders}


def fill(home: Path, env: dict[str, str]) -> None:
    """Have something to look at: a run with changes, two requests that wait, and a task that will ask."""
    work = home / "shop-project"

    def run(*words: str) -> None:
        argv, quiet = [sys.executable, "-m", "handrail", *words], subprocess.DEVNULL
        subprocess.run(argv, env=env, cwd=work, stdout=quiet, stderr=quiet, check=False)

    edit = {"path": "README.md", "edits": [{"old": "small", "new": "small but honest"}]}
    run("call", "edit_file", "--args", json.dumps(edit))
    run("call", "delete_path", "path=shop/basket.py", "confirm=true")
    run("call", "run_command", "command=pip install requests && python3 -m unittest discover -s tests")
    run("send", "Find out why the test of the discount fails, mend it, and say what was wrong.",
        "--provider", "scripted", "--script", str(home / "steps.json"))  # fmt: skip


def main() -> int:
    """Fill a demo, start a worker for it, and serve it until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="handrail-console-") as folder:
        home = Path(folder)
        env = prepare(home)
        fill(home, env)
        port = os.environ.get("HANDRAIL_CONSOLE_PORT", str(PORT))
        worker = subprocess.Popen(
            [sys.executable, "-m", "handrail", "worker"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        argv = [sys.executable, "-m", "handrail", "serve", "--port", port]
        with subprocess.Popen(argv, env=env) as serving:
            try:
                return serving.wait()
            except KeyboardInterrupt:
                return 130
            finally:
                for process in (serving, worker):
                    process.terminate()
                    process.wait(10)


if __name__ == "__main__":
    sys.exit(main())
