"""Options that lead a program to a folder or file of its own: the code that it runs is what stands there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from handrail.policy.shell.git import shortened


class Leads(NamedTuple):
    """How a program is led: by letters (after others that take no value, in one word), and by names."""

    letters: str = ""
    names: tuple[str, ...] = ()
    before: str = ""  # letters of options without a value
    any_dashes: bool = False  # -name and ---name are --name too
    operand: bool = False  # the first word that is no option may be a folder


_GRADLE = ("--build-file", "--settings-file", "--init-script", "--project-dir", "--include-build")
_LEADS = {
    name: leads
    for names, leads in (
        ("npm pnpm", Leads("C", ("--prefix", "--dir"), before="A-Za-z", any_dashes=True)),
        ("yarn yarnpkg", Leads("", ("--cwd",), operand=True)),
        ("bun", Leads("cr", ("--cwd", "--config", "--import", "--preload", "--require"))),
        ("just", Leads("df", ("--working-directory", "--justfile"), before="ehlnqsuvVy", operand=True)),
        ("cargo", Leads("C", ("--manifest-path",), before="hqvV")),
        ("go", Leads("C", ("--modfile", "--overlay"), any_dashes=True)),
        ("rake", Leads("CfI", ("--rakefile", "--libdir", "--directory"), before="AGhmnNPqstvVwxX")),
        ("cmake", Leads("SB", ("--build", "--install", "--toolchain"))),
        ("ninja", Leads("Cf", before="hnv")),
        ("meson", Leads("C", before="hqv")),
        ("uv", Leads("", ("--directory", "--project"))),
        ("poetry", Leads("CP", ("--directory", "--project"), before="hnqvV")),
        ("composer", Leads("d", ("--working-dir",), before="hnqvV")),
        ("mvn mvnw", Leads("f", ("--file",), any_dashes=True)),
        ("gradle gradlew", Leads("bcIp", _GRADLE, before="adhimqsStvw")),
        ("ant", Leads("f", ("--file", "--buildfile"), any_dashes=True)),
        ("task", Leads("dt", ("--dir", "--taskfile"), before="abfhlnpsvwxy")),
    )
    for name in names.split()
}


def is_elsewhere(path: str) -> bool:
    """Whether a path may lead out of the folder at hand; a file that comes through the input does."""
    return path in ("", "-") or path.startswith(("/", "~")) or ".." in path.split("/")


def looks_around(name: str) -> bool:
    """Whether a program runs what stands in the folder that it is started in."""
    return name in _LEADS


def leads_out(name: str, texts: Sequence[str]) -> str:
    """Why a program may run what stands in another folder; empty where it does not."""
    leads = _LEADS.get(name)
    if leads is None:
        return ""
    words = list(texts[1:])
    if "--" in words:
        del words[words.index("--") :]  # what follows is for the code that is run
    for text, following in pairwise([*words, ""]):
        if (place := _place(text, following, leads)) is not None and is_elsewhere(place):
            return f"{name} {text} takes code from elsewhere"
    first = next((word for word in words if not word.startswith("-")), "")
    if leads.operand and "/" in first and is_elsewhere(first):
        return f"{name} {first} takes code from elsewhere"
    return ""


def _place(text: str, following: str, leads: Leads) -> str | None:
    """The file or folder that an option names; None where it names none."""
    if not text.startswith("-"):
        return None
    if shortened(two_dashes(text) if leads.any_dashes else text, leads.names):
        _, equals, value = text.partition("=")
        return value if equals else following
    if not leads.letters:
        return None
    dashes, before = "-+" if leads.any_dashes else "-", f"[{leads.before}]*" if leads.before else ""
    found = re.fullmatch(f"{dashes}{before}[{leads.letters}]=?(.*)", text, re.DOTALL)
    return None if found is None else found[1] or following


def two_dashes(text: str) -> str:
    """An option as programs read it that count no dashes; single letters stay as they are."""
    name = text.lstrip("-")
    return f"--{name}" if text.startswith("-") and len(name.partition("=")[0]) > 2 else text
