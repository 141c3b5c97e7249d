"""Pieces of overlong lines: every byte arrives, and every place is found again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.workspace import rg_pieces
from handrail.workspace.rg_pieces import Pieces, has_overlong_line


@contextmanager
def opened(data: bytes) -> Iterator[int]:
    """A file that holds some bytes."""
    fd = os.memfd_create("data")
    try:
        os.write(fd, data)
        yield fd
    finally:
        os.close(fd)


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Pieces so small that a test can look at all of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("PIECE", 16), ("_CHUNK", 4), ("_LOOK", 2)):
            patch.setattr(rg_pieces, name, size)
        yield


LINES = st.lists(st.text(st.sampled_from("ab "), max_size=90).map(str.encode), max_size=8).map(b"\n".join)


@settings(deadline=None)
@given(LINES)
def test_every_line_handed_over_is_a_part_of_its_line(data: bytes) -> None:
    """A law: without the breaks put in, what arrives is the file; line, offset and place in the line are the file's."""
    with opened(data) as fd:
        pieces = Pieces(fd)
        given_over = b"".join(pieces)
        real_lines = data.split(b"\n")
        rebuilt = bytearray()
        offset = 0
        for number, part in enumerate(given_over.split(b"\n"), 1):
            line, real, inside = pieces.place(number, offset)
            rebuilt += (b"" if inside or number == 1 else b"\n") + part
            assert data[real : real + len(part)] == part
            assert real_lines[line - 1][inside : inside + len(part)] == part
            assert len(part) < rg_pieces.PIECE + 2 * rg_pieces._CHUNK
            offset += len(part) + 1
        assert bytes(rebuilt) == data


@given(LINES)
def test_an_overlong_line_is_noticed(data: bytes) -> None:
    """A law: never missed when it is twice as long as a piece, never seen where all lines are short."""
    longest = max((len(line) for line in data.split(b"\n")), default=0)
    with opened(data) as fd:
        found = has_overlong_line(fd)
    assert found or longest < 2 * rg_pieces.PIECE
    assert not found or longest >= rg_pieces.PIECE
