"""The list of tools that is kept between starts: the same as one made anew, whatever settings say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from handrail import Runtime, tool
from handrail.front.mcp import listing, results
from handrail.front.mcp.listing import FILE, listed, prepare, spoken
from handrail.policy.enablement import enabled

SETTINGS: list[dict[str, Any]] = [
    {},
    {"tools": {"enable": ["fs", "exec"]}},
    {"tools": {"enable": ["fs", "delete_path"], "disable": ["search", "now"]}},
    {"tools": {"enable": ["memory"]}, "memory": {"write_mode": "disabled"}},
    {"memory": {"enabled": False}},
]


async def lists(work: Path, folder: Path, config: dict[str, Any], **how: Any) -> list[dict[str, Any] | None]:
    """The entries that a runtime with these settings lists."""
    async with Runtime.open(work, config=config, **how) as runtime:
        return [item.entry for item in listed(runtime.parts, folder)]


@pytest.mark.parametrize("config", SETTINGS)
async def test_what_is_kept_lists_the_same_as_what_is_made(work: Path, tmp_path: Path, config: dict[str, Any]) -> None:
    """Kept under other settings, made for these, and as the runtime itself decides what is enabled."""
    await lists(work, tmp_path / "kept", {"tools": {"enable": ["exec"]}})
    kept = await lists(work, tmp_path / "kept", config)
    again = await lists(work, tmp_path / "kept", config)
    made = await lists(work, tmp_path / "new", config)
    async with Runtime.open(work, config=config) as runtime:
        worlds = [(item, runtime.parts.world(item)) for item in runtime.parts.catalog if item.offered]
        asked = [item.name for item, world in worlds if enabled(world.tool, world.enable, world.disable)]
    assert kept == again == made
    assert [entry["name"] for entry in made if entry is not None] == asked


async def test_a_kept_list_loads_no_tool(work: Path, tmp_path: Path) -> None:
    """That is what it is kept for."""
    await lists(work, tmp_path, {})
    async with Runtime.open(work, config={}) as runtime:
        listed(runtime.parts, tmp_path)
        assert runtime.parts.catalog._tools == {}


async def test_what_is_prepared_is_what_would_be_made(work: Path, tmp_path: Path) -> None:
    """For every tool, so that the first start loads none."""
    prepare(tmp_path / "ahead")
    config = {"tools": {"enable": ["fs", "exec", "http", "memory", "delete_path"]}}
    async with Runtime.open(work, config=config) as runtime:
        ahead = listed(runtime.parts, tmp_path / "ahead")
        assert runtime.parts.catalog._tools == {}
    async with Runtime.open(work, config=config) as runtime:
        assert ahead == listed(runtime.parts, tmp_path / "new")


async def test_tools_of_a_program_are_listed_and_never_kept(work: Path, tmp_path: Path) -> None:
    """Another program's tool of the same name is another tool."""

    @tool(pure=True, risk="high")
    async def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    names = [entry["name"] for entry in await lists(work, tmp_path, {}, tools=(shout,)) if entry is not None]
    without = [entry["name"] for entry in await lists(work, tmp_path, {}) if entry is not None]
    assert (set(names) - set(without), "shout" in (tmp_path / FILE).read_text()) == ({"shout"}, False)


BAD = {
    "another package's": b'{"stamp": "other", "tools": []}',
    "garbage": b"\x00\x01",
    "another shape": b"[]",
    "not all of it": b'{"stamp": "',
    "empty": b"",
}


@pytest.mark.parametrize("name", BAD)
async def test_what_does_not_fit_is_made_anew(work: Path, tmp_path: Path, name: str) -> None:
    """And kept in its place."""
    (tmp_path / FILE).write_bytes(BAD[name])
    made = await lists(work, tmp_path, {})
    assert (len(made) > 10, (tmp_path / FILE).read_bytes() != BAD[name]) == (True, True)


async def test_a_link_in_its_place_is_not_read(work: Path, tmp_path: Path) -> None:
    """Whoever can plant one would decide what tools are said to do."""
    config = {"tools": {"enable": ["fs"]}}
    made = await lists(work, tmp_path / "real", config)
    (tmp_path / "real" / FILE).rename(tmp_path / "planted")
    text = (tmp_path / "planted").read_text().replace('"readOnlyHint":false', '"readOnlyHint":true')
    (tmp_path / "planted").write_text(text)
    (tmp_path / "real" / FILE).symlink_to(tmp_path / "planted")
    assert '"readOnlyHint":false' not in text
    assert await lists(work, tmp_path / "real", config) == made


async def test_a_folder_that_cannot_be_written_costs_only_time(work: Path, tmp_path: Path) -> None:
    """The list is given all the same."""
    (tmp_path / "file").write_text("")
    assert len(await lists(work, tmp_path / "file", {})) > 10


async def test_a_changed_file_of_the_package_makes_it_anew(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept holds for exactly these files."""
    await lists(work, tmp_path, {})
    before = (tmp_path / FILE).stat().st_ino
    monkeypatch.setattr(listing, "_state", lambda entry: (entry.stat().st_size + 1, 0, 0))
    await lists(work, tmp_path, {})
    assert (tmp_path / FILE).stat().st_ino != before


async def test_it_is_private(work: Path, tmp_path: Path) -> None:
    """Only its owner reads and writes it."""
    await lists(work, tmp_path / "new", {})
    assert (os.stat(tmp_path / "new" / FILE).st_mode & 0o777, os.stat(tmp_path / "new").st_mode & 0o777) == (
        0o600,
        0o700,
    )


async def test_a_dialect_lists_its_own_names_with_our_hints(work: Path, tmp_path: Path) -> None:
    """From what is kept as well."""
    for _ in range(2):
        async with Runtime.open(work, config={"tools": {"enable": ["fs"]}}) as runtime:
            entries = {entry["name"]: entry for entry in spoken("mcp-filesystem", listed(runtime.parts, tmp_path))}
        assert entries["write_file"]["annotations"]["destructiveHint"] is True
        assert entries["read_text_file"]["outputSchema"]["required"] == ["content"]


def test_entries_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tools come and go, the last few hundred are remembered."""
    monkeypatch.setattr(results, "_MOST_ENTRIES", 3)
    monkeypatch.setattr(results, "_ENTRIES", {})
    for number in range(10):

        @tool(name=f"tool_{number}", pure=True)
        async def made() -> str:
            """Do nothing."""
            return ""

        assert results.tool_entry(made)["name"] == f"tool_{number}"
    assert [known[0].name for known in results._ENTRIES.values()] == ["tool_7", "tool_8", "tool_9"]
