"""What tests of codebase_search share: trees to search, and asking."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from handrail import Runtime
from tools._questions import FIRST

CODE: dict[str, str | bytes] = {
    "app/users.py": '"""Accounts."""\n\n\ndef createUserAccount(name):\n    """Add a person."""\n    return name\n',
    "app/mail.py": "import smtplib\n\n\nclass Mailer:\n    def send_message(self, to):\n        return to\n",
    "docs/guide.md": "# Guide\n\nHow to send a message to users.\n",
    "tests/test_mail.py": "def test_send_message():\n    assert Mailer().send_message('x')\n",
}
HIDDEN: dict[str, str | bytes] = {
    ".env": "ZEBRA_ENV=1\n",
    ".ssh/config": "zebra key\n",
    "build/out.py": "zebra = 'ignored'\n",
    ".gitignore": "build/\n",
    "private/plan.py": "def zebra_plan(): pass\n",
    "open/plan.py": "def zebra_open(): pass\n",
}
DENY = {"rules": [{"effect": "deny", "touch": "fs.read", "target": "private/**"}]}


RANKING = "hybrid" if find_spec("wordllama") else "lexical"  # what an index answers by here


def old(root: Path) -> Path:
    """Give every file a date long past, so that its identity is believed."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, ns=(10**18, 10**18))
    return root


async def search(runtime: Runtime, query: str, **args: Any) -> Any:
    """Ask, and have an answer."""
    outcome = await runtime.call("codebase_search", {"query": query, **args})
    assert outcome.ok, outcome.error
    return outcome


def files_of(outcome: Any) -> list[str]:
    """The files of an answer, in its order."""
    return list(dict.fromkeys(place["file"] for place in outcome.data["places"]))


def index_folder() -> Path:
    """Where indexes lie."""
    return Path(os.environ["XDG_CACHE_HOME"]) / "handrail/index"


async def answered(workspace: Path, questions: tuple[tuple[str, tuple[str, ...]], ...], vectors: str) -> list[str]:
    """The questions that find an answering file in the first places."""
    found = []
    async with Runtime.open(workspace, config={"search": {"vectors": vectors}}) as runtime:
        for question, files in questions:
            outcome = await search(runtime, question)
            first = {place["file"] for place in outcome.data["places"][:FIRST]}
            if any(name == file or (file.endswith("/") and name.startswith(file)) for file in files for name in first):
                found.append(question)
    return found
