"""Traversal strings by the thousand against resolving and opening: none gets out, none breaks anything."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from handrail.errors import Problem
from handrail.words import Place, PlaceKind, Root
from handrail.workspace import WorkspaceFiles
from handrail.workspace.bound import BoundFiles

DOTS = (
    "..", ".", "...", "....", ".. ", " ..", "..\t", "..;", "..%00", "..%01", ".%2e", "%2e.", "%2e%2e", "%252e%252e",
    "..%c0%af", "%c0%ae%c0%ae", "%uff0e%uff0e", "\uff0e\uff0e", "\u2024\u2024", "\u2025", "\u2026", ".\u0338.",
    ".\u200b.", ".\u00ad.", "..\u202e", "\ufeff..", "..\x00", "..\n", "..\r", "..\x1b", "..\x7f", "..\x85", "..\udcff",
    "..::$DATA", "..$", "..~1", "*", "?", "~", "~root", "$HOME", "${HOME}", "`pwd`", "$(pwd)", "%HOME%",
)  # fmt: skip
SLASHES = (
    "/", "//", "///", "/./", "/.//", "\\", "\\\\", "/\\", "\\/", "%2f", "%252f", "%5c", "%c0%af", "\u2215", "\u2044",
    "\uff0f", "\u29f8", "\uff3c", "/\x00/", "/ /", "/\u200b/", ":", ";/", "/;/", "|",
)  # fmt: skip
TARGETS = ("outside/secret.txt", "etc/passwd", "secret.txt", "proc/self/environ", "")
TAILS = ("secret.txt", "./secret.txt", "../outside/secret.txt", "/secret.txt", "secret.txt/", "x/../secret.txt")
PREFIXES = (
    "", "/", "//", "./", "a/", "a/b/c/", "link-in/", "link-out/", "link-up/", "deep-link/", "file.txt/", "missing/",
    "file:", "file:///", "file://localhost/", "run:", "run:workspace/", "run:../", "run:observations/", "C:\\", "C:/",
    "\\\\?\\", "\\\\server\\share\\", "/proc/self/root/", "/proc/self/cwd/", "/dev/fd/", "~/", "\x00", " ", "a\x00/",
)  # fmt: skip


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A workspace full of links, a secret outside of it, and a protected one inside."""
    base = Path(os.path.realpath(tmp_path))
    (base / "outside").mkdir()
    (base / "outside/secret.txt").write_text("SECRET")
    (base / "secret.txt").write_text("SECRET")
    (base / "ws/a/b/c").mkdir(parents=True)
    (base / "ws/file.txt").write_text("harmless")
    (base / "observations").mkdir()
    for name, target in {
        "link-in": "a/b",
        "link-out": "../outside",
        "link-up": "a/../..",
        "deep-link": "link-in/../../link-out",
        "a/b/c/link-abs": str(base / "outside"),
        "a/b/link-proc": "/proc/self/root",
        "a/b/link-fd": "/proc/self/fd",
        "a/link-self": ".",
        "a/link-loop": "../a/link-loop",
    }.items():
        (base / "ws" / name).symlink_to(target)
    return base


@pytest.fixture(params=["openat2", "walk"])
async def files(ground: Path, request: pytest.FixtureRequest) -> AsyncIterator[WorkspaceFiles]:
    """The workspace, absolute paths allowed, once with each way to open."""
    roots = [
        Root("workspace", str(ground / "ws"), True),
        Root("run:observations", str(ground / "observations"), False),
    ]
    made = WorkspaceFiles(roots, allow_absolute=True, images=None, locks_dir=None, opener=request.param)
    yield made
    await made.close()


