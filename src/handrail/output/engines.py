"""Finding secrets in bytes: two engines that propose where to look, one way to confirm it.

Both engines lead to the same spans. The fast one (hyperscan) tells which kinds occur at all, the plain one (an
Aho-Corasick automaton) where their keywords stand; what a kind hides at a keyword is decided by the same code.
"""

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter
from typing import Any, Final, Protocol, overload

from handrail.installed import find_module
from handrail.output.known import KnownValues, Span
from handrail.output.patterns import KINDS, SecretKind

# How far a match may go on after its keyword; what lies further away never changes what is hidden.
REACH: Final = 8192
# A key block without an end is hidden this far.
WINDOW: Final = 16384

Place = tuple[int, int]  # The index of a kind, and where one of its keywords starts (-1: search everywhere).
Anchors = Sequence[int]  # Where keywords of one kind start, rising; numbers kept small, for text can be all keywords.

_Match = tuple[int, int, bool]  # Where it is, and whether it is a secret.
# With more keywords than this, look for the next match before looking at each keyword.
_CROWD: Final = 32
# How far before the end of a token another may begin, and how many are looked at there.
_OVERLAP: Final = 128
_MOST_JOINED: Final = 4
_start = itemgetter(1)  # of a hit
# Keywords are looked for in this much text at once, so that what is noted of each never adds up.
_CHUNK: Final = 1 << 15
_LITERAL: Final = 1024  # hyperscan takes expressions of 16,000 characters at most; a beginning is enough to look closer


class Engine(Protocol):
    """Proposes places where kinds of secrets may be."""

    def quiet(self, data: bytes) -> bool:
        """Tell for certain that no kind and no known value occurs; False means: look closer."""

    def places(self, data: bytes) -> dict[int, Anchors]:
        """Return, by the index of a kind, all places where it may occur, and possibly more."""


class PlainEngine:
    """Keywords found by one automaton, for when hyperscan is missing or not worth its start."""

    def __init__(self, kinds: Sequence[SecretKind], known: KnownValues) -> None:
        self._kinds = kinds
        self._known = known
        self._everywhere = [index for index, kind in enumerate(kinds) if not kind.keywords]
        self._runs = {index: run for index, kind in enumerate(kinds) if (run := _run_of(kind))}
        self._groups: list[list[int]] = []  # kinds with the same keywords
        self._owners: list[list[int]] = []  # the groups that a keyword belongs to
        self._longest = 0
        self._find: Any = None

    def quiet(self, data: bytes) -> bool:
        if self._everywhere or any(run in data for run in self._runs.values()):
            return False
        return not any(self._keywords(data.lower())) and not self._known.spans(data)

    def places(self, data: bytes) -> dict[int, Anchors]:
        found: dict[int, Anchors] = dict.fromkeys(self._everywhere, (-1,))
        found |= {index: Runs(data, run) for index, run in self._runs.items() if run in data}
        noted: dict[int, array[int]] = {}
        for hits in self._keywords(data.lower()):
            hits.sort(key=_start)
            for keyword, start, _ in hits:
                for group in self._owners[keyword]:
                    if group not in noted:
                        noted[group] = array("q")
                    noted[group].append(start)
        return found | {index: anchors for group, anchors in noted.items() for index in self._groups[group]}

    def _keywords(self, lower: bytes) -> Iterator[list[tuple[int, int, int]]]:
        """Give keyword, start and end of every hit, a chunk's at a time, which are those that start in it."""
        if self._find is None:
            self._prepare()
        if len(lower) <= _CHUNK:
            if hits := self._find(lower, overlapping=True):
                yield hits
            return
        for at in range(0, len(lower), _CHUNK):
            hits = self._find(lower[at : at + _CHUNK + self._longest - 1], overlapping=True)
            if here := [(keyword, at + start, at + end) for keyword, start, end in hits if start < _CHUNK]:
                yield here

    def _prepare(self) -> None:
        keywords = tuple(() if index in self._runs else kind.keywords for index, kind in enumerate(self._kinds))
        self._groups, self._owners, self._longest, self._find = _automaton(keywords)


_Prepared = tuple[list[list[int]], list[list[int]], int, Any]


