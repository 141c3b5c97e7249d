"""grep: what it shows, how its pages fit together, and what it says when something is wrong.

Longer than 500 lines because it is one table of one subject.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.ports import Limits
from handrail.tools.search.grep import Match, Matches, MatchingFile, grep
from handrail.words import Truncation
from searching import Searching, children, fill
from workspaces import refused

KEY = "-----BEGIN " + "RSA PRIVATE" + " KEY-----\n" + "MIIEpAIBAAKCAQEA7bq9CyVcGnNgKf2Zx0\n" * 20
WAYS: dict[str, dict[str, Any]] = {
    "sorted": {"head_start_seconds": 60.0},
    "parallel": {"head_start_seconds": 0.0},
    "unconfined": {"confined": False},
    "walking": {"opener": "walk"},
}


@pytest.fixture(params=WAYS)
def how(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Every way a search can be carried out."""
    return WAYS[request.param]


async def test_matches_stand_below_the_name_of_their_file(tmp_path: Path, how: dict[str, Any]) -> None:
    """Content, data and summary say the same, in the order of paths and lines."""
    fill(tmp_path, {"b/x.py": "one\ntwo needle\n", "a.py": "needle\nno\nneedle again\n", "b.txt": "nothing\n"})
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(grep, pattern="needle")
    assert answer.content == "a.py\n1:needle\n3:needle again\n\nb/x.py\n2:two needle"
    assert answer.summary == "3 matches in 2 files for 'needle' in the workspace"
    matches = [Match("a.py", 1, "needle"), Match("a.py", 3, "needle again"), Match("b/x.py", 2, "two needle")]
    assert answer.data == Matches(matches, [], [], None, 0, 0)
    assert answer.truncation is None


async def test_context_is_told_from_matches_and_gaps_are_marked(tmp_path: Path, how: dict[str, Any]) -> None:
    """`12:` is a match, `12-` is context, `--` a gap."""
    fill(tmp_path, {"a": "1\n2 hit\n3\n4\n5\n6 hit\n7\n"})
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(grep, pattern="hit", context=1)
    assert answer.content == "a\n1-1\n2:2 hit\n3-3\n--\n5-5\n6:6 hit\n7-7"
    assert [row.line for row in answer.data.context] == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        ({"pattern": "a.c", "literal": True}, ["a.py:2"]),
        ({"pattern": "a.c"}, ["a.py:1", "a.py:2"]),
        ({"pattern": "ABC"}, ["b.js:1"]),
        ({"pattern": "ABC", "ignore_case": True}, ["a.py:1", "b.js:1"]),
        ({"pattern": "abc$\\na", "multiline": True}, ["a.py:1", "a.py:2"]),
        ({"pattern": "(?i)abc", "glob": "*.js"}, ["b.js:1"]),
        ({"pattern": "(?i)abc", "type": "py"}, ["a.py:1"]),
        ({"pattern": "(?i)a", "per_file": 1}, ["a.py:1", "b.js:1", "d/c.py:1"]),
        ({"pattern": "a", "glob": "d/**"}, ["d/c.py:1"]),
        ({"pattern": "a", "glob": "{d,e}/*.{py,js}"}, ["d/c.py:1"]),
        ({"pattern": "a", "glob": "*.py", "type": "js"}, []),
        ({"pattern": "a", "path": "d"}, ["d/c.py:1"]),
        ({"pattern": "a", "path": "d/c.py"}, ["d/c.py:1"]),
        ({"pattern": "-x"}, []),
    ],
)
async def test_each_argument_narrows_as_it_says(tmp_path: Path, args: dict[str, Any], lines: list[str]) -> None:
    """The lines found are exactly those that fit every argument."""
    fill(tmp_path, {"a.py": "abc\na.c\n", "b.js": "ABC\n", "d/c.py": "aaa\n"})
    async with Searching(tmp_path) as search:
        answer = await search.call(grep, **args)
    assert [f"{match.file}:{match.line}" for match in answer.data.matches] == lines


async def test_a_question_mark_of_a_glob_is_one_character_of_any_script(tmp_path: Path, how: dict[str, Any]) -> None:
    """However many bytes it has."""
    fill(tmp_path, {"éa.txt": "x\n", "日a.txt": "x\n", "a.txt": "x\n", "xya.txt": "x\n"})
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(grep, pattern="x", glob="?a.txt")
    assert [match.file for match in answer.data.matches] == ["éa.txt", "日a.txt"]


