"""ripgrep's arguments for a query. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from handrail.queries import FileQuery, TextQuery
from handrail.words import Exclusion, Place, noun

# No settings, no links, no colours; git's rules alone, and also where there is no repository.
_ALWAYS = (
    "--no-config",
    "--no-follow",
    "--color=never",
    "--no-ignore-messages",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-require-git",
)
_SAFE_GLOB = re.compile(r"/?[\w.*?@+~ -]+(?:/[\w.*?@+~ -]+)*/?")
_PREFILTER = re.compile(r"[\w.*@+~-]+")
_ANY = re.compile(r"[*?]+")


@noun
class Walk:
    """A search below a folder: its arguments, and those that must stand last."""

    argv: list[str]
    tail: tuple[str, ...]

    @property
    def in_order(self) -> list[str]:
        """In the order of paths, which costs ripgrep its threads."""
        return [*self.argv, "--sort=path", *self.tail]

    @property
    def in_any_order(self) -> list[str]:
        """As things are found."""
        return [*self.argv, *self.tail]

    def without_large(self, max_bytes: int) -> Walk:
        """Leave out large files."""
        return Walk([*self.argv, f"--max-filesize={max_bytes}"], self.tail)


def walk_of(place: Place, query: FileQuery | TextQuery, exclusions: Sequence[Exclusion]) -> Walk:
    """Say what to look for below a place; text is only told the files it is in, unless its lines are wanted."""
    where = of_walk(place, query, exclusions)
    if isinstance(query, FileQuery):
        return Walk([*where, *of_names()], ())
    mode = "content" if query.mode == "content" else "files"
    return Walk([*of_text(query, mode), *where], ("--", query.pattern))


def of_walk(place: Place, query: FileQuery | TextQuery, exclusions: Sequence[Exclusion]) -> list[str]:
    """Say where to walk: hidden files, ignore rules, names, and the protecting globs last."""
    argv = [*_ALWAYS]
    ignores, name = True, _ANY.sub("*", query.name_glob)  # ripgrep's `?` is one byte; what fits is looked at again
    if isinstance(query, FileQuery):
        ignores = query.respect_ignore
        if query.depth is not None and not query.folders:
            argv.append(f"--max-depth={query.depth}")
    if query.hidden:
        argv.append("--hidden")
    if not ignores:
        argv.append("--no-ignore")
    if isinstance(query, TextQuery) and query.type is not None:
        argv.append(f"--type={query.type}")
    elif _PREFILTER.fullmatch(name) and name.strip("*"):
        # A type narrows by name without overriding ignore rules, as a glob would.
        argv += [f"--type-add=wanted:{name}", "--type=wanted"]
    if ignores and query.hidden:
        argv.append("--glob=!.git")
    argv += protections(place, exclusions, hidden=query.hidden)
    return argv


def protections(place: Place, exclusions: Sequence[Exclusion], *, hidden: bool) -> Iterator[str]:
    """Keep the walk out of what is excluded; what a glob cannot say exactly is left to the check of each entry.

    A walk that skips hidden names needs no glob for them: each one costs time before the walk begins.
    """
    anywhere: dict[str, list[str]] = {"iglob": [], "glob": []}
    for item in exclusions:
        if item.except_for or (item.root and item.root != place.root.name) or not _SAFE_GLOB.fullmatch(item.pattern):
            continue
        flag, pattern = "iglob" if item.any_case else "glob", item.pattern.rstrip("/")
        if not hidden and "/." in f"/{pattern}":
            continue
        if not pattern.startswith("/"):
            anywhere[flag].append(pattern)
        elif pattern.startswith(f"/{place.path}/" if place.path else "/"):
            yield f"--{flag}=!{pattern[len(place.path) + bool(place.path) :]}"
    for flag, patterns in anywhere.items():
        if patterns:
            yield f"--{flag}=!**/{{{','.join(patterns)}}}"  # one glob of many choices: compiled in half the time


def of_given(query: TextQuery, fds: Sequence[int]) -> list[str]:
    """Say that open files alone are searched, or standard input where there are none."""
    return ["--no-config", "--color=never", "--", query.pattern, *([f"/proc/self/fd/{fd}" for fd in fds] or ["-"])]


def of_names() -> list[str]:
    """Say that names alone are wanted."""
    return ["--files", "--null"]


def of_text(query: TextQuery, mode: str) -> list[str]:
    """Say what to look for; in mode content each line comes with its path, number, column and offset."""
    argv = ["--no-mmap", "--null", "--with-filename", "--no-heading"]
    if mode == "content":
        argv += ["--line-number", "--column", "--byte-offset", "--no-context-separator"]
        argv += [f"--max-columns={query.max_chars}", "--max-columns-preview"]
        if query.context:
            argv.append(f"--context={query.context}")
        if query.per_file is not None:
            argv.append(f"--max-count={query.per_file}")
    else:
        argv.append("--files-with-matches" if mode == "files" else "--count")
    if query.literal:
        argv.append("--fixed-strings")
    if query.ignore_case:
        argv.append("--ignore-case")
    if query.multiline:
        argv.append("--multiline")
    return argv
