"""The effective policy as data: for each tool the result, and what each source of policy contributes to it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from handrail.policy import decide
from handrail.policy.enablement import enabled
from handrail.policy.rules import FILE_KINDS, Rule, applies
from handrail.policy.world import World
from handrail.words import Decision, Finding, How, Json, Mode, Place, PlaceKind, Touch, TouchKind, Verdict

SOURCES = ("builtin", "confine", "enablement", "skills", "permissions", "rules", "defaults")
_NEW, _EXISTING = "path/of/a/new-file.txt", "path/of/a/file.txt"
_MODES = {
    Mode.INTERACTIVE: "a person is asked",
    Mode.HEADLESS: "ask becomes a refusal that carries the request, to be replayed once it is approved",
}


def effective(worlds: Sequence[World], digest: str) -> dict[str, Json]:
    """Tell the policy in force: what holds for every tool, then each tool with its typical calls."""
    common = _common(worlds[0]) if worlds else {}
    return {"digest": digest, **common, "tools": {world.tool.name: _tool(world) for world in worlds}}


def _common(world: World) -> dict[str, Json]:
    return {
        "mode": world.mode.value,
        "max_scope": world.max_scope.word,
        "roots": [{"name": root.name, "path": root.path, "writable": root.writable} for root in world.roots],
        "protected": [item for group in world.protected_groups for item in group],
        "allowed_hosts": list(world.allowed_hosts),
        "enable": sorted(world.enable),
        "disable": sorted(world.disable),
        "bulk_files": world.bulk_files,
        "max_undo_bytes": world.max_undo_bytes,
        "origins": dict(world.origins),
        "rules": [_rule(rule) for rule in world.rules],
    }


def _tool(world: World) -> dict[str, Json]:
    tool = world.tool
    return {
        "toolset": tool.toolset,
        "risk": tool.risk.value,
        "enabled": enabled(tool, world.enable, world.disable),
        "touches": [_told(example, touch, world) for example, touch in _examples(world)],
    }


def _told(example: str, touch: Touch, world: World) -> dict[str, Json]:
    """How one typical touch is judged, and by what."""
    verdict = decide((touch,), world)
    about = [rule for rule in world.rules if applies(rule, touch, world)]
    return {
        "touch": touch.kind.value,
        "example": example,
        "result": verdict.decision.word,
        "by": {source: said for source in SOURCES if (said := _said(verdict, source))} | _mode(verdict, world),
        "rules": [
            {"id": rule.id, "effect": rule.effect.word, "target": rule.target, "where": rule.where} for rule in about
        ],
    }


def _said(verdict: Verdict, source: str) -> list[Json]:
    return [_finding(item) for item in verdict.findings if item.source == source]


def _finding(finding: Finding) -> dict[str, Json]:
    return {"rule": finding.rule, "says": finding.decision.word, "why": finding.why, "where": finding.where}


def _mode(verdict: Verdict, world: World) -> dict[str, Json]:
    """What the mode adds: it matters only where a person would be asked."""
    if verdict.decision is not Decision.ASK:
        return {}
    where = world.origins.get("mode", "")
    return {"mode": [{"rule": f"mode.{world.mode.value}", "says": "ask", "why": _MODES[world.mode], "where": where}]}


def _rule(rule: Rule) -> dict[str, Json]:
    return {
        "id": rule.id,
        "effect": rule.effect.word,
        "touch": rule.touch,
        "target": rule.target,
        "tool": rule.tool,
        "skill": rule.skill,
        "caller": rule.caller,
        "why": rule.why,
        "where": rule.where,
        "narrows": rule.narrows,
    }


# ── typical calls ────────────────────────────────────────────────────────────────────────────


def _examples(world: World) -> Iterator[tuple[str, Touch]]:
    """What a tool's calls typically touch, with targets that no rule is likely to be about."""
    for touch in dict.fromkeys(world.tool.states or (Touch(TouchKind.TOOL_USE, world.tool.name),)):
        if touch.kind in FILE_KINDS:
            yield from _files(touch, world)
        elif touch.kind is TouchKind.NET_CONNECT:
            host = next((host for host in world.allowed_hosts if "*" not in host), "example.org")
            target = host if ":" in host.rpartition("]")[2] else f"{host}:443"
            yield f"GET or HEAD, {target}", replace(touch, target=target, unsafe=False)
            yield f"another method, {target}", replace(touch, target=target, unsafe=True)
        elif touch.kind is TouchKind.PROC_EXEC:
            yield "some command", replace(touch, target="some-command", words=("some-command",))
        else:
            yield world.tool.name, replace(touch, target=touch.target or world.tool.name)


def _files(touch: Touch, world: World) -> Iterator[tuple[str, Touch]]:
    home = next((root for root in world.roots if root.name == "workspace"), None)
    if home is None:
        yield "a file", replace(touch, target=_EXISTING)
        return
    kind = PlaceKind.DIRECTORY if touch.deep else PlaceKind.FILE
    below = () if touch.deep and touch.kind is not TouchKind.FS_READ else None
    there = replace(touch, target=_EXISTING, place=Place(home, _EXISTING, kind), below=below)
    if touch.kind is TouchKind.FS_WRITE:
        yield "a new file", replace(touch, target=_NEW, place=Place(home, _NEW, PlaceKind.MISSING), below=None)
        # Where a tool does not say how it writes, take it for one that replaces.
        there = replace(there, how=How.REPLACE if touch.how is How.PLAIN else touch.how)
    yield "a folder and all below" if touch.deep else "an existing file", there
