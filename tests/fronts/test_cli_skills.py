"""handrail skills: list, show and validate."""

from __future__ import annotations

import json

import pytest

from fronts.conftest import Cli
from handrail import preset
from handrail.settings.presets import PRESETS
from tools._skill_desk import put_skill


@pytest.fixture
def skills(cli: Cli) -> Cli:
    """A project with a good skill and a broken one."""
    folder = cli.work / ".agents/skills"
    put_skill(folder, "pdf", "allowed-tools: Read Nonsense", "license: MIT", files={"scripts/a.py": "print(1)\n"})
    (put_skill(folder, "bad") / "SKILL.md").write_text("---\nname: bad\n---\n")
    return cli


def test_all_are_listed_with_what_is_wrong(skills: Cli) -> None:
    """As a table and as JSON, without opening a run."""
    ended = skills("skills", "list")
    rows = [line.split(maxsplit=3) for line in ended.out.splitlines()]
    assert (ended.code, rows[0][:3]) == (0, ["skill", "source", "tools"])
    assert [row[:3] for row in rows[1:]] == [
        ["bad", "project:.agents/skills", "-"],
        ["pdf", "project:.agents/skills", "hash_file,"],
    ]
    assert "the header has no `description`" in rows[1][3]
    found = json.loads(skills("skills", "list", "--json").out)
    assert [(row["id"], row["allowed_tools"], row["problems"]) for row in found] == [
        ("bad", [], ["the header has no `description`"]),
        ("pdf", ["hash_file", "read_file", "stat_path"], []),
    ]
    assert skills.run_ids() == []


def test_without_skills_it_says_where_they_would_be(cli: Cli) -> None:
    """Data on stdout, the rest on stderr."""
    ended = cli("skills")
    assert (ended.code, ended.out) == (0, "")
    assert ".agents/skills/NAME" in ended.err


def test_one_is_shown_with_its_files(skills: Cli) -> None:
    """A broken one, too, with exit code 1."""
    shown = json.loads(skills("skills", "show", "pdf", "--json").out)
    assert ([file["path"] for file in shown["files"]], shown["body"]) == (["scripts/a.py"], "Do it.")
    text = skills("skills", "show", "pdf").out
    assert "allowed tools: hash_file, read_file, stat_path\nlicense: MIT\n" in text
    assert "scripts/a.py  9 bytes" in text
    assert skills("skills", "show", "bad").code == 1


def test_what_a_skill_asks_for_is_shown(skills: Cli) -> None:
    """As a list for programs and as a line for a person, who decides whether to grant it."""
    put_skill(skills.work / ".agents/skills", "web", "permissions: net.connect fs.write")
    shown = json.loads(skills("skills", "show", "web", "--json").out)
    assert shown["permissions"] == ["net.connect", "fs.write"]
    assert "\nasks for: net.connect, fs.write\n" in skills("skills", "show", "web").out
    assert "asks for" not in skills("skills", "show", "pdf").out


def test_an_unknown_one_names_the_nearest(skills: Cli) -> None:
    """Wrong usage."""
    ended = skills("skills", "show", "pfd")
    assert (ended.code, "Did you mean pdf?" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        (".agents/skills/pdf", 0, "valid\n  note: `allowed-tools` names what stands for no tool here: Nonsense"),
        (".agents/skills/pdf/SKILL.md", 0, "valid"),
        (".agents/skills/bad", 1, "problem: the header has no `description`"),
        (".agents/skills/other", 1, "against the specification: `name` is pdf and the folder is other"),
        (".agents", 1, "problem: there is no SKILL.md"),
        ("missing", 2, ""),
    ],
)
def test_authors_are_told_what_is_wrong(skills: Cli, path: str, code: int, says: str) -> None:
    """Problems and what breaks the specification end with 1."""
    other = skills.work / ".agents/skills/other"
    other.mkdir()
    (other / "SKILL.md").write_bytes((skills.work / ".agents/skills/pdf/SKILL.md").read_bytes())
    ended = skills("skills", "validate", path)
    assert (ended.code, says in ended.out) == (code, True), ended.out
    if code < 2:
        told = json.loads(skills("skills", "validate", "--json", path).out)
        assert (told["ok"], len(told["skills"])) == (code == 0, 1)