@pytest.mark.parametrize("page", [{"limit": 7}, {"limit": 50, "max_files": 2}, {"limit": 3, "context": 2}])
async def test_pages_together_are_the_whole(tmp_path: Path, how: dict[str, Any], page: dict[str, int]) -> None:
    """Following each page's literal next call gives every match once, in order."""
    names = ["a", "a.b", "a/b", "a-b/c", "B", "b", "z/y/x", "ä"]
    fill(tmp_path, {f"{name}{index}": "hit\nno\nhit\nhit\n" for index, name in enumerate(names)})
    async with Searching(tmp_path, **how) as search:
        whole = await search.call(grep, pattern="hit", limit=5000)
        found: list[Match] = []
        args: dict[str, Any] = {"pattern": "hit", **page}
        while True:
            answer = await search.call(grep, **args)
            found += answer.data.matches
            if answer.data.next_cursor is None:
                break
            told = re.search(r"Next: grep (\{.*\})\]", answer.content)
            assert told is not None
            args = json.loads(told[1])
            assert args == {"pattern": "hit", **page, "cursor": answer.data.next_cursor}
            assert answer.truncation == Truncation("entries", len(answer.data.matches), None, args["cursor"])
    assert len(whole.data.matches) == 24
    assert found == whole.data.matches


async def test_nothing_matches_and_nothing_more_are_told_apart(tmp_path: Path) -> None:
    """An empty last page is not the same as no match at all."""
    fill(tmp_path, {"a": "hit\n"})
    async with Searching(tmp_path) as search:
        nothing = await search.call(grep, pattern="miss")
        no_more = await search.call(grep, pattern="hit", cursor="a:1")
    assert (
        nothing.content == "Nothing matches 'miss' in the workspace. Hidden, ignored and binary files are not searched."
    )
    assert no_more.content == "Nothing more at cursor 'a:1': the page before was the last."


async def test_files_and_counts_are_modes_of_the_same_search(tmp_path: Path, how: dict[str, Any]) -> None:
    """`files` names them, `count` counts matching lines; both have pages."""
    fill(tmp_path, {"a": "hit\nhit\n", "b": "no\n", "c/d": "hit\n", "e": "hit\n"})
    async with Searching(tmp_path, **how) as search:
        files = await search.call(grep, pattern="hit", mode="files", limit=2)
        rest = await search.call(grep, pattern="hit", mode="files", cursor=files.data.next_cursor)
        counts = await search.call(grep, pattern="hit", mode="count")
        one = await search.call(grep, pattern="hit", mode="count", path="a")
    assert files.data.files == [MatchingFile("a"), MatchingFile("c/d")]
    assert files.content.startswith(
        'a\nc/d\n[2 files shown, of more that were not counted. Next: grep {"pattern": "hit"'
    )
    assert rest.content == "e"
    assert counts.content == "a:2\nc/d:1\ne:1"
    assert counts.summary == "4 matching lines in 3 files for 'hit' in the workspace"
    assert one.data.files == [MatchingFile("a", 2)]


@pytest.mark.parametrize(
    ("args", "told", "mended"),
    [
        ({"pattern": "(abc"}, "unclosed group", {"pattern": "(abc", "literal": True}),
        ({"pattern": "a\nb"}, "multiline", {"pattern": "a\nb", "multiline": True}),
        ({"pattern": "a", "type": "nosuch"}, "unrecognized file type", {"pattern": "a", "glob": "*.nosuch"}),
    ],
)
async def test_a_bad_pattern_gives_the_engines_words_and_the_call_that_works(
    tmp_path: Path, args: dict[str, Any], told: str, mended: dict[str, Any]
) -> None:
    """INVALID_ARGS carries the next call, and that call is taken."""
    fill(tmp_path, {"a": "(abc\na\nb\n"})
    async with Searching(tmp_path) as search:
        problem = await refused(search.call(grep, **args))
        assert problem.next_call is not None
        await search.call(grep, **problem.next_call["args"])
    assert (problem.code, problem.next_call) == (Code.INVALID_ARGS, {"tool": "grep", "args": mended})
    assert told in problem.message


async def test_the_escaped_form_of_a_pattern_matches_it_literally(tmp_path: Path) -> None:
    """`details.escaped` can be used as the pattern."""
    text = r"f(x)[0] {a|b}^$.*+?\ # & ~ -"
    fill(tmp_path, {"a": f"{text}\n"})
    async with Searching(tmp_path) as search:
        problem = await refused(search.call(grep, pattern=f"{text}("))
        answer = await search.call(grep, pattern=problem.details["escaped"].removesuffix("\\("))
    assert [match.text for match in answer.data.matches] == [text]


