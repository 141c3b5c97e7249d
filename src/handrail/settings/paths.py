"""Where Handrail keeps its own files, after the XDG base directory rules. Nothing here touches the disk."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

Environment = Mapping[str, str]


def config_dir(environment: Environment | None = None) -> Path:
    """The folder of the user's own settings."""
    return _folder("XDG_CONFIG_HOME", ".config", environment)


def state_dir(environment: Environment | None = None) -> Path:
    """The folder of runs, ledger and trust."""
    return _folder("XDG_STATE_HOME", ".local/state", environment)


def cache_dir(environment: Environment | None = None) -> Path:
    """The folder of what can be made again."""
    return _folder("XDG_CACHE_HOME", ".cache", environment)


def packages_dir(workspace: str, environment: Environment | None = None) -> Path:
    """The folder of the package caches of one workspace, which its programs write."""
    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
    return cache_dir(environment) / "packages" / name


def runs_dir(environment: Environment | None = None) -> Path:
    """The folder of runs where settings name no other."""
    return state_dir(environment) / "runs"


def home_dir(environment: Environment | None = None) -> Path:
    """The user's home folder."""
    home = (os.environ if environment is None else environment).get("HOME", "")
    return Path(home if home.startswith("/") else _known_home())


def _known_home() -> str:
    """The home that the system knows; `HOME` that leads elsewhere from each folder is none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a user that only a number stands for
        return "/"


def unreadable(path: str) -> str:
    """Why a path is no text: its name, or a locale that reads no other names than ASCII."""
    name = os.fsencode(path)
    try:
        shown = name.decode()
    except UnicodeDecodeError:
        return f"the path of the workspace, {name!r}, is not UTF-8; rename the folder"
    return f"this locale cannot read the path of the workspace, {shown}; set LC_ALL=C.UTF-8, or unset PYTHONUTF8"


def user_file(environment: Environment | None = None) -> Path:
    """The user's settings file."""
    return config_dir(environment) / "config.toml"


def _folder(variable: str, beneath_home: str, environment: Environment | None) -> Path:
    named = (os.environ if environment is None else environment).get(variable, "")
    # The XDG rules tell programs to ignore relative values: they would follow the current folder.
    base = Path(named) if named.startswith("/") else home_dir(environment) / beneath_home
    return base / "handrail"
