"""What tests of the agent share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent._harness import Agent
from agent._workers import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """A process that forks workers."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture
def agent(work: Path) -> Agent:
    """An agent with the files and programs of an empty workspace."""
    return Agent(work)
