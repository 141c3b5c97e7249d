"""Which invisible characters belong to an emoji, and so may be shown as they are. Pure.

Only these: the selector of the emoji style right behind a symbol that has one, the joiner between two pictures, and the
selector of a keycap. Anywhere else the same characters make two names look the same.
"""

from __future__ import annotations

from functools import cache

EMOJI_STYLE, JOINER, KEYCAP = "\ufe0f", "\u200d", "\u20e3"
_JOINED = frozenset("♀♂⚕⚖✈❤⬛")  # signs that are joined with pictures
_KEYS = frozenset("0123456789#*")
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
# Unicode's property Emoji, but for signs that stand in ordinary text, the letters of flags and the skin tones.
_RANGES = """
2600-2604 260e 2611 2614-2615 2618 261d 2620 2622-2623 2626 262a 262e-262f 2638-263a 2640 2642 2648-2653
265f-2660 2663 2665-2666 2668 267b 267e-267f 2692-2697 2699 269b-269c 26a0-26a1 26a7 26aa-26ab 26b0-26b1 26bd-26be
26c4-26c5 26c8 26ce-26cf 26d1 26d3-26d4 26e9-26ea 26f0-26f5 26f7-26fa 26fd 2702 2705 2708-270d 270f 2712 2714 2716
271d 2721 2728 2733-2734 2744 2747 274c 274e 2753-2755 2757 2763-2764 2795-2797 27a1 27b0 27bf 2934-2935 2b05-2b07
2b1b-2b1c 2b50 2b55 1f004 1f0cf 1f170-1f171 1f17e-1f17f 1f18e 1f191-1f19a 1f201-1f202 1f21a 1f22f
1f232-1f23a 1f250-1f251 1f300-1f321 1f324-1f393 1f396-1f397 1f399-1f39b 1f39e-1f3f0 1f3f3-1f3f5 1f3f7-1f3fa
1f400-1f4fd 1f4ff-1f53d 1f549-1f54e 1f550-1f567 1f56f-1f570 1f573-1f57a 1f587 1f58a-1f58d 1f590 1f595-1f596
1f5a4-1f5a5 1f5a8 1f5b1-1f5b2 1f5bc 1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de 1f5e1 1f5e3 1f5e8 1f5ef 1f5f3 1f5fa-1f64f
1f680-1f6c5 1f6cb-1f6d2 1f6d5-1f6d8 1f6dc-1f6e5 1f6e9 1f6eb-1f6ec 1f6f0 1f6f3-1f6fc 1f7e0-1f7eb 1f7f0 1f90c-1f93a
1f93c-1f945 1f947-1f9ff 1fa70-1fa7c 1fa80-1fa8a 1fa8e-1fac6 1fac8 1facd-1fadc 1fadf-1faea 1faef-1faf8
"""


def belongs(text: str, place: int) -> bool:
    """Whether the invisible character at a place is part of an emoji that can be seen."""
    char, before, after = text[place], text[place - 1 : place], text[place + 1 : place + 2]
    if char == JOINER:
        if before == EMOJI_STYLE or before in _SKIN_TONES:
            before = text[place - 2 : place - 1]
        return _is_picture(before) and _is_picture(after)
    if char == EMOJI_STYLE and before in _KEYS:
        return after == KEYCAP
    return char == EMOJI_STYLE and _is_base(before)


def _is_picture(char: str) -> bool:
    """Whether a character is drawn as a picture by itself, so that two of them are not the joined one."""
    return char in _JOINED or (char >= "\U0001f000" and _is_base(char))


def _is_base(char: str) -> bool:
    return char in _bases() and char.isprintable()


@cache
def _bases() -> frozenset[str]:
    ends = (item.partition("-") for item in _RANGES.split())
    return frozenset(chr(code) for first, _, last in ends for code in range(int(first, 16), int(last or first, 16) + 1))
