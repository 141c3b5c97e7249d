"""display: what reaches the person's screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import Problem
from handrail.tools.talk.display import Shown, clean, display


class Kept:
    """A screen that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Mapping[str, Any]] = []

    def show(self, fields: Mapping[str, Any]) -> None:
        """Keep it."""
        self.shown.append(fields)


async def test_everything_given_is_shown_and_the_model_only_learns_that_it_was() -> None:
    """Content goes to the person, an acknowledgement to the model."""
    screen = Kept()
    given_fields = {"content": "# Done", "level": "success", "title": "T", "thought": "why", "evidence": ["a.md"]}
    answer = await display.function(screen, **given_fields)
    assert screen.shown == [given_fields]
    assert (answer.data, answer.content) == (Shown(), "Shown to the person.")


async def test_what_is_not_given_is_not_shown() -> None:
    """Only content and level are always there."""
    screen = Kept()
    parsed, _ = display.parse({"content": "hi"})
    await display.function(screen, **parsed)
    assert screen.shown == [{"content": "hi", "level": "info"}]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\x1b[31mred\x1b[0m!", "ared!"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jx\x9d0;t\x9cy", "xy"),
        ("\x1bcx\x1b(0y", "xy"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x00\x07\x08\x7f\x85x", "x"),
        ("user\u202etxt.exe\u2066", "usertxt.exe"),
        ("\x1b]unfinished", ""),
        ("é 漢 👩\u200d💻", "é 漢 👩\u200d💻"),
    ],
)
def test_control_characters_are_removed(text: str, safe: str) -> None:
    """Nothing that steers a terminal or reorders what is read; line breaks, tabs and letters stay."""
    assert clean(text) == safe


@given(st.text())
def test_no_control_character_is_ever_left(text: str) -> None:
    """A law, for every text."""
    left = clean(text)
    assert not any((ord(sign) < 32 and sign not in "\n\t") or 127 <= ord(sign) < 160 for sign in left)
    assert clean(left) == left


async def test_every_field_is_cleaned() -> None:
    """Title, thought and evidence too."""
    screen = Kept()
    await display.function(screen, "a\x07", title="b\x07", thought="c\x07", evidence=["d\x07"])
    assert screen.shown == [{"content": "a", "level": "info", "title": "b", "thought": "c", "evidence": ["d"]}]


@pytest.mark.parametrize(
    "args", [{"content": ""}, {"content": "x", "level": "loud"}, {"content": "x", "evidence": "a"}, {}]
)
def test_wrong_arguments_are_refused(args: dict[str, Any]) -> None:
    """Strict arguments."""
    with pytest.raises(Problem):
        display.parse(args)


def test_it_changes_nothing_in_the_world() -> None:
    """Low risk, a touch of itself alone."""
    assert (display.risk, display.changing, [kind.value for kind in display.permissions]) == (
        "low",
        False,
        ["tool.use"],
    )