def test_a_header_cannot_steer_a_terminal(skills: Cli) -> None:
    """Whatever an author wrote is text."""
    skill = put_skill(skills.work / ".agents/skills", "evil")
    (skill / "SKILL.md").write_text('---\nname: evil\ndescription: "\\e[31m[red]x\\u202e"\n---\n')
    out = skills("skills", "list").out + skills("skills", "show", "evil").out
    assert not set(out) & {"\x1b", "\u202e"}
    assert "[red]x" in out


def test_a_call_can_name_its_skill(skills: Cli) -> None:
    """`call --skill` narrows that call where `skills.narrow` is set, and is no limit otherwise."""
    assert skills("call", "list_dir", "--skill", "pdf").code == 0
    (skills.work / "handrail.toml").write_text("[skills]\nnarrow = true\n")
    allowed = skills("call", "read_file", "path=a.txt", "--skill", "pdf")
    denied = skills("call", "list_dir", "--skill", "pdf")
    assert (allowed.code, denied.code) == (0, 3)


def test_a_list_neither_opens_nor_closes_without_the_setting(skills: Cli) -> None:
    """Loading says so; what settings refuse stays refused, and what they allow stays allowed."""
    loaded = json.loads(skills("call", "--run", "r", "load_skill", "skill_id=pdf", "--json").out)
    assert (loaded["data"]["narrows"], loaded["data"]["allowed_tools"]) == (
        False,
        ["hash_file", "read_file", "stat_path"],
    )
    assert "which neither opens nor closes anything here" in loaded["content"]
    assert skills("call", "--run", "r", "list_dir").code == 0
    put_skill(skills.work / ".claude/skills", "shell", "allowed-tools: Bash")
    assert skills("call", "--run", "r", "load_skill", "skill_id=shell").code == 0
    assert skills("call", "--run", "r", "run_command", "command=ls").code == 3
    (skills.work / "handrail.toml").write_text("[skills]\nnarrow = true\n")
    assert skills("call", "--run", "s", "load_skill", "skill_id=pdf").code == 0
    assert skills("call", "--run", "s", "list_dir").code == 3


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_of_documents_that_ask_for_it_narrow(name: str) -> None:
    """Two documents count a skill's list as a limit; the others say nothing of it."""
    assert preset(name).get("skills", {}).get("narrow", False) is (name in ("skills-agent", "kgent"))


# ── scripts ──────────────────────────────────────────────────────────────────────────────────

SCRIPT = ("call", "--enable", "run_script", "run_script", "skill=core")


@pytest.fixture
def core(cli: Cli) -> Cli:
    """A project with a skill that has programs in two folders, and one beside its SKILL.md."""
    files = {"scripts/main.py": "print(1)\n", "core/easing.py": "print(2)\n", "top.py": "print(3)\n"}
    put_skill(cli.work / ".agents/skills", "core", files=files)
    return cli


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("core/easing.py", ' A person can open its folder: `skills.script_folders = ["scripts", "core"]`.'),
        ("top.py", ' A person can open its folder: `skills.script_folders = ["scripts", "."]`.'),
        ("main.py", " Did you mean scripts/main.py?"),
        ("script/main.py", " Did you mean scripts/main.py?"),
        ("core/missing.py", " Did you mean scripts/main.py?"),
    ],
)
def test_only_a_script_that_exists_is_suggested(core: Cli, script: str, says: str) -> None:
    """What is not in the folders of scripts is refused with what there is."""
    refused = core(*SCRIPT, f"script={script}")
    assert refused.code == 1
    text = f"{script!r} does not lie in scripts/ of the skill, whose programs alone can be run.{says}"
    assert text in " ".join(refused.err.split())
    assert "scripts/core" not in refused.err + refused.out


def test_a_further_folder_of_scripts_is_opened_by_settings_alone(core: Cli) -> None:
    """A project that nobody trusted cannot; a folder beside it stays closed."""
    (core.work / "handrail.toml").write_text('[skills]\nscript_folders = ["scripts", "core"]\n')
    assert core(*SCRIPT, "script=core/easing.py").code == 1
    assert core("config", "trust", "--yes").code == 0
    assert core(*SCRIPT, "script=core/easing.py").code == 4  # asks, as every script does
    assert core(*SCRIPT, "script=scripts/main.py").code == 4
    assert core(*SCRIPT, "script=top.py").code == 1
    for leaves in ("core/../top.py", "scripts/../../../../a.txt"):
        assert core(*SCRIPT, f"script={leaves}").code in (1, 3)
