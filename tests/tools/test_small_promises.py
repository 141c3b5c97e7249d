"""Small promises of file tools: sizes, cuts, summaries and padded patches."""

from __future__ import annotations

from pathlib import Path

from handrail import Runtime
from handrail.dialects.mcp_filesystem import DIALECT
from handrail.dialects.mcp_filesystem_listed import entry
from handrail.tools.fs._patch import parse_patch


async def test_max_bytes_bounds_the_excerpt(tmp_path: Path) -> None:
    """Of a file that is larger, at most so many bytes are shown; a smaller one is shown whole."""
    (tmp_path / "f.txt").write_text("a line of text\n" * 100)
    async with Runtime.open(tmp_path, mode="headless") as runtime:
        cut = await runtime.call("read_file", {"path": "f.txt", "max_bytes": 600})
        whole = await runtime.call("read_file", {"path": "f.txt", "max_bytes": 2000})
    assert 0 < len(cut.data["text"]) <= 600
    assert (cut.truncation is not None, cut.data["complete"]) == (True, False)
    assert (whole.truncation, whole.data["complete"]) == (None, True)


async def test_nothing_is_called_cut_where_all_that_was_asked_for_is_shown(tmp_path: Path) -> None:
    """From line 99 of 100 to the end nothing is missing; two lines from line 1 leave some."""
    (tmp_path / "f.txt").write_text("".join(f"{line}\n" for line in range(1, 101)))
    async with Runtime.open(tmp_path, mode="headless") as runtime:
        end = await runtime.call("read_file", {"path": "f.txt", "offset": 99})
        start = await runtime.call("read_file", {"path": "f.txt", "limit": 2})
    assert (end.data["text"], end.truncation) == ("99\n100\n", None)
    assert start.truncation is not None


async def test_json_select_says_what_it_selected(tmp_path: Path) -> None:
    """The summary names the kind of value."""
    async with Runtime.open(tmp_path, mode="headless") as runtime:
        outcome = await runtime.call("json_select", {"expression": "a", "json": {"a": [1, 2, 3]}})
    assert outcome.summary == "A list of 3 items from the given JSON"


def test_padded_markers_are_read() -> None:
    """Blanks around begin, end and file headers do not matter."""
    patch = "*** Begin Patch \n  *** Add File: a.txt\n+one\n *** Update File: b.txt\n@@\n-x\n+y\n *** End Patch\n"
    found = [(item.operation, item.path, item.content, len(item.hunks)) for item in parse_patch(patch)]
    assert found == [("add", "a.txt", "one\n", 0), ("update", "b.txt", "", 1)]


async def test_lines_without_context_are_appended_with_a_warning(tmp_path: Path) -> None:
    """They go to the end, and the outcome says so."""
    (tmp_path / "f.txt").write_text("a\nb\n")
    patch = "*** Begin Patch\n*** Update File: f.txt\n@@\n+c\n*** End Patch\n"
    config = {"tools": {"enable": ["apply_patch"]}}
    async with Runtime.open(tmp_path, mode="headless", config=config) as runtime:
        outcome = await runtime.call("apply_patch", {"patch": patch})
    assert (tmp_path / "f.txt").read_text() == "a\nb\nc\n", outcome.content
    assert "added at the end" in " ".join(outcome.warnings)


def test_read_media_file_lists_the_three_kinds_of_blocks() -> None:
    """As the reference server does: an image, a sound, or a resource."""
    listed = entry(DIALECT.words["read_media_file"])["outputSchema"]["properties"]["content"]["items"]["anyOf"]
    kinds = [block["properties"]["type"] for block in listed]
    assert [kind.get("enum") or [kind["const"]] for kind in kinds] == [["image", "audio"], ["resource"]]
