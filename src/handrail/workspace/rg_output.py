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

    def __init__(self, query: TextQuery, keeper: Keeper | None, open_file: Open) -> None:
        self.hits: list[Hit] = []
        self.more = False
        self.binary = 0
        self.changed = 0
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
        if self._query.context or self._skip_to or len(records) > self._room - self._in_file:
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
        _, line, column, offset, context_offset, text = record.groups()
        if column is None:
            self._take(int(line), int(context_offset), 0, text)
        elif self._in_file >= self._room:
            return False
        elif self._take(int(line), int(offset), int(column), text):
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
        return TextFound(self.hits, [], self.more, self.binary, unreadable, left_out, self.changed)

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
            return Source(self._open(self._path))
        except OSError:
            self.changed += 1
            return None

    def _take(self, line: int, offset: int, column: int, text: bytes) -> bool:
        """Show a line, unless a page before this one did or it is not there any more."""
        if line <= self._skip_to or self._source is None:
            return False
        hit = self._source.hit(self._path, line, offset, column, text, self._query.max_chars)
        if hit is None:
            self.changed += 1
            return False
        self.hits.append(hit)
        return True

    def _end_file(self) -> None:
        self._matches += self._in_file
        self._files += self._in_file > 0
        self._first, self._in_file = len(self.hits), 0
        if self._source is not None:
            self._source.close()
            self._source = None

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

    def __init__(self, query: TextQuery, open_file: Open, pieces: Pieces | None) -> None:
        super().__init__(query, None, open_file)
        self._pieces = pieces

    def _opened(self, _named: bytes) -> Source | None:
        self._path = ""
        self._skip_to = 0 if self._after is None else self._after[1]
        return Source(self._open(""))

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
