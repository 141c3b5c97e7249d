"""Idempotency keys and caller-given call ids of a run: which were used, and what came of it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from handrail.errors import Code, Problem
from handrail.store.state import KeyRecord, RunState
from handrail.words import Change, ErrorInfo, Evidence, Outcome, Ref, Status, Truncation

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


class Stored(Protocol):
    """Where outcomes are kept."""

    def put(self, key: str, outcome: dict[str, Any]) -> None:
        """Keep one."""

    def get(self, key: str) -> dict[str, Any] | None:
        """Give one back."""


@dataclass(slots=True)
class _Flight:
    call_id: str
    args_digest: str
    landed: asyncio.Event = field(default_factory=asyncio.Event)


class RunKeys:
    """Satisfies `ports.Keys` over the run's state and stored outcomes."""

    def __init__(self, state: RunState, outcomes: Stored) -> None:
        self._state, self._outcomes = state, outcomes
        self._flying: dict[str, _Flight] = {}

    async def join(self, key: str, call_id: str, args_digest: str) -> Outcome | None:
        """Become the first with this key (None), or give the outcome of the first."""
        while (flight := self._flying.get(key)) is not None:
            _same(key, flight.args_digest, args_digest)
            await flight.landed.wait()
        known = self._state.keys.get(key)
        if known is None:
            self._flying[key] = _Flight(call_id, args_digest)
            return None
        _same(key, known.args_digest, args_digest)
        stored = self._outcomes.get(key)
        if stored is None:
            raise Problem(
                Code.OUTCOME_UNKNOWN,
                f"The call {known.call_id} with this idempotency key was started, and how it ended was not kept "
                "(a crash, or no room). It is not run again: look at what it touches, then use another key.",
                call_id=known.call_id,
            )
        return outcome_from(stored)

    def automatic(self, key: str) -> str:
        """Give the key to use where nobody gave one: the same for a retry, another once other calls came between.

        A call that failed is made again, and so is one after which something else was changed: giving its first
        outcome then would report what is no longer so.
        """
        known = self._state.keys
        if key not in known:
            return key
        used = [name for name in known if name == key or name.startswith(f"{key}#")]
        last = used[-1]
        stored = self._outcomes.get(last)
        if last == next(reversed(known)) and (stored is None or stored["error"] is None):
            return last
        return f"{key}#{len(used) + 1}"

    def store(self, key: str, call_id: str, outcome: Outcome) -> None:
        """Keep the outcome of a call that started."""
        flight = self._flying.get(key)
        if flight is not None and flight.call_id == call_id:
            # Known as used first: what cannot be kept must not make the call run a second time.
            self._state.keys[key] = KeyRecord(call_id, flight.args_digest, True)
            self._outcomes.put(key, asdict(outcome))

    def release(self, key: str, call_id: str) -> None:
        """Let those who wait for this key go on."""
        flight = self._flying.get(key)
        if flight is not None and flight.call_id == call_id:
            del self._flying[key]
            flight.landed.set()

    def claim_id(self, call_id: str) -> bool:
        """Take a caller's call id; False when it was used before or is not safe as a name."""
        if call_id in self._state.call_ids or not _SAFE_ID.fullmatch(call_id):
            return False
        self._state.call_ids.add(call_id)
        return True


def _same(key: str, first: str, now: str) -> None:
    if first != now:
        raise Problem(
            Code.INVALID_ARGS,
            f"The idempotency key {key!r} was used with another tool or other arguments; a key stands for one call.",
        )


def outcome_from(stored: dict[str, Any]) -> Outcome:
    """Read a stored outcome back."""
    many = {"evidence": Evidence, "changes": Change, "refs": Ref}
    one = {"error": ErrorInfo, "truncation": Truncation}
    values = dict(stored)
    for name, kind in many.items():
        values[name] = tuple(kind(**item) for item in values[name])
    for name, kind in one.items():
        values[name] = None if values[name] is None else kind(**values[name])
    for name in ("commands", "rules", "warnings"):
        values[name] = tuple(values[name])
    values["status"] = Status(values["status"])
    return Outcome(**values)
