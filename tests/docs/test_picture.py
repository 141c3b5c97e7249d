"""README's picture shows what the tour says today."""

from __future__ import annotations

import html
import re
import runpy
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs" / "images"
# What is another one each time: ids, hashes, folders, moments and how long something took.
CHANGING = re.compile(
    r"[0-9a-f]{8}(?:[0-9a-f-]*[0-9a-f])?|apr_\w+|tour-\w+|\d[\d:.-]*(?= UTC| ms| min| s\b)|\d{4}-\d\d-\d\d"
)


def lines(picture: str) -> list[str]:
    """The words of a picture, line by line."""
    found: dict[str, list[str]] = {}
    for line, text in re.findall(r'clip-path="url\(#tour-line-(\d+)\)">([^<]*)</text>', picture):
        found.setdefault(line, []).append(html.unescape(text).replace("\xa0", " ").strip())
    return [CHANGING.sub("…", " ".join(" ".join(texts).split())) for texts in found.values()]


def test_the_picture_shows_what_the_tour_says() -> None:
    """Drawn again, it is the same but for ids and times; `make picture` draws it anew."""
    drawn = runpy.run_path(str(IMAGES / "make.py"))["picture"]()
    shown = lines((IMAGES / "tour.svg").read_text(encoding="utf-8"))
    assert len(shown) > 30
    assert lines(drawn) == shown
