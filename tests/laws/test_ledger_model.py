"""The ledger against a model of a few lines, over random steps."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from approving import NO, NOW, asking
from handrail.ports import Answered, Reply, Request
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
from handrail.words import Grant, Scope

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.integers(0, 2)),
        st.tuples(st.just("grant"), st.integers(0, 2), st.sampled_from(Scope), st.none() | st.integers(1, 3)),
        st.tuples(st.just("deny"), st.integers(0, 2)),
        st.tuples(st.just("use"), st.integers(0, 2)),
        st.tuples(st.just("revoke"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.sampled_from([10, 500, 900, 8 * 3600])),
    ),
    max_size=25,
)


class Model:
    """The ledger in a few lines: for each digest, its last request and what is left of its grant."""

    def __init__(self) -> None:
        self.state: dict[int, str] = {}
        self.until: dict[int, float] = {}  # of the request while pending, of the grant after
        self.left: dict[int, float] = {}
        self.wide: dict[int, bool] = {}

    def step(self, now: float, what: str, of: int, scope: Scope = Scope.CALL, uses: int | None = None) -> object:
        """Do one step and give what it answers."""
        self.sweep(now)
        state = self.state.get(of)
        live = self.left.get(of, 0) > 0 and now < self.until[of]
        if what == "request" and state not in ("pending", "granted"):
            self.state[of], self.until[of], self.left[of] = "pending", now + 900, 0
        if what in ("grant", "deny"):
            if state != "pending":
                return state
            self.state[of] = "granted" if what == "grant" else "denied"
            wide = scope >= Scope.RUN  # these requests allow a session at most, so always counts as one
            self.wide[of] = wide
            self.left[of] = (uses or (float("inf") if wide else 1)) if what == "grant" else 0
            self.until[of] = now + (8 * 3600 if wide else 900)
        if what == "use" and live:
            self.left[of] -= 1
            if self.wide[of] or self.left[of] == 0:
                self.state[of] = "used"
        if what == "revoke" and live:
            self.left[of] = 0
            self.state[of] = "denied" if state == "granted" else "used"
        return live

    def sweep(self, now: float) -> None:
        """Close what has run out."""
        for of, state in self.state.items():
            if state in ("pending", "granted") and now >= self.until[of]:
                self.state[of] = "expired"


@settings(max_examples=int(40 * float(os.environ.get("HANDRAIL_TEST_SCALE", "1"))), deadline=None)
@given(STEPS)
def test_any_sequence_of_steps_ends_as_the_model_says(steps: list[tuple[Any, ...]]) -> None:
    """States, answers and grants in force agree after every step."""
    with tempfile.TemporaryDirectory() as folder:
        clock, model = FixedClock(NOW), Model()
        ledger = SqliteLedger(Path(folder) / "ledger.db", clock)
        last: dict[int, str] = {}
        grants: dict[int, Grant] = {}
        for step in steps:
            if step[0] == "pass":
                clock.advance(step[1])
            else:
                expected = model.step(clock.now(), *step)
                assert act(ledger, clock.now(), last, grants, *step) in (expected, None), step
            model.sweep(clock.now())
            ledger.expire(clock.now())
            assert {of: ledger.find(name).state for of, name in last.items()} == model.state
            usable = {of for of in grants if ledger.granted(str(of), clock.now()) is not None}
            assert usable == {of for of, state in model.state.items() if state == "granted"}
        ledger.close()


def act(
    ledger: SqliteLedger,
    now: float,
    last: dict[int, str],
    grants: dict[int, Grant],
    what: str,
    of: int,
    scope: Scope = Scope.CALL,
    uses: int | None = None,
) -> object:
    """Do one step on the ledger; None where there is nothing to compare."""
    if what == "request":
        name = ledger.request(asking(str(of), now), {}).id
        if last.get(of) != name:
            last[of] = name
            grants.pop(of, None)
    elif of not in last:
        return None
    elif what in ("grant", "deny"):
        reply = Reply("granted", scope, uses=uses) if what == "grant" else NO
        try:
            grant = ledger.answer(last[of], reply)
        except Answered as late:
            return late.state
        if grant is not None:
            grants[of] = grant
    elif of in grants:
        return ledger.use(grants[of], now) if what == "use" else ledger.revoke(grants[of].id)
    return None


@given(
    st.builds(
        asking,
        digest=st.text(max_size=5),
        reason=st.text(),
        params=st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.lists(st.text())),
        impact=st.dictionaries(st.text(), st.lists(st.text())),
        touches=st.lists(st.tuples(st.text(), st.text())).map(tuple),
        diff=st.text(st.characters()),
        replay=st.just({"command": "c"}),
    )
)
@settings(deadline=None, max_examples=30)
def test_any_request_survives_the_file(request: Request) -> None:
    """Whatever characters a call carries."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = SqliteLedger(Path(folder) / "ledger.db", FixedClock(NOW))
        args = json.loads(json.dumps(dict(request.params)))
        made = ledger.request(request, args)
        assert made == replace(request, id=made.id)
        assert ledger.find(made.id).request == made
        assert ledger.args(made.id) == args
        ledger.close()
