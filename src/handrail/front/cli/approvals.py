"""handrail approvals: what waits for a person, and the person's answer."""

from __future__ import annotations

import asyncio
import getpass
import sys
from typing import Any

import click

from handrail.front.cli._common import clock, console, ledger

COLOUR = {"pending": "yellow", "granted": "green", "used": "green", "denied": "red", "expired": "dim"}


@click.group("approvals")
def command() -> None:
    """List, show, grant, deny and watch approval requests."""


@command.command("list")
@click.option("--all", "every", is_flag=True, help="show those that are answered, too")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
def list_requests(every: bool, as_json: bool) -> None:
    """List the requests that wait for an answer."""
    found = ledger().list(() if every else ("pending",))
    if as_json:
        import orjson

        told = [{**record.request.to_dict(), "state": record.state} for record in found]
        sys.stdout.write(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    if not found:
        sys.stderr.write("no request waits for an answer\n")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("id", "state", "tool", "would touch", "why", "expires in"):
        table.add_column(name, no_wrap=name != "why")
    now = clock().now()
    for record in found:
        request, state = record.request, record.state
        touched = ", ".join(f"{kind} {' '.join(names)}" for kind, names in request.impact.items())
        left = max(0, int(request.expires - now))
        table.add_row(
            request.id, f"[{COLOUR[state]}]{state}[/]", request.tool, _plain(touched), _plain(request.reason),
            f"{left // 60}:{left % 60:02d}" if state == "pending" else "",
        )  # fmt: skip
    console().print(table)


def _plain(text: str) -> str:
    from rich.markup import escape

    from handrail.approvals.show import visible

    return escape(visible(text))


@command.command("show")
@click.argument("request_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
def show(request_id: str, as_json: bool) -> None:
    """Show a request in full: what will run, and what it would change."""
    from handrail.approvals.show import lines, styled

    record = _find(request_id)
    if as_json:
        import orjson

        told = {**record.request.to_dict(), "state": record.state}
        sys.stdout.write(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode() + "\n")
        return
    out = console()
    out.print(styled(lines(record.request, clock().now(), out.width)))
    out.print(f"state: {record.state}")


@command.command("grant")
@click.argument("request_id", metavar="ID")
@click.option("--scope", type=click.Choice(["call", "run", "session"]), default="call", help="how far it reaches")
@click.option("--uses", type=click.IntRange(1), help="how often it may be used")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="how long it holds")
def grant(request_id: str, scope: str, uses: int | None, minutes: float | None) -> int:
    """Grant a request: exactly the call that `show` shows."""
    from handrail.ports import Answered, Reply
    from handrail.words import Scope

    record = _find(request_id)
    wanted = Scope[scope.upper()]
    if wanted > record.request.max_scope:
        raise click.UsageError(f"This request can be granted for the {record.request.max_scope.word} at most.")
    expires = None if minutes is None else clock().now() + minutes * 60
    try:
        ledger().answer(request_id, Reply("granted", wanted, by=_who(), uses=uses, expires=expires))
    except Answered as late:
        sys.stderr.write(f"handrail: {late}\n")
        return 1
    sys.stderr.write(f"granted. A waiting call goes on now; else: handrail call --approval {request_id}\n")
    return 0


@command.command("deny")
@click.argument("request_id", metavar="ID")
@click.option("--advice", default="", help="what the model should do instead")
def deny(request_id: str, advice: str) -> int:
    """Refuse a request."""
    from handrail.ports import Answered, Reply

    _find(request_id)
    try:
        ledger().answer(request_id, Reply("denied", by=_who(), advice=advice))
    except Answered as late:
        sys.stderr.write(f"handrail: {late}\n")
        return 1
    sys.stderr.write("denied\n")
    return 0


@command.command("revoke")
@click.argument("request_id", metavar="ID")
def revoke(request_id: str) -> int:
    """Take a grant back that is still in force."""
    try:
        taken = ledger().revoke(request_id, _who())
    except KeyError:
        raise click.UsageError(f"There is no approval or grant {request_id!r}.") from None
    sys.stderr.write("taken back\n" if taken else "nothing was left to take back\n")
    return 0 if taken else 1


@command.command("watch")
def watch() -> None:
    """Show requests as they come, and ask for an answer to each."""
    from handrail.front.cli._common import terminal_approver

    asyncio.run(_watch(terminal_approver()))


async def _watch(approver: Any) -> None:
    book, seen = ledger(), set[str]()
    sys.stderr.write("waiting for approval requests; Ctrl-C ends this\n")
    while True:
        for request in book.pending(clock().now()):
            if request.id not in seen:
                seen.add(request.id)
                await approver.ask(request)
        while not book.changed():
            await asyncio.sleep(0.02)


def _find(request_id: str) -> Any:
    try:
        return ledger().find(request_id)
    except KeyError:
        raise click.UsageError(f"There is no approval {request_id!r}; `handrail approvals list --all` shows them.") from None


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
