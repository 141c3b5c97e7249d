"""HTML taken apart into texts and tags, in time that grows with its length alone. Pure.

Made for foreign pages: nothing is fetched, followed or run, and what is malformed is read as browsers read it where
that is simple, and as text otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape as _unescape
from typing import NamedTuple

_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)((?>(?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*))>")
_SIMPLE = re.compile(r"<(/?)([A-Za-z][^\s/>]*+)([^>]*+)>")
# A name without a value is taken, too, or each of its letters would be tried as the start of another name.
_ATTRIBUTE = re.compile(r"([^\s=\"'/>]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++)))?")
_NO_CHARACTER = re.compile(r"&#[0-9]{12,}+;?")  # too long a number for any character, or for `int`
# What stands in these is no part of the page.
_RAW = {
    name: re.compile(f"</{name}[\\s/>]", re.IGNORECASE)
    for name in ("script", "style", "template", "noscript", "iframe", "textarea", "xmp", "noembed", "noframes", "svg")
}


class Token(NamedTuple):
    """A text, or a tag with its attributes as they were written."""

    kind: str  # text | open | close
    value: str  # text with its entities read, or the tag's name in lower case
    rest: str = ""

    def attribute(self, name: str) -> str:
        """Give an attribute of a tag; empty where it has none."""
        for found in _ATTRIBUTE.finditer(self.rest):
            if found[1].lower() == name:
                return unescape(found[2] or found[3] or found[4] or "").strip()
        return ""


def unescape(text: str) -> str:
    """Read the entities of a text; a number that stands for no character becomes the replacement character."""
    try:
        return _unescape(text)
    except ValueError:
        return _unescape(_NO_CHARACTER.sub("\ufffd", text))


def tokens(html: str) -> Iterator[Token]:
    """Give texts and tags in order; scripts, styles and comments are left out."""
    at, tag, last = 0, _TAG, html.rfind(">")
    while 0 <= (start := html.find("<", at)) < last:
        if start > at:
            yield Token("text", unescape(html[at:start]))
        if html.startswith("<!--", start):
            at = _after(html, "-->", start + 4)
        elif html.startswith(("<!", "<?"), start):
            at = _after(html, ">", start)
        elif (found := tag.match(html, start)) or (found := _SIMPLE.match(html, start)):
            # A quote that never ends: from here on quotes mean nothing, or each tag would look for its end anew.
            tag = found.re
            name = found[2].lower()
            at = found.end()
            yield Token("close" if found[1] else "open", name, found[3])
            if not found[1] and name in _RAW:
                at = _end_of(html, name, at)
        elif html.startswith("</", start):
            at = _after(html, ">", start)
        else:
            yield Token("text", "<")
            at = start + 1
    if at < len(html):
        yield Token("text", unescape(html[at:]))


def _after(html: str, mark: str, start: int) -> int:
    end = html.find(mark, start)
    return len(html) if end < 0 else end + len(mark)


def _end_of(html: str, name: str, start: int) -> int:
    found = _RAW[name].search(html, start)
    return len(html) if found is None else found.start()
