"""Tools and calls as function-calling APIs write them: OpenAI (chat and responses) and Anthropic. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from handrail.arguments import Unreadable, read_text, short
from handrail.errors import Misuse
from handrail.words import Json, Outcome


@dataclass(frozen=True, slots=True)
class Asked:
    """One call as a model's message asked for it, and how to answer in the same form."""

    name: str
    args: Mapping[str, Json]
    id: str
    answer: Callable[[Outcome], dict[str, Json]]


def openai(spec: Mapping[str, Json]) -> dict[str, Json]:
    """Describe a tool for OpenAI's chat completions and whoever speaks like them."""
    described = {"name": _name(spec), "description": spec["description"], "parameters": spec["args_schema"]}
    return {"type": "function", "function": described}


def anthropic(spec: Mapping[str, Json]) -> dict[str, Json]:
    """Describe a tool for Anthropic's messages."""
    return {"name": _name(spec), "description": spec["description"], "input_schema": spec["args_schema"]}


def _name(spec: Mapping[str, Json]) -> str:
    """The name as such APIs take it: a dialect's slashes and dots are encoded."""
    name: str = spec.get("function_name", spec["name"])
    return name


FORMATS: dict[str, Callable[[Mapping[str, Json]], dict[str, Json]]] = {"openai": openai, "anthropic": anthropic}


def described(specs: Iterable[Mapping[str, Json]], form: str) -> list[dict[str, Json]]:
    """Describe tools in the form of an API."""
    if form not in FORMATS:
        raise Misuse(f"no format {form!r}; there are: {', '.join(FORMATS)}")
    return [FORMATS[form](spec) for spec in specs]


def is_tool_call(message: Any) -> bool:
    """Tell whether a message is a tool call of OpenAI or Anthropic."""
    if not isinstance(message, Mapping):
        return True
    return message.get("type") in ("tool_use", "function_call") or isinstance(message.get("function"), Mapping)


def read(message: Any) -> Asked:
    """Understand one tool call of a model's message, given as a mapping or as the API's own object."""
    call = _plain(message)
    kind = call.get("type")
    if kind == "tool_use":
        return Asked(
            _text(call, "name"), _args(call.get("input")), _text(call, "id"), _anthropic_answer(_text(call, "id"))
        )
    if kind == "function_call":
        name = _text(call, "call_id")
        return Asked(_text(call, "name"), _args(call.get("arguments")), name, _responses_answer(name))
    if isinstance(call.get("function"), Mapping):
        function, use = call["function"], _text(call, "id")
        return Asked(_text(function, "name"), _args(function.get("arguments")), use, _chat_answer(use))
    raise Misuse(f"this is no tool call of OpenAI or Anthropic: {sorted(call)}")


def _plain(message: Any) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    if dump is None:
        raise Misuse(f"{type(message).__name__} is no tool call: give a mapping or the API's own object")
    found: Mapping[str, Any] = dump()
    return found


def _text(call: Mapping[str, Any], name: str) -> str:
    value = call.get(name)
    if not isinstance(value, str) or not value:
        raise Misuse(f"the tool call has no {name}")
    return value


def _args(given: Any) -> Mapping[str, Json]:
    if isinstance(given, Mapping):
        return given
    if given is None or isinstance(given, str):
        return read_text(given or "")
    return Unreadable(short(given), f"it is of type {type(given).__name__}")


def _chat_answer(call_id: str) -> Callable[[Outcome], dict[str, Json]]:
    return lambda outcome: {"role": "tool", "tool_call_id": call_id, "content": outcome.content}


def _responses_answer(call_id: str) -> Callable[[Outcome], dict[str, Json]]:
    return lambda outcome: {"type": "function_call_output", "call_id": call_id, "output": outcome.content}


def _anthropic_answer(call_id: str) -> Callable[[Outcome], dict[str, Json]]:
    return lambda outcome: {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": outcome.content,
        "is_error": not outcome.ok,
    }
