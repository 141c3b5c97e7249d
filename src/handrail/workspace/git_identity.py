"""The author of commits as the user's git config has it for a workspace, read without running git."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping

from handrail.workspace.git_config import settings_of
from handrail.workspace.repositories import read_small, user_files

_KEYS = ("user.name", "user.email")
_DEEPEST = 10
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b", "\r": " ", "\0": ""})


def find_identity(workspace: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Find `user.name` and `user.email` of the user's own config; what the repository sets is git's to read."""
    found: dict[str, str] = {}
    reader = _Reader(_git_folder(workspace), environment.get("HOME", ""))
    for path in user_files(environment):
        found |= {key: value for key, value in reader.settings(path) if key in _KEYS}
    return found


def write_config(identity: Mapping[str, str]) -> bytes:
    """Write a config of git that holds an identity and nothing else."""
    values = {key.removeprefix("user."): identity[key] for key in _KEYS if identity.get(key)}
    if not values:
        return b""
    lines = [f'\t{name} = "{value.translate(_ESCAPES)}"\n' for name, value in values.items()]
    return os.fsencode("[user]\n" + "".join(lines))


class _Reader:
    """Reads configs with those that they include for one repository."""

    def __init__(self, folder: str, home: str) -> None:
        self._folder, self._home = folder, home

    def settings(self, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Give the settings in the order in which git takes them; nothing of a file that is malformed."""
        text = read_small(path) if depth <= _DEEPEST else None
        try:
            found = settings_of(text or "")
        except ValueError:
            return
        for key, value in found:
            if key == "include.path" or (key.startswith("includeif.") and self._holds(key, path)):
                yield from self.settings(self._beside(path, value), depth + 1)
            else:
                yield key, value

    def _holds(self, key: str, path: str) -> bool:
        """Whether a condition on the repository's folder holds; others are taken not to."""
        kind, _, pattern = key.removeprefix("includeif.").removesuffix(".path").partition(":")
        if kind not in ("gitdir", "gitdir/i") or not pattern or not key.endswith(".path"):
            return False
        folder = self._folder
        if pattern.startswith("./"):
            pattern = os.path.join(os.path.dirname(os.path.realpath(path)), pattern[2:])
        elif pattern.startswith("~/"):
            pattern = os.path.join(os.path.realpath(self._home), pattern[2:])
        elif not pattern.startswith("/"):
            pattern = f"**/{pattern}"
        if pattern.endswith("/"):
            pattern += "**"
        if kind == "gitdir/i":
            folder, pattern = folder.lower(), pattern.lower()
        return bool(folder) and fnmatch.fnmatchcase(folder, pattern.replace("**", "*"))

    def _beside(self, path: str, value: str) -> str:
        if value.startswith("~/"):
            return os.path.join(self._home, value[2:])
        return os.path.join(os.path.dirname(os.path.realpath(path)), value)


def _git_folder(workspace: str) -> str:
    """Find the repository's folder of a workspace; empty where there is none."""
    folder = workspace
    while True:
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return os.path.realpath(path)
        if os.path.isfile(path):
            named = (read_small(path) or "").removeprefix("gitdir:").strip()
            return os.path.realpath(os.path.join(folder, named))
        if folder == os.path.dirname(folder):
            return ""
        folder = os.path.dirname(folder)
