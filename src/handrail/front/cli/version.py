"""handrail version."""

from __future__ import annotations

import click

from handrail import __version__


@click.command("version")
def command() -> None:
    """Print the version."""
    click.echo(f"handrail {__version__}")
