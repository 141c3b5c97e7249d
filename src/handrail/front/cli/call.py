"""handrail call: one governed call, from a terminal or a script."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from handrail import strict_json
from handrail.words import Outcome, Status

EXIT = {Status.OK: 0, Status.FAILED: 1, Status.DENIED: 3, Status.PENDING: 4}


@click.command("call")
@click.argument("tool", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option("--args", "raw", metavar="JSON|@FILE", help="all arguments as one JSON object, or a file that holds it")
@click.option("--workspace", "-w", default=".", type=click.Path(file_okay=False), help="the folder to work in")
@click.option("--config", "-c", type=click.Path(dir_okay=False), help="a settings file instead of the usual ones")
@click.option("--run", "run_id", metavar="NAME", help="a run to go on with, or the name of a new one")
@click.option("--enable", multiple=True, metavar="TOOL", help="enable a tool or toolset for this call")
@click.option("--headless", is_flag=True, help="never ask; a call that must be asked for ends as pending")
@click.option("--approve", is_flag=True, help="see the request at this terminal, approve and run in one go")
@click.option("--approval", metavar="ID", help="replay exactly the request that was approved")
@click.option("--key", "idempotency_key", metavar="KEY", help="idempotency key")
@click.option("--permissions", metavar="KINDS", help="limit the call to these kinds of touch, separated by commas")
@click.option("--skill", metavar="NAME", help="the skill on whose behalf the call is made")
@click.option("--json", "as_json", is_flag=True, help="print the whole outcome as one JSON document")
@click.option("--live", is_flag=True, help="show what happens while it happens")
def command(**given: Any) -> int:
    """Make one governed call.

    \b
    handrail call read_file path=README.md
    handrail call grep pattern=TODO path=src limit=20
    handrail call edit_file --args @edit.json
    """
    if given["approval"] is not None:
        from handrail.front.cli._replay import replay

        return replay(given)
    if not given["tool"]:
        raise click.UsageError("Name a tool; `handrail tools` lists them.")
    args = arguments(given["pairs"], given["raw"])
    outcome = asyncio.run(_call(given, args))
    return show(outcome, as_json=given["as_json"])


def arguments(pairs: Sequence[str], raw: str | None) -> dict[str, Any]:
    """Read `key=value` pairs and `--args`; a value that is JSON and no plain text is taken as such."""
    args: dict[str, Any] = {}
    if raw is not None:
        try:
            text = Path(raw[1:]).read_text() if raw.startswith("@") else raw
            loaded = strict_json.loads(text)
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--args: {error}") from None
        if not isinstance(loaded, dict):
            raise click.UsageError("--args: a JSON object is needed")
        args.update(loaded)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r}: write arguments as key=value, or all of them as --args JSON")
        if name in args:
            raise click.UsageError(f"the argument {name!r} is given twice")
        args[name] = value
    return args


def typed(tool: Any, args: Mapping[str, Any], plain: Sequence[str]) -> dict[str, Any]:
    """Take a pair's text as the type that the tool's schema asks for; what does not fit is left for the kernel."""
    properties = tool.spec()["args_schema"]["properties"]
    return {
        name: _as(value, properties.get(name, {})) if name in plain and isinstance(value, str) else value
        for name, value in args.items()
    }


def _as(text: str, schema: Mapping[str, Any]) -> Any:
    kinds = {schema.get("type"), *(item.get("type") for item in schema.get("anyOf", ()))}
    if kinds <= {"string", None, "null"} and kinds & {"string"}:
        return text
    try:
        return strict_json.loads(text)
    except ValueError:
        return text


async def _call(given: Mapping[str, Any], args: dict[str, Any]) -> Outcome:
    from handrail.errors import Problem
    from handrail.front.cli._common import opened

    plain = [pair.partition("=")[0] for pair in given["pairs"]]
    async with opened(given) as runtime:
        try:
            args = typed(runtime.parts.catalog.get(given["tool"]), args, plain)
        except Problem:
            pass  # an unknown tool is the kernel's to tell
        permissions = given["permissions"]
        return await runtime.call(
            given["tool"],
            args,
            idempotency_key=given["idempotency_key"],
            permissions=None if permissions is None else [item.strip() for item in permissions.split(",") if item.strip()],
            skill=given["skill"],
        )


def show(outcome: Outcome, *, as_json: bool) -> int:
    """Print an outcome: data on stdout, the rest on stderr; give the exit code."""
    if as_json:
        import orjson

        sys.stdout.write(orjson.dumps(outcome.to_dict(), option=orjson.OPT_INDENT_2, default=str).decode() + "\n")
        return exit_code(outcome)
    stream = sys.stdout if outcome.ok else sys.stderr
    text = outcome.content
    stream.write(text if text.endswith("\n") else f"{text}\n")
    for warning in outcome.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    if outcome.status is Status.PENDING and outcome.error is not None:
        sys.stderr.write(f"approval: {outcome.error.details.get('approval', {}).get('id', '')}\n")
    return exit_code(outcome)


def exit_code(outcome: Outcome) -> int:
    """0 done, 1 failed, 3 denied, 4 pending, 124 timed out."""
    if outcome.error is not None and outcome.error.code == "TIMEOUT":
        return 124
    return EXIT[outcome.status]
