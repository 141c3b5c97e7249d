"""A second process swaps links as fast as it can while the tree is searched.

Half of the time a link stands where a file or its folder stood, and points outside of the root or to an excluded
folder inside it. ripgrep, which walks by path, is led astray all the time; nothing it saw there may be shown, counted
or even named.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks._swapping import swapping
from handrail.errors import Problem
from handrail.queries import TextQuery
from handrail.tools.search.find_files import find_files
from handrail.tools.search.grep import grep
from handrail.words import Exclusion
from handrail.workspace.rg_process import find_program
from searching import Searching

VICTIMS = ("outside", "ws/protected")
EXCLUDED = (Exclusion("protected", "test"),)
WAYS = [{"confined": confined, "head_start_seconds": seconds} for confined in (True, False) for seconds in (0.0, 60.0)]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Path]:
    """A workspace under attack, beside a folder it must not show."""
    base = Path(os.path.realpath(tmp_path))
    for victim in VICTIMS:
        (base / victim).mkdir(parents=True)
        (base / victim / "data.txt").write_text("SECRET common\n")
        (base / victim / "only-here.txt").write_text("SECRET common\n")
    pairs: list[str] = []
    for number in range(12):
        work, secret = base / f"ws/work{number}", base / VICTIMS[number % 2]
        (work / "dir").mkdir(parents=True)
        (work / "dir/data.txt").write_text("harmless common\n")
        if number % 4 < 2:
            (work / "link").symlink_to(os.path.relpath(secret, work))
            pairs += [str(work / "dir"), str(work / "link")]
        else:
            (work / "link.txt").symlink_to(secret / "data.txt")
            pairs += [str(work / "dir/data.txt"), str(work / "link.txt")]
    with swapping(pairs):
        yield base


def test_bare_ripgrep_loses_the_race(ground: Path) -> None:
    """The attack is real: without our checks, what lies outside and what is excluded is shown."""
    seen: set[str] = set()
    until = time.monotonic() + 60
    while seen != {"content", "names"} and time.monotonic() < until:
        argv = [find_program(), "--no-config", "--glob=!protected", "SECRET"]
        if subprocess.run(argv, cwd=ground / "ws", capture_output=True, text=True, check=False).stdout:
            seen.add("content")
        argv = [find_program(), "--no-config", "--glob=!protected", "--files"]
        if "only-here" in subprocess.run(argv, cwd=ground / "ws", capture_output=True, text=True, check=False).stdout:
            seen.add("names")
    assert seen == {"content", "names"}


@pytest.mark.parametrize("how", WAYS, ids=lambda how: "-".join(map(str, how.values())))
async def test_a_race_shows_nothing_of_what_must_not_be_seen(ground: Path, how: dict[str, Any], scale: int) -> None:
    """No line, no count, no name, with Landlock and without, sorted and parallel."""
    rounds = common = 0
    until = time.monotonic() + 1.5 * scale
    async with Searching(ground / "ws", excluded=EXCLUDED, **how) as search:
        while time.monotonic() < until:
            rounds += 1
            secret = await search.call(grep, pattern="SECRET", context=1)
            assert (secret.data.matches, secret.data.context) == ([], [])
            for mode in ("files", "count"):
                assert (await search.call(grep, pattern="SECRET", mode=mode)).data.files == []
            shown = await search.call(grep, pattern="common")
            common += len(shown.data.matches)
            assert {match.text for match in shown.data.matches} <= {"harmless common"}
            for sort in ("path", "size"):
                names = await search.call(find_files, pattern="*", sort=sort)
                assert {path.rpartition("/")[2] for path in names.data.paths} <= {"data.txt", "link.txt"}
    assert rounds >= 5
    assert common > 0


@pytest.mark.parametrize("mode", ["content", "files", "count"])
async def test_a_file_searched_by_name_is_the_file_that_was_judged(ground: Path, mode: str, scale: int) -> None:
    """Where the path itself is swapped, the search is refused or sees the real file; never what the link points to."""
    outcomes = {"denied": 0, "refused": 0, "searched": 0}
    until = time.monotonic() + 1.0 * scale
    async with Searching(ground / "ws", excluded=EXCLUDED) as search:
        for name in itertools.cycle([f"work{number}/dir/data.txt" for number in range(4)]):
            if time.monotonic() > until:
                break
            try:
                place = search.files.resolve(name)
                if place.path.startswith("protected"):
                    outcomes["denied"] += 1  # as policy does
                    continue
                found = await search.ripgrep.bind(EXCLUDED).text(place, TextQuery("SECRET", mode=mode))
            except Problem:
                outcomes["refused"] += 1
            else:
                assert (found.hits, found.counts) == ([], [])
                outcomes["searched"] += 1
    assert outcomes["searched"] > 0
