"""handrail config: settings, where each comes from, and trust in a project's file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import console

WORKSPACE = click.option("--workspace", "-w", default=".", type=click.Path(file_okay=False), help="the folder whose settings count")


@click.group("config")
def command() -> None:
    """Show settings and where each comes from; trust a project's file."""


@command.command("show")
@click.option("--origin", is_flag=True, help="say where each value comes from")
@click.option("--config", "-c", type=click.Path(dir_okay=False), help="a settings file instead of the usual ones")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
@WORKSPACE
def show(workspace: str, origin: bool, config: str | None, as_json: bool) -> None:
    """Print the settings in force."""
    from handrail.settings import keys, load

    loaded = load(Path(workspace), config=Path(config) if config else None, environment=os.environ)
    found = {key.name: _value(loaded.settings, key.name) for key in keys()}
    for warning in loaded.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    if as_json:
        import orjson

        told = {name: {"value": value, "origin": loaded.origins[name].where} for name, value in found.items()}
        rules = [{"id": rule.id, "where": rule.where, "effect": rule.effect} for rule in loaded.settings.rules]
        sys.stdout.write(orjson.dumps({**told, "rules": rules}, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("setting", "value", *(["from"] if origin else [])):
        table.add_column(name, no_wrap=name == "setting")
    for name, value in found.items():
        where = loaded.origins[name].where
        table.add_row(name, escape(_text(value)), *([f"[dim]{escape(where)}[/]"] if origin else []))
    for rule in loaded.settings.rules:
        parts = [rule.effect, rule.tool or "", rule.touch or "", rule.target or ""]
        table.add_row(rule.id, escape(" ".join(part for part in parts if part)), *([escape(rule.where)] if origin else []))
    console().print(table)


@command.command("trust")
@click.option("--forget", is_flag=True, help="take the trust back")
@WORKSPACE
def trust(workspace: str, forget: bool) -> int:
    """Trust this project's settings file as it stands now; any later change needs a new look."""
    from handrail.settings import load, trust_store

    loaded = load(Path(workspace), environment=os.environ)
    files = [item for item in loaded.files if item.layer == "project"]
    if not files:
        raise click.UsageError("There is no project settings file here (handrail.toml or [tool.handrail]).")
    store = trust_store()
    for item in files:
        if forget:
            store.forget(Path(item.path))
            sys.stderr.write(f"no longer trusted: {item.path}\n")
            continue
        console().print(item.text, markup=False)
        store.trust(Path(item.path), item.pin)
        sys.stderr.write(f"trusted: {item.path} (sha256 {item.sha256[:16]}…)\n")
    return 0


def _value(settings: Any, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return list(settings) if isinstance(settings, tuple) else settings


def _text(value: Any) -> str:
    import json

    return json.dumps(value, default=str)
