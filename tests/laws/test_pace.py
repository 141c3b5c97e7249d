"""A disk is waited for in place only while it is quick; however it behaves, few of those waits are long ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handrail.pace import FIRST, LONG, MOST, SLOW_SECONDS, Pace

QUICK, SLOW = SLOW_SECONDS / 2, SLOW_SECONDS


def after(*seconds: float) -> Pace:
    """What is known after some answers."""
    pace = Pace()
    for one in seconds:
        pace.took(one)
    return pace


def test_a_disk_that_nobody_knows_is_slow() -> None:
    """Until it has answered quickly several times in a row."""
    known = [after(*[QUICK] * count).quick for count in (0, 1, FIRST - 1, FIRST)]
    assert known == [False, False, False, True]
    assert not after(*[QUICK] * (FIRST - 1), SLOW, *[QUICK] * (FIRST - 1)).quick


def test_one_slow_answer_makes_a_disk_slow() -> None:
    """The next wait is not in place."""
    assert not after(*[QUICK] * (FIRST + 1000), SLOW).quick


def test_a_disk_that_is_slow_again_soon_has_to_be_quick_for_twice_as_long() -> None:
    """Until it was quick in place for long: then the slow answer was a rare one."""
    once = [*[QUICK] * (FIRST + LONG - 1), SLOW]
    assert not after(*once, *[QUICK] * (2 * FIRST - 1)).quick
    assert after(*once, *[QUICK] * (2 * FIRST)).quick
    twice = [*once, *[QUICK] * (2 * FIRST + LONG), SLOW]
    assert after(*twice, *[QUICK] * FIRST).quick


def test_a_disk_that_is_slow_whenever_it_counts_is_hardly_ever_waited_for_in_place() -> None:
    """The worst there is: quick until it is trusted, slow as soon as it is."""
    pace, long_waits, answers = Pace(), 0, 100 * MOST
    for _ in range(answers):
        long_waits += pace.quick
        pace.took(SLOW if pace.quick else QUICK)
    assert long_waits <= answers / MOST + 10


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3 * LONG)), max_size=60))
def test_long_waits_in_place_are_few_among_the_waits_in_place(runs: list[tuple[bool, int]]) -> None:
    """At most one in so many, but for the first ones, each of which doubles what the next one needs."""
    pace, long_waits, waits = Pace(), 0, 0
    for slow, count in runs:
        for _ in range(count):
            waits += pace.quick
            long_waits += pace.quick and slow
            pace.took(SLOW if slow else QUICK)
    answers = sum(count for _, count in runs)
    assert long_waits <= waits / LONG + answers / MOST + 8
