"""What `policy explain` tells beyond the verdict: what comes later, what trust would change, where a line belongs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.own_code import find_own_code
from handrail.policy import World, decide
from handrail.policy.edits import Edit
from handrail.policy.explain import Suggestion, smallest_change, suggestion
from handrail.words import Decision, Finding, Touch, TouchKind, Verdict

if TYPE_CHECKING:
    from handrail.runtime import Explanation, Runtime
    from handrail.settings import Loaded

TRUST = "handrail config trust"


def distinct(touches: tuple[Touch, ...], verdict: Verdict) -> tuple[tuple[Touch, ...], Verdict]:
    """Touches of which a person would read the same line twice, such as a command and the line it is all of, once."""
    found: dict[tuple[object, ...], list[int]] = {}
    for index, touch in enumerate(touches):
        said = tuple((item.rule, item.decision, item.why) for item in verdict.findings if item.touch == index)
        found.setdefault((touch.kind, touch.shown, touch.place, touch.how, touch.deep, said), []).append(index)
    kept = {indices[0]: place for place, indices in enumerate(found.values())}
    findings = tuple(replace(item, touch=kept[item.touch]) for item in verdict.findings if item.touch in kept)
    return tuple(touches[index] for index in kept), replace(verdict, findings=findings if touches else verdict.findings)


# ── addresses ────────────────────────────────────────────────────────────────────────────────


def with_addresses(found: Explanation, loaded: Loaded) -> Explanation:
    """Add to a verdict what connecting would find of addresses that are written out."""
    refused = dict(_refused(found, loaded))
    if not refused:
        return found
    more = [
        Finding("confine", "confine.addresses", Decision.DENY, why, touch=index, code="HOST_NOT_ALLOWED")
        for index, why in refused.items()
    ]
    verdict = replace(found.verdict, decision=Decision.DENY, findings=(*found.verdict.findings, *more))
    return replace(found, verdict=verdict)


def _refused(found: Explanation, loaded: Loaded) -> Iterator[tuple[int, str]]:
    from handrail.net.gate import Gate, is_address, not_public

    http = loaded.settings.http
    gate = Gate(http.allowed_networks, http.blocked_networks)
    for index, host in _hosts(found.touches):
        why = gate.refused(host) if is_address(host) else None
        if why is not None:
            yield index, not_public(host, host, why).message.rstrip(".")


def _hosts(touches: tuple[Touch, ...]) -> Iterator[tuple[int, str]]:
    from handrail.policy.patterns import host_and_port

    for index, touch in enumerate(touches):
        if touch.kind is TouchKind.NET_CONNECT:
            yield index, host_and_port(touch.target)[0]


def _network_edit(found: Explanation, loaded: Loaded) -> Edit | None:
    """The setting that lets the addresses of a call be dialled; None where none does."""
    import json
    from ipaddress import ip_network

    from handrail.net.gate import Gate

    http = loaded.settings.http
    hosts = [host for index, host in _hosts(found.touches) if index in dict(_refused(found, loaded))]
    more = [str(ip_network(host)) for host in dict.fromkeys(hosts)]
    allowed = [*http.allowed_networks, *more]
    if any(Gate(allowed, http.blocked_networks).refused(host) for host in hosts):
        return None
    name = "http.allowed_networks"
    return Edit(f"name {', '.join(more)} in {name}", name, f"{name} = {json.dumps(allowed)}", lambda case: case)


# ── the change ───────────────────────────────────────────────────────────────────────────────


def change_of(runtime: Runtime, judged: Explanation, given: Mapping[str, Any]) -> Suggestion | None:
    """The smallest change, with what connecting would find and what settings bring along taken into account."""
    loaded = runtime.parts.loaded
    change = _of_settings(runtime, judged, given)
    if with_addresses(judged, loaded) is judged:
        return change
    network = _network_edit(judged, loaded)
    if network is None or (change is None and judged.verdict.decision is Decision.DENY):
        return None
    if change is None or judged.verdict.decision is Decision.ASK:
        return suggestion((network,), judged.verdict.decision)
    return suggestion((*change.edits, network), change.flips_to)


def _of_settings(runtime: Runtime, judged: Explanation, given: Mapping[str, Any]) -> Suggestion | None:
    """Trust in the project's file where that is enough; else the smallest change, made to what the file says."""
    judged = replace(judged, touches=tuple(_whole(touch, runtime) for touch in judged.touches))
    unread = [file for file in runtime.parts.loaded.files if not file.trusted]
    if unread and judged.verdict.decision is not Decision.ALLOW:
        from handrail.settings.trust import EveryFile

        trusted = _loaded(given, trust=EveryFile(Path(os.devnull)))
        world = _world(runtime, judged, trusted)
        verdict = _judged(judged.touches, world, trusted)
        if verdict.decision < judged.verdict.decision:
            text = f"{os.path.basename(unread[0].path)} says so already: review it, then run `{TRUST}`"
            return suggestion((Edit(text, "trust", "", lambda case: (case[0], world)),), verdict.decision)
        judged = replace(judged, world=world, verdict=decide(judged.touches, world))
    change = smallest_change(judged.touches, judged.world, judged.verdict)
    if change is None or change.apply((judged.touches, judged.world))[1].enable == judged.world.enable:
        return change
    return replace(change, flips_to=_really(runtime, judged, change, given))


