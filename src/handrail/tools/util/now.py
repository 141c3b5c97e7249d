"""now: what time it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Clock
from handrail.spelling import nearest
from handrail.words import Answer

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment, in the zone asked for."""

    iso: str
    epoch_ms: int
    timezone: str


@tool(risk="low", pure=True)
async def now(
    clock: Clock, timezone: Annotated[str, Field(min_length=1, max_length=64), "IANA name: Europe/Berlin"] = "UTC"
) -> Answer[Moment]:
    """Tell the current date and time."""
    zone = _zone(timezone)
    epoch_ms = round(clock.now() * 1000)
    moment = datetime.fromtimestamp(epoch_ms / 1000, zone)
    result = Moment(moment.isoformat(timespec="milliseconds"), epoch_ms, timezone)
    return Answer(result, summary=f"{result.iso} ({timezone})")


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise _unknown(name) from None


def _unknown(name: str) -> Problem:
    words = _words()
    found = nearest(name.strip().lower().replace(" ", "_"), words, 3, 0.6)
    near = list(dict.fromkeys(words[word] for word in found))
    hint = f" Did you mean {' or '.join(near)}?" if near else " Use an IANA name such as Europe/Berlin."
    next_call = {"tool": "now", "args": {"timezone": near[0]}} if near else None
    return Problem(Code.INVALID_ARGS, f"There is no time zone {name!r}.{hint}", next_call=next_call, near=near)


@cache
def _words() -> dict[str, str]:
    """Every zone by its name and by its city; reading them takes longer than everything else."""
    from zoneinfo import available_timezones

    known = {zone.lower(): zone for zone in available_timezones()}
    return {zone.rpartition("/")[2].lower(): zone for zone in known.values() if "/" in zone} | known
