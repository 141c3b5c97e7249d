"""handrail runs: what happened, whether the record is whole, and taking it back."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import (
    CONFIG,
    DIALECT,
    JSON,
    WORKSPACE,
    console,
    dialect_of,
    print_json,
    progress,
    run_async,
    runs_folder,
)

RUN = click.argument("run", required=False)
ELSEWHERE = "Runs made with --config or --preset may lie elsewhere: give the same option here.\n"


@click.group("runs")
def command() -> None:
    """Look at past runs, verify them, take back what they changed.

    RUN is a run's name or the beginning of it; without one, the newest run of this workspace is taken. Runs that were
    made with --config or --preset are found with the same option where those settings keep runs elsewhere.
    """


@command.command("list")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="how many, newest first")
@click.option("--here", is_flag=True, help="only those of this workspace")
@WORKSPACE
@CONFIG
@JSON
def list_runs(limit: int, here: bool, **given: Any) -> None:
    """List the runs, newest first: the front end, calls, asked for and denied, tools, files changed."""
    from handrail.store.folders import list_runs as found_in

    base = runs_folder(given)
    found = [item for item in found_in(base) if not here or is_here(item, given)]
    shown = found[:limit]
    if given["as_json"]:
        print_json([_listed(item) for item in shown])
        return
    if not shown:
        whose = " of this workspace" if here else ""
        sys.stderr.write(f"There are no runs{whose} yet in {base}; `handrail call` makes one.\n")
        sys.stderr.write(ELSEWHERE)
        return
    from handrail.front.cli._tables import runs_table
    from handrail.store.summaries import summary

    runs_table(console(), [(item, summary(item.path)) for item in shown])
    if others := sum(not is_here(item, given) for item in shown):
        sys.stderr.write(f"{others} of {len(shown)} worked in other workspaces; --here leaves them out.\n")
    if len(found) > limit:
        sys.stderr.write(f"{len(found) - limit} older ones are not shown; --limit {len(found)} shows all.\n")


def _listed(item: Any) -> dict[str, Any]:
    """One run as JSON, with what it did."""
    import dataclasses

    from handrail.store.summaries import summary

    did = summary(item.path)
    told = {"calls": did.calls, "tools": dict(did.tools), "changed": list(did.changed)}
    return {**dataclasses.asdict(item), **told, "asked": did.asked, "denied": did.denied, "whole": did.whole}


@command.command("show")
@RUN
@WORKSPACE
@CONFIG
@JSON
def show(run: str | None, **given: Any) -> None:
    """Show a run: its calls, how each was judged, what each changed."""
    from handrail.front.cli._tables import calls_of, run_table
    from handrail.store.reader import events

    folder = folder_of(run, given)
    calls = calls_of(events(folder))
    if given["as_json"]:
        print_json({"run_id": folder.name, "calls": calls})
        return
    run_table(console(), folder, calls)


@command.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--tool", metavar="NAME", help="only calls of this tool, by our name or by the agent's")
@click.option("--decision", type=click.Choice(["allow", "ask", "deny"]), help="only calls that were judged so")
@click.option("--status", metavar="WORD", help="only calls that ended so: ok, failed, denied, pending, 'not seen'")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="how many calls")
@click.option("--here", is_flag=True, help="only runs of this workspace")
@WORKSPACE
@CONFIG
@JSON
def search(words: tuple[str, ...], limit: int, here: bool, **given: Any) -> int:
    """Find calls that hold all WORDS in their tool, arguments, rules, changes or notes; newest run first."""
    from itertools import islice

    from handrail.front.cli._searching import search_runs
    from handrail.front.cli._tables import arguments_line, plain
    from handrail.store.folders import list_runs as found_in

    runs = [item.path for item in found_in(runs_folder(given)) if not here or is_here(item, given)]
    wanted = {name: given[name] for name in ("tool", "decision", "status")}
    found = list(islice(search_runs(runs, words, wanted), limit))
    if given["as_json"]:
        print_json(found)
        return 0 if found else 1
    out = console()
    for call in found:
        named = call.get("asked") or call["tool"]
        line = f"{plain(call['run_id'])}  {plain(call['call_id'][-12:])}  {plain(named)}  "
        line += f"{plain(call.get('decision') or 'not judged')}  {plain(call['status'])}  "
        out.print(line + plain(arguments_line(call.get("args"), 120)), soft_wrap=True)
    if not found:
        sys.stderr.write("No call holds all of these words.\n")
    return 0 if found else 1


@command.command("tree")
@RUN
@DIALECT
@WORKSPACE
@CONFIG
@JSON
def tree(run: str | None, dialect: str | None, **given: Any) -> None:
    """Draw a run as a tree: of an agent its turns, of each turn its calls, and what happened in each.

    With --dialect from the events of that system, in its names; --json prints the nodes.
    """
    from handrail.front.cli._tables import left_open, run_tree
    from handrail.store.reader import events

    folder, out = folder_of(run, given), console()
    if dialect is not None or given["as_json"]:
        from handrail.agent.tree import build_tree
        from handrail.front.cli._agent_tree import draw_tree

        nodes = build_tree(dialect_of(dialect).events(events(folder)))
        if given["as_json"]:
            print_json({"run_id": folder.name, "nodes": [node.to_json() for node in nodes]})
        else:
            out.print(draw_tree(folder.name, nodes, min(out.width, 200)))
        return
    out.print(run_tree(folder.name, events(folder), min(out.width, 200), left_open(folder)))


@command.command("logs")
@RUN
@WORKSPACE
@CONFIG
@JSON
def logs(run: str | None, **given: Any) -> None:
    """Bring the logs of a run up to date, also of one that was cut off, and say where they are.

    A run that closes does so itself: one line a call in tools.jsonl, one a failed call in errors.jsonl, and the
    approvals in force in grants.json.
    """
    from handrail.store.projections import ERRORS, GRANTS, TOOLS, project

    folder = folder_of(run, given)
    project(folder)
    found = {"tools": folder / "logs" / TOOLS, "errors": folder / "logs" / ERRORS, "grants": folder / GRANTS}
    if given["as_json"]:
        print_json({name: str(path) for name, path in found.items()})
        return
    sys.stdout.write("".join(f"{path}\n" for path in found.values()))


@command.command("events")
@RUN
@DIALECT
@WORKSPACE
@CONFIG
def print_events(run: str | None, dialect: str | None, **given: Any) -> None:
    """Print the journal as JSON lines, in a dialect's names and payloads where asked."""
    import orjson

    from handrail.store.reader import events

    spoken = dialect_of(dialect)
    # Settings in the form of another system are read as those of the dialect that was named.
    where = {**given, "dialect": dialect} if given["config"] else given
    for event in spoken.events(events(folder_of(run, where))):
        sys.stdout.write(orjson.dumps(event).decode() + "\n")