def _whole(touch: Touch, runtime: Runtime) -> Touch:
    """A folder outside the roots that is to be read is the narrowest root itself, not the folder it lies in."""
    if touch.kind is not TouchKind.FS_READ or touch.place is not None:
        return touch
    return replace(touch, deep=os.path.isdir(os.path.join(runtime.kernel.parts.workspace, touch.target)))


def _judged(touches: tuple[Touch, ...], world: World, loaded: Loaded) -> Verdict:
    """Judge under other settings; a path that they make part of a root is taken as one beneath it."""
    verdict, absolute = decide(touches, world), loaded.settings.workspace.allow_absolute
    while verdict.decision is Decision.DENY:
        change = smallest_change(touches, world, verdict)
        if change is None or change.setting != "workspace.allow_absolute" or not absolute:
            return verdict
        touches, world = change.apply((touches, world))
        verdict = decide(touches, world)
    return verdict


def _really(runtime: Runtime, found: Explanation, change: Suggestion, given: Mapping[str, Any]) -> Decision:
    """How the call is judged once the tool is enabled: with it may come rules of its own."""
    touches, world = change.apply((found.touches, found.world))
    loaded = _loaded(given, enable=sorted(world.enable))
    bare = {rule.id for rule in found.world.rules}
    more = [rule for rule in _world(runtime, found, loaded).rules if rule.id not in bare]
    return min(change.flips_to, decide(touches, replace(world, rules=(*world.rules, *more))).decision)


def _loaded(given: Mapping[str, Any], *, enable: list[str] | None = None, trust: Any = None) -> Loaded:
    """The settings as they would be."""
    from handrail.front.cli._common import workspace_of
    from handrail.front.cli._settings import config_of
    from handrail.settings import load

    workspace = workspace_of(given)
    config = config_of(given, workspace)
    named = enable if enable is not None else list(given.get("enable") or ())
    return load(
        Path(workspace),
        config=Path(config) if isinstance(config, str) else config,
        flags={"tools.enable": named} if named else {},
        environment=os.environ,
        trust=trust,
    )


def _world(runtime: Runtime, found: Explanation, loaded: Loaded) -> World:
    """The world of the call under other settings, with all that belongs to the call itself."""
    from handrail.words import Root
    from handrail.worlds import Ground, Options, Worlds

    parts, was, workspace = runtime.parts, found.world, loaded.settings.workspace
    further = [Root(path, path, False) for path in workspace.read] + [
        Root(path, path, True) for path in workspace.write
    ]
    known = {root.path for root in was.roots}
    roots = (*was.roots, *(root for root in further if root.path not in known))
    options = Options(Path(loaded.workspace), caller=parts.caller)
    ground = Ground(
        options, parts.clock, loaded, parts.folder, parts.journal, parts.redactor, roots, find_own_code(roots)
    )
    kept = ("skill_name", "skill_tools", "permissions", "caller", "grants", "digest", "now", "run_id", "repositories")
    return replace(Worlds(ground).of(found.tool), **{name: getattr(was, name) for name in kept})


