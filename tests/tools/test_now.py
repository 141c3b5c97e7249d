"""now: a moment in a zone, from the clock it is given."""

from __future__ import annotations

import pytest

from handrail.errors import Code
from handrail.tools.util.now import Moment, now
from workspaces import refused


class Fixed:
    """A clock that stands still."""

    def now(self) -> float:
        """A quarter past ten at night, in London."""
        return 1_700_000_123.456

    def monotonic(self) -> float:
        """Not used."""
        return 0.0


@pytest.mark.parametrize(
    ("zone", "iso"),
    [
        ("UTC", "2023-11-14T22:15:23.456+00:00"),
        ("Europe/Berlin", "2023-11-14T23:15:23.456+01:00"),
        ("Asia/Kathmandu", "2023-11-15T04:00:23.456+05:45"),
        ("America/New_York", "2023-11-14T17:15:23.456-05:00"),
    ],
)
async def test_the_same_moment_is_told_in_each_zone(zone: str, iso: str) -> None:
    """ISO with offset, milliseconds since the epoch, and the zone asked for."""
    assert (await now.function(Fixed(), zone)).data == Moment(iso, 1_700_000_123_456, zone)


async def test_without_a_zone_it_is_utc() -> None:
    """The default is ours, not the machine's."""
    parsed, _ = now.parse({})
    assert (await now.function(Fixed(), **parsed)).data.timezone == "UTC"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("Tokio", "Asia/Tokyo"),
    ],
)
async def test_an_unknown_zone_names_the_one_that_was_meant(asked: str, meant: str) -> None:
    """INVALID_ARGS, with the call that works."""
    problem = await refused(now.function(Fixed(), asked))
    assert (problem.code, problem.next_call) == (Code.INVALID_ARGS, {"tool": "now", "args": {"timezone": meant}})


@pytest.mark.parametrize(
    "asked", ["../../etc/passwd", "/etc/localtime", "Europe", "nul\0", "zone1970.tab", "x" * 60, "é"]
)
async def test_a_zone_is_a_name_and_never_a_path(asked: str) -> None:
    """Nothing outside of the zone data is read."""
    assert (await refused(now.function(Fixed(), asked))).code is Code.INVALID_ARGS


def test_it_is_pure() -> None:
    """No touch, no permission."""
    assert (now.pure, now.permissions) == (True, ())
