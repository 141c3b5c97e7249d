"""Shells that are given a file to run. Nobody has read the file, so that only a rule with the same words allows it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

_SHELLS = frozenset(["sh", "bash", "dash"])
_READ_IN = frozenset(["source", "."])
_PLAIN_OPTIONS = re.compile(r"-[eux]+")
# An option, or a file whose content is whatever is sent to the shell.
_NO_FILE = ("-", "+", "/dev/", "/proc/")


def file_of(words: Sequence[str]) -> str:
    """Return the file that a shell is given to run.

    It is empty where the shell is given a line, its input, options that are not known, or a file above its folder.
    """
    if not words:
        return ""
    at = 1
    if words[0] not in _READ_IN:
        if words[0].rsplit("/", 1)[-1] not in _SHELLS:
            return ""
        while at < len(words) and _PLAIN_OPTIONS.fullmatch(words[at]):
            at += 1
    file = words[at] if at < len(words) else ""
    if file.startswith(_NO_FILE) or posixpath.normpath(file).startswith(".."):
        return ""
    return file


def file_doubt(words: Sequence[str]) -> str:
    """Say that a command runs a file which nobody has read; empty where it is given none."""
    file = file_of(words)
    return f"{words[0].rsplit('/', 1)[-1]} runs what the file {file} says" if file else ""
