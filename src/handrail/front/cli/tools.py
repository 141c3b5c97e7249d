"""handrail tools: what there is to call."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from handrail.front.cli._common import console

RISK = {"low": "green", "medium": "yellow", "high": "red"}


@click.group("tools", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the tools, or show one."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tools)


def _known(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every tool with whether it is enabled here; no run is opened for that."""
    import os
    from pathlib import Path

    from handrail.compose import entry_point_tools
    from handrail.policy.enablement import enabled
    from handrail.policy.world import ToolFacts
    from handrail.settings import load
    from handrail.tool import Catalog
    from handrail.tools import builtin

    config = given.get("config")
    loaded = load(Path(given.get("workspace") or "."), config=Path(config) if config else None, environment=os.environ)
    on, off = frozenset(loaded.settings.tools.enable), frozenset(loaded.settings.tools.disable)
    return [
        {**tool.spec(), "enabled": enabled(ToolFacts(tool.name, tool.toolset, tool.risk, ask_first=tool.ask_first), on, off)}
        for tool in Catalog(lazy=builtin(), more=entry_point_tools)
        if tool.offered
    ]


@command.command("list")
@click.option("--workspace", "-w", default=".", type=click.Path(file_okay=False), help="the folder whose settings count")
@click.option("--config", "-c", type=click.Path(dir_okay=False), help="a settings file instead of the usual ones")
@click.option("--all", "every", is_flag=True, default=False, help="show those that are not enabled, too")
@click.option("--json", "as_json", is_flag=True, help="print the specifications as one JSON document")
def list_tools(**given: Any) -> None:
    """List the tools that settings offer."""
    specs = [spec for spec in _known(given) if spec["enabled"] or given["every"] or not given["as_json"]]
    if given["as_json"]:
        import orjson

        sys.stdout.write(orjson.dumps(specs, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("tool", "toolset", "risk", "touches", "", "what it does"):
        table.add_column(name, no_wrap=name not in ("what it does", "touches"))
    for spec in sorted(specs, key=lambda item: (item["toolset"], item["name"])):
        risk = spec["risk"]
        table.add_row(
            spec["name"],
            spec["toolset"],
            f"[{RISK[risk]}]{risk}[/]",
            ", ".join(spec["required_permissions"]) or "nothing",
            "" if spec["enabled"] else "[dim]off[/]",
            spec["description"].split("\n")[0],
        )
    console().print(table)


@command.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="print the specification as one JSON document")
def show_tool(name: str, as_json: bool) -> int:
    """Show one tool: arguments, result, risk, what it touches."""
    import difflib

    specs = {spec["name"]: spec for spec in _known({})}
    if name not in specs:
        near = difflib.get_close_matches(name, specs, 1, 0.4)
        raise click.UsageError(f"There is no tool {name!r}.{f' Did you mean {near[0]}?' if near else ''}")
    spec = specs[name]
    import orjson

    if as_json:
        sys.stdout.write(orjson.dumps(spec, option=orjson.OPT_INDENT_2).decode() + "\n")
        return 0
    out = console()
    risk = spec["risk"]
    out.print(f"[bold]{name}[/] {spec['version']}   [{RISK[risk]}]{risk} risk[/]   {'on' if spec['enabled'] else 'off'}")
    out.print(f"{spec['description']}\n", markup=False)
    for argument, schema in spec["args_schema"]["properties"].items():
        out.print(_line(argument, schema, argument in spec["args_schema"].get("required", ())), markup=False)
    out.print(f"\ntouches: {', '.join(spec['required_permissions']) or 'nothing'}", markup=False)
    return 0


def _line(name: str, schema: Mapping[str, Any], required: bool) -> str:
    kinds = [schema.get("type"), *(item.get("type") for item in schema.get("anyOf", ()))]
    kind = " or ".join(item for item in kinds if item and item != "null") or "object"
    default = "required" if required else f"default {schema.get('default')!r}"
    return f"  {name:18} {kind:18} {default:22} {schema.get('description', '')}".rstrip()
