"""A second process swaps links as fast as it can while files are read, written, moved, deleted and listed.

Four paths are attacked at once: a link stands half of the time where the file stood, or where its folder stood, and
points outside of the root, or to a protected folder inside it. What resolves to the protected folder is denied here as
policy would deny it; what resolved elsewhere must never end up there, however quick the swapping is.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from attacks._swapping import swapping
from handrail.errors import Code, Problem
from handrail.words import Place, PlaceKind
from handrail.workspace import WorkspaceFiles
from handrail.workspace.bound import BoundFiles
from workspaces import workspace

SECRET, HARMLESS = b"SECRET", b"harmless"
VICTIMS = ("outside", "ws/protected")
WORKS = tuple(f"{shape}-{number}" for shape in ("folder", "file") for number in range(len(VICTIMS)))


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Path]:
    """The folder that holds the workspace and the victims, while the swapper is at work."""
    base = Path(os.path.realpath(tmp_path))
    for victim in VICTIMS:
        (base / victim).mkdir(parents=True)
        for name in ("data.txt", "only-here.txt"):
            (base / victim / name).write_bytes(SECRET)
    pairs = [path for work in WORKS for path in grow(base, work)]
    with swapping(pairs):
        yield base


def grow(base: Path, work: str) -> tuple[Path, Path]:
    """Make `work/dir/data.txt`, and the link that is swapped with it or with its folder."""
    shape, _, number = work.partition("-")
    folder, victim = base / "ws" / work, base / VICTIMS[int(number)]
    (folder / "dir").mkdir(parents=True)
    (folder / "dir/data.txt").write_bytes(HARMLESS)
    if shape == "folder":
        (folder / "link").symlink_to(os.path.relpath(victim, folder))
        return folder / "dir", folder / "link"
    (folder / "link.txt").symlink_to(victim / "data.txt")
    return folder / "dir/data.txt", folder / "link.txt"


@pytest.fixture(params=["openat2", "walk"])
async def race(ground: Path, scale: int, request: pytest.FixtureRequest) -> AsyncIterator[Race]:
    """A race in the workspace under attack, once with each way to open."""
    files = workspace(ground, opener=request.param)
    yield Race(files, 1.5 * scale)
    await files.close()


Attempt = Callable[[BoundFiles, str], Awaitable[None]]


class Race:
    """Counts how attempts end, by the path attacked."""

    def __init__(self, files: WorkspaceFiles, seconds: float) -> None:
        self._files = files
        self._seconds = seconds
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def judged(self, path: str, *, follow: bool = True) -> Place:
        """Resolve, and deny what is protected."""
        place = self._files.resolve(path, follow=follow)
        if f"{place.path}/".startswith("protected/"):
            raise Problem(Code.PATH_PROTECTED, "denied")
        below = self._files.below(place) if place.kind is PlaceKind.DIRECTORY else None
        return place if below is None else replace(place, below=frozenset(below))

    async def run(self, attempt: Attempt) -> None:
        """Try on each path in turn until the time is over."""
        until, call = time.monotonic() + self._seconds, self._files.bind("race", ())
        for work in itertools.cycle(WORKS):
            if time.monotonic() >= until:
                return
            try:
                await attempt(call, work)
            except Problem:
                self.refused[work] += 1
            else:
                self.done[work] += 1
            call.changes.clear()
            await asyncio.sleep(0)


def untouched(ground: Path) -> bool:
    """Whether the victims are as they were made."""
    found = [{path.name: path.read_bytes() for path in (ground / victim).iterdir()} for victim in VICTIMS]
    return found == [{"data.txt": SECRET, "only-here.txt": SECRET}] * len(VICTIMS)


async def test_reading_never_gives_what_a_swapped_link_points_to(race: Race) -> None:
    """Whole or streamed; every path was met both as a file and as a link."""
    seen: set[bytes] = set()

    async def attempt(call: BoundFiles, work: str) -> None:
        place = race.judged(f"{work}/dir/data.txt")
        seen.add((await call.read(place, 100)).data)
        async with call.open(place) as stream:
            seen.add(await stream.read(100))

    await race.run(attempt)
    assert seen == {HARMLESS}
    assert (set(race.done), set(race.refused)) == (set(WORKS), set(WORKS))


async def test_listing_never_enters_a_swapped_link(race: Race) -> None:
    """At the folder itself and from above it."""
    seen: set[str] = set()

    async def attempt(call: BoundFiles, work: str) -> None:
        for path in (work, f"{work}/dir"):
            listing = await call.list(race.judged(path), depth=3, hidden=True)
            seen.update(entry.path.rpartition("/")[2] for entry in listing.entries)

    await race.run(attempt)
    assert "only-here.txt" not in seen
    assert set(race.done) == set(WORKS)
    assert set(race.refused) == {work for work in WORKS if work.startswith("folder")}


async def test_writing_never_goes_through_a_swapped_link(race: Race, ground: Path) -> None:
    """Neither replacing nor making a file or a folder."""
    number = itertools.count()

    async def attempt(call: BoundFiles, work: str) -> None:
        fresh = next(number)
        await call.write(race.judged(f"{work}/dir/data.txt"), HARMLESS, expected_sha256=None)
        await call.write(race.judged(f"{work}/dir/new-{fresh}"), HARMLESS, expected_sha256=None)
        await call.make_dir(race.judged(f"{work}/dir/made-{fresh}/x"))

    await race.run(attempt)
    assert untouched(ground)
    assert race.done.total() > 0
    assert race.refused.total() > 0


async def test_moving_never_takes_from_or_puts_to_a_swapped_link(race: Race, ground: Path) -> None:
    """What is moved out is never the secret, what is moved in never lands there."""
    taken: set[bytes] = set()

    async def attempt(call: BoundFiles, work: str) -> None:
        out, back = ground / "ws" / work / "taken.txt", ground / "ws" / work / "back.txt"
        try:
            await call.move(race.judged(f"{work}/dir/data.txt"), race.judged(f"{work}/taken.txt"), overwrite=True)
        finally:
            if out.exists() and not out.is_symlink():
                taken.add(out.read_bytes())
        back.write_bytes(HARMLESS)
        await call.move(race.judged(f"{work}/back.txt"), race.judged(f"{work}/dir/data.txt"), overwrite=True)

    await race.run(attempt)
    assert SECRET not in taken
    assert untouched(ground)
    assert race.refused.total() > 0


async def test_deleting_never_goes_through_a_swapped_link(race: Race, ground: Path) -> None:
    """Neither a file below the link nor a folder with all in it."""

    async def attempt(call: BoundFiles, work: str) -> None:
        grow_again(ground / "ws" / work)
        await call.delete(race.judged(f"{work}/dir/data.txt", follow=False), recursive=False)
        await call.delete(race.judged(f"{work}/dir/sub", follow=False), recursive=True)

    await race.run(attempt)
    assert untouched(ground)
    assert race.done.total() > 0
    assert race.refused.total() > 0


def grow_again(work: Path) -> None:
    """Put what was deleted back into the real folder, whichever name it has now."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    for name in ("dir", "link"):
        with suppress(OSError):
            folder = os.open(work / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            with suppress(FileExistsError):
                os.close(os.open("data.txt", flags, dir_fd=folder))
            with suppress(FileExistsError):
                os.mkdir("sub", dir_fd=folder)
            with suppress(FileExistsError):
                os.symlink("../../../protected", "sub/link", dir_fd=folder)
            os.close(folder)


@pytest.mark.parametrize("work", WORKS)
def test_checking_a_path_before_opening_it_loses_this_race(ground: Path, work: str, scale: int) -> None:
    """The negative control: realpath, then open, gives the secret away under the same attack."""
    path, root = ground / "ws" / work / "dir/data.txt", f"{ground}/ws"
    until = time.monotonic() + 20 * scale
    while time.monotonic() < until:
        with suppress(OSError):
            real = os.path.realpath(path)
            if (
                real.startswith(f"{root}/")
                and not real.startswith(f"{root}/protected/")
                and path.read_bytes() == SECRET
            ):
                return
    pytest.fail("the attack is too weak to prove anything")
