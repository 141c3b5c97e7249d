"""Settings to start from, and writing them where none are yet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handrail.errors import Misuse, SettingsFault

PRESETS = ("readonly", "coding", "skills-agent", "clude", "tool-hub", "kgent", "autonous", "mcp-filesystem")
_FOLDER = Path(__file__).parent.parent / "presets"


def preset_text(name: str) -> str:
    """Give a preset as the commented file that `handrail init` writes."""
    if name not in PRESETS:
        raise Misuse(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def preset(name: str) -> Mapping[str, Any]:
    """Give a preset as a mapping, for `Runtime.open(config=…)`."""
    import tomllib

    return tomllib.loads(preset_text(name))


def write_new(path: Path, text: str) -> str:
    """Write a settings file where there is none, and give its sha256 to pin; SettingsFault where one is."""
    data = text.encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise SettingsFault(f"{path}: is there already; edit it, or remove it first") from None
    except OSError as error:
        raise SettingsFault(f"{path}: cannot be written: {error.strerror}") from None
    with open(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)
    return hashlib.sha256(data).hexdigest()
