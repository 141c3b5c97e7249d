"""What several verbs share: opening a runtime from flags, the state folders, the console."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from handrail.runtime import Runtime
    from handrail.store.ledger import SqliteLedger


def opened(given: Mapping[str, Any], **how: Any) -> Runtime:
    """Prepare a runtime as the command line asks for it."""
    from handrail.runtime import Runtime

    flags: dict[str, Any] = {}
    if given.get("enable"):
        flags["tools.enable"] = list(given["enable"])
    if given.get("approve"):
        how.setdefault("approver", terminal_approver())
    mode = "headless" if given.get("headless") else None
    screen = how.pop("screen", None) or Stderr(live=bool(given.get("live")))
    return Runtime.open(
        given.get("workspace") or ".",
        config=given.get("config"),
        run_id=given.get("run_id"),
        mode=mode,
        caller="cli",
        flags=flags,
        screen=screen,
        progress=progress,
        **how,
    )


class Stderr:
    """Shows what tools display: a panel where a person looks, a line elsewhere."""

    def __init__(self, *, live: bool) -> None:
        self._live = live

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show one display."""
        level, content = str(fields.get("level", "info")), str(fields.get("content", ""))
        if not (self._live or sys.stderr.isatty()):
            sys.stderr.write(f"[{level}] {content[:200]}\n")
            return
        from rich.markdown import Markdown
        from rich.panel import Panel

        colour = {"success": "green", "warning": "yellow", "error": "red", "progress": "cyan"}.get(level, "blue")
        console(error=True).print(Panel(Markdown(content), title=fields.get("title") or level, border_style=colour))


def terminal_approver() -> Any:
    """The approver that asks at this terminal; an error where there is none."""
    import click

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError("--approve needs a terminal: a person must see the request to approve it")
    from handrail.approvals.terminal import TerminalApprover

    return TerminalApprover(ledger(), clock())


def clock() -> Any:
    """The machine's own time."""
    from handrail.compose import SystemClock

    return SystemClock()


def ledger() -> SqliteLedger:
    """The user's ledger of approvals."""
    from handrail.settings import paths
    from handrail.store.ledger import SqliteLedger

    return SqliteLedger(paths.state_dir() / "ledger.db", clock())


def runs_folder(given: Mapping[str, Any]) -> Path:
    """Where the runs of this workspace lie."""
    import os

    from handrail.settings import load, paths

    settings = load(Path(given.get("workspace") or "."), environment=os.environ).settings
    return Path(settings.runs_dir) if settings.runs_dir else paths.runs_dir()


def console(*, error: bool = False) -> Console:
    """A console that honours NO_COLOR and pipes."""
    from rich.console import Console

    return Console(stderr=error, highlight=False)


def progress(done: int, total: int) -> None:
    """Show how far a long opening is, where a person looks."""
    if sys.stderr.isatty() and total:
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\rreading the journal: {done * 100 // total} %{end}")
        sys.stderr.flush()
