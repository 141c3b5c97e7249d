"""The files that redirects and a few well-known commands write or read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from handrail.policy.shell.model import Redirect, Sure, Word
from handrail.words import noun

_STREAMS = re.compile(r"/dev/(?:null|stdin|stdout|stderr|zero|fd/[0-9]+)")
_NETWORK = re.compile(r"/dev/(?:tcp|udp)/.*")
_OPERANDS = frozenset({"tee", "touch", "mkdir", "truncate"})
_LAST = frozenset({"cp", "mv", "install", "ln"})


@noun
class Found:
    """A file that a line names."""

    path: str
    writes: bool
    doubt: str = ""
    makes: bool = False  # a folder, where none is: one that is there stays as it is


def redirected(redirect: Redirect) -> Found | None:
    """The file behind a redirect; None for another stream or a text in the line."""
    operator, target = redirect.operator, redirect.target
    if operator.startswith("<<"):
        return None
    if operator in (">&", "<&") and re.fullmatch(r"[0-9]*-?", target.text):
        return None
    return Found(target.text, not operator.startswith("<") or operator == "<>", _doubt(target))


def _doubt(target: Word) -> str:
    if target.sure is not Sure.LITERAL:
        return f"what {target.text} stands for is not known"
    if _NETWORK.match(target.text):
        return f"{target.text} is a connection"
    return ""


def is_stream(path: str) -> bool:
    """Whether a path is a stream of the program itself."""
    return _STREAMS.fullmatch(path) is not None


def is_private(path: str) -> bool:
    """Whether a path lies where only the sandbox sees it, unless it lies beneath a root."""
    return path.startswith("/tmp/")  # noqa: S108


def written(words: Sequence[Word]) -> Iterator[Found]:
    """What well-known commands write by their arguments."""
    name = words[0].text.rsplit("/", 1)[-1]
    operands = [word for word in words[1:] if not word.text.startswith("-")]
    if name in _OPERANDS:
        yield from (Found(word.text, True, _doubt(word), name == "mkdir") for word in operands)
    elif name in _LAST and operands:
        yield Found(operands[-1].text, True, _doubt(operands[-1]))
    elif name == "dd":
        yield from (Found(word.text[3:], True, _doubt(word)) for word in words if word.text.startswith("of="))
    elif name == "sort":
        yield from _output(words)


def _output(words: Sequence[Word]) -> Iterator[Found]:
    for word, following in zip(words, (*words[1:], None), strict=True):
        if word.text in ("-o", "--output") and following is not None:
            yield Found(following.text, True, _doubt(following))
        elif word.text.startswith("--output="):
            yield Found(word.text[9:], True, _doubt(word))
        elif re.fullmatch(r"-[a-zA-Z]*o.+", word.text):
            yield Found(word.text[word.text.index("o") + 1 :], True, _doubt(word))
