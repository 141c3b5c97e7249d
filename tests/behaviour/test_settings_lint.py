"""Settings that are taken but hardly meant: lint says where, why and what to do."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
        ("[tools]\nenable = []\n", "note", 2, "only low-risk tools are offered"),
        ("[http]\nallowed_hosts = []\n", "note", 2, "no host can be reached"),
        ('[http]\nallowed_hosts = ["*"]\n', "warning", 2, "any public host"),
        ('[http]\nallowed_hosts = ["*:*"]\n', "warning", 2, "any public host"),
        ('[http]\nallowed_hosts = ["*:8080"]\n', "warning", 2, "tools may send anything to any public host"),
        ('[http]\nallowed_hosts = ["a.org", "*.com"]\n', "warning", 2, "http.allowed_hosts has '*.com'"),
        (
            '[http]\nallowed_networks = ["10.1.0.0/16", "0.0.0.0/0"]\n',
            "warning",
            2,
            "'0.0.0.0/0': the inner network",
        ),
        ('[http]\nallowed_networks = ["::/0"]\n', "warning", 2, "this machine itself can be reached"),
        ('[http]\nallowed_networks = ["10.0.0.0/99"]\n', "error", 2, "does not appear to be an IPv4 or IPv6 network"),
        ('[exec]\nallowed_hosts = ["*"]\n', "warning", 2, "programs may send anything to any public host"),
        ('[exec]\nallow = ["npm test", "* *"]\n', "warning", 2, "exec.allow has '* *': every command runs"),
        ('[exec]\nallow = ["*"]\n', "warning", 2, "exec.allow has '*': every command runs"),
        ('[exec]\nallow = ["* * * *"]\n', "warning", 2, "exec.allow has '* * * *': every command runs"),
        ('[exec]\nallow = ["python3.12 *"]\n', "warning", 2, "python3.12 runs any code that it is given"),
        ('[exec]\nallow = ["/bin/bash *"]\n', "warning", 2, "bash runs any code that it is given"),
        ('[tools]\nenable = ["fs"]\ndisable = ["fs"]\n', "warning", 3, "both enabled and disabled"),
        ('[tools]\nenable = ["hash_fil"]\n', "warning", 2, "tools.enable: there is no tool 'hash_fil'"),
        ("[limits.rate]\nhash_fil = 2\n", "warning", 2, "limits.rate: there is no tool 'hash_fil'"),
        (f'{ALLOW}touch = "fs.read"\ntarget = "**"\n', "warning", 1, "rules.1 allows everything (**)"),
        (f'{ALLOW}touch = "fs.write"\n', "warning", 1, "rules.1 allows every fs.write"),
        (f'{ALLOW}touch = "fs.*"\ntarget = "**/?*"\n', "warning", 1, "rules.1 allows everything (**/?*)"),
        (f'{ALLOW}touch = "fs.*"\ntarget = "/**/*"\n', "warning", 1, "rules.1 allows everything (/**/*)"),
        (f'{ALLOW}target = "[!.]*/"\n', "warning", 1, "rules.1 allows everything ([!.]*/)"),
        (f'{ALLOW}touch = "proc.exec"\ntarget = "* *"\n', "warning", 1, "rules.1 allows everything (* *)"),
        (f'{ALLOW}touch = "proc.*"\ntarget = "* * *"\n', "warning", 1, "rules.1 allows everything (* * *)"),
        (f'{ALLOW}touch = "proc.exec"\ntarget = "sh *"\n', "warning", 1, "sh runs any code that it is given"),
        (f'{ALLOW}touch = "net.connect"\ntarget = "*:443"\n', "warning", 1, "rules.1 allows everything (*:443)"),
        (f'{ALLOW}touch = "proc.exec"\ntool = "run_command"\n', "note", 1, "lets run_command run every command"),
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


def test_lint_looks_at_a_file_as_it_would_count_once_it_is_trusted(place: Place) -> None:
    """What it opens is not in force yet; who is about to trust it should know."""
    place.write('[exec]\nallow = ["* *"]\n[tools]\nenable = ["fs", "hash_fil"]\n', trusted=False)
    found = lint(place.load(), CATALOG, place.environment)
    assert [(item.level, item.where, item.text) for item in found] == [
        (
            "warning",
            "handrail.toml:2",
            "exec.allow has '* *': every command runs without being asked for (once it is trusted)",
        ),
        ("warning", "handrail.toml:4", "tools.enable: there is no tool 'hash_fil' (once it is trusted)"),
    ]


def test_lint_finds_what_would_fail_once_a_file_is_trusted(place: Place) -> None:
    """A rule that allows is passed over in a file that nobody trusts, and its examples with it."""
    place.write(f'{ALLOW}touch = "fs.write"\ntarget = "src/*"\nmatches = ["docs/a"]\n', trusted=False)
    text = "rule rules.1 should match 'docs/a' and does not (once it is trusted)"
    assert lint(place.load(), CATALOG, place.environment) == [Lint("error", "handrail.toml:1", text)]


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
        f'{ALLOW}touch = "fs.write"\ntarget = "docs/*"\n'
        '[exec]\nallow = ["npm test", "git diff *", "python -m pytest *"]\nallowed_hosts = ["*.example.org"]\n'
        '[http]\nallowed_hosts = ["example.org", "*.example.com:8080"]\n'
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


# ── at start ─────────────────────────────────────────────────────────────────────────────────


WRONG: dict[str, Any] = {
    "tools": {"enable": ["fs", "run_comand", "mine"], "disable": ["htpp"]},
    "exec": {"allow": ["npm test", "* *"]},
}
TOLD = [
    "python: tools.enable: there is no tool 'run_comand'; did you mean 'run_command'?",
    "python: tools.disable: there is no tool 'htpp'; did you mean 'http'?",
    "python: exec.allow has '* *': every command runs without being asked for; name the commands that are meant",
]


@tool(toolset="mine")
async def anything() -> str:
    """Stand in for a tool with a toolset of its own."""
    return ""


async def test_names_that_are_no_tool_and_what_allows_everything_are_told_at_start(
    opens: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, in the settings that front ends show, and on record; the toolset of a given tool is a known one."""
    caplog.set_level(logging.WARNING, logger="handrail")
    async with opens(config=WRONG, tools=[anything]) as runtime:
        events = (runtime.parts.folder.path / "events.jsonl").read_text().splitlines()
        assert list(runtime.parts.loaded.warnings) == json.loads(events[0])["warnings"] == TOLD
    assert [record.message for record in caplog.records if record.name == "handrail"] == TOLD


def test_sound_settings_say_nothing_at_start_and_load_no_lint(work: Path) -> None:
    """What looks for mistakes is not even imported where there can be none."""
    script = (
        "import asyncio, sys, handrail\n"
        "settings = {'tools': {'enable': ['fs', 'delete_path']}}\n"
        "async def main():\n"
        f"    async with handrail.Runtime.open({str(work)!r}, config=settings) as r:\n"
        "        print(r.parts.loaded.warnings, [name for name in sys.modules if 'lint' in name])\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert (done.stdout, done.stderr) == ("() []\n", "")
