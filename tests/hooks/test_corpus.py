"""Payloads as agents send them: each is answered in the agent's form, with the verdict of policy.

A row has the payload, our verdict, and where that is another than was proposed for it, why.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from handrail.hooks.agents import AGENTS
from handrail.hooks.payloads import Stage
from handrail.hooks.sessions import Sessions
from hooking import ALL, Speaker, decided, settings

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "corpus.jsonl").read_text().splitlines()
]
FILES = {
    "src/app.py": "DEBUG = True\n",
    ".env": "A=1\n",
    "packages/api/.env.local": "B=2\n",
    "README.md": "x\n",
    "src/main.rs": "let a = 1;\n",
    ".github/workflows/ci.yml": "on: push\njobs:\n",
    "docs/spec.pdf": "pdf",
}
FORMS = {  # what an agent takes before a tool, by what was decided
    "claude-code": {"allow": {"silent"}, "ask": {"ask", "deny"}, "deny": {"deny"}},
    "codex": {"allow": {"silent"}, "ask": {"deny"}, "deny": {"deny"}},
    "gemini-cli": {"allow": {"silent"}, "ask": {"deny"}, "deny": {"deny"}},
}


@pytest.mark.parametrize("agent", ALL)
async def test_every_payload_of_an_agent_is_answered(own_user: Path, agent: str) -> None:
    """As policy says, in the form that the agent takes, and never without a reason."""
    work = own_user / "ws"
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    settings(own_user, "approvals.wait_seconds = 0\n")
    sessions = Sessions()
    speaker = Speaker(agent, work, sessions)
    for row in ROWS:
        if row["agent"] != agent:
            continue
        text = json.dumps(row["payload"]).replace("$HOME", str(own_user)).replace("$WS", str(work))
        payload = json.loads(text)
        out = await speaker.say(text.encode(), payload["hook_event_name"])
        told, why = decided(out)
        stage = AGENTS[agent].stages[payload["hook_event_name"]]
        if stage is Stage.BEFORE:
            assert told in FORMS[agent][row["expect"]], (payload["tool_name"], payload["tool_input"], told, why)
            waits = why.startswith("A person must approve this first")
            assert told != "deny" or waits == (row["expect"] == "ask"), (payload["tool_input"], why)
        elif stage is Stage.DIALOG:
            assert told == ("deny" if row["expect"] == "deny" else "silent"), payload["tool_input"]
        else:
            assert told == "silent", payload
        assert told == "silent" or why.strip()
    await sessions.close()


def test_the_corpus_has_all_agents_and_says_where_it_differs() -> None:
    """Each verdict that is laxer than was proposed is a question, with its reason."""
    assert min(Counter(row["agent"] for row in ROWS).values()) >= 15
    strict = ("allow", "ask", "deny")
    for row in ROWS:
        assert ("differs" in row) == ("proposed" in row)
        if "proposed" in row:
            assert row["differs"].strip()
            laxer = strict.index(row["expect"]) < strict.index(row["proposed"])
            assert not laxer or row["expect"] == "ask"
