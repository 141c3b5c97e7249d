"""What model and agent say to each other: plain data in no provider's form, and its JSON. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.words import Json


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one response, or of several together."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values."""
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> TokenUsage:
        """Read `to_json` back; what is missing is 0."""
        known = value or {}
        return cls(int(known.get("input_tokens") or 0), int(known.get("output_tokens") or 0))


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call that a model asks for; its arguments are the JSON text that the model wrote."""

    name: str
    arguments: str = "{}"
    id: str = ""  # the provider's own


@dataclass(frozen=True, slots=True)
class Turn:
    """One response of a model: calls to make, or the answer. Calls win where it has both."""

    calls: tuple[ModelCall, ...] = ()
    answer: str = ""
    usage: TokenUsage = TokenUsage()
    text: str = ""  # what it said beside its calls
    raw: Json = None  # the response in the provider's own form, where that must be sent back as it was

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values, from which the turn is rebuilt whole."""
        return {
            "calls": [[call.name, call.arguments, call.id] for call in self.calls],
            "answer": self.answer,
            "usage": self.usage.to_json(),
            "text": self.text,
            "raw": self.raw,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Turn:
        """Read `to_json` back."""
        calls = tuple(ModelCall(*item) for item in value["calls"])
        usage = TokenUsage.from_json(value["usage"])
        return cls(calls, value["answer"], usage, value["text"], value["raw"])


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a model is told before everything else."""

    text: str
    responses: int = 0  # how often the model has answered in this task


@dataclass(frozen=True, slots=True)
class PersonText:
    """What a person says: the task, or a message in between; also what the agent tells on its own behalf."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A turn of the model in the history."""

    number: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class RejectedTurn:
    """A response that could not be used, and what was wrong with it: the model is told once."""

    said: str
    problem: str


@dataclass(slots=True)  # not frozen, which would triple the time to build one of so many fields for every call
class CallResult:
    """What came of one call, as the model reads it."""

    turn: int
    index: int
    call: ModelCall
    text: str
    ok: bool = True
    summary: str = ""  # one line that stands for it once it is old
    ref: str = ""  # `run:` path of the whole
    changed: bool = False  # it changed something in the world
    code: str = ""  # of what went wrong
    likeness: str = ""  # the same for equal results, whatever ids and durations their texts hold
    details: Mapping[str, Json] = field(default_factory=dict)  # further facts that the loop needs

    @property
    def job(self) -> str:
        """The background program that the call started; empty where it started none."""
        return str(self.details.get("job", ""))

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values; turn, index and call are on record with the turn."""
        return {
            "text": self.text,
            "ok": self.ok,
            "summary": self.summary,
            "ref": self.ref,
            "changed": self.changed,
            "code": self.code,
            "likeness": self.likeness,
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, turn: int, index: int, call: ModelCall, value: Mapping[str, Any]) -> CallResult:
        """Read `to_json` back."""
        return cls(
            turn, index, call, value["text"], value["ok"], value["summary"], value["ref"], value["changed"],
            value["code"], value["likeness"], value["details"],
        )  # fmt: skip


Said = Instructions | PersonText | ModelTurn | RejectedTurn | CallResult


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """One tool as a model is offered it."""

    name: str  # as function-calling APIs take it
    description: str
    schema: Mapping[str, Json]  # JSON Schema of its arguments


Conversation = Sequence[Said]


def size_of(item: Said) -> int:
    """Return about how many bytes an item takes in a request."""
    if isinstance(item, CallResult):
        return len(item.text) + 50
    if isinstance(item, ModelTurn):
        turn = item.turn
        return len(turn.text) + len(turn.answer) + sum(len(call.arguments) + 50 for call in turn.calls)
    if isinstance(item, RejectedTurn):
        return len(item.said) + len(item.problem)
    return len(item.text) if isinstance(item, (PersonText, Instructions)) else 0
