"""handrail config: settings, where each comes from, and trust in a project's file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import CONFIG, JSON, WORKSPACE, console, loaded, print_json


@click.group("config")
def command() -> None:
    """Show settings and where each comes from; trust a project's file."""


@command.command("show")
@click.option("--origin", is_flag=True, help="say where each value comes from")
@WORKSPACE
@CONFIG
@JSON
def show(origin: bool, **given: Any) -> None:
    """Print the settings in force."""
    from handrail.settings import keys

    found = loaded(given)
    values = {key.name: _value(found.settings, key.name) for key in keys()}
    rules = found.settings.rules
    if given["as_json"]:
        described = {
            name: {"value": value, "origin": found.describe_origin(name, value)} for name, value in values.items()
        }
        print_json({**described, "rules": [rule.model_dump(mode="json") for rule in rules]})
        return
    from handrail.front.cli._tables import plain, print_rows

    rows = [
        (plain(name), plain(_text(value)), plain(found.describe_origin(name, value))) for name, value in values.items()
    ]
    for rule in rules:
        parts = (rule.effect, rule.tool, rule.touch, rule.target, rule.skill, rule.caller)
        rows.append((plain(rule.id), plain(" ".join(part for part in parts if part)), plain(rule.where)))
    head = ("setting", "value", "from")
    shown = 3 if origin else 2
    print_rows(console(), head[:shown], [row[:shown] for row in rows], ("value",))


@command.command("trust")
@click.option("--forget", is_flag=True, help="take the trust back")
@click.option("--yes", is_flag=True, help="trust without being asked; needed where there is no terminal")
@WORKSPACE
def trust(forget: bool, yes: bool, **given: Any) -> int:
    """Trust this project's settings file as it stands now.

    Until then it can only narrow what is allowed. Any later change of the file needs a new look.
    """
    from handrail.approvals.show import visible
    from handrail.settings import trust_store

    files = [item for item in loaded(given, quiet=True).files if item.layer == "project"]
    if not files:
        raise click.UsageError("There is no project settings file here (handrail.toml, or [tool.handrail]).")
    store = trust_store()
    for item in files:
        if forget:
            known = store.forget(Path(item.path))
            sys.stderr.write(f"{'no longer trusted' if known else 'was not trusted'}: {item.path}\n")
            continue
        sys.stdout.write("".join(f"{visible(line)}\n" for line in item.text.splitlines()))
        if not yes and not _confirmed():
            sys.stderr.write(f"not trusted: {item.path}\n")
            return 1
        store.trust(Path(item.path), item.pin)
        sys.stderr.write(f"trusted as it stands above: {item.path} (sha256 {item.sha256[:16]}…)\n")
    return 0


def _confirmed() -> bool:
    """Ask at the terminal; where nobody can be asked, nobody has read the file."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write("Nobody can be asked here; read the file above, then repeat this with --yes.\n")
        return False
    return click.confirm("Trust this file as it stands above?", default=False, err=True)


def _value(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return list(settings) if isinstance(settings, tuple) else settings


def _text(value: Any) -> str:
    import json

    return json.dumps(value, default=str, ensure_ascii=False)
