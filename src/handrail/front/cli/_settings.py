"""Which settings a command line asks for: a file of ours, a preset, or another system's own form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

Config = str | Mapping[str, Any] | None


def config_of(given: Mapping[str, Any], workspace: str) -> Config:
    """The settings to open a runtime with; None for the user's and the project's files."""
    if given.get("dialect") == "autonous" and not given.get("config") and not given.get("preset"):
        return _autonous(workspace)
    return named(given)


def named(given: Mapping[str, Any]) -> Config:
    """The settings that flags name; None where they name none."""
    from handrail.settings import foreign

    config, preset = given.get("config"), given.get("preset")
    if config and foreign.is_foreign(config):
        return foreign.from_file(preset or given.get("dialect") or "native", Path(config))
    if config and preset:
        raise click.UsageError("--preset and --config both say which settings count; choose one.")
    return _preset(preset) if preset else config


def _preset(name: str) -> Mapping[str, Any]:
    from handrail.settings import PRESETS, preset

    if name not in PRESETS:
        raise click.UsageError(f"There is no preset {name!r}; there are: {', '.join(PRESETS)}.")
    return _from_variables() if name == "autonous" else preset(name)


def _autonous(workspace: str) -> Config:
    """Its variables where there are any, else settings that a person wrote; with neither, nothing is started."""
    from handrail.settings import foreign, load, programs

    if not foreign.has_variables(os.environ):
        found = load(Path(workspace), environment=os.environ)
        if found.files or any(origin.layer == "env" for origin in found.origins.values()):
            programs.require()
            return None
    return _from_variables()


def _from_variables() -> Mapping[str, Any]:
    """Settings from AUTONOUS_TOOL_* variables; every root must be there before anything starts."""
    from handrail.errors import SettingsFault
    from handrail.settings import foreign

    config = foreign.autonous(os.environ)
    for root in (config["workspace"]["root"], *config["workspace"]["write"]):
        if not os.path.isdir(root):
            raise SettingsFault(f"{foreign.ROOTS}: {root} is not a folder")
    return config
