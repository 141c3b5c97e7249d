"""What a person is asked, and what their answer is bound to. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any

import orjson

from handrail.policy.grants import granted_kind
from handrail.policy.world import World
from handrail.ports import Limits, Request
from handrail.words import Decision, How, Json, Mode, PlaceKind, Touch, TouchKind, Verdict

# Fields that version 0.1.0 did not have. `handrail-policy-1` leaves them out while they have their default, so that an
# approval stays valid for a policy that does not use what is new.
_LATER = {
    "World": {
        "own_code",
        "exact",
        "commands",
        "shadowed",
        "ordinary",
        "loaded_code",
        "repositories",
        "run_covers",
        "further_protected",
        "environment",
        "asks_hosts",
        "border",
        "no_border",
        "changes",
        "search_path",
        "search_spots",
        "hook_files",
    },
    "Rule": {"risk", "environment"},
}
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
_FILES = frozenset({TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_DELETE})
_JUDGED = frozenset({"command", "cwd", "timeout_seconds"})  # arguments of a command that its touches or limits show
_TOLD_CHARS = 50_000  # of a diff that an outcome holds
_SHOWN_LINES, _SHOWN_BYTES, _SHOWN_LINE_CHARS = 100_000, 4 * 1024 * 1024, 100_000  # of a diff that a person is shown


def canonical(value: Any) -> bytes:
    """One spelling for equal values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=sorted)


def digest_of(*parts: Any) -> str:
    """Bind an approval to exactly these parts."""
    return hashlib.sha256(canonical(parts)).hexdigest()


def policy_digest(world: World) -> str:
    """Hash what a run's decisions follow from, without what belongs to one run, machine or state of the disk."""
    # Both modes judge alike: what was asked for in one may be replayed in the other.
    policy = replace(
        world,
        roots=(),
        run_id="",
        own_paths=(),
        own_code=(),
        loaded_code=(),
        shadowed=(),
        search_path=(),
        search_spots=(),
        repositories=type(world.repositories)(),
        settings_files=(),
        hook_files=(),
        caller="",
        origins={},
        mode=Mode.INTERACTIVE,
        skill_folders=(),
    )
    told = {**_hashed(policy), "tool": _hashed(policy.tool), "rules": [_hashed(rule) for rule in policy.rules]}
    in_order_of_fields = orjson.Fragment(orjson.dumps(told, default=sorted))
    return digest_of("handrail-policy-1", in_order_of_fields)


def _hashed(value: Any) -> dict[str, Any]:
    """List the fields that are hashed: those of 0.1.0, and later ones that do not have their default."""
    later = _LATER.get(type(value).__name__, ())
    found: dict[str, Any] = {}
    for item in fields(value):
        known = getattr(value, item.name)
        if item.init and (item.name not in later or known != _default(item)):
            found[item.name] = known
    return found


def _default(item: Field[Any]) -> Any:
    """Return what a field has where nobody gives it."""
    return item.default if item.default_factory is MISSING else item.default_factory()


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


def likeness(who: tuple[str, str], workspace: str, call: tuple[str, str, Mapping[str, Json]]) -> str:
    """Hash a call by its caller (front end, identity), workspace, tool, version and arguments, and no file."""
    return digest_of("handrail-same-1", *who, workspace, *call)


def exact_digest(
    call: tuple[str, str, Mapping[str, Json]], touches: Sequence[Touch], run_files: Mapping[str, str], workspace: str
) -> str:
    """The digest of a command line with all its arguments, its targets and the files that it runs.

    It holds while settings, the sandbox and the files that the line changes are not what they were.
    """
    targets = [[granted_kind(touch), touch.place.absolute if touch.place else touch.target] for touch in touches]
    return digest_of("handrail-exact-1", *call, targets, run_files, workspace)


