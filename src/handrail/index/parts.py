"""A file's text to parts that can be shown on their own: definitions where there are any, else paragraphs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

MAX_LINES = 80  # of a part; a longer definition is cut where a blank line allows
MAX_DEPTH = 2  # a method of a class has a part of its own, what is nested deeper has not


class Mark(NamedTuple):
    """A line on which something is defined."""

    line: int  # from 0
    depth: int  # 0 for the outermost
    name: str
    end: int = 0  # the first line after it, where that is known


class Part(NamedTuple):
    """Lines of a file, from 1, both included, and what they define."""

    start: int
    end: int
    symbol: str


_BEFORE = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async|pub(?:\([\w: ]+\))?"
    r'|unsafe|inline|override|virtual|extern(?: +"C")?|open|data|suspend|partial|declare|local|typedef|const) +)*'
)
_WHAT = (
    r"(?:def|class|function\*?|fn|func|struct|enum|union|trait|interface|impl(?:<[^>]{0,80}>)?|module|mod|namespace|type"
    r"|macro_rules!|fun|protocol|extension|object|record|sub|procedure|message|service)"
)
_AFTER = r"(?= *(?:[(:{<\[=;,!]|$|extends\b|implements\b|for\b|where\b|struct\b|interface\b|func\b|with\b))"
_DEFINES = re.compile(
    rf"^(?P<indent>[ \t]*){_BEFORE}{_WHAT} +(?:\([^)]{{0,120}}\) *)?(?P<name>[A-Za-z_$][\w$.:]*){_AFTER}"
    r"|^(?P<indent2>[ \t]*)(?:export +)?(?:const|let|var) +(?P<arrow>[\w$]+) *= *(?:async *)?"
    r"(?:\([^)]{0,200}\)|[\w$]+) *=>"
    r"|^(?P<shell>[A-Za-z_][\w:-]*) *\(\) *\{?"
    r"|^(?!return|else|if|for|while|switch|case)[A-Za-z_][\w:<>,*& ]{0,80}[ *&](?P<cname>[A-Za-z_][\w:~]*)"
    r"\([^;]{0,300}\)? *\{?$"
    r"|^(?i:create) +(?i:or +replace +)?(?i:table|view|index|function|procedure|trigger) +(?i:if +not +exists +)?"
    r"(?P<sql>[\w.\"]+)",
    re.MULTILINE,
)
_HEADING = re.compile(r"^(#{1,6}) +(.{1,120})|^\[{1,2}([\w.\"' -]{1,120})\]{1,2} *$", re.MULTILINE)
_ASSIGNS = re.compile(
    r"^(?:export +)?(?:const |let |var |static )?([A-Za-z_]\w{2,})(?: *: *[^=\n]{1,80})? *=[^=]", re.MULTILINE
)
_WORDS = re.compile(r"\w")
_LEADS = re.compile(
    r"^\s*(?:@|#(?! *(?:include|define|undef|if|ifdef|ifndef|elif|else|endif|pragma)\b)|//|/\*|\*|--|\[\w)"
)
PROSE = frozenset({"md", "markdown", "rst", "txt", "adoc", "toml", "ini", "cfg", "conf", "properties"})
DATA = frozenset({"json", "jsonl", "csv", "tsv", "lock", "svg", "xml", "yaml", "yml", "po", "ipynb", "log"})


def parts_of(text: str, extension: str, marks: Sequence[Mark] | None = None) -> list[Part]:
    """Cut a text into parts; `marks` come from a grammar where one is at hand."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        return []
    found = marks if marks is not None else marks_of(text, extension)
    cuts = sorted({mark.line: mark for mark in found if mark.depth < MAX_DEPTH and mark.line < len(lines)}.values())
    ended = bool(cuts) and all(mark.end for mark in cuts)
    return list(_cut(lines, _ended_sections(lines, cuts) if ended else _sections(lines, cuts)))


def marks_of(text: str, extension: str) -> list[Mark]:
    """Find definitions by how their lines look: headings in prose, keywords in code."""
    if extension in DATA:
        return []
    if extension in PROSE:
        return [Mark(_line(text, hit), 0, (hit[2] or hit[3]).strip()) for hit in _HEADING.finditer(text)]
    marks: list[Mark] = []
    above: list[int] = []  # indents of the definitions around
    line, at = 0, 0
    for hit in _DEFINES.finditer(text):
        line, at = line + text.count("\n", at, hit.start()), hit.start()
        indent = len((hit["indent"] or hit["indent2"] or "").expandtabs(4))
        while above and above[-1] >= indent:
            above.pop()
        name = hit["name"] or hit["arrow"] or hit["shell"] or hit["cname"] or hit["sql"]
        marks.append(Mark(line, len(above), name.strip('":.')))
        above.append(indent)
    return marks


def assigned(text: str) -> list[str]:
    """Names that a part gives values to at its outermost level: constants, tables, settings."""
    return _ASSIGNS.findall(text)


def _line(text: str, hit: re.Match[str]) -> int:
    return text.count("\n", 0, hit.start())


def _sections(lines: Sequence[str], cuts: Sequence[Mark]) -> Iterator[Part]:
    """Lines from one definition to the next, the first without a name; comments and decorators go with what follows."""
    starts = [_leading(lines, mark.line, cuts[index - 1].line + 1 if index else 0) for index, mark in enumerate(cuts)]
    if not starts or starts[0] > 0:
        yield Part(0, starts[0] if starts else len(lines), "")
    around = ""
    for index, mark in enumerate(cuts):
        around = mark.name if mark.depth == 0 else around
        name = mark.name if mark.depth == 0 or not around else f"{around}.{mark.name}"
        yield Part(starts[index], starts[index + 1] if index + 1 < len(starts) else len(lines), name)


def _ended_sections(lines: Sequence[str], cuts: Sequence[Mark]) -> Iterator[Part]:
    """Lines of each definition without those in it; what is left between them belongs to what is around them."""
    begins: dict[int, str] = {0: ""}
    around: list[Mark] = []
    floor = 0
    for mark in cuts:
        while around and (around[-1].end <= mark.line or around[-1].end < mark.end):
            floor = min(around.pop().end, mark.line)
            begins[floor] = around[-1].name if around else ""
        begins[_leading(lines, mark.line, floor)] = mark.name
        around.append(mark)
        floor = mark.line + 1
    while around:
        end = around.pop().end
        begins[end] = around[-1].name if around else ""
    starts = sorted(line for line in begins if line < len(lines))
    for start, end in pairwise([*starts, len(lines)]):
        if any(_WORDS.search(line) for line in lines[start:end]):  # no part for a closing bracket
            yield Part(start, end, begins[start])


def _leading(lines: Sequence[str], line: int, floor: int) -> int:
    while line > floor and _LEADS.match(lines[line - 1]):
        line -= 1
    return line


def _cut(lines: Sequence[str], sections: Iterator[Part]) -> Iterator[Part]:
    """Bound the length of parts and leave blank ends out; lines are counted from 1 from here on."""
    for section in sections:
        start, end = section.start, section.end
        while start < end:
            stop = end if end - start <= MAX_LINES else _breath(lines, start, start + MAX_LINES)
            first, last = start, stop
            while first < last and not lines[first].strip():
                first += 1
            while last > first and not lines[last - 1].strip():
                last -= 1
            if last > first:
                yield Part(first + 1, last, section.symbol)
            start = stop


def _breath(lines: Sequence[str], start: int, stop: int) -> int:
    """The last blank line in the second half, or the bound itself."""
    for line in range(stop, start + MAX_LINES // 2, -1):
        if not lines[line - 1].strip():
            return line
    return stop
