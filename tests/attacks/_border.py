"""A workspace with bait outside and protected files inside, for programs that run at the border without a question."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from attacks._shell_bash import prepared
from behaviour._commands import runtime
from handrail import Outcome, Runtime
from handrail.policy.caches import cache_folder
from handrail.testing import ScriptedApprover

SECRET = "lighthouse4711"  # has no shape of a secret, so that no redaction hides that it was read
RULES = [{"effect": "deny", "touch": "fs.*", "target": "**/secrets/**"}]
CONFIG: dict[str, Any] = {
    "exec": {"workspace": "review", "ask": "border"},
    "limits": {"max_repeats": 100_000, "bulk_files": 5, "max_prompts": 100_000},
    "rules": RULES,
}
# Neither read nor changed by anybody.
HIDDEN = (".env", "conf/.env.local", ".ssh/id_rsa", "deploy/secrets/key", "home/.netrc", "src/.ENV")
# Read by everybody, changed by nobody.
LOCKED = (
    ".git/config",
    ".git/hooks/pre-commit",
    "inner/.git/config",
    "inner/.git/hooks/post-checkout",
    "handrail.toml",
)
_GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org")


def make_scene(place: Path) -> Path:
    """Make the workspace `work` with a repository and one inside it, and bait in `outside`; gives the workspace."""
    work = prepared(place / "work")
    for name, text in {
        ".gitignore": "*.log\ndata/\n",
        "d/0": "0\n", "d/1": "1\n", "d/2/3": "3\n", "inner/x": "x\n", "data/set.bin": "\0\1\2\n",
        "node_modules/p/index.js": "x\n", "__pycache__/a.pyc": "x\n", "tool.sh": "#!/bin/sh\necho tool\n",
    }.items():  # fmt: skip
        _write(work / name, text)
    (work / "tool.sh").chmod(0o755)
    (work / "link").symlink_to("a.txt")
    (work / "dlink").symlink_to("d")
    (work / "link-out").symlink_to("../outside")
    (work / "empty").mkdir()
    for folder in (work, work / "inner"):
        for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one"), ("branch", "topic")):
            subprocess.run([*_GIT, *words], cwd=folder, check=True, capture_output=True)
    for name in HIDDEN:
        _write(work / name, f"{SECRET}\n")
    for name in (".git/hooks/pre-commit", "inner/.git/hooks/post-checkout"):
        _write(work / name, "#!/bin/sh\nexit 0\n")
    _write(work / "handrail.toml", "[tools]\n")
    for name in ("secret", "folder/other", "home/.ssh/id_rsa"):
        _write(place / "outside" / name, f"{SECRET}\n")
    return work


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def border(work: Path, answer: str = "no", config: dict[str, Any] | None = None, **how: Any) -> Runtime:
    """Open a runtime at the border; a person who is asked says `answer`."""
    approver = how.pop("approver", None) or ScriptedApprover(lambda _: answer)
    return runtime(work, config={**CONFIG, **(config or {})}, approver=approver, **how)


def picture(folder: Path, *, exact: bool = False) -> dict[str, tuple[Any, ...]]:
    """Tell kind, mode, content and attributes of all that lies below; `exact`: also which files they are, and when."""
    found: dict[str, tuple[Any, ...]] = {}
    waiting = [os.fsencode(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found[os.fsdecode(entry.path)[len(str(folder)) + 1 :]] = _look(entry, status, exact=exact)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return found


def _look(entry: os.DirEntry[bytes], status: os.stat_result, *, exact: bool) -> tuple[Any, ...]:
    content: Any = None
    if entry.is_symlink():
        content = os.readlink(entry.path)
    elif stat.S_ISREG(status.st_mode):
        with open(entry.path, "rb") as file:
            content = file.read()
    names = [] if entry.is_symlink() else sorted(os.listxattr(entry.path))
    attributes = [(name, os.getxattr(entry.path, name)) for name in names]
    which = (status.st_ino, status.st_nlink, status.st_uid, status.st_mtime_ns, status.st_ctime_ns) if exact else ()
    return (status.st_mode, content, tuple(attributes), *which)


def without_caches(seen: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Leave out what lies in caches of the closed table, and these themselves."""
    return {path: what for path, what in seen.items() if cache_folder(f"{path}/x") is None}


def gives_away(text: str) -> bool:
    """Say whether a text holds the secret, plain or in one of the forms that a line of the corpus could give it."""
    forms = (
        SECRET,
        SECRET[::-1],
        SECRET.upper(),
        SECRET.encode().hex(),
        base64.b64encode(SECRET.encode()).decode()[:-4],
    )
    return any(form in text for form in forms)


def find_secret(seen: dict[str, tuple[Any, ...]]) -> list[str]:
    """Name the files outside the hidden ones that hold the secret."""
    told = {path: what[1] for path, what in seen.items() if path not in HIDDEN}
    return [path for path, what in told.items() if isinstance(what, bytes) and gives_away(what.decode("latin-1"))]


def said_by(outcome: Outcome) -> str:
    """Give all that an outcome says, as text."""
    return str(outcome.to_dict())
