"""find_files: which names fit, in which order, and what it says of those it does not show."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import Code
from handrail.ports import Limits
from handrail.tools.search.find_files import FoundPaths, find_files
from handrail.words import Truncation
from handrail.workspace.rg_files import Folders, ranked
from searching import Searching, fill
from workspaces import refused

WAYS: dict[str, dict[str, Any]] = {
    "sorted": {"head_start_seconds": 60.0},
    "parallel": {"head_start_seconds": 0.0},
    "unconfined": {"confined": False},
    "walking": {"opener": "walk"},
}
TREE: dict[str, str | bytes] = {
    ".gitignore": "*.log\nbuild/\n!keep.log\n",
    ".hidden.py": "",
    ".config/a.py": "",
    "a.py": "1",
    "b.PY": "",
    "build/c.py": "",
    "deep/er/d.py": "22",
    "deep/e.txt": "333",
    "keep.log": "",
    "x.log": "",
    "we[ird]/f.py": "",
}


@pytest.fixture(params=WAYS)
def how(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every way a search can be carried out."""
    return WAYS[request.param]


@pytest.mark.parametrize(
    ("args", "paths"),
    [
        ({"pattern": "*"}, ["a.py", "b.PY", "deep/e.txt", "deep/er/d.py", "keep.log", "we[ird]/f.py"]),
        ({"pattern": "*.py"}, ["a.py", "deep/er/d.py", "we[ird]/f.py"]),
        ({"pattern": "d.py"}, ["deep/er/d.py"]),
        ({"pattern": "/*.py"}, ["a.py"]),
        ({"pattern": "./*.py"}, ["a.py"]),
        ({"pattern": "deep/*"}, ["deep/e.txt"]),
        ({"pattern": "deep/**"}, ["deep/e.txt", "deep/er/d.py"]),
        ({"pattern": "deep/"}, ["deep/e.txt", "deep/er/d.py"]),
        ({"pattern": "**/er/*"}, ["deep/er/d.py"]),
        ({"pattern": "?.{py,PY}"}, ["a.py", "b.PY", "deep/er/d.py", "we[ird]/f.py"]),
        ({"pattern": "[!a].py"}, ["deep/er/d.py", "we[ird]/f.py"]),
        ({"pattern": "we\\[ird\\]/*"}, ["we[ird]/f.py"]),
        ({"pattern": "*.log"}, ["keep.log"]),
        ({"pattern": "*.log", "respect_ignore": False}, ["keep.log", "x.log"]),
        ({"pattern": "*.py", "hidden": True}, [".config/a.py", ".hidden.py", "a.py", "deep/er/d.py", "we[ird]/f.py"]),
        ({"pattern": ".config/*"}, [".config/a.py"]),
        ({"pattern": "*.py", "path": "deep"}, ["deep/er/d.py"]),
        ({"pattern": "*", "depth": 1}, ["a.py", "b.PY", "keep.log"]),
        ({"pattern": "*", "type": "dir"}, ["deep", "deep/er", "we[ird]"]),
        ({"pattern": "*", "type": "dir", "depth": 1}, ["deep", "we[ird]"]),
        ({"pattern": "e?", "type": "dir"}, ["deep/er"]),
        ({"pattern": "*.{txt,py}", "sort": "size"}, ["deep/e.txt", "deep/er/d.py", "a.py", "we[ird]/f.py"]),
        ({"pattern": "*.nothing"}, []),
    ],
)
async def test_the_paths_found_are_exactly_those_that_fit(
    tmp_path: Path, how: dict[str, Any], args: dict[str, Any], paths: list[str]
) -> None:
    """Globs, hidden names, ignore rules, depth, kind and order, each by itself."""
    fill(tmp_path, TREE)
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(find_files, **args)
    assert answer.data.paths == paths
    assert answer.data.next_cursor is None


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("?a.txt", ["sub/xa.txt", "éa.txt", "日a.txt", "😀a.txt"]),
        ("??.txt", ["sub/xa.txt", "éa.txt", "日a.txt", "日é.txt", "😀a.txt"]),
        ("/?a.*", ["éa.txt", "日a.txt", "😀a.txt"]),
        ("?", ["é"]),
    ],
)
async def test_a_question_mark_is_one_character_of_any_script(
    tmp_path: Path, how: dict[str, Any], pattern: str, paths: list[str]
) -> None:
    """However many bytes it has."""
    names = ["a.txt", "éa.txt", "日a.txt", "😀a.txt", "日é.txt", "é", "xya.txt", "sub/xa.txt"]
    fill(tmp_path, dict.fromkeys(names, ""))
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(find_files, pattern=pattern)
    assert answer.data.paths == paths


