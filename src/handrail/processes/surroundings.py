"""What programs of a run find around them besides the roots: commands, a cache of packages, an author for commits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from handrail.sandbox.search_path import SearchPath
from handrail.sandbox.system import is_below
from handrail.words import Root, noun
from handrail.workspace.git_identity import find_identity, write_config

GIT_CONFIG = "/etc/handrail/gitconfig"  # where programs see it
# Where package managers keep what they fetched, below the cache.
_CACHES = {
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "CARGO_HOME": "cargo",
    "GOMODCACHE": "go-mod",
    "GOCACHE": "go-build",
}
# Programs that look for a newer version of themselves would ask for a host that nobody needs.
_QUIET = {"npm_config_update_notifier": "false", "NO_UPDATE_NOTIFIER": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@noun
class Surroundings:
    """The same for every program of a run."""

    search: SearchPath = field(default_factory=lambda: SearchPath((), {}))
    cache: str = ""  # absolute; empty: none
    files: tuple[tuple[str, bytes], ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, *, project: bool) -> dict[str, str]:
        """Give the variables of a program; `project`: it finds the project's own commands."""
        found = {**self.variables, "PATH": self.search.value(project=project)}
        return found | self.search.variables() if project else found


def look_around(
    roots: Sequence[Root], search: SearchPath, environment: Mapping[str, str], cache: Path | None
) -> Surroundings:
    """Find the author, and make the cache's folder where it is to be."""
    folder = _made(cache, roots) if cache is not None else ""
    variables = dict(_QUIET)
    if folder:
        variables |= {name: f"{folder}/{below}" for name, below in _CACHES.items()}
    rustup = os.path.realpath(os.path.join(environment.get("HOME", "/"), ".rustup"))
    if os.path.isdir(f"{rustup}/toolchains"):
        variables["RUSTUP_HOME"] = rustup
    files: tuple[tuple[str, bytes], ...] = ()
    if config := write_config(find_identity(roots[0].path, environment)):
        files = ((GIT_CONFIG, config),)
    variables["GIT_CONFIG_GLOBAL"] = GIT_CONFIG if files else os.devnull
    return Surroundings(search, folder, files, variables)


def _made(folder: Path, roots: Sequence[Root]) -> str:
    """Make the folder; none where a root holds it, for there it would be hidden as Handrail's own."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return ""
    real = os.path.realpath(folder)
    return "" if is_below(real, [root.path for root in roots]) else real
