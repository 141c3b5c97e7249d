"""Which settings a command line asks for: a file of ours, a preset, or another system's own form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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
    from handrail.settings.layers import NamedSettings

    config, preset = given.get("config"), given.get("preset")
    if config and foreign.is_foreign(config):
        return NamedSettings(foreign.from_file(preset or given.get("dialect") or "native", Path(config)))
    if config and preset:
        raise click.UsageError("--preset and --config both say which settings count; choose one.")
    return _preset(preset) if preset else config


def place_of_run(run_id: str, root: str, given: Mapping[str, Any], candidates: Iterable[Any]) -> str:
    """The folder to open a run from again, so that it works where it did; an error where settings lead elsewhere."""
    for where in dict.fromkeys(str(item) for item in candidates if item):
        if os.path.isdir(where) and _root(run_id, given, where) == os.path.realpath(root):
            return where
    raise click.UsageError(
        f"Run {run_id} worked in {root}, and the settings here would work elsewhere. Give the --config or --preset "
        "that it was made with, and its project with --workspace."
    )


def _root(run_id: str, given: Mapping[str, Any], workspace: str) -> str:
    """Where a run of this name works under the settings that flags name."""
    from handrail.settings import load, paths

    config = config_of(given, workspace)
    found = load(Path(workspace), config=Path(config) if isinstance(config, str) else config, environment=os.environ)
    root = found.settings.workspace.root
    if root == "run:workspace":
        runs = Path(found.settings.runs_dir) if found.settings.runs_dir else paths.runs_dir()
        root = str(runs / run_id / "workspace")
    return os.path.realpath(root.replace("{run_id}", run_id))


def _preset(name: str) -> Mapping[str, Any]:
    from handrail.settings import PRESETS, preset
    from handrail.settings.layers import NamedSettings

    if name not in PRESETS:
        from handrail.front.cli._common import unknown

        raise unknown("preset", name, PRESETS)
    return _from_variables() if name == "autonous" else NamedSettings(preset(name))


def _autonous(workspace: str) -> Config:
    """Its variables where there are any, else settings that a person wrote; with neither, nothing is started."""
    from handrail.settings import foreign, load, programs

    if not foreign.has_variables(os.environ):
        found = load(Path(workspace), environment=os.environ)
        if found.files or any(origin.layer == "env" for origin in found.origins.values()):
            programs.require(programs.which_in(found.settings.programs.named()))
            return None
    return _from_variables()


def _from_variables() -> Mapping[str, Any]:
    """Settings from AUTONOUS_TOOL_* variables; every root must be there before anything starts.

    Further HANDRAIL_ variables count, but none that names other roots: the list of roots is given in one place.
    """
    from handrail.errors import SettingsFault
    from handrail.settings import foreign
    from handrail.settings.layers import NamedSettings

    config = NamedSettings(foreign.autonous(os.environ))
    for name in ("ROOT", "WRITE", "READ"):
        if f"HANDRAIL_WORKSPACE__{name}" in os.environ:
            raise SettingsFault(f"HANDRAIL_WORKSPACE__{name}: {foreign.ROOTS} names the roots; unset one of them")
    for root in (config["workspace"]["root"], *config["workspace"]["write"]):
        if not os.path.isdir(root):
            raise SettingsFault(f"{foreign.ROOTS}: {root} is not a folder")
    return config
