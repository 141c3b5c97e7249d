"""Settings that are taken but hardly meant: lint says where, why and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.catalog import Catalog, Reads, Writes, tool
from handrail.settings.lint import Lint, lint
from settings_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


@tool(toolset="fs")
async def hash_file(path: Reads) -> str:
    """Stand in for a tool that reads."""
    return path.path


@tool(toolset="fs")
async def write_file(path: Writes) -> str:
    """Stand in for a tool that writes."""
    return path.path


CATALOG = Catalog([hash_file, write_file])
ALLOW = '[[rules]]\neffect = "allow"\n'
DENY = '[[rules]]\neffect = "deny"\n'


@pytest.mark.parametrize(
    ("text", "level", "line", "told"),
    [
        ('[workspace]\nroot = "/"\n', "error", 2, "workspace.root is `/`: tools reach the whole machine"),
        ('[workspace]\nread = ["~"]\n', "error", 2, "holds the whole home folder"),
        ('[workspace]\nwrite = ["/.."]\n', "error", 2, "workspace.write is `/`"),
        ('[workspace]\nread = ["gone"]\n', "warning", 2, "there is no folder"),
        ("[workspace]\nprotected = []\n", "warning", 2, "tools may read `.env` files"),
        ("[tools]\nenable = []\n", "note", 2, "only low-risk tools are offered"),
        ("[http]\nallowed_hosts = []\n", "note", 2, "no host can be reached"),
        ('[http]\nallowed_hosts = ["*"]\n', "warning", 2, "any public host"),
        ('[http]\nallowed_hosts = ["*:*"]\n', "warning", 2, "any public host"),
        ('[tools]\nenable = ["fs"]\ndisable = ["fs"]\n', "warning", 3, "both enabled and disabled"),
        ('[tools]\nenable = ["hash_fil"]\n', "warning", 2, "tools.enable: there is no tool 'hash_fil'"),
        ("[limits.rate]\nhash_fil = 2\n", "warning", 2, "limits.rate: there is no tool 'hash_fil'"),
        (f'{ALLOW}touch = "fs.read"\ntarget = "**"\n', "warning", 1, "rules.1 allows everything (**)"),
        (f'{ALLOW}touch = "fs.write"\n', "warning", 1, "rules.1 allows every fs.write"),
        (f'{DENY}touch = "fs.read"\ntarget = "~/x"\n', "warning", 1, "`~` is not a folder here"),
        (f'{DENY}touch = "fs.read"\ntarget = "./x"\n', "warning", 1, "paths have no `./` in front"),
        (f'{DENY}touch = "fs.read"\ntarget = "a/../x"\n', "warning", 1, "paths have no `..` in them"),
        (f'{DENY}touch = "fs.read"\ntarget = "/etc/**"\n', "warning", 1, "outside every root"),
        (f'{DENY}touch = "memory.write"\n', "warning", 1, "memory.write is nothing that any tool touches"),
        (f'{DENY}tool = "hash_file"\ntouch = "fs.write"\n', "warning", 1, "fs.write is nothing that hash_file touches"),
        (f'{DENY}tool = "hash_fil"\n', "warning", 1, "there is no tool 'hash_fil'"),
        (
            f'{ALLOW}touch = "fs.read"\ntarget = "src/a/*.py"\n{DENY}touch = "fs.*"\ntarget = "src"\n',
            "warning",
            1,
            "rules.1 (allow) never decides: rules.2 at handrail.toml:5 says deny",
        ),
        (
            f'{DENY}touch = "fs.read"\ntarget = "src/a"\n{DENY}touch = "fs.read"\ntarget = "src/**"\n',
            "note",
            1,
            "rules.1 says nothing that rules.2 at handrail.toml:5 does not say",
        ),
        (f'{DENY}tool = "hash_file"\n{DENY}tool = "hash_file"\n', "note", 4, "rules.2 says nothing that rules.1"),
        ("# ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8\n", "error", 1, "this looks like a secret"),
    ],
)
def test_lint_finds(place: Place, text: str, level: str, line: int, told: str) -> None:
    """What is taken but hardly meant, one by one."""
    place.write(text)
    found = lint(place.load(), CATALOG, place.environment)
    assert [(item.level, item.where) for item in found if told in item.text] == [(level, f"handrail.toml:{line}")]


def test_lint_is_silent_about_sound_settings(place: Place) -> None:
    """Rules that overlap without one swallowing the other are nobody's mistake."""
    as_deep = "/".join("*" for _ in f"{place.project}/a".split("/"))  # beneath the root, so not what `/…/a` means
    place.write(
        '[tools]\nenable = ["fs"]\n'
        f'{ALLOW}touch = "fs.write"\ntarget = "build/**"\n'
        f'{DENY}touch = "fs.write"\ntarget = "build/keep"\n'
        f'{DENY}touch = "fs.read"\ntarget = "{place.project}/private/**"\n'
        f'{DENY}touch = "fs.read"\ntarget = "**/*.pem"\n'
        f'{ALLOW}touch = "fs.read"\ntarget = "{place.project}/a"\n'
        f'{DENY}touch = "fs.read"\ntarget = "{as_deep}"\n'
    )
    assert lint(place.load(), CATALOG, place.environment) == []


def test_lint_names_a_settings_file_that_everybody_may_write(place: Place) -> None:
    """Whoever can write the file makes the rules."""
    place.write("").chmod(0o666)
    fix = f"chmod o-w {place.project}/handrail.toml"
    assert lint(place.load(), CATALOG, place.environment) == [
        Lint("error", "handrail.toml", "handrail.toml can be written by every user of this machine", fix)
    ]


def test_lint_names_the_table_that_is_not_read(place: Place) -> None:
    """A `[tool.handrail]` beside handrail.toml would be missed in silence."""
    place.write("[tool.handrail]\n", "pyproject.toml", trusted=False)
    place.write("")
    found = lint(place.load(), CATALOG, place.environment)
    assert [(item.level, item.where) for item in found] == [("warning", "pyproject.toml")]
