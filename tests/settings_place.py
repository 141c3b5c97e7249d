"""A home, a project in it, and the settings of both: the ground that tests of settings stand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.settings import Loaded, load, trust_store


@dataclass
class Place:
    """A home, a project in it, and the environment of its user."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.project.mkdir(parents=True)
        self.environment["HOME"] = str(self.home)

    @property
    def project(self) -> Path:
        return self.home / "project"

    def user(self, text: str) -> None:
        file = self.home / ".config/handrail/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write(self, text: str, name: str = "handrail.toml", *, trusted: bool = True) -> Path:
        file = self.project / name
        file.write_text(text)
        if trusted:
            trust_store(self.environment).trust(file)
        return file

    def load(self, **more: Any) -> Loaded:
        return load(self.project, environment=self.environment, **more)
