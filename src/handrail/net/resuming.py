"""Going on with a body that was cut: only where the host proves that the rest belongs to what came. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from handrail.words import noun

_STRONG = re.compile(r'"[\x21\x23-\x7e]{1,256}"')
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
# A caller who asks for a part, or on conditions, is not given the parts of something else.
_CONDITIONS = frozenset({"range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"})


@noun
class Part:
    """What is known of a body whose beginning came."""

    url: str  # of the answer, after redirects
    status: int
    etag: str
    total: int | None  # bytes

    def asking(self, taken: int) -> dict[str, str]:
        """The headers that ask for the rest, and for nothing if it is the rest of something else."""
        return {"range": f"bytes={taken}-", "if-range": self.etag, "accept-encoding": "identity"}

    def continued(self, taken: int, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """Whether an answer is the rest, all of it, of the same body."""
        found = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if status != 206 or found is None or url != self.url or headers.get("ETag") != self.etag or _packed(headers):
            return False
        first, last, total = map(int, found.groups())
        return first == taken and last == total - 1 and self.total in (None, total)


def part_of(
    url: str, status: int, headers: Mapping[str, str], length: int | None, asked: Mapping[str, str]
) -> Part | None:
    """What makes it possible to go on with an answer after a cut; None where nothing would prove the rest."""
    etag = headers.get("ETag", "")
    ranges = headers.get("Accept-Ranges", "").strip().lower()
    if status != 200 or ranges != "bytes" or _STRONG.fullmatch(etag) is None or _packed(headers):
        return None
    return None if _CONDITIONS & asked.keys() else Part(url, status, etag, length)


def _packed(headers: Mapping[str, str]) -> bool:
    """Whether the bytes of a body are others than those that are handed on."""
    return headers.get("Content-Encoding", "").strip().lower() not in ("", "identity")
