"""handrail cache: the package caches that programs of a workspace fill."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from handrail.front.cli._common import CONFIG, WORKSPACE, loaded


@click.group("cache")
def command() -> None:
    """Look after the package caches of a workspace: pip, uv, npm, yarn, cargo and go keep there what they fetched."""


@command.command("clear")
@click.option("--all", "every", is_flag=True, help="those of every workspace")
@WORKSPACE
@CONFIG
def clear(every: bool, **given: Any) -> None:
    """Remove the package caches of this workspace; they are filled again when they are needed."""
    from handrail.processes.scratch import emptied
    from handrail.settings import paths

    if every:
        folder = paths.cache_dir() / "packages"
    else:
        root = Path(loaded(given, quiet=True).settings.workspace.root).resolve()
        folder = paths.packages_dir(str(root))
    if not os.path.isdir(folder):
        sys.stderr.write(f"There is no cache in {folder}.\n")
        return
    left = emptied(str(folder))
    if left:
        raise click.ClickException(f"{left} entries of {folder} could not be removed; remove them by hand.")
    sys.stderr.write(f"Emptied {folder}.\n")
