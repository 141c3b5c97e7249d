"""From the bytes of a payload to the bytes of an answer; never raises, and never allows what it cannot read."""

from __future__ import annotations

import logging
from dataclasses import replace

from handrail.hooks import client
from handrail.hooks.agents import AGENTS, answer_bytes, deny_bytes
from handrail.hooks.ancestry import is_interactive
from handrail.hooks.gemini_cli import INTERACTIVE
from handrail.hooks.payloads import BrokenPayload, Payload, read_payload
from handrail.hooks.sessions import Sessions

log = logging.getLogger("handrail.hooks")


def read(agent: str, data: bytes, event: str, pid: int) -> Payload:
    """Read a payload, and learn whether the agent's person sees its questions; BrokenPayload for what cannot be read.

    `pid` is the process of the hook.
    """
    payload = read_payload(AGENTS[agent], data, event)
    if agent == "gemini-cli" and is_interactive(pid, AGENTS[agent].programs[0]):
        return replace(payload, mode=INTERACTIVE)
    return payload


async def answer(sessions: Sessions, agent: str, data: bytes, event: str, seconds: float, pid: int) -> bytes:
    """Answer one payload."""
    try:
        payload = read(agent, data, event, pid)
    except BrokenPayload as broken:
        return deny_bytes(agent, broken.event, f"{client.UNREADABLE} ({broken})")
    try:
        return answer_bytes(payload, await sessions.answer(AGENTS[agent], payload, seconds))
    except Exception:
        log.exception("%s %s could not be answered", agent, payload.event)
        return deny_bytes(agent, payload.event, client.UNREACHED)
