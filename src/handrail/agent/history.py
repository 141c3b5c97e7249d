"""What a task has come to, folded from the lines of its turn log. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from handrail.agent.conversation import (
    CallResult,
    ModelCall,
    ModelTurn,
    PersonText,
    RejectedTurn,
    Said,
    TokenUsage,
    Turn,
    size_of,
)

Line = Mapping[str, Any]
Place = tuple[int, int]  # turn and index of a call
SHORT_ARGUMENT = 200  # characters of an old call's argument that stay


@dataclass(slots=True)
class History:
    """All that was said in a task, in order, and what is known of its calls."""

    said: list[Said] = field(default_factory=list)  # without results, which stand with their turns
    turns: dict[int, Turn] = field(default_factory=dict)
    results: dict[Place, CallResult] = field(default_factory=dict)
    settled: dict[tuple[int, int, int], str] = field(default_factory=dict)  # by turn, index, attempt: what was chosen
    asked: dict[Place, str] = field(default_factory=dict)  # the last approval request of a call
    attempts: dict[Place, int] = field(default_factory=dict)  # that were used up for a call
    number: int = 0  # of the last turn
    responses: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    calls: int = 0  # that have a result
    seconds: float = 0.0  # of work, without waiting for people
    last_message: int = 0  # number of the last message that was read
    jobs_told: frozenset[str] = frozenset()  # calls whose background programs' end the model was told
    left_out: frozenset[str] = frozenset()  # lines that say which turns are left out
    resumes: int = 0  # how often a person had it resumed
    ends: int = 0  # how often it ended
    ended: Line | None = None  # how it ended, unless it was resumed since
    flat: list[Said] = field(default_factory=list)  # as `messages` gives it
    flat_size: int = 0
    stale: bool = False
    base: Mapping[str, float] = field(default_factory=dict)  # counts at the last time it was resumed

    @property
    def last_turn(self) -> int:
        """The number of the last turn; 0 before the first."""
        return self.number

    def open_calls(self) -> list[tuple[int, ModelCall]]:
        """Return the calls of the last turn that have no result yet."""
        number = self.last_turn
        calls = self.turns[number].calls if number else ()
        return [(index, call) for index, call in enumerate(calls) if (number, index) not in self.results]

    def messages(self) -> list[Said]:
        """Return everything in the order in which a model reads it; built anew only where more than the end changed."""
        if self.stale:
            self.flat = list(self._messages())
            self.flat_size = sum(map(size_of, self.flat))
            self.stale = False
        return self.flat

    def size(self) -> int:
        """Return about how many bytes everything takes in a request."""
        self.messages()
        return self.flat_size

    def _messages(self) -> Iterator[Said]:
        for item in self.said:
            yield item
            if isinstance(item, ModelTurn):
                for index in range(len(item.turn.calls)):
                    if (result := self.results.get((item.number, index))) is not None:
                        yield result

    def extend(self, item: Said) -> None:
        """Take in what was said last."""
        if not self.stale:
            self.flat.append(item)
            self.flat_size += size_of(item)

    def take_turn(self, number: int, turn: Turn) -> None:
        """Take in a turn of the model."""
        self.turns[number] = turn
        self.number = number
        self.responses += 1
        if turn.usage.total:
            self.usage = self.usage + turn.usage
        self.said.append(ModelTurn(number, turn))
        self.extend(self.said[-1])

    def take_result(self, result: CallResult) -> None:
        """Take in what came of a call."""
        place = (result.turn, result.index)
        self.calls += place not in self.results
        self.results[place] = result
        before = self.flat[-1] if self.flat else None
        if result.turn == self.number and result.index == (before.index + 1 if isinstance(before, CallResult) else 0):
            self.extend(result)
        else:
            self.stale = True

    def apply(self, line: Line) -> None:
        """Take one line of the log in; a kind that is not known changes nothing."""
        step = _STEPS.get(str(line.get("kind")))
        if step is not None:
            step(self, line)
        self.seconds = max(self.seconds, float(line.get("seconds", 0.0)))


def _said(history: History, line: Line) -> None:
    history.said.append(PersonText(line["text"]))
    history.extend(history.said[-1])
    history.last_message = max(history.last_message, int(line.get("message", 0)))
    history.jobs_told |= frozenset(line.get("jobs", ()))


def _turned(history: History, line: Line) -> None:
    history.take_turn(line["n"], Turn.from_json(line["turn"]))


def _rejected(history: History, line: Line) -> None:
    history.said.append(RejectedTurn(line["said"], line["problem"]))
    history.extend(history.said[-1])
    history.responses += 1
    history.usage = history.usage + TokenUsage.from_json(line.get("usage"))


def _resulted(history: History, line: Line) -> None:
    place = (line["n"], line["i"])
    call = history.turns[place[0]].calls[place[1]]
    history.take_result(CallResult.from_json(*place, call, line["result"]))


def _asked(history: History, line: Line) -> None:
    place = (line["n"], line["i"])
    history.asked[place] = line["request"]
    history.attempts[place] = max(history.attempts.get(place, 0), int(line.get("attempt", 0)))


def _attempted(history: History, line: Line) -> None:
    history.attempts[(line["n"], line["i"])] = line["attempt"]


def _settled(history: History, line: Line) -> None:
    history.settled[(line["n"], line["i"], line["attempt"])] = line["choice"]


def _condensed(history: History, line: Line) -> None:
    place = (line["n"], line["i"])
    history.results[place] = replace(history.results[place], text=line["text"], ref=line["ref"])
    history.stale = True


def _shortened(history: History, line: Line) -> None:
    number = line["n"]
    history.stale = True
    for place, item in enumerate(history.said):
        if isinstance(item, ModelTurn) and item.number == number:
            history.said[place] = ModelTurn(number, shorten_turn(item.turn))


def _dropped(history: History, line: Line) -> None:
    """Leave turns out up to a number; what people said stays, and one line says what is missing."""
    history.stale = True
    first, *rest = history.said
    at = next((place for place, item in enumerate(rest) if _number(item) > line["upto"]), len(rest))
    people = [item for item in rest[:at] if isinstance(item, PersonText) and item.text not in history.left_out]
    history.left_out |= {line["text"]}
    history.said = [first, PersonText(line["text"]), *people, *rest[at:]]


def _number(item: Said) -> int:
    return item.number if isinstance(item, ModelTurn) else 0


def _ended(history: History, line: Line) -> None:
    history.ended = line
    history.ends += 1


def _resumed(history: History, _: Line) -> None:
    history.ended = None
    history.resumes += 1
    history.base = {
        "turns": history.last_turn,
        "calls": history.calls,
        "tokens": history.usage.total,
        "seconds": history.seconds,
    }


_STEPS: dict[str, Callable[[History, Line], None]] = {
    "said": _said,
    "turn": _turned,
    "rejected": _rejected,
    "result": _resulted,
    "asked": _asked,
    "attempt": _attempted,
    "settled": _settled,
    "condensed": _condensed,
    "shortened": _shortened,
    "dropped": _dropped,
    "ended": _ended,
    "resumed": _resumed,
}


def shorten_turn(turn: Turn) -> Turn:
    """Cut the long arguments of a turn's calls; the provider's own form of it goes with that."""
    calls = tuple(replace(call, arguments=_shorten(call.arguments)) for call in turn.calls)
    return turn if calls == turn.calls else replace(turn, calls=calls, raw=None)


def _shorten(arguments: str) -> str:
    if len(arguments) <= SHORT_ARGUMENT:
        return arguments
    try:
        args = orjson.loads(arguments)
    except ValueError:
        args = arguments
    return orjson.dumps(_cut(args)).decode() if isinstance(args, dict) else "{}"


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > SHORT_ARGUMENT:
        return f"{value[:SHORT_ARGUMENT]}… ({len(value)} characters)"
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value[:20]]
    return value
