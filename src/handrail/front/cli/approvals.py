"""handrail approvals: what waits for a person, and the person's answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from handrail.front.cli._common import JSON, WORKSPACE, clock, console, ledger, print_json, run_async

COLOUR = {"pending": "yellow", "granted": "green", "used": "green", "denied": "red", "expired": "dim"}
MEANT_SECONDS = 1.0  # after an answer from elsewhere
ID = click.argument("request_id", metavar="ID")


@click.group("approvals")
def command() -> None:
    """List, show, grant, deny, revoke and watch approval requests."""


@command.command("list")
@click.option("--all", "every", is_flag=True, help="show those that are answered, too")
@click.option("--here", is_flag=True, help="only those of this workspace")
@WORKSPACE
@JSON
def list_requests(every: bool, here: bool, workspace: str, as_json: bool) -> None:
    """List the requests that wait for an answer, of all workspaces."""
    records = ledger().list(() if every else ("pending",))
    ours = [_is_here(record.request, workspace) for record in records]
    found = [record for record, is_ours in zip(records, ours, strict=True) if is_ours or not here]
    if as_json:
        print_json([{**record.request.to_dict(), "state": record.state} for record in found])
        return
    if not found:
        where = " in this workspace" if here else ""
        said = f"There were no requests{where} yet." if every else f"No request{where} waits for an answer."
        sys.stderr.write(f"{said}\n")
        return
    _print_requests(found, states=every, places=not here and not all(ours))
    if not here and (others := len(found) - sum(ours)):
        sys.stderr.write(f"{others} of {len(found)} come from other workspaces; --here leaves them out.\n")


def _print_requests(found: Sequence[Any], *, states: bool, places: bool) -> None:
    """The requests as a table; what is the same in every row has no column."""
    from handrail.front.cli._tables import WIDE, coloured, from_home, plain, print_rows

    now, out = clock().now(), console()
    rows = [
        {
            "id": plain(record.request.id),
            "state": coloured(record.state, COLOUR),
            "left": _left(record.request.expires - now) if record.state == "pending" else "",
            "tool": plain(record.request.tool),
            "would": plain("; ".join(f"{kind} {', '.join(names)}" for kind, names in record.request.impact.items())),
            "why": plain(record.request.reason),
            "workspace": plain(from_home(record.request.workspace) if out.width >= WIDE else _name(record.request)),
        }
        for record in found
    ]
    head = [name for name in rows[0] if (states or name != "state") and (places or name != "workspace")]
    give_way = [name for name in ("why", "would", "workspace") if name in head]
    print_rows(out, head, [[row[name] for name in head] for row in rows], give_way, fair=True)


def _name(request: Any) -> str:
    return os.path.basename(request.workspace) or "/"


def _is_here(request: Any, workspace: str) -> bool:
    """Whether a request comes from this workspace, or from a run's own folder that belongs to this project."""
    from handrail.settings import paths
    from handrail.store.folders import RunFolder

    here = os.path.realpath(workspace)
    return here in (request.workspace, RunFolder(paths.runs_dir() / request.run_id).description().get("project"))


def _left(seconds: float) -> str:
    whole = max(0, int(seconds))
    return f"{whole // 60}:{whole % 60:02d}" if whole < 3600 else f"{whole // 3600} h"


@command.command("show")
@ID
@JSON
def show(request_id: str, as_json: bool) -> None:
    """Show a request in full: what will run, and what it would change."""
    record = _find(request_id)
    if as_json:
        print_json({**record.request.to_dict(), "state": record.state})
        return
    from handrail.approvals.show import lines, styled

    out = console()
    out.print(styled(lines(record.request, clock().now(), out.width)), soft_wrap=True, end="")
    by = f" by {record.reply.by}" if record.reply is not None and record.reply.by else ""
    out.print(f"  state    {record.state}{by}", markup=False)
    if record.state == "pending":
        sys.stderr.write(f"answer: handrail approvals grant {request_id}, or deny {request_id}\n")


