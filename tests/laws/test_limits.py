"""Laws of the limits: budgets, rates, breaker and repeats, with time passed in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import Code, Problem
from handrail.limits import COUNTED, Bounds, Breaker, Limits, Rate, Repeats, Usage


def refused(limits: Limits, tool: str = "t", key: object = "k", now: float = 0.0) -> Problem | None:
    """Why a call may not go; None when it may."""
    try:
        limits.admit(tool, key, now)
    except Problem as problem:
        return problem
    return None


# ── budgets ──────────────────────────────────────────────────────────────────────────────────


def test_the_budget_of_time_counts_from_the_start_of_the_run() -> None:
    """By the clock, however long calls take."""
    limits = Limits(Bounds(budgets={"wall_ms": 1000}), began=100.0)
    assert refused(limits, now=100.9) is None
    problem = refused(limits, now=101.0)
    assert problem is not None
    assert (problem.code, problem.details["used"]) == (Code.BUDGET_EXHAUSTED, 1000)
    assert limits.used(101.5)["wall_ms"] == 1500


def test_a_budget_lets_exactly_as_many_calls_through() -> None:
    """Attempts are counted before anything else; the one beyond the bound is refused and says what to do."""
    limits = Limits(Bounds(budgets={"calls": 3}))
    problems = [refused(limits, key=number) for number in range(5)]
    assert [problem.code if problem else None for problem in problems] == [None] * 3 + [Code.BUDGET_EXHAUSTED] * 2
    assert limits.usage.used["calls"] == 3
    last = problems[-1]
    assert last is not None
    assert last.message == "The run's budget of calls (3) is used up."
    assert last.details == {
        "budget": "calls",
        "bound": 3,
        "used": 3,
        "mend": "finish with what is there, or ask the operator to raise limits.max_calls",
    }


def test_prompts_hold_back_only_what_would_ask() -> None:
    """A used-up budget of prompts refuses the next question, and no call that needs none."""
    limits = Limits(Bounds(budgets={"prompts": 1}))
    limits.usage.check_prompts()
    limits.usage.used["prompts"] += 1
    assert refused(limits) is None
    with pytest.raises(Problem) as caught:
        limits.usage.check_prompts()
    assert (caught.value.code, caught.value.details["budget"]) == (Code.BUDGET_EXHAUSTED, "prompts")


@pytest.mark.parametrize("name", [name for name in COUNTED if name not in ("calls", "prompts", "wall_ms")])
def test_each_budget_is_held(name: str) -> None:
    """What a call uses up holds the next one back, and not the one that used it."""
    limits = Limits(Bounds(budgets={name: 10}))
    limits.usage.used[name] += 9.5
    assert refused(limits) is None
    limits.usage.used[name] += 0.5
    problem = refused(limits)
    assert problem is not None
    assert (problem.code, problem.details["budget"]) == (Code.BUDGET_EXHAUSTED, name)


def test_a_budget_of_nothing_is_no_bound() -> None:
    """0 means without bound, and so does a budget that is not given."""
    limits = Limits(Bounds(budgets={"calls": 0}))
    assert [refused(limits, key=number) for number in range(1000)] == [None] * 1000


def test_what_was_used_before_counts_after_reopening() -> None:
    """A run that is opened again goes on with what it had used."""
    limits = Limits(Bounds(budgets={"bytes_read": 100}), {"bytes_read": 100})
    assert refused(limits) is not None
    assert limits.usage.used == dict.fromkeys(COUNTED, 0) | {"bytes_read": 100}


def test_an_unknown_budget_is_a_mistake_of_the_program() -> None:
    """A bound under a name that nothing counts would never hold."""
    with pytest.raises(ValueError, match="no such budget: sandwiches"):
        Usage({"sandwiches": 1, "calls": 1})


# ── rates ────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_lets_a_minutes_worth_through_and_then_one_by_one() -> None:
    """The refusal says when to try again, and then it goes."""
    limits = Limits(Bounds(rate_per_minute={"t": 6}))
    assert [refused(limits, key=number, now=0.0) for number in range(6)] == [None] * 6
    problem = refused(limits, key=7, now=1.0)
    assert problem is not None
    assert (problem.code, problem.message) == (Code.RATE_LIMITED, "t is called too often; try again in 9.0 s.")
    assert problem.details == {"retry_after_seconds": 9.0}
    assert refused(limits, key=8, now=10.1) is None
    assert refused(limits, key=9, now=10.2) is not None
    assert refused(limits, tool="other", key=10, now=10.2) is None


def test_a_long_pause_saves_up_no_more_than_a_minutes_worth() -> None:
    """After an hour without a call as many go at once as after a minute."""
    rate = Rate(6)
    assert rate.take(0.0) == 0.0
    assert [rate.take(3600.0) == 0.0 for _ in range(8)] == [True] * 6 + [False] * 2


@given(st.integers(1, 120), st.lists(st.floats(0, 30), max_size=60))
def test_a_rate_is_never_exceeded_in_any_minute(per_minute: int, pauses: list[float]) -> None:
    """In every window of a minute at most twice the rate goes through: what was saved up, and what came in."""
    rate, now, taken = Rate(per_minute), 0.0, []
    for pause in pauses:
        now += pause
        if rate.take(now) == 0.0:
            taken.append(now)
    for begin in taken:
        assert len([at for at in taken if begin <= at < begin + 60]) <= 2 * per_minute


@given(st.integers(1, 30), st.lists(st.floats(0, 100), max_size=40))
def test_whoever_waits_as_long_as_was_said_gets_through(per_minute: int, pauses: list[float]) -> None:
    """The seconds that are given are enough and not more than a minute."""
    rate, now = Rate(per_minute), 0.0
    for pause in pauses:
        now += pause
        wait = rate.take(now)
        assert 0 <= wait <= 60
        if wait:
            now += wait + 1e-6
            assert rate.take(now) == 0.0


def test_a_clock_that_goes_back_neither_refills_nor_blocks_a_rate() -> None:
    """Nothing is given for the step back, and from there time counts as usual."""
    rate = Rate(60)
    assert [rate.take(1000.0) for _ in range(60)] == [0.0] * 60
    assert rate.take(400.0) == pytest.approx(1.0)
    assert rate.take(401.0) == 0.0
    assert rate.take(401.0) == pytest.approx(1.0)


# ── breaker ──────────────────────────────────────────────────────────────────────────────────


def opened(limits: Limits, failures: int = 3, now: float = 0.0) -> Limits:
    for _ in range(failures):
        limits.ended("t", False, now)
    return limits


BOUNDS = Bounds(breaker_failures=3, breaker_seconds=30.0, max_repeats=0)


def test_the_breaker_opens_after_failures_in_a_row() -> None:
    """One success in between starts the count anew; other tools are not held back."""
    limits = opened(Limits(BOUNDS), 2)
    limits.ended("t", True, 0.0)
    assert refused(opened(limits, 2)) is None
    problem = refused(opened(limits, 1), now=10.0)
    assert problem is not None
    assert (problem.code, problem.message) == (Code.CIRCUIT_OPEN, "t failed 3 times in a row; try again in 20.0 s.")
    assert problem.details == {"retry_after_seconds": 20.0}
    assert refused(limits, tool="other") is None


def test_a_half_open_breaker_lets_exactly_one_through() -> None:
    """The others wait until it is known how that one ended."""
    limits = opened(Limits(BOUNDS))
    assert refused(limits, now=29.9) is not None
    assert refused(limits, now=30.0) is None
    assert [refused(limits, now=now) is None for now in (30.0, 31.0, 100.0)] == [False] * 3


def test_the_one_that_was_tried_closes_the_breaker_or_opens_it_again() -> None:
    """A success lets all through; a failure starts the wait from the beginning."""
    closed, again = opened(Limits(BOUNDS), now=5.0), opened(Limits(BOUNDS), now=5.0)
    assert refused(closed, now=35.0) is None
    closed.ended("t", True, 36.0)
    assert [refused(closed, key=number, now=36.0) for number in range(5)] == [None] * 5
    assert refused(again, now=35.0) is None
    again.ended("t", False, 36.0)
    assert refused(again, now=65.9) is not None
    assert refused(again, now=66.0) is None


def test_a_try_that_never_ran_frees_the_way_for_the_next() -> None:
    """A call that was denied after it was admitted says nothing about the tool."""
    limits = opened(Limits(BOUNDS))
    assert refused(limits, now=30.0) is None
    limits.released("t")
    assert refused(limits, now=30.0) is None
    assert refused(limits, now=30.0) is not None


def test_a_breaker_of_nothing_never_opens() -> None:
    """0 failures means no breaker."""
    limits = opened(Limits(Bounds(breaker_failures=0, max_repeats=0)), 1000)
    assert refused(limits) is None
    limits.released("t")


def test_a_clock_that_goes_back_never_closes_the_way_for_longer_than_the_wait() -> None:
    """After the step back the wait starts anew, and then the tool is tried."""
    breaker = Breaker(1, 30.0)
    breaker.ended(False, 1000.0)
    assert breaker.wait(100.0) == 30.0
    assert breaker.wait(130.0) == 0.0


# ── repeats ──────────────────────────────────────────────────────────────────────────────────


def turns(repeats: Repeats, calls: list[tuple[str, Any]]) -> int:
    """How many of these calls and answers go through before one is refused."""
    for number, (key, answer) in enumerate(calls):
        try:
            repeats.check(key)
        except Problem:
            return number
        repeats.ended(key, answer)
    return len(calls)


@pytest.mark.parametrize("circle", ["a", "ab", "abc"])
def test_the_same_calls_with_the_same_answers_are_stopped_also_in_small_circles(circle: str) -> None:
    """Each call of a circle of up to three may give its answer as often as the bound says, then it is stopped."""
    assert turns(Repeats(5), [(key, "same") for key in circle * 20]) == 5 * len(circle)


def test_a_larger_circle_and_changing_answers_are_progress() -> None:
    """Four calls in turn, or an answer that differs, are not stopped."""
    assert turns(Repeats(5), [(key, "same") for key in "abcd" * 20]) == 80
    assert turns(Repeats(5), [("a", number // 4) for number in range(80)]) == 80


def test_a_change_of_the_world_starts_the_count_anew() -> None:
    """What was written since may make the same call worth repeating."""
    repeats = Repeats(2)
    assert turns(repeats, [("a", 1)] * 5) == 2
    repeats.progress()
    assert turns(repeats, [("a", 1)] * 5) == 2


def test_a_refused_repeat_says_so_and_another_call_still_goes() -> None:
    """The problem names the bound and what to do instead."""
    limits = Limits(Bounds(max_repeats=2))
    for _ in range(2):
        assert refused(limits, key="a") is None
        limits.repeats.ended("a", "same")
    problem = refused(limits, key="a")
    assert problem is not None
    assert (problem.code, problem.details) == (
        Code.BUDGET_EXHAUSTED,
        {"budget": "repeats", "bound": 2, "mend": "change the arguments, or do something else first"},
    )
    assert refused(limits, key="b") is None


def test_a_bound_of_nothing_stops_no_repeat() -> None:
    """0 means without bound."""
    assert turns(Repeats(0), [("a", 1)] * 100) == 100


def test_budget_comes_before_repeats_and_rate_before_the_breaker() -> None:
    """Attempts are counted first; a refused repeat takes nothing from the rate."""
    limits = opened(Limits(Bounds(budgets={"calls": 4}, rate_per_minute={"t": 1}, max_repeats=1, breaker_failures=3)))
    limits.repeats.ended("a", 1)
    problems = [refused(limits, key=key) for key in ("a", "b", "b", "c", "d")]
    told = [problem.details.get("budget", problem.code) for problem in problems if problem is not None]
    assert told == ["repeats", Code.CIRCUIT_OPEN, Code.RATE_LIMITED, Code.RATE_LIMITED, "calls"]