async def test_folders_without_files_are_found_and_ignored_ones_are_not(tmp_path: Path, how: dict[str, Any]) -> None:
    """With type "any"; what ignore rules leave out may lie deeper than the folder that they name."""
    fill(tmp_path, {".gitignore": "out/\n", "a.py": "", "out/deep/er/x.o": ""})
    (tmp_path / "hollow/inner").mkdir(parents=True)
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(find_files, pattern="*", type="any")
    assert answer.data.paths == ["a.py", "hollow", "hollow/inner"]


async def test_the_newest_come_first_when_asked(tmp_path: Path) -> None:
    """Order by time, to the nanosecond."""
    fill(tmp_path, {"a": "", "b/c": "", "d": ""})
    for index, name in enumerate(["b/c", "a", "d"]):
        os.utime(tmp_path / name, ns=(0, 1_700_000_000_000_000_000 + index))
    async with Searching(tmp_path) as search:
        answer = await search.call(find_files, pattern="*", sort="mtime")
    assert answer.data.paths == ["d", "a", "b/c"]


@pytest.mark.parametrize("more", [{}, {"sort": "size"}, {"type": "dir"}])
async def test_pages_together_are_the_whole(tmp_path: Path, how: dict[str, Any], more: dict[str, str]) -> None:
    """Following each page's literal next call gives every path once, in order."""
    fill(
        tmp_path, {f"{name}/{index}": "x" * index for name in ("a", "a.b", "a-b", "B", "ä", "z") for index in range(5)}
    )
    async with Searching(tmp_path, **how) as search:
        whole = await search.call(find_files, pattern="*", **more)
        found: list[str] = []
        args: dict[str, Any] = {"pattern": "*", "limit": 4, **more}
        while True:
            answer = await search.call(find_files, **args)
            found += answer.data.paths
            if answer.data.next_cursor is None:
                break
            told = re.search(r"Next: find_files (\{.*\})\]", answer.content)
            assert told is not None
            args = json.loads(told[1])
            total = answer.data.total
            assert answer.truncation == Truncation("entries", len(answer.data.paths), total, args["cursor"])
    assert whole.data.paths == found
    assert len(found) == (6 if more.get("type") else 30)


async def test_what_ignore_rules_hide_is_counted_with_the_call_that_shows_it(tmp_path: Path) -> None:
    """The count is exact for the pattern asked, and the call is taken."""
    fill(tmp_path, TREE)
    async with Searching(tmp_path, count_seconds=60.0) as search:
        answer = await search.call(find_files, pattern="*.py")
        told = re.fullmatch(
            r"\[1 more is hidden by ignore rules\. All: find_files (\{.*\})\]", answer.content.split("\n")[-1]
        )
        assert told is not None
        everything = await search.call(find_files, **json.loads(told[1]))
    assert answer.data.hidden_by_ignore == 1
    assert set(everything.data.paths) - set(answer.data.paths) == {"build/c.py"}


async def test_nothing_fits_and_nothing_more_are_told_apart(tmp_path: Path) -> None:
    """An empty last page is not the same as no file at all."""
    fill(tmp_path, {"a": ""})
    async with Searching(tmp_path, count_seconds=60.0) as search:
        nothing = await search.call(find_files, pattern="b")
        no_more = await search.call(find_files, pattern="a", cursor="a")
    assert nothing.data == FoundPaths([], 0, 0, None)
    assert nothing.content == "No file below the workspace fits 'b'."
    assert no_more.content.startswith("Nothing more at cursor 'a': the page before was the last.")


async def test_an_answer_stays_within_the_output_limits_and_goes_on(tmp_path: Path) -> None:
    """What does not fit is on the next page, not lost."""
    fill(tmp_path, {f"{'n' * 60}{index:03d}": "" for index in range(100)})
    async with Searching(tmp_path, limits=Limits(max_output_bytes=3000)) as search:
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            answer = await search.call(find_files, pattern="*", **cursor)
            assert len(answer.content.encode()) <= 3000
            found += answer.data.paths
            if answer.data.next_cursor is None:
                break
            cursor = {"cursor": answer.data.next_cursor}
    assert len(found) == 100 == len(set(found))


