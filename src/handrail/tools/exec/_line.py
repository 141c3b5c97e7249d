"""What a shell line touches, and what its exit code means. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handrail.words import How, Touch, TouchKind

if TYPE_CHECKING:
    from handrail.policy.shell.model import Part

# Variables that cannot make a program run another one or read other files; of a locale the value decides.
PLAIN_VARIABLES = re.compile(
    r"TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR|COLUMNS|LINES|CI|DEBUG|VERBOSE|"
    r"NODE_ENV|RUST_BACKTRACE|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|SOURCE_DATE_EPOCH"
)
_PLAIN_VALUE = re.compile(r"[^/]*")  # a path would name a file to be read, such as a terminal's description
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What says something by exit code 1 and has not failed.
_ANSWERS_BY_CODE = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "diff", "cmp", "test", "[", "[["})
_HARMLESS_TARGETS = re.compile(r"/dev/(?:null|zero|full|stdin|stdout|stderr|tty|fd/[0-9]+)|/dev/u?random")


def touches_of_line(args: Mapping[str, Any]) -> Sequence[Touch]:
    """Every command in the line, where it writes and reads, and what in the call makes it doubtful."""
    from handrail.policy.shell import files, read_line

    line, cwd = args["command"], args["cwd"]
    how = How.BACKGROUND if args.get("background") else How.PLAIN
    reading = read_line(line)
    replaced = [path for path in reading.writes if path not in reading.folders]
    return (
        Touch(TouchKind.FS_READ, cwd),
        *(
            Touch(TouchKind.PROC_EXEC, part.text, how=how, words=part.words, doubt=_doubt(part, cwd))
            for part in reading.parts
        ),
        *(replace(touch, how=how) for touch in _doubts(line, reading.doubt, args.get("env") or {}, reading.parts)),
        *(
            Touch(TouchKind.FS_WRITE, path, how=how, private=files.is_private(path))
            for how, paths in ((How.REPLACE, replaced), (How.MAKE, sorted(reading.folders)))
            for path in _paths(paths, cwd)
        ),
        *(Touch(TouchKind.FS_READ, path, private=files.is_private(path)) for path in _paths(reading.reads, cwd)),
        *(Touch(TouchKind.FS_READ, path, private=path.startswith("/")) for path in _paths(reading.scripts, cwd)),
        *(Touch(TouchKind.GIT_WRITE, what) for what in reading.git_writes),
    )


def _doubt(part: Part, cwd: str) -> str:
    """Return why a command is in doubt; a rule that names a script means the one in the workspace's own folder."""
    from handrail.policy.shell.scripts import file_doubt

    if part.doubt and posixpath.normpath(cwd) != "." and part.doubt == file_doubt(part.words):
        return f"{part.doubt}, in {cwd}"
    return part.doubt


def _doubts(line: str, doubt: str, env: Mapping[str, str], parts: Sequence[Part]) -> Iterator[Touch]:
    risky = sorted(name for name, value in env.items() if not _plain(name, value))
    if risky:
        why = f"env sets {', '.join(risky)}, which can change what the commands do"
        yield Touch(TouchKind.PROC_EXEC, line, doubt=why)
    if doubt or not parts:
        yield Touch(TouchKind.PROC_EXEC, line, doubt=doubt or "the line names no command")


def _plain(name: str, value: str) -> bool:
    """Whether a variable changes what is printed alone; in some locales a shell reads its line in another way."""
    from handrail.policy.shell.variables import changes_programs

    if PLAIN_VARIABLES.fullmatch(name) is None:
        return not changes_programs(name, value)
    return _PLAIN_VALUE.fullmatch(value) is not None or name == "TZ"


def _paths(paths: Iterable[str], cwd: str) -> Iterator[str]:
    for path in dict.fromkeys(paths):
        if path and _HARMLESS_TARGETS.fullmatch(path) is None:
            yield path if path.startswith("/") or cwd == "." else posixpath.join(cwd, path)


def fine_codes(line: str) -> frozenset[int]:
    """The exit codes that are no failure: 0, and 1 where the last command answers by it."""
    from handrail.policy.shell import read_line

    reading, written = read_line(line), line.rstrip(" \t\n;")
    # The longest command that ends the line: what stands in it, as in a substitution, does not end it.
    last = max((part for part in reading.parts if written.endswith(part.text)), key=_length, default=None)
    name = posixpath.basename(last.words[0]) if last is not None and last.words and not reading.doubt else ""
    return frozenset({0, 1}) if name in _ANSWERS_BY_CODE else frozenset({0})


def _length(part: Part) -> int:
    return len(part.text)


def is_name(name: str) -> bool:
    """Whether a shell could have a variable of this name."""
    return _NAME.fullmatch(name) is not None
