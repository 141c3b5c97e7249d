"""handrail mcp: the tools for MCP clients, over stdin and stdout or HTTP, and the snippet that connects a client."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import (
    CONFIG,
    WORKSPACE,
    dialect_of,
    harmless,
    loaded,
    progress,
    replay_flags,
    run_async,
    unknown,
    workspace_of,
)

if TYPE_CHECKING:
    from handrail.front.mcp.opening import Opening


class _Folders(click.Group):
    """Knows a folder that is given as other servers take it."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the verb; a folder is none, and how it is given is said."""
        if self.get_command(ctx, args[0]) is None and ("/" in args[0] or os.path.isdir(args[0])):
            raise click.UsageError(
                f"A folder is given with --workspace: handrail mcp --workspace {shlex.quote(args[0])}. "
                "Further ones are for the settings: workspace.read and workspace.write."
            )
        return super().resolve_command(ctx, args)


@click.group("mcp", cls=_Folders, invoke_without_command=True)
@WORKSPACE
@CONFIG
@click.option("--dialect", default="native", show_default=True, metavar="NAME", help="whose names the tools have")
@click.option("--run", "run_id", metavar="NAME", help="a run to go on with, or the name of a new one")
@click.option("--http", "address", metavar="HOST:PORT", help="serve over HTTP instead of stdin and stdout")
@click.option("--token-file", metavar="FILE", help="the bearer token for HTTP; else HANDRAIL_TOKEN, else one is made")
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> None:
    """Serve the tools to an MCP client.

    \b
    handrail mcp                          over stdin and stdout; the client starts it
    handrail mcp --http 127.0.0.1:8420    over HTTP, with a bearer token
    handrail mcp install claude-code      connect a client

    A call that must be approved is answered with `handrail approvals` in another terminal.
    """
    if ctx.invoked_subcommand is not None:
        return
    if given["token_file"] and not given["address"]:
        raise click.UsageError("--token-file is for --http.")
    _need_sdk("uvicorn" if given["address"] else "mcp")
    from handrail.front.mcp.logs import to_stderr

    to_stderr()
    if given["address"]:
        from handrail.front.mcp.http import serve as serve_http

        run_async(serve_http(_opening(given), given["address"], given["token_file"]))
    else:
        from handrail.front.mcp.stdio import serve

        if sys.stdin.isatty() and sys.stderr.isatty():
            _opening(given)  # what is wrong is told to a person at once, and else to the client first
            sys.stderr.write(
                "Waits for an MCP client on stdin; `handrail mcp install CLIENT` connects one. Ctrl-D ends this.\n"
            )
        run_async(serve(partial(_opening, given)))


def _need_sdk(package: str) -> None:
    """Say what is missing before anything is served."""
    from handrail.installed import find_module

    if any(find_module(name) is None for name in ("mcp", "mcp_types", package)):
        raise click.UsageError("MCP needs one more package: pip install 'handrail[mcp]'.")


def _opening(given: Mapping[str, Any]) -> Opening:
    from handrail.front.cli._settings import config_of
    from handrail.front.mcp.opening import Opening

    workspace = workspace_of(given)
    config = config_of(given, workspace)
    return Opening(
        workspace,
        config,
        given["run_id"],
        dialect=given["dialect"],
        progress=progress,
        replay_flags=partial(replay_flags, given),
    )


@command.command("install")
@click.argument("client", metavar="CLIENT")
@click.option("--print", "only_print", is_flag=True, help="print the entry and write nothing")
@click.option("--yes", is_flag=True, help="write without asking")
@click.option("--user", is_flag=True, help="the user's settings of the client instead of the project's")
@click.option("--env", "variables", multiple=True, metavar="NAME", help="pass a variable on, by its name")
@click.option("--exclusive", is_flag=True, help="turn the client's own tools off, and allow ours, in its settings")
@click.option("--dialect", metavar="NAME", help="have the server started with this dialect")
@CONFIG
@WORKSPACE
def install(client: str, only_print: bool, yes: bool, user: bool, variables: tuple[str, ...], **given: Any) -> int:
    """Connect CLIENT: claude-code, claude-desktop, codex, cursor, gemini-cli, goose, opencode, vscode, windsurf, zed,
    or mcp-json for a plain .mcp.json.

    Shows what would change in the client's settings first. What is there stays; a copy is kept beside it. Says which
    tools of the client stay ungoverned, and how to turn them off.
    """
    from pathlib import Path

    from handrail.front.mcp import install as installing

    known = installing.CLIENTS.get(client)
    if known is None:
        raise unknown("client", client, installing.CLIENTS)
    workspace = Path(workspace_of(given))
    if not only_print:
        _need_sdk("mcp")
    has_settings = _can_start(given)
    flags = {name: given[name] for name in ("preset", "dialect", "config") if given[name]}
    entry = installing.entry_for(known, workspace, flags, variables, user=user)
    if only_print:
        sys.stdout.write(installing.snippet(known, entry))
        return 0
    from handrail.front.mcp.exclusive import plan_exclusive, tell

    plan = installing.planned(known, installing.place_of(known, workspace, user=user), entry)
    exclusive = given["exclusive"]
    plans = plan_exclusive(known, workspace, plan) if exclusive else [plan]
    done = max([_carried_out(item, yes=yes) for item in plans])
    if done == 0 and entry.command == installing.NAME:
        sys.stderr.write(f"{known.about.split(',')[0]} must find `handrail` on its own PATH.\n")
    if plan.is_written:
        if not has_settings and not flags:
            sys.stderr.write("There are no settings here, so tools only read; `handrail init` writes some.\n")
        sys.stderr.write("Its questions are answered by `handrail approvals watch --here`, in another terminal.\n")
    sys.stderr.write(tell(known, exclusive=exclusive and done == 0))
    return done


def _can_start(given: Mapping[str, Any]) -> bool:
    """Refuse flags that the server would refuse, before a client is told to start it; says whether files were read."""
    dialect_of(given["dialect"])
    # The settings of autonous are variables of the client, which are not these.
    if given["config"] or (given["preset"] or given["dialect"]) != "autonous":
        return bool(loaded(given).files)  # which also tells what is not taken, such as a file that nobody trusted
    return True


def _carried_out(plan: Any, *, yes: bool) -> int:
    """Show what changes, and write it once a person has said so."""
    from handrail.front.mcp.install import write
    from handrail.front.mcp.listing import prepare
    from handrail.settings import paths

    if plan.before == plan.after:
        sys.stderr.write(f"{plan.path} has this entry already.\n")
        return 0
    # A project may be a stranger's: nothing in its file may hide a part of what is shown.
    sys.stdout.write(harmless(plan.diff.replace("\r\n", "\n")) if sys.stdout.isatty() else plan.diff)
    sys.stdout.flush()
    if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write("Nothing is written: nobody can be asked here. --yes writes it.\n")
        return 1
    if not yes and not click.confirm(f"Write {plan.path}?", err=True):
        sys.stderr.write("Nothing is written.\n")
        return 0
    kept = write(plan)
    prepare(paths.cache_dir())  # so that the client's first start is no slower than the next
    sys.stderr.write(f"Written.{f' What was there is kept as {kept}.' if kept else ''}\n")
    return 0
