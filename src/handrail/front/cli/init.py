"""handrail init: a settings file to start from."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from handrail.front.cli._common import WORKSPACE, unknown, workspace_of


@click.command("init")
@click.option(
    "--preset",
    default="coding",
    show_default=True,
    metavar="NAME",
    help="what to start from: coding, readonly, or the system you know: skills-agent, clude, tool-hub, kgent, "
    "autonous, mcp-filesystem",
)
@click.option("--print", "only_print", is_flag=True, help="print it and write nothing")
@WORKSPACE
def command(preset: str, workspace: str, only_print: bool) -> int:
    """Write handrail.toml, explained line by line, and trust what was written."""
    from handrail.settings import PRESETS, preset_text, trust_store, write_new

    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    text = preset_text(preset)
    if only_print:
        sys.stdout.write(text)
        return 0
    path = Path(workspace_of({"workspace": workspace}), "handrail.toml")
    pin = write_new(path, text)
    sys.stderr.write(f"wrote {path}\n")
    try:
        trust_store().trust(path, pin)
    except OSError as error:
        sys.stderr.write(f"It is not trusted yet ({error.filename}: {error.strerror}), so it only narrows.\n")
        return 1
    _prepare()
    sys.stderr.write("trusted as written; what it means: handrail policy show\n")
    return 0


def _prepare() -> None:
    """Have the fast redaction ready before the first call; without it the plain one works as well."""
    from handrail.settings import paths
    from handrail.store import databases

    with suppress(OSError):
        databases.prepare(paths.cache_dir())