@lru_cache(maxsize=4)
def _automaton(keywords: tuple[tuple[str, ...], ...]) -> _Prepared:
    """Build the automaton of each kind's keywords; the runs of a process share it."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    groups: dict[tuple[str, ...], list[int]] = {}
    for index, own in enumerate(keywords):
        if own:
            groups.setdefault(own, []).append(index)
    owners: dict[bytes, list[int]] = {}
    for group, own in enumerate(groups):
        for keyword in own:
            owners.setdefault(keyword.encode(), []).append(group)
    automaton = BytesAhoCorasick(list(owners), implementation=Implementation.DFA)
    longest = max(map(len, owners), default=1)
    return list(groups.values()), list(owners.values()), longest, automaton.find_matches_as_indexes


class FastEngine:
    """One hyperscan pass over all kinds, and one over known values, whose database stays in memory."""

    def __init__(self, kinds: Sequence[SecretKind], known: KnownValues, database: bytes | None) -> None:
        self._kinds = kinds
        self._known = known
        self._serialised = database
        self._local = threading.local()

    def quiet(self, data: bytes) -> bool:
        try:
            scans = self._local.scans
        except AttributeError:
            scans = self._prepare()
        hits: list[int] = []
        for scan in scans:
            scan(data, _note, 0, hits)
        return not hits

    def places(self, data: bytes) -> dict[int, Anchors]:
        lower = data.lower()
        return {index: _anchors_of(self._kinds[index], data, lower) for index in sorted(self._occurring(data))}

    def _occurring(self, data: bytes) -> list[int]:
        try:
            scans = self._local.scans
        except AttributeError:
            scans = self._prepare()
        hits: list[int] = []
        scans[0](data, _note, 0, hits)
        return hits

    def _prepare(self) -> list[Any]:
        """Give this thread its own databases, for scratch space must not be shared."""
        import hyperscan

        try:
            database = hyperscan.loadb(self._serialised or b"", hyperscan.HS_MODE_BLOCK)
        except hyperscan.HyperscanError:
            # None was given, or one from another version or a damaged file.
            self._serialised = bytes(hyperscan.dumpb(_compiled(self._kinds)))
            database = hyperscan.loadb(self._serialised, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        scans = [database.scan]
        if anchors := self._known.anchors():
            scans.append(_literals(anchors).scan)
        self._local.scans = scans
        return scans


class Runs(Sequence[int]):
    """Where a keyword of one character starts that is repeated: every place of a long run, none of them noted."""

    def __init__(self, data: bytes, keyword: bytes) -> None:
        self._starts, self._before = array("q"), array("q", [0])  # of each run, and how many places there are before it
        letter, at = keyword[:1], data.find(keyword)
        while at >= 0:
            end = _run_end(data, at + len(keyword), letter)
            self._starts.append(at)
            self._before.append(self._before[-1] + end - len(keyword) + 1 - at)
            at = data.find(keyword, end)

    def __len__(self) -> int:
        return self._before[-1]

    @overload
    def __getitem__(self, number: int) -> int: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[int]: ...
    def __getitem__(self, number: int | slice) -> int | Sequence[int]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        run = bisect_right(self._before, number) - 1
        return self._starts[run] + number - self._before[run]


def _run_end(data: bytes, at: int, letter: bytes) -> int:
    """Where a run of one character ends; it is looked through in steps that double."""
    size = 64
    while (left := data[at : at + size].lstrip(letter)) == b"" and at < len(data):
        at, size = at + size, 2 * size
    return min(at + size, len(data)) - len(left)


def _run_of(kind: SecretKind) -> bytes:
    """What every match of a kind begins with, if that is one character over and over; otherwise nothing."""
    keyword = kind.keywords[0] if len(kind.keywords) == 1 and kind.lead == 0 else ""
    begin = kind.pattern[: len(keyword)]
    return begin.encode() if len(begin) > 1 and len(set(begin)) == 1 and begin.lower() == keyword else b""


def _anchors_of(kind: SecretKind, data: bytes, lower: bytes) -> Anchors:
    if not kind.keywords:
        return (-1,)
    if run := _run_of(kind):
        return Runs(data, run)
    found = [array("q", _occurrences(lower, keyword.encode())) for keyword in kind.keywords]
    held = [anchors for anchors in found if anchors]
    return held[0] if len(held) == 1 else array("q", sorted(at for anchors in held for at in anchors))


def _is_token(kind: SecretKind) -> bool:
    return kind.shape == "token" and not kind.lead and not kind.until


def _note(index: int, _start: int, _end: int, _flags: int, hits: list[int]) -> None:
    hits.append(index)


def _literals(anchors: Sequence[bytes]) -> Any:
    return _database([b"".join(b"\\x%02x" % byte for byte in anchor[:_LITERAL]) for anchor in anchors])


def _compiled(kinds: Sequence[SecretKind]) -> Any:
    return _database([_expression(kind) for kind in kinds])


def _expression(kind: SecretKind) -> bytes:
    """What tells that a kind may occur; a pattern that begins anywhere in a run would be followed from everywhere."""
    return _run_of(kind) or kind.pattern.encode()


def _database(expressions: list[bytes]) -> Any:
    import hyperscan

    database = hyperscan.Database()
    flags = [hyperscan.HS_FLAG_SINGLEMATCH] * len(expressions)
    database.compile(expressions=expressions, ids=list(range(len(expressions))), flags=flags)
    return database


def _occurrences(data: bytes, keyword: bytes) -> Iterator[int]:
    at = data.find(keyword)
    while at >= 0:
        yield at
        at = data.find(keyword, at + 1)


def has_hyperscan() -> bool:
    """Tell whether the fast engine is installed."""
    return find_module("hyperscan") is not None


def compile_database(kinds: Sequence[SecretKind] = KINDS) -> bytes | None:
    """Compile the kinds for the fast engine (0.6 to 1 s); None when hyperscan is missing."""
    if not has_hyperscan():
        return None
    import hyperscan

    return bytes(hyperscan.dumpb(_compiled(kinds)))


def database_fingerprint(kinds: Sequence[SecretKind] = KINDS) -> str:
    """Name the database that `compile_database` would make here: kinds, order, library version and machine."""
    import platform
    from hashlib import sha256

    library = "none"
    if has_hyperscan():
        import hyperscan

        library = str(getattr(hyperscan, "__version__", "unknown"))
    parts = [library, platform.machine(), *(f"{kind.name}\0{_expression(kind).decode()}" for kind in kinds)]
    return sha256("\1".join(parts).encode()).hexdigest()[:32]


class Confirmer:
    """Decides what a kind hides at a place; patterns are compiled when they are first needed."""

    def __init__(self, kinds: Sequence[SecretKind]) -> None:
        self._kinds = kinds
        self._compiled: dict[str, Any] = {}

    def spans(self, data: bytes, places: dict[int, Anchors]) -> list[Span]:
        """Return what is hidden at these places."""
        found: list[Span] = []
        heads: dict[str, Anchors] = {}
        for index in sorted(places):
            kind, anchors = self._kinds[index], places[index]
            if kind.head and len(anchors) > _CROWD:
                if kind.head not in heads:
                    heads[kind.head] = array("q", (one.start() for one in self._pattern(kind.head).finditer(data)))
                anchors = heads[kind.head]
            found.extend(self._of_kind(kind, data, anchors))
        if found:
            tokens = {index: anchors for index, anchors in places.items() if _is_token(self._kinds[index])}
            self._join(data, tokens, found)
        return found

    def _join(self, data: bytes, tokens: dict[int, Anchors], found: list[Span]) -> None:
        """Add tokens that begin in the end of another, or right behind it: hidden alone, it would leave their rest."""
        seen: set[Place] = set()
        for start, end in found:
            for index, anchors in tokens.items():
                first, last = bisect_left(anchors, max(start + 1, end - _OVERLAP)), bisect_right(anchors, end)
                for at in reversed(anchors[max(first, last - _MOST_JOINED) : last]):
                    if (index, at) in seen:
                        break
                    seen.add((index, at))
                    match = self._pattern(self._kinds[index].pattern).match(data, at, at + REACH)
                    if match and match.end() > end:
                        found.append((at, match.end()))
                        break

    def _of_kind(self, kind: SecretKind, data: bytes, anchors: Anchors) -> Iterator[Span]:
        look = self._block if kind.until else self._at
        crowded = len(anchors) > _CROWD and not kind.until
        done = number = 0
        while number < len(anchors):
            at = anchors[number]
            if 0 <= at < done:
                number = bisect_left(anchors, done, number + 1)
                continue
            if crowded and (start := self._next(kind, data, at)) > at:
                done = start
                continue
            number += 1
            for start, end, secret in look(kind, data, at):
                # Keywords inside a match of the same kind say nothing new.
                done = max(done, end if secret or kind.shape == "token" else 0)
                if secret:
                    yield start, end

    def _next(self, kind: SecretKind, data: bytes, at: int) -> int:
        """Return before where there is no match, so that many keywords that are none cost one look."""
        match = self._pattern(kind.pattern).search(data, max(0, at - kind.lead), at + 2 * REACH)
        return match.start() if match else at + REACH

    def _block(self, kind: SecretKind, data: bytes, at: int) -> list[_Match]:
        from handrail.output.lookalikes import is_block

        begin = self._pattern(kind.pattern).match(data, at, at + REACH)
        if begin is None or not is_block(data, begin.end()):
            return []
        limit = min(at + WINDOW, len(data))
        end = self._pattern(kind.until).search(data, begin.end(), limit)
        return [(at, end.end() if end else limit, True)]

    def _at(self, kind: SecretKind, data: bytes, at: int) -> list[_Match]:
        pattern = self._pattern(kind.pattern)
        if at < 0:
            return [_judged(kind, data, match) for match in pattern.finditer(data)]
        if kind.lead:
            near = pattern.finditer(data, max(0, at - kind.lead), at + REACH)
            before = takewhile(lambda match: match.start() <= at, near)
            return [_judged(kind, data, match) for match in before if at < match.end()]
        match = pattern.match(data, at, at + REACH)
        return [_judged(kind, data, match)] if match else []

    def _pattern(self, pattern: str) -> Any:
        compiled = self._compiled.get(pattern)
        if compiled is None:
            compiled = self._compiled[pattern] = _compile(pattern)
        return compiled


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern.encode(), options)


def _judged(kind: SecretKind, data: bytes, match: Any) -> _Match:
    from handrail.output.lookalikes import harmless

    start, end = match.span(match.re.groupindex.get(b"secret", 0))
    return start, end, not harmless(kind, data, match.start(), start, end)