@pytest.mark.parametrize("glob", ["a[", "{a", "a}", "{" + ",".join(map(str, range(270))) + "}"])
async def test_a_bad_glob_is_refused_with_its_place(tmp_path: Path, glob: str) -> None:
    """A glob that cannot be read is INVALID_ARGS, not an empty result."""
    async with Searching(tmp_path) as search:
        problem = await refused(search.call(grep, pattern="x", glob=glob))
    assert problem.code is Code.INVALID_ARGS
    assert problem.details["position"] >= 0


async def test_a_bad_cursor_is_refused(tmp_path: Path) -> None:
    """A cursor of another making does not start the search anew in silence."""
    async with Searching(tmp_path) as search:
        assert (await refused(search.call(grep, pattern="x", cursor="nonsense"))).code is Code.INVALID_ARGS


@pytest.mark.parametrize("around", ["x" * 3000, "é" * 3000, "x" * 300_000])
async def test_a_long_line_is_cut_around_its_match(tmp_path: Path, around: str, how: dict[str, Any]) -> None:
    """At most 500 characters are shown, the match among them, and the call that shows more."""
    fill(tmp_path, {"a": f"short\n{around}needle{around}\n"})
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(grep, pattern="needle")
    (match,) = answer.data.matches
    assert "needle" in match.text
    assert len(match.text.strip("…")) == 500
    assert match.text[0] == match.text[-1] == "…"
    assert match.column is not None
    assert '[Lines over 500 characters are cut. More: read_file {"path": "a", "offset": 2, "limit": 1' in answer.content


async def test_a_line_of_five_hundred_characters_is_whole(tmp_path: Path) -> None:
    """Characters are counted, not bytes."""
    lines = ["é" * 494 + "needle", "x" * 494 + "needle", "needle" + "€" * 494]
    fill(tmp_path, {"a": "\n".join(lines)})
    async with Searching(tmp_path) as search:
        answer = await search.call(grep, pattern="needle")
    assert [(match.text, match.column) for match in answer.data.matches] == [(line, None) for line in lines]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le-bom", "utf-16-be-bom"])
async def test_files_with_a_byte_order_mark_are_searched(tmp_path: Path, encoding: str) -> None:
    """The line shown is text, whatever the file is encoded in."""
    text = "alpha\nbeta nädel x\r\nlast nädel"
    data = text.encode(encoding.removesuffix("-bom"))
    mark = {"utf-16-le-bom": b"\xff\xfe", "utf-16-be-bom": b"\xfe\xff"}.get(encoding, b"")
    fill(tmp_path, {"a.txt": mark + data})
    async with Searching(tmp_path) as search:
        answer = await search.call(grep, pattern="nädel")
    assert [(match.line, match.text) for match in answer.data.matches] == [(2, "beta nädel x"), (3, "last nädel")]


async def test_binary_files_are_skipped_and_a_binary_file_asked_for_is_counted(tmp_path: Path) -> None:
    """No byte of a binary file is shown."""
    fill(tmp_path, {"a.bin": b"needle\n\0\0needle\n", "b.txt": "needle\n"})
    async with Searching(tmp_path) as search:
        below = await search.call(grep, pattern="needle")
        itself = await search.call(grep, pattern="needle", path="a.bin")
    assert [match.file for match in below.data.matches] == ["b.txt"]
    assert itself.data == Matches([], [], [], None, 1, 0)
    assert itself.content.endswith("[1 binary file matches and cannot be shown]")


async def test_a_file_that_turns_binary_late_shows_nothing(tmp_path: Path, how: dict[str, Any]) -> None:
    """Lines found before the first NUL are taken back, and the file is counted."""
    fill(tmp_path, {"a.log": b"needle\n" + b"line\n" * 100_000 + b"\0\n", "b": "needle\n"})
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(grep, pattern="needle")
    assert ([match.file for match in answer.data.matches], answer.data.binary_files) == (["b"], 1)


