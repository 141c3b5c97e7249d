"""Every run at once: whether each record is whole, and which old ones can be removed."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import clock, console, ledger, loaded, print_json, runs_folder

if TYPE_CHECKING:
    from handrail.store.folders import RunInfo

_AGE = re.compile(r"(\d{1,5})\s*([hdw])")
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}
GONE = ".pruned-"  # before a run's name, while its folder is removed: names of runs never begin with a dot


def all_runs(given: Mapping[str, Any]) -> list[RunInfo]:
    """List the runs of this account: of the usual folder, the settings' and those on record."""
    from handrail.settings import paths
    from handrail.store.elsewhere import read_noted
    from handrail.store.folders import list_runs

    folders = [runs_folder(given), paths.runs_dir(), *map(Path, read_noted(paths.state_dir()))]
    return [run for folder in dict.fromkeys(folders) for run in list_runs(folder)]


def verify_all(given: Mapping[str, Any]) -> int:
    """Check the chain of every run; 1 where one was changed."""
    from handrail.errors import RunFault
    from handrail.front.cli._tables import plain
    from handrail.store.reader import verify

    found, out = [], console()
    for run in all_runs(given):
        try:
            chain = verify(run.path)
            told = {"run_id": run.run_id, "ok": chain.ok, "events": chain.events, "problem": chain.problem}
            found.append({**told, "line": chain.line, "head": chain.head})
        except RunFault as fault:
            found.append(
                {"run_id": run.run_id, "ok": False, "events": 0, "problem": str(fault), "line": None, "head": ""}
            )
    changed = [item for item in found if not item["ok"]]
    if given["as_json"]:
        print_json(found)
        return 1 if changed else 0
    for item in changed:
        text = f"run {plain(item['run_id'])}, line {item['line']}: {plain(item['problem'])}"
        out.print(f"[red bold]changed[/]: {text}", soft_wrap=True)
    events = sum(int(str(item["events"])) for item in found)
    out.print(f"{len(found) - len(changed)} of {len(found)} runs are whole, {events} events", soft_wrap=True)
    return 1 if changed else 0


def prune_runs(older_than: str, *, dry_run: bool, given: Mapping[str, Any]) -> int:
    """Remove runs in which nothing happened for a while and that nobody needs any more."""
    age = _AGE.fullmatch(older_than.strip())
    if age is None:
        raise click.UsageError("--older-than is a number of hours, days or weeks, such as 12h, 90d or 8w.")
    now = clock().now()
    before = now - int(age[1]) * _SECONDS[age[2]]
    days = loaded(given, quiet=True).settings.undo.keep_days
    undo_since = now - days * 86400 if days else 0.0
    needed = dict(_needed())
    if not dry_run:
        _finish_removing(given)
    told = []
    for run in all_runs(given):
        updated = _moment(run.updated)
        if updated >= before:
            continue
        why = needed.get(run.run_id) or _why_kept(run, updated, undo_since)
        told.append({"run_id": run.run_id, "updated": run.updated, "bytes": _size(run.path), "kept": why})
        if not why and not dry_run:
            _remove(run.path)
    if given["as_json"]:
        print_json({"removed": [item for item in told if not item["kept"]], "kept": [i for i in told if i["kept"]]})
        return 0
    _tell(told, dry_run=dry_run)
    return 0


def _tell(told: list[dict[str, Any]], *, dry_run: bool) -> None:
    removed = [item for item in told if not item["kept"]]
    for item in removed if dry_run else ():
        sys.stdout.write(f"{item['run_id']}  {item['updated']}  {item['bytes']} bytes\n")
    for item in told:
        if item["kept"]:
            sys.stderr.write(f"kept {item['run_id']}: {item['kept']}\n")
    word = "would be removed" if dry_run else "were removed"
    sys.stderr.write(f"{len(removed)} runs {word}, {sum(item['bytes'] for item in removed)} bytes\n")


def _needed() -> Iterator[tuple[str, str]]:
    """Name the runs that requests and tasks still need, and why."""
    from handrail.agent.inbox import FILE, Inbox
    from handrail.settings import paths
    from handrail.store.executions import Executions

    book = ledger()
    for record in book.list(("pending", "granted")):
        yield record.request.run_id, f"request {record.request.id} is {record.state}"
    executions = Executions(book, clock())
    for state in ("running", "unknown", "done"):
        for found in executions.in_state(state):
            yield book.find(found.request).request.run_id, f"request {found.request} is {state}"
            yield str(found.runner.get("run", "")), f"request {found.request} is {state}"
    for task in Inbox(paths.state_dir() / FILE, clock()).list():
        if not task.ended:
            yield task.run_id, f"task {task.id} is {task.state.value}"


def _why_kept(run: RunInfo, updated: float, undo_since: float) -> str:
    from handrail.errors import RunFault
    from handrail.store.lock import is_open
    from handrail.undoing import recorded

    if is_open(run.path):
        return "it is open"
    if updated < undo_since:
        return ""
    try:
        left = [item for item in recorded(run.path) if item.left]
    except RunFault:
        return ""
    return f"{len(left)} calls of it can be undone (undo.keep_days)" if left else ""


def _moment(ts: str) -> float:
    try:
        return datetime.fromisoformat(ts).timestamp()
    except ValueError:
        return float("inf")  # nobody knows how old it is


def _size(folder: Path) -> int:
    return sum(
        file.lstat().st_size for base, _, names in os.walk(folder) for name in names for file in (Path(base) / name,)
    )


def _finish_removing(given: Mapping[str, Any]) -> None:
    """Remove what an earlier prune was removing when it was cut off."""
    for folder in {run.path.parent for run in all_runs(given)}:
        for left in folder.glob(f"{GONE}*"):
            shutil.rmtree(left)


def _remove(folder: Path) -> None:
    """Remove a run: first out of every list by one rename, then from the disk."""
    gone = folder.with_name(f"{GONE}{folder.name}")
    os.rename(folder, gone)
    shutil.rmtree(gone)
