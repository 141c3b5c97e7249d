"""What ripgrep prints, turned into hits: parsed, filtered entry by entry, and each line read again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from operator import itemgetter

from handrail.policy.patterns import excluded
from handrail.queries import Hit, TextFound, TextQuery
from handrail.words import Exclusion, Place
from handrail.workspace.rg_pieces import Pieces
from handrail.workspace.rg_source import Source

# path NUL line : column : offset : text, or for context: path NUL line - offset - text
_RECORD = re.compile(rb"([^\0]*+)\0(\d++)(?::(\d++):(\d++):|-(\d++)-)([^\n]*+)\n")
_BINARY = re.compile(rb"(?s)(.*): (?:binary file matches|WARNING: stopped searching binary file after match) \(found.*")
_CLASS = re.compile(r"(?s)\[.[^\]]*\]")
_LITERAL = re.compile(r"[^*?\[\]/]+")
_raw_path = itemgetter(1)  # of a record

Open = Callable[[str], int]  # a path below the place searched -> descriptor; OSError where no link-free way leads
Seen = Callable[[int], "dict[int, int] | bool"]  # line and column of a file's matches in what may be seen of it; True:
# all of it may be seen, False: each line is to be looked at


def order(path: bytes) -> bytes:
    """The key by which `--sort path` orders: name by name, a folder before what only begins like it."""
    return path.replace(b"/", b"\0")


class Keeper:
    """Decides entry by entry which paths may be named at all."""

    def __init__(self, place: Place, exclusions: tuple[Exclusion, ...], fits: re.Pattern[str] | None, hidden: bool):
        self._base = f"{place.path}/" if place.path else ""
        self._root = place.root
        self._whole = f"{place.root.path}/{self._base}"
        self._fits = fits
        self._hidden = hidden
        self._all = exclusions
        self._told_by = _told_by(exclusions, place.root.name, hidden or "/." in f"/{self._base}")

    def keeps(self, paths: Iterable[str]) -> list[str]:
        """Give the paths that are wanted and not excluded, in the same order."""
        wanted = list(filter(None, paths))
        if self._fits is not None:
            fits = self._fits.fullmatch
            wanted = [path for path in wanted if fits(path)]
        if not wanted:
            return wanted
        # One look at all of them together: most often there is nothing to take out.
        together = "\n/".join(["", *wanted])
        if not self._hidden and "/." in together:
            wanted = [path for path in wanted if path[0] != "." and "/." not in path]
        near = self._near(self._whole + together)
        return [path for path in wanted if excluded(near, self._root, self._base + path) is None] if near else wanted

    def _near(self, together: str) -> Sequence[Exclusion]:
        """The exclusions that could cover one of the paths; never a wrong no."""
        if not together.isascii():
            return self._all  # case folding beyond ASCII is left to the exact check
        together = together.lower()
        return [item for fixed, item in self._told_by if fixed in together]


@lru_cache(maxsize=64)
def _told_by(exclusions: tuple[Exclusion, ...], root: str, hidden: bool) -> list[tuple[str, Exclusion]]:
    """The text that every path covered by an exclusion holds, in lower case, for those that can cover anything."""
    ours = [item for item in exclusions if not item.root or item.root == root]
    if not hidden:
        ours = [item for item in ours if item.pattern.startswith("//") or "/." not in f"/{item.pattern}"]
    return [(_fixed_part(item.pattern), item) for item in ours]


def _fixed_part(pattern: str) -> str:
    return max(_LITERAL.findall(_CLASS.sub("*", pattern)), key=len, default="").lower()


class Lines:
    """Takes up ripgrep's lines until a query has enough."""

    def __init__(self, query: TextQuery, keeper: Keeper | None, open_file: Open, seen: Seen | None = None) -> None:
        self.hits: list[Hit] = []
        self.more = False
        self.binary = 0
        self.changed = 0
        self.beyond: Hit | None = None
        self._seen = seen
        self._columns: dict[int, int] | bool = True  # of the matches of this file that may be told
        self._query = query
        self._keeper = keeper
        self._open = open_file
        self._after = None if query.after is None else (order(os.fsencode(query.after[0])), query.after[1])
        self._rest = b""
        self._raw: bytes | None = None
        self._path = ""
        self._skip_to = 0  # the line up to which the cursor has been
        self._source: Source | None = None
        self._first = 0  # where the hits of this file begin
        self._room = 0  # for how many matches of this file
        self._files = self._matches = self._in_file = 0

    def feed(self, data: bytes) -> bool:
        """Take what was printed; True when there is enough."""
        data = self._rest + data
        end = 0
        for raw, group in groupby(_RECORD.finditer(data), _raw_path):
            records = list(group)
            end = records[-1].end()
            if raw != self._raw:
                self._enter(raw)
            if self._source is None or self._take_together(self._source, records):
                continue
            for record in records:
                if not self._has_room(record):
                    self.more = True
                    return True
        self._rest = data[end:]
        return False

    def _take_together(self, source: Source, records: Sequence[re.Match[bytes]]) -> bool:
        """Take lines of one file at once, where they are all plain matches that are wanted; False: one by one."""
        if self._seen or self._query.context or self._skip_to or len(records) > self._room - self._in_file:
            return False
        numbers = [int(record[2]) for record in records]
        texts = source.texts(numbers, [record[6] for record in records], self._query.max_chars)
        if texts is None:
            return False
        self.hits += map(Hit, repeat(self._path), numbers, texts)
        self._in_file += len(records)
        return True

    def _has_room(self, record: re.Match[bytes]) -> bool:
        """Take one line; False when there were enough before it."""
        _, number, at, offset, context_offset, text = record.groups()
        line, column = int(number), int(at or 0)
        if column and isinstance(self._columns, dict):
            column = self._columns.get(line, 0)
        if column and self._seen and self._in_file >= (self._query.per_file or self._room + 1):
            column = 0
        if not column:
            if at is None or self._query.context:
                self._take(line, int(context_offset or offset), 0, text)
        elif self._in_file >= self._room:
            if self._source is not None and line > self._skip_to:
                self.beyond = self._source.hit(self._path, line, int(offset), column, text, self._query.max_chars)
            # One that hides something does not tell that more follow.
            return self._columns is False and self.beyond is not None and self._hides(self.beyond)
        elif self._take(line, int(offset), column, text):
            self._in_file += 1
        return True

    @property
    def progress(self) -> float:
        """How much of what is wanted has been found, from 0 to 1."""
        return (self._matches + self._in_file) / self._query.limit

    def close(self) -> None:
        """Take up the last words and let the open file go."""
        self._tell_binary(self._rest)
        self._end_file()
        self._raw, self._rest = None, b""

    def result(self, unreadable: int, *, left_out: bool = False) -> TextFound:
        """Give what was found; context that belongs to a match of the next page is left to it."""
        last = next((hit for hit in reversed(self.hits) if hit.is_match), None)
        if last is None:
            self.hits.clear()
        else:
            while self.hits[-1].path != last.path or self.hits[-1].line > last.line + self._query.context:
                self.hits.pop()
        return TextFound(self.hits, [], self.more, self.binary, unreadable, left_out, self.changed, self.beyond)

    def _enter(self, raw: bytes) -> None:
        named = raw
        if b"\n" in raw and _BINARY.match(raw):
            messages, _, named = raw.rpartition(b"\n")
            self._tell_binary(messages)
        self._end_file()
        self._raw = raw
        self._path = os.fsdecode(named)
        self._source = self._opened(named)
        self._room = self._query.limit - self._matches
        if self._query.max_files is not None and self._files >= self._query.max_files:
            self._room = 0

    def _opened(self, named: bytes) -> Source | None:
        self._skip_to = 0
        if self._after is not None and (here := order(named)) <= self._after[0]:
            if here < self._after[0]:
                return None
            self._skip_to = self._after[1]
        if self._keeper is None or not self._keeper.keeps([self._path]):
            return None
        try:
            return self._read(self._path)
        except OSError:
            self.changed += 1
            return None

    def _read(self, path: str) -> Source:
        fd = self._open(path)
        source = Source(fd)
        self._columns = self._seen(fd) if self._seen else True
        return source

    def _take(self, line: int, offset: int, column: int, text: bytes) -> bool:
        """Show a line, unless a page before this one did or it is not there any more."""
        if line <= self._skip_to or self._source is None:
            return False
        hit = self._source.hit(self._path, line, offset, column, text, self._query.max_chars)
        if hit is None:
            self.changed += 1
            return False
        if self._columns is False and self._hides(hit):
            return False
        self.hits.append(hit)
        return True

    def _hides(self, hit: Hit) -> bool:
        before, text, after = (part.encode("utf-8", "surrogatepass") for part in (hit.before, hit.text, hit.after))
        blotted = None if self._query.blot is None else self._query.blot(before + text + after)
        return blotted is not None and blotted[len(before) : len(before) + len(text)] != text

    def _end_file(self) -> None:
        if self._seen and self._query.context:
            self._leave_out_context()
        self._matches += self._in_file
        self._files += self._in_file > 0
        self._first, self._in_file = len(self.hits), 0
        if self._source is not None:
            self._source.close()
            self._source = None

    def _leave_out_context(self) -> None:
        """Leave out lines around matches that are not told."""
        near = self._query.context
        told = [hit.line for hit in self.hits[self._first :] if hit.is_match]
        around = {line for at in told for line in range(at - near, at + near + 1)}
        self.hits[self._first :] = [hit for hit in self.hits[self._first :] if hit.line in around]

    def _tell_binary(self, messages: bytes) -> None:
        for message in messages.split(b"\n"):
            if (told := _BINARY.fullmatch(message)) is None:
                continue
            self.binary += 1
            if self._raw is not None and told[1] == self._raw.rsplit(b"\n", 1)[-1]:
                self._in_file = 0
                del self.hits[self._first :]


