"""handrail runs: what happened, whether the record is whole, and taking it back."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import console, opened, progress, runs_folder

WORKSPACE = click.option("--workspace", "-w", default=".", type=click.Path(file_okay=False), help="the folder whose settings count")
JSON = click.option("--json", "as_json", is_flag=True, help="print one JSON document")


@click.group("runs")
def command() -> None:
    """Look at past runs, verify them, take back what they changed."""


@command.command("list")
@click.option("--limit", default=20, help="how many, newest first")
@WORKSPACE
@JSON
def list_runs(limit: int, **given: Any) -> None:
    """List the runs, newest first."""
    from handrail.store.folders import list_runs as found_in

    found = found_in(runs_folder(given))[:limit]
    if given["as_json"]:
        _print_json([_info(item) for item in found])
        return
    from handrail.front.cli._tables import runs_table

    runs_table(console(), found)


@command.command("show")
@click.argument("run", required=False)
@WORKSPACE
@JSON
def show(run: str | None, **given: Any) -> None:
    """Show a run: its calls, what each changed, and who allowed it."""
    from handrail.front.cli._tables import calls_of, run_table
    from handrail.store.reader import events

    folder = _folder(run, given)
    calls = calls_of(events(folder))
    if given["as_json"]:
        _print_json({"run_id": folder.name, "calls": calls})
        return
    run_table(console(), folder, calls)


@command.command("tree")
@click.argument("run", required=False)
@WORKSPACE
def tree(run: str | None, **given: Any) -> None:
    """Draw a run as a tree of calls and what happened in each."""
    from handrail.front.cli._tables import run_tree
    from handrail.store.reader import events

    folder = _folder(run, given)
    console().print(run_tree(folder.name, events(folder)))


@command.command("events")
@click.argument("run", required=False)
@WORKSPACE
def print_events(run: str | None, **given: Any) -> None:
    """Print the journal as JSON lines."""
    import orjson

    from handrail.store.reader import events

    for event in events(_folder(run, given)):
        sys.stdout.write(orjson.dumps(event).decode() + "\n")


@command.command("verify")
@click.argument("run", required=False)
@click.option("--head", metavar="SEQ:SHA256", help="a head that was kept elsewhere; finds truncation and rewriting, too")
@click.option("--keep", type=click.Path(dir_okay=False), help="keep the head in this file")
@click.option("--against", type=click.Path(exists=True, dir_okay=False), help="check against a head kept in this file")
@WORKSPACE
@JSON
def verify(run: str | None, head: str | None, keep: str | None, against: str | None, **given: Any) -> int:
    """Check that no line of the journal was changed, added or taken out."""
    from handrail.store.reader import check_head, head_of, keep_head
    from handrail.store.reader import verify as verify_chain

    folder = _folder(run, given)
    found = check_head(folder, Path(against)) if against else verify_chain(folder, head, progress=progress)
    if given["as_json"]:
        import dataclasses

        _print_json(dataclasses.asdict(found))
    elif found.ok:
        console().print(f"[green]whole[/]: {found.events} events, head {head_of(folder)}")
        if found.problem:
            console().print(f"note: {found.problem}", markup=False)
        if not (head or against):
            console().print("[dim]a chain alone cannot show that its end was cut off; keep the head elsewhere (--keep)[/]")
    else:
        console(error=True).print(f"[red]changed[/]: line {found.line}: {found.problem}")
    if keep and found.ok:
        keep_head(folder, Path(keep))
    return 0 if found.ok else 1


@command.command("undo")
@click.argument("run", required=False)
@click.option("--call", "call_id", metavar="ID", help="only what this call changed")
@WORKSPACE
@JSON
def undo(run: str | None, call_id: str | None, **given: Any) -> int:
    """Put back what calls changed, last first; refuses where a file has changed since."""
    from handrail.front.cli.call import show as show_outcome

    folder = _folder(run, given)

    async def undone() -> Any:
        from handrail.errors import Code, RunFault

        try:
            async with opened({**given, "run_id": folder.name}) as runtime:
                return await runtime.undo(call_id)
        except RunFault as fault:
            if fault.code is not Code.RUN_BUSY:
                raise
        async with opened(given, parent_run=folder.name) as runtime:
            return await runtime.undo(call_id, run=folder.name)

    return show_outcome(asyncio.run(undone()), as_json=given["as_json"])


def _folder(run: str | None, given: dict[str, Any]) -> Path:
    """The folder of a run, by its name or the start of it; the newest where none is named."""
    from handrail.store.folders import list_runs as found_in

    base = runs_folder(given)
    if run and (base / run).is_dir():
        return base / run
    names = [item.run_id for item in found_in(base)]
    fitting = names if run is None else [name for name in names if name.startswith(run)]
    if run is None and names:
        return base / names[0]
    if len(fitting) != 1:
        what = "there is none yet" if not names else "`handrail runs list` shows them"
        raise click.UsageError(f"{'More than one run starts' if fitting else 'No run'} {run or ''}; {what}.")
    return base / fitting[0]


def _info(item: Any) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(item)


def _print_json(value: Any) -> None:
    import orjson

    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode() + "\n")
