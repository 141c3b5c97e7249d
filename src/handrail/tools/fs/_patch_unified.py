"""Read unified diffs, plain ones and git's. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from handrail.tools.fs._patch import FilePatch, Hunk, check_path, refuse, trimmed

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_NOWHERE = "/dev/null"
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_REFUSED = {
    "copy from ": "copies are not taken; add the file by its content",
    "GIT binary patch": "binary patches are not taken",
    "Binary files ": "binary patches are not taken",
}


@dataclass(slots=True)
class _Section:
    """What the headers of one file say."""

    at: int
    git: tuple[str, str] | None = None
    old: str | None = None
    new: str | None = None
    renamed: list[str] = field(default_factory=list)  # from, to
    added: bool = False
    deleted: bool = False
    moded: bool = False
    hunks: list[Hunk] = field(default_factory=list)


def parse_unified(lines: list[str], start: int) -> list[FilePatch]:
    """Read all files of a diff; text before the first header (a commit message) is passed over."""
    sections: list[_Section] = []
    at = start
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            sections.append(_Section(at + 1, _git_paths(line, at + 1)))
        elif _is_header(lines, at):
            if not sections or sections[-1].old is not None or sections[-1].hunks:
                sections.append(_Section(at + 1))
            sections[-1].old, sections[-1].new = _path(line, at + 1), _path(lines[at + 1], at + 2)
            at += 1
        elif line.startswith("@@ -"):
            if not sections or (sections[-1].old is None and sections[-1].git is None):
                refuse(at + 1, "a hunk without a file; `--- path` and `+++ path` come first")
            hunk, at = _hunk(lines, at)
            sections[-1].hunks.append(hunk)
            continue
        elif sections:
            _extended(sections[-1], line, at + 1)
        at += 1
    if not sections:
        refuse(start + 1, "neither a unified diff (`--- path`, `+++ path`) nor `*** Begin Patch`")
    return [_file(section) for section in sections]


def _extended(section: _Section, line: str, at: int) -> None:
    """Take a line between git's header and the hunks."""
    for text, why in _REFUSED.items():
        if line.startswith(text):
            refuse(at, why)
    if line.startswith(("rename from ", "rename to ")):
        section.renamed.append(check_path(_unquoted(line.split(" ", 2)[2].rstrip("\r")), at))
    section.added |= line.startswith("new file mode")
    section.deleted |= line.startswith("deleted file mode")
    section.moded |= line.startswith(("old mode", "new mode"))
    if section.hunks and line[:1] in ("+", "-", " "):
        refuse(at, "this line belongs to no hunk; a hunk starts with `@@ -line,count +line,count @@`")