async def test_names_that_are_not_text_do_not_crash_or_forge_lines(tmp_path: Path, how: dict[str, Any]) -> None:
    """Bytes that are no UTF-8, line breaks and control characters in names are escaped."""
    names = [b"bad\xff.txt", b"line\nbreak", b"esc\x1b[31m", b"per%41cent"]
    for name in names:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_text("hit\nhit\n")
    async with Searching(tmp_path, **how) as search:
        whole = await search.call(grep, pattern="hit")
        found, cursor = [], None
        for _ in range(8):
            page = await search.call(grep, pattern="hit", limit=1, **({"cursor": cursor} if cursor else {}))
            found += page.data.matches
            cursor = page.data.next_cursor
    shown = ["bad\\xff.txt", "esc\\x1b[31m", "line\\x0abreak", "per%41cent"]
    assert sorted({match.file for match in whole.data.matches}) == shown
    assert (found, cursor) == (whole.data.matches, None)


async def test_lines_inside_a_key_block_are_hidden(tmp_path: Path, how: dict[str, Any]) -> None:
    """A line that is harmless by itself is not shown when the whole file would hide it."""
    fill(tmp_path, {"small.pem": KEY, "large.log": "line\n" * 100_000 + KEY, "plain": "MIIEpAIBAAKCAQEA7bq9\n"})
    async with Searching(tmp_path, **how) as search:
        answer = await search.call(grep, pattern="MIIEpA", per_file=3)
    by_file = {match.file: match.text for match in answer.data.matches}
    assert by_file == {"small.pem": "***REDACTED***", "large.log": "***REDACTED***", "plain": "MIIEpAIBAAKCAQEA7bq9"}


async def test_a_secret_cut_by_the_window_is_hidden(tmp_path: Path) -> None:
    """What a long line's window tears apart is judged with the text around it."""
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    fill(tmp_path, {"a": " ".join(["x" * 400, "needle", "y" * 350, f"token={token}", "z" * 3000])})
    async with Searching(tmp_path) as search:
        answer = await search.call(grep, pattern="needle")
    assert not any(token[:length] in answer.content for length in range(6, len(token)))


async def test_a_setting_is_hidden_as_it_is_in_its_file(tmp_path: Path) -> None:
    """The number before a line does not make `password=…` look like something else."""
    fill(tmp_path, {"app.conf": "user=me\npassword=correcthorse\n"})
    async with Searching(tmp_path) as search:
        answer = await search.call(grep, pattern="password")
    assert answer.content == "app.conf\n2:password=***REDACTED***"


async def test_hidden_and_ignored_files_are_not_searched_unless_named(tmp_path: Path) -> None:
    """A glob that names a dot reaches hidden files; ignore rules hold also outside a repository."""
    fill(
        tmp_path, {".gitignore": "*.log\n", "a.log": "hit\n", ".github/x.yml": "hit\n", "b": "hit\n", ".git/c": "hit\n"}
    )
    async with Searching(tmp_path) as search:
        plain = await search.call(grep, pattern="hit", mode="files")
        logs = await search.call(grep, pattern="hit", mode="files", glob="*.log")
        dots = await search.call(grep, pattern="hit", mode="files", glob=".github/**")
        inside = await search.call(grep, pattern="hit", mode="files", path=".github")
    found = [[row.file for row in answer.data.files] for answer in (plain, logs, dots, inside)]
    assert found == [["b"], [], [".github/x.yml"], [".github/x.yml"]]


