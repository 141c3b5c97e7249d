"""handrail tools: what there is to call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import CONFIG, JSON, WORKSPACE, console, loaded, print_json

if TYPE_CHECKING:
    from handrail.catalog import Tool

RISK = {"low": "green", "medium": "yellow", "high": "red"}


@click.group("tools", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the tools, or show one."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tools)


def _known(given: Mapping[str, Any]) -> Iterator[tuple[Tool, bool]]:
    """Every tool with whether it is enabled here; no run is opened for that."""
    from handrail.catalog import Catalog
    from handrail.compose import entry_point_tools
    from handrail.policy.enablement import enabled
    from handrail.policy.world import ToolFacts
    from handrail.tools import builtin

    settings = loaded(given).settings.tools
    on, off = frozenset(settings.enable), frozenset(settings.disable)
    catalog = Catalog(lazy=builtin(), more=entry_point_tools)
    for name in catalog.names():
        try:
            tool = catalog.get(name)
        except Exception as error:  # noqa: BLE001  another package's tool must not hide the others
            sys.stderr.write(f"warning: the tool {name} cannot be loaded: {error}\n")
            continue
        if tool.offered:
            yield tool, enabled(ToolFacts(name, tool.toolset, tool.risk, ask_first=tool.ask_first), on, off)


@command.command("list")
@click.option("--enabled", is_flag=True, help="show only those that settings enable")
@WORKSPACE
@CONFIG
@JSON
def list_tools(**given: Any) -> None:
    """List the tools, with those that are off; as JSON with their specifications for function-calling APIs."""
    found = sorted(_known(given), key=lambda item: (item[0].toolset, item[0].name))
    found = [item for item in found if item[1] or not given["enabled"]]
    if given["as_json"]:
        print_json([{**tool.spec(), "enabled": on} for tool, on in found])
        return
    from handrail.front.cli._tables import plain, print_rows

    rows = []
    for tool, on in found:
        risk, says = tool.risk.value, plain(tool.description.split("\n")[0])
        state = "" if on else "[yellow]off[/]"
        says = says if on else f"[dim]{says}[/]"
        rows.append((plain(tool.name), plain(tool.toolset), f"[{RISK[risk]}]{risk}[/]", state, says))
    print_rows(console(), ("tool", "set", "risk", "", "what it does"), rows, ("what it does",))
    if any(not on for _, on in found):
        sys.stderr.write('off: not enabled in settings, such as `tools.enable = ["fs"]`; `handrail init` writes them\n')


@command.command("show")
@click.argument("name")
@WORKSPACE
@CONFIG
@JSON
def show_tool(name: str, **given: Any) -> int:
    """Show one tool: arguments, result, risk, what it touches."""
    import difflib

    found = {tool.name: (tool, on) for tool, on in _known(given)}
    if name not in found:
        near = difflib.get_close_matches(name, found, 1, 0.4)
        hint = f"Did you mean {near[0]}?" if near else "`handrail tools` lists them."
        raise click.UsageError(f"There is no tool {name!r}. {hint}")
    tool, on = found[name]
    if given["as_json"]:
        print_json({**tool.spec(), "enabled": on})
        return 0
    _describe(tool, on)
    return 0


def _describe(tool: Tool, on: bool) -> None:
    from handrail.front.cli._tables import plain, wrapped

    out, risk, schema = console(), tool.risk.value, tool.spec()["args_schema"]
    state = "enabled" if on else "[yellow]not enabled[/]"
    out.print(f"[bold]{plain(tool.name)}[/] {tool.version}   [{RISK[risk]}]{risk} risk[/]   {state}")
    out.print(f"{plain(tool.description)}\n")
    table = wrapped("argument", "type", "default", "", wrap=("type", ""))
    for name, field in schema["properties"].items():
        default = "[bold]required[/]" if name in schema.get("required", ()) else plain(_json(field.get("default")))
        table.add_row(plain(name), plain(_kind(field)), default, plain(field.get("description", "")))
    if schema["properties"]:
        out.print(table)
    out.print(f"\ntouches: {', '.join(tool.permissions) or 'nothing'}")


def _kind(schema: Mapping[str, Any]) -> str:
    choices = [schema, *schema.get("anyOf", ())]
    if any("enum" in item for item in choices):
        return " | ".join(str(word) for item in choices for word in item.get("enum", ()))
    kinds = [item["type"] for item in choices if item.get("type", "null") != "null"]
    return " or ".join(kinds) or "object"


def _json(value: Any) -> str:
    import orjson

    return "" if value is None else orjson.dumps(value, default=str).decode()
