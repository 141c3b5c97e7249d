"""What a run knows from its events: a pure fold, no I/O and no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from handrail.limits import COUNTED
from handrail.words import Json, noun

# Raised before a call is admitted: such a call uses up no budget.
BEFORE_ADMISSION = frozenset({"UNKNOWN_TOOL", "UNSUPPORTED_VERSION", "INVALID_ARGS", "BUDGET_EXHAUSTED"})


@noun
class KeyRecord:
    """Which call holds an idempotency key."""

    call_id: str
    args_digest: str
    done: bool


def _nothing_used() -> dict[str, float]:
    return dict.fromkeys(COUNTED, 0.0)


@dataclass(slots=True)
class RunState:
    """What is in force in a run: grants, keys, budgets used, files read, calls under way."""

    grants: dict[str, dict[str, Json]] = field(default_factory=dict)  # by id; expiry is for the reader to judge
    keys: dict[str, KeyRecord] = field(default_factory=dict)
    usage: dict[str, float] = field(default_factory=_nothing_used)
    seen: dict[str, str] = field(default_factory=dict)  # shown path -> sha256 of a file read whole
    call_ids: set[str] = field(default_factory=set)  # given by callers
    open_calls: dict[str, dict[str, Json]] = field(default_factory=dict)  # started, end not known
    undone: set[str] = field(default_factory=set)  # calls whose changes were taken back
    parent_run: str | None = None
    skill: dict[str, Json] | None = None  # the last one loaded: id, digest, allowed_tools, permissions

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take one event in; a kind or field it does not know changes nothing."""
        step = _STEPS.get(_text(event.get("kind")))
        if step is not None:
            step(self, event)

    def to_json(self) -> dict[str, Json]:
        """Give plain JSON values."""
        return {
            "grants": self.grants,
            "keys": {key: [record.call_id, record.args_digest, record.done] for key, record in self.keys.items()},
            "usage": self.usage,
            "seen": self.seen,
            "call_ids": sorted(self.call_ids),
            "open_calls": self.open_calls,
            "undone": sorted(self.undone),
            "parent_run": self.parent_run,
            "skill": self.skill,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunState:
        """Read `to_json` back; ValueError, KeyError or TypeError when it is something else."""
        return cls(
            grants={str(name): dict(grant) for name, grant in value["grants"].items()},
            keys={key: KeyRecord(*record) for key, record in value["keys"].items()},
            usage=_nothing_used() | {str(name): float(used) for name, used in value["usage"].items()},
            seen=dict(value["seen"]),
            call_ids=set(value["call_ids"]),
            open_calls={str(call_id): dict(call) for call_id, call in value["open_calls"].items()},
            undone=set(value["undone"]),
            parent_run=value["parent_run"],
            skill=None if value["skill"] is None else dict(value["skill"]),
        )


def fold(events: Iterable[Mapping[str, Any]], state: RunState | None = None) -> RunState:
    """Take many events in, one after the other."""
    state = state or RunState()
    for event in events:
        state.apply(event)
    return state


def _run_started(state: RunState, event: Mapping[str, Any]) -> None:
    parent = event.get("parent_run")
    state.parent_run = parent if isinstance(parent, str) else state.parent_run


def _tool_started(state: RunState, event: Mapping[str, Any]) -> None:
    call_id = event.get("call_id")
    if not isinstance(call_id, str):
        return
    state.usage["calls"] += 1
    if event.get("given_id"):
        state.call_ids.add(call_id)
    call = {"tool": event.get("tool"), "ts": event.get("ts")}
    if isinstance(key := event.get("key"), str):
        call["key"] = key
        state.keys[key] = KeyRecord(call_id, _text(event.get("args_digest")), done=False)
    if isinstance(event.get("handed_over"), Mapping):
        call |= {name: event[name] for name in ("handed_over", "before", "asked") if name in event}
    state.open_calls[call_id] = call
    if isinstance(grant := event.get("grant"), str):
        _use(state, grant)


def _use(state: RunState, grant_id: str) -> None:
    left = state.grants.get(grant_id, {}).get("uses_left")
    if not isinstance(left, int):
        return
    if left <= 1:
        del state.grants[grant_id]
    else:
        state.grants[grant_id] = {**state.grants[grant_id], "uses_left": left - 1}


def _tool_ended(state: RunState, event: Mapping[str, Any]) -> None:
    call_id = event.get("call_id")
    if not isinstance(call_id, str):
        return
    began = state.open_calls.pop(call_id, None)
    if began is None and _text(event.get("code")) not in BEFORE_ADMISSION:
        state.usage["calls"] += 1
    if event.get("given_id"):
        state.call_ids.add(call_id)
    _settle_key(state, call_id, began, event)
    _count(state.usage, event)
    _see(state.seen, event.get("seen"))


def _settle_key(state: RunState, call_id: str, began: Mapping[str, Any] | None, event: Mapping[str, Any]) -> None:
    """A call that ran keeps its key for good; one that never started gives it back."""
    key = event.get("key") or (began or {}).get("key")
    if not isinstance(key, str):
        return
    held = state.keys.get(key)
    if event.get("started", began is not None):
        digest = event.get("args_digest") or (held.args_digest if held else "")
        state.keys[key] = KeyRecord(call_id, _text(digest), done=True)
    elif held is not None and held.call_id == call_id:
        del state.keys[key]


def _count(usage: dict[str, float], event: Mapping[str, Any]) -> None:
    for name in ("bytes_read", "bytes_written", "processes"):
        if name in event:
            usage[name] += _number(event[name])
    if changed := event.get("files_changed"):
        usage["files_changed"] += len(changed) if isinstance(changed, list) else _number(changed)


def _see(seen: dict[str, str], news: Any) -> None:
    if not isinstance(news, Mapping):
        return
    for path, digest in news.items():
        if isinstance(digest, str):
            seen[path] = digest
        else:
            seen.pop(path, None)


def _asked(state: RunState, event: Mapping[str, Any]) -> None:
    if event.get("asked"):
        state.usage["prompts"] += 1


def _granted(state: RunState, event: Mapping[str, Any]) -> None:
    grant = event.get("grant")
    if isinstance(grant, Mapping) and isinstance(grant_id := grant.get("id"), str):
        state.grants[grant_id] = dict(grant)


def _denied(state: RunState, event: Mapping[str, Any]) -> None:
    """A refusal also takes back what the same request was granted before."""
    request = event.get("request")
    if isinstance(request, str):
        state.grants = {name: grant for name, grant in state.grants.items() if grant.get("request") != request}


def _undone(state: RunState, event: Mapping[str, Any]) -> None:
    """Note which calls of this run were taken back; the event may be about another run."""
    calls = event.get("calls")
    if isinstance(calls, list) and event.get("run", event.get("run_id")) == event.get("run_id"):
        state.undone.update(call_id for call_id in calls if isinstance(call_id, str))
    _see(state.seen, event.get("seen"))


def _loaded(state: RunState, event: Mapping[str, Any]) -> None:
    """The last skill loaded is the active one; a list of tools that cannot be read allows nothing."""
    tools, asked = event.get("allowed_tools", []), event.get("permissions")
    state.skill = {
        "id": _text(event.get("id")),
        "digest": _text(event.get("digest")),
        "allowed_tools": None if tools is None else _texts(tools),
        "permissions": _texts(asked),
    }


def _texts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_STEPS: dict[str, Callable[[RunState, Mapping[str, Any]], None]] = {
    "run.started": _run_started,
    "tool.started": _tool_started,
    "tool.completed": _tool_ended,
    "tool.failed": _tool_ended,
    "tool.observed": _tool_ended,
    "approval.required": _asked,
    "approval.granted": _granted,
    "approval.denied": _denied,
    "skill.loaded": _loaded,
    "undo.applied": _undone,
}
