"""What a search is asked and what it answers: plain data between the search tools and whoever searches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Which files to list; paths are relative to the place searched."""

    fits: re.Pattern[str] | None = None  # decides by the whole path
    name_glob: str = ""  # a glob for the last name that everything `fits` takes must fit; saves walking output
    hidden: bool = False
    respect_ignore: bool = True
    depth: int | None = None
    sort: str = "path"  # path | mtime | size; the last two newest and largest first
    folders: bool = False  # folders instead of files
    both: bool = False  # with `folders`: files and folders, empty folders as well
    after: str = ""  # the path after which to go on, with `sort` "path"
    skip: int = 0  # how many to pass over, with another `sort`
    limit: int = 1000
    timeout_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class FilesFound:
    """Paths in order, whether more follow, and how many there are where that is known."""

    paths: list[str]
    more: bool = False
    total: int | None = None
    ignored: int | None = None  # kept back by ignore rules, where it was worth counting


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What to search for in files; paths are relative to the place searched."""

    pattern: str
    mode: str = "content"  # content | files | count
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    type: str | None = None  # as ripgrep names it
    fits: re.Pattern[str] | None = None
    name_glob: str = ""
    hidden: bool = False
    limit: int = 100  # matching lines, or files where the mode is not content
    per_file: int | None = None
    max_files: int | None = None
    after: tuple[str, int] | None = None  # path and line after which to go on
    max_chars: int = 500  # of one line
    timeout_seconds: float = 20.0


class Hit(NamedTuple):
    """One line of a file: a match, or context around one."""

    path: str
    line: int
    text: str
    is_match: bool = True
    column: int = 0  # where a cut line's shown part begins, in bytes from 1; 0: the line is whole
    before: str = ""  # what stands around it, where that could make it part of a secret
    after: str = ""


@dataclass(frozen=True, slots=True)
class TextFound:
    """Matches in order of path and line, and what is to be said beside them."""

    hits: list[Hit]  # mode content
    counts: list[tuple[str, int]]  # path and matching lines; the other modes
    more: bool = False
    binary: int = 0  # files that turned out binary after a match: not shown
    unreadable: int = 0
    left_out: bool = False  # large files were not searched, because one holds a line too long
    changed: int = 0  # lines that were not there any more when they were read again
