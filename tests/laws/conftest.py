"""What several laws are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from approving import NOW
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    """Time that stands still."""
    return FixedClock(NOW)


@pytest.fixture
def ledger(tmp_path: Path, clock: FixedClock) -> Iterator[SqliteLedger]:
    """An empty ledger."""
    made = SqliteLedger(tmp_path / "state" / "ledger.db", clock)
    yield made
    made.close()
