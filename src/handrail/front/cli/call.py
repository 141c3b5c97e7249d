"""handrail call: one governed call, from a terminal or a script."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from handrail import strict_json
from handrail.front.cli._common import (
    CONFIG,
    DIALECT,
    JSON,
    WORKSPACE,
    dialect_of,
    harmless,
    opened,
    print_json,
    run_async,
    unknown,
)
from handrail.words import Outcome, Status, TouchKind

EXIT = {Status.OK: 0, Status.FAILED: 1, Status.DENIED: 3, Status.PENDING: 4}


@click.command("call")
@click.argument("tool", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option(
    "--args", "raw", metavar="JSON|@FILE", help="all arguments as one JSON object, or a file of it (@-: stdin)"
)
@click.option("--run", "run_id", metavar="NAME", help="a run to go on with, or the name of a new one")
@click.option("--enable", multiple=True, metavar="TOOL", help="enable a tool or toolset for this call")
@click.option("--headless", is_flag=True, help="never ask; a call that must be asked for ends as pending")
@click.option(
    "--wait",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="without a terminal: wait so long for an answer from another one, instead of ending as pending at once",
)
@click.option("--approve", is_flag=True, help="see the request at this terminal, approve and run in one go")
@click.option("--approval", metavar="ID", help="replay exactly the request that was approved")
@click.option(
    "--key",
    "idempotency_key",
    metavar="KEY",
    help="idempotency key: repeated within one --run, it gives the first outcome",
)
@click.option("--permissions", metavar="KINDS", help="limit the call to these kinds of touch, separated by commas")
@click.option("--skill", metavar="NAME", help="the skill on whose behalf the call is made")
@click.option("--live", is_flag=True, help="show what happens while it happens")
@DIALECT
@WORKSPACE
@CONFIG
@JSON
def command(**given: Any) -> int:
    """Make one governed call.

    \b
    handrail call read_file path=README.md
    handrail call grep pattern=TODO path=src limit=20
    handrail call edit_file --args @edit.json
    """
    if given["approve"] and given["headless"]:
        raise click.UsageError("--approve asks a person and --headless never does; choose one.")
    if given["wait"] is not None and given["headless"]:
        raise click.UsageError("--wait waits for a person and --headless never does; choose one.")
    if given["idempotency_key"] is not None and given["run_id"] is None:
        raise click.UsageError(
            "--key is remembered by a run: name it with --run, in the first call and in each repeated one."
        )
    if given["approval"] is not None:
        from handrail.front.cli._replay import replay

        return replay(given)
    if not given["tool"]:
        raise click.UsageError("Name a tool; `handrail tools` lists them.")
    if given["dialect"] is not None:
        dialect_of(given["dialect"])
    if (script := _script(given)) is not None:
        outcome, run_id = run_async(_call({**given, "pairs": ()}, script))
        return show(outcome, as_json=given["as_json"], given={**given, "pairs": ()}, run_id=run_id)
    args = arguments(given["pairs"], given["raw"])
    outcome, run_id = run_async(_call(given, args))
    if outcome.ok and outcome.tool == "run_command" and outcome.data.get("job"):
        sys.stderr.write("warning: a job ends with its runtime, so this one ended with this command\n")
    return show(outcome, as_json=given["as_json"], given=given, run_id=run_id)


def _script(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read `call run_script --skill NAME -- SCRIPT ARGS`, in the names of the dialect; None for any other call."""
    words = given["pairs"]
    if given["tool"] != "run_script" or not given["skill"] or given["raw"] or not words or "=" in words[0]:
        return None
    args = {"skill": given["skill"], "script": words[0], "args": list(words[1:])}
    if given["dialect"] in (None, "native"):
        return args
    said = dialect_of(given["dialect"]).said({"tool": "run_script", "args": args})
    return None if said is None else dict(said["args"])


def arguments(pairs: Sequence[str], raw: str | None) -> dict[str, Any]:
    """Read `--args` and the `key=value` pairs beside it."""
    args = _object(raw) if raw is not None else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r}: write arguments as key=value, or all of them as --args JSON.")
        if name in args:
            raise click.UsageError(f"The argument {name!r} is given twice.")
        args[name] = value
    return args


def _object(raw: str) -> dict[str, Any]:
    try:
        found = strict_json.loads(_text(raw))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        hint = " For standard input write --args @-." if raw == "-" else ""
        raise click.UsageError(f"--args{f' {raw}' if raw.startswith('@') else ''}: {reason}.{hint}") from None
    if not isinstance(found, dict):
        raise click.UsageError('--args: a JSON object is needed, such as \'{"path": "README.md"}\'.')
    return found


def _text(raw: str) -> str | bytes:
    if raw == "@-":
        return sys.stdin.buffer.read()
    return Path(raw[1:]).read_bytes() if raw.startswith("@") else raw


