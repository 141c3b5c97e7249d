"""Models without function calling: one JSON object a response, `{"tool_calls": [...], "final_answer": ""}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from handrail import strict_json
from handrail.agent.conversation import Conversation, ModelCall, TokenUsage, ToolOffer, Turn
from handrail.agent.providers import MalformedTurn

FORM = '{"tool_calls": [{"name": "…", "arguments": {…}}], "final_answer": ""}'
RULES = f"""Answer with one JSON object and nothing else, in this form:
{FORM}
Put calls into `tool_calls` to use tools; their results come back in the next message. Once the task is done, leave
`tool_calls` empty and put the answer into `final_answer`. One of the two must not be empty."""


class Texts(Protocol):
    """A model that reads texts and writes one."""

    model: str

    async def write(self, messages: Conversation, rules: str) -> tuple[str, TokenUsage]:
        """Return the next text; ModelFailure where there is none."""


class JsonModel:
    """A model that is told the form of calls in words."""

    name = "json"

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self.model = texts.model

    async def next(self, messages: Conversation, tools: Sequence[ToolOffer]) -> Turn:
        """Ask for the next step."""
        said, usage = await self._texts.write(messages, f"{RULES}\n\nTools:\n{describe_tools(tools)}")
        return parse_turn(said, usage)


def describe_tools(tools: Sequence[ToolOffer]) -> str:
    """List tools with the JSON Schema of their arguments, one a line."""
    rows = [{"name": tool.name, "description": tool.description, "arguments": tool.schema} for tool in tools]
    return "\n".join(orjson.dumps(row).decode() for row in rows)


def parse_turn(said: str, usage: TokenUsage) -> Turn:
    """Read a response; MalformedTurn says what is wrong with it."""
    try:
        value = strict_json.loads(_without_fence(said))
    except ValueError as error:
        raise _malformed(f"The response is not JSON ({error}).", said, usage) from None
    if not isinstance(value, dict):
        raise _malformed(f"The response is of type {type(value).__name__}, not an object.", said, usage)
    calls = value.get("tool_calls") or []
    answer = value.get("final_answer") or ""
    if not isinstance(calls, list) or not isinstance(answer, str):
        raise _malformed("`tool_calls` must be a list and `final_answer` a text.", said, usage)
    if not calls and not answer.strip():
        raise _malformed("`tool_calls` and `final_answer` are both empty.", said, usage)
    asked = tuple(_parse_call(item, number, said, usage) for number, item in enumerate(calls))
    return Turn(asked, "" if asked else answer, usage, answer if asked else "", raw=said)


def _parse_call(item: Any, number: int, said: str, usage: TokenUsage) -> ModelCall:
    name = item.get("name") if isinstance(item, dict) else None
    args = item.get("arguments", {}) if isinstance(item, dict) else None
    if not isinstance(name, str) or not isinstance(args, dict):
        problem = f"`tool_calls.{number}` needs `name`, a text, and `arguments`, an object."
        raise _malformed(problem, said, usage)
    return ModelCall(name, dump_arguments(args), str(number))


def dump_arguments(args: Any) -> str:
    """Write arguments as JSON; numbers beyond 64 bits stay, for the gate to refuse."""
    try:
        return orjson.dumps(args).decode()
    except TypeError:
        import json

        return json.dumps(args)


def write_turn(turn: Turn) -> str:
    """Write a turn in the form that `parse_turn` reads."""
    calls = [{"name": call.name, "arguments": orjson.Fragment(call.arguments)} for call in turn.calls]
    return orjson.dumps({"tool_calls": calls, "final_answer": turn.answer}).decode()


def _without_fence(said: str) -> str:
    """Take away a code fence around the whole text, which many models cannot help."""
    text = said.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3]
    return text


def _malformed(problem: str, said: str, usage: TokenUsage) -> MalformedTurn:
    return MalformedTurn(f"{problem} Expected {FORM}.", said, usage)
