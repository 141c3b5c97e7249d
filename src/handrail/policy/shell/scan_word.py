"""Read one word exactly: its text after quote removal, and how sure that text is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from handrail.policy.shell.model import MAX_DEPTH, NotUnderstoodError, Sure, Word

if TYPE_CHECKING:
    from handrail.policy.shell.scan import Scanner

_WHOLE = re.compile(r"[A-Za-z0-9_@%+=:,./^-]+(?=[ \t\n;&|()<>]|\Z)")  # most words: nothing to remove or expand
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./^!\x80-\xff#\]-]+")
_SINGLE = re.compile(r"'([^'\x00]*)'")
_QUOTED = re.compile(r'[^"$`\\\x00]+')
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?$#!@*-])")
# Removal of prefix and suffix, replacement and defaults with literal text: nothing in them is evaluated.
_BRACED = re.compile(
    r"\$\{(?:#?[A-Za-z_][A-Za-z0-9_]*|[A-Za-z_][A-Za-z0-9_]*(?::?[-+]|%%?|##?|//?)[A-Za-z0-9_./*?+, -]*)\}"
)
_NUMBERS = re.compile(r"\$\(\([0-9 +*/%-]*\)\)")
_ENDS = " \t\n;&|()<>"


class _Pieces:
    """The pieces of a word as they come."""

    __slots__ = ("braces", "sure", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []  # none is empty
        self.sure = Sure.LITERAL
        self.braces: list[str] = []  # what stands unquoted since a brace was opened

    def expand(self, text: str, sure: Sure) -> None:
        """Add what the shell will expand; one word with a literal start that is no dash cannot be an option."""
        first = self.texts[0][0] if self.texts else "-"
        self.sure = max(self.sure, Sure.SAFE if sure is Sure.ONE and first != "-" else sure)
        self.texts.append(text)


def read_word(line: Scanner, *, assigned: bool = False) -> Word:
    """Read the word that starts here."""
    start = line.at
    if whole := _WHOLE.match(line.source, start):
        line.at = whole.end()
        return Word(whole[0], Sure.LITERAL, start, line.at)
    pieces = _Pieces()
    source = line.source
    while (line.at < len(source) and source[line.at] not in _ENDS) or source.startswith("<(", line.at):
        _piece(line, pieces, line.at == start, assigned=assigned)
    if line.at == start:
        raise NotUnderstoodError("a word is missing")
    braces = "".join(pieces.braces)
    if "," in braces or ".." in braces:
        pieces.sure = max(pieces.sure, Sure.ANY)
    text = "".join(pieces.texts) if pieces.sure is Sure.LITERAL else source[start : line.at]
    return Word(text, pieces.sure, start, line.at)


def _piece(line: Scanner, pieces: _Pieces, first: bool, *, assigned: bool) -> None:
    source, at = line.source, line.at
    sign = source[at]
    if plain := _PLAIN.match(source, at):
        line.at = plain.end()
        pieces.texts.append(plain[0])
        if pieces.braces:
            pieces.braces.append(plain[0])
    elif sign == "'":
        _take(line, _SINGLE.match(source, at), pieces)
    elif sign == '"':
        _double(line, pieces)
    elif sign == "$":
        _dollar(line, pieces, quoted=False)
    elif sign == "\\":
        _escaped(line, pieces)
    elif sign in "*?[":
        line.at += 1
        _glob(line, pieces, sign, first)
    elif sign in "{}":
        line.at += 1
        pieces.texts.append(sign)
        pieces.braces.append(sign)
    elif sign == "~":
        line.at += 1
        pieces.expand("~", Sure.SAFE) if first or assigned else pieces.texts.append("~")
    elif source.startswith("<(", at):
        _process(line, pieces)
    else:
        raise NotUnderstoodError("a sign that is not followed")


def _take(line: Scanner, found: re.Match[str] | None, pieces: _Pieces) -> None:
    if found is None:
        raise NotUnderstoodError("a quote is not closed")
    line.at = found.end()
    if found[1]:
        pieces.texts.append(found[1])


def _glob(line: Scanner, pieces: _Pieces, sign: str, first: bool) -> None:
    alone = first and sign == "[" and (line.at >= len(line.source) or line.source[line.at] in " \t\n")
    if alone:
        pieces.texts.append(sign)
    else:
        # What a pattern finds starts as the pattern does; one that starts with a sign may find an option.
        first_sign = pieces.texts[0][0] if pieces.texts else "-"
        pieces.expand(sign, Sure.ANY if first_sign == "-" else Sure.SAFE)


def _escaped(line: Scanner, pieces: _Pieces) -> None:
    following = line.source[line.at + 1 : line.at + 2]
    if following in ("", "\n") or following < " " or following >= "\x7f":
        raise NotUnderstoodError("a line that goes on within a word")
    line.at += 2
    pieces.texts.append(following)


def _double(line: Scanner, pieces: _Pieces) -> None:
    """A string in double quotes, with its expansions."""
    source = line.source
    line.at += 1
    while True:
        if found := _QUOTED.match(source, line.at):
            line.at = found.end()
            pieces.texts.append(found[0])
        sign = source[line.at : line.at + 1]
        if sign == '"':
            line.at += 1
            return
        if sign == "$":
            _dollar(line, pieces, quoted=True)
        elif sign == "\\" and source[line.at + 1 : line.at + 2] not in ("", "\n"):
            following = source[line.at + 1]
            pieces.texts.append(following if following in '$`"\\' else f"\\{following}")
            line.at += 2
        else:
            raise NotUnderstoodError("backticks, or a quote that is not closed")


def _dollar(line: Scanner, pieces: _Pieces, *, quoted: bool) -> None:
    source, at = line.source, line.at
    # "$@" is many words even in quotes.
    sure = Sure.ONE if quoted and not source.startswith(("$@", "$*"), at) else Sure.ANY
    if source.startswith("$((", at):
        found = _NUMBERS.match(source, at)
        if found is None:
            raise NotUnderstoodError("arithmetic with names may run commands")
        line.at = found.end()
        pieces.expand(found[0], sure)
    elif source.startswith("$(", at):
        line.at += 2
        _commands(line)
        pieces.expand(source[at : line.at], sure)
    elif found := _VARIABLE.match(source, at) or _BRACED.match(source, at):
        line.at = found.end()
        pieces.expand(found[0], sure)
    elif quoted and source[at + 1 : at + 2] in (" ", '"', ".", "/", "|", ")", ",", ":", "%", "^", "\\"):
        line.at += 1
        pieces.texts.append("$")
    else:
        raise NotUnderstoodError("an expansion that is not followed")


def _process(line: Scanner, pieces: _Pieces) -> None:
    """What reads the output of commands as if it were a file."""
    if line.sh:
        raise NotUnderstoodError("sh has no <(")
    start = line.at
    line.at += 2
    _commands(line)
    pieces.expand(line.source[start : line.at], Sure.SAFE)


def _commands(line: Scanner) -> None:
    """The commands of a substitution, up to its closing parenthesis."""
    if len(line.scope) > MAX_DEPTH or line.pending:
        raise NotUnderstoodError("nested too deeply, or after a here-document")
    outer, line.scope = line.scope, (*line.scope, f"${line.number()}")
    line.read_list("")
    line.scope = outer
    if not line.source.startswith(")", line.at) or line.pending:
        raise NotUnderstoodError("a substitution without its end")
    line.at += 1
