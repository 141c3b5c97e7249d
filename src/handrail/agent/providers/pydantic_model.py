"""Models through Pydantic AI: one request at a time, by `pydantic_ai.direct.model_request`, without its loop."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from handrail.agent.conversation import (
    CallResult,
    Conversation,
    Instructions,
    ModelCall,
    ModelTurn,
    PersonText,
    RejectedTurn,
    TokenUsage,
    ToolOffer,
    Turn,
)
from handrail.agent.providers import MalformedTurn, ModelFailure
from handrail.agent.providers.json_protocol import dump_arguments, write_turn

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model

_PASSING = frozenset({408, 409, 425, 429})  # HTTP statuses that another try may not meet
_WITHOUT = "`handrail agent --script FILE` runs without a model."


class _Requests:
    """One model, asked through Pydantic AI; it is imported and the key looked for when it is first asked."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._known: Model | None = None

    async def ask(self, messages: list[ModelMessage], tools: Sequence[ToolOffer]) -> ModelResponse:
        """Make one request; ModelFailure where it fails."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import AgentRunError, ModelAPIError, UnexpectedModelBehavior
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        offered = [
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.schema))
            for tool in tools
        ]
        parameters = ModelRequestParameters(function_tools=offered)
        try:
            return await model_request(self._found(), messages, model_request_parameters=parameters)
        except UnexpectedModelBehavior as error:
            raise MalformedTurn(f"The response could not be read: {error}", "", TokenUsage()) from error
        except ModelAPIError as error:
            raise _failure(error) from error
        except AgentRunError as error:
            raise ModelFailure(f"The model failed: {error}", retryable=False) from error
        except (OSError, TimeoutError) as error:
            raise ModelFailure(f"The model cannot be reached: {error}", retryable=True) from error

    def _found(self) -> Model:
        if self._known is None:
            self._known = find_model(self.model)
        return self._known


def find_model(name: str) -> Model:
    """Return a model by its name; ModelFailure says which key or package is missing."""
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        text = "Model providers need Pydantic AI: pip install 'handrail[agent]'."
        raise ModelFailure(f"{text} {_WITHOUT}", retryable=False, kind="setup") from None
    try:
        return infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        first = str(error).split(". ", maxsplit=1)[0].partition(" or pass it via")[0].rstrip(".")
        text = f"The model {name} cannot be used: {first}."
        if "environment variable" in str(error):
            text = f"No key for the model {name}: {first}."
        raise ModelFailure(f"{text} {_WITHOUT}", retryable=False, kind="setup") from None


class FunctionCallingModel:
    """Any model that Pydantic AI knows, with its own function calling."""

    name = "pydantic-ai"

    def __init__(self, model: str) -> None:
        self._requests = _Requests(model)
        self.model = model

    async def next(self, messages: Conversation, tools: Sequence[ToolOffer]) -> Turn:
        """Ask for the next step."""
        response = await self._requests.ask(list(to_messages(messages)), tools)
        return read_response(response)


class TextModel:
    """The same models as writers of text, for the JSON form."""

    def __init__(self, model: str) -> None:
        self._requests = _Requests(model)
        self.model = model

    async def write(self, messages: Conversation, rules: str) -> tuple[str, TokenUsage]:
        """Return the next text."""
        response = await self._requests.ask(list(to_messages(messages, rules)), ())
        return response.text or "", _usage(response)


def read_response(response: ModelResponse) -> Turn:
    """Read calls or the answer from a response; MalformedTurn where it has neither."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    calls = tuple(
        ModelCall(part.tool_name, _arguments(part.args), part.tool_call_id)
        for part in response.parts
        if isinstance(part, ToolCallPart)
    )
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    usage = _usage(response)
    if not calls and not text.strip():
        raise MalformedTurn("The response has neither calls nor an answer.", text, usage)
    raw = orjson.loads(ModelMessagesTypeAdapter.dump_json([response]))[0]
    return Turn(calls, "" if calls else text, usage, text if calls else "", raw)


def to_messages(messages: Conversation, rules: str | None = None) -> Iterator[ModelMessage]:
    """Write a conversation as Pydantic AI's messages; with `rules` in the JSON form, calls and results as text."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart

    instructions = next((item.text for item in messages if isinstance(item, Instructions)), "")
    if rules is not None:
        instructions = f"{instructions}\n\n{rules}"
    parts: list[Any] = []
    for item in messages:
        if isinstance(item, PersonText):
            parts.append(UserPromptPart(item.text))
        elif isinstance(item, CallResult) and rules is None:
            outcome: Any = "success" if item.ok else "failed"
            parts.append(ToolReturnPart(item.call.name, item.text, item.call.id, outcome=outcome))
        elif isinstance(item, CallResult):
            parts.append(UserPromptPart(f"Result of call {item.index} ({item.call.name}):\n{item.text}"))
        elif isinstance(item, (ModelTurn, RejectedTurn)):
            yield ModelRequest(parts or [UserPromptPart("Go on.")], instructions=instructions)
            parts = []
            if isinstance(item, RejectedTurn):
                yield ModelResponse([TextPart(item.said or "(nothing)")])
                parts = [UserPromptPart(f"{item.problem} Answer again.")]
            else:
                yield _said(item.turn, as_text=rules is not None)
    yield ModelRequest(parts or [UserPromptPart("Go on.")], instructions=instructions)


def _said(turn: Turn, *, as_text: bool) -> ModelResponse:
    """Write a turn as the response that it was; calls that were shortened since go as they are now."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

    if as_text:
        return ModelResponse([TextPart(turn.raw if isinstance(turn.raw, str) else write_turn(turn))])
    if isinstance(turn.raw, dict):
        response = ModelMessagesTypeAdapter.validate_python([turn.raw])[0]
        if isinstance(response, ModelResponse):
            return response
    parts: list[Any] = [TextPart(turn.text or turn.answer)] if turn.text or turn.answer else []
    parts += [ToolCallPart(call.name, call.arguments, call.id) for call in turn.calls]
    return ModelResponse(parts)


def _arguments(args: Any) -> str:
    if args is None:
        return "{}"
    return args if isinstance(args, str) else dump_arguments(args)


def _usage(response: ModelResponse) -> TokenUsage:
    return TokenUsage(response.usage.input_tokens or 0, response.usage.output_tokens or 0)


def _failure(error: Any) -> ModelFailure:
    """Say whether another try can help: not with a wrong key, an unknown model or a request that is refused."""
    status = getattr(error, "status_code", None)
    passing = status is None or status in _PASSING or status >= 500
    hint = getattr(error, "provider_retry_hint", None)
    if hint is not None:
        passing = hint
    text = f"The model failed: {error}"
    if status in (401, 403):
        named = [name for name in os.environ if name.endswith("_API_KEY")]
        text = (
            f"The model refused the key ({status}). Check {' or '.join(sorted(named)) or 'its environment variable'}."
        )
    return ModelFailure(
        text, retryable=passing, retry_after=getattr(error, "retry_after", None), kind="model" if passing else "setup"
    )
