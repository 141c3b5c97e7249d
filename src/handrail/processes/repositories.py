"""Traces of a program in git repositories: new ones by another name, named files that appear, commands of a rebase."""

from __future__ import annotations

import os
import re

from handrail.processes.text import legible
from handrail.workspace.repositories import RepositoryFinder

_REBASE = ("rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo")
_EXEC = re.compile(rb"^\s*(?:x|exec)\s", re.MULTILINE)
_MAX_TODO_BYTES = 1 << 20


class Traces:
    """The repositories before a program runs, and what differs afterwards. Used from threads."""

    def __init__(self, finder: RepositoryFinder) -> None:
        self._finder = finder
        self.before = finder.found()
        self._pairs = frozenset(finder.known)
        self._trees = frozenset(tree for _, tree in self._pairs if tree)
        self._absent = [path for path in self.before.named if not os.path.lexists(path)]
        self._commands = self._rebase_commands()

    def made(self) -> list[str]:
        """List the folders that have become repositories by another name than `.git`."""
        return [folder for folder in self._finder.look().folders if folder not in self.before.folders]

    def forget(self, folder: str) -> None:
        """Count a folder as no repository: what made it one was taken away."""
        self._finder.forget(folder)

    def warnings(self) -> list[str]:
        """Describe what a person must look at: named files that appeared, commands that a rebase would run."""
        found = [
            f"{legible(path)} exists now, is named by a git config and IS IN EFFECT; look at it before you use git"
            for path in self._absent
            if os.path.exists(path)
        ]
        for folder, tree in self._finder.known:
            if tree in self._trees and (folder, tree) not in self._pairs:
                found.append(
                    f"{legible(tree)}/.git leads to another repository now and IS IN EFFECT: "
                    f"look at {legible(folder)} before you use git"
                )
        for path, commands in self._rebase_commands().items():
            if commands and commands != self._commands.get(path):
                found.append(
                    f"the program left a rebase whose `exec` lines run with `git rebase --continue`: "
                    f"look at {legible(path)} first"
                )
        return found

    def _rebase_commands(self) -> dict[str, bytes]:
        """Read the lists of unfinished rebases that run commands."""
        found = {}
        for folder in self._finder.every:
            for name in _REBASE:
                path = os.path.join(folder, name)
                text = _read(path)
                if text is not None and _EXEC.search(text):
                    found[path] = text
        return found


def _read(path: str) -> bytes | None:
    """Read a list that a program may have written; what cannot be read counts as one that runs commands."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return None if not os.path.lexists(path) else b"exec unreadable\n"
    try:
        data = os.read(fd, _MAX_TODO_BYTES + 1)
    except OSError:
        return b"exec unreadable\n"
    finally:
        os.close(fd)
    return data if len(data) <= _MAX_TODO_BYTES else b"exec too large\n"
