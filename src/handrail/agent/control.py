"""What stops a task: turns, time, tokens, calls, a failing model, calls without progress. Pure: time is passed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handrail.agent.conversation import CallResult, TokenUsage
from handrail.agent.history import History
from handrail.errors import Fault


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The bounds of a task; 0 means without bound."""

    max_turns: int = 50
    max_wall_seconds: float = 3600.0
    max_tokens: int = 0
    max_tool_calls: int = 500
    model_retries: int = 3
    breaker_failures: int = 5
    max_repeats: int = 5
    context_bytes: int = 400_000

    def to_json(self) -> dict[str, float]:
        """Return the bounds as `agent.started` records them."""
        return {
            "max_turns": self.max_turns,
            "max_wall_seconds": self.max_wall_seconds,
            "max_tokens": self.max_tokens,
            "max_tool_calls": self.max_tool_calls,
        }


class AgentStopped(Fault):
    """A task that ends without an answer: `reason` is one word, the message says what happened and what to do."""

    def __init__(self, reason: str, message: str, *, error_class: str = "policy") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.error_class = error_class  # as outcomes name it: validation, policy, timeout, unknown


class Control:
    """Counts what a task uses and raises AgentStopped when that is enough."""

    def __init__(self, limits: AgentLimits, history: History, now: float) -> None:
        self._limits = limits
        self._history = history
        self._began = now
        self._start = history.seconds
        self._waited = 0.0
        self._model_failures = 0
        self._circuits: dict[str, int] = {}
        self._repeats: dict[int, int] = {}
        self._running = 0

    def seconds(self, now: float) -> float:
        """Return the seconds of work so far, without waiting for people."""
        return self._start + max(0.0, now - self._began - self._waited)

    def wait(self, seconds: float) -> None:
        """Leave time that a person took out of account."""
        self._waited += seconds

    def seconds_left(self, now: float) -> float | None:
        """Return how long the task may go on; None without a bound."""
        bound = self._limits.max_wall_seconds
        if not bound:
            return None
        return max(0.0, bound - self._since("seconds", self.seconds(now)))

    def check_turn(self, now: float) -> None:
        """Stop before another turn where turns, time or tokens are used up."""
        self._bound("max_turns", "turns", self._since("turns", self._history.number), self._limits.max_turns)
        self.check_tokens()
        self.check_time(now)

    def check_tokens(self) -> None:
        """Stop where more tokens were used than allowed."""
        if self._limits.max_tokens:
            used = self._since("tokens", self._history.usage.total)
            self._bound("max_tokens", "tokens", used, self._limits.max_tokens)

    def check_time(self, now: float) -> None:
        """Stop where the time is up."""
        if self.seconds_left(now) == 0.0:
            raise self.late()

    def begin_call(self, now: float) -> None:
        """Stop before another call where calls or time are used up; calls that run just now count."""
        used = self._since("calls", self._history.calls + self._running)
        self._bound("max_tool_calls", "tool calls", used, self._limits.max_tool_calls)
        self.check_time(now)
        self._running += 1

    def end_call(self) -> None:
        """Count a call as no longer running."""
        self._running -= 1

    def late(self) -> AgentStopped:
        """Build the stop of a task whose time is up."""
        bound = self._limits.max_wall_seconds
        text = f"Stopped: the task worked for {bound:g} s, and agent.max_wall_seconds allows no more."
        return AgentStopped("max_wall_seconds", text, error_class="timeout")

    def fail_model(self, what: str) -> None:
        """Count a model that failed; stop after too many in a row."""
        self._model_failures += 1
        most = self._limits.breaker_failures
        if most and self._model_failures >= most:
            text = f"Stopped: the model failed {self._model_failures} times in a row. The last time: {what}"
            raise AgentStopped("breaker", text, error_class="unknown")

    def answer_model(self) -> None:
        """Count a model that answered."""
        self._model_failures = 0

    def note_results(self, results: Sequence[CallResult]) -> None:
        """Look at what came of a turn; stop at an open breaker or at calls that repeat without progress."""
        seen: list[str] = []
        for result in results:
            if result.code == "CIRCUIT_OPEN":
                self._note_circuit(result)
            if result.changed:
                self._repeats.clear()
            seen += (result.call.name, result.call.arguments, result.likeness or result.text)
        turn = hash(tuple(seen))
        count = self._repeats[turn] = self._repeats.get(turn, 0) + 1
        most = self._limits.max_repeats
        if most and count >= most:
            names = ", ".join(dict.fromkeys(result.call.name for result in results))
            text = f"Stopped: the same calls ({names}) gave the same results {count} times, without any progress."
            raise AgentStopped("no_progress", text)

    def _note_circuit(self, result: CallResult) -> None:
        name = result.call.name
        self._circuits[name] = self._circuits.get(name, 0) + 1
        most = self._limits.breaker_failures
        if most and self._circuits[name] >= most:
            text = f"Stopped: {name} keeps failing, and was refused {most} times until it recovers."
            raise AgentStopped("breaker", text)

    def _since(self, name: str, value: float) -> float:
        return value - self._history.base.get(name, 0)

    def _bound(self, reason: str, what: str, used: float, bound: float) -> None:
        if bound and used >= bound:
            raise AgentStopped(reason, f"Stopped after {used:g} {what}: agent.{reason} allows {bound:g}.")


def summarize(history: History, seconds: float) -> Mapping[str, object]:
    """Return what a task used, as events and the inbox tell it."""
    usage: TokenUsage = history.usage
    return {
        "turns": history.last_turn,
        "calls": history.calls,
        "usage": usage.to_json(),
        "seconds": round(seconds, 3),
    }
