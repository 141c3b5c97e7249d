"""Hooks as agents start them: processes, and a daemon that ends with its test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.hooks import client
from handrail.hooks.ending import end_daemon

Hooks = Callable[..., subprocess.CompletedProcess[bytes]]
CLIENT = os.path.realpath(client.__file__)


@pytest.fixture
def state(own_user: Path) -> Iterator[Path]:
    """The state folder of the test's user; a daemon that was started there is ended."""
    folder = own_user / "state" / "handrail"
    yield folder
    end_daemon(str(folder))


@pytest.fixture
def hook(state: Path, work: Path) -> Hooks:
    """Start the client as an installed line does."""

    def start(
        agent: str, payload: dict[str, Any] | bytes, *words: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        command = [sys.executable, "-I", "-S", CLIENT, agent, *words, "--state", str(state)]
        return subprocess.run(
            command, input=data, capture_output=True, timeout=60, check=False, env={**os.environ, **(env or {})}
        )

    return start
