"""Globs as the reference filesystem server reads them, all of them by the same rules: those of `minimatch` with `dot`.

`*` and `?` stay inside a name, hidden ones too; `**` crosses folders where it is a whole part, and takes a name where
it is the last one; `{a,b}`, `[a-z]`, `\\`, and a leading `!` that turns the whole around. What it knows besides is
refused with its name, and so is what it would pass over because it is broken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from handrail.errors import Code, Problem
from handrail.globs import Piece, regex_of
from handrail.words import noun

MOST_CHARS = 1024  # of one glob
MOST_FORMS = 256  # of one, its braces written out
MOST_WRITTEN = 16_384  # characters of all these forms; of all globs that leave something out, three times as many
_OPEN, _SHUT, _COMMA = "\0", "\1", "\2"  # braces and commas that stand for themselves, while others are written out
_KEPT = str.maketrans({_OPEN: "\\{", _SHUT: "\\}", _COMMA: ","})
_BRACES = re.compile(r"\{([^{}]*)\}")
_SEQUENCE = re.compile(r"(?:(-?\d+)\.\.(-?\d+)|([A-Za-z])\.\.([A-Za-z]))(?:\.\.(-?\d+))?", re.ASCII)
_CHOICE = re.compile(r"(?<!\\)[?*+@!]\([^()]*\)")
_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<star>\*+)|(?P<one>\?)|\[(?P<not>[!^]?)(?P<set>(?:\]|\\.|[^]\\])(?:\\.|[^]\\])*)\]"
    r"|(?P<open>\[)|(?P<plain>.)",
    re.DOTALL,
)
# Globs that our own search reads alike, but for how deep a plain name is looked for.
_ALIKE = re.compile(r"(?:[\w.*?~ /+(),&'=%$-]|\[[!^]?[\w.]+(?:-[\w.]+)*\]|\{[\w.*?~ -]*(?:,[\w.*?~ -]*)+\})+")
_ODD_PART = re.compile(r"(?:^|/)(?:\.{0,2}(?:/|$)|\*\*[^/]|[^/]+\*\*)")


@noun
class Glob:
    """A glob made ready to use."""

    fitting: re.Pattern[str]
    turned: bool  # by a leading `!`: what does not fit, fits
    depth: int | None  # names that a fitting path has at most; None: any number
    wide: str  # one that our own search reads: all that fits this one fits it, too
    size: int  # characters of all its forms

    def fits(self, path: str) -> bool:
        """Whether a path below the folder fits."""
        return (self.fitting.fullmatch(path) is None) is self.turned


@lru_cache(256)
def read_glob(text: str) -> Glob:
    """Read a glob; INVALID_ARGS with what is not understood."""
    if not text or len(text) > MOST_CHARS:
        raise _refused(text[:40], f"it has {len(text)} characters, and 1 to {MOST_CHARS} are taken")
    if text[0] == "#":
        raise _refused(text, "a leading `#` makes it a comment; write `\\#` for the sign itself")
    plain = text.lstrip("!")
    choices = plain if "[" in plain else _CHOICE.sub(_as_braces, plain)
    if found := _CHOICE.search(choices):
        raise _refused(text, f"{found[0]} is not understood here; write choices as {{a,b}}")
    turned = (len(text) - len(plain)) % 2 == 1
    written = _written_out(choices, text)
    if (size := sum(map(len, written))) > MOST_WRITTEN:
        raise _refused(text, f"with its braces written out it has more than {MOST_WRITTEN} characters")
    forms = [parts for form in written if (parts := _parts(form))]
    regex = "|".join(regex_of(_pieces(parts, text)) for parts in forms) or "(?!)"
    deep = turned or any("**" in parts for parts in forms)
    depth = None if deep else max((len(parts) for parts in forms), default=1)
    wide = text if _ALIKE.fullmatch(text) and not any(map(_ODD_PART.search, written)) else "**"
    return Glob(re.compile(regex, re.DOTALL), turned, depth, wide, size)


def leaving_out(patterns: Sequence[str], *, names: bool) -> Callable[[str], bool]:
    """Make what tells whether a path is left out: it fits one of the globs, or a folder above it does.

    With `names`, a glob without a `*` fits at any depth, and all that lies below. INVALID_ARGS as for one glob.
    """
    globs, size = list[Glob](), 0
    for form in [form for pattern in patterns for form in _meant(pattern, names=names)]:
        globs.append(read_glob(form))
        size += globs[-1].size
        if size > 3 * MOST_WRITTEN:
            raise _refused(form, f"with those before it there are more than {3 * MOST_WRITTEN} characters")
    known = dict[str, bool]()

    def left_out(path: str) -> bool:
        told, at = False, 0
        while at >= 0:
            at = path.find("/", at + 1)
            above = path if at < 0 else path[:at]
            if above not in known:
                known[above] = told or any(glob.fits(above) for glob in globs)
            told = known[above]
        return told

    return left_out


def _meant(pattern: str, *, names: bool) -> tuple[str, ...]:
    return (pattern, f"**/{pattern}", f"**/{pattern}/**") if names and "*" not in pattern else (pattern,)


def _written_out(text: str, whole: str) -> Collection[str]:
    """A glob in every way that its braces can be read, the innermost first; a single choice stands for itself."""
    done, todo = dict[str, None](), [re.sub(r"\\[{},]", lambda found: _kept(found[0][1]), text)]
    while todo:
        form = todo.pop()
        found = _BRACES.search(form)
        if found is None:
            if re.search("[{}]", form):
                raise _refused(whole, "a brace is not closed or not opened; write `\\{` for the sign itself")
            done[form.translate(_KEPT)] = None
            continue
        choices = found[1].split(",")
        if len(choices) == 1:
            sequence = _SEQUENCE.fullmatch(found[1])
            choices = _counted(sequence) if sequence else [f"{_OPEN}{found[1]}{_SHUT}"]
        todo += [f"{form[: found.start()]}{choice}{form[found.end() :]}" for choice in choices]
        if len(todo) + len(done) > MOST_FORMS:
            raise _refused(whole, f"it has more than {MOST_FORMS} alternatives")
    return done


def _counted(sequence: re.Match[str]) -> list[str]:
    """All of `1..3` or `a..c`, as many as could be taken and one more."""
    first, last, letter, end, step = sequence.groups()
    start, stop = (int(first[:18]), int(last[:18])) if letter is None else (ord(letter), ord(end))
    by = max(abs(int((step or "1")[:18])), 1) * (1 if start <= stop else -1)
    numbers = range(start, stop + (1 if by > 0 else -1), by)[: MOST_FORMS + 1]
    if letter is not None:
        return [chr(number) for number in numbers]
    padded = any(re.match("-?0[0-9]", text) for text in (first, last, step or ""))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}}" if width else str(number) for number in numbers]


def _as_braces(choice: re.Match[str]) -> str:
    """`@(a|b)` as `{a,b}`, where its choices are plain; any other as it is."""
    forms = choice[0][2:-1].replace(",", _COMMA).split("|")
    if choice[0][0] != "@" or not all(forms) or re.search(r"[*{}\\/]", choice[0]):
        return choice[0]
    return forms[0] if len(forms) == 1 else f"{{{','.join(forms)}}}"


def _kept(sign: str) -> str:
    return {"{": _OPEN, "}": _SHUT, ",": _COMMA}[sign]


def _parts(form: str) -> list[str]:
    """The names of a form; none where no path below a folder has such names."""
    parts = list[str]()
    for part in re.split("/+", form):
        if part == ".." and parts and parts[-1] not in ("", ".", "..", "**"):
            parts.pop()
        elif part != "**" or parts[-1:] != ["**"]:
            parts.append(part)
    return [] if {"", ".", ".."}.intersection(parts) else parts


def _pieces(parts: Sequence[str], whole: str) -> Iterator[Piece]:
    last = len(parts) - 1
    for number, part in enumerate(parts):
        if part != "**":
            yield from (piece for token in _TOKEN.finditer(part) for piece in _piece(token, whole))
            if number < last and parts[number + 1 :] != ["**"]:
                yield "fixed", "/"
        elif number < last:
            yield "deep", ""
        else:  # it takes at least one name
            yield from (("fixed", "/." if number else ""), ("cross", ""))


def _piece(token: re.Match[str], whole: str) -> Iterator[Piece]:
    kind = token.lastgroup or ""
    if kind == "star":
        yield "star", ""
    elif kind == "one":
        yield "fixed", "[^/]"
    elif kind == "set":
        yield "fixed", _character_set(token["set"], bool(token["not"]), whole)
    elif kind == "open":
        raise _refused(whole, "`[` is not closed; write `\\[` for the sign itself")
    else:
        yield "fixed", re.escape(token[kind])


def _character_set(body: str, negated: bool, whole: str) -> str:
    if found := re.search(r"\[[:.=]\w*", body):
        raise _refused(whole, f"{found[0]}{found[0][1]}] is not understood here; write a range such as [a-z]")
    signs = [found[0][-1] for found in re.finditer(r"\\.|.", body, re.DOTALL)]
    ranges, at = "/" if negated else "", 0
    while at < len(signs):
        is_range = signs[at + 1 : at + 2] == ["-"] and at + 2 < len(signs)
        first, last = signs[at], signs[at + 2] if is_range else signs[at]
        if first > last:
            raise _refused(whole, f"the range {first}-{last} runs backwards")
        ranges += f"\\U{ord(first):08x}-\\U{ord(last):08x}"
        at += 3 if is_range else 1
    return f"(?!/)[{'^' if negated else ''}{ranges}]"


def _refused(glob: str, why: str) -> Problem:
    return Problem(Code.INVALID_ARGS, f"The glob {glob!r} cannot be read: {why}.", glob=glob)
