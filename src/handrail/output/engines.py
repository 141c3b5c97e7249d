"""Finding secrets in bytes: two engines that propose where to look, one way to confirm it.

Both engines lead to the same spans. The fast one (hyperscan) tells which kinds occur at all, the plain one (an
Aho-Corasick automaton) where their keywords stand; what a kind hides at a keyword is decided by the same code.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Final, Protocol

from handrail.output.known import KnownValues, Span
from handrail.output.patterns import KINDS, SecretKind

# How far a match may go on after its keyword; what lies further away never changes what is hidden.
REACH: Final = 8192
# A key block without an end is hidden this far.
WINDOW: Final = 16384

Place = tuple[int, int]  # The index of a kind, and where one of its keywords starts (-1: search everywhere).


_Match = tuple[int, int, bool]  # Where it is, and whether it is a secret.
# With more keywords than this, look for the next match before looking at each keyword.
_CROWD: Final = 32
# How far before the end of a token another may begin, and how many are looked at there.
_OVERLAP: Final = 128
_MOST_JOINED: Final = 4


class Engine(Protocol):
    """Proposes places where kinds of secrets may be."""

    def quiet(self, data: bytes) -> bool:
        """Tell for certain that no kind and no known value occurs; False means: look closer."""

    def places(self, data: bytes) -> Iterable[Place]:
        """Return all places where a kind may occur, and possibly more."""


class PlainEngine:
    """Keywords found by one automaton, for when hyperscan is missing or not worth its start."""

    def __init__(self, kinds: Sequence[SecretKind], known: KnownValues) -> None:
        self._kinds = kinds
        self._known = known
        self._everywhere = [(index, -1) for index, kind in enumerate(kinds) if not kind.keywords]
        self._owners: list[list[int]] = []
        self._find: Any = None

    def quiet(self, data: bytes) -> bool:
        return not self._everywhere and not self._keywords(data) and not self._known.spans(data)

    def places(self, data: bytes) -> Iterator[Place]:
        yield from self._everywhere
        for keyword, start, _ in self._keywords(data):
            for index in self._owners[keyword]:
                yield index, start

    def _keywords(self, data: bytes) -> list[tuple[int, int, int]]:
        if self._find is None:
            self._prepare()
        found: list[tuple[int, int, int]] = self._find(data.lower(), overlapping=True)
        return found

    def _prepare(self) -> None:
        from ahocorasick_rs import BytesAhoCorasick, Implementation

        owners: dict[bytes, list[int]] = {}
        for index, kind in enumerate(self._kinds):
            for keyword in kind.keywords:
                owners.setdefault(keyword.encode(), []).append(index)
        self._owners = list(owners.values())
        automaton = BytesAhoCorasick(list(owners), implementation=Implementation.DFA)
        self._find = automaton.find_matches_as_indexes


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

    def places(self, data: bytes) -> Iterator[Place]:
        lower = data.lower()
        for index in sorted(self._occurring(data)):
            keywords = self._kinds[index].keywords
            if not keywords:
                yield index, -1
            for keyword in keywords:
                yield from ((index, at) for at in _occurrences(lower, keyword.encode()))

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


def _is_token(kind: SecretKind) -> bool:
    return kind.shape == "token" and not kind.lead and not kind.until


def _note(index: int, _start: int, _end: int, _flags: int, hits: list[int]) -> None:
    hits.append(index)


def _literals(anchors: Sequence[bytes]) -> Any:
    return _database([b"".join(b"\\x%02x" % byte for byte in anchor) for anchor in anchors])


def _compiled(kinds: Sequence[SecretKind]) -> Any:
    return _database([kind.pattern.encode() for kind in kinds])


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
    return find_spec("hyperscan") is not None


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
    parts = [library, platform.machine(), *(f"{kind.name}\0{kind.pattern}" for kind in kinds)]
    return sha256("\1".join(parts).encode()).hexdigest()[:32]


class Confirmer:
    """Decides what a kind hides at a place; patterns are compiled when they are first needed."""

    def __init__(self, kinds: Sequence[SecretKind]) -> None:
        self._kinds = kinds
        self._compiled: dict[str, Any] = {}

    def spans(self, data: bytes, places: Iterable[Place]) -> list[Span]:
        """Return what is hidden at these places."""
        by_kind: dict[int, list[int]] = {}
        for index, at in places:
            by_kind.setdefault(index, []).append(at)
        for anchors in by_kind.values():
            anchors.sort()
        found = [
            span for index, anchors in by_kind.items() for span in self._of_kind(self._kinds[index], data, anchors)
        ]
        if found:
            tokens = {index: anchors for index, anchors in by_kind.items() if _is_token(self._kinds[index])}
            self._join(data, tokens, found)
        return found

    def _join(self, data: bytes, tokens: dict[int, list[int]], found: list[Span]) -> None:
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

    def _of_kind(self, kind: SecretKind, data: bytes, anchors: list[int]) -> Iterator[Span]:
        look = self._block if kind.until else self._at
        crowded = len(anchors) > _CROWD and not kind.lead and not kind.until
        done = 0
        for at in anchors:
            if 0 <= at < done:
                continue
            if crowded and (start := self._next(kind, data, at)) > at:
                done = start
                continue
            for start, end, secret in look(kind, data, at):
                # Keywords inside a match of the same kind say nothing new.
                done = max(done, end if secret or kind.shape == "token" else 0)
                if secret:
                    yield start, end

    def _next(self, kind: SecretKind, data: bytes, at: int) -> int:
        """Return before where there is no match, so that many keywords that are none cost one look."""
        match = self._pattern(kind.pattern).search(data, at, at + 2 * REACH)
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
            return [_judged(kind, data, match) for match in near if match.start() <= at < match.end()]
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
