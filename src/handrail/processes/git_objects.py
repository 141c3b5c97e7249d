"""Objects that a program has put into a git repository, checked against their names. Pure.

Git trusts the name of a loose object, and the index of a pack, without looking: a forged one shows other content under
the name of a commit that people know. So new objects are kept without a question only where their names are true.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MAX_BYTES = 64 << 20  # of a loose object or a pack, as it lies on disk
_MAX_INFLATED = 256 << 20  # of all that is unpacked for one check
_PART = 1 << 14
_LOOSE = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{38}|[0-9a-f]{62})")
_PACKED = re.compile(r"objects/pack/(pack-(?:[0-9a-f]{40}|[0-9a-f]{64}))\.(pack|idx|rev)")
_HASHES = {20: hashlib.sha1, 32: hashlib.sha256}
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_OFFSET_DELTA = 6
_NAMED_DELTA = 7
_LARGE = 1 << 31  # offsets from here on stand in a table of their own
_Object = tuple[bytes, bytes]  # kind, content


class _Entry(NamedTuple):
    """One entry of a pack, unpacked; of a delta with how far back its base lies, or the name of that."""

    start: int
    kind: int
    back: int
    base: bytes
    data: bytes


class _Untrue(ValueError):
    """A pack that is malformed, or too large to be checked."""


def loose_name(path: str) -> str:
    """Give the name that a path below `.git` claims for a loose object; empty: it is none."""
    found = _LOOSE.fullmatch(path)
    return "" if found is None else found[1] + found[2]


def pack_parts(path: str) -> tuple[str, str] | None:
    """Split the path of a pack, its index or its reverse index into stem and suffix; None: it is none of them."""
    found = _PACKED.fullmatch(path)
    return None if found is None else (f"objects/pack/{found[1]}", found[2])


def is_true_object(name: str, data: bytes) -> bool:
    """Say whether a loose object is what its name says."""
    hashed = _HASHES[len(name) // 2](usedforsecurity=False)
    unpacker = zlib.decompressobj()
    total = 0
    try:
        for start in range(0, len(data), _PART):
            rest = data[start : start + _PART]
            while rest:
                piece = unpacker.decompress(rest, 1 << 20)
                rest = unpacker.unconsumed_tail
                hashed.update(piece)
                total += len(piece)
                if total > _MAX_INFLATED:
                    return False
    except zlib.error:
        return False
    return unpacker.eof and hashed.hexdigest() == name


def is_true_pack(pack: bytes, index: bytes, reverse: bytes | None) -> bool:
    """Say whether the indexes of a pack name exactly the objects that it holds, each at its place."""
    for size in _HASHES:
        try:
            if index == _index_like(pack, index, size):
                return reverse is None or reverse == _reverse_of(pack, index, size)
        except (_Untrue, zlib.error, struct.error, IndexError):
            continue
    return False


# ── packs ────────────────────────────────────────────────────────────────────────────────────


def _index_like(pack: bytes, index: bytes, size: int) -> bytes:
    """Build the index that a pack must have; only the checks of packed bytes are taken from the given one."""
    if pack[-size:] != _digest(size, pack[:-size]):
        raise _Untrue("the checksum of the pack is wrong")
    found = sorted((name, offset) for offset, name in _named(pack, size).items())
    if len({name for name, _ in found}) != len(found):
        raise _Untrue("an object is there twice")
    checks = 8 + 1024 + len(found) * size
    counts = [0] * 256
    for name, _ in found:
        counts[name[0]] += 1
    table = [sum(counts[: number + 1]) for number in range(256)]
    large = [offset for _, offset in found if offset >= _LARGE]
    if large:
        raise _Untrue("it is too large")
    body = b"".join(
        [
            b"\377tOc" + struct.pack(">L", 2),
            struct.pack(">256L", *table),
            *(name for name, _ in found),
            index[checks : checks + 4 * len(found)],
            *(struct.pack(">L", offset) for _, offset in found),
            pack[-size:],
        ]
    )
    return body + _digest(size, body)


def _reverse_of(pack: bytes, index: bytes, size: int) -> bytes:
    """Build the reverse index that belongs to a pack with a true index."""
    (count,) = struct.unpack_from(">L", index, 8 + 1020)
    offsets = struct.unpack_from(f">{count}L", index, 8 + 1024 + count * (size + 4))
    order = sorted(range(count), key=offsets.__getitem__)
    body = b"RIDX" + struct.pack(">LL", 1, 1 if size == 20 else 2) + struct.pack(f">{count}L", *order) + pack[-size:]
    return body + _digest(size, body)


def _named(pack: bytes, size: int) -> dict[int, bytes]:
    """Name the objects of a pack by where they begin."""
    known: dict[int, _Object] = {}
    names: dict[int, bytes] = {}
    by_name: dict[bytes, int] = {}
    waiting = list(_entries(pack, size))
    total = 0
    while waiting:  # a delta may come before its base
        later: list[_Entry] = []
        for entry in waiting:
            found = _resolve(entry, known, by_name)
            if found is None:
                later.append(entry)
                continue
            total += len(found[1])
            if total > _MAX_INFLATED:
                raise _Untrue("it is too large")
            known[entry.start] = found
            names[entry.start] = _digest(size, found[0] + b" %d\0" % len(found[1]) + found[1])
            by_name[names[entry.start]] = entry.start
        if len(later) == len(waiting):
            raise _Untrue("the base of a delta is missing")
        waiting = later
    return names


def _resolve(entry: _Entry, known: Mapping[int, _Object], by_name: Mapping[bytes, int]) -> _Object | None:
    """Make the object of an entry; None while its base is not known."""
    if entry.kind in _KINDS:
        return _KINDS[entry.kind], entry.data
    at = entry.start - entry.back if entry.kind == _OFFSET_DELTA else by_name.get(entry.base, -1)
    base = known.get(at)
    return None if base is None else _patch(base, entry.data)


def _entries(pack: bytes, size: int) -> Iterator[_Entry]:
    """List the entries of a pack."""
    signature, version, count = struct.unpack_from(">4sLL", pack)
    if signature != b"PACK" or version not in (2, 3):
        raise _Untrue("it is no pack")
    at = 12
    total = 0
    for _ in range(count):
        start = at
        kind, length, at = _entry_head(pack, at)
        back = 0
        base = b""
        if kind == _OFFSET_DELTA:
            back, at = _distance(pack, at)
        elif kind == _NAMED_DELTA:
            base = pack[at : at + size]
            at += size
        elif kind not in _KINDS:
            raise _Untrue("an entry is of no known kind")
        data, at = _inflate(pack, at, length)
        total += length
        if total > _MAX_INFLATED:
            raise _Untrue("it is too large")
        yield _Entry(start, kind, back, base, data)
    if at != len(pack) - size:
        raise _Untrue("it holds more than it says")


def _entry_head(pack: bytes, at: int) -> tuple[int, int, int]:
    """Read the kind and the length of an entry; gives where it goes on."""
    sign = pack[at]
    kind = sign >> 4 & 7
    length = sign & 15
    shift = 4
    at += 1
    while sign & 0x80:
        sign = pack[at]
        length |= (sign & 0x7F) << shift
        shift += 7
        at += 1
        if length > _MAX_INFLATED:
            raise _Untrue("it is too large")
    return kind, length, at


def _distance(pack: bytes, at: int) -> tuple[int, int]:
    """Read how far back the base of a delta lies."""
    value = pack[at] & 0x7F
    while pack[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (pack[at] & 0x7F)
        if value > MAX_BYTES:
            raise _Untrue("the base of a delta is missing")
    return value, at + 1


def _inflate(pack: bytes, at: int, length: int) -> tuple[bytes, int]:
    """Unpack one entry; gives its bytes and where the next one begins."""
    unpacker = zlib.decompressobj()
    parts: list[bytes] = []
    total = 0
    while not unpacker.eof:
        chunk = pack[at : at + _PART]
        if not chunk:
            raise _Untrue("it is cut off")
        while chunk and not unpacker.eof:
            piece = unpacker.decompress(chunk, length - total + 1)
            total += len(piece)
            if total > length:
                raise _Untrue("an entry is longer than it says")
            parts.append(piece)
            at += len(chunk) - len(unpacker.unconsumed_tail) - len(unpacker.unused_data)
            chunk = unpacker.unconsumed_tail
    if total != length:
        raise _Untrue("an entry is shorter than it says")
    return b"".join(parts), at


def _patch(base: _Object, delta: bytes) -> _Object:
    """Make an object from its base and a delta."""
    kind, source = base
    before, at = _varint(delta, 0)
    after, at = _varint(delta, at)
    if before != len(source) or after > _MAX_INFLATED:
        raise _Untrue("a delta does not fit its base")
    parts: list[bytes] = []
    total = 0
    while at < len(delta):
        sign = delta[at]
        at += 1
        if not sign:
            raise _Untrue("a delta is malformed")
        if sign & 0x80:
            offset, length, at = _copied_range(delta, at, sign)
            piece = source[offset : offset + length]
        else:
            length = sign
            piece = delta[at : at + length]
            at += length
        total += length
        if len(piece) != length or total > after:
            raise _Untrue("a delta is malformed")
        parts.append(piece)
    if total != after:
        raise _Untrue("a delta is malformed")
    return kind, b"".join(parts)


def _copied_range(delta: bytes, at: int, sign: int) -> tuple[int, int, int]:
    """Read which part of the base is copied: its offset and length."""
    values = []
    for bits in ((0x01, 0x02, 0x04, 0x08), (0x10, 0x20, 0x40)):
        value = 0
        for number, bit in enumerate(bits):
            if sign & bit:
                value |= delta[at] << (8 * number)
                at += 1
        values.append(value)
    offset, length = values
    return offset, length or 0x10000, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    shift = 0
    while True:
        sign = data[at]
        at += 1
        value |= (sign & 0x7F) << shift
        shift += 7
        if not sign & 0x80:
            return value, at
        if shift > 63:
            raise _Untrue("a delta is malformed")


def _digest(size: int, data: bytes) -> bytes:
    return _HASHES[size](data, usedforsecurity=False).digest()
