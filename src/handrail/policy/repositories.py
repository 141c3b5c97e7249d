"""Rules for git's own files: repositories called `.git`, those by another name, and what their configs name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from handrail.policy.patterns import could_protect, folded, literal, machine_path, protects
from handrail.policy.world import Repositories
from handrail.words import Exclusion, Touch

# Written by an agent, these make git run programs for the next person who uses the repository; `commondir` and
# `gitdir` send git to another folder for its hooks and config.
DECIDING = ("hooks", "config", "config.worktree", "commondir", "gitdir")
# Where a repository has them: its own, those of submodules, of worktrees, and of submodules in worktrees. Below `refs`
# and `logs` the same names are branches.
_DECIDING_BELOW = tuple(
    f"{folder}{name}" for folder in ("", "modules/**/", "worktrees/*/", "worktrees/*/modules/**/") for name in DECIDING
)
PATTERNS = tuple(f".git/{path}" for path in _DECIDING_BELOW)
NAMED = "builtin.repository-named"  # the rule for what an existing config names: in effect as soon as it exists
_BESIDE_HEAD = ("objects", "refs", "commondir")
_ASKED = (".git", "HEAD")

# Keys of a config that make git run a program, or fetch what it does not have, while it shows what it holds.
_RUNS = re.compile(
    r"""(?x) filter\..+\.(?:clean|smudge|process) | diff\.(?:.+\.)?(?:command|textconv|external)
    | gpg\.(?:.+\.)?(?:program|defaultkeycommand) | core\.(?:pager|alternaterefscommand|virtualfilesystem) | pager\..+
    | remote\..+\.(?:promisor|uploadpack|vcs|partialclonefilter) | extensions\.partialclone | merge\..+\.driver
    | log\.(?:showsignature|diffmerges)"""
)
_FORMATS = re.compile(r"format\.pretty|pretty\..+|branch\.sort")
_CHECKS = re.compile(r"%[-+ ]?G|signature")  # parts of a format or an order for which git runs gpg
# The first is run when `git status` has brought the index up to date, the others by git of some vendors.
READING_HOOKS = ("post-index-change", "pre-command", "post-command", "virtual-filesystem")


# Keys whose value is a command that git runs, now or later.
_COMMANDS = re.compile(
    r"""(?x) core\.(?:fsmonitor|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand|virtualfilesystem)
    | sequence\.editor | pager\..+ | diff\.(?:.+\.)?(?:external|command|textconv) | filter\..+\.(?:clean|smudge|process)
    | merge\..+\.driver | (?:merge|diff|gui)tool\..+\.(?:cmd|path) | gpg\.(?:.+\.)?(?:program|defaultkeycommand)
    | credential\.(?:.+\.)?helper | alias\..+ | interactive\.difffilter | trailer\..+\.(?:command|cmd)
    | remote\..+\.(?:uploadpack|receivepack) | uploadpack\.packobjectshook | submodule\..+\.update | hook\..+\.command
    | sendemail\.(?:.+\.)?\w*cmd"""
)
_RUNS_A_FILE = frozenset(
    (
        *("bash", "sh", "dash", "zsh", "ksh", "source", ".", "env", "exec"),
        *("python", "python3", "node", "deno", "bun", "ruby", "perl", "php"),
    )
)
_RUNS_NO_FILE = frozenset(("-c", "-e", "-m", "--eval"))
_ASSIGNS = re.compile(r"\w+=.*", re.DOTALL)


def program_of(key: str, value: str) -> str:
    """Name the file that a setting makes git run; empty: none, or a program that is found by its name."""
    if _COMMANDS.fullmatch(key) is None or (key.startswith("alias.") and not value.startswith("!")):
        return ""
    runs_a_file = False
    for word in (word.strip("\"'") for word in value.removeprefix("!").split()):
        if word in _RUNS_NO_FILE:
            return ""
        if word in _RUNS_A_FILE:
            runs_a_file = True
        elif not word.startswith("-") and _ASSIGNS.fullmatch(word) is None:
            return word if runs_a_file or "/" in word else ""
    return ""


def runs_while_reading(key: str, value: str) -> bool:
    """Whether a setting of a repository makes git run a program while it shows what the repository holds."""
    if _RUNS.fullmatch(key) is not None:
        return True
    return _FORMATS.fullmatch(key) is not None and _CHECKS.search(value) is not None


def denial(absolute: str, known: Repositories, *, plain: bool = False) -> str:
    """Explain why no tool may change a path; empty where it may.

    `plain`: it is part of a repository that is new as a whole and whose config and hooks run no programs.
    """
    name = absolute.rpartition("/")[2].casefold()
    if not plain and protects(PATTERNS, absolute):
        return "decides which programs git runs"
    if not plain and name == ".git":
        return "is the repository itself"
    if not covering(known)(absolute):
        return ""
    path = f"{absolute.casefold()}/"
    if path.startswith(folded(known.named)):
        return "is named by a git config, so it decides which programs git runs"
    for folder in folded(known.folders):
        if path == folder:
            return "is the repository itself"
        if path.startswith(folder) and _decides(path[len(folder) :].rstrip("/").split("/")):
            return "decides which programs git runs"
    return ""


def _decides(names: list[str]) -> bool:
    """Tell whether a path below a repository's folder is one that decides which programs git runs."""
    inner = names[2:] if names[0] == "worktrees" else names
    if not inner:
        return False
    return inner[0] in DECIDING or (inner[0] == "modules" and not set(inner).isdisjoint(DECIDING))


def question(touch: Touch, known: Repositories) -> str:
    """Explain why a person is asked before a file tool changes something in a repository; empty where nobody is."""
    place = touch.place
    assert place is not None
    if why := _question(place.absolute, known):
        return f"{touch.shown} {why}"
    suspicious = could_protect(_ASKED)
    covered = covering(known)
    for path in touch.below or ():
        absolute = machine_path(place.root, path)
        if (suspicious(absolute) or covered(absolute)) and (why := _question(absolute, known)):
            return f"{place.root.shown(path)} {why}"
    return ""


def _question(absolute: str, known: Repositories) -> str:
    path = f"{absolute.casefold()}/"
    if "/.git/" in path or (path.startswith(folded(known.folders)) and not path.startswith(folded(known.trees))):
        return "belongs to a git repository's own records"
    if path.endswith("/head/"):
        return "would make git take its folder for a repository once `objects` and `refs` are beside it"
    if any(path.startswith(_beside(folder)) for folder in folded(known.heads)):
        return "would make git take the folder above for a repository: it holds a file HEAD already"
    if path.startswith(folded(known.unread)):
        return "lies in a working tree whose git config could not be read, so it may be a hook"
    return ""


def _beside(folder: str) -> tuple[str, ...]:
    return tuple(f"{folder}{name}/" for name in _BESIDE_HEAD)


def locks(known: Repositories) -> Iterator[Exclusion]:
    """List what programs may see and not change, beyond the names below `.git`."""
    for path in known.named:
        yield Exclusion(f"/{literal(path)}", NAMED, any_case=False)
    for folder in known.folders:
        for path in _DECIDING_BELOW:
            yield Exclusion(f"/{literal(folder)}/{path}", "builtin.repository", any_case=False)


def covering(known: Repositories) -> Callable[[str], bool]:
    """Give a quick look at many paths that never misses one which concerns a known repository."""
    prefixes = _every(known.folders, known.named, known.heads, known.unread)
    if not prefixes:
        return lambda _path: False
    return lambda path: f"{path.casefold()}/".startswith(prefixes)


def _every(*groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for group in groups for path in folded(group))
