"""handrail policy: what is allowed here, and why."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import console, opened
from handrail.front.cli.call import arguments, typed

WORKSPACE = click.option("--workspace", "-w", default=".", type=click.Path(file_okay=False), help="the folder to judge for")
CONFIG = click.option("--config", "-c", type=click.Path(dir_okay=False), help="a settings file instead of the usual ones")
JSON = click.option("--json", "as_json", is_flag=True, help="print one JSON document")
COLOUR = {"allow": "green", "ask": "yellow", "deny": "red"}


@click.group("policy")
def command() -> None:
    """Show, check, explain and test what is allowed."""


@command.command("show")
@WORKSPACE
@CONFIG
@JSON
def show(**given: Any) -> None:
    """Print the effective policy: for each tool the result, and what each source contributed."""

    async def policy() -> dict[str, Any]:
        async with opened(given) as runtime:
            return runtime.policy()

    found = asyncio.run(policy())
    if given["as_json"]:
        _print_json(found)
        return
    from handrail.front.cli._tables import policy_table

    policy_table(console(), found)


@command.command("explain")
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option("--args", "raw", metavar="JSON|@FILE", help="all arguments as one JSON object")
@click.option("--enable", multiple=True, metavar="TOOL", help="explain as if this tool or toolset were enabled")
@WORKSPACE
@CONFIG
@JSON
def explain(**given: Any) -> int:
    """Say how a call would be judged: touches, findings with file and line, and the smallest change that alters it."""
    from handrail.errors import Problem
    from handrail.policy.explain import explain_lines, smallest_change

    args = arguments(given["pairs"], given["raw"])

    async def explained() -> Any:
        async with opened(given) as runtime:
            plain = [pair.partition("=")[0] for pair in given["pairs"]]
            values = typed(runtime.parts.catalog.get(given["tool"]), args, plain)
            return runtime.explanation(given["tool"], values)

    try:
        found = asyncio.run(explained())
    except Problem as problem:
        raise click.UsageError(f"{problem.code}: {problem.message}") from None
    change = smallest_change(found.touches, found.world, found.verdict)
    word = found.verdict.decision.word
    if given["as_json"]:
        from handrail import record

        fields = record.verdict_fields(found.touches, found.verdict, "")
        _print_json({"decision": word, **fields, "change": None if change is None else change.text})
    else:
        for line in explain_lines(found.tool.name, found.touches, found.verdict, change):
            console().print(line, style=COLOUR.get(line.strip().rstrip("."), None), markup=False)
    return {"allow": 0, "ask": 4, "deny": 3}[word]


@command.command("test")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@WORKSPACE
@CONFIG
def test(file: str, **given: Any) -> int:
    """Run a table of calls and expected verdicts."""
    from handrail.policy.table import judge, parse

    cases = parse(Path(file).read_text(), file)

    async def judged() -> list[Any]:
        async with opened(given) as runtime:
            return [judge(case, runtime.explain) for case in cases]

    failures = [failure for failure in asyncio.run(judged()) if failure is not None]
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    sys.stdout.write(f"{len(cases) - len(failures)} passed, {len(failures)} failed\n")
    return 1 if failures else 0


@command.command("check")
@WORKSPACE
@CONFIG
@JSON
def check(**given: Any) -> int:
    """Lint the settings: rules that can never match, allow rules that are too broad, secrets in the file."""
    from handrail.settings import load
    from handrail.settings.lint import lint

    config = given["config"]
    loaded = load(Path(given["workspace"]), config=Path(config) if config else None, environment=os.environ)
    found = lint(loaded)
    if given["as_json"]:
        _print_json([_lint_fields(item) for item in found])
    for item in [] if given["as_json"] else found:
        console().print(f"{item.level:8} {item.where}  {item.text}", markup=False)
        if item.fix:
            console().print(f"         → {item.fix}", markup=False)
    if not found and not given["as_json"]:
        sys.stdout.write("nothing to complain about\n")
    return 1 if any(item.level == "error" for item in found) else 0


def _lint_fields(item: Any) -> dict[str, Any]:
    return {"level": item.level, "where": item.where, "text": item.text, "fix": item.fix}


def _print_json(value: Mapping[str, Any] | list[Any]) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")