async def test_names_that_are_not_text_do_not_crash_or_forge_lines(tmp_path: Path, how: dict[str, Any]) -> None:
    """Bytes that are no UTF-8 and line breaks in names are escaped."""
    for name in (b"bad\xff.txt", b"line\nbreak"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(find_files, pattern="*")
    assert answer.data.paths == ["bad\\xff.txt", "line\\x0abreak"]


@pytest.mark.parametrize(("path", "code"), [("nowhere", Code.NOT_FOUND), ("a", Code.NOT_A_DIRECTORY)])
async def test_only_a_folder_can_be_searched(tmp_path: Path, path: str, code: Code) -> None:
    """A file or nothing at all is a problem with its own code."""
    fill(tmp_path, {"a": ""})
    async with Searching(tmp_path) as search:
        assert (await refused(search.call(find_files, pattern="*", path=path))).code is code


async def test_links_are_neither_listed_nor_followed(tmp_path: Path) -> None:
    """A link to a folder outside shows nothing of it."""
    fill(tmp_path, {"out/secret": "", "ws/a": ""})
    (tmp_path / "ws/link").symlink_to(tmp_path / "out")
    (tmp_path / "ws/file").symlink_to(tmp_path / "out/secret")
    async with Searching(tmp_path / "ws") as search:
        assert (await search.call(find_files, pattern="*", respect_ignore=False)).data.paths == ["a"]


NAMES = st.text(st.sampled_from("aB.-_é[]{}!*?\\ ~0"), min_size=1, max_size=6).filter(
    lambda name: name.strip(".") != ""
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=12))
def test_both_orders_of_ripgrep_agree_for_all_names(pairs: list[tuple[str, str]]) -> None:
    """What is sorted here after a parallel walk is in the order ripgrep itself sorts in."""
    import asyncio
    import tempfile

    async def listed(root: Path, head_start: float) -> list[str]:
        async with Searching(root, head_start_seconds=head_start) as search:
            found = await search.call(find_files, pattern="*", hidden=True, respect_ignore=False)
            return list(found.data.paths)

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for first, second in pairs:
            if not (root / first).is_file():
                (root / first).mkdir(exist_ok=True)
                if not (root / first / second).exists():
                    (root / first / second).touch()
            if not (root / second).exists():
                (root / second).touch()
        assert asyncio.run(listed(root, 60.0)) == asyncio.run(listed(root, 0.0))


async def test_what_takes_too_long_to_count_is_said_not_to_be_counted(tmp_path: Path) -> None:
    """Honest about not knowing, with the call that shows all."""
    fill(tmp_path, TREE)
    async with Searching(tmp_path, count_seconds=0.0) as search:
        answer = await search.call(find_files, pattern="*.py")
    assert answer.data.hidden_by_ignore is None
    assert "[Files hidden by ignore rules were not counted. All: find_files {" in answer.content


@pytest.mark.parametrize("args", [{}, {"limit": 25}, {"sort": "size"}])
async def test_what_ignore_rules_hide_is_mentioned_however_much_is_found(tmp_path: Path, args: dict[str, Any]) -> None:
    """On the first page and on the last, with the call that shows all; not where nothing is left out."""
    fill(tmp_path, {".gitignore": "x*.py\n", **{f"{letter}{n}.py": "" for letter in "ax" for n in range(30)}})
    note = "[Files hidden by ignore rules were not counted. All: find_files {"
    async with Searching(tmp_path, count_seconds=60.0) as search:
        answer = await search.call(find_files, pattern="*.py", **args)
        everything = await search.call(find_files, pattern="*.py", respect_ignore=False, **args)
        assert (answer.content.count(note), note in everything.content) == (1, False)
        shown = json.loads(answer.content[answer.content.index(note) + len(note) - 1 :].splitlines()[0][:-1])
        assert shown == {"pattern": "*.py", **args, "respect_ignore": False}
        if cursor := answer.data.next_cursor:
            pages = [await search.call(find_files, pattern="*.py", limit=size, cursor=cursor) for size in (2, 25)]
            assert [note in page.content for page in pages] == [False, True]


def test_ordering_by_size_looks_at_no_link(tmp_path: Path) -> None:
    """A link put where a file was listed is left out; the size of what it points to is not told by the order."""
    fill(tmp_path, {"out": "x" * 100, "ws/a": "x", "ws/b": "xx"})
    (tmp_path / "ws/link").symlink_to(tmp_path / "out")
    fd = os.open(tmp_path / "ws", os.O_RDONLY)
    try:
        assert ranked(["a", "b", "link"], "size", Folders(fd)) == ["b", "a"]
    finally:
        os.close(fd)
