"""A skill's folder: its digest covers all of it, and nothing beyond it is read."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.skills import folder as folders
from handrail.skills.dialects import our_tools, unknown_names
from handrail.skills.finding import Library
from handrail.skills.folder import Hashes, contents, read_inside
from handrail.skills.sources import Source, project_sources, user_sources
from handrail.words import Root
from tools._skill_desk import TOOLS, put_skill


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    """A skill with a script and a reference."""
    return put_skill(tmp_path / "skills", "pdf", files={"scripts/a.py": "1", "references/b.md": "2"})


def digest(skill: Path) -> str:
    """The digest of a skill that has no problems."""
    found = contents(str(skill), Hashes())
    assert found.problems == ()
    return found.digest


CHANGES: dict[str, Callable[[Path], object]] = {
    "SKILL.md": lambda skill: (skill / "SKILL.md").write_text("---\nname: pdf\ndescription: x\n---\n"),
    "a script": lambda skill: (skill / "scripts/a.py").write_text("3"),
    "a new file": lambda skill: (skill / "new").write_text(""),
    "a hidden file": lambda skill: (skill / ".hidden").write_text(""),
    "compiled code": lambda skill: put_skill(skill.parent, "pdf", files={"scripts/__pycache__/a.pyc": "x"}),
    "a renamed file": lambda skill: (skill / "scripts/a.py").rename(skill / "scripts/b.py"),
    "a removed file": lambda skill: (skill / "references/b.md").unlink(),
    "swapped contents": lambda skill: (
        (skill / "scripts/a.py").write_text("2"),
        (skill / "references/b.md").write_text("1"),
    ),
    "a link": lambda skill: (skill / "link").symlink_to("scripts/a.py"),
    "a link to a folder": lambda skill: (skill / "link").symlink_to("scripts"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_changes_the_digest(skill: Path, change: str) -> None:
    """An approval for a script is bound to all that the script could read of its skill."""
    before = digest(skill)
    CHANGES[change](skill)
    assert digest(skill) != before


def test_what_changes_nothing_keeps_the_digest(skill: Path, tmp_path: Path) -> None:
    """Dates, modes and the place of the folder say nothing of its content."""
    before = digest(skill)
    os.utime(skill / "scripts/a.py", (1, 1))
    (skill / "scripts/a.py").chmod(0o755)
    moved = skill.rename(tmp_path / "pdf")
    assert digest(moved) == before


def test_a_file_changed_behind_its_dates_is_hashed_anew(skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was hashed is looked up by more than what a program can set."""
    monkeypatch.setattr(folders, "_SETTLED_NS", 0)
    hashes, file = Hashes(), skill / "scripts/a.py"
    os.utime(file, (1, 1))
    changed = file.stat().st_ctime_ns
    before = contents(str(skill), hashes).digest
    while file.stat().st_ctime_ns == changed:  # the system's clock ticks slower than we write
        file.write_text("9")
        os.utime(file, (1, 1))
    assert contents(str(skill), hashes).digest != before


def test_the_hash_of_a_file_that_just_changed_is_not_remembered(skill: Path) -> None:
    """It could change again within the same tick of the system's clock."""
    hashes = Hashes()
    contents(str(skill), hashes)
    assert hashes.known == {}


def _link(path: Path, to: str) -> bool:
    path.symlink_to(to)
    return False


LEADING_OUT: dict[str, Callable[[Path], object]] = {
    "absolute": lambda skill: (skill / "x").symlink_to("/etc/hostname"),
    "relative": lambda skill: (skill / "x").symlink_to("../../outside"),
    "through a folder": lambda skill: (skill / "x").symlink_to("scripts/../../other/SKILL.md"),
    "a folder": lambda skill: (skill / "x").symlink_to("/etc"),
    "back inside by the outside": lambda skill: (skill / "x").symlink_to("../pdf/scripts/a.py"),
    "chained": lambda skill: _link(skill / "y", "../../outside") or _link(skill / "x", "y"),
    "nowhere": lambda skill: (skill / "x").symlink_to("missing"),
    "itself": lambda skill: (skill / "x").symlink_to("x"),
}


