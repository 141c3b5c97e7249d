"""The reference MCP filesystem server's dialect and globs: one way to read them, for what is found and what is not."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from dialects._speaking import Speak, Voice
from dialects.test_mcp_filesystem import CONFIG, text
from handrail.dialects.mcp_filesystem_globs import MOST_FORMS, leaving_out, read_glob
from handrail.errors import Code, Problem

# What `minimatch` 10 says with `dot`: a glob, what fits it, what does not.
FITS: list[tuple[str, list[str], list[str]]] = [
    ("*", ["a", ".a", "a.b"], ["a/b"]),
    ("***", ["a"], ["a/b"]),
    ("**", ["a", ".a/b"], []),
    ("a/**", ["a/b", "a/b/c"], ["a", "ab/c"]),
    ("**/a", ["a", "x/a", "x/y/a"], ["a/x", "xa"]),
    ("**/a/**", ["a/b", "x/a/b"], ["a", "x/a"]),
    ("**/*/**", ["a/b", "a/b/c"], ["a"]),
    ("a/**/b", ["a/b", "a/x/y/b"], ["a/xb", "b"]),
    ("**/**/a", ["a", "x/a"], []),
    ("**.txt", ["a.txt", ".txt"], ["x/a.txt", "a.txt/b"]),
    ("a**", ["a", "abc"], ["a/b"]),
    ("src/***", ["src/a"], ["src/a/b"]),
    ("src//b", ["src/b"], ["src"]),
    ("src/../b", ["b"], ["src/b"]),
    ("src/", [], ["src", "src/b"]),
    ("/src", [], ["src"]),
    ("./src", [], ["src"]),
    ("[^a].t", ["b.t", "^.t"], ["a.t", ".t"]),
    ("[!a].t", ["b.t", "!.t"], ["a.t"]),
    ("[]a]", ["]", "a"], ["[]a]"]),
    ("[a-c-]", ["b", "-"], ["d"]),
    (r"[\]x]", ["]", "x"], ["\\"]),
    (r"\*.t", ["*.t"], ["a.t"]),
    (r"\a\.t", ["a.t"], ["b.t"]),
    ("a\\", ["a\\"], ["a"]),
    ("{a,b}.t", ["a.t", "b.t"], ["{a,b}.t"]),
    ("{a,b/{c,d}}", ["a", "b/c", "b/d"], ["b", "c"]),
    ("{**/,}a", ["a", "x/a"], ["xa"]),
    ("{,x}a", ["a", "xa"], ["ya"]),
    ("*.{t}", ["a.{t}"], ["a.t"]),
    (r"\{a,b\}", ["{a,b}"], ["a"]),
    ("!*.t", ["a.u", "x/a.t"], ["a.t"]),
    ("!!*.t", ["a.t"], ["a.u"]),
    ("!(a).t", ["a.t", "b.t"], ["(a).t"]),
    ("?a", ["éa", "日a"], ["a", "xxa"]),
    ("{1..3}.t", ["1.t", "2.t", "3.t"], ["4.t", "{1..3}.t"]),
    ("{3..1..2}", ["3", "1"], ["2"]),
    ("{08..10}", ["08", "09", "10"], ["8"]),
    ("{-1..1}", ["-1", "0", "1"], ["2"]),
    ("{a..c}{x,y}", ["ax", "cy"], ["dx"]),
    ("@(a|b.?).t", ["a.t", "b.c.t"], ["ab.t", "(a).t"]),
    ("@(a,b|c)/d", ["a,b/d", "c/d"], ["a/d"]),
    ("@(a)", ["a"], ["@(a)"]),
    ("(a|b)", ["(a|b)"], ["a"]),
    ("$x^.+", ["$x^.+"], ["$x^..", "x"]),
]


@pytest.mark.parametrize(("glob", "fitting", "others"), FITS, ids=[glob for glob, *_ in FITS])
def test_a_glob_fits_what_it_fits_there(glob: str, fitting: list[str], others: list[str]) -> None:
    """And nothing that fits is deeper than it says, or misses what our own search is asked for."""
    made = read_glob(glob)
    assert ([path for path in [*fitting, *others] if made.fits(path)]) == fitting
    assert all(made.depth is None or path.count("/") < made.depth for path in fitting)
    assert made.wide in (glob, "**")


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("+(a|b).t", "+(a|b) is not understood"),
        ("*(a|b)", "*(a|b) is not understood"),
        ("?(a|b)", "?(a|b) is not understood"),
        ("*@(*|b)", "@(*|b) is not understood"),
        ("@({a,b}|c)", "@({a,b}|c) is not understood"),
        ("a!(b)", "!(b) is not understood"),
        ("{1..999}", f"more than {MOST_FORMS} alternatives"),
        ("{1..99999999999}", f"more than {MOST_FORMS} alternatives"),
        ("[[:alpha:]].t", "[:alpha:] is not understood"),
        ("[a", "`[` is not closed"),
        ("[]", "`[` is not closed"),
        ("[c-a]", "the range c-a runs backwards"),
        ("{a,b", "a brace is not closed"),
        ("a}", "a brace is not closed or not opened"),
        ("#a", "a leading `#` makes it a comment"),
        ("", "it has 0 characters"),
        ("a" * 1025, "it has 1025 characters"),
        ("{a,b}" * 9, f"more than {MOST_FORMS} alternatives"),
    ],
)
async def test_what_is_not_understood_is_said_and_nothing_is_searched(speak: Speak, glob: str, why: str) -> None:
    """For each argument that is a glob; it is on record as a wrong call."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("search_files", {"path": ".", "pattern": glob}),
        ("search_files", {"path": ".", "pattern": "*", "excludePatterns": ["x", glob]}),
        ("directory_tree", {"path": ".", "excludePatterns": [glob]}),
    ]
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        told = [await say(tool, args) for tool, args in asked]
        codes = [event["code"] for event in say.journal() if event["kind"] == "tool.failed"]
    assert [answer["isError"] for answer in told] == [True] * 3
    assert [why in answer["content"][0]["text"] for answer in told] == [True] * 3
    assert codes == ["INVALID_ARGS"] * 3


