"""handrail hook: an agent's own hooks ask Handrail before it acts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.front.cli._common import JSON, WORKSPACE, console, harmless, print_json, unknown, workspace_of

if TYPE_CHECKING:
    from handrail.hooks.install import HookPlan
    from handrail.hooks.payloads import Agent
    from handrail.hooks.status import HookState


class _Agents(click.Group):
    """Answers one payload where an agent is named; that is done before click is loaded."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the verb; of an agent that is not known, say which there are."""
        from handrail.hooks.client import AGENTS, main

        if args[0] in AGENTS:
            main(args)
        if self.get_command(ctx, args[0]) is None:
            raise unknown("agent or verb", args[0], ("claude-code", "codex", "gemini-cli", *self.commands))
        return super().resolve_command(ctx, args)


@click.group("hook", cls=_Agents)
def command() -> None:
    """Have an agent's own hooks ask Handrail before it acts.

    \b
    handrail hook install claude-code     in all projects; --project: in this one
    handrail hook status                  whether hooks are in force, and what they do not see
    handrail hook AGENT                   answer one payload on the standard input

    AGENT is claude-code, codex or gemini-cli. Hooks are a door and no wall: the agent runs as your account, and what
    it starts is not confined. See docs/how-to/hooks.md.
    """


_AGENT = click.argument("name", metavar="AGENT")
_USER = click.option("--user", "user", flag_value=True, default=True, help="for all projects (the default)")
_PROJECT = click.option("--project", "user", flag_value=False, help="for this project alone")
_YES = click.option("--yes", is_flag=True, help="write without asking")


def _agent(name: str) -> Agent:
    from handrail.hooks.agents import AGENTS
    from handrail.hooks.client import AGENTS as NAMES

    if name not in NAMES:
        raise unknown("agent", name, AGENTS)
    return AGENTS[NAMES[name]]


@command.command("install")
@_AGENT
@_USER
@_PROJECT
@_YES
@WORKSPACE
def install(name: str, user: bool, yes: bool, **given: Any) -> int:
    """Put our lines into the settings of AGENT, once you have seen the difference."""
    from handrail.hooks import install as installing
    from handrail.own_code import ADVICE

    agent = _agent(name)
    workspace = Path(workspace_of(given))
    plan = installing.plan_install(agent, installing.place_of(agent, workspace, user=user))
    if plan.before == plan.after:
        sys.stderr.write(f"{plan.path} has our hooks already.\n")
        return 0
    if not _agreed(plan, yes=yes):
        return 1
    installing.install(plan)
    sys.stderr.write(f"Written. `handrail hook status` tries it. {agent.after_install}\n".replace(" \n", "\n"))
    home = str(workspace.resolve())
    if any(str(Path(path).resolve()).startswith(f"{home}/") for path in (sys.executable, installing.__file__)):
        sys.stderr.write(f"Handrail lies beneath this project, where the agent may change it: {ADVICE}\n")
    sys.stderr.write("Not seen by hooks there:\n" + "".join(f"  - {hole}\n" for hole in agent.holes))
    return 0


@command.command("uninstall")
@_AGENT
@_USER
@_PROJECT
@_YES
@WORKSPACE
def uninstall(name: str, user: bool, yes: bool, **given: Any) -> int:
    """Take our lines out of the settings of AGENT: the file is as it was."""
    from handrail.hooks import install as installing

    agent = _agent(name)
    plan = installing.plan_uninstall(installing.place_of(agent, Path(workspace_of(given)), user=user))
    if plan.before == plan.after:
        sys.stderr.write(f"{plan.path} has no hooks of ours.\n")
        return 0
    if not _agreed(plan, yes=yes):
        return 1
    installing.uninstall(plan)
    sys.stderr.write("Taken out.\n")
    return 0


def _agreed(plan: HookPlan, *, yes: bool) -> bool:
    """Show what changes, and ask a person unless the command line said yes."""
    sys.stdout.write(harmless(plan.diff.replace("\r\n", "\n")) if sys.stdout.isatty() else plan.diff)
    sys.stdout.flush()
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write("Nothing is written: nobody can be asked here. --yes writes it.\n")
        return False
    if click.confirm(f"Write {plan.path}?", err=True):
        return True
    sys.stderr.write("Nothing is written.\n")
    return False


@command.command("status")
@WORKSPACE
@JSON
def status(**given: Any) -> int:
    """Say for each agent found here whether its hooks are in force, try one payload, name what hooks do not see."""
    from handrail.hooks.agents import AGENTS
    from handrail.hooks.status import look

    workspace = Path(workspace_of(given))
    states = [look(agent, workspace) for agent in AGENTS.values()]
    if given["as_json"]:
        print_json([state.to_dict() for state in states])
    else:
        _show(states)
    return 1 if any(state.places and not state.in_force for state in states) else 0


def _show(states: list[HookState]) -> None:
    out = console()
    for state in states:
        title = state.agent.title
        if not state.found and not state.places:
            out.print(f"{title}: not found here", markup=False)
            continue
        if not state.places:
            out.print(f"{title}: no hooks; `handrail hook install {state.agent.name}` adds them", markup=False)
            continue
        word = "in force" if state.in_force else "NOT in force"
        out.print(f"{title}: {word}, in {', '.join(state.places)}", markup=False, soft_wrap=True)
        if state.tried:
            out.print(f"  tried: {state.tried} ({state.tried_ms:.0f} ms)", markup=False)
        for problem in state.problems:
            out.print(f"  problem: {harmless(problem)}", markup=False, soft_wrap=True)
        for hole in state.agent.holes:
            out.print(f"  not seen: {hole}", markup=False, soft_wrap=True)


@command.command("stop")
def stop() -> int:
    """End the hook daemon; the next hook starts it again."""
    from handrail.hooks.ending import end_daemon
    from handrail.settings import paths

    ended = end_daemon(str(paths.state_dir()))
    sys.stderr.write("The hook daemon has ended.\n" if ended else "There is no hook daemon.\n")
    return 0
