"""Which files a command line would run: an approval of the line is one of their contents, too. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from handrail.words import Place, Touch, TouchKind

MOST_FILES = 64  # that are hashed; of others, as of large ones, size and dates count
MOST_BYTES = 8 * 1024 * 1024
_ENDINGS = (
    ".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".awk", ".sed", ".mk",
)  # fmt: skip
_READERS = re.compile(r"(?:ba|da|z|k|)sh|source|\.|python[0-9.]*|node|deno|bun|ruby|perl|php|lua|[gmn]?awk")
_MOST_FOLDERS = 8
_PACKAGE = ("package.json",)
_UNNAMED = {  # what a command runs from the folder it stands in without being told
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile"),
    "npm": _PACKAGE,
    "pnpm": _PACKAGE,
    "yarn": _PACKAGE,
    "bun": _PACKAGE,
}


def run_by(touches: Sequence[Touch]) -> list[str]:
    """Paths that may be files which the commands run, as the call would name them."""
    commands = [touch.words for touch in touches if touch.kind is TouchKind.PROC_EXEC and touch.skill is None]
    here = next((touch.target for touch in touches if touch.kind is TouchKind.FS_READ), ".")
    folders = {here: None}
    for words in commands:
        if len(words) == 2 and words[0] == "cd" and len(folders) < _MOST_FOLDERS:
            folders |= dict.fromkeys(posixpath.join(folder, words[1]) for folder in list(folders))
    named = dict.fromkeys(name for words in commands for name in _names(words))
    return list(dict.fromkeys(posixpath.join(folder, name) for name in named for folder in folders))


def _names(words: Sequence[str]) -> Iterator[str]:
    if not words:
        return
    name = posixpath.basename(words[0])
    if "/" in words[0]:
        yield words[0]
    reads = _READERS.fullmatch(name) is not None
    yield from (word for word in words[1:] if not word.startswith("-") and (reads or word.endswith(_ENDINGS)))
    yield from _UNNAMED.get(name, ())


def mark(place: Place) -> str:
    """What counts of a file that is not hashed."""
    return f"{place.size}:{place.mtime_ns}:{place.inode}"
