"""Read the `*** Begin Patch` form. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from handrail.tools.fs._patch import FilePatch, Hunk, check_path, refuse, trimmed

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
_HEADS = (_ADD, _DELETE, _UPDATE, _END)
_MOVE, _EOF = "*** Move to:", "*** End of File"
_NUMBERS = re.compile(r"-(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@(.*)")


@dataclass(slots=True)
class _Reader:
    """A walk over the lines of a patch."""

    lines: list[str]
    at: int
    found: list[FilePatch] = field(default_factory=list)

    @property
    def here(self) -> str:
        return self.lines[self.at]

    def more(self) -> bool:
        """Whether the section goes on."""
        return self.at < len(self.lines) and not self.here.startswith(_HEADS)

    def more_plain(self) -> bool:
        """Whether a section without context lines goes on; blanks before the next header do not matter there."""
        return self.at < len(self.lines) and not self.here.strip().startswith(_HEADS)


def parse_marked(lines: list[str], start: int) -> list[FilePatch]:
    """Read all sections; a missing begin or end line is forgiven."""
    last = max(index for index, line in enumerate(lines) if line.strip())
    if lines[last].strip() == _END:
        lines = [*lines[:last], _END, *lines[last + 1 :]]  # blanks around it are the writer's
    reader = _Reader(lines, start + (lines[start].strip() == _BEGIN))
    while reader.at < len(lines):
        line = reader.here.strip()
        if line == _END:
            break
        if not line:
            reader.at += 1
            continue
        reader.found.append(_section(reader))
    left = [index for index in range(reader.at + 1, len(lines)) if lines[index].strip()]
    if left:
        refuse(left[0] + 1, f"something follows `{_END}`")
    if not reader.found:
        refuse(start + 1, f"no file is changed; a section starts with `{_UPDATE} path`")
    return reader.found


def _section(reader: _Reader) -> FilePatch:
    line, at = reader.here.strip(), reader.at + 1
    reader.at += 1
    head = next((head for head in (_ADD, _DELETE, _UPDATE) if line.startswith(head)), None)
    if head is None:
        refuse(at, f"expected `{_ADD}`, `{_DELETE}` or `{_UPDATE}`, got {line[:80]!r}")
    path = check_path(line[len(head) :].strip(), at)
    if head == _ADD:
        return FilePatch("add", path, at, content=_added(reader))
    return _deleted(reader, path, at) if head == _DELETE else _updated(reader, path, at)


def _added(reader: _Reader) -> str:
    lines = []
    while reader.more_plain():
        if not reader.here.startswith("+"):
            if not reader.here.strip() and not _goes_on(reader):
                reader.at += 1
                continue
            refuse(reader.at + 1, "each line of an added file starts with `+`")
        lines.append(reader.here[1:] + "\n")
        reader.at += 1
    return "".join(lines)


def _goes_on(reader: _Reader) -> bool:
    """Whether a line of an added file follows somewhere before the next section."""
    rest = _Reader(reader.lines, reader.at)
    while rest.more_plain():
        if rest.here.startswith("+"):
            return True
        rest.at += 1
    return False


def _deleted(reader: _Reader, path: str, at: int) -> FilePatch:
    while reader.more_plain():
        if reader.here.strip():
            refuse(reader.at + 1, "a deleted file has no lines")
        reader.at += 1
    return FilePatch("delete", path, at)


def _updated(reader: _Reader, path: str, at: int) -> FilePatch:
    target = None
    if reader.more() and reader.here.startswith(_MOVE):
        target = check_path(reader.here[len(_MOVE) :].strip(), reader.at + 1)
        reader.at += 1
    hunks: list[Hunk] = []
    while reader.more():
        if not reader.here.strip() and not hunks:
            reader.at += 1
            continue
        hunks.append(_hunk(reader))
    if not hunks and target is None:
        refuse(at, f"nothing changes in {path}")
    return FilePatch("update", path, at, target, tuple(hunks))


def _hunk(reader: _Reader) -> Hunk:
    at, hint = reader.at + 1, None
    anchors: list[str] = []
    while reader.more() and reader.here.startswith("@@"):
        text = reader.here[2:].strip()
        if numbers := _NUMBERS.match(text):
            hint, text = int(numbers[1]), numbers[2]
        anchors += [text] if (text := text.removesuffix("@@").strip()) else []
        reader.at += 1
    lines: list[tuple[str, str]] = []
    while reader.more() and not reader.here.startswith("@@"):
        line = reader.here
        reader.at += 1
        if line.rstrip() == _EOF:
            return replace(_made(lines, at, anchors, hint), at_end=True)
        if line and line[0] not in " +-":
            refuse(reader.at, f"a line of a hunk starts with a blank, `+` or `-`, not with {line[:1]!r}")
        lines.append((line[:1], line[1:]))
    return _made(lines, at, anchors, hint)


def _made(lines: list[tuple[str, str]], at: int, anchors: list[str], hint: int | None) -> Hunk:
    kept = trimmed(lines)
    if not any(sign != " " for sign, _ in kept):
        refuse(at, "this hunk changes nothing; lines to add start with `+`, lines to remove with `-`")
    appends = hint is None and not anchors and all(sign == "+" for sign, _ in kept)
    return Hunk(kept, at, hint, tuple(anchors), appends=appends)
