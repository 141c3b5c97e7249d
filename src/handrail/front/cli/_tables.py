"""Runs and policies as people look at them: tables and trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from handrail.approvals.show import visible

STATUS = {"ok": "green", "failed": "red", "denied": "red", "pending": "yellow", "unknown": "magenta"}
DECISION = {"allow": "green", "ask": "yellow", "deny": "red"}


def plain(value: Any) -> str:
    """Text that can do nothing to a terminal or to our markup."""
    return escape(visible(str(value)))


def runs_table(out: Console, found: Sequence[Any]) -> None:
    """The runs, newest first."""
    if not found:
        out.print("no runs yet")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "started", "events", "workspace", "state"):
        table.add_column(name, no_wrap=True)
    for item in found:
        started = datetime.fromisoformat(item.started).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        state = "finished" if item.last_kind == "run.finished" else "open, or ended without closing"
        workspace = item.description.get("workspace", "")
        table.add_row(plain(item.run_id), started, str(item.events), plain(workspace), state)
    out.print(table)


def calls_of(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry a call: how it was judged, how it ended, what it changed."""
    calls: dict[str, dict[str, Any]] = {}
    for event in events:
        call_id = event.get("call_id")
        if call_id is None:
            continue
        call = calls.setdefault(call_id, {"call_id": call_id, "status": "unknown", "notes": []})
        kind = event["kind"]
        if kind == "tool.started" or event.get("started") is False:
            verdict = event.get("verdict") or {}
            call |= {"ts": event["ts"], "tool": event.get("tool"), "args": event.get("args")}
            call |= {"decision": verdict.get("decision"), "parent": event.get("parent")}
            call["rules"] = [finding["rule"] for finding in verdict.get("findings", ())]
        if kind in ("tool.completed", "tool.failed"):
            call |= {"status": event["status"], "code": event.get("code"), "duration_ms": event["duration_ms"]}
            call |= {"changed": event.get("files_changed", []), "redacted": event.get("redacted", False)}
            call |= {"effect": event.get("effect"), "message": event.get("message")}
        elif not kind.startswith("tool."):
            call["notes"].append(_note(event))
    return [call for call in calls.values() if "tool" in call]


def _note(event: Mapping[str, Any]) -> str:
    kind = event["kind"]
    if kind == "approval.required":
        return f"asked: {event['request'].get('reason', '')}"
    if kind == "approval.granted":
        return f"granted by {event.get('by') or 'somebody'} ({event.get('scope')})"
    if kind == "approval.denied":
        return f"refused by {event.get('by') or 'somebody'}: {event.get('advice') or event.get('state')}"
    if kind == "display":
        return f"shown: {str(event.get('content', ''))[:100]}"
    if kind == "undo.applied":
        return f"took back {', '.join(event.get('calls', ()))}"
    return str(kind)


def run_table(out: Console, folder: Path, calls: Sequence[Mapping[str, Any]]) -> None:
    """The calls of one run."""
    out.print(f"[bold]run[/] {plain(folder.name)}   {len(calls)} calls")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("call", "tool", "decision", "status", "ms", "changed", "arguments"):
        table.add_column(name, no_wrap=name != "arguments")
    for call in calls:
        status, decision = call["status"], call.get("decision") or ""
        table.add_row(
            plain(call["call_id"][-12:]),
            plain(call["tool"]),
            f"[{DECISION.get(decision, 'dim')}]{decision or '-'}[/]",
            f"[{STATUS.get(status, 'white')}]{plain(call.get('code') or status)}[/]",
            f"{call.get('duration_ms', 0):.1f}",
            str(len(call.get("changed", ()))) if call.get("changed") else "",
            plain(_short(call.get("args"))),
        )
    out.print(table)


def _short(args: Any) -> str:
    if not isinstance(args, Mapping):
        return str(args)[:80]
    given = {name: value for name, value in args.items() if value not in (None, False, [], {})}
    text = "  ".join(f"{name}={value}" for name, value in given.items())
    return text if len(text) <= 120 else f"{text[:117]}…"


def run_tree(name: str, events: Iterable[Mapping[str, Any]]) -> Tree:
    """A run drawn as a tree: calls, below them what was asked, decided, changed."""
    tree = Tree(f"[bold]run[/] {plain(name)}")
    nodes: dict[str, Tree] = {}
    for call in calls_of(events):
        status = call["status"]
        label = f"[{STATUS.get(status, 'white')}]●[/] [bold]{plain(call['tool'])}[/] {plain(_short(call.get('args')))}"
        node = nodes.get(call.get("parent") or "", tree).add(label)
        nodes[call["call_id"]] = node
        decision = call.get("decision") or "-"
        node.add(f"[{DECISION.get(decision, 'dim')}]{decision}[/] [dim]{plain(', '.join(call.get('rules', ())))}[/]")
        for note in call["notes"]:
            node.add(f"[yellow]{plain(note)}[/]")
        for change in call.get("changed", ()):
            node.add(f"[cyan]{plain(change['op'])}[/] {plain(change['path'])}")
        took = f"[dim]{call.get('duration_ms', 0):.1f} ms[/]"
        hidden = " [magenta]secrets hidden[/]" if call.get("redacted") else ""
        node.add(f"[{STATUS.get(status, 'white')}]{plain(call.get('code') or status)}[/] {took}{hidden}")
    return tree


def policy_table(out: Console, policy: Mapping[str, Any]) -> None:
    """The effective policy."""
    out.print(f"[bold]policy[/] {policy['digest'][:16]}   mode {policy.get('mode')}")
    for root in policy.get("roots", ()):
        out.print(f"  root {plain(root)}", markup=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("tool", "enabled", "touch", "result", "because"):
        table.add_column(name, no_wrap=name != "because")
    for tool in policy["tools"]:
        for number, touch in enumerate(tool["touches"]):
            decision = touch["decision"]
            table.add_row(
                plain(tool["name"]) if number == 0 else "",
                ("yes" if tool["enabled"] else "[dim]no[/]") if number == 0 else "",
                plain(touch["kind"]),
                f"[{DECISION.get(decision, 'dim')}]{decision}[/]",
                plain(", ".join(touch["rules"])),
            )
    out.print(table)