@command.command("verify")
@RUN
@click.option(
    "--head", metavar="SEQ:SHA256", help="a head that was kept elsewhere; finds truncation and rewriting, too"
)
@click.option("--keep", type=click.Path(dir_okay=False), metavar="FILE", help="keep the head in this file")
@click.option("--against", type=click.Path(dir_okay=False), metavar="FILE", help="check against a head kept in a file")
@click.option("--all", "every", is_flag=True, help="check every run of this account")
@WORKSPACE
@CONFIG
@JSON
def verify(run: str | None, head: str | None, keep: str | None, against: str | None, every: bool, **given: Any) -> int:
    """Check that no line of the journal was changed, added or taken out."""
    from handrail.store.reader import check_head, keep_head
    from handrail.store.reader import verify as verify_chain

    if every:
        if run or head or keep or against:
            raise click.UsageError("--all checks every run by its own chain; a run, a head or a file goes without it.")
        from handrail.front.cli._prune import verify_all

        return verify_all(given)
    if head and against:
        raise click.UsageError("Give the kept head with --head or with --against, not both.")
    folder = folder_of(run, given)
    found = check_head(folder, Path(against)) if against else verify_chain(folder, head, progress=progress)
    if given["as_json"]:
        import dataclasses

        print_json({"run_id": folder.name, **dataclasses.asdict(found)})
    else:
        _tell(folder.name, found, bounded=bool(head or against or keep))
    if keep and found.ok:
        keep_head(folder, Path(keep))
        sys.stderr.write(f"head kept in {keep}\n")
    return 0 if found.ok else 1


