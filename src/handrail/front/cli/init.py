"""handrail init: a settings file to start from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.front.cli._common import WORKSPACE, unknown, workspace_of

if TYPE_CHECKING:
    from handrail.settings.project import Project

CODING = "coding"


@click.command("init")
@click.option(
    "--preset",
    default=CODING,
    show_default=True,
    metavar="NAME",
    help="what to start from: coding, readonly, or the system you know: skills-agent, clude, tool-hub, kgent, "
    "autonous, mcp-filesystem",
)
@click.option("--print", "only_print", is_flag=True, help="print it and write nothing")
@WORKSPACE
def command(preset: str, workspace: str, only_print: bool) -> int:
    """Look at the project, write handrail.toml for it, and trust what was written.

    With another preset than coding the file is that preset, explained line by line.
    """
    from handrail.settings import PRESETS, preset_text, trust_store, write_new
    from handrail.settings.project import look_at_project, settings_text

    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    folder = Path(workspace_of({"workspace": workspace}))
    project = look_at_project(folder) if preset == CODING else None
    text = preset_text(preset) if project is None else settings_text(project)
    if only_print:
        sys.stdout.write(text)
        return 0
    path = folder / "handrail.toml"
    pin = write_new(path, text)
    sys.stderr.write(f"wrote {path}\n")
    try:
        trust_store().trust(path, pin)
    except OSError as error:
        sys.stderr.write(f"It is not trusted yet ({error.filename}: {error.strerror}), so it only narrows.\n")
        return 1
    _prepare()
    if project is None:
        sys.stderr.write("trusted as written; what it means: handrail policy show\n")
        return 0
    sys.stderr.writelines(f"{line}\n" for line in _next_steps(project, folder))
    return 0


def _next_steps(project: Project, folder: Path) -> Iterator[str]:
    """Tell what was found, what commands may do here, and the three commands that come next."""
    yield f"found: {project.describe()}"
    yield _sandbox_line()
    for hint in (*project.hints, *_git_hints(project, folder)):
        yield f"hint: {hint}"
    yield ""
    yield "Next:"
    yield "  handrail mcp install claude-code    connect an agent; or cursor, gemini-cli, goose, mcp-json"
    yield "  handrail approvals watch --here     answer its questions, in another terminal"
    yield "  handrail runs undo                  take back its last change; `runs undo RUN`: all of a run"


def _sandbox_line() -> str:
    """Try the sandbox once, and say whether commands run without a question in it."""
    from handrail.errors import Problem
    from handrail.sandbox.choose import choose
    from handrail.settings import paths

    try:
        choose(backend="native", min_tier="A", cache_dir=paths.cache_dir()).close()
    except Problem:
        return "commands: each is asked for, since the sandbox of this machine is too weak; `handrail doctor` says why"
    return "commands: run in a sandbox without a question; hosts, and changes that cannot be undone, are asked for"


def _git_hints(project: Project, folder: Path) -> Iterator[str]:
    from handrail.workspace.git_identity import find_identity

    if project.git and not find_identity(str(folder), os.environ):
        yield "git has no author for commits: `git config --global user.name NAME`, and the same for user.email"


def _prepare() -> None:
    """Have the fast redaction ready before the first call; without it the plain one works as well."""
    from handrail.settings import paths
    from handrail.store import databases

    with suppress(OSError):
        databases.prepare(paths.cache_dir())
