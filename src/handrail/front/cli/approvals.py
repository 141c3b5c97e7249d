"""handrail approvals: what waits for a person, and the person's answer."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from handrail.front.cli._common import JSON, WORKSPACE, clock, console, ledger, print_json, run_async

COLOUR = {"pending": "yellow", "granted": "green", "used": "green", "denied": "red", "expired": "dim"}
_SCOPES = {"run": " for this run", "session": " for some hours", "always": " always"}
ID = click.argument("request_id", metavar="ID")
MOST_USES = 1_000_000
MOST_MINUTES = 100 * 366 * 24 * 60


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
    digest = ledger().confirmation(request_id)
    if as_json:
        print_json({**record.request.to_dict(), "state": record.state, "grant_digest": digest})
        return
    from handrail.approvals.show import coverage, lines, styled
    from handrail.words import Scope

    out = console()
    out.print(styled(lines(record.request, clock().now(), out.width, digest)), soft_wrap=True, end="")
    if record.request.max_scope > Scope.CALL and record.request.touches:
        scopes = "for the run or always" if record.request.max_scope is Scope.ALWAYS else "for the run"
        out.print(f"  granted {scopes} it covers", style="bold", markup=False)
        out.print(styled(coverage(record.request, out.width)), soft_wrap=True, end="")
    out.print(f"  state    {_state(record)}", markup=False)
    if record.state == "pending":
        sys.stderr.write(f"answer: handrail approvals grant {request_id} --digest {digest}, or deny {request_id}\n")


def _state(record: Any) -> str:
    from handrail.approvals.show import visible

    if record.reply is None:
        return str(record.state)
    by = f" by {record.reply.by}" if record.reply.by else ""
    why = f", {record.reply.advice}" if record.state == "expired" and record.reply.advice else ""
    return visible(f"{record.state}{by}{why}")


def _need_number(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Refuse `nan`, which is in every range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("it is not a number of minutes.", context, option)
    return value


@command.command("grant")
@ID
@click.option(
    "--scope", type=click.Choice(["call", "run", "session", "always"]), default="call", help="how far it reaches"
)
@click.option("--uses", type=click.IntRange(1, MOST_USES), help="how often it may be used")
@click.option(
    "--minutes", type=click.FloatRange(0, MOST_MINUTES, min_open=True), callback=_need_number, help="how long it holds"
)
@click.option("--digest", metavar="DIGEST", help="the one that `approvals show` prints; needed without a terminal")
def grant(request_id: str, scope: str, uses: int | None, minutes: float | None, digest: str | None) -> int:
    """Grant a request: exactly the call that `show` shows.

    At a terminal the request is shown and you are asked. Elsewhere --digest proves that you have seen it. A grant for
    the call holds for one use, unless --uses says how many.
    """
    from handrail.approvals.account import account
    from handrail.ports import Reply
    from handrail.words import Scope

    record = _find(request_id)
    wanted, widest = Scope[scope.upper()], max(record.request.max_scope, Scope.CALL)
    if wanted > (widest if record.request.touches else Scope.CALL):
        most = widest.word if record.request.touches else Scope.CALL.word
        at_most = f"This request can be granted for the {most} at most."
        raise click.UsageError(f"{at_most} `approvals.max_scope` says how far an answer may reach.")
    if record.state == "pending" and not _has_seen(record.request, digest, _meaning(wanted, uses, minutes), wanted):
        sys.stderr.write(
            f"Not granted: {request_id} stays pending; `handrail approvals deny {request_id}` refuses it.\n"
        )
        return 1
    expires = None if minutes is None else clock().now() + minutes * 60
    if not _answered(request_id, Reply("granted", wanted, by=account(), uses=uses, expires=expires)):
        return 1
    sys.stderr.write(f"Granted. {_goes_on(record.request)}\n")
    if wanted is Scope.ALWAYS:
        sys.stderr.write("`handrail rules list` shows what is granted always, `handrail rules remove` takes it back.\n")
    return 0


def _meaning(scope: Any, uses: int | None, minutes: float | None) -> str:
    """Say what a grant would cover."""
    from handrail.words import Scope

    what = {
        Scope.CALL: "Exactly this call",
        Scope.RUN: "For the rest of its run, whatever touches only what is listed below",
        Scope.SESSION: "In every run in its workspace, whatever touches only what is listed below",
        Scope.ALWAYS: "Always in its workspace, whatever touches only what is listed below",
    }[scope]
    counted = uses or (1 if scope is Scope.CALL else None)
    times = "" if counted is None else f", {'once' if counted == 1 else f'{counted} times'}"
    return f"{what}{times}{'' if minutes is None else f', within {minutes:g} minutes'}."


def _has_seen(request: Any, digest: str | None, meaning: str, scope: Any) -> bool:
    """Whether a person has seen the request and wants it granted: by its digest, or by asking at the terminal."""
    import hmac

    from handrail.words import Scope

    if digest is not None:
        if hmac.compare_digest(digest.encode(), ledger().confirmation(request.id).encode()):
            return True
        raise click.UsageError(
            f"{digest!r} is not the digest of request {request.id}. Read the request with `handrail approvals show "
            f"{request.id}`, and give the digest that it prints."
        )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(
            f"Without a terminal a request is granted by the digest that only `show` prints. Read the request with "
            f"`handrail approvals show {request.id}`, then run `handrail approvals grant {request.id} --digest DIGEST`."
        )
    return bool(run_async(_confirm(request, meaning, wider=scope > Scope.CALL)))


async def _confirm(request: Any, meaning: str, *, wider: bool) -> bool:
    from handrail.approvals._tty import open_terminal
    from handrail.approvals.terminal import Ended, confirm

    terminal = open_terminal(sys.stdin, sys.stderr)
    if terminal is None:
        return False
    with terminal:
        try:
            return await confirm(terminal, request, clock().now(), meaning, wider=wider)
        except (Ended, OSError):
            terminal.say("\n")
            return False


@command.command("deny")
@ID
@click.option("--advice", default="", help="what the model should do instead")
def deny(request_id: str, advice: str) -> int:
    """Refuse a request."""
    from handrail.approvals.account import account
    from handrail.ports import Reply

    _find(request_id)
    if not _answered(request_id, Reply("denied", by=account(), advice=advice)):
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
    from handrail.approvals.account import account

    try:
        taken = ledger().revoke(request_id, account())
    except KeyError:
        raise click.UsageError(
            f"There is no grant {request_id!r}; `handrail approvals list --all` shows what was granted."
        ) from None
    sys.stderr.write("Taken back.\n" if taken else "Nothing was left to take back.\n")
    return 0 if taken else 1


@command.command("watch")
@click.option("--here", is_flag=True, help="only requests of this workspace")
@WORKSPACE
def watch(here: bool, workspace: str) -> None:
    """Show requests as they come, and ask for an answer to each.

    The newest of a program that still runs comes first; one whose program has ended is marked. `later` skips one,
    which then stays pending. Ctrl-C ends the watch and answers nothing.
    """
    from handrail.front.cli._common import terminal_approver
    from handrail.front.cli._tables import from_home
    from handrail.front.cli._watch import Watch

    approver = terminal_approver("`approvals watch`", watching=True)
    watching = Watch(ledger(), clock(), approver, lambda item: not here or _is_here(item, workspace), _told)
    of_here = f" of {from_home(os.path.realpath(workspace))}" if here else ""
    sys.stderr.write(f"Waiting for approval requests{of_here}; Ctrl-C ends this.\n")
    run_async(watching.follow(bell=_wants_bell(workspace)))
    raise click.Abort


def _wants_bell(workspace: str) -> bool:
    """Say whether settings want the bell; settings that cannot be read keep nobody from answering."""
    from pathlib import Path

    from handrail.approvals.notify import BELL
    from handrail.errors import SettingsFault
    from handrail.settings import load

    try:
        return load(Path(workspace), environment=os.environ).settings.approvals.notify == BELL
    except SettingsFault:
        return False


def _told(request: Any, reply: Any, elsewhere: bool) -> str:
    """What became of a request that was shown, and how its call goes on."""
    from handrail.approvals.show import visible

    by = f" by {visible(reply.by)}, not here" if elsewhere and reply.by else ""
    if reply.state != "granted":
        return f"{reply.state}{by}"
    scope = _SCOPES.get(reply.scope.word, "")
    return f"{reply.state}{scope}{by}\n  {_goes_on(request, lasts=bool(scope))}"


def _goes_on(request: Any, *, lasts: bool = False) -> str:
    """Say how the call that was granted is made."""
    again = (request.replay or {}).get("command") or f"handrail call --approval {request.id}"
    if not _is_ours(request.tool):
        again = f"the program that has the tool {request.tool} repeats its call"
    elif request.caller == "agent":
        return (
            "Its task goes on: at once where a worker runs, else with `handrail agent --resume` or `handrail worker`."
        )
    elif request.caller == "mcp":
        again = f"have the agent repeat it{'' if lasts else ', it runs once'}"
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
