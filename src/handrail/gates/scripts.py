"""Which files a command line would run: an approval of the line is one of their contents, too. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from handrail.words import Place, Touch, TouchKind

MOST_FILES = 64  # that are hashed; of others, as of large ones, size and dates count
MOST_BYTES = 8 * 1024 * 1024
_ENDINGS = (
    ".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".awk", ".sed", ".mk",
)  # fmt: skip
_READERS = re.compile(r"(?:ba|da|z|k|)sh|source|\.|python[0-9.]*|node|deno|bun|ruby|perl|php|lua|[gmn]?awk")
_SCRIPTED = frozenset({"sed", "gsed", "awk", "gawk", "mawk", "nawk", "make", "gmake", "just"})
_MOST_FOLDERS = 8
_PACKAGE = ("package.json",)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_UNNAMED = {  # what a command runs from the folder it stands in without being told
    "make": _MAKEFILES,
    "gmake": _MAKEFILES,
    "just": ("justfile", "Justfile"),
    "npm": _PACKAGE,
    "pnpm": _PACKAGE,
    "yarn": _PACKAGE,
    "bun": _PACKAGE,
}


def run_by(touches: Sequence[Touch]) -> list[str]:
    """Paths that may be files which the commands run, as the call would name them."""
    commands = [touch.words for touch in touches if touch.kind is TouchKind.PROC_EXEC and touch.skill is None]
    read = [touch.target for touch in touches if touch.kind is TouchKind.FS_READ]
    folders = {read[0] if read else ".": None}
    for words in commands:
        if len(words) == 2 and words[0] == "cd" and len(folders) < _MOST_FOLDERS:
            folders |= dict.fromkeys(posixpath.join(folder, words[1]) for folder in list(folders))
    named = dict.fromkeys(name for words in commands for name in _names(words))
    found = [posixpath.join(folder, name) for name in named for folder in folders]
    if any(map(_takes_input, commands)):
        found += read[1:]  # a file that is redirected to an interpreter is run
    return list(dict.fromkeys(found))


def _names(words: Sequence[str]) -> Iterator[str]:
    if not words:
        return
    name = posixpath.basename(words[0])
    if "/" in words[0]:
        yield words[0]
    reads = _READERS.fullmatch(name) is not None
    for word in words[1:]:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value and ((reads and value == word) or value.endswith(_ENDINGS)):
            yield value
    if reads:
        yield from _of_modules(name, words)
    yield from _by_options(name, words)
    yield from _UNNAMED.get(name, ())


def _of_modules(name: str, words: Sequence[str]) -> Iterator[str]:
    """Name the files that an interpreter runs for a module or a folder."""
    first = next((word for word in words[1:] if not word.startswith("-")), "")
    if name.startswith("python") and first:
        path = first.replace(".", "/") if "-m" in words else first
        yield from (f"{path}.py", f"{path}/__init__.py", f"{path}/__main__.py")
    elif name in ("node", "deno", "bun") and first:
        yield from (f"{first}{ending}" for ending in (".js", ".mjs", ".cjs", ".ts", "/index.js", "/package.json"))


def _by_options(name: str, words: Sequence[str]) -> Iterator[str]:
    """Name the files that a command runs because an option names them, or the folder that they are in."""
    unnamed = _UNNAMED.get(name, ())
    for word, following in pairwise([*words[1:], ""]):
        option, equals, value = word.partition("=")
        value = value if equals else following
        if name in _SCRIPTED and option in ("-f", "--file", "--justfile", "--makefile"):
            yield value
        elif unnamed and option in ("-C", "--directory", "--prefix", "--dir", "--cwd", "-d", "--working-directory"):
            yield from (posixpath.join(value, item) for item in unnamed)


def _takes_input(words: Sequence[str]) -> bool:
    """Say whether a command is an interpreter that is given no file: it runs its input."""
    operands = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    return bool(words) and _READERS.fullmatch(posixpath.basename(words[0])) is not None and operands in ([], ["-"])


def mark(place: Place) -> str:
    """What counts of a file that is not hashed."""
    return f"{place.size}:{place.mtime_ns}:{place.inode}"