class OneFile(Lines):
    """Takes up the lines of one file that is open already, whatever ripgrep calls it; its path is empty."""

    def __init__(self, query: TextQuery, open_file: Open, pieces: Pieces | None, seen: Seen | None = None) -> None:
        super().__init__(query, None, open_file, seen)
        self._pieces = pieces

    def _opened(self, _named: bytes) -> Source | None:
        self._path = ""
        self._skip_to = 0 if self._after is None else self._after[1]
        return self._read("")

    def _take_together(self, source: Source, records: Sequence[re.Match[bytes]]) -> bool:
        return self._pieces is None and super()._take_together(source, records)

    def _take(self, line: int, offset: int, column: int, text: bytes) -> bool:
        if self._pieces is None:
            return super()._take(line, offset, column, text)
        line, offset, inside = self._pieces.place(line, offset)
        taken = super()._take(line, offset, column, text)
        if taken and inside and self.hits[-1].column:
            self.hits[-1] = self.hits[-1]._replace(column=self.hits[-1].column + inside)
        return taken


class Told(OneFile):
    """Counts the lines of one open file in which nothing is hidden; it keeps none of them."""

    def __init__(self, query: TextQuery, open_file: Open, pieces: Pieces | None) -> None:
        super().__init__(query, open_file, pieces, lambda _fd: False)
        self._keyed = False  # what stands before a line may make it a part of a key

    @property
    def count(self) -> int:
        """How many there are, once it is closed."""
        return self._matches

    def _read(self, path: str) -> Source:
        source = super()._read(path)
        self._keyed = source.names_keys()
        return source

    def _take_together(self, _source: Source, records: Sequence[re.Match[bytes]]) -> bool:
        texts = [record[6] for record in records]
        blot = self._query.blot
        if (
            blot is None
            or self._keyed
            or max(map(len, texts)) > self._query.max_chars
            or blot(b"\n".join(texts)) is not None
        ):
            return False
        self._in_file += len(records)
        return True

    def _take(self, line: int, offset: int, column: int, text: bytes) -> bool:
        taken = super()._take(line, offset, column, text)
        self.hits.clear()
        return taken