def typed(schema: Callable[[], Mapping[str, Any]], args: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """Take a pair's text as the type that the tool's schema asks for; what does not fit is left for the kernel."""
    given = {pair.partition("=")[0] for pair in pairs}
    values = {name: _value(text) if name in given else text for name, text in args.items()}
    # Schemas are made only where a text could be meant as something else.
    if any(values[name] is not args[name] for name in given):
        properties = schema()["properties"]
        values = {
            name: args[name] if name in given and _is_text(properties.get(name, {})) else value
            for name, value in values.items()
        }
    return values


def _value(text: str) -> Any:
    try:
        return strict_json.loads(text)
    except ValueError:
        return text


def _is_text(schema: Mapping[str, Any]) -> bool:
    kinds = {schema.get("type"), *(item.get("type") for item in schema.get("anyOf", ()))}
    return "string" in kinds and kinds <= {"string", "null", None}


async def _call(given: Mapping[str, Any], args: dict[str, Any]) -> tuple[Outcome, str]:
    """Make the call and close the run; print what its programs left that the outcome does not show to a person."""
    outcome, run_id, warned = await _call_in_run(given, args)
    shown = () if given["as_json"] else outcome.warnings
    for warning in warned:
        if warning not in shown:
            sys.stderr.write(f"warning: {harmless(warning)}\n")
    return outcome, run_id


async def _call_in_run(given: Mapping[str, Any], args: dict[str, Any]) -> tuple[Outcome, str, Sequence[str]]:
    """Make the call; return its outcome, the run it was made in, and what programs left by the end of the run."""
    from handrail.errors import Problem
    from handrail.front.cli._live import following
    from handrail.front.cli._progress import showing

    permissions = kinds_of(given["permissions"], given["dialect"])
    async with opened(given) as runtime, following(runtime, live=given["live"]), showing(runtime):
        # Without a name nobody goes on with the run: it ends with this call.
        if given["run_id"] is None and hasattr(runtime.kernel.parts.approver, "last_call"):
            runtime.kernel.parts.approver.last_call = True
        if given["skill"] and not given["as_json"]:
            _warn_of_skill(runtime, given["skill"])
        with suppress(Problem):  # an unknown tool is the kernel's to tell
            args = typed(schema_of(runtime, given), args, given["pairs"])
        outcome = await runtime.call(
            given["tool"],
            args,
            idempotency_key=given["idempotency_key"],
            permissions=permissions,
            skill=given["skill"],
            dialect=given["dialect"],
        )
        warned = runtime.parts.programs.warned
        run_id = runtime.run_id
    return outcome, run_id, warned


def schema_of(runtime: Any, given: Mapping[str, Any]) -> Callable[[], Mapping[str, Any]]:
    """The argument schema of the tool that was named, in the dialect it was named in; made when it is needed."""
    if given["dialect"] in (None, "native"):
        tool = runtime.parts.catalog.get(given["tool"])
        return lambda: tool.spec()["args_schema"]
    word = dialect_of(given["dialect"]).word(given["tool"])
    return lambda: word.args


def _warn_of_skill(runtime: Any, skill: str) -> None:
    """Say that a skill is not there or broken: to policy it is one that allows nothing."""
    from handrail.errors import Problem

    try:
        runtime.kernel.parts.skills.find(skill)
    except Problem as problem:
        sys.stderr.write(f"warning: {harmless(problem.message)}\n")


def kinds_of(text: str | None, dialect: str | None = None) -> list[str] | None:
    """The kinds that a call is limited to; one that nobody knows would permit nothing, which nobody means."""
    if text is None:
        return None
    kinds = [item.strip() for item in text.split(",") if item.strip()]
    known = [kind.value for kind in TouchKind]
    if dialect not in (None, "native"):
        known += [name for name in dialect_of(dialect).touches if name not in known]
    for kind in kinds:
        if kind not in known:
            raise unknown("kind of touch", kind, known)
    return kinds


def show(outcome: Outcome, *, as_json: bool, given: Mapping[str, Any] | None = None, run_id: str = "") -> int:
    """Print an outcome: data on stdout, the rest on stderr; give the exit code."""
    given = given or {}
    if as_json:
        print_json(outcome.to(given.get("dialect") or "native"))
        return exit_code(outcome)
    for warning in outcome.warnings:
        sys.stderr.write(f"warning: {harmless(warning)}\n")
    if outcome.error is None:
        text = outcome.content
        if outcome.refs and run_id:
            from handrail.front.cli._suggested import fetchable

            text = fetchable(text, outcome.refs, run_id, given)
        if sys.stdout.isatty():
            text = harmless(text)
        sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")
    else:
        from handrail.front.cli._problems import problem_lines

        sys.stderr.write("".join(f"{line}\n" for line in problem_lines(outcome, given, run_id)))
    return exit_code(outcome)


def exit_code(outcome: Outcome) -> int:
    """0 done, 1 failed, 3 denied, 4 pending, 124 timed out."""
    if outcome.error is not None and outcome.error.code == "TIMEOUT":
        return 124
    return EXIT[outcome.status]
