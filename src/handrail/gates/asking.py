"""What a person is asked, and what their answer is bound to. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from handrail.policy.grants import granted_kind
from handrail.policy.patterns import literal
from handrail.words import Json, Touch, TouchKind

_IMPACT = {
    TouchKind.FS_READ: "reads",
    TouchKind.FS_WRITE: "writes",
    TouchKind.FS_DELETE: "deletes",
    TouchKind.PROC_EXEC: "runs",
    TouchKind.NET_CONNECT: "reaches",
    TouchKind.GIT_WRITE: "writes",
    TouchKind.MEMORY_WRITE: "writes",
    TouchKind.TOOL_USE: "uses",
}


def canonical(value: Any) -> bytes:
    """One spelling for equal values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=sorted)


def digest_of(*parts: Any) -> str:
    """Bind an approval to exactly these parts."""
    return hashlib.sha256(canonical(parts)).hexdigest()


def call_digest(
    call: tuple[str, str, Mapping[str, Json]],
    touches: Sequence[Touch],
    fingerprints: Mapping[str, str],
    policy_digest: str,
    workspace: str,
    confinement: Mapping[str, Json] | None = None,
) -> str:
    """The digest of an exact call (tool, version, arguments): what runs must have the one that was approved."""
    resolved = [
        [
            *(touch.kind.value, touch.place.absolute if touch.place else touch.target, touch.deep, touch.how.value),
            *(() if touch.skill is None else (touch.skill, touch.words)),
        ]
        for touch in touches
    ]
    bound = () if confinement is None else (confinement,)
    return digest_of("handrail-call-1", *call, resolved, fingerprints, policy_digest, workspace, *bound)


def impact(touches: Sequence[Touch]) -> dict[str, list[str]]:
    """What the call would do, in the words of a person: reads, writes, deletes, runs, reaches."""
    told: dict[str, list[str]] = {}
    for touch in touches:
        told.setdefault(_IMPACT[touch.kind], []).append(f"{touch.shown}{' and all below' if touch.deep else ''}")
    return {kind: list(dict.fromkeys(shown)) for kind, shown in told.items()}


def reason(why: str, ending: Mapping[str, Sequence[str]]) -> str:
    """Why a person is asked; of what a program did also that it failed."""
    return "; the command failed: ".join((why, *ending.get("failed", ())))


def targets(touches: Sequence[Touch]) -> tuple[tuple[str, str], ...]:
    """The (kind, target) pairs that a wider grant would cover; wildcards in real names are made literal."""
    return tuple(dict.fromkeys((granted_kind(touch), literal(touch.shown)) for touch in touches))
