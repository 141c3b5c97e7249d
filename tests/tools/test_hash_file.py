"""hash_file: the hash of a file of any size."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.errors import Code
from handrail.tools.fs.hash_file import FileHash, hash_file
from handrail.words import Evidence
from tools._fakes import Desk, desk_at


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """An empty workspace."""
    async with desk_at(tmp_path) as desk:
        yield desk


@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256)) * 20_000])
async def test_the_hash_is_that_of_all_bytes(desk: Desk, data: bytes) -> None:
    """Text or not, small or larger than a chunk."""
    desk.put("f", data)
    answer = await desk.call(hash_file, path="f")
    expected = hashlib.sha256(data).hexdigest()
    assert answer.data == FileHash(expected, len(data))
    assert answer.evidence == (Evidence("file", "f", f"{len(data)} bytes", expected),)


async def test_what_is_no_file_has_no_hash(desk: Desk) -> None:
    """A folder is NOT_A_FILE, nothing is NOT_FOUND."""
    (desk.folder / "d").mkdir()
    assert (await desk.problem(hash_file, path="d")).code is Code.NOT_A_FILE
    assert (await desk.problem(hash_file, path="x")).code is Code.NOT_FOUND


async def test_hashing_is_not_reading(desk: Desk) -> None:
    """A file that was only hashed may not be overwritten for it."""
    desk.put("f", "x")
    await desk.call(hash_file, path="f")
    assert desk.files.bind("x", ()).seen(desk.files.resolve("f")) is None
