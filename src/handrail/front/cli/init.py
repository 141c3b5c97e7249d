"""handrail init: a settings file to start from."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("init")
@click.option("--preset", default="coding", show_default=True, help="which one to start from: coding or readonly")
@click.option("--workspace", "-w", default=".", type=click.Path(exists=True, file_okay=False), help="the project's folder")
@click.option("--print", "only_print", is_flag=True, help="print it and write nothing")
def command(preset: str, workspace: str, only_print: bool) -> int:
    """Write handrail.toml, explained line by line, and trust what was written."""
    from handrail.settings import PRESETS, preset_text, trust_store, write_new

    if preset not in PRESETS:
        raise click.UsageError(f"There is no preset {preset!r}; there are: {', '.join(PRESETS)}.")
    text = preset_text(preset)
    if only_print:
        sys.stdout.write(text)
        return 0
    path = Path(workspace, "handrail.toml")
    write_new(path, text)
    trust_store().trust(path.resolve())
    sys.stderr.write(f"wrote and trusted {path}\nsee what it means: handrail policy show\n")
    return 0
