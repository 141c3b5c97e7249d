"""Our own words: nothing to translate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.dialects._dialect import Dialect, Event, Message, one_call
from handrail.errors import Code
from handrail.words import Json, Outcome


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    return (dict(event) for event in events)


def _messages(message: Mapping[str, Any]) -> Message:
    keys = ("version", "call_id", "trace_id", "idempotency_key", "permissions")
    return one_call(message, "tool", "args", **{name: name for name in keys})


DIALECT = Dialect(
    name="native",
    about="Handrail's own names, arguments, envelope and events",
    words={},
    errors={code: code.value for code in Code},
    envelope=Outcome.to_dict,
    events=_events,
    approval=dict,
    messages=_messages,
)
