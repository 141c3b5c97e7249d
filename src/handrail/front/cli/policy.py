"""handrail policy: what is allowed here, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from handrail import dialects
from handrail.front.cli._common import (
    CONFIG,
    DIALECT,
    JSON,
    WORKSPACE,
    console,
    dialect_of,
    judging,
    loaded,
    print_json,
    run_async,
)
from handrail.front.cli.call import arguments, kinds_of, schema_of, typed

if TYPE_CHECKING:
    from handrail.errors import Problem
    from handrail.policy.explain import Suggestion
    from handrail.runtime import Explanation, Runtime
    from handrail.settings import Loaded

EXIT = {"allow": 0, "ask": 4, "deny": 3}
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
        async with judging(given) as runtime:
            return runtime.policy()

    found = run_async(policy())
    if given["as_json"]:
        print_json(found)
        return
    from handrail.front.cli._policy_table import policy_table

    policy_table(console(), found)


@command.command("explain")
@click.argument("tool", required=False)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE ...]")
@click.option(
    "--args", "raw", metavar="JSON|@FILE", help="all arguments as one JSON object, or a file of it (@-: stdin)"
)
@click.option("--enable", multiple=True, metavar="TOOL", help="explain as if this tool or toolset were enabled")
@click.option("--permissions", metavar="KINDS", help="explain for a call that is limited to these kinds of touch")
@click.option("--skill", metavar="NAME", help="explain for a call on behalf of this skill")
@click.option("--call", "past", metavar="ID", help="explain a call of a past run, as policy judges it now")
@DIALECT
@WORKSPACE
@CONFIG
@JSON
def explain(**given: Any) -> int:
    """Say how a call would be judged, and by what; run nothing.

    Prints the touches, each finding with file and line, and the smallest change that would alter the verdict. The exit
    code is that of the call: 0 allowed, 4 asked for, 3 denied.
    """
    from handrail.errors import Problem
    from handrail.front.cli._explained import change_of, with_addresses

    args = arguments(given["pairs"], given["raw"])
    if given["past"] is not None:
        from handrail.front.cli._past import past_call

        given, args = past_call(given)
    elif given["tool"] is None:
        raise click.UsageError("Name a tool, or a call of a past run with --call.")

    async def explained() -> Told:
        async with judging(given) as runtime:
            values = (
                args
                if given["dialect"] in dialects.agents()
                else typed(schema_of(runtime, given), args, given["pairs"])
            )
            kinds = kinds_of(given["permissions"], given["dialect"])
            how = {"skill": given["skill"], "permissions": kinds, "dialect": given["dialect"]}
            found, loaded = runtime.explanation(given["tool"], values, **how), runtime.parts.loaded
            fails = await _foreseen(runtime, found, given["tool"], values, how)
            change = change_of(runtime, found, given)
            return Told(with_addresses(found, loaded), change, fails, loaded, spoken_by(given["dialect"]))

    try:
        told = run_async(explained())
    except Problem as problem:
        raise click.UsageError(f"{problem.code}: {problem.message}") from None
    if given["as_json"]:
        print_json(_fields(told))
    else:
        _tell(told)
    return EXIT[told.found.verdict.decision.word]


def spoken_by(name: str | None) -> Any:
    """The dialect that was asked for, those of agents among them."""
    return dialects.get(name) if name in dialects.agents() else dialect_of(name)


class Told(NamedTuple):
    """All that is told of a call."""

    found: Explanation
    change: Suggestion | None
    fails: Problem | None  # before anybody is asked
    loaded: Loaded
    dialect: Any  # whose names the call was made in

    @property
    def tool(self) -> str:
        """The tool's name in the dialect."""
        return str(self.dialect.tool_name(self.found.tool.name))

    @property
    def answer(self) -> dict[str, str]:
        """The decision in the dialect's words, with what belongs to it: a scope, or a code and a reason."""
        verdict = self.found.verdict
        word = verdict.decision.word
        told = {"decision": str(self.dialect.decisions.get(word, word))}
        if word not in self.dialect.decisions or word == "allow":
            return told
        if word == "ask":
            return {**told, "scope": verdict.scope.word}
        return {**told, "code": str(verdict.deciding.code), "reason": verdict.deciding.why}


async def _foreseen(
    runtime: Runtime, found: Explanation, name: str, args: Mapping[str, Any], how: Mapping[str, Any]
) -> Problem | None:
    """What would fail a call that is asked for before anybody is asked; None where nothing would."""
    from handrail.errors import Problem

    if found.verdict.decision.word != "ask":
        return None
    try:
        await runtime.preview(name, args, **how)
    except Problem as problem:
        return problem
    return None


def _fields(told: Told) -> dict[str, Any]:
    """What is told, for programs."""
    from handrail.front.cli._explained import notes
    from handrail.gates import record

    found, change, fails, loaded, _ = told
    fields = record.verdict_fields(found.touches, found.verdict, "")
    return {
        "tool": told.tool,
        **told.answer,
        "touches": fields["touches"],
        "findings": fields["verdict"]["findings"],
        "max_scope": found.verdict.scope.word,
        "sandbox": found.confinement,
        "change": None
        if change is None
        else {"text": change.text, "setting": change.setting, "toml": change.toml, "to": change.flips_to.word},
        "notes": [line.strip() for line in notes(found, loaded)],
        "fails_first": None if fails is None else {"code": fails.code.value, "message": fails.message},
    }


