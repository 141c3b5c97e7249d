"""Model providers: one protocol, `next(messages, tools) -> Turn`, and the three ways to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from handrail.agent.conversation import Conversation, ToolOffer, Turn
from handrail.errors import Fault

if TYPE_CHECKING:
    from handrail.agent.conversation import TokenUsage

PROVIDERS = ("pydantic-ai", "json", "scripted")


class ModelFailure(Fault):
    """A model that did not answer; told to people, and tried again where that can help."""

    def __init__(self, message: str, *, retryable: bool, retry_after: float | None = None, kind: str = "model") -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after  # seconds that the provider asks to wait
        self.kind = kind  # "model", or "setup" where a person has to set something


class MalformedTurn(Fault):
    """A response that is neither calls nor an answer: the model is told what is wrong with it."""

    def __init__(self, problem: str, said: str, usage: TokenUsage) -> None:
        super().__init__(problem)
        self.problem = problem
        self.said = said
        self.usage = usage


class Provider(Protocol):
    """A model, however it is reached."""

    name: str  # of the provider
    model: str  # empty where there is none

    async def next(self, messages: Conversation, tools: Sequence[ToolOffer]) -> Turn:
        """Ask for the next step; ModelFailure or MalformedTurn where there is none."""


def build_provider(options: Mapping[str, Any]) -> Provider:
    """Build the provider that options name: `provider`, `model`, `script`; ModelFailure says what is missing."""
    name = options.get("provider") or ("scripted" if options.get("script") is not None else "pydantic-ai")
    if name == "scripted":
        from handrail.agent.providers.scripted import ScriptedModel

        return ScriptedModel(options.get("script"))
    if name not in PROVIDERS:
        raise ModelFailure(
            f"There is no model provider {name!r}; there are {', '.join(PROVIDERS)}.", retryable=False, kind="setup"
        )
    model = options.get("model")
    if not model:
        raise ModelFailure(
            "No model is set. Name one with --model or `model` in [agent], such as `openai:gpt-5`, and put its key "
            "into the environment (OPENAI_API_KEY). `handrail agent --script FILE` runs without a model.",
            retryable=False,
            kind="setup",
        )
    if name == "json":
        from handrail.agent.providers.json_protocol import JsonModel
        from handrail.agent.providers.pydantic_model import TextModel

        return JsonModel(TextModel(str(model)))
    from handrail.agent.providers.pydantic_model import FunctionCallingModel

    return FunctionCallingModel(str(model))
