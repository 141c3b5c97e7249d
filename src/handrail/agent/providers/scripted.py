"""A model that follows a script: for tests, demonstrations and failures on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handrail import strict_json
from handrail.agent.conversation import Conversation, Instructions, ModelCall, TokenUsage, ToolOffer, Turn
from handrail.agent.providers import MalformedTurn, ModelFailure
from handrail.agent.providers.json_protocol import dump_arguments, parse_turn
from handrail.errors import Misuse

KINDS = ("tool_calls", "final_answer", "raw", "error", "delay")
_BESIDE = frozenset({"usage", "repeat", "times", "retry_after", "retryable", "text"})
ScriptStep = Mapping[str, Any]


class ScriptedModel:
    """Gives the steps of a script in order, also after a restart: it goes by how often it has answered."""

    name = "scripted"
    model = ""

    def __init__(self, steps: Any) -> None:
        self._answers = list(_answers(check_script(steps)))
        self._faults: dict[int, int] = {}  # by answer: how many faults before it have happened

    async def next(self, messages: Conversation, tools: Sequence[ToolOffer]) -> Turn:  # noqa: ARG002
        """Give the next step of the script."""
        place = _responses(messages)
        if place >= len(self._answers):
            raise ModelFailure("The script ended without a final answer.", retryable=False)
        faults, step = self._answers[place]
        for fault in faults[self._faults.get(place, 0) :]:
            self._faults[place] = self._faults.get(place, 0) + 1
            await _happen(fault)
        if step is None:
            raise ModelFailure("The script ended without a final answer.", retryable=False)
        await asyncio.sleep(float(step.get("delay", 0)))
        usage = TokenUsage.from_json(step.get("usage"))
        if "raw" in step:
            return parse_turn(step["raw"], usage)
        calls = tuple(
            ModelCall(item["name"], dump_arguments(item.get("arguments", {})), f"{place}-{number}")
            for number, item in enumerate(step.get("tool_calls", ()))
        )
        answer = str(step.get("final_answer", ""))
        if not calls and not answer.strip():
            raise MalformedTurn("The response has neither calls nor an answer.", "", usage)
        return Turn(calls, "" if calls else answer, usage, str(step.get("text", "")))


def read_script(data: str | bytes) -> list[Any]:
    """Read the steps of a script from a file's text; Misuse says what is wrong."""
    try:
        steps = strict_json.loads(data)
    except ValueError as error:
        raise Misuse(f"the script is not JSON: {error}") from None
    return check_script(steps)


def check_script(steps: Any) -> list[Any]:
    """Return the steps of a script; Misuse names the first step that is none."""
    if not isinstance(steps, list):
        raise Misuse('a script is a JSON list of steps, such as [{"final_answer": "done"}]')
    for number, step in enumerate(steps, 1):
        kinds = [kind for kind in KINDS if isinstance(step, Mapping) and kind in step]
        if not kinds or set(step) - set(KINDS) - _BESIDE:
            raise Misuse(f"step {number} of the script needs one of {', '.join(KINDS)}, and nothing unknown")
        calls = step.get("tool_calls", [])
        named = isinstance(calls, list) and all(isinstance(item, Mapping) and "name" in item for item in calls)
        if not named:
            raise Misuse(f"step {number} of the script: each of `tool_calls` needs a `name`")
    return steps


def _answers(steps: list[Any]) -> Iterator[tuple[list[ScriptStep], ScriptStep | None]]:
    """Give each answer of the script with the delays and errors before it; what is left at the end has no answer."""
    faults: list[ScriptStep] = []
    for step in steps:
        answers = any(kind in step for kind in ("tool_calls", "final_answer", "raw"))
        for _ in range(int(step.get("repeat", 1))):
            if answers:
                yield faults, step
                faults = []
            else:
                faults += [step] * int(step.get("times", 1))
    if faults:
        yield faults, None


async def _happen(fault: ScriptStep) -> None:
    await asyncio.sleep(float(fault.get("delay", 0)))
    if "error" in fault:
        raise ModelFailure(
            str(fault["error"]), retryable=fault.get("retryable", True), retry_after=fault.get("retry_after")
        )


def _responses(messages: Conversation) -> int:
    first = messages[0]
    return first.responses if isinstance(first, Instructions) else 0