# ── where a line belongs ─────────────────────────────────────────────────────────────────────


def placed(toml: str, loaded: Loaded) -> list[str]:
    """A change's TOML as it fits into the settings file there is: no table stands in a file twice."""
    if not loaded.files or not toml:
        return toml.splitlines()
    from handrail.settings.files import PYPROJECT, PYPROJECT_TABLE
    from handrail.settings.lines import Lines

    file = loaded.files[-1]
    lines, rows = Lines(file.text).found, file.text.splitlines()
    prefix: tuple[str, ...] = PYPROJECT_TABLE if os.path.basename(file.path) == PYPROJECT else ()
    shown = os.path.relpath(file.path, loaded.workspace) if file.layer == "project" else file.path
    told, section, dotted = [], "", False
    for line in toml.splitlines():
        if line.startswith("[["):
            section = ""
            told.append(f"[[{'.'.join((*prefix, line.strip('[]')))}]]")
        elif line.startswith("["):
            section = line.strip("[]")
            at = lines.get((*prefix, section), 0)
            dotted = at > 0 and not rows[at - 1].lstrip().startswith("[")
            header = f"[{'.'.join((*prefix, section))}]"
            told.append(f"# {_where(header, f'{shown}:{at}', dotted=dotted)}" if at else header)
        else:
            name = line.partition(" = ")[0]
            at = lines.get((*prefix, section, name), 0) if section else 0
            row = f"{section}.{line}" if section and dotted else line
            told.append(f"{row}  # in place of {shown}:{at}" if at else row)
    return told


def _where(header: str, place: str, *, dotted: bool) -> str:
    return f"beside the line at {place}" if dotted else f"in the {header} table at {place}"


def trusted_next(change: Suggestion, loaded: Loaded) -> list[str]:
    """The step after a change of the project's file, which counts only once it is trusted again."""
    if change.toml and loaded.files and loaded.files[-1].layer == "project":
        return [f"  a changed {os.path.basename(loaded.files[-1].path)} counts once it is trusted: {TRUST}"]
    return []


# ── what comes later ─────────────────────────────────────────────────────────────────────────


def notes(found: Explanation, loaded: Loaded) -> list[str]:
    """What the verdict leaves open: addresses that are looked up later, and networks that programs do not have."""
    return [*_names(found), *_programs(found, loaded)]


def _names(found: Explanation) -> Iterator[str]:
    from handrail.net.gate import is_address

    names = [host for _, host in _hosts(found.touches) if not is_address(host)]
    if names and found.verdict.decision is not Decision.DENY:
        where = ", ".join(dict.fromkeys(names))
        yield f"  where {where} leads is looked up at connect time: an address that is not public is refused then,"
        yield "  unless http.allowed_networks names it"


def _programs(found: Explanation, loaded: Loaded) -> Iterator[str]:
    """Name the setting that a command needs beside a rule, where it is known to reach out."""
    import json

    from handrail.policy.patterns import host_matches
    from handrail.policy.reaching import hosts_of, reaches_out

    plan = found.confinement
    if plan is None or "error" in plan or plan["tier"] == "none":
        return
    allowed = loaded.settings.exec.allowed_hosts
    for touch in found.touches:
        if touch.kind is not TouchKind.PROC_EXEC or not reaches_out(touch.words):
            continue
        more = [host for host in hosts_of(touch.words) if not any(host_matches(item, host) for item in allowed)]
        if not more and allowed:
            continue
        if loaded.settings.exec.hosts == "ask" and plan["tier"] == "A":
            named = ", ".join(more) or "hosts that exec.allowed_hosts does not name"
            yield f"  {touch.words[0]} reaches out: a person is asked for {named} once the command connects"
            continue
        lacks = "has no network" if not allowed else f"does not reach {', '.join(more)}"
        named = ", ".join(more) or "the hosts it needs"
        yield f"  {touch.words[0]} reaches out, but its sandbox {lacks}: name {named} in exec.allowed_hosts, too"
        if more:
            toml = f"[exec]\nallowed_hosts = {json.dumps([*allowed, *more])}"
            yield from (f"      {line}" for line in placed(toml, loaded))
