"""Which run belongs to which session of an agent, and the workspace that was fixed when the session began.

The folder that an agent stands in changes as it works; what it may touch must not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from handrail.errors import Misuse
from handrail.settings import paths
from handrail.store.private import make_folder, read_private, write_atomic
from handrail.words import noun

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@noun
class SessionRecord:
    """A session's run, and the folder that it works in."""

    run: str
    workspace: str


class SessionRegistry:
    """One small file a session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, SessionRecord] = {}

    def record(self, agent: str, session: str, cwd: str, *, starts: bool) -> SessionRecord:
        """Give the record of a session; the first hook of it fixes the workspace, and so does a new start elsewhere."""
        name = run_name(agent, session)
        known = self._known.get(name) or self._read(name)
        workspace = os.path.realpath(cwd)
        if known is not None and not (starts and known.workspace != workspace and _is_apart(workspace, known)):
            self._known[name] = known
            return known
        _check_workspace(workspace)
        run = name if known is None else f"{name}-{hashlib.sha256(workspace.encode()).hexdigest()[:8]}"
        made = self._known[name] = SessionRecord(run, workspace)
        self._write(name, made)
        return made

    def _read(self, name: str) -> SessionRecord | None:
        try:
            found = json.loads(read_private(self._folder / name))
            return SessionRecord(str(found["run"]), str(found["workspace"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write(self, name: str, record: SessionRecord) -> None:
        make_folder(self._folder)
        told = {"run": record.run, "workspace": record.workspace}
        write_atomic(self._folder / name, [json.dumps(told).encode()])


def run_name(agent: str, session: str) -> str:
    """Name the run of a session so that it is safe as a folder's name."""
    if not _SAFE.fullmatch(session):
        session = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{agent}-{session}"


def _is_apart(workspace: str, known: SessionRecord) -> bool:
    """Say whether a folder lies outside the one that a session works in: below it, the session only moved."""
    return not f"{workspace}/".startswith(f"{known.workspace.rstrip('/')}/")


def _check_workspace(workspace: str) -> None:
    """Refuse a folder that holds everybody's files: no agent is to write anywhere."""
    home = os.path.realpath(paths.home_dir())
    if f"{home}/".startswith(f"{workspace.rstrip('/')}/") and workspace != home:
        raise Misuse(f"the agent works in {workspace}, which holds your home; start it in a project's folder")