@command.command("grant")
@ID
@click.option("--scope", type=click.Choice(["call", "run", "session"]), default="call", help="how far it reaches")
@click.option("--uses", type=click.IntRange(1), help="how often it may be used")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="how long it holds")
def grant(request_id: str, scope: str, uses: int | None, minutes: float | None) -> int:
    """Grant a request: exactly the call that `show` shows."""
    from handrail.ports import Reply
    from handrail.words import Scope

    record = _find(request_id)
    wanted, widest = Scope[scope.upper()], record.request.max_scope
    if wanted > max(widest, Scope.CALL):
        raise click.UsageError(f"This request can be granted for the {max(widest, Scope.CALL).word} at most.")
    expires = None if minutes is None else clock().now() + minutes * 60
    if not _answered(request_id, Reply("granted", wanted, by=_who(), uses=uses, expires=expires)):
        return 1
    sys.stderr.write(f"Granted. {_goes_on(record.request)}\n")
    return 0


@command.command("deny")
@ID
@click.option("--advice", default="", help="what the model should do instead")
def deny(request_id: str, advice: str) -> int:
    """Refuse a request."""
    from handrail.ports import Reply

    _find(request_id)
    if not _answered(request_id, Reply("denied", by=_who(), advice=advice)):
        return 1
    sys.stderr.write("Denied.\n")
    return 0


def _answered(request_id: str, reply: Any) -> bool:
    """Put an answer on record; False where another one counts."""
    from handrail.ports import Answered

    try:
        ledger().answer(request_id, reply)
    except Answered as late:
        sys.stderr.write(f"handrail: {late}\n")
        return False
    return True


@command.command("revoke")
@ID
def revoke(request_id: str) -> int:
    """Take a grant back that is still in force."""
    try:
        taken = ledger().revoke(request_id, _who())
    except KeyError:
        raise click.UsageError(
            f"There is no grant {request_id!r}; `handrail approvals list --all` shows what was granted."
        ) from None
    sys.stderr.write("Taken back.\n" if taken else "Nothing was left to take back.\n")
    return 0 if taken else 1


@command.command("watch")
def watch() -> None:
    """Show requests as they come, and ask for an answer to each.

    `later` skips one, which then stays pending. Ctrl-C ends the watch and answers nothing.
    """
    from handrail.front.cli._common import terminal_approver

    run_async(_watch(terminal_approver("`approvals watch`", watching=True)))
    raise click.Abort


async def _watch(approver: Any) -> None:
    import asyncio

    book, seen = ledger(), set[str]()
    sys.stderr.write("Waiting for approval requests; Ctrl-C ends this.\n")
    while True:
        for request in book.pending(clock().now()):
            if request.id not in seen:
                seen.add(request.id)
                reply = await approver.ask(request)
                sys.stderr.write(f"{request.id}: {_told(request, reply, elsewhere=approver.elsewhere)}\n\n")
                if approver.ended:
                    return
                if approver.elsewhere:  # what is being typed was meant for that one, not for the next
                    await asyncio.sleep(MEANT_SECONDS)
        while not book.changed():  # noqa: ASYNC110  other processes write there
            await asyncio.sleep(0.02)


def _told(request: Any, reply: Any, *, elsewhere: bool) -> str:
    """What became of a request that was shown, and how its call goes on."""
    from handrail.approvals.show import visible

    by = f" by {visible(reply.by)}, not here" if elsewhere and reply.by else ""
    return f"{reply.state}{by}{f'. {_goes_on(request)}' if reply.state == 'granted' else ''}"


def _goes_on(request: Any) -> str:
    """Say how the call that was granted is made."""
    again = (request.replay or {}).get("command") or f"handrail call --approval {request.id}"
    if not _is_ours(request.tool):
        again = f"the program that has the tool {request.tool} repeats its call"
    elif request.caller == "mcp":
        again = "have the agent repeat it, it runs once"
    return f"A call that waits goes on now; else: {again}"


def _find(request_id: str) -> Any:
    try:
        return ledger().find(request_id)
    except KeyError:
        raise click.UsageError(
            f"There is no approval {request_id!r}; `handrail approvals list --all` shows them."
        ) from None


def _is_ours(tool: str) -> bool:
    """Whether the command line has the tool itself; others are a program's own."""
    from handrail.packages import entry_point_tools
    from handrail.tools import builtin

    return tool in builtin() or tool in entry_point_tools()


def _who() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