def _tell(name: str, found: Any, *, bounded: bool) -> None:
    from handrail.front.cli._tables import plain

    out = console()
    if not found.ok:
        out.print(f"[red bold]changed[/]: run {plain(name)}, line {found.line}: {plain(found.problem)}", soft_wrap=True)
        return
    out.print(f"[green bold]whole[/]: run {plain(name)}, {found.events} events", soft_wrap=True)
    out.print(f"head {found.head}", soft_wrap=True)
    if found.problem:
        out.print(f"note: {plain(found.problem)}", soft_wrap=True)
    if not bounded:
        sys.stderr.write("A chain alone cannot show that its end was cut off: keep the head elsewhere (--keep FILE).\n")


@command.command("prune")
@click.option("--older-than", required=True, metavar="TIME", help="runs that nothing happened in since, as 90d or 12h")
@click.option("--dry-run", is_flag=True, help="only say what would be removed")
@WORKSPACE
@CONFIG
@JSON
def prune(older_than: str, dry_run: bool, **given: Any) -> int:
    """Remove old runs: their journals, outputs and former contents.

    Kept are runs that are open, that a request or a task still needs, and whose changes undo may put back for
    `undo.keep_days` days.
    """
    from handrail.front.cli._prune import prune_runs

    return prune_runs(older_than, dry_run=dry_run, given=given)


@command.command("undo")
@RUN
@click.option("--call", "call_id", metavar="ID", help="only what this call changed")
@WORKSPACE
@CONFIG
@JSON
def undo(run: str | None, call_id: str | None, **given: Any) -> int:
    """Put back what calls changed, last first.

    With RUN all that the run changed; without it what the last call changed that changed anything here. Refuses, and
    changes nothing, where a file has changed since, and shows the difference. It is a recorded call, too.
    """
    from handrail.front.cli._undo import take_back
    from handrail.front.cli._undoable import last_change, run_of_call

    if call_id == "":  # a variable of a script that is not set: not a wish for whatever there is
        raise click.UsageError("--call needs the id of a call; `handrail runs show RUN` names them.")
    if run is not None:
        folder = folder_of(run, given)
    elif call_id is not None:
        folder = run_of_call(call_id, given)
    else:
        folder, call_id = last_change(given)
    return run_async(take_back(folder, call_id, given))


def folder_of(run: str | None, given: Mapping[str, Any]) -> Path:
    """The folder of a run, by its name or the start of it; the newest of this workspace where none is named."""
    from handrail.store.folders import RUN_ID
    from handrail.store.folders import list_runs as found_in

    base = runs_folder(given)
    if run and RUN_ID.fullmatch(run) and (base / run).is_dir():
        return base / run
    found = found_in(base)
    if run is None:
        here = next((item.run_id for item in found if is_here(item, given)), None)
        if here is None:
            others = "; `handrail runs list` shows those of others" if found else ""
            raise click.UsageError(f"There is no run in this workspace yet in {base}{others}.\n{ELSEWHERE.rstrip()}")
        return base / here
    fitting = [item.run_id for item in found if item.run_id.startswith(run)]
    if not fitting:
        raise click.UsageError(_no_run(run, base, [item.run_id for item in found]))
    if len(fitting) > 1:
        some = ", ".join(fitting[:3]) + (" …" if len(fitting) > 3 else "")
        raise click.UsageError(f"{len(fitting)} runs start with {run!r}: {some}. Give more of the name.")
    return base / fitting[0]


def _no_run(run: str, base: Path, names: list[str]) -> str:
    from handrail.spelling import nearest

    near = nearest(run, names, 2)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"There is no run {run!r} in {base};{hint} `handrail runs list` shows them.\n{ELSEWHERE.rstrip()}"


def is_here(item: Any, given: Mapping[str, Any]) -> bool:
    """Whether a run worked in this workspace, or in a folder of its own that belongs to this project."""
    about = item.description
    return os.path.realpath(given.get("workspace") or ".") in (about.get("workspace"), about.get("project"))
