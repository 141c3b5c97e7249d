"""Globs and names made to be slow: what a model writes and what a project is named cannot hold up everyone else."""

from __future__ import annotations

import re
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.dialects.mcp_filesystem_globs import leaving_out
from handrail.dialects.mcp_filesystem_globs import read_glob as document_glob
from handrail.tools.search._globs import read_glob
from handrail.tools.search.find_files import find_files
from handrail.tools.search.grep import grep
from searching import Searching, fill

LONG = "a" * 250 + "/x"
DEEP = "d/" * 120 + "x"
SLOW = [
    ("/*a*a*a*a*b/x", LONG),
    ("/" + "*a" * 300 + "*b/x", LONG),
    ("**/d/**/d/**/d/**/d/**/y/x", DEEP),
    ("**/d/**/d/**/y/x", "d/" * 2000 + "x"),
    ("**/" * 300 + "y/x", DEEP),
    ("a**" * 300 + "b", "a/" * 2000),
    ("**a*" + "[ab]" * 200 + "c/x", LONG),
    ("**a*" + "?" * 125 + "c", ("a" * 250 + "/") * 16),
    ("{a,aa,aaa}*{a,aa}*{a,aa}*{a,aa}*b/x", LONG),
    ("**/*a*a*a*/" * 6 + "b", ("a" * 20 + "/") * 200 + "c"),
]


@pytest.mark.parametrize(("glob", "path"), SLOW, ids=range(len(SLOW)))
def test_no_glob_of_a_search_takes_long(glob: str, path: str) -> None:
    """Milliseconds for each path, where trying every division of it would take minutes."""
    fits = read_glob(glob).fits
    assert fits is not None
    began = time.process_time()
    assert fits.fullmatch(path) is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize("glob", ["/" + "*a" * 5 + "*b/x", "**/d/" * 5 + "y/x"])
async def test_a_search_with_a_slow_glob_ends_at_once(tmp_path: Path, glob: str) -> None:
    """In find_files and in grep: the paths are looked at in the event loop."""
    fill(tmp_path, {LONG: "needle", DEEP: "needle"})
    began = time.process_time()
    async with Searching(tmp_path) as call:
        found = await call.call(find_files, pattern=glob)
        lines = await call.call(grep, pattern="needle", glob=glob)
    assert (found.data.paths, lines.data.matches) == ([], [])
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/" * 340 + "zz", "d/" * 60 + "x"),
        ("**/d/" * 204 + "zz", "d/" * 2000 + "x"),
        ("**/" + "d/" * 500 + "zz", "d/" * 1000 + "x"),
        ("*a" * 300 + "*b", "a" * 250),
    ],
    ids=range(4),
)
def test_no_glob_of_the_reference_server_takes_long(glob: str, path: str) -> None:
    """Neither by its `**`, nor by its length, nor by the folders above that it is held against, too."""
    began = time.process_time()
    assert [document_glob(glob).fits(path), leaving_out([glob], names=False)(path)] == [False, False]
    assert time.process_time() - began < 2


NAMES = st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=6)


def names_fit(parts: list[str], names: list[str]) -> bool:
    """By trying everything."""
    if not parts:
        return not names
    if parts == ["**"]:
        return bool(names)  # the last one takes at least one name
    if parts[0] == "**":
        return names_fit(parts[1:], names) or (bool(names) and names_fit(parts, names[1:]))
    return bool(names) and fnmatchcase(names[0], parts[0]) and names_fit(parts[1:], names[1:])


@given(st.lists(st.sampled_from(["**", "**", "a", "*", "?", "[ab]*"]), min_size=1, max_size=6), NAMES)
def test_a_glob_of_the_reference_server_fits_as_by_trying_everything(parts: list[str], names: list[str]) -> None:
    """The whole path, and any folder above it."""
    above = any(names_fit(parts, names[: count + 1]) for count in range(len(names)))
    glob, path = "/".join(parts), "/".join(names)
    found = [document_glob(glob).fits(path), leaving_out([glob], names=False)(path)]
    assert found == [names_fit(parts, names), above]


# ── and they mean what they meant ────────────────────────────────────────────────────────────

PIECES = ["a", "b", ".", "*", "*", "**", "?", "/", "/", "[ab]", "[!a]", "\\*", "/**", "**/", "\n"]
GLOBS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)
PATHS = st.lists(st.text("ab.*\n", min_size=1, max_size=4), min_size=1, max_size=5).map("/".join)
PLAIN: dict[str, Any] = {"deep": "(?:[^/]*/)*", "below": "/.+", "cross": ".*", "star": "[^/]*", "one": "[^/]"}
PIECE = re.compile(
    r"(?P<deep>(?:(?<=/)|^)\*\*/)|(?P<below>/\*\*$)|(?P<cross>\*\*)|(?P<star>\*)|(?P<one>\?)"
    r"|\[(?P<set>[^\]]*)\]|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)


def plain(glob: str) -> str:
    """A glob as a regular expression, piece by piece, without a thought for time."""
    found = ""
    for match in PIECE.finditer(glob):
        kind = str(match.lastgroup)
        held = f"(?!/)[{match[kind].replace('!', '^')}]" if kind == "set" else re.escape(match[kind])
        found += PLAIN.get(kind, held)
    return found


@given(GLOBS, PATHS)
def test_a_glob_fits_what_it_says_piece_by_piece(glob: str, path: str) -> None:
    """Anchored by a slash, so that nothing is written before it."""
    fits = read_glob(f"/{glob}/b*").fits
    assert fits is not None
    anchored = f"{glob}/b*"
    assert (fits.fullmatch(path) is None) == (re.fullmatch(plain(anchored), path, re.DOTALL) is None)


@given(GLOBS, PATHS)
def test_a_glob_with_any_end_fits_what_it_says(glob: str, path: str) -> None:
    """Also where it ends in stars, which take all below a folder but not the folder."""
    fits = read_glob(f"/x{glob}").fits
    assert fits is not None
    anchored = f"x{glob}**" if glob.endswith("/") else f"x{glob}"
    assert (fits.fullmatch(f"x{path}") is None) == (
        re.compile(plain(anchored), re.DOTALL).fullmatch(f"x{path}") is None
    )
