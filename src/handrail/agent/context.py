"""The context of a model within its budget: old results become their summary and a `run:` reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from handrail.agent.conversation import CallResult, ModelTurn, size_of
from handrail.agent.history import SHORT_ARGUMENT
from handrail.agent.turn_log import MemoryLog, TurnLog

Spills = Callable[[str, str], str]  # keeps a text in the run's observations; returns its `run:` path
LEAVE = 0.7  # of the budget: less often, and then more at a time, keeps what providers cache of a prompt
SMALL = 400  # bytes of a result that is not worth replacing


def fit_context(log: TurnLog | MemoryLog, budget: int, instructions: int, spill: Spills) -> None:
    """Replace old results, then old arguments, then old turns, until everything fits; each is a line of the log."""
    total = instructions + log.history.size()
    if total <= budget:
        return
    goal = int(budget * LEAVE)
    for change in _changes(log, spill):
        total -= change()
        if total <= goal:
            return


def _changes(log: TurnLog | MemoryLog, spill: Spills) -> Iterator[Callable[[], int]]:
    """Give what can be made smaller, the oldest and least missed first; each returns the bytes it saved."""
    history = log.history
    last = history.last_turn
    results = [item for item in history.messages() if isinstance(item, CallResult)]
    for result in results:
        if result.turn < last and len(result.text) > SMALL:
            yield lambda result=result: _condense(log, result, spill)  # type: ignore[misc]
    for item in list(history.said):
        if isinstance(item, ModelTurn) and item.number < last and size_of(item) > SHORT_ARGUMENT:
            yield lambda item=item: _shorten(log, item)  # type: ignore[misc]
    for result in sorted(results, key=lambda item: -len(item.text)):
        if result.turn == last and len(result.text) > SMALL:
            yield lambda result=result: _condense(log, result, spill)  # type: ignore[misc]
    for number in range(1, last):
        yield lambda number=number: _drop(log, number)  # type: ignore[misc]


def _condense(log: TurnLog | MemoryLog, result: CallResult, spill: Spills) -> int:
    ref = result.ref or spill(result.text, result.call.name)
    head = result.summary or result.text[:120]
    text = f"{head} (an older result of {len(result.text)} characters; all of it is in {ref})"
    log.add("condensed", n=result.turn, i=result.index, text=text, ref=ref)
    return len(result.text) - len(text)


def _shorten(log: TurnLog | MemoryLog, item: ModelTurn) -> int:
    before = size_of(item)
    log.add("shortened", n=item.number)
    now = next(other for other in log.history.said if isinstance(other, ModelTurn) and other.number == item.number)
    return before - size_of(now)


def _drop(log: TurnLog | MemoryLog, number: int) -> int:
    before = log.history.size()
    log.add("dropped", upto=number, text=f"(Turns 1 to {number} are left out here: there was no more room for them.)")
    return before - log.history.size()
