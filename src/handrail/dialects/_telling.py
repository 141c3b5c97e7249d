"""What several dialects tell alike: problems, times, finished calls paired with their starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from handrail.output.bound import Bounds, bound
from handrail.words import Json, Outcome

if TYPE_CHECKING:
    from handrail.dialects._dialect import Dialect, Event

ENDS = ("tool.completed", "tool.failed")


def problem(outcome: Outcome, dialect: Dialect) -> dict[str, Json]:
    """The details that mend a call: ours, with our code and the call that would work in the document's words."""
    error = outcome.error
    assert error is not None
    details: dict[str, Json] = {"code": error.code, **error.details}
    if "approval" in details and isinstance(details["approval"], Mapping):
        details["approval"] = dialect.approval(details["approval"])
    if (call := dialect.said(error.next_call)) is not None:
        details["next_call"] = call
    return details


def asked_for(request: Mapping[str, Any], dialect: Dialect) -> dict[str, Json]:
    """An approval request with its call in the document's words, where it has them."""
    call = dialect.said({"tool": request.get("tool"), "args": request.get("params")})
    return {**request, **({} if call is None else {"tool": call["tool"], "params": call["args"]})}


def finished(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Every finished call, its end with what its start said; other events as they are."""
    began: dict[str, Event] = {}
    for event in events:
        kind, call = event.get("kind"), str(event.get("call_id"))
        if kind == "tool.started":
            began[call] = event
        if kind in ENDS:
            start = began.pop(call, {})
            known = picked(start, "tool", "version", "risk", "args", "asked", "dialect")
            yield {"ts_start": start.get("ts", event.get("ts")), **known, **event}
        else:
            yield dict(event)


def spoken_call(event: Event, dialect: Dialect) -> tuple[str, Any]:
    """The tool and arguments of an event in the document's words, where it has them."""
    tool, args = str(event.get("tool")), event.get("args")
    asked = event.get("asked")
    if event.get("dialect", dialect.name) == dialect.name and isinstance(asked, Mapping):
        return str(asked.get("tool")), asked.get("args")
    word = dialect.of(tool)
    told = word.said(args) if word is not None and isinstance(args, Mapping) else None
    return dialect.tool_name(tool), args if told is None else told


def picked(event: Event, *names: str) -> dict[str, Json]:
    """The named fields of an event, as far as it has them."""
    return {name: event[name] for name in names if name in event}


def stamp(ts: Any) -> str:
    """A time as the documents write it: ISO 8601, UTC, milliseconds, Z."""
    if isinstance(ts, str):
        ts = datetime.fromisoformat(ts).timestamp()
    moment = datetime.fromtimestamp(float(ts or 0), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def excerpt(text: str, where: str) -> str:
    """A text within what a model is shown; a cut says so and where the whole is."""
    cut = bound(text, Bounds(2000, 51200))
    return text if cut is None else f"{cut.text.rstrip()}\n[truncated: {cut.shown} of {cut.total} {cut.by}; {where}]"


def files_changed(event: Event) -> list[Json]:
    """The paths that a finished call changed."""
    changes = event.get("files_changed") or ()
    return [change.get("path") if isinstance(change, Mapping) else change for change in changes]
