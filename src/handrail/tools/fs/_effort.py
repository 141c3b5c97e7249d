"""How much one call may look at and compare: what a few kilobytes ask for must end, and end when nobody waits."""

from __future__ import annotations

from handrail.errors import Code, Problem

MOST_STEPS = 200_000_000  # about as many as a few seconds hold; a step is a line or some characters looked at
CHARS = 16  # characters that are looked through in one step where no line is taken by itself


class Effort:
    """Counts the steps of one call; refuses what takes too many, and what was given up meanwhile."""

    __slots__ = ("given_up", "spent")

    def __init__(self) -> None:
        self.spent = 0
        self.given_up = False

    def spend(self, steps: int) -> None:
        """Take note of steps before they are made."""
        self.spent += steps
        if self.given_up:
            raise Problem(Code.CANCELLED, "Nobody waits for this any more.")
        if self.spent > MOST_STEPS:
            raise Problem(
                Code.INVALID_ARGS,
                "Finding these places takes more comparing than one call may do. Send fewer edits or hunks in one "
                "call, and quote lines that do not stand in the file so often.",
                most_steps=MOST_STEPS,
            )

    def look_through(self, text: str) -> None:
        """Take note of one look through a text."""
        self.spend(len(text) // CHARS + 1)
