"""A run's folder: where each thing lies, and which runs there are."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from handrail.errors import Code, Misuse, RunFault
from handrail.store.chain import EVENTS, first_whole, last_whole, open_events
from handrail.store.private import make_folder, make_inside, read_private, write_atomic
from handrail.words import Json, noun

RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
SUBFOLDERS = (
    "logs",
    "outcomes",
    "observations",
    "artifacts",
    "deliverables",
    "workspace",
    "sandbox",
    "archive",
)
INFO = "run.json"


def check_run_id(run_id: str) -> None:
    """Refuse a run id that is not safe as the name of a folder."""
    if not isinstance(run_id, str) or RUN_ID.fullmatch(run_id) is None:
        raise Misuse(
            f"{run_id!r} cannot be a run id: use 1 to 128 letters, digits, '.', '_' or '-', not starting with a dot."
        )


@noun
class RunFolder:
    """The places of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def events(self) -> Path:
        """The journal."""
        return self.path / EVENTS

    @property
    def logs(self) -> Path:
        """Projections for people and programs."""
        return self.path / "logs"

    @property
    def outcomes(self) -> Path:
        """Stored outcomes of calls with an idempotency key."""
        return self.path / "outcomes"

    @property
    def observations(self) -> Path:
        """Output that was cut, whole and redacted."""
        return self.path / "observations"

    @property
    def artifacts(self) -> Path:
        """Files made by tools."""
        return self.path / "artifacts"

    @property
    def deliverables(self) -> Path:
        """Results to hand over."""
        return self.path / "deliverables"

    @property
    def workspace(self) -> Path:
        """The run's own workspace."""
        return self.path / "workspace"

    @property
    def sandbox(self) -> Path:
        """Scratch space of confined programs."""
        return self.path / "sandbox"

    @property
    def archive(self) -> Path:
        """Memory candidates and pre-images; out of every tool's reach."""
        return self.path / "archive"

    def describe(self, info: Mapping[str, Json]) -> None:
        """Write run.json: who, where, which settings and policy, when."""
        write_atomic(self.path / INFO, [orjson.dumps(info, option=orjson.OPT_INDENT_2)])

    def description(self) -> dict[str, Json]:
        """Read run.json; empty when there is none that can be read."""
        try:
            info = orjson.loads(read_private(self.path / INFO))
        except (OSError, ValueError):
            return {}
        return info if isinstance(info, dict) else {}

    def age(self, now: float) -> float:
        """How many seconds ago the run was first opened; 0 where that is not known."""
        try:
            return max(0.0, now - datetime.fromisoformat(str(self.description().get("started"))).timestamp())
        except ValueError:
            return 0.0


def moment(now: float) -> str:
    """Write down a time."""
    return datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")


@noun
class RunInfo:
    """One run in a list of runs."""

    run_id: str
    path: Path
    started: str  # ISO 8601
    updated: str
    events: int
    last_kind: str
    description: Mapping[str, Json] = field(default_factory=dict)
    order: int = 0  # of its first opening among all runs; 0 for those of 0.1.0
    ended: int | None = None  # of its end; None while it is open, and where it was killed


def create(runs_dir: Path, run_id: str) -> RunFolder:
    """Make a run's folder with all its places, or complete the one that is there."""
    check_run_id(run_id)
    folder = RunFolder(runs_dir / run_id)
    try:
        make_folder(folder.path)
        make_inside(folder.path, SUBFOLDERS)
    except OSError as error:
        raise RunFault(
            Code.JOURNAL_UNAVAILABLE,
            f"The folder of run {run_id} cannot be made in {runs_dir}: {error.strerror}. "
            "Make that place writable, or set another `runs_dir`.",
            errno=error.errno,
        ) from error
    return folder


def list_runs(runs_dir: Path) -> list[RunInfo]:
    """List the runs there are, newest first, from their folders alone."""
    try:
        with os.scandir(runs_dir) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    runs = [_info(RunFolder(runs_dir / name)) for name in names if RUN_ID.fullmatch(name)]
    found = [run for run in runs if run is not None]
    return sorted(found, key=lambda run: (run.order, run.started, run.run_id), reverse=True)


def _info(folder: RunFolder) -> RunInfo | None:
    first, last = _ends(folder.path)
    description = folder.description()
    if not first and not description:
        return None
    started = first.get("ts") or description.get("started") or ""
    return RunInfo(
        run_id=folder.run_id,
        path=folder.path,
        started=str(started),
        updated=str(last.get("ts") or started),
        events=last["seq"] if isinstance(last.get("seq"), int) else 0,
        last_kind=str(last.get("kind", "")),
        description=description,
        order=_order(first),
        ended=_order(last) if last.get("kind") == "run.finished" else None,
    )


def _order(event: Mapping[str, Any]) -> int:
    order = event.get("order")
    return order if isinstance(order, int) else 0


def _ends(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the first and the last whole event, without reading what lies between."""
    try:
        fd = open_events(path)
    except OSError:
        return {}, {}
    try:
        return _event(first_whole(fd)), _event(last_whole(fd))
    finally:
        os.close(fd)


def _event(line: bytes | None) -> dict[str, Any]:
    try:
        event = orjson.loads(line or b"")
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
