"""The agents that can ask Handrail through their hooks, and how any input of theirs is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from handrail.hooks import client
from handrail.hooks.claude_code import CLAUDE_CODE
from handrail.hooks.codex import CODEX
from handrail.hooks.gemini_cli import GEMINI_CLI
from handrail.hooks.payloads import Agent, HookAnswer, Payload, Stage

AGENTS: Mapping[str, Agent] = MappingProxyType({agent.name: agent for agent in (CLAUDE_CODE, CODEX, GEMINI_CLI)})


def answer_bytes(payload: Payload, answer: HookAnswer) -> bytes:
    """Write an answer as the agent reads it; empty for silence."""
    told = AGENTS[payload.agent].render(payload, answer)
    return b"" if told is None else json.dumps(told).encode()


def deny_bytes(agent: str, event: str, reason: str) -> bytes:
    """Write a deny for a payload that could not be read: nothing that it may stand for goes on as if it were fine."""
    if AGENTS[agent].stages.get(event) in (Stage.AFTER, Stage.FAILED):
        word = "deny" if agent == "gemini-cli" else "block"
        return json.dumps({"decision": word, "reason": reason}).encode()
    return client.denial(agent, event, reason)
