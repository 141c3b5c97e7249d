"""handrail version."""

from __future__ import annotations

import sys

import click

from handrail import __version__


@click.command("version")
def command() -> None:
    """Print the version."""
    sys.stdout.write(f"handrail {__version__}\n")