@pytest.mark.parametrize(
    "glob",
    ["a*" * 500 + "b", "*a" * 500, "**/*a/" * 150 + "z", "[!b]*" * 200 + "b", "?" * 1000, "{a,*}" * 7 + "b"],
)
def test_no_glob_is_slow(glob: str) -> None:
    """However it is made: time grows with the path alone."""
    made = read_glob(glob)
    began = process_time()
    for path in ("a" * 255, "/".join(["a" * 15] * 255), "/".join("a" * 1000)):
        made.fits(path)
    assert process_time() - began < 2


def test_globs_that_leave_out_are_bounded_together() -> None:
    """All that is made of them is made in little time, or none of it."""
    began = process_time()
    for globs in (["{a,b}" * 8 + "*a" * 450], [f"{'{a,b}' * 4}{'?a' * 400}{number}" for number in range(200)]):
        with pytest.raises(Problem) as error:
            leaving_out(globs, names=True)
        assert error.value.code is Code.INVALID_ARGS
    assert process_time() - began < 4


# ── as tools ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def project(work: Path) -> Path:
    """A few files, some with names that globs could mistake."""
    for name in ("a.txt", "b.txt", "*.txt", "src/a.py", "src/deep/b.py", "src/.dot.py", "node_modules/p/i.js", "éa.md"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x\n")
    return work


def flat(tree: list[dict[str, Any]], above: str = "") -> list[str]:
    """The paths in a tree; a folder ends with a slash."""
    found = list[str]()
    for item in tree:
        path = f"{above}{item['name']}"
        found += [f"{path}/", *flat(item["children"], f"{path}/")] if item["type"] == "directory" else [path]
    return found


async def test_a_tree_leaves_out_what_a_search_leaves_out_and_shows_folders_whose_files_are_left_out(
    speak: Speak, project: Path
) -> None:
    """`src/**` is what lies in src, not src; a plain name counts at any depth in a tree, and at the top in a search."""
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        assert await shown(say, ["src/**"]) == (
            ["*.txt", "a.txt", "b.txt", "node_modules/", "node_modules/p/", "node_modules/p/i.js", "src/", "éa.md"],
            ["*.txt", "a.txt", "b.txt", "node_modules/p/i.js", "éa.md"],
        )
        assert await shown(say, ["p", "deep", "*.txt"]) == (
            ["node_modules/", "src/", "src/.dot.py", "src/a.py", "éa.md"],
            ["node_modules/p/i.js", "src/.dot.py", "src/a.py", "src/deep/b.py", "éa.md"],
        )
        assert await shown(say, ["[^a].txt", "src", "node_modules"]) == (["a.txt", "éa.md"], ["a.txt", "éa.md"])
        assert await shown(say, [r"\*.txt", "?a.md", "{src,node_modules}"]) == (
            ["a.txt", "b.txt"],
            ["a.txt", "b.txt"],
        )
        assert await shown(say, ["**/*/**"]) == (
            ["*.txt", "a.txt", "b.txt", "node_modules/", "src/", "éa.md"],
            ["*.txt", "a.txt", "b.txt", "éa.md"],
        )
        assert await shown(say, ["!{src,src/a.py}"]) == (["src/", "src/a.py"], ["src/a.py"])


async def shown(say: Voice, excluded: list[str]) -> tuple[list[str], list[str]]:
    """What a tree shows, and what a search for names with a dot finds."""
    tree = flat(json.loads(await text(say, "directory_tree", path=".", excludePatterns=excluded)))
    home = (await text(say, "list_allowed_directories")).splitlines()[1]
    found = await text(say, "search_files", path=home, pattern="**/*.*", excludePatterns=excluded)
    return tree, sorted(path.removeprefix(f"{home}/") for path in found.splitlines())


@pytest.mark.parametrize("path", [".", "./", "src/..", "", "src/deep/../..", "link"])
async def test_a_search_below_a_relative_path_gives_full_paths(speak: Speak, project: Path, path: str) -> None:
    """As the reference server does, and as its other tools take them; a link is told as what it leads to."""
    (project / "link").symlink_to(".")
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        found = (await text(say, "search_files", path=path, pattern="**/*.py")).splitlines()
        read = [await text(say, "read_text_file", path=name) for name in found]
    assert found == [f"{project}/src/.dot.py", f"{project}/src/a.py", f"{project}/src/deep/b.py"]
    assert read == ["x\n"] * 3


async def test_where_full_paths_are_not_taken_none_are_given(speak: Speak, project: Path) -> None:
    """What a search gives, the other tools take."""
    async with speak("mcp-filesystem", config=CONFIG) as say:
        found = [await text(say, "search_files", path=path, pattern="*.py") for path in ("src", "./src/")]
        gone = await say("search_files", path="none", pattern="*")
    assert found == ["src/.dot.py\nsrc/a.py"] * 2
    assert gone["content"][0]["text"].startswith("none does not exist.")


async def test_a_search_that_a_person_must_approve_is_asked_for_once(speak: Speak, project: Path) -> None:
    """A relative path is not tried a second way then."""
    rules = [{"effect": "ask", "touch": "fs.read", "target": "src/**"}]
    async with speak("mcp-filesystem", start="mcp-filesystem", config={"rules": rules}, mode="headless") as say:
        told = await say("search_files", path="src/deep", pattern="*")
        failed = [event["code"] for event in say.journal() if event["kind"] == "tool.failed"]
    assert (told["isError"], failed) == (True, ["APPROVAL_REQUIRED"])


@pytest.mark.parametrize("path", ["x y.bin", "./src/../x y.bin", "to", "{}/x y.bin", "{}/to", "{}//src/../to"])
async def test_a_resource_is_named_by_the_full_path_of_its_file(speak: Speak, project: Path, path: str) -> None:
    """However it was asked for; a link is told as what it leads to."""
    (project / "x y.bin").write_bytes(b"\x00")
    (project / "to").symlink_to("x y.bin")
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        told = (await say("read_media_file", path=path.format(project)))["content"][0]["resource"]
    assert told["uri"] == f"file://{project}/x%20y.bin"


async def test_nothing_is_made_at_a_path_of_another_system(speak: Speak, project: Path) -> None:
    """It would become one strange name in the workspace."""
    async with speak("mcp-filesystem", start="mcp-filesystem") as say:
        told = [
            await say("write_file", path="C:\\w.txt", content="x"),
            await say("create_directory", path="c:/new"),
            await say("move_file", source="a.txt", destination="D:"),
        ]
        kept = await text(say, "write_file", path="C.txt", content="x")
    assert [answer["content"][0]["text"].partition(" ")[0] for answer in told] == [
        "`path`:",
        "`path`:",
        "`destination`:",
    ]
    assert (kept, sorted(path.name for path in project.iterdir() if ":" in path.name)) == (
        "Successfully wrote to C.txt",
        [],
    )
