"""The root command: finds the verb, and turns what went wrong into a message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from handrail import __version__
from handrail.spelling import nearest

# Each verb lives in the module of the same name, as a click command called `command`.
VERBS = {
    "init": "write a settings file to start from",
    "tools": "list the tools, or show one",
    "call": "make one governed call",
    "policy": "show, check, explain and test what is allowed",
    "approvals": "list, show, grant, deny and watch approval requests",
    "rules": "list, show and remove what is granted always, beside the settings' rules",
    "agent": "give an agent a task in this workspace",
    "send": "put a task into the inbox of a worker",
    "tasks": "list, show, cancel, resume and answer tasks",
    "worker": "work on the tasks of the inbox",
    "mcp": "serve the tools to an MCP client, or connect one",
    "hook": "have an agent's own hooks ask Handrail before it acts",
    "history": "read what agents did before, as runs",
    "serve": "the inbox, the timeline and REST of this account, for the desk and the phone",
    "identities": "add, list, renew and remove those who may use the service",
    "runs": "look at past runs, verify them, take back what they changed",
    "skills": "list, show and validate skills",
    "memory": "accept or reject notes that runs want remembered",
    "cache": "remove what package managers kept for a workspace",
    "config": "show settings and where each comes from; trust a project's file",
    "doctor": "check what this machine offers and what is missing",
    "tour": "see it at work in two minutes",
    "version": "print the version",
}


class Verbs(click.Group):
    """Imports a verb's module when it is asked for, so that starting stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The verbs, in the order people meet them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one verb."""
        if cmd_name not in VERBS:
            return None
        module = import_module(f"handrail.front.cli.{cmd_name}")
        found: click.Command = module.command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest verb where there is none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = nearest(args[0], VERBS, 1, 0.5)
            hint = f" Did you mean `handrail {near[0]}`?" if near else ""
            raise click.UsageError(f"There is no verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


EPILOG = """\b
Start here:
  handrail tour                        see it at work, in a folder of its own
  handrail init                        settings for the project in this folder
  handrail call read_file path=README.md

\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 denied, 4 waits for approval,
124 timed out, 130 interrupted. Data goes to stdout, everything else to stderr.

\b
Completion of verbs and options, in ~/.bashrc (likewise zsh and fish):
  eval "$(_HANDRAIL_COMPLETE=bash_source handrail)"
"""


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(__version__, message="handrail %(version)s")
def handrail() -> None:
    """Hands for agents, rails for the people who answer for them."""


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code says how it ended."""
    try:
        result: Any = handrail.main(list(argv), prog_name="handrail", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show(sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")  # click has begun a new line
        return 130
    except (BrokenPipeError, SystemExit):  # click leaves this way when a pipe's reader is gone
        return _nobody_reads()
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        from handrail.front.cli._common import harmless

        sys.stderr.write(f"handrail: {harmless(told[1])}\n")
        return told[0]
    return result if isinstance(result, int) else 0


def _nobody_reads() -> int:
    """Go quietly when a pipe's reader had enough, as `| head` does."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _told(error: Exception) -> tuple[int, str] | None:
    """The exit code and message of what can go wrong without a bug; None for a bug."""
    from handrail.errors import Code, Fault, Problem, RunFault

    if isinstance(error, (Problem, RunFault)):
        message = error.message if isinstance(error, Problem) else error
        return 3 if error.code is Code.APPROVAL_DENIED else 1, f"{error.code}: {message}"
    if isinstance(error, Fault):
        return 2, str(error)
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else "stdout: " if _of_showing(error) else ""
        return 1, f"{place}{error.strerror or error}{'' if place else _where_full(error)}"
    return None


def _of_showing(error: OSError) -> bool:
    """Whether showing something failed: nothing of ours beneath the front ends was at work."""
    import traceback

    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(names) and not any(
        name.startswith("handrail.") and not name.startswith("handrail.front.") for name in names
    )


def _where_full(error: OSError) -> str:
    """Where there is no room: of a write the system does not tell the file, but records are what is written here."""
    import errno

    from handrail.settings import paths

    return f"; records are kept in {paths.state_dir()}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
