"""Collect what other programs rely on: names, commands with flags, settings, error codes, tools with arguments."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

DOORS = ("handrail", "handrail.ports", "handrail.testing", "handrail.langchain", "handrail.openai_agents")


def collect() -> dict[str, list[str]]:
    """Collect everything, by kind, sorted."""
    return {
        "names": sorted(_exported()),
        "commands": sorted(_commands()),
        "settings": sorted(_settings()),
        "codes": sorted(_codes()),
        "tools": sorted(_tools()),
    }


def _exported() -> Iterator[str]:
    for door in DOORS:
        module = importlib.import_module(door)
        names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
        homes = getattr(module, "_HOMES", {})
        for group in homes.values():
            names = [*names, *group]
        yield from (f"{door}.{name}" for name in names if name[0].isupper() or door != "handrail.ports")


def _commands() -> Iterator[str]:
    import click

    from handrail.front.cli.root import handrail

    def walk(command: Any, path: str) -> Iterator[str]:
        for option in command.params:
            yield from (f"{path} {flag}" for flag in (option.opts or []) if flag.startswith("-"))
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield f"{path} {name}"
                yield from walk(command.get_command(context, name), f"{path} {name}")

    yield from walk(handrail, "handrail")


def _settings() -> Iterator[str]:
    from handrail.settings.model import Settings

    def walk(model: Any, path: str) -> Iterator[str]:
        for name, field in model.model_fields.items():
            shown = f"{path}{field.alias or name}"
            yield shown
            if hasattr(field.annotation, "model_fields"):
                yield from walk(field.annotation, f"{shown}.")

    yield from walk(Settings, "")


def _codes() -> Iterator[str]:
    from handrail.errors import FACTS

    yield from (f"{code.value} {facts.error_class} {facts.retryable}" for code, facts in FACTS.items())


def _tools() -> Iterator[str]:
    """List each tool with its arguments."""
    from handrail.tools import builtin

    for name, load in builtin().items():
        tool = load()
        yield f"{name} {tool.version}"
        yield from (f"{name} {argument}" for argument in tool.shape.args_schema()["properties"])


if __name__ == "__main__":
    import json
    import sys

    json.dump(collect(), sys.stdout, indent=1)