def _is_header(lines: list[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _file(section: _Section) -> FilePatch:
    old, new = _names(section)
    if len(section.renamed) == 2:
        old, new = section.renamed
    if section.added or old == _NOWHERE:
        hunks = section.hunks
        if len(hunks) > 1 or any(sign != "+" for hunk in hunks for sign, _ in hunk.lines):
            refuse(section.at, "a new file has nothing but added lines")
        return FilePatch("add", check_path(new, section.at), section.at, content=_content(hunks))
    if section.deleted or new == _NOWHERE:
        return FilePatch("delete", check_path(old, section.at), section.at, hunks=tuple(section.hunks))
    if not section.hunks and old == new:
        refuse(section.at, "a change of mode alone is not taken" if section.moded else f"nothing changes in {old}")
    return FilePatch(
        "update", check_path(old, section.at), section.at, new if new != old else None, tuple(section.hunks)
    )


def _names(section: _Section) -> tuple[str, str]:
    if section.old is not None and section.new is not None:
        return _stripped(section.old, section.new)
    if section.git is None:
        refuse(section.at, "the path is missing")
    return _stripped(*section.git)


def _stripped(old: str, new: str) -> tuple[str, str]:
    """Take git's a/ and b/ off, where both sides have theirs."""
    if (old == _NOWHERE or old.startswith("a/")) and (new == _NOWHERE or new.startswith("b/")):
        return old if old == _NOWHERE else old[2:], new if new == _NOWHERE else new[2:]
    return old, new


def _content(hunks: list[Hunk]) -> str:
    text = "".join(f"{line}\n" for hunk in hunks for line in hunk.new)
    return text[:-1] if any(hunk.bare_new for hunk in hunks) else text


# ── names ────────────────────────────────────────────────────────────────────────────────────


def _git_paths(line: str, at: int) -> tuple[str, str]:
    rest = line[len("diff --git ") :].rstrip("\r")
    if rest.startswith('"'):
        one, _, other = rest.partition('" ')
        return _unquoted(f'{one}"'), _unquoted(other)
    # Both names are the same but for a/ and b/ unless it is a rename, which names them again.
    middle = len(rest) // 2
    if rest[middle : middle + 1] == " " and rest[2:middle] == rest[middle + 3 :]:
        return rest[:middle], rest[middle + 1 :]
    one, found, other = rest.partition(" b/")
    if not found:
        refuse(at, "cannot tell the two paths apart")
    return one, f"b/{other}"


def _path(line: str, at: int) -> str:
    """The path of a `---` or `+++` line, without the date that may follow."""
    return check_path(_unquoted(line[4:].split("\t", 1)[0].rstrip("\r")), at)


def _unquoted(path: str) -> str:
    """Read a path as git writes one with unusual characters."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path
    raw = _ESCAPE.sub(_escaped, path[1:-1].encode())
    return raw.decode("utf-8", "surrogateescape")


def _escaped(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPES.get(code, code)


# ── hunks ────────────────────────────────────────────────────────────────────────────────────


def _hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    """Read one hunk; its counts tell where it ends, and where they are wrong its lines do."""
    head = _HUNK.match(lines[at])
    if head is None:
        refuse(at + 1, "a hunk starts with `@@ -line,count +line,count @@`")
    start, first = int(head[1]), at + 1
    left_old, left_new = (1 if head[i] is None else int(head[i]) for i in (2, 4))
    body: list[tuple[str, str]] = []
    bare = {"-": False, "+": False}
    at += 1
    while at < len(lines) and not _ends(lines, at, left_old, left_new):
        line = lines[at]
        if line.startswith("\\"):
            sign = body[-1][0] if body else " "
            bare = {side: bare[side] or sign in (side, " ", "") for side in bare}
        else:
            sign, text = line[:1], line[1:]
            left_old -= sign != "+"
            left_new -= sign != "-"
            body.append((sign or (" " if left_old >= 0 and left_new >= 0 else ""), text))
        at += 1
    kept = trimmed(body)
    if not any(sign != " " for sign, _ in kept):
        refuse(first, "this hunk changes nothing")
    hint = start if any(sign != "+" for sign, _ in kept) else None
    anchors = (head[5].strip(),) if head[5].strip() else ()
    return Hunk(kept, first, hint, anchors, False, bare["-"], bare["+"], any(bare.values())), at


def _ends(lines: list[str], at: int, left_old: int, left_new: int) -> bool:
    line = lines[at]
    if line.startswith("\\"):
        return False
    if line and line[0] not in " +-":
        return True
    if not line:
        return (left_old <= 0 or left_new <= 0) and not _more_body(lines, at)
    if line == "-- " and left_old <= 0:
        return True  # the signature below a mailed patch
    # `--- a` over `+++ b` over a hunk is the next file, unless exactly these two lines are still due here.
    return (
        _is_header(lines, at)
        and lines[at + 2 : at + 3] != []
        and lines[at + 2].startswith("@@ -")
        and (
            left_old,
            left_new,
        )
        != (1, 1)
    )


def _more_body(lines: list[str], at: int) -> bool:
    while at < len(lines) and not lines[at]:
        at += 1
    return at < len(lines) and lines[at][0] in " +-" and not _is_header(lines, at)
