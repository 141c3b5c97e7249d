"""The root command: finds the verb, and turns what went wrong into a message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

# Each verb lives in the module of the same name, as a click command called `command`.
VERBS = {
    "init": "write a settings file to start from",
    "tools": "list the tools, or show one",
    "call": "make one governed call",
    "policy": "show, check, explain and test what is allowed",
    "approvals": "list, show, grant, deny and watch approval requests",
    "runs": "look at past runs, verify them, take back what they changed",
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

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest verb where there is none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, 1, 0.5)
            hint = f" Did you mean `handrail {near[0]}`?" if near else ""
            raise click.UsageError(f"There is no verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="handrail", message="handrail %(version)s")
def handrail() -> None:
    """Hands for agents, rails for the people who answer for them."""


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code says how it ended."""
    from handrail.errors import Fault, Problem, RunFault

    try:
        result: Any = handrail.main(list(argv), prog_name="handrail", standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show(sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return 130
    except Problem as problem:
        sys.stderr.write(f"handrail: {problem.code}: {problem.message}\n")
        return 1
    except RunFault as fault:
        sys.stderr.write(f"handrail: {fault.code}: {fault}\n")
        return 1
    except Fault as fault:
        sys.stderr.write(f"handrail: {fault}\n")
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0
