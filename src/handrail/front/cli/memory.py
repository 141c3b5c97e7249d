"""handrail memory: notes that runs want remembered, for a person to accept or reject."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import (
    CONFIG,
    JSON,
    WORKSPACE,
    clock,
    console,
    opened,
    print_json,
    run_async,
    runs_folder,
)

if TYPE_CHECKING:
    from handrail.memory.candidates import Candidate

IDS = click.argument("ids", nargs=-1, required=True, metavar="ID…")


_SHOWN = 300  # characters of a note in the list


@click.group("memory")
def command() -> None:
    """See which notes runs want remembered, and accept or reject them.

    ID is a candidate's id or the end of it, as `handrail memory list` shows it.
    """


@command.command("list")
@click.option("--here", is_flag=True, help="only those of this workspace")
@click.option("--all", "every", is_flag=True, help="the answered ones, too")
@WORKSPACE
@CONFIG
@JSON
def list_candidates(here: bool, every: bool, **given: Any) -> None:
    """List the notes that wait for an answer, oldest first."""
    found = _candidates(given, here=here, every=every)
    if given["as_json"]:
        import dataclasses

        print_json([dataclasses.asdict(item) for item in found])
        return
    if not found:
        sys.stderr.write("No note waits for an answer.\n")
        return
    from handrail.front.cli._tables import plain, print_rows

    rows = []
    for item in found:
        what = item.action if item.state == "pending" else f"{item.action}, {item.state}"
        text = " ".join((" ".join(filter(None, (item.title, item.content))) or item.note_id).split())
        # Whoever accepts must see that there is more than the beginning.
        shown = text if len(text) <= _SHOWN else f"[{len(text)} characters; --json shows all] {text[:_SHOWN]}…"
        cells = (item.id[-12:], item.run_id[-12:], item.scope, what, shown)
        rows.append([plain(cell) for cell in cells])
    print_rows(console(), ("id", "run", "scope", "what", "note"), rows, ("note", "run"))


@command.command("accept")
@IDS
@WORKSPACE
@CONFIG
def accept(ids: Sequence[str], **given: Any) -> int:
    """Have notes remembered: the provider that settings name is called."""
    return run_async(_accept([_one(wanted, given) for wanted in ids], given))


@command.command("reject")
@IDS
@WORKSPACE
@CONFIG
def reject(ids: Sequence[str], **given: Any) -> None:
    """Put notes aside; they are not remembered."""
    from handrail.memory.candidates import reject as put_aside

    for candidate in [_one(wanted, given) for wanted in ids]:
        put_aside(runs_folder(given), candidate)
        sys.stdout.write(f"rejected {candidate.id}\n")


async def _accept(chosen: Sequence[Candidate], given: Mapping[str, Any]) -> int:
    import shutil

    from handrail.memory.candidates import accept as carry
    from handrail.ports import Work

    runs = runs_folder(given)
    for candidate in chosen:
        async with opened({**given, "workspace": _place(candidate, given)}) as runtime:
            parts = runtime.parts
            work = Work("accept", parts.files.bind("accept", ()), (), ())
            note = await carry(runs, candidate, parts.faculties.provider(work), parts.redactor, clock().now())
        shutil.rmtree(parts.folder.path, ignore_errors=True)  # nothing was called, so no run is left behind
        sys.stdout.write(f"accepted {candidate.id} as note {note}\n")
    return 0


def _place(candidate: Candidate, given: Mapping[str, Any]) -> str:
    """The workspace whose settings and notes count: the one that the note is about."""
    if Path(candidate.workspace).is_dir():
        return candidate.workspace
    if candidate.scope == "user":
        return str(given["workspace"])
    raise click.UsageError(
        f"{candidate.id} is a note on {candidate.workspace}, which is gone; `handrail memory reject` puts it aside."
    )


def _candidates(given: Mapping[str, Any], *, here: bool = False, every: bool = False) -> list[Candidate]:
    from handrail.memory.candidates import listed

    place = os.path.realpath(given.get("workspace") or ".")
    return [item for item in listed(runs_folder(given), every=every) if not here or item.workspace == place]


def _one(wanted: str, given: Mapping[str, Any]) -> Candidate:
    """The candidate that is meant."""
    found = [item for item in _candidates(given, every=True) if item.id == wanted or item.id.endswith(wanted)]
    if not found:
        raise click.UsageError(f"There is no candidate {wanted!r}; `handrail memory list` shows them.")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} candidates end with {wanted!r}; give more of the id.")
    return found[0]
