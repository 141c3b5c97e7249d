"""handrail tour: two minutes in a temporary workspace that show what the gate does."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from handrail.front.cli._common import run_async


@click.command("tour")
@click.option("--auto", is_flag=True, help="go through without waiting, and answer the approval by itself")
def command(auto: bool) -> int:
    """See it at work in two minutes, in a folder that is thrown away afterwards."""
    from handrail.front.cli._stations import Tour, furnish

    alone = auto or not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty())
    with _own_place() as folder:
        furnish(folder)
        return run_async(Tour(folder, alone=alone).run())


@contextmanager
def _own_place() -> Iterator[Path]:
    """A workspace and a state folder of its own; the user's runs, settings and ledger stay as they are."""
    with tempfile.TemporaryDirectory(prefix="handrail-tour-") as name:
        kept = {key: os.environ.get(key) for key in ("XDG_STATE_HOME", "XDG_CONFIG_HOME")}
        os.environ |= {"XDG_STATE_HOME": f"{name}/state", "XDG_CONFIG_HOME": f"{name}/config"}
        try:
            yield Path(name, "project")
        finally:
            for key, value in kept.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value
