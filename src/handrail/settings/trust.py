"""Which project files a person has reviewed: one pin per file, kept in the user's state folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from handrail.errors import SettingsFault
from handrail.settings.files import read_document
from handrail.settings.paths import Environment, state_dir


def trust_store(environment: Environment | None = None) -> TrustStore:
    """Give the user's own store."""
    return TrustStore(state_dir(environment) / "trust.json")


class TrustStore:
    """Pins of project files; a file that is changed is not trusted any more."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    def pinned(self, file: Path) -> str | None:
        """The pin a person gave this file; None also where the store cannot be believed."""
        try:
            return self._pins().get(_name(file))
        except SettingsFault:
            return None

    def trusts(self, file: Path, sha256: str) -> bool:
        """Whether a person reviewed this file with this very content."""
        return bool(sha256) and self.pinned(file) == sha256

    def trust(self, file: Path, sha256: str | None = None) -> str:
        """Pin a file, and give the pin; with `sha256` only if its content still has that pin."""
        document = read_document(Path(file))
        if document is None:
            raise SettingsFault(f"{file}: there are no settings to trust")
        if sha256 is not None and document.pin != sha256:
            raise SettingsFault(f"{file}: changed while it was reviewed; look at it again")
        with self._changing() as pins:
            pins[_name(file)] = document.pin
        return document.pin

    def forget(self, file: Path) -> bool:
        """Take trust back; False where there was none."""
        with self._changing() as pins:
            return pins.pop(_name(file), None) is not None

    def _pins(self) -> dict[str, str]:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsFault(f"{self.path}: cannot be read: {error.strerror}") from None
        with open(handle, "rb") as file:
            found = os.fstat(handle)
            # Whoever can write here can trust any project in the user's name.
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise SettingsFault(f"{self.path}: others can write it; run `chmod 600 {self.path}` after a look at it")
            try:
                pins = json.loads(file.read())
            except ValueError:
                pins = None
        if not isinstance(pins, dict) or not all(isinstance(pin, str) for pin in pins.values()):
            raise SettingsFault(f"{self.path}: is damaged; remove it and trust your projects again")
        return pins

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Read, let the caller change, and replace the store, one process at a time."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            pins = self._pins()
            yield pins
            self._replace(pins)
        finally:
            os.close(lock)

    def _replace(self, pins: dict[str, str]) -> None:
        fresh = Path(f"{self.path}.new")
        fresh.unlink(missing_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(pins, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(handle)
        os.replace(fresh, self.path)


class EveryFile(TrustStore):
    """Trusts whatever it is asked about: for looking at settings as they would be."""

    def trusts(self, file: Path, sha256: str) -> bool:  # noqa: ARG002
        """Say yes."""
        return True


def _name(file: Path) -> str:
    # The name itself is not followed: a link to a file that is trusted elsewhere must not carry that trust here.
    folder, name = os.path.split(os.path.abspath(file))
    return os.path.join(os.path.realpath(folder), name)
