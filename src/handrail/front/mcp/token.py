"""The bearer token of whatever listens on HTTP: given by a person, or made once and kept private."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from handrail.errors import SettingsFault
from handrail.settings import paths
from handrail.store.private import make_folder

VARIABLE = "HANDRAIL_TOKEN"
_LEAST = 16
_LOOKS, _LOOK_SECONDS = 100, 0.01


def bearer_token(file: str | None, environment: Mapping[str, str]) -> str:
    """Give the token: from a file, the environment, or one that is made and printed once."""
    if file is not None:
        return _checked(_read(Path(file)), file)
    if named := environment.get(VARIABLE):
        return _checked(named, VARIABLE)
    kept = paths.state_dir(environment) / "token"
    return _kept(kept) if kept.exists() else _made(kept)


def kept_in(file: str | None, environment: Mapping[str, str]) -> Path | None:
    """Where the token of an earlier start is kept; None where a person gives one, or it is yet to be made."""
    kept = paths.state_dir(environment) / "token"
    return kept if file is None and not environment.get(VARIABLE) and kept.exists() else None


def _checked(token: str, where: str) -> str:
    if len(token) < _LEAST or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsFault(f"{where}: a token is at least {_LEAST} printable ASCII characters without spaces")
    return token


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise SettingsFault(f"{path}: the token cannot be read: {reason}") from None


def _kept(path: Path) -> str:
    """The token of an earlier start; one in the same moment may not have written it yet."""
    for _ in range(_LOOKS):
        if token := _read(path):
            return _checked(token, str(path))
        time.sleep(_LOOK_SECONDS)
    return _checked("", str(path))


def _made(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    make_folder(path.parent)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:  # two start at once: the token of the first counts for both
        return _kept(path)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(f"{token}\n")
    sys.stderr.write(f"token: {token}\n")
    return token
