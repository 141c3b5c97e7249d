"""Model providers: one protocol over function calling, JSON in text, and scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from agent._harness import Agent, call, calls
from handrail.agent.conversation import (
    CallResult,
    Instructions,
    ModelCall,
    ModelTurn,
    PersonText,
    RejectedTurn,
    Said,
    TokenUsage,
    ToolOffer,
    Turn,
)
from handrail.agent.providers import MalformedTurn, ModelFailure, build_provider, pydantic_model
from handrail.agent.providers.json_protocol import JsonModel, parse_turn, write_turn
from handrail.agent.providers.pydantic_model import FunctionCallingModel, TextModel, to_messages
from handrail.agent.providers.scripted import ScriptedModel, read_script
from handrail.agent.tasks import TaskState
from handrail.errors import Misuse

Answers = Callable[[list[ModelMessage], AgentInfo], ModelResponse]
OFFER = ToolOffer("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
FIRST: list[Said] = [Instructions("Be brief."), PersonText("read a")]


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """Have any name of a model mean a function of the test."""

    def use(answers: Answers) -> None:
        monkeypatch.setattr(pydantic_model, "find_model", lambda _: FunctionModel(answers))

    return use


async def test_function_calling_goes_there_and_back(models: Callable[[Answers], None]) -> None:
    """Tools are offered with their schemas; calls come back with their ids, results go in under them."""
    seen: list[list[ModelMessage]] = []

    def answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        assert [tool.name for tool in info.function_tools] == ["read_file"]
        if len(seen) == 1:
            parts: list[Any] = [TextPart("I look."), ToolCallPart("read_file", {"path": "a"}, "c1")]
            return ModelResponse(parts, usage=RequestUsage(input_tokens=5, output_tokens=2))
        return ModelResponse([TextPart("it says hi")])

    models(answers)
    model = FunctionCallingModel("any")
    turn = await model.next(FIRST, [OFFER])
    assert turn.calls == (ModelCall("read_file", '{"path":"a"}', "c1"),)
    assert (turn.text, turn.usage) == ("I look.", TokenUsage(5, 2))
    result = CallResult(1, 0, turn.calls[0], "hi")
    last = await model.next([*FIRST, ModelTurn(1, turn), result], [OFFER])
    assert (last.calls, last.answer) == ((), "it says hi")
    request, response, results = seen[-1]
    assert isinstance(request, ModelRequest)
    assert request.instructions == "Be brief."
    assert isinstance(request.parts[0], UserPromptPart)
    assert isinstance(response, ModelResponse)
    assert [type(part) for part in response.parts] == [TextPart, ToolCallPart]
    (returned,) = results.parts
    assert isinstance(returned, ToolReturnPart)
    assert (returned.tool_call_id, returned.content, returned.outcome) == ("c1", "hi", "success")


async def test_what_a_provider_needs_back_comes_back_as_it_was(models: Callable[[Answers], None]) -> None:
    """Thinking and its signature survive the turn log; a shortened turn goes back as plain parts."""
    thinking = ThinkingPart("hm", signature="sig", provider_name="x")
    models(lambda *_: ModelResponse([thinking, ToolCallPart("read_file", {"path": "a"}, "c1")]))
    turn = await FunctionCallingModel("any").next(FIRST, [OFFER])
    kept = Turn.from_json(orjson.loads(orjson.dumps(turn.to_json())))
    assert kept == turn
    messages = list(to_messages([*FIRST, ModelTurn(1, kept), CallResult(1, 0, kept.calls[0], "x", ok=False)]))
    response = messages[1]
    assert isinstance(response, ModelResponse)
    assert response.parts[0] == thinking
    (returned,) = messages[2].parts
    assert isinstance(returned, ToolReturnPart)
    assert returned.outcome == "failed"


async def test_arguments_that_are_no_object_stay_as_the_model_wrote_them(models: Callable[[Answers], None]) -> None:
    """The gate refuses them; nothing is guessed."""
    models(lambda *_: ModelResponse([ToolCallPart("read_file", '{"path"', "c1"), ToolCallPart("now", None, "c2")]))
    turn = await FunctionCallingModel("any").next(FIRST, [OFFER])
    assert [item.arguments for item in turn.calls] == ['{"path"', "{}"]


def raising(error: Exception) -> Answers:
    """A model that fails."""

    def answers(*_: Any) -> ModelResponse:
        raise error

    return answers


FAILURES = {
    "too many requests": (ModelHTTPError(429, "m", headers={"retry-after": "7"}), True, 7.0),
    "overloaded": (ModelHTTPError(529, "m"), True, None),
    "a wrong key": (ModelHTTPError(401, "m"), False, None),
    "an unknown model": (ModelHTTPError(404, "m"), False, None),
    "a refused request": (ModelHTTPError(400, "m"), False, None),
    "no connection": (ModelAPIError("m", "connection lost"), True, None),
    "the network": (ConnectionResetError("reset"), True, None),
}


@pytest.mark.parametrize(("error", "retryable", "after"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_failing_model_says_whether_another_try_can_help(
    models: Callable[[Answers], None], error: Exception, retryable: bool, after: float | None
) -> None:
    """And how long it asks to wait."""
    models(raising(error))
    with pytest.raises(ModelFailure) as failure:
        await FunctionCallingModel("any").next(FIRST, [])
    assert (failure.value.retryable, failure.value.retry_after) == (retryable, after)


async def test_a_response_without_anything_is_malformed(models: Callable[[Answers], None]) -> None:
    """So is one that Pydantic AI cannot read."""
    models(lambda *_: ModelResponse([TextPart(" ")]))
    with pytest.raises(MalformedTurn):
        await FunctionCallingModel("any").next(FIRST, [])
    models(raising(UnexpectedModelBehavior("odd")))
    with pytest.raises(MalformedTurn):
        await FunctionCallingModel("any").next(FIRST, [])


async def test_the_json_form_is_told_in_words(models: Callable[[Answers], None]) -> None:
    """No function tools are sent; form, tools and results go as text, and so does what was wrong."""
    seen: list[list[ModelMessage]] = []

    def answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        assert not info.function_tools
        return ModelResponse(
            [TextPart('```json\n{"tool_calls": [{"name": "read_file", "arguments": {"path": "a"}}]}\n```')]
        )

    models(answers)
    model = JsonModel(TextModel("any"))
    turn = await model.next(FIRST, [OFFER])
    assert turn.calls == (ModelCall("read_file", '{"path":"a"}', "0"),)
    first = seen[0][0]
    assert isinstance(first, ModelRequest)
    assert '"final_answer"' in str(first.instructions)
    assert '"name":"read_file"' in str(first.instructions)
    await model.next(
        [*FIRST, RejectedTurn("eh?", "not JSON"), ModelTurn(1, turn), CallResult(1, 0, turn.calls[0], "hi")], [OFFER]
    )
    texts = [str(getattr(part, "content", "")) for message in seen[-1] for part in message.parts]
    assert texts[:3] == ["read a", "eh?", "not JSON Answer again."]
    assert "read_file" in texts[3]
    assert texts[4] == "Result of call 0 (read_file):\nhi"


def test_a_turn_is_written_in_the_form_that_is_read() -> None:
    """What a shortened turn becomes is a response again."""
    turn = Turn((ModelCall("now", '{"timezone":"UTC"}', "0"),))
    assert parse_turn(write_turn(turn), TokenUsage()).calls == turn.calls


async def test_a_script_gives_its_steps_in_order_with_their_faults() -> None:
    """Errors so many times, repeats so often, then it ends."""
    steps = [
        {"error": "busy", "times": 2},
        {"tool_calls": [{"name": "now"}], "repeat": 2, "usage": {"input_tokens": 1}},
        {"final_answer": "x"},
    ]
    model = ScriptedModel(steps)
    for _ in range(2):
        with pytest.raises(ModelFailure, match="busy"):
            await model.next([Instructions("")], ())
    for number in range(2):
        turn = await model.next([Instructions("", number)], ())
        assert (turn.calls[0].name, turn.usage.input_tokens) == ("now", 1)
    assert (await model.next([Instructions("", 2)], ())).answer == "x"
    with pytest.raises(ModelFailure, match="script ended"):
        await model.next([Instructions("", 3)], ())


def test_a_script_goes_on_where_it_was_after_a_restart() -> None:
    """Its place is how often the model has answered, not how often this object was asked."""
    import asyncio

    model = ScriptedModel([{"final_answer": "one"}, {"final_answer": "two"}])
    assert asyncio.run(model.next([Instructions("", 1)], ())).answer == "two"


@pytest.mark.parametrize(
    "text",
    [
        '{"final_answer": "x"}',
        '[{"answer": "x"}]',
        '[{"final_answer": "x", "more": 1}]',
        '[{"tool_calls": [{}]}]',
        "[1",
        "[1]",
    ],
)
def test_a_script_that_is_none_is_refused_with_its_step(text: str) -> None:
    """Before anything is queued."""
    with pytest.raises(Misuse):
        read_script(text)


def test_an_unknown_provider_and_a_missing_model_are_told() -> None:
    """Both as a matter of setting up."""
    for options, words in (({"provider": "gpt"}, "pydantic-ai"), ({}, "--model"), ({"provider": "json"}, "--model")):
        with pytest.raises(ModelFailure, match=words) as failure:
            build_provider(options)
        assert failure.value.kind == "setup"


async def test_a_task_runs_with_function_calling_and_with_json(agent: Agent, models: Callable[[Answers], None]) -> None:
    """The whole chain with both, the model behind Pydantic AI's own interface."""
    (agent.work / "a.txt").write_text("hello\n")

    def functions(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for message in messages for part in message.parts):
            return ModelResponse([TextPart("read")])
        return ModelResponse([ToolCallPart("read_file", {"path": "a.txt"}, "x")])

    models(functions)
    task = agent.put(model="any")
    await agent.work_off()
    assert (agent.inbox.find(task.id).state, agent.results(task)[0]["text"]) == (TaskState.DONE, "hello\n")

    def texts(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        turn = {"final_answer": "read"} if len(messages) > 1 else calls(call("read_file", path="a.txt"))
        return ModelResponse([TextPart(orjson.dumps(turn).decode())])

    models(texts)
    task = agent.put(model="any", provider="json")
    await agent.work_off()
    assert (agent.inbox.find(task.id).state, agent.results(task)[0]["text"]) == (TaskState.DONE, "hello\n")
    assert agent.events(task, "agent.started")[0]["provider"] == "json"
