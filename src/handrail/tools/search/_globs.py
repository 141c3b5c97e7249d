"""Globs as the search tools take them: `*` and `?` stay inside a name, `**` crosses folders. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from handrail.errors import Code, Problem
from handrail.globs import Piece, regex_of

MAX_ALTERNATIVES = 256


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob made ready to use."""

    fits: re.Pattern[str] | None  # None: everything fits
    name_glob: str  # what every fitting path's last name fits too; "" where that cannot be said
    hidden: bool  # it names a hidden file or folder by its dot


def read_glob(text: str | None) -> Glob:
    """Read a glob; a plain name fits at any depth, a leading `/` anchors, a trailing `/` means all that lies below.

    INVALID_ARGS with the place where it cannot be read.
    """
    if text is None or text.strip("/") in ("", "*", "**", "**/*"):
        return Glob(None, "", False)
    anchored = text.removeprefix("./").removeprefix("/")
    if anchored.endswith("/"):
        anchored += "**"
    elif "/" not in anchored and not text.startswith(("/", "./")):
        anchored = f"**/{anchored}"
    branches = [f"{branch}" for branch in _expanded(anchored, text)]
    hidden = any(part.startswith(".") for branch in branches for part in branch.split("/"))
    names = {branch.rpartition("/")[2] for branch in branches}
    name = names.pop() if len(names) == 1 else ""
    pattern = "|".join(_translated(branch, text) for branch in branches)
    return Glob(re.compile(pattern, re.DOTALL), "" if "**" in name else name, hidden)


def _expanded(glob: str, whole: str) -> list[str]:
    """Write out `{a,b}`, the innermost first."""
    done: list[str] = []
    todo = [glob]
    while todo:
        branch = todo.pop()
        found = re.search(r"(?<!\\)\{([^{}]*)\}", branch)
        if found is None:
            if re.search(r"(?<!\\)[{}]", branch):
                raise _unreadable(whole, "a brace is not closed or not opened", max(whole.find("{"), whole.find("}")))
            done.append(branch)
            continue
        todo += [f"{branch[: found.start()]}{choice}{branch[found.end() :]}" for choice in found[1].split(",")]
        if len(todo) + len(done) > MAX_ALTERNATIVES:
            raise _unreadable(whole, f"more than {MAX_ALTERNATIVES} alternatives", whole.find("{"))
    return sorted(set(done))


_PIECE = re.compile(
    r"(?P<deep>(?:(?<=/)|^)\*\*/)|(?P<below>/\*\*$)|(?P<cross>\*\*)|(?P<star>\*)|(?P<one>\?)"
    r"|(?P<set>\[[!^]?\]?[^\]]*\])|(?P<open>\[)|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)


def _translated(glob: str, whole: str) -> str:
    return regex_of(piece for match in _PIECE.finditer(glob) for piece in _pieces(match, whole))


def _pieces(match: re.Match[str], whole: str) -> Iterator[Piece]:
    kind = match.lastgroup or ""
    if kind in ("deep", "cross", "star"):
        yield kind, ""
    elif kind == "below":
        yield from (("fixed", "/."), ("cross", ""))
    elif kind == "one":
        yield "fixed", "[^/]"
    elif kind == "set":
        yield "fixed", _character_set(match[0], whole)
    elif kind == "open":
        raise _unreadable(whole, "`[` is not closed; write `\\[` for the sign itself", whole.find("["))
    else:
        yield "fixed", re.escape(match[kind])


def _character_set(text: str, whole: str) -> str:
    negated = text[1] in "!^"
    body = text[2 if negated else 1 : -1]
    if not body:
        raise _unreadable(whole, f"{text} names no character", whole.find(text))
    escaped = re.sub(r"([\\\[\]&~|^])", r"\\\1", body)
    pattern = f"(?!/)[{'^' if negated else ''}{escaped}]"
    try:
        re.compile(pattern)
    except re.error as error:
        raise _unreadable(whole, f"{text}: {error.msg}", whole.find(text)) from None
    return pattern


def _unreadable(glob: str, why: str, position: int) -> Problem:
    return Problem(
        Code.INVALID_ARGS, f"The glob {glob!r} cannot be read: {why} (position {position}).", position=position
    )
