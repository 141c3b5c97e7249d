"""handrail tools: what there is to call."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import CONFIG, DIALECT, JSON, WORKSPACE, console, dialect_of, loaded, print_json
from handrail.spelling import nearest

if TYPE_CHECKING:
    from handrail.catalog import Tool

RISK = {"low": "green", "medium": "yellow", "high": "red"}
NARROW = 72  # columns of a terminal in which a table has no room for words


@click.group("tools", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the tools, or show one."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tools)


def _known(given: Mapping[str, Any]) -> Iterator[tuple[Tool, bool]]:
    """Every tool with whether it is enabled here; no run is opened for that."""
    from handrail.catalog import Catalog
    from handrail.packages import entry_point_tools
    from handrail.policy.enablement import enabled
    from handrail.policy.world import ToolFacts
    from handrail.tools import builtin

    settings = loaded(given).settings
    on, off = settings.enabled, frozenset(settings.tools.disable)
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
@DIALECT
@WORKSPACE
@CONFIG
@JSON
def list_tools(**given: Any) -> None:
    """List the tools, with those that are off; as JSON with their specifications for function-calling APIs."""
    found = sorted(_known(given), key=lambda item: (item[0].toolset, item[0].name))
    found = [item for item in found if item[1] or not given["enabled"]]
    if given["as_json"]:
        from handrail.dialects.specs import specs

        print_json(specs(dialect_of(given["dialect"]), found, every=True))
        return
    from handrail.front.cli._tables import plain, print_rows

    rows = []
    for name, says, tool, on in _named(given["dialect"], found):
        risk, says = tool.risk.value, plain(says.split("\n")[0])
        state = "" if on else "[yellow]off[/]"
        says = says if on else f"[dim]{says}[/]"
        rows.append((plain(name), plain(tool.toolset), f"[{RISK[risk]}]{risk}[/]", state, says))
    print_rows(console(), ("tool", "set", "risk", "", "what it does"), rows, ("what it does",))
    if any(not on for _, on in found):
        sys.stderr.write(
            "off: not in `tools.enable` of the settings, or in `tools.disable`; `handrail init` writes both\n"
        )


def _named(dialect: str | None, found: list[tuple[Tool, bool]]) -> Iterator[tuple[str, str, Tool, bool]]:
    """The tools under the names of a dialect, exactly those of its document."""
    spoken = dialect_of(dialect)
    if spoken.name == "native":
        yield from ((tool.name, tool.description, tool, on) for tool, on in found)
        return
    known = {tool.name: (tool, on) for tool, on in found}
    yield from ((w.name, w.says, *known[w.ours]) for w in spoken.words.values() if w.ours in known)


@command.command("show")
@click.argument("name")
@DIALECT
@WORKSPACE
@CONFIG
@JSON
def show_tool(name: str, **given: Any) -> int:
    """Show one tool: arguments, result, risk, what it touches."""
    if dialect_of(given["dialect"]).name != "native":
        return _show_word(name, given)
    found = {tool.name: (tool, on) for tool, on in _known(given)}
    if name not in found:
        near = nearest(name, found, 1, 0.4)
        hint = f"Did you mean {near[0]}?" if near else "`handrail tools` lists them."
        raise click.UsageError(f"There is no tool {name!r}. {hint}")
    tool, on = found[name]
    if given["as_json"]:
        print_json({**tool.spec(), "enabled": on})
        return 0
    _describe({**tool.spec(), "enabled": on})
    return 0


def _show_word(name: str, given: Mapping[str, Any]) -> int:
    """Show one tool of a dialect's document."""
    from handrail.dialects.specs import spec

    word = dialect_of(given["dialect"]).word(name)
    known = {tool.name: (tool, on) for tool, on in _known(given)}
    tool, on = known[word.ours]
    told = {**spec(word, tool), "enabled": on}
    if given["as_json"]:
        print_json(told)
    else:
        _describe(told)
    return 0


def _describe(spec: Mapping[str, Any]) -> None:
    from rich.padding import Padding

    from handrail.front.cli._tables import plain, wrapped

    out, risk, schema = console(), spec["risk"], spec["args_schema"]
    state = "enabled" if spec["enabled"] else "[yellow]not enabled[/]"
    out.print(f"[bold]{plain(spec['name'])}[/] {spec['version']}   [{RISK[risk]}]{risk} risk[/]   {state}")
    for line in spec["description"].splitlines():
        out.print(plain(line))
    out.print()
    rows = [
        (
            plain(name),
            plain(_kind(field)),
            "[bold]required[/]" if name in schema.get("required", ()) else plain(_json(field.get("default"))),
            plain(field.get("description", "")),
        )
        for name, field in schema["properties"].items()
    ]
    if out.width < NARROW:
        for name, kind, default, about in rows:
            out.print(f"[bold]{name}[/]: {'; '.join(filter(None, (kind, default)))}")
            if about:
                out.print(Padding(about, (0, 0, 0, 2), expand=False))
    elif rows:
        table = wrapped("argument", "type", "default", "", wrap=("type", ""))
        for row in rows:
            table.add_row(*row)
        out.print(table)
    out.print(f"\ntouches: {', '.join(spec['required_permissions']) or 'nothing'}")


def _kind(schema: Mapping[str, Any]) -> str:
    choices = [schema, *schema.get("anyOf", ())]
    if any("enum" in item for item in choices):
        return " | ".join(str(word) for item in choices for word in item.get("enum", ()))
    kinds = [item["type"] for item in choices if item.get("type", "null") != "null"]
    return " or ".join(kinds) or "object"


def _json(value: Any) -> str:
    import orjson

    return "" if value is None else orjson.dumps(value, default=str).decode()
