"""The effective policy as people look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from handrail.front.cli._tables import DECISION, coloured, plain, print_rows

_EXAMPLES = {
    "an existing file": "existing",
    "a new file": "new",
    "a folder and all below": "folder",
    "GET or HEAD": "GET",
    "another method": "POST",
}


def policy_table(out: Console, policy: Mapping[str, Any]) -> None:
    """Print what holds for every tool, then each tool with its typical calls, then the rules."""
    asked = "a person is asked" if policy.get("mode") == "interactive" else "nobody is asked: ask is a refusal"
    out.print(f"[bold]policy[/] {policy['digest'][:16]}   {policy.get('mode')}: {asked}")
    for root in policy.get("roots", ()):
        if not root["name"].startswith("run:"):
            out.print(f"  {'read and write' if root['writable'] else 'read'} beneath {plain(root['path'])}")
    if policy.get("protected"):
        out.print(f"  never: {plain(', '.join(policy['protected']))}, keys, credentials, handrail's own files")
    out.print()
    _tools(out, policy["tools"])
    if policy.get("rules"):
        out.print()
        _rules(out, policy["rules"])


def _tools(out: Console, tools: Mapping[str, Any]) -> None:
    rows: list[tuple[str, ...]] = []
    for name, tool in tools.items():
        if not tool["enabled"]:
            rows.append((plain(name), "", "", coloured("deny", DECISION), "[dim]not enabled[/]"))
            continue
        for number, touch in enumerate(tool["touches"]):
            rows.append(
                (
                    plain(name) if number == 0 else "",
                    plain(touch["touch"]),
                    plain(_EXAMPLES.get(touch["example"], touch["example"] if touch["touch"] != "tool.use" else "")),
                    coloured(touch["result"], DECISION),
                    plain(" ".join(_because(touch))),
                )
            )
    print_rows(out, ("tool", "touch", "of", "result", "because"), rows, ("because", "of"))


def _because(touch: Mapping[str, Any]) -> Iterator[str]:
    """The findings that made the result, with their places; what other rules may add is named after them."""
    findings = [item for source, found in touch["by"].items() if source != "mode" for item in found]
    deciding = [item for item in findings if item["says"] == touch["result"]]
    for item in deciding:
        yield _placed(item)
    named = {item["rule"] for item in deciding}
    others = [rule for rule in touch["rules"] if rule["id"] not in named]
    if others:
        yield "+ " + ", ".join(rule["id"] for rule in others)


def _placed(item: Mapping[str, Any]) -> str:
    return f"{item['rule']} ({item['where']})" if item["where"] else str(item["rule"])


def _rules(out: Console, rules: Sequence[Mapping[str, Any]]) -> None:
    about = ("tool", "touch", "target", "skill", "caller")
    rows = [
        (
            plain(rule["id"]),
            coloured(rule["effect"], DECISION),
            plain(" ".join(rule[name] for name in about if rule.get(name))),
            plain(rule["where"]),
            plain(rule["why"]),
        )
        for rule in rules
    ]
    print_rows(out, ("rule", "effect", "for", "where", "why"), rows, ("why", "for", "where"))
