"""What a run knows from its events: grants, keys, budgets, files read, calls under way."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.limits import COUNTED
from handrail.store.state import KeyRecord, RunState, fold

GRANT = {"id": "g1", "request": "q1", "scope": 2, "uses_left": 2, "expires": 99.0}


def event(kind: str, call_id: str | None = "c1", **fields: Any) -> dict[str, Any]:
    """Write an event as the journal gives it."""
    return {"seq": 1, "ts": "T", "run_id": "r", "kind": kind, "call_id": call_id, "prev": "0" * 64, **fields}


def used(**counts: float) -> dict[str, float]:
    return dict.fromkeys(COUNTED, 0) | counts


STARTED = event("tool.started", tool="write_file", key="k", args_digest="d", given_id=True)
ENDED = event("tool.completed", tool="write_file", status="ok", effect="done", duration_ms=2.5)
REFUSED = event("tool.failed", tool="write_file", status="denied", code="POLICY_DENIED", key="k", started=False)

CASES: dict[str, tuple[list[dict[str, Any]], RunState]] = {
    "nothing": ([], RunState()),
    "a call under way holds its key": (
        [STARTED],
        RunState(
            keys={"k": KeyRecord("c1", "d", done=False)},
            usage=used(calls=1),
            call_ids={"c1"},
            open_calls={"c1": {"tool": "write_file", "ts": "T", "key": "k"}},
        ),
    ),
    "a call that ended keeps its key for good": (
        [STARTED, ENDED],
        RunState(keys={"k": KeyRecord("c1", "d", done=True)}, usage=used(calls=1), call_ids={"c1"}),
    ),
    "a call that failed after it started keeps its key too": (
        [STARTED, event("tool.failed", status="failed", code="TIMEOUT", effect="unknown", duration_ms=1)],
        RunState(keys={"k": KeyRecord("c1", "d", done=True)}, usage=used(calls=1), call_ids={"c1"}),
    ),
    "a call that never started occupies no key": ([REFUSED], RunState(usage=used(calls=1))),
    "a call that was told it could not start gives its key back": (
        [STARTED, event("tool.failed", code="JOURNAL_UNAVAILABLE", started=False)],
        RunState(usage=used(calls=1), call_ids={"c1"}),
    ),
    "a refused call leaves the key of another alone": (
        [STARTED, ENDED, {**REFUSED, "call_id": "c2"}],
        RunState(keys={"k": KeyRecord("c1", "d", done=True)}, usage=used(calls=2), call_ids={"c1"}),
    ),
    "a call refused before it was admitted uses up nothing": (
        [event("tool.failed", code="INVALID_ARGS", started=False, given_id=True)],
        RunState(call_ids={"c1"}),
    ),
    "bytes, files and processes are counted": (
        [
            event("tool.started"),
            event(
                "tool.completed",
                bytes_read=10,
                bytes_written=20,
                processes=1,
                files_changed=[{"path": "a"}, {"path": "b"}],
            ),
        ],
        RunState(usage=used(calls=1, bytes_read=10, bytes_written=20, processes=1, files_changed=2)),
    ),
    "the last hash of a file read whole counts": (
        [
            event("tool.completed", "c1", started=True, seen={"a": "1", "b": "1"}),
            event("tool.completed", "c2", started=True, seen={"a": "2", "b": None}),
        ],
        RunState(usage=used(calls=2), seen={"a": "2"}),
    ),
    "only a person who was asked counts as a prompt": (
        [event("approval.required", asked=True), event("approval.required", asked=False)],
        RunState(usage=used(prompts=1)),
    ),
    "a grant is in force until its uses are spent": (
        [event("approval.granted", grant=GRANT, request="q1"), event("tool.started", "c2", tool="t", grant="g1")],
        RunState(
            grants={"g1": {**GRANT, "uses_left": 1}},
            usage=used(calls=1),
            open_calls={"c2": {"tool": "t", "ts": "T"}},
        ),
    ),
    "a spent grant is gone": (
        [
            event("approval.granted", grant={**GRANT, "uses_left": 1}),
            event("tool.started", "c2", tool="t", grant="g1"),
            event("tool.completed", "c2"),
        ],
        RunState(usage=used(calls=1)),
    ),
    "a grant without a number of uses stays": (
        [
            event("approval.granted", grant={**GRANT, "uses_left": None}),
            event("tool.started", "c2", tool="t", grant="g1"),
            event("tool.completed", "c2"),
        ],
        RunState(grants={"g1": {**GRANT, "uses_left": None}}, usage=used(calls=1)),
    ),
    "a refusal takes back what the same request was granted": (
        [
            event("approval.granted", grant=GRANT),
            event("approval.granted", grant={**GRANT, "id": "g2", "request": "q2"}),
            event("approval.denied", request="q1"),
        ],
        RunState(grants={"g2": {**GRANT, "id": "g2", "request": "q2"}}),
    ),
    "calls taken back are known, those of other runs are not ours": (
        [event("undo.applied", calls=["c1"], run="r"), event("undo.applied", calls=["c2"], run="other")],
        RunState(undone={"c1"}),
    ),
    "a run knows where it came from": (
        [event("run.started", None, parent_run="r0"), event("run.started", None, parent_run=None)],
        RunState(parent_run="r0"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_events_give_exactly_this_state(name: str) -> None:
    """One row for each thing a run remembers."""
    events, state = CASES[name]
    assert fold(events) == state


kinds = st.sampled_from(
    [
        "run.started",
        "tool.started",
        "tool.completed",
        "tool.failed",
        "approval.required",
        "approval.granted",
        "approval.denied",
        "undo.applied",
        "display",
        "something.new",
    ]
)
names = st.sampled_from(["a", "b", "c"])
anything = st.none() | st.booleans() | st.integers(-9, 9) | names | st.lists(names) | st.dictionaries(names, names)
likely = {
    "call_id": names,
    "key": names,
    "args_digest": names,
    "given_id": st.booleans(),
    "started": st.booleans(),
    "code": st.sampled_from(["INVALID_ARGS", "TIMEOUT"]),
    "grant": names | st.fixed_dictionaries({"id": names, "request": names, "uses_left": st.integers(0, 3)}),
    "request": names,
    "seen": st.dictionaries(names, names | st.none()),
    "duration_ms": st.integers(0, 99),
    "bytes_read": st.integers(-(2**63), 2**63 - 1),
    "files_changed": st.lists(st.fixed_dictionaries({"path": names})),
    "asked": st.booleans(),
    "calls": st.lists(names),
    "parent_run": names,
}
events = st.lists(
    st.fixed_dictionaries(
        {"kind": kinds | anything}, optional={name: value | anything for name, value in likely.items()}
    ),
    max_size=15,
)


@given(events=events, cut=st.integers(0, 15))
def test_folding_may_stop_anywhere_and_go_on_from_json(events: list[dict[str, Any]], cut: int) -> None:
    """A state written down in the middle and read back gives what folding in one go gives."""
    first = fold(events[:cut])
    written = orjson.dumps(first.to_json())
    assert RunState.from_json(orjson.loads(written)) == first
    assert fold(events[cut:], RunState.from_json(orjson.loads(written))) == fold(events)


@given(events=events)
def test_no_event_however_odd_is_too_much(events: list[dict[str, Any]]) -> None:
    """Whatever a line holds, the fold goes on, uses never sink and what is open has a start."""
    state = RunState()
    for one in events:
        before = dict(state.usage)
        state.apply(one)
        assert all(state.usage[name] >= before[name] for name in ("calls", "prompts"))
    started = [one.get("call_id") for one in events if one["kind"] == "tool.started"]
    assert all(call_id in started for call_id in state.open_calls)


@pytest.mark.parametrize("value", [{}, {"grants": []}, {**RunState().to_json(), "keys": {"k": ["only one"]}}])
def test_what_is_no_state_is_not_read_as_one(value: dict[str, Any]) -> None:
    """A checkpoint of another form is refused, and the journal is read instead."""
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        RunState.from_json(value)
