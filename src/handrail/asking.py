"""How the requests of a run reach people: the ledger, the way to ask, notices, parked calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from handrail import ports
from handrail.settings import paths
from handrail.store.ledger import PendingLimits, SqliteLedger
from handrail.words import Mode
from handrail.worlds import Ground

AGENT = "agent"  # the caller of an agent's tasks, which wait as long as people take
NEVER_SECONDS = 1e9  # after which a request expires that does not


def find_notifier(ground: Ground) -> Callable[[ports.Request], None] | None:
    """Find what tells a person of new requests; loaded only where settings name it."""
    setting = ground.settings.approvals.notify
    if setting is None:
        return None
    from handrail.approvals.notify import notifier

    return notifier(setting, [root.path for root in ground.roots if root.writable])


def build_parking(ground: Ground, ledger: SqliteLedger) -> ports.Parking | None:
    """Have calls that end as pending made by others once they are granted; an agent's worker repeats its own."""
    if not ground.settings.approvals.park or ground.options.caller == AGENT or ground.options.aside is not None:
        return None
    from handrail.store.parking import RunParking

    return RunParking(ledger, ground.clock, ground.folder.path, _describe_opening(ground))


def _describe_opening(ground: Ground) -> Mapping[str, Any] | None:
    """Write down how this run was opened, for who makes its calls later; None where that cannot be repeated."""
    options = ground.options
    config = str(options.config.absolute()) if isinstance(options.config, Path) else options.config
    opening: dict[str, Any] = {"workspace": ground.loaded.workspace, "config": config, "flags": dict(options.flags)}
    opening |= {"folder": str(ground.folder.path), "four_eyes": ground.settings.approvals.four_eyes}
    opening |= {"caller": options.caller, "asked_by": options.asked_by, "given": [tool.name for tool in options.tools]}
    try:
        return dict(orjson.loads(orjson.dumps(opening)))
    except TypeError:
        return None


def find_expiry_seconds(ground: Ground) -> float:
    """How long a request can be answered; those of an agent's tasks for ever, unless settings say otherwise."""
    if ground.options.caller == AGENT:
        return ground.settings.agent.approval_seconds or NEVER_SECONDS
    return ground.settings.approvals.expiry_seconds


def open_ledger(ground: Ground) -> SqliteLedger:
    settings = ground.settings.approvals
    path = (ground.options.ledger or ground.options.aside or paths.state_dir()) / "ledger.db"
    return SqliteLedger(path, ground.clock, PendingLimits(settings.max_pending, settings.max_pending_bytes))


def choose_approver(ground: Ground, ledger: SqliteLedger) -> ports.Approver:
    """The way to ask: the one given; nobody when headless; the terminal where there is one; else another process."""
    given, clock = ground.options.approver, ground.clock
    if given is not None:
        if getattr(given, "ledger", ledger) is None:
            given.ledger = ledger  # type: ignore[attr-defined]  # shipped fakes answer on record, as people do
        return given
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
    # A command in a script is waited for itself: it waits for a person elsewhere only where that was asked for.
    hurried = ground.options.caller == "cli" and not ground.loaded.where("approvals.wait_seconds")
    if ground.settings.mode is Mode.HEADLESS or (hurried and not terminal):
        from handrail.approvals.none import NoApprover

        return NoApprover()
    if terminal:
        from handrail.approvals.terminal import TerminalApprover

        return TerminalApprover(ledger, clock)
    from handrail.approvals.elsewhere import LedgerApprover

    return LedgerApprover(ledger, clock, ground.settings.approvals.wait_seconds)