class Columns:
    """Takes up which lines match, and in which column; nothing else of them."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}
        self._rest = b""

    def feed(self, data: bytes) -> bool:
        """Take what was printed; there is never enough."""
        data, end = self._rest + data, 0
        for record in _RECORD.finditer(data):
            self.found.setdefault(int(record[2]), int(record[3] or 0))
            end = record.end()
        self._rest = data[end:]
        return False


def sorted_lines(data: bytes) -> bytes:
    """Put what was printed for whole files, in any order, into the order of `--sort path`."""
    blocks: dict[bytes, list[bytes]] = {}
    end = 0
    for record in _RECORD.finditer(data):
        end = record.end()
        raw, text = record[1], record[0]
        if b"\n" in raw and _BINARY.match(raw):
            messages, _, raw = raw.rpartition(b"\n")
            text = text[len(messages) + 1 :]
            _file_messages(blocks, messages)
        blocks.setdefault(raw, []).append(text)
    _file_messages(blocks, data[end:])
    return b"".join(b"".join(blocks[raw]) for raw in sorted(blocks, key=order))


def _file_messages(blocks: dict[bytes, list[bytes]], messages: bytes) -> None:
    for message in messages.split(b"\n"):
        if told := _BINARY.fullmatch(message):
            blocks.setdefault(told[1], []).append(message + b"\n")