async def test_settings_and_environment_of_the_user_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ripgrep gets no settings file and no variables."""
    fill(tmp_path, {"rc": "--invert-match\n", "ws/a": "hit\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    async with Searching(tmp_path / "ws") as search:
        assert (await search.call(grep, pattern="hit")).content == "a\n1:hit"


async def test_a_missing_path_names_what_is_near(tmp_path: Path) -> None:
    """NOT_FOUND, with the name that was probably meant."""
    fill(tmp_path, {"source/a": ""})
    async with Searching(tmp_path) as search:
        problem = await refused(search.call(grep, pattern="x", path="sorce"))
    assert (problem.code, problem.details["near"]) == (Code.NOT_FOUND, ["source"])


async def test_an_answer_stays_within_the_output_limits_and_goes_on(tmp_path: Path) -> None:
    """What does not fit is on the next page, not lost."""
    fill(tmp_path, {f"f{index}": "hit " + "x" * 90 + "\n" for index in range(60)})
    async with Searching(tmp_path, limits=Limits(max_output_bytes=3000)) as search:
        pages, args = [], {"pattern": "hit"}
        while True:
            answer = await search.call(grep, **args)
            pages.append(answer)
            if answer.data.next_cursor is None:
                break
            args = {"pattern": "hit", "cursor": answer.data.next_cursor}
    assert all(len(page.content.encode()) <= 3000 for page in pages)
    assert sum(len(page.data.matches) for page in pages) == 60


def slow_program(folder: Path) -> str:
    """A program in ripgrep's place that prints a line and then never ends."""
    program = folder / "rg"
    program.write_text("#!/bin/sh\nprintf 'a\\0001:1:0:hit\\n'\nexec sleep 600\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


async def test_a_search_out_of_time_is_ended_and_says_how_to_get_further(tmp_path: Path) -> None:
    """TIMEOUT, no process left, and the call with more time."""
    fill(tmp_path, {"ws/a": "hit\n"})
    before = children()
    async with Searching(tmp_path / "ws", program=slow_program(tmp_path), confined=False) as search:
        problem = await refused(search.call(grep, pattern="hit", timeout=0.05))
    assert problem.code is Code.TIMEOUT
    assert problem.next_call == {"tool": "grep", "args": {"pattern": "hit", "timeout": 120.0}}
    assert children() == before


async def test_a_cancelled_search_leaves_no_process(tmp_path: Path) -> None:
    """When the cancelled call returns, what it started is gone."""
    fill(tmp_path, {"ws/a": "hit\n"})
    before = children()
    how: dict[str, Any] = {"program": slow_program(tmp_path), "confined": False, "head_start_seconds": 60.0}
    async with Searching(tmp_path / "ws", **how) as search:
        task = asyncio.create_task(search.call(grep, pattern="hit"))
        while children() == before:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        assert children() == before


async def test_a_missing_ripgrep_is_said_with_the_fix(tmp_path: Path) -> None:
    """IO_ERROR names the program that could not be started."""
    async with Searching(tmp_path, program="/nowhere/rg") as search:
        problem = await refused(search.call(grep, pattern="x"))
    assert problem.code is Code.IO_ERROR
    assert "/nowhere/rg" in f"{problem.message}{problem.details}"


async def test_searches_leave_no_descriptor_open(tmp_path: Path) -> None:
    """After any outcome, the process has the descriptors it had before."""
    fill(tmp_path, {"a": "hit\n" * 3, "b/c": "hit\n"})
    async with Searching(tmp_path) as search:
        await search.call(grep, pattern="hit")
        before = len(os.listdir("/proc/self/fd"))
        for args in (
            {"pattern": "hit"},
            {"pattern": "("},
            {"pattern": "hit", "mode": "count"},
            {"pattern": "hit", "limit": 1},
        ):
            with suppress(Problem):
                await search.call(grep, **args)
        await asyncio.gather(*(search.call(grep, pattern="hit", mode="files") for _ in range(20)))
        assert len(os.listdir("/proc/self/fd")) == before


def write_long_line(path: Path, megabytes: int) -> None:
    """One line of words, with something to find near its middle and at its end."""
    words = b"word " * 209_715
    with open(path, "wb") as file:
        file.write(b"first\n")
        file.writelines(words for _ in range(megabytes // 2))
        file.write(b"middle ")
        file.writelines(words for _ in range(megabytes // 2))
        file.write(b"needle\nlast needle\n")


async def test_a_line_of_many_megabytes_is_searched_in_pieces(tmp_path: Path) -> None:
    """Line numbers are the file's own, and the column leads to the match; neither process holds the line."""
    write_long_line(tmp_path / "big", 60)
    async with Searching(tmp_path, max_memory_bytes=40 << 20) as search:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer = await search.call(grep, pattern="needle|middle|first", path="big")
        counts = await search.call(grep, pattern="nothing", path="big", mode="count")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 30_000  # KiB
    assert counts.data.files == []
    assert [match.line for match in answer.data.matches] == [1, 2, 2, 3]
    _first, middle, needle, _last = answer.data.matches
    line = (tmp_path / "big").read_bytes().split(b"\n")[1]
    for match, word in ((middle, b"middle"), (needle, b"needle")):
        shown = match.text.strip("…").encode()
        assert word in shown
        assert line[match.column - 1 : match.column - 1 + len(shown)] == shown


async def test_a_line_too_long_below_a_folder_does_not_end_the_search(tmp_path: Path) -> None:
    """Large files are left out then, and that is said."""
    write_long_line(tmp_path / "big", 60)
    fill(tmp_path, {"a": "needle\n", "z": "needle\n"})
    for head_start in (0.0, 60.0):
        async with Searching(tmp_path, max_memory_bytes=40 << 20, head_start_seconds=head_start) as search:
            answer = await search.call(grep, pattern="needle")
        assert answer.content == (
            "a\n1:needle\n\nz\n1:needle\n"
            "[Large files were left out, because one holds a line too long; search such a file by its `path`]"
        )
