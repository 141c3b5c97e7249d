"""The compiled database of secret patterns, kept between runs: compiling takes a second, loading a millisecond."""

from __future__ import annotations

import os
from pathlib import Path

from handrail.output.redact import compile_database, database_fingerprint
from handrail.store.private import SAFE, make_folder


def cached(folder: Path) -> bytes | None:
    """The database compiled earlier, if it was made by this version on this machine; never known values."""
    try:
        fd = os.open(_file(folder), os.O_RDONLY | SAFE)
    except OSError:
        return None
    with open(fd, "rb") as file:
        # Somebody else's file would decide what is hidden.
        return file.read() if os.fstat(fd).st_uid == os.getuid() else None


def prepare(folder: Path) -> bool:
    """Compile and keep the database; False where the fast engine is not installed."""
    if cached(folder) is not None:
        return True
    database = compile_database()
    if database is None:
        return False
    make_folder(folder)
    draft = folder / f"redaction-{os.getpid()}.tmp"
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
    with open(fd, "wb") as file:
        file.write(database)
    draft.rename(_file(folder))
    return True


def _file(folder: Path) -> Path:
    return folder / f"redaction-{database_fingerprint()}.hs"
