"""A second process swaps links while the tools work: none is led outside of the root, or to what is protected in it.

Each tool is attacked at a file and at its folder, both swapped with links to four victims: a folder outside, and
`.env`, `.git/hooks` and `.ssh` inside. Policy, journal and approvals are all in place; a person says yes to everything.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attacks._swapping import swapping
from handrail import Outcome
from handrail.errors import Code
from handrail.store.reader import verify
from handrail.testing import ScriptedApprover

SECRET = "SECRET-90be2f"
ONLY = "only-there-77c1"  # a name that only victims hold
CONTENT = f"line {SECRET}\n"
# Folder and file of each victim, seen from the folder that holds the workspace; hooks may be read, not written.
VICTIMS = {
    "outside": ("outside", "data.txt"),
    "ssh": ("work/.ssh", "id_rsa"),
    "env": ("work/keys/.env.d", ".env"),
    "hooks": ("work/.git/hooks", "pre-commit"),
}
PLACES = tuple(f"{shape}-{victim}" for shape in ("folder", "file") for victim in VICTIMS)
NO_LIMITS = {"limits": {"max_repeats": 10**9, "max_prompts": 10**9, "breaker_failures": 10**9}}
PATCH = "*** Begin Patch\n*** Update File: {0}/dir/data.txt\n@@\n-harmless\n+harmless\n+more\n*** End Patch\n"
ADD = "*** Begin Patch\n*** Add File: {0}/dir/added-{1}\n+x\n*** Delete File: {0}/dir/data.txt\n*** End Patch\n"

CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "read_file": [("read_file", {"path": "{0}/dir/data.txt"}), ("read_file", {"path": "{0}/dir/data.txt", "tail": 1})],
    "write_file": [
        ("write_file", {"path": "{0}/dir/data.txt", "content": "harmless\n", "mode": "append"}),
        ("write_file", {"path": "{0}/dir/new-{1}", "content": "harmless\n"}),
    ],
    "edit_file": [("edit_file", {"path": "{0}/dir/data.txt", "edits": [{"old": "line", "new": "L", "match": "all"}]}),
                  ("edit_file", {"path": "{0}/dir/data.txt", "edits": [{"old": "harmless", "new": "harmless!"}]})],
    "apply_patch": [("apply_patch", {"patch": PATCH}), ("apply_patch", {"patch": ADD})],
    "move_path": [
        ("move_path", {"source": "{0}/dir/data.txt", "target": "{0}/taken-{1}"}),
        ("move_path", {"source": "{0}/dir", "target": "{0}/taken-{1}"}),
        ("move_path", {"source": "spare-{1}", "target": "{0}/dir/data.txt", "overwrite": True}),
        ("move_path", {"source": "{0}/taken-{1}", "target": "{0}/dir"}),
    ],
    "delete_path": [
        ("delete_path", {"path": "{0}/dir/data.txt", "confirm": True}),
        ("delete_path", {"path": "{0}/dir/sub", "confirm": True, "recursive": True}),
        ("delete_path", {"path": "{0}/dir", "confirm": True, "recursive": True}),
    ],
    "make_dir": [("make_dir", {"path": "{0}/dir/made-{1}/x"})],
    "grep": [("grep", {"pattern": "line|harmless", "path": "{0}"}), ("grep", {"pattern": ".", "path": "{0}/dir"})],
    "find_files": [("find_files", {"pattern": "**", "path": "{0}", "hidden": True, "respect_ignore": False})],
    "list_dir": [("list_dir", {"path": "{0}", "depth": 3, "hidden": True}), ("list_dir", {"path": "{0}/dir"})],
    "hash_file": [("hash_file", {"path": "{0}/dir/data.txt"})],
    "stat_path": [("stat_path", {"path": "{0}/dir/data.txt"})],
    "json_select": [("json_select", {"path": "{0}/dir/data.txt", "expression": "@"})],
}  # fmt: skip


@pytest.fixture
def ground(tmp_path: Path, work: Path) -> Iterator[Path]:
    """The folder that holds workspace and victims, while a process swaps."""
    for folder, file in VICTIMS.values():
        (tmp_path / folder).mkdir(parents=True)
        for name in (file, "data.txt", ONLY):
            (tmp_path / folder / name).write_text(CONTENT)
    pairs = [str(path) for place in PLACES for path in grow(tmp_path, place)]
    with swapping(pairs):
        yield tmp_path


def grow(base: Path, place: str) -> tuple[Path, Path]:
    """Make `place/dir/data.txt`, and the link that it, or its folder, is swapped with."""
    shape, _, victim = place.partition("-")
    folder, name = base / "work" / place, VICTIMS[victim]
    (folder / "dir/sub").mkdir(parents=True)
    (folder / "dir/data.txt").write_text("harmless\n")
    link = folder / ("link" if shape == "folder" else "link.txt")
    link.symlink_to(base / name[0] if shape == "folder" else os.path.relpath(base / "/".join(name), folder / "dir"))
    return (folder / "dir", link) if shape == "folder" else (folder / "dir/data.txt", link)


def regrow(base: Path, place: str, number: int) -> None:
    """Put back what a call took away, by handles, so that the test itself is not led astray."""
    (base / "work" / f"spare-{number}").write_text("harmless\n")
    folder = base / "work" / place
    with suppress(OSError):
        (folder / "dir").mkdir()
    for name in ("dir", "link"):
        with suppress(OSError):
            handle = os.open(folder / name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            with suppress(OSError):
                os.mkdir("sub", dir_fd=handle)
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                file = os.open("data.txt", flags, dir_fd=handle)
                os.write(file, b"harmless\n")
                os.close(file)
            os.close(handle)


def victims(base: Path) -> dict[str, str]:
    """What the victims hold now."""
    return {
        f"{victim}/{path.name}": path.read_text() if path.is_file() else "folder"
        for victim, (folder, _) in VICTIMS.items()
        for path in (base / folder).rglob("*")
    }


def filled(value: Any, place: str, number: int) -> Any:
    """Put place and number into a call."""
    if isinstance(value, str):
        return value.replace("{0}", place).replace("{1}", str(number))
    return value


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
async def test_no_swap_leads_a_tool_astray(opens: Any, ground: Path, own_user: Path, scale: int, name: str) -> None:
    """Nothing of a victim is in any outcome or file of the run, and every victim is as it was."""
    before, outcomes, happened = victims(ground), list[tuple[str, Outcome]](), Counter[str]()
    async with opens(
        enable=("fs", "delete_path"), config=NO_LIMITS, approver=ScriptedApprover("once"), run_id="race"
    ) as runtime:
        until = time.monotonic() + scale
        for number, place in enumerate(itertools.cycle(PLACES)):
            if time.monotonic() >= until and number >= 2 * len(PLACES):
                break
            regrow(ground, place, number)
            calls = [(tool, {key: filled(value, place, number) for key, value in args.items()})
                     for tool, args in CALLS[name]]  # fmt: skip
            made = await asyncio.gather(*(runtime.call(tool, args) for tool, args in calls))
            outcomes += [(place, outcome) for outcome in made]
        folder = runtime.parts.folder.path
    for place, outcome in outcomes:
        happened[outcome.status.value] += 1
        assert outcome.error is None or outcome.error.code != Code.INTERNAL, outcome.content
        if not place.endswith("hooks"):
            told = json.dumps(outcome.to_dict())
            assert (SECRET in told, ONLY in told) == (False, False), outcome.content
    assert victims(ground) == before
    assert verify(folder).ok
    # A link may be moved as what it is; what it points to may not.
    taken = [path for path in (ground / "work").glob("*/taken-*") if not path.is_symlink() and path.is_dir()]
    assert [path for folder in taken for path in folder.iterdir() if path.name == ONLY] == []
    if name not in ("edit_file", "json_select"):
        assert happened["ok"] > 0
    if name != "find_files":  # begins above what is swapped
        assert happened["denied"] + happened["failed"] > 0


def test_a_secret_of_a_victim_would_be_recognised(ground: Path) -> None:
    """The negative control: opening by name while links are swapped gives it away."""
    path, until = ground / "work/folder-outside/dir/data.txt", time.monotonic() + 20
    while time.monotonic() < until:
        with suppress(OSError):
            if SECRET in path.read_text():
                return
    pytest.fail("the attack is too weak to prove anything")