def _tell(told: Told) -> None:
    """What is told, for a person."""
    from handrail.approvals.show import visible
    from handrail.front.cli._explained import distinct, notes, placed, trusted_next
    from handrail.policy.explain import explain_lines

    found, change, fails, loaded, dialect = told
    out, word = console(), found.verdict.decision.word
    shown = None if change is None else placed(change.toml, loaded)
    first, *rest = explain_lines(found.tool.name, *distinct(found.touches, found.verdict), change, shown)
    if dialect.name != "native":
        first = _answered(told)
    out.print(visible(first), style=f"bold {COLOUR[word]}", markup=False, soft_wrap=True)
    for line in rest:
        out.print(visible(line), style=_style(line), markup=False, soft_wrap=True)
    more = trusted_next(change, loaded) if change is not None else []
    if further := notes(found, loaded):
        more += ["", *further]
    if fails is not None:
        more += ["", f"  as it is, it fails before anybody is asked: {fails.code}: {fails.message}"]
    for line in [*more, *_confinement(found.confinement)]:
        out.print(visible(line), markup=False, soft_wrap=True)


def _answered(told: Told) -> str:
    """Write the first line in the dialect's words, as `DENY(code, reason)`."""
    decision, *details = told.answer.values()
    more = f"({', '.join(details)})" if details else ""
    return f"{told.tool}: {decision}{more}"


def _confinement(plan: Mapping[str, Any] | None) -> Iterator[str]:
    """How the programs of a call would be confined, for a person."""
    if plan is None:
        return
    yield ""
    if "error" in plan:
        yield f"  no sandbox: {plan['error']}"
        return
    bounds, how = plan["bounds"], "changes are reviewed" if plan["workspace"] == "review" else "changes are direct"
    yield f"  its programs run in sandbox tier {plan['tier']} ({plan['backend']}); {how}"
    for name in ("write", "read"):
        if plan[name]:
            yield f"      {name:7} {', '.join(plan[name])}"
    yield f"      hidden  {len(plan['hidden'])} patterns; locked {len(plan['locked'])} patterns"
    yield f"      network {plan['network'] if isinstance(plan['network'], str) else ', '.join(plan['network'])}"
    yield (
        f"      limits  {bounds['memory_bytes'] >> 20} MiB of memory, {bounds['processes']} processes, "
        f"{bounds['file_bytes'] >> 20} MiB a file, {bounds['cpu_seconds']} s of processor time"
    )
    for gap in plan["gaps"]:
        yield f"      gap     {gap}"


def _style(line: str) -> str | None:
    words = line.split()
    word = words[1] if words[:1] in (["+"], [">"]) and len(words) > 1 else words[0] if words else ""
    return COLOUR.get(word)


@command.command("test")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@WORKSPACE
@CONFIG
@JSON
def test(file: str, **given: Any) -> int:
    """Run a table of calls and expected verdicts.

    \b
    [[cases]]
    tool = "read_file"
    args = { path = ".env" }
    expect = "deny"
    rule = "defaults.protected"     # optional: must be among what decided
    """
    from handrail.policy.table import judge, parse

    try:
        cases = parse(Path(file).read_text(encoding="utf-8"), file)
    except UnicodeDecodeError:
        raise click.UsageError(f"{file}: is not UTF-8 text.") from None

    async def judged() -> list[Any]:
        async with judging(given) as runtime:
            return [judge(case, runtime.explain) for case in cases]

    failures = [failure for failure in run_async(judged()) if failure is not None]
    if given["as_json"]:
        told = [{"where": item.case.where, "tool": item.case.tool, "message": item.message} for item in failures]
        print_json({"passed": len(cases) - len(failures), "failed": told})
        return 1 if failures else 0
    for failure in failures:
        sys.stdout.write(f"FAILED {failure.message}\n")
    sys.stdout.write(f"{len(cases) - len(failures)} passed, {len(failures)} failed\n")
    return 1 if failures else 0


@command.command("check")
@WORKSPACE
@CONFIG
@JSON
def check(**given: Any) -> int:
    """Lint the settings: rules that can never match, allow rules that are too broad, secrets in the file."""
    from handrail.settings.lint import lint

    settings = loaded(given)
    found = lint(settings)
    if given["as_json"]:
        fields = ("level", "where", "text", "fix")
        print_json([{name: getattr(item, name) for name in fields} for item in found])
    elif found:
        _lint_lines(found)
    elif not settings.warnings:
        sys.stdout.write("nothing to complain about\n")
    return 1 if any(item.level == "error" for item in found) else 0


def _lint_lines(found: list[Any]) -> None:
    from handrail.front.cli._tables import plain, wrapped

    colour = {"error": "red", "warning": "yellow", "note": "dim"}
    table = wrapped("level", "where", "what", wrap=("what",))
    for item in found:
        fix = f"\n[dim]→ {plain(item.fix)}[/]" if item.fix else ""
        table.add_row(f"[{colour[item.level]}]{item.level}[/]", plain(item.where), f"{plain(item.text)}{fix}")
    console().print(table)