def host_digest(exact: str, target: str, *, unsafe: bool) -> str:
    """The digest of a command line, as `exact_digest` gives it, with a host that its program reaches for."""
    return digest_of("handrail-host-exact-1", exact, target, unsafe)


def is_ordinary(args: Mapping[str, Json], defaults: Mapping[str, Any]) -> bool:
    """Whether a pattern of its commands says all of a call: the rest of its arguments have their defaults."""
    return all(name in _JUDGED or (name in defaults and defaults[name] == value) for name, value in args.items())


def impact(touches: Sequence[Touch]) -> dict[str, list[str]]:
    """What the call would do, in the words of a person: reads, writes, deletes, runs, reaches."""
    told: dict[str, list[str]] = {}
    for touch in touches:
        told.setdefault(_IMPACT[touch.kind], []).append(f"{touch.shown}{' and all below' if touch.deep else ''}")
    return {kind: list(dict.fromkeys(shown)) for kind, shown in told.items()}


def describe_confinement(confinement: Mapping[str, Json], workspace: str) -> dict[str, list[str]]:
    """Say what of a confinement is not as always: hosts, further folders, sockets, a sandbox that holds less."""
    network = confinement.get("network")
    written = [path for path in _texts(confinement.get("write")) if path != workspace and not path.startswith("run:")]
    tier = confinement.get("tier")
    found = {
        "may reach": _texts(network) if isinstance(network, list) else [],
        "may change": written,
        "may use": _texts(confinement.get("sockets")),
        "sandbox": [] if tier == "A" else [f"tier {tier}", *_texts(confinement.get("gaps"))],
    }
    return {name: told for name, told in found.items() if told}


def _texts(value: Json) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def describe_change(touches: Sequence[Touch], world: World) -> str:
    """Say in a few words what a call does to the one file that it changes; empty for all others."""
    changed = [touch for touch in touches if touch.kind in (TouchKind.FS_WRITE, TouchKind.FS_DELETE)]
    if len(changed) != 1 or len({touch.kind for touch in touches} - _FILES) or changed[0].place is None:
        return ""
    touch = changed[0]
    assert touch.place is not None
    if touch.deep or touch.place.kind not in (PlaceKind.FILE, PlaceKind.MISSING):
        return ""
    if touch.kind is TouchKind.FS_DELETE:
        what = "delete"
    elif touch.place.kind is PlaceKind.MISSING:
        what = "new file"
    else:
        what = "replace" if touch.how is How.REPLACE else "change"
    kept = touch.place.kind is PlaceKind.MISSING or touch.place.size <= world.max_undo_bytes
    return f"{what}, {'can be undone' if kept else 'too large to be undone'}"


def reason(why: str, ending: Mapping[str, Sequence[str]]) -> str:
    """Why a person is asked; of what a program did also that it failed."""
    return "; the command failed: ".join((why, *ending.get("failed", ())))


def tell_findings(verdict: Verdict) -> list[dict[str, str]]:
    """Tell which rules asked, where each stands, and why."""
    asked = [item for item in verdict.findings if item.decision is not Decision.ALLOW][:20]
    return [{"rule": item.rule, "where": item.where, "why": item.why} for item in asked]


def shorten(request: Request) -> dict[str, Any]:
    """Give a request for an outcome: with as much of its diff as a model reads."""
    told, diff = request.to_dict(), request.diff
    if len(diff) > _TOLD_CHARS:
        more = f"[{_TOLD_CHARS} of {len(diff)} characters; `handrail approvals show {request.id}` shows the whole]"
        told["diff"] = f"{diff[:_TOLD_CHARS]}\n{more}\n"
    return told


def widen(value: Any) -> Any:
    """Widen the bounds that a preview keeps to: a person is shown all of a change."""
    if not isinstance(value, Limits):
        return value
    return replace(
        value, max_output_lines=_SHOWN_LINES, max_output_bytes=_SHOWN_BYTES, max_line_chars=_SHOWN_LINE_CHARS
    )
