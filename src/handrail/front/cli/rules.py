"""handrail rules: what is granted always in a workspace, beside the rules of its settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import CONFIG, JSON, WORKSPACE, clock, console, ledger, loaded, print_json

if TYPE_CHECKING:
    from handrail.policy.rules import Rule
    from handrail.ports import Request
    from handrail.settings import Loaded
    from handrail.words import Grant

ID = click.argument("rule_id", metavar="ID")
_LAPSED = "(not in force: the folder was moved, removed or replaced since)"


@click.group("rules")
def command() -> None:
    """List, show and remove what is granted always, beside the rules of the settings.

    A standing grant is an answer `always`: it lifts a question in one workspace and never a prohibition. It is kept in
    the user's own ledger, where no project can write.
    """


@command.command("list")
@click.option("--all", "every", is_flag=True, help="the standing grants of other workspaces, too")
@WORKSPACE
@CONFIG
@JSON
def list_rules(every: bool, **given: Any) -> None:
    """List the standing grants of this workspace and the rules of its settings, with where each comes from."""
    found = loaded(given)
    grants = [item for item in _standing() if every or item[1].workspace == _root(found)]
    rules = _rules(found)
    if given["as_json"]:
        print_json({"grants": [_grant_json(*item) for item in grants], "rules": [_rule_json(rule) for rule in rules]})
        return
    if not grants and not rules:
        sys.stderr.write("Nothing is granted always here, and the settings have no rules.\n")
        return
    from handrail.front.cli._tables import from_home, plain, print_rows

    head = ["id", "effect", "covers", "from"]
    rows = [[plain(grant.id), "allow", plain(_covers(grant, asked)), plain(_origin(grant))] for grant, asked in grants]
    rows += [[plain(rule.id), rule.effect.word, plain(_speaks_of(rule)), plain(rule.where)] for rule in rules]
    if every:
        head.append("workspace")
        places = [from_home(asked.workspace) for _, asked in grants] + [""] * len(rules)
        rows = [[*row, plain(place)] for row, place in zip(rows, places, strict=True)]
    print_rows(console(), head, rows, [name for name in ("covers", "from", "workspace") if name in head], fair=True)


@command.command("show")
@ID
@WORKSPACE
@CONFIG
@JSON
def show(rule_id: str, **given: Any) -> None:
    """Show a standing grant or a rule in full: what it covers, who gave it, when, and for which call."""
    found = next((item for item in _standing() if item[0].id == rule_id), None)
    rule = next((item for item in _rules(loaded(given)) if item.id == rule_id), None) if found is None else None
    if found is None and rule is None:
        raise _unknown(rule_id)
    facts = _grant_json(*found) if found is not None else _rule_json(rule)
    if given["as_json"]:
        print_json(facts)
        return
    from handrail.approvals.show import visible

    for name, value in facts.items():
        for text in value if isinstance(value, list) else [value]:
            if text not in ("", None):
                console().print(f"{name:<10} {visible(str(text))}", markup=False, highlight=False, soft_wrap=True)


@command.command("remove")
@ID
def remove(rule_id: str) -> int:
    """Remove a standing grant: what it covered is asked for again, also by servers that run."""
    from handrail.approvals.account import account

    if not any(grant.id == rule_id for grant, _ in _standing()):
        raise _unknown(rule_id, " Rules of settings are removed in their file.")
    taken = ledger().revoke(rule_id, account())
    sys.stderr.write("Removed: what it covered is asked for again.\n" if taken else "It was removed already.\n")
    return 0 if taken else 1


def _unknown(rule_id: str, more: str = "") -> click.UsageError:
    return click.UsageError(f"There is no rule {rule_id!r}; `handrail rules list --all` shows what is granted.{more}")


def _standing() -> Sequence[tuple[Grant, Request]]:
    return ledger().standing(clock().now())


def _root(found: Loaded) -> str:
    """The workspace as grants are kept for it: its canonical path."""
    import os

    return os.path.realpath(found.settings.workspace.root)


def _rules(found: Loaded) -> list[Rule]:
    from handrail.worlds import command_rules

    return [*(entry.rule() for entry in found.settings.rules), *command_rules(found.settings, found)]


def _covers(grant: Grant, asked: Request) -> str:
    from handrail.approvals.show import covered_by

    lapsed = [_LAPSED] if _has_lapsed(asked) else []
    return "; ".join([*lapsed, *covered_by(grant.tool, grant.touches), *_line(grant, asked)])


def _has_lapsed(asked: Request) -> bool:
    """Say whether another folder is now where the one was that a grant was given for."""
    from handrail.workspace.births import folder_mark

    return folder_mark(asked.workspace) != asked.folder


def _line(grant: Grant, asked: Request) -> list[str]:
    """The line of a grant for one exact line."""
    from handrail.policy.grants import EXACT

    exact = any(kind == EXACT for kind, _ in grant.touches)
    return [f"the line: {asked.params['command']}"] if exact and "command" in asked.params else []


def _origin(grant: Grant) -> str:
    return f"{grant.given_by}, {_day(grant.given_at)}"


def _day(at: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _speaks_of(rule: Rule) -> str:
    fields = ("tool", "touch", "target", "risk", "skill", "caller", "environment")
    given = [(name, getattr(rule, name)) for name in fields]
    return " ".join(f"{name}={value}" for name, value in given if value is not None) or "everything"


def _grant_json(grant: Grant, asked: Request) -> dict[str, Any]:
    from handrail.approvals.show import covered_by
    from handrail.store.ledger import FOREVER

    return {
        "id": grant.id,
        "effect": "allow",
        "workspace": asked.workspace,
        "tool": grant.tool,
        "covers": [*covered_by(grant.tool, grant.touches), *_line(grant, asked)],
        "given_by": grant.given_by,
        "given_at": _day(grant.given_at),
        "request": grant.request,
        "run": asked.run_id,
        "call": asked.call_id,
        "in_force": not _has_lapsed(asked),
        "expires": None if grant.expires >= FOREVER else _day(grant.expires),
    }


def _rule_json(rule: Rule | None) -> Mapping[str, Any]:
    assert rule is not None
    return {
        "id": rule.id,
        "effect": rule.effect.word,
        "covers": _speaks_of(rule),
        "why": rule.why,
        "where": rule.where,
    }
