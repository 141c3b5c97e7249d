"""Read patches: the `*** Begin Patch` form and unified diffs become the same list of changes to files. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from handrail.errors import Code, Problem


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that change together; each is a sign (blank, - or +) and its text without the newline."""

    lines: tuple[tuple[str, str], ...]
    at: int  # line of the patch
    hint: int | None = None  # line of the file where the old lines should stand, from 1
    anchors: tuple[str, ...] = ()  # lines of the file that stand before it
    at_end: bool = False  # the old lines end the file
    bare_old: bool = False  # the old text ends without a newline
    bare_new: bool = False
    says_end: bool = False  # the patch says anything about the end of the file
    appends: bool = False  # only added lines, and nothing says where: they go to the end

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there afterwards."""
        return [text for sign, text in self.lines if sign != "-"]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file."""

    operation: Literal["add", "delete", "update"]
    path: str
    at: int  # line of the patch
    target: str | None = None  # where an update moves the file to
    hunks: tuple[Hunk, ...] = ()
    content: str = ""  # of an added file


def parse_patch(patch: str) -> list[FilePatch]:
    """Read a patch; INVALID_ARGS with the line where it cannot be read."""
    lines = patch.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]
    start = next((index for index, line in enumerate(lines) if line.strip()), None)
    if start is None:
        refuse(1, "the patch is empty")
    if lines[start].strip().startswith("*** "):
        from handrail.tools.fs._patch_marked import parse_marked as parse
    else:
        from handrail.tools.fs._patch_unified import parse_unified as parse
    return _merged(parse(lines, start))


def refuse(line: int, why: str) -> NoReturn:
    """Say where a patch cannot be read."""
    raise Problem(Code.INVALID_ARGS, f"Line {line} of the patch: {why}.", line=line)


def check_path(path: str, line: int) -> str:
    """Take the path of a header; INVALID_ARGS for an empty one."""
    if not path.strip():
        refuse(line, "the path is missing")
    return path


def trimmed(lines: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Leave out empty lines at the end of a hunk that carry no sign: they are the writer's, not the file's."""
    end = len(lines)
    while end and lines[end - 1] == ("", ""):
        end -= 1
    return tuple((sign or " ", text) for sign, text in lines[:end])


def _merged(patches: list[FilePatch]) -> list[FilePatch]:
    """Join sections that update the same file; refuse other doubles."""
    merged: dict[str, FilePatch] = {}
    for item in patches:
        known = merged.get(item.path)
        if known is None:
            merged[item.path] = item
        elif known.operation == item.operation == "update" and item.target in (None, known.target):
            merged[item.path] = replace(known, hunks=known.hunks + item.hunks)
        else:
            refuse(item.at, f"{item.path} is changed twice, first at line {known.at}; make one change of them")
    for item in merged.values():
        if item.target is not None and item.target in merged:
            refuse(item.at, f"{item.target} is both the target of a move and changed by itself")
    targets = [item.target for item in merged.values() if item.target is not None]
    if len(targets) != len(set(targets)):
        refuse(1, "two files are moved to the same path")
    return list(merged.values())
