"""Budgets, rates, breaker and repeats as small state machines: pure, time is passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from handrail.errors import Code, Problem
from handrail.words import noun

_SETTING = {"wall_ms": "max_wall_seconds"}
COUNTED = ("calls", "wall_ms", "bytes_read", "bytes_written", "files_changed", "processes", "prompts")


@noun
class Bounds:
    """What a run may use; 0 means without bound."""

    budgets: Mapping[str, float] = field(default_factory=dict)  # of COUNTED
    rate_per_minute: Mapping[str, int] = field(default_factory=dict)  # by tool
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    max_repeats: int = 20


class Usage:
    """What a run has used, against its budgets."""

    __slots__ = ("_bounds", "bounded", "used")

    def __init__(self, budgets: Mapping[str, float], used: Mapping[str, float] | None = None) -> None:
        unknown = set(budgets) - set(COUNTED)
        if unknown:
            raise ValueError(f"no such budget: {', '.join(sorted(unknown))}")
        self._bounds = {name: bound for name, bound in budgets.items() if bound > 0}
        # That of prompts counts only where a person would be asked.
        self.bounded = tuple((name, bound) for name, bound in self._bounds.items() if name != "prompts")
        self.used: dict[str, float] = dict.fromkeys(COUNTED, 0) | dict(used or {})

    def check(self) -> None:
        """Refuse when a budget is used up."""
        for name, bound in self.bounded:
            if self.used[name] >= bound:
                raise self._used_up(name, bound)

    def count_process(self) -> None:
        """Count a program that is started."""
        self.used["processes"] += 1

    def check_prompts(self) -> None:
        """Refuse when people were asked often enough."""
        bound = self._bounds.get("prompts")
        if bound is not None and self.used["prompts"] >= bound:
            raise self._used_up("prompts", bound)

    def _used_up(self, name: str, bound: float) -> Problem:
        return Problem(
            Code.BUDGET_EXHAUSTED,
            f"The run's budget of {name} ({bound:g}) is used up.",
            budget=name,
            bound=bound,
            used=self.used[name],
            mend=f"finish with what is there, or ask the operator to raise limits.{_SETTING.get(name, f'max_{name}')}",
        )


class Rate:
    """At most so many calls a minute, refilled evenly."""

    __slots__ = ("_last", "_per_second", "_room", "_tokens")

    def __init__(self, per_minute: int) -> None:
        self._room = float(per_minute)
        self._tokens = float(per_minute)
        self._per_second = per_minute / 60.0
        self._last: float | None = None

    def take(self, now: float) -> float:
        """Take one; give 0.0, or the seconds until one is there."""
        if self._last is not None:
            # A clock that went back gives nothing and takes nothing.
            self._tokens = min(self._room, self._tokens + max(0.0, now - self._last) * self._per_second)
        self._last = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._per_second


class Breaker:
    """Opens after so many failures in a row; lets one call through after a time, and closes when that works."""

    __slots__ = ("_failures", "_opened", "_seconds", "_threshold", "_trying")

    def __init__(self, threshold: int, seconds: float) -> None:
        self._threshold, self._seconds = threshold, seconds
        self._failures, self._opened = 0, 0.0
        self._trying = False

    def wait(self, now: float) -> float:
        """Give 0.0 when a call may go, else the seconds until one may try."""
        if self._failures < self._threshold:
            return 0.0
        self._opened = min(self._opened, now)  # a clock that went back must not make the wait longer
        rest = self._opened + self._seconds - now
        if rest > 0:
            return rest
        if self._trying:
            return self._seconds
        self._trying = True
        return 0.0

    def ended(self, ok: bool, now: float) -> None:
        """Note how a call that ran has ended."""
        self._trying = False
        self._failures = 0 if ok else self._failures + 1
        if self._failures >= self._threshold:
            self._opened = now

    def released(self) -> None:
        """Note that an admitted call never ran."""
        self._trying = False


class Repeats:
    """Finds calls that are made again and again with the same answer, also in small circles."""

    __slots__ = ("_bound", "_recent")
    WINDOW = 3

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._recent: dict[object, tuple[object, int]] = {}  # the last asked stands last

    def check(self, key: object) -> None:
        """Refuse a call that gave the same answer too often."""
        seen = self._recent.get(key)
        if seen is not None and seen[1] >= self._bound > 0:
            raise Problem(
                Code.BUDGET_EXHAUSTED,
                f"This same call gave the same answer {seen[1]} times in a row; it is not run again.",
                budget="repeats",
                bound=self._bound,
                mend="change the arguments, or do something else first",
            )

    def ended(self, key: object, answer: object) -> None:
        """Note a call's answer."""
        recent = self._recent
        seen = recent.pop(key, None)
        if seen is None and len(recent) >= self.WINDOW:
            del recent[next(iter(recent))]
        recent[key] = (answer, seen[1] + 1 if seen is not None and seen[0] == answer else 1)

    def progress(self) -> None:
        """Forget everything: the world has changed."""
        self._recent.clear()


class Limits:
    """All limits of a run, as the kernel asks them."""

    __slots__ = ("_began", "_breakers", "_rates", "_rules", "repeats", "usage")

    def __init__(self, rules: Bounds, used: Mapping[str, float] | None = None, began: float = 0.0) -> None:
        self._rules, self._began = rules, began  # when the run was started, by the clock of `now`
        self.usage = Usage(rules.budgets, used)
        self.repeats = Repeats(rules.max_repeats)
        self._rates = {name: Rate(per_minute) for name, per_minute in rules.rate_per_minute.items() if per_minute > 0}
        self._breakers: dict[str, Breaker] = {}

    def admit(self, tool: str, key: object, now: float) -> None:
        """Count an attempt; Problem BUDGET_EXHAUSTED, RATE_LIMITED or CIRCUIT_OPEN when it may not go."""
        usage = self.usage
        if usage.bounded:
            usage.used["wall_ms"] = (now - self._began) * 1000
            usage.check()
        usage.used["calls"] += 1
        self.repeats.check(key)
        if self._rates and (rate := self._rates.get(tool)) is not None and (wait := rate.take(now)):
            raise _later(Code.RATE_LIMITED, f"{tool} is called too often", wait)
        if self._breakers and (breaker := self._breakers.get(tool)) is not None and (wait := breaker.wait(now)):
            raise _later(Code.CIRCUIT_OPEN, f"{tool} failed {self._rules.breaker_failures} times in a row", wait)

    def used(self, now: float) -> dict[str, float]:
        """All that was used by now."""
        return {**self.usage.used, "wall_ms": round((now - self._began) * 1000, 3)}

    @property
    def watched(self) -> bool:
        """Whether any tool has failed lately, so that the end of every call matters."""
        return bool(self._breakers)

    def ended(self, tool: str, ok: bool, now: float) -> None:
        """Note how a call that ran has ended; denials never come here."""
        breaker = self._breakers.get(tool)
        if breaker is not None:
            breaker.ended(ok, now)
        elif not ok and self._rules.breaker_failures > 0:
            breaker = self._breakers[tool] = Breaker(self._rules.breaker_failures, self._rules.breaker_seconds)
            breaker.ended(ok, now)

    def released(self, tool: str) -> None:
        """Note that an admitted call never ran."""
        if breaker := self._breakers.get(tool):
            breaker.released()


def _later(code: Code, what: str, seconds: float) -> Problem:
    return Problem(code, f"{what}; try again in {seconds:.1f} s.", retry_after_seconds=round(seconds, 3))
