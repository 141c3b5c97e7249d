"""Lines that start themselves again and again: functions that multiply, found in one pass over the text.

There is no number of functions and no length of a body beyond which one is not looked at. Only nesting that no script
has ends the pass, and then the line counts as a bomb.
"""

from __future__ import annotations

import re
from collections.abc import Collection

BOMB = "the line starts itself again and again: a fork bomb"
_MAYBE = re.compile(r"\(\s*\)|\bfunction\b|\$\{?(?:0|BASH_SOURCE)\b")
# A string in double quotes that holds a substitution is read as if the quotes were not there.
_TOKENS = re.compile(
    r"""(?x) (?P<skip> (?<![^\s;&|()]) \# [^\n]* | &>>? | [<>]& | \\\n | [ \t\r]+ | [<>]+)
    | (?P<sign> \(\s*\) | && | \|\| | \|&? | [;&\n`(){}])
    | (?P<word> (?: \$'(?:[^'\\]|\\.)*' | '[^']*' | "(?:[^"\\$`]|\\.|\$(?!\())*" | \\. | \$\{[^\s{}]*\}
    | [^\s;&|(){}<>`] )+)""",
    re.DOTALL,
)
_QUOTES = re.compile(r"[\"'\\]")
_ITSELF = re.compile(r"\$\{?(?:0|BASH_SOURCE)\}?")
_ASSIGNS = re.compile(r"\w+\+?=")
_OPENS = frozenset({"while", "until", "for", "if", "case", "select"})
_CLOSES = frozenset({"done", "fi", "esac"})
_BEFORE = frozenset({"do", "then", "else", "elif", "!", "time", "eval", "command", "builtin", "exec", "coproc"})
_LINE = "$0"  # the line as a function of its own
_DEEP = 64


def multiplies(text: str) -> bool:
    """Whether a function, or the line, starts itself in the background or more than once in a pipe."""
    if _MAYBE.search(text) is None:
        return False
    walk = _Walk()
    for found in _TOKENS.finditer(text):
        if found.lastgroup == "sign":
            walk.sign(found[0])
        elif found.lastgroup == "word":
            walk.word(_QUOTES.sub("", found[0]))
        if len(walk.around) > _DEEP:
            return True
    walk.sign(";")
    return _grows(walk.calls, walk.multiplied)


class _Group:
    """What a group, a compound or a body has started so far."""

    __slots__ = ("function", "listed", "piped", "segment", "sign", "started")

    def __init__(self, sign: str, function: str) -> None:
        self.sign, self.function = sign, function
        self.segment: set[str] = set()  # between two pipes
        self.piped: dict[str, int] = {}  # in how many segments of the pipeline
        self.listed: set[str] = set()  # in the chain of && and ||
        self.started: set[str] = set()  # before

    def ends_segment(self) -> None:
        for name in self.segment:
            self.piped[name] = self.piped.get(name, 0) + 1
        self.segment = set()

    def ends_pipeline(self) -> set[str]:
        """Go on after a pipeline, and give what it starts more than once."""
        self.ends_segment()
        self.listed |= self.piped.keys()
        twice = {name for name, count in self.piped.items() if count > 1}
        self.piped = {}
        return twice


class _Walk:
    """Where the pass stands, and who was seen to call whom."""

    def __init__(self) -> None:
        self.here = _Group("", _LINE)
        self.around: list[_Group] = []
        self.first = True  # a command may start here
        self.called = ""  # the command just read: a call, unless parentheses follow
        self.before = ""  # the word before
        self.named = ""  # a function whose body is to come
        self.calls: dict[str, set[str]] = {}
        self.multiplied: set[tuple[str, str]] = set()

    def word(self, text: str) -> None:
        self._call()
        if self.before == "function" and not self.named:
            self.named, self.before = text, ""
            return
        self.before = text
        if not self.first:
            return
        if text in _OPENS:
            self._open(text)
        elif text in _CLOSES:
            self._close(_OPENS)
        elif text != "function" and text not in _BEFORE and not _ASSIGNS.match(text):
            self.called = _LINE if _ITSELF.fullmatch(text) else text
            self.first, self.named = False, ""

    def sign(self, sign: str) -> None:
        if sign[0] == "(" and sign[-1] == ")":
            self.named, self.called, self.first = self.named or self.before, "", True
            return
        self._call()
        if sign == "(" or (sign == "{" and (self.first or self.named)):
            self._open(sign)
        elif sign == ")":
            self._close(("(",))
        elif sign == "}" and self.first:
            self._close(("{",))
        elif sign in ("|", "|&"):
            self.here.ends_segment()
            self.first = True
        elif sign not in "{}" and not (sign == "\n" and self.named):
            self._ends(sign)
        self.before = ""

    def _call(self) -> None:
        if self.called:
            self.here.segment.add(self.called)
            self.calls.setdefault(self.here.function, set()).add(self.called)
            self.called = ""

    def _open(self, sign: str) -> None:
        self.around.append(self.here)
        self.here = _Group(sign, self.named or self.here.function)
        self.first, self.named = True, ""

    def _close(self, signs: Collection[str]) -> None:
        self._ends(";")
        if self.here.sign in signs:
            closed, self.here = self.here, self.around.pop()
            if closed.function == self.here.function:  # else it was a body, which starts nothing yet
                self.here.segment |= closed.started
            self.first = False

    def _ends(self, sign: str) -> None:
        """End a pipeline, and what stands before it in its chain."""
        here = self.here
        many = here.ends_pipeline()
        if sign == "&":
            many, here.listed = here.listed, set()
        self.multiplied.update((here.function, name) for name in many)
        if sign not in ("&&", "||"):
            here.started |= here.listed
            here.listed = set()
        self.first = True


def _grows(calls: dict[str, set[str]], multiplied: set[tuple[str, str]]) -> bool:
    """Whether what is multiplied lies on a way that leads back to itself."""
    if not multiplied:
        return False
    after = {name: {other for other in called if other in calls} for name, called in calls.items()}
    ahead: dict[str, set[str]] = {name: set() for name in after}
    for name, called in after.items():
        for other in called:
            ahead[other].add(name)
    waiting = [name for name in after if not after[name] or not ahead[name]]
    while waiting:
        name = waiting.pop()
        if name not in after:
            continue
        for links, back in ((after.pop(name), ahead), (ahead.pop(name), after)):
            for other in links - {name}:
                back[other].discard(name)
                if not back[other]:
                    waiting.append(other)
    return any(one in after and other in after for one, other in multiplied)
