"""How quick a disk is: whether to wait for it in place or in a thread. Pure, times are passed in.

A thread costs more than a quick disk does, and an event loop must not wait for a slow one. So what is unknown is slow,
a disk that answered quickly several times in a row is quick, and one slow answer makes it slow again: for longer each
time, unless many quick ones came before it. However a disk behaves, few of the waits in place are slow ones.
"""

from __future__ import annotations

SLOW_SECONDS = 0.001
FIRST, MOST = 8, 128  # quick answers in a row that make a disk quick
LONG = 32  # quick answers in place after which a slow one is forgiven


class Pace:
    """What is known of one disk."""

    __slots__ = ("_in_place", "_left", "_needed", "quick")

    def __init__(self) -> None:
        self.quick = False
        self._needed = self._left = FIRST
        self._in_place = 0

    def took(self, seconds: float) -> None:
        """Take note of how long it took to answer."""
        if seconds >= SLOW_SECONDS:
            self._slow()
        elif self.quick:
            self._in_place += 1
        else:
            self._left -= 1
            self.quick = self._left <= 0

    def _slow(self) -> None:
        if self.quick:
            self._needed = FIRST if self._in_place >= LONG else min(self._needed * 2, MOST)
        self.quick = False
        self._left, self._in_place = self._needed, 0