def traversals(ground: Path) -> Iterator[str]:
    """Every dot with every slash at several depths, every prefix with every way up, and what is too long."""
    for dots, slash, target in itertools.product(DOTS, SLASHES, TARGETS[:2]):
        yield slash.join([dots, dots, dots, target.replace("/", slash)])
    for prefix, depth, target in itertools.product(PREFIXES, range(9), TARGETS):
        yield prefix + "../" * depth + target
        yield prefix + "%2e%2e%2f" * depth + target
    for depth, below in itertools.product(range(0, 260, 7), ("", "a/b/c/", "link-in/", "a/link-self/" * 5)):
        yield below + "../" * depth + "outside/secret.txt"
        yield "a/../" * depth + below + "../" * depth + "secret.txt"
    for name in ("link-out", "link-up/outside", "deep-link", "a/b/c/link-abs", f"a/b/link-proc{ground}/outside"):
        for tail in (
            "secret.txt",
            "./secret.txt",
            "../outside/secret.txt",
            "//secret.txt",
            "secret.txt/",
            "x/../secret.txt",
        ):
            yield f"{name}/{tail}"
            yield quote(f"{name}/{tail}", safe="")
    for path in (ground / "outside/secret.txt", ground / "ws/../outside/secret.txt", ground / "ws-more", ground):
        yield str(path)
        yield f"/{path}"
        yield f"/proc/self/root{path}"
        yield str(path).replace("/", "//")
    for length in (255, 256, 1000, 4095, 4096, 5000, 70_000):
        yield "n" * length
        yield "ü" * length
        yield "../" * length + "etc/passwd"
        yield "a/" * length
    for number in range(0x21):
        yield f"a{chr(number)}b/../../../outside/secret.txt"
    for number in range(20):
        yield f"/proc/self/fd/{number}/../outside/secret.txt"
        yield f"a/b/link-fd/{number}"


def test_there_are_enough_traversal_strings(ground: Path) -> None:
    """The generator makes at least 2,000 different ones."""
    assert len(set(traversals(ground))) >= 2000


async def test_no_traversal_string_leaves_the_roots(files: WorkspaceFiles, ground: Path) -> None:
    """Each one is refused with a Problem or resolves to a place that really lies in a root."""
    inside, refused = 0, 0
    for text, follow in itertools.product(dict.fromkeys(traversals(ground)), (True, False)):
        try:
            place = files.resolve(text, follow=follow)
        except Problem:
            refused += 1
            continue
        inside += 1
        assert not {"", ".", ".."} & set(place.path.split("/")) or place.path == "", text
        above = os.path.dirname(place.absolute) if place.path else place.absolute
        assert is_beneath(os.path.realpath(above if not follow else place.absolute), ground), text
    assert inside > 100
    assert refused > 1000


def is_beneath(path: str, ground: Path) -> bool:
    """Whether a real path lies in one of the roots."""
    return any(f"{path}/".startswith(f"{ground}/{root}/") for root in ("ws", "observations"))


async def test_no_traversal_string_reads_or_writes_outside(files: WorkspaceFiles, ground: Path) -> None:
    """What resolves is used for everything, and the world outside is as it was."""
    before = snapshot(ground)
    call = files.bind("c", ())
    found: set[bytes] = set()
    for text in dict.fromkeys(traversals(ground)):
        try:
            place = files.resolve(text)
        except Problem:
            continue
        await use(call, place, found)
    assert b"SECRET" not in found
    assert snapshot(ground) == before


async def use(call: BoundFiles, place: Place, found: set[bytes]) -> None:
    """Read it, look at it, list it, write to it: whatever of that works."""
    with suppress(Problem):
        found.add((await call.read(place, 1 << 20)).data)
    with suppress(Problem):
        await call.stat(place)
    with suppress(Problem):
        await call.list(place, depth=2, hidden=True)
    with suppress(Problem):
        await call.write(place, b"x", expected_sha256="0" * 64, mkdirs=False)


def snapshot(ground: Path) -> dict[str, bytes]:
    """All regular files outside and inside, with their bytes."""
    return {str(path): path.read_bytes() for path in ground.rglob("*") if path.is_file() and not path.is_symlink()}


async def test_hand_made_places_open_nothing_outside(files: WorkspaceFiles, ground: Path) -> None:
    """Even a place that never went through resolving is opened beneath its handle or not at all."""
    call, found = files.bind("c", ()), set[bytes]()
    before = snapshot(ground)
    for text in dict.fromkeys(traversals(ground)):
        for kind in (PlaceKind.FILE, PlaceKind.MISSING):
            await use(call, Place(files.roots[0], text, kind), found)
    assert b"SECRET" not in found
    assert snapshot(ground) == before
