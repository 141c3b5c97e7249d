"""What make does by its arguments, beyond the goals of the makefile at hand: other files, other programs, code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from handrail.policy.shell.elsewhere import is_elsewhere
from handrail.policy.shell.git import shortened
from handrail.policy.shell.variables import changes_shell

NAMES = frozenset({"make", "gmake", "gnumake", "bmake", "pmake", "remake", "colormake", "mingw32-make"})
_PLACES = ("--file", "--makefile", "--directory", "--include-dir")
_SETS = re.compile(r"(?s)\s*([^\s:=+?!]+)\s*(:{0,3}|[+?!])=(.*)")
# Programs that rules of make itself start by a variable; variables.py has more that programs give a meaning.
_STARTS = re.compile("AR|AS|CC|CO|CPP|CXX|CTANGLE|CWEAVE|FC|GET|LD|LEX|LINT|M2C|PC|RM|TANGLE|TEX|WEAVE|YACC")
# What its rules hand to compiler and linker, which load code by option.
_OPTIONS = re.compile(r"\w*FLAGS|LDLIBS|LOADLIBES|TARGET_ARCH|TARGET_MACH|OUTPUT_OPTION|\.LIBPATTERNS")
_MEANT = re.compile(r"[$`;|&<>()'\"\\\n]")  # make expands words, and puts them into lines for a shell


def runs_programs(texts: Sequence[str]) -> str:
    """Why make may run what no makefile at hand says; empty where it does not."""
    for text, following in pairwise([*texts[1:], ""]):
        if shortened(text, ("--eval",)) or (_letter(text) or "")[:1] == "E":
            return f"make {text} takes code"
        if (place := _place(text, following)) is not None and is_elsewhere(place):
            return f"make {text} takes a makefile from elsewhere"
        if _MEANT.search(text):
            return f"make or its shell may read {text} as code"
        if not text.startswith("-") and (found := _SETS.match(text)) and _is_code(*found.groups()):
            return f"setting {found[1]} may change what make runs"
    return ""


def _letter(text: str) -> str | None:
    """The first letter in a cluster that takes a value of its own, with what follows it there."""
    found = re.match(r"-[^-CEfIoWjlO]*([CEfIoWjlO].*)", text, re.DOTALL)
    return None if found is None else found[1]


def _place(text: str, following: str) -> str | None:
    """The file or folder that an option names; None where it names none."""
    if shortened(text, _PLACES):
        _, equals, value = text.partition("=")
        return value if equals else following
    given = _letter(text)
    if given is None or given[0] not in "CfI":
        return None
    return given[1:] or following


def _is_code(name: str, sign: str, value: str) -> bool:
    """Whether a variable names a program, or its value is run."""
    starts = _STARTS.fullmatch(name) or _OPTIONS.fullmatch(name)
    return sign == "!" or starts is not None or changes_shell(name, value)
