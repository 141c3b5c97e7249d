"""What the names in `allowed-tools` mean here: ours, and those of other programs that read skills. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from handrail import dialects
from handrail.policy.skills import GOVERNED

# Each foreign name stands for the tools of ours that do what it does; a pattern behind it (`Bash(git:*)`) narrows a
# permission that skills never give here, so the name alone counts.
CLAUDE_CODE: Mapping[str, tuple[str, ...]] = {
    "Read": ("read_file", "stat_path", "hash_file"),
    "Write": ("write_file", "make_dir"),
    "Edit": ("edit_file", "apply_patch"),
    "MultiEdit": ("edit_file", "apply_patch"),
    "Bash": ("run_command", "run_script", "job_list", "job_read", "job_input", "job_stop"),
    "BashOutput": ("job_list", "job_read"),
    "KillShell": ("job_stop",),
    "KillBash": ("job_stop",),
    "Grep": ("grep",),
    "Glob": ("find_files",),
    "LS": ("list_dir",),
    "WebFetch": ("http_fetch",),
    "Skill": ("list_skills", "load_skill"),
}
DIALECTS: tuple[Mapping[str, tuple[str, ...]], ...] = (CLAUDE_CODE,)


def our_tools(written: Iterable[str], ours: Iterable[str]) -> frozenset[str]:
    """The tools of ours that these names stand for.

    An unknown name stands for none; where an agent brings tools of its own, it may be the name of one, and is kept.
    """
    known = frozenset(ours)
    names = {plain_name(text) for text in written}
    meant = {name: _meant(name, known) for name in names if name}
    own = {name for name, tools in meant.items() if not tools} if GOVERNED in known else set()
    return frozenset(own.union(*meant.values()))


def unknown_names(written: Iterable[str], ours: Iterable[str]) -> tuple[str, ...]:
    """The names that stand for nothing here."""
    known = frozenset(ours)
    return tuple(text for text in written if not _meant(plain_name(text), known))


def plain_name(text: str) -> str:
    """The name without the pattern behind it."""
    return text.partition("(")[0].strip()


def _meant(name: str, known: frozenset[str]) -> tuple[str, ...]:
    if name in known:
        return (name,)
    return tuple(tool for dialect in (*DIALECTS, _spoken()) for tool in dialect.get(name, ()) if tool in known)


@cache
def _spoken() -> Mapping[str, tuple[str, ...]]:
    """The names of every dialect."""
    found: dict[str, tuple[str, ...]] = {}
    for dialect in map(dialects.get, dialects.names()):
        for name, word in (*dialect.words.items(), *((old, dialect.words[now]) for old, now in dialect.former.items())):
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), word.ours)))
    return found
