"""Small files and folders as they were last read: what is equal is given as the same object, with what was made of it.

All is read anew each time; nothing here decides whether it has changed but its bytes, or its names, sizes and times.
"""

from __future__ import annotations

from collections.abc import Hashable

from handrail.ports import Content, Entry, Listing
from handrail.words import PlaceKind

MOST_BYTES = 8192
MOST_FILES = 256
MOST_ENTRIES = 500
MOST_FOLDERS = 64
Row = tuple[str, PlaceKind, int, int]  # of an entry: what it is made from
Counts = tuple[int, int, int, int]  # what is not shown, by reason


class Recent:
    """What stood in the last small files and folders, in memory only."""

    __slots__ = ("_contents", "_listings")

    def __init__(self) -> None:
        self._contents: dict[int, Content] = {}  # by inode, which two files may share: the bytes decide
        self._listings: dict[Hashable, tuple[list[Row], Counts, Listing]] = {}

    def content(self, inode: int, data: bytes, mtime_ns: int) -> Content:
        """Give what was read, as the object it was before where nothing changed."""
        known = self._contents.get(inode)
        if known is not None and known.mtime_ns == mtime_ns and known.data == data:
            return known
        if len(self._contents) >= MOST_FILES:
            self._contents.clear()
        made = self._contents[inode] = Content(data, mtime_ns, {})
        return made

    def listing(self, asked: Hashable, rows: list[Row], counts: Counts) -> Listing:
        """Give what was listed, as the object it was before where nothing changed; `asked` tells of what, and how."""
        if len(rows) > MOST_ENTRIES:
            return Listing(tuple([Entry(*row) for row in rows]), *counts)
        known = self._listings.get(asked)
        if known is not None and known[1] == counts and known[0] == rows:
            return known[2]
        if len(self._listings) >= MOST_FOLDERS:
            self._listings.clear()
        made = Listing(tuple([Entry(*row) for row in rows]), *counts, made={})
        self._listings[asked] = rows, counts, made
        return made
