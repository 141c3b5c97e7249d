"""truncate_text: never over the limit, never half a character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import Code
from handrail.output.redact import Redactor
from handrail.tools.util._cut import byte_length, cut_text, is_boundary
from handrail.tools.util.truncate_text import Truncated, truncate_text
from workspaces import refused

WOMAN = "\U0001f469\u200d\U0001f4bb"  # woman, joiner, laptop
FLAGS = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
SIGNS = ["a", "é", "e\u0301", "€", WOMAN, FLAGS[:2], "\r\n", "\n", "👍🏽", "한", "\t"]
TEXT = st.lists(st.sampled_from(SIGNS), max_size=60).map("".join)
KEEP = st.sampled_from(["head", "tail", "middle"])


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"max_chars": 10}, "0123456789"),
        ({"max_chars": 6}, "01234…"),
        ({"max_chars": 6, "keep": "tail"}, "…56789"),
        ({"max_chars": 6, "keep": "middle"}, "…3456…"),
        ({"max_bytes": 6}, "012…"),
        ({"max_chars": 1}, "…"),
        ({"max_bytes": 2}, "01"),
        ({"max_chars": 0}, ""),
    ],
)
async def test_a_text_is_cut_where_asked(args: dict[str, Any], text: str) -> None:
    """The mark counts too; without room for it there is none."""
    answer = await truncate_text.function(Redactor(), "0123456789", **args)
    assert answer.content == text
    kept = len(text.replace("…", ""))
    assert answer.data == Truncated(text, kept < 10, 10, 10 - kept)


async def test_where_there_is_room_the_mark_says_how_long_the_text_was() -> None:
    """A reader learns how much there was."""
    answer = await truncate_text.function(Redactor(), "x" * 1000, max_chars=200)
    assert answer.content.endswith("x[… cut from 1000 characters …]")
    assert len(answer.content) == 200


@pytest.mark.parametrize("args", [{}, {"max_chars": 3, "max_bytes": 3}])
async def test_exactly_one_limit_must_be_given(args: dict[str, int]) -> None:
    """Neither and both are INVALID_ARGS."""
    assert (await refused(truncate_text.function(Redactor(), "x", **args))).code is Code.INVALID_ARGS


async def test_a_cut_never_shows_half_of_a_secret() -> None:
    """What must be hidden is hidden before anything is cut."""
    answer = await truncate_text.function(Redactor(["correct-horse-battery"]), "x correct-horse-battery", max_chars=12)
    assert answer.content == "x ***REDACT…"


@given(TEXT, st.integers(0, 120), KEEP)
def test_the_result_is_never_over_the_limit(text: str, limit: int, keep: str) -> None:
    """A law, for characters and for bytes, whatever is kept."""
    assert len(cut_text(text, limit, None, keep)[0]) <= limit
    assert byte_length(cut_text(text, None, limit, keep)[0]) <= limit


@given(TEXT, st.integers(0, 120), KEEP)
def test_what_is_kept_is_a_part_of_the_text_cut_between_characters(text: str, limit: int, keep: str) -> None:
    """A law: no accent, joined emoji, flag or line break is torn, and the count of what was lost is right."""
    shorter, lost = cut_text(text, None, limit, keep)
    if lost == 0:
        assert shorter == text
        return
    kept = (
        shorter.replace("…", "")
        if "cut from" not in shorter
        else shorter.split("[… cut from")[keep == "tail"].split("…]")[-1]
    )
    start = {"head": 0, "tail": len(text) - len(kept)}.get(keep, text.find(kept))
    assert len(text) - len(kept) == lost
    assert text[start : start + len(kept)] == kept
    if keep != "middle":
        assert is_boundary(text, start)
        assert is_boundary(text, start + len(kept))


@pytest.mark.parametrize(
    ("text", "inside"),
    [(WOMAN, [1, 2]), (FLAGS, [1, 3]), ("e\u0301", [1]), ("\r\n", [1]), ("👍🏽", [1]), ("☂\ufe0f", [1])],
)
def test_a_visible_character_has_no_boundary_inside(text: str, inside: list[int]) -> None:
    """Of all the places in it, only these are forbidden."""
    assert [place for place in range(len(text) + 1) if not is_boundary(text, place)] == inside


def test_it_is_pure() -> None:
    """No touch, no permission."""
    assert (truncate_text.pure, truncate_text.permissions) == (True, ())
