"""The file `packed-refs` of a git repository, compared before and after a program. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = b"# pack-refs with: peeled fully-peeled sorted "  # as git writes it
_LINE = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64}) (refs/[^ \n]+)")
_PEELED = re.compile(rb"\^(?:[0-9a-f]{40}|[0-9a-f]{64})")
_BRANCHES = (b"refs/heads/", b"refs/tags/")
_STASH = b"refs/stash"


class _Packed(NamedTuple):
    header: bytes
    names: list[bytes]
    others: list[bytes]  # lines that are not about branches, tags and the stash


def changes_branches_only(before: bytes, after: bytes) -> bool:
    """Say whether nothing but branches, tags and the stash differ, and git reads the new file as it is written.

    A second line of one name, or a file that is not sorted though it says so, would show git another value.
    """
    former = _parse(before)
    now = _parse(after)
    if former is None or now is None or former.others != now.others:
        return False
    return now.header in (b"", _HEADER, former.header) and all(
        first < second for first, second in zip(now.names, now.names[1:], strict=False)
    )


def _parse(data: bytes) -> _Packed | None:
    """Take a file apart; None where a line is not understood."""
    found = _Packed(b"", [], [])
    if not data:
        return found
    lines = data.split(b"\n")
    if lines.pop():
        return None  # the last line has no end
    if lines and lines[0].startswith(b"#"):
        found = _Packed(lines.pop(0), [], [])
    for line in lines:
        named = _LINE.fullmatch(line)
        if named is not None:
            found.names.append(named[1])
        elif not found.names or _PEELED.fullmatch(line) is None:
            return None
        if not _is_branch(found.names[-1]):
            found.others.append(line)
    return found


def _is_branch(name: bytes) -> bool:
    return name.startswith(_BRANCHES) or name == _STASH
