"""One settings file as it stands on disk: read within bounds, parsed, with the line of every key."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from handrail.errors import SettingsFault

if TYPE_CHECKING:
    from handrail.settings.lines import Lines

MAX_BYTES = 1024 * 1024
MOST_LINKS = 40  # as the system follows
PROJECT_FILE = "handrail.toml"
PYPROJECT = "pyproject.toml"
PYPROJECT_TABLE = ("tool", "handrail")


class Document(NamedTuple):
    """A settings file that was read."""

    path: Path
    shown: str  # as people are told: beneath the workspace where it lies there
    sha256: str
    pin: str  # what trust is bound to
    data: Mapping[str, Any]
    prefix: tuple[str, ...] = ()  # the table that holds our settings
    text: str = ""
    lines: Lines | None = None

    def line(self, path: tuple[str | int, ...]) -> int:
        """The line of a key, given by its path beneath our table."""
        return 0 if self.lines is None else self.lines.of((*self.prefix, *path))


def read_document(path: Path, shown: str | None = None) -> Document | None:
    """Read a settings file; None where there is none, or where a pyproject.toml holds nothing of ours."""
    shown = shown or str(path)
    raw = _read(path, shown)
    if raw is None or (path.name == PYPROJECT and b"handrail" not in raw):
        return None
    return document_of(path, shown, _decoded(raw, shown), hashlib.sha256(raw).hexdigest())


def document_of(path: Path, shown: str, text: str, digest: str) -> Document | None:
    """Take a text for the settings file that it was read from; None where a pyproject.toml holds nothing of ours."""
    found, data = _parsed(text, shown)
    if path.name != PYPROJECT:
        return Document(path, shown, digest, digest, data, (), text, found)
    ours = _our_table(data, shown, found)
    if ours is None:
        return None
    # Trust in a pyproject.toml is bound to our table: a new dependency must not take it away.
    pin = hashlib.sha256(json.dumps(ours, sort_keys=True, default=str).encode()).hexdigest()
    return Document(path, shown, digest, pin, ours, PYPROJECT_TABLE, text, found)


def read_text(path: Path) -> str:
    """Read another system's settings file, within the same bounds; SettingsFault where there is none."""
    raw = _read(path, str(path))
    if raw is None:
        raise SettingsFault(f"{path}: there is no such settings file")
    return _decoded(raw, str(path))


def project_documents(workspace: Path) -> list[Document]:
    """Read the project's own settings: `[tool.handrail]` of pyproject.toml, and handrail.toml, which comes after it."""
    found = [read_document(workspace / name, name) for name in (PYPROJECT, PROJECT_FILE)]
    return [document for document in found if document is not None]


def way_to(path: Path) -> tuple[str, ...]:
    """Every link on the way to a file, and the file itself: whoever takes one of them away takes the file away."""
    rest, here, way = _parts(os.path.abspath(path)), "", list[str]()
    while rest and len(way) <= MOST_LINKS:
        step = f"{here}/{rest.pop(0)}"
        try:
            target = os.readlink(step)
        except OSError:
            here = os.path.dirname(here) if step.endswith("/..") else step
            continue
        way.append(step)
        here, rest = "" if target.startswith("/") else here, _parts(target) + rest
    return (*way, here)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _read(path: Path, shown: str) -> bytes | None:
    try:
        # Without O_NONBLOCK a pipe planted under this name would hold the start for ever.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsFault(f"{shown}: cannot be read: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise SettingsFault(f"{shown}: is not a file")
        with open(handle, "rb", closefd=False) as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SettingsFault(f"{shown}: cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
    if len(raw) > MAX_BYTES:
        raise SettingsFault(f"{shown}: is larger than {MAX_BYTES} bytes, which no settings file is")
    return raw


def _decoded(raw: bytes, shown: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SettingsFault(f"{shown}:{line}: is not UTF-8 text (byte 0x{raw[error.start]:02x})") from None


def _parsed(text: str, shown: str) -> tuple[Lines, dict[str, Any]]:
    import tomllib

    from handrail.settings.lines import Lines, TooDeepError

    try:
        found = Lines(text)
        return found, tomllib.loads(text)
    except TooDeepError as error:
        raise SettingsFault(f"{shown}:{error.line}: is nested deeper than any setting is") from None
    except ValueError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = place[1] if place else text.count("\n") + 1
        message = str(error).split(" (at ", 1)[0]
        column = f" in column {place[2]}" if place else ""
        raise SettingsFault(f"{shown}:{line}: is not TOML{column}: {message}") from None


def _our_table(data: Mapping[str, Any], shown: str, found: Lines) -> Mapping[str, Any] | None:
    tool = data.get(PYPROJECT_TABLE[0])
    ours = tool.get(PYPROJECT_TABLE[1]) if isinstance(tool, dict) else None
    if ours is not None and not isinstance(ours, dict):
        raise SettingsFault(f"{shown}:{found.of(PYPROJECT_TABLE)}: tool.handrail: expected a table")
    return ours
