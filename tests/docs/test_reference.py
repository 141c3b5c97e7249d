"""The reference pages say what the code says, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

from handrail.errors import FACTS, Code
from handrail.front.reference import PAGES, main
from handrail.gates.record import EVENTS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "handrail"


def test_the_pages_are_up_to_date() -> None:
    """`make docs` would change nothing."""
    assert main(["--check", str(ROOT / "docs" / "reference")]) == 0


def test_every_code_has_its_facts() -> None:
    """The list is closed in both directions."""
    assert list(FACTS) == list(Code)


def test_every_event_that_is_written_is_documented() -> None:
    """No kind is appended anywhere that the list does not have, and none is only listed."""
    written = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        written |= set(re.findall(r'append\(\s*"([a-z]+\.[a-z]+|display)"', text))
        written |= set(re.findall(r'\.end\("([a-z.]+)"', text))
        written |= set(re.findall(r'_append\("([a-z.]+)"', text))
    assert written == set(EVENTS)


def test_no_page_is_missing() -> None:
    """Every generated page is there and starts with where it comes from."""
    for name in PAGES:
        assert "make docs" in (ROOT / "docs" / "reference" / name).read_text().splitlines()[0]
