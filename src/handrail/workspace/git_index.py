"""The index of a git repository, read from and rewritten as bytes: versions 2, 3 and 4, with SHA-1 or SHA-256 names.

Two flags of an entry make git overlook what is in the folder: assume-unchanged and skip-worktree. They are found here,
and skip-worktree is set and taken out again for files that a program does not see. All else of an index stays as it is.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from handrail.words import noun

_HEADER = struct.Struct(">4sLL")  # signature, version, number of entries
_CHUNK = struct.Struct(">4sL")  # signature and size of an extension
_FLAGS = struct.Struct(">H")
_BEFORE_NAME = 40  # bytes of an entry before the name of its object
_ASSUME = 0x8000
_EXTENDED = 0x4000
_STAGE = 0x3000
_LENGTH = 0x0FFF
_SKIP = 0x4000  # of the extended flags
_KNOWN = 0x6000  # of the extended flags: skip-worktree, intent-to-add
_OFFSETS = (b"EOIE", b"IEOT")  # extensions that name places in the file; git does without them
_REQUIRED = (b"sdir",)  # extensions that git must know and that change nothing here
_CONFLICTS = b"REUC"  # the extension that knows how conflicts were before they were resolved
_SIZE = 36  # where the size of the file stands in an entry; 0: git compares the content
_HASHES = {20: hashlib.sha1, 32: hashlib.sha256}


class UnreadableIndex(ValueError):
    """An index that is malformed, or in a form that is not read here."""


class Entry(NamedTuple):
    """One entry: its path, where it lies in the bytes, and its flags."""

    path: bytes
    start: int
    end: int
    name: int  # where the path begins, or in version 4 what is said of it
    flags: int
    more: int  # the extended flags

    @property
    def is_hidden(self) -> bool:
        """Whether git overlooks the file in the folder."""
        return bool(self.flags & _ASSUME or self.more & _SKIP)


@noun
class Index:
    """An index, taken apart."""

    data: bytes
    version: int
    hashed: int  # bytes of an object's name
    entries: tuple[Entry, ...]
    end: int  # of the entries


def parse_index(data: bytes) -> Index:
    """Take an index apart. UnreadableIndex: it is malformed, split, or needs something unknown."""
    if len(data) < _HEADER.size:
        raise UnreadableIndex("it is too short")
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise UnreadableIndex("it is no index of version 2, 3 or 4")
    why = "its checksum is wrong"
    found: list[Index] = []
    for hashed in _HASHES:
        if not _is_summed(data, hashed):
            continue
        try:
            found.append(_read(data, version, count, hashed))
        except UnreadableIndex as error:
            why = str(error)
        except (struct.error, IndexError):
            why = "it is cut off"
    if len(found) != 1:
        raise UnreadableIndex("it can be read in two ways" if found else why)
    return found[0]


def hidden_entries(data: bytes) -> frozenset[str]:
    """Name the entries that are assume-unchanged or skip-worktree. UnreadableIndex: it cannot be read."""
    return frozenset(os.fsdecode(entry.path) for entry in parse_index(data).entries if entry.is_hidden)


def new_hidden(before: bytes, after: bytes) -> tuple[str, ...]:
    """Name the files that became assume-unchanged or skip-worktree. Empty bytes: there is no index.

    An index that cannot be read might hide every file: then one text in brackets says so.
    """
    if after == before or not after:
        return ()
    try:
        now = hidden_entries(after)
    except UnreadableIndex as error:
        return (f"(every file of the repository: the index cannot be read, {error})",)
    try:
        known = hidden_entries(before) if before else frozenset()
    except UnreadableIndex:
        known = frozenset()
    folders = tuple(path for path in known if path.endswith("/"))  # left out as a whole by a sparse index
    return tuple(sorted(path for path in now - known if not path.startswith(folders)))


def is_refreshed(before: bytes, after: bytes) -> bool:
    """Tell whether two indexes list the same content, and differ in times and other notes on files at most."""
    try:
        return _listed(parse_index(before)) == _listed(parse_index(after))
    except UnreadableIndex:
        return False


def tracked_beneath(data: bytes, paths: Collection[str]) -> tuple[str, ...]:
    """Name the tracked files that are, or lie beneath, some paths. UnreadableIndex: it cannot be read."""
    if not _may_track(data, paths):
        return ()
    is_chosen = _chooser(paths)
    return tuple(dict.fromkeys(os.fsdecode(entry.path) for entry in parse_index(data).entries if is_chosen(entry.path)))


def set_skipped(data: bytes, paths: Collection[str]) -> tuple[bytes, frozenset[str]]:
    """Set skip-worktree for the files that are, or lie beneath, some paths; gives the index and which were set.

    Conflicts of a merge, and files that git overlooks already, stay as they are.
    """
    if not _may_track(data, paths):
        return data, frozenset()
    index = parse_index(data)
    is_chosen = _chooser(paths)
    chosen = [
        entry for entry in index.entries if not entry.is_hidden and not entry.flags & _STAGE and is_chosen(entry.path)
    ]
    if not chosen:
        return data, frozenset()
    changed = _rewrite(index, {entry: entry.more | _SKIP for entry in chosen})
    return changed, frozenset(os.fsdecode(entry.path) for entry in chosen)


def clear_skipped(data: bytes, paths: Collection[str]) -> bytes:
    """Take skip-worktree out of entries again. UnreadableIndex: it cannot be read."""
    index = parse_index(data)
    names = {os.fsencode(path) for path in paths}
    chosen = {entry: entry.more & ~_SKIP for entry in index.entries if entry.more & _SKIP and entry.path in names}
    return _rewrite(index, chosen) if chosen else data


def without_notes(before: bytes, after: bytes) -> bytes:
    """Take out of an index what it remembers of files and folders, except of entries that are as they were before.

    Git does not look at a file whose times and size are those of its entry, and takes folders from a list of trees. A
    forged note hides a change. Without the notes git looks again, as it does after any copy. UnreadableIndex: `after`
    cannot be read.
    """
    index = parse_index(after)
    try:
        known = parse_index(before) if before else None
    except UnreadableIndex:
        known = None
    same = set[tuple[bytes, bytes]]() if known is None else {_noted(known, entry) for entry in known.entries}
    last = len(after) - index.hashed
    data = bytearray(after[: index.end])
    for entry in index.entries:
        if _noted(index, entry) not in same:
            data[entry.start + _SIZE : entry.start + _BEFORE_NAME] = bytes(_BEFORE_NAME - _SIZE)
    for signature, start, end in _extensions(after, index.end, last):
        if signature in (*_REQUIRED, _CONFLICTS):
            data += after[start:end]
    return _summed(bytes(data), after[last:], index.hashed)


# ── reading ──────────────────────────────────────────────────────────────────────────────────


def _is_summed(data: bytes, hashed: int) -> bool:
    """Whether the last bytes are the checksum of the others; zeros: git was asked to leave it out."""
    if len(data) < _HEADER.size + hashed:
        return False
    total = data[-hashed:]
    return not any(total) or _HASHES[hashed](data[:-hashed], usedforsecurity=False).digest() == total


def _read(data: bytes, version: int, count: int, hashed: int) -> Index:
    last = len(data) - hashed
    if count * (_BEFORE_NAME + hashed + 2) > last:
        raise UnreadableIndex("it is cut off")
    entries: list[Entry] = []
    at = _HEADER.size
    path = b""
    unpack = _FLAGS.unpack_from
    for _ in range(count):
        name = at + _BEFORE_NAME + hashed + 2
        (flags,) = unpack(data, name - 2)
        more = 0
        if flags & _EXTENDED:
            (more,) = unpack(data, name)
            name += 2
            if more & ~_KNOWN or version == 2:
                raise UnreadableIndex("an entry has unknown flags")
        if version == 4:
            path, end = _compressed(data, name, path)
        else:
            stop = data.find(b"\0", name)
            path = data[name:stop]
            end = at + ((stop - at) // 8 + 1) * 8
            if stop < 0 or any(data[stop:end]):
                raise UnreadableIndex("the path of an entry has no end")
        if not path:
            raise UnreadableIndex("it is a split index")  # only there an entry has no path of its own
        if end > last or min(len(path), _LENGTH) != flags & _LENGTH:
            raise UnreadableIndex("an entry is malformed")
        entries.append(Entry(path, at, end, name, flags, more))
        at = end
    _check_extensions(data, at, last)
    return Index(data, version, hashed, tuple(entries), at)


def _compressed(data: bytes, at: int, former: bytes) -> tuple[bytes, int]:
    """Read a path of version 4: how many bytes of the former path go, then what follows."""
    value = data[at] & 0x7F
    while data[at] & 0x80 and value <= len(former):
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    stop = data.find(b"\0", at + 1)
    if stop < 0 or value > len(former):
        raise UnreadableIndex("the path of an entry has no end")
    return former[: len(former) - value] + data[at + 1 : stop], stop + 1


def _check_extensions(data: bytes, at: int, last: int) -> None:
    for signature, _, end in _extensions(data, at, last):
        if end > last:
            raise UnreadableIndex("it is cut off")
        if signature == b"link":
            raise UnreadableIndex("it is a split index")
        if not b"A" <= signature[:1] <= b"Z" and signature not in _REQUIRED:
            raise UnreadableIndex("it has an unknown extension")


def _extensions(data: bytes, at: int, last: int) -> Iterable[tuple[bytes, int, int]]:
    """List the extensions: signature, start, end."""
    while at < last:
        signature, size = _CHUNK.unpack_from(data, at)
        end = at + _CHUNK.size + size
        yield signature, at, end
        at = end


def _listed(index: Index) -> tuple[int, list[tuple[bytes, bytes, int, int]]]:
    """List what an index says, without what it remembers of the files in the folder."""
    said = [(entry.path, _content(index, entry), entry.flags, entry.more) for entry in index.entries]
    return index.hashed, said


def _content(index: Index, entry: Entry) -> bytes:
    """Give the mode of an entry and the name of its object."""
    data = index.data
    start = entry.start
    return data[start + 24 : start + 28] + data[start + _BEFORE_NAME : start + _BEFORE_NAME + index.hashed]


def _noted(index: Index, entry: Entry) -> tuple[bytes, bytes]:
    """Give an entry with what it remembers of its file."""
    start = entry.start
    return entry.path + b"\0%d" % (entry.flags & _STAGE), index.data[start : start + _BEFORE_NAME + index.hashed]


def _may_track(data: bytes, paths: Collection[str]) -> bool:
    """Look quickly whether paths occur in an index at all.

    Version 4 does not write them whole, and a split index has them in another file.
    """
    if data[4:8] == b"\0\0\0\4" or len(paths) > 50 or b"link" in data:
        return bool(paths)
    return any(os.fsencode(path) in data for path in paths)


def _chooser(paths: Collection[str]) -> Callable[[bytes], bool]:
    """Build the test whether a path is one of some, or lies beneath one."""
    names = frozenset(os.fsencode(path).rstrip(b"/") for path in paths)
    folders = tuple(name + b"/" for name in names)
    return lambda path: path in names or path.startswith(folders)


# ── writing ──────────────────────────────────────────────────────────────────────────────────


def _rewrite(index: Index, changed: dict[Entry, int]) -> bytes:
    """Write an index with other extended flags of some entries; everything else is copied."""
    data = index.data
    last = len(data) - index.hashed
    parts: list[bytes] = []
    at = _HEADER.size
    for entry, more in changed.items():
        parts += [data[at : entry.start], _entry(index, entry, more)]
        at = entry.end
    parts.append(data[at : index.end])
    parts += [
        data[start:end] for signature, start, end in _extensions(data, index.end, last) if signature not in _OFFSETS
    ]
    body = _HEADER.pack(b"DIRC", _version(index, changed), len(index.entries)) + b"".join(parts)
    return _summed(body, data[last:], index.hashed)


def _summed(body: bytes, former: bytes, hashed: int) -> bytes:
    """Add the checksum, or none where the former is none."""
    return body + (_HASHES[hashed](body, usedforsecurity=False).digest() if any(former) else former)


def _entry(index: Index, entry: Entry, more: int) -> bytes:
    flags = entry.flags & ~_EXTENDED | (_EXTENDED if more else 0)
    fixed = index.data[entry.start : entry.start + _BEFORE_NAME + index.hashed]
    head = fixed + _FLAGS.pack(flags) + (_FLAGS.pack(more) if more else b"")
    if index.version == 4:
        return head + index.data[entry.name : entry.end]
    whole = head + entry.path
    return whole + bytes(8 - len(whole) % 8)


def _version(index: Index, changed: dict[Entry, int]) -> int:
    """Give the version that git writes: 3 where an entry has extended flags, 2 where none has."""
    if index.version == 4:
        return 4
    kept = any(entry.more and entry not in changed for entry in index.entries)
    return 3 if kept or any(changed.values()) else 2