@pytest.mark.parametrize("case", LEADING_OUT)
def test_a_link_that_leads_out_is_a_problem(skill: Path, tmp_path: Path, case: str) -> None:
    """The skill is not loadable, and the link is not read either."""
    (tmp_path / "outside").write_text("secret")
    put_skill(skill.parent, "other")
    LEADING_OUT[case](skill)
    assert "x is a link that leads out of the skill's folder" in contents(str(skill), Hashes()).problems
    with pytest.raises(Problem) as caught:
        read_inside(str(skill), "x", 100)
    assert caught.value.code in (Code.PATH_OUTSIDE_ROOTS, Code.NOT_FOUND)


def test_a_link_that_stays_inside_is_followed(skill: Path) -> None:
    """It is a file like any other, at its own path."""
    (skill / "x").symlink_to("references/../scripts/a.py")
    found = contents(str(skill), Hashes())
    assert (found.problems, [file.path for file in found.files]) == ((), ["references/b.md", "scripts/a.py", "x"])
    assert read_inside(str(skill), "x", 100) == b"1"


def test_what_is_no_file_is_a_problem(skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe would be waited for, a socket or device does something."""
    os.mkfifo(skill / "pipe")
    monkeypatch.chdir(skill)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        problems = contents(str(skill), Hashes()).problems
    assert problems == ("pipe is neither a file nor a folder", "sock is neither a file nor a folder")


def test_a_folder_that_is_too_large_is_a_problem(skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files, in bytes, in depth: reading it must not hold up the run."""
    deep = skill / "/".join("abcdefghijklmnopqrs")
    deep.mkdir(parents=True)
    assert contents(str(skill), Hashes()).problems == ("the folder is more than 16 folders deep",)
    deep.rmdir()
    monkeypatch.setattr(folders, "MAX_DEPTH", 100)
    with (skill / "big").open("wb") as file:
        file.truncate(folders.MAX_BYTES)
    assert contents(str(skill), Hashes()).problems == ("the folder holds more than 33554432 bytes",)
    monkeypatch.setattr(folders, "MAX_FILES", 5)
    assert contents(str(skill), Hashes()).problems == ("the folder holds more than 5 files",)


def test_a_folder_that_became_a_link_is_not_read(skill: Path, tmp_path: Path) -> None:
    """Its canonical path was judged; nothing else is opened by it."""
    other = put_skill(tmp_path, "other")
    skill.rename(tmp_path / "away")
    skill.symlink_to(other)
    assert [text.partition(":")[0] for text in contents(str(skill), Hashes()).problems] == ["the folder cannot be read"]


# ── finding ──────────────────────────────────────────────────────────────────────────────────


def library(*sources: Source) -> Library:
    return Library(lambda: sources, lambda: TOOLS)


def at(workspace: Path, *names: str) -> list[Source]:
    return list(project_sources(Root("workspace", str(workspace), writable=True), names))


def listed(found: Library) -> dict[str, tuple[str, ...]]:
    """Ids and problems."""
    return {item.id: found.whole(item).skill.problems for item in found.found()}


def test_one_folder_under_two_names_is_one_source_of_skills(tmp_path: Path) -> None:
    """`.claude/skills` is often a link to `.agents/skills`."""
    put_skill(tmp_path / ".agents/skills", "pdf")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/skills").symlink_to("../.agents/skills")
    assert listed(library(*at(tmp_path, ".agents/skills", ".claude/skills"))) == {"pdf": ()}


def test_folders_of_skills_do_not_lead_out_of_the_workspace(tmp_path: Path) -> None:
    """Neither by a link, of the folder or of a skill, nor by the setting."""
    work = tmp_path / "work"
    put_skill(tmp_path / "outside", "evil")
    put_skill(work / "skills", "good")
    (work / "skills" / "linked").symlink_to("../../outside/evil")
    (work / "inner").mkdir()
    (work / "inner" / "same").symlink_to("../skills/good")
    (work / "away").symlink_to("../outside")
    found = listed(library(*at(work, "skills", "inner", "away", "../outside", "missing")))
    out = ("the folder of skills leads out of the workspace",)
    linked = (f"the folder is a link that leads out of {work}",)
    assert found == {
        "good": (),
        "linked": linked,
        "project:away:outside": out,
        "project:../outside:outside": out,
    }


def test_a_name_that_two_of_one_source_claim_is_nobodys(tmp_path: Path) -> None:
    """Both are broken, under the names of their folders."""
    put_skill(tmp_path / "s", "one")
    (put_skill(tmp_path / "s", "two") / "SKILL.md").write_text("---\nname: one\ndescription: x\n---\n")
    wrong = ("another skill in project:s has the name one, too",)
    assert listed(library(*at(tmp_path, "s"))) == {"project:s:one": wrong, "project:s:two": wrong}


def test_a_name_unlike_its_folder_is_remarked_and_taken(tmp_path: Path) -> None:
    """The specification asks for it of authors, and of readers to be lenient."""
    (put_skill(tmp_path / "s", "two") / "SKILL.md").write_text("---\nname: one\ndescription: x\n---\n")
    found = library(*at(tmp_path, "s"))
    whole = found.whole(found.found()[0])
    assert (whole.skill.id, whole.skill.problems) == ("one", ())
    assert whole.remarks == ("`name` is one and the folder is two; the specification wants them equal",)


def test_the_users_skills_lie_in_two_folders_of_their_home(tmp_path: Path) -> None:
    """Each is a root that is only read; one that is not there is no source."""
    put_skill(tmp_path / ".claude/skills", "pdf")
    folder = str(tmp_path / ".claude/skills")
    assert list(user_sources(tmp_path)) == [Source("user:.claude/skills", folder, Root(folder, folder, writable=False))]


def test_folders_without_skill_md_are_no_skills(tmp_path: Path) -> None:
    """Nor are files."""
    (tmp_path / "s/notes").mkdir(parents=True)
    (tmp_path / "s/README.md").write_text("x")
    put_skill(tmp_path / "s", "low").joinpath("SKILL.md").rename(tmp_path / "s/low/skill.md")
    assert listed(library(*at(tmp_path, "s"))) == {"low": ()}


# ── names of tools ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "ours"),
    [
        ((), set()),
        (("read_file",), {"read_file"}),
        (("Read",), {"read_file"}),
        (("Write", "Edit"), {"write_file", "edit_file"}),
        (("Bash(git:*)",), {"run_script"}),
        (("Grep", "Unknown", "*", "Reading", "READ_FILE", ""), {"grep"}),
        (("WebFetch",), set()),
    ],
)
def test_names_of_other_programs_stand_for_our_tools(written: tuple[str, ...], ours: set[str]) -> None:
    """An unknown name stands for nothing; a tool that is not there is not invented."""
    assert our_tools(written, TOOLS) == ours


