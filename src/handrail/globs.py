"""Regular expressions of globs, made so that none tries the same text twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable

Piece = tuple[str, str]  # kind and, of a `fixed` one, the regular expression


def regex_of(pieces: Iterable[Piece]) -> str:
    """Give the regular expression, to be read with DOTALL, of the pieces of a glob.

    `deep` is any number of folders, `cross` anything, `star` anything inside a name, `fixed` the regular expression of
    a text of known length. Whatever stands before a `deep` or `cross` is taken where it first ends, and for good
    (`(?>…)`): these make up for the rest. So time grows with the path's length alone, also for globs that are made to
    be slow.
    """
    done, stretch = "", _Stretch(deep=False)
    for kind, text in pieces:
        if kind in ("deep", "cross"):
            done += f"(?>{stretch.regex(last=False)})"
            stretch = _Stretch(deep=True)
        if kind in ("cross", "star"):  # anything is any number of folders and a part of a name
            stretch.star()
        stretch.fixed += text
    return done + stretch.regex(last=True)


class _Stretch:
    """What stands between two `**`: fixed parts with single stars between them."""

    def __init__(self, *, deep: bool) -> None:
        self._deep, self._done, self._starred = deep, "", False
        self.fixed = ""

    def star(self) -> None:
        """Begin a new fixed part after a star."""
        self._close("(?>[^/]*?{})")
        self._starred = True

    def regex(self, *, last: bool) -> str:
        """Give the whole; where more follows, the first end is the best."""
        if self._deep and self._starred and not self._done and not self.fixed:
            return ".*" if last else ""
        self._close("[^/]*{}" if last else "[^/]*?{}")
        folders = "(?:[^/]*+/)*" if last else "(?:[^/]*+/)*?"
        return (folders if self._deep else "") + self._done

    def _close(self, starred: str) -> None:
        self._done += starred.replace("{}", self.fixed) if self._starred else self.fixed
        self.fixed = ""