def test_an_unknown_name_may_be_that_of_a_tool_of_the_agents_own() -> None:
    """Kept where an agent's tools go through the gate, and nowhere else; a pattern behind it does not count."""
    assert our_tools(("Read", "get_weather", "pay(1)", ""), TOOLS) == {"read_file"}
    assert our_tools(("Read", "get_weather", "pay(1)", ""), (*TOOLS, "agent_tool")) == {
        *("read_file", "get_weather", "pay"),
    }


def test_unknown_names_are_told() -> None:
    """For authors: what they wrote allows nothing."""
    assert unknown_names(("Read", "Reading", "Bash(x)"), TOOLS) == ("Reading",)


SWAP = """
import os, sys
skill, outside, aside = sys.argv[1:]
while True:
    for name in ("SKILL.md", "", "a.md"):
        link = os.path.join(skill, name).rstrip("/")
        os.rename(link, aside)
        os.symlink(os.path.join(outside, name).rstrip("/"), link)
        os.unlink(link)
        os.rename(aside, link)
"""


def test_what_swaps_while_it_is_read_never_shows_the_outside(tmp_path: Path, scale: int) -> None:
    """SKILL.md, a file and the folder become links and back, all the time; nothing they lead to is ever told."""
    work, outside = tmp_path / "work", put_skill(tmp_path / "outside", "pdf", body="SECRET", files={"a.md": "SECRET"})
    skill = put_skill(work / "s", "pdf", files={"a.md": "fine"})
    found, seen = library(*at(work, "s")), set()
    argv = [sys.executable, "-c", SWAP, str(skill), str(outside), str(tmp_path / "aside")]
    with subprocess.Popen(argv) as swapping:
        try:
            end = time.monotonic() + min(0.7 * scale, 30)
            while time.monotonic() < end:
                for item in found.found():
                    whole = found.whole(item)
                    seen |= {whole.header.body, *whole.skill.problems}
                    with contextlib.suppress(Problem):
                        seen.add(read_inside(item.folder, "a.md", 100).decode())
            assert swapping.poll() is None
        finally:
            swapping.kill()
    assert not any("SECRET" in text for text in seen)
    assert "fine" in seen
    assert any("leads out" in text or "cannot be read" in text for text in seen), "the race never met"
