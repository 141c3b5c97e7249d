"""Diagnostics, and reading what linters print. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
MAX_MESSAGE = 1000
MAX_CODE = 100
_GCC = re.compile(
    r"^(?:[^:\n]*:)?(?P<line>\d+)(?::(?P<column>\d+))?:? *"
    r"(?:(?P<severity>fatal error|error|warning|note|info|style|convention|refactor)\b:? *)?(?P<message>.+)$"
)
_FIRST = re.compile(r"([A-Z]{1,4}\d{2,5})\b:? *")
_LAST = re.compile(r"[\[(]([A-Za-z][\w./-]{1,40})[\])]$")
_LONGEST = 43  # what _LAST can match: looked for nowhere but at the end, or a long line would take forever
_BASH = re.compile(r"^[^:\n]*: (?:line (?P<line>\d+): )?(?P<message>.+)$")
_LINES = ("line", "row", "lineno", "startLine", "lineNumber")
_COLUMNS = ("column", "col", "columnNumber", "startColumn", "character")
_LEVELS = {
    "fatal error": "error",
    "error": "error",
    "fatal": "error",
    "critical": "error",
    "2": "error",
    "high": "error",
}
_LOW = {"note": "info", "info": "info", "information": "info", "hint": "info", "style": "info", "convention": "info"}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that a linter says of a place in a file; line and column from 1, 0 where they are not told."""

    file: str
    line: int
    column: int
    severity: Severity
    code: str
    message: str
    source: str


def read_output(text: str, form: str, file: str, source: str) -> Iterator[Diagnostic]:
    """Read what a linter printed; lines that say nothing about a place are passed over."""
    if form == "ruff":
        yield from _ruff(text, file)
    elif form == "json":
        yield from _json(text, file, source)
    elif form == "bash":
        yield from _bash(text, file)
    else:
        yield from _gcc(text, file, source)


def _ruff(text: str, file: str) -> Iterator[Diagnostic]:
    for item in _lines_of_json(text):
        at = _start(item)
        severity = severity_of(item.get("severity") or "error")
        code, message = one_line(item.get("code") or "", MAX_CODE), one_line(item.get("message", ""))
        yield Diagnostic(file, _number(at.get("row")), _number(at.get("column")), severity, code, message, "ruff")


def _gcc(text: str, file: str, source: str) -> Iterator[Diagnostic]:
    """`file:line:col: severity: message [code]`, in all the ways that compilers and linters vary it."""
    for line in text.splitlines():
        hit = _GCC.match(line.strip())
        if hit is None:
            continue
        message, code = _coded(hit["message"].strip())
        severity = severity_of(hit["severity"] or _by_code(code))
        yield Diagnostic(file, _number(hit["line"]), _number(hit["column"]), severity, code, one_line(message), source)


def _coded(message: str) -> tuple[str, str]:
    """A message without the code that stands before or behind it, and the code."""
    if first := _FIRST.match(message):
        return message[first.end() :].strip(), first[1]
    if last := _LAST.search(message[-_LONGEST:]):
        return message[: -len(last[0])].strip(), last[1]
    return message, ""


def one_line(said: Any, most: int = MAX_MESSAGE) -> str:
    """What a linter says as one line of text, so that it cannot pass for a line of ours."""
    return " ".join(str(said)[: 4 * most].encode("utf-8", "replace").decode().split())[:most]


def _bash(text: str, file: str) -> Iterator[Diagnostic]:
    last: Diagnostic | None = None
    for line in text.splitlines():
        hit = _BASH.match(line)
        if hit is None:
            continue
        if hit["message"].startswith("`") and last is not None and _number(hit["line"]) == last.line:
            continue  # bash shows the line itself after each message
        last = Diagnostic(file, _number(hit["line"]), 0, "error", "syntax", one_line(hit["message"]), "bash")
        yield last


def _json(text: str, file: str, source: str) -> Iterator[Diagnostic]:
    """A list of objects, one object a line, or an object that holds such a list; fields by their usual names."""
    for item in _objects(text):
        start = _start(item)
        line = _first(item, *_LINES) or _first(start, *_LINES)
        column = _first(item, *_COLUMNS) or _first(start, *_COLUMNS)
        message = _first(item, "message", "description", "text", "msg")
        if message is None:
            continue
        code = _first(item, "code", "ruleId", "rule", "check_name", "symbol", "message-id", "id") or ""
        level = severity_of(str(_first(item, "severity", "level", "type", "category") or "warning"))
        told = (level, one_line(code, MAX_CODE), one_line(message), source)
        yield Diagnostic(file, _number(line), _number(column), *told)


def _start(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a diagnostic says it begins, when it says so in an object of its own."""
    for name in ("location", "range", "start", "position"):
        place = item.get(name)
        if isinstance(place, Mapping):
            inner = place.get("start")
            return inner if isinstance(inner, Mapping) else place
    return {}


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines_of_json(text)
        return
    if isinstance(value, Mapping):
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if lists else [value]
    for item in value if isinstance(value, list) else []:
        inner = item.get("messages") if isinstance(item, Mapping) else None
        yield from (entry for entry in (inner if isinstance(inner, list) else [item]) if isinstance(entry, Mapping))


def _lines_of_json(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, Mapping):
                yield found


def severity_of(word: str) -> Severity:
    """A linter's word for how bad it is, as one of ours."""
    lower = str(word).lower()
    if lower in _LEVELS:
        return "error"
    return "info" if lower in _LOW else "warning"


def _by_code(code: str) -> str:
    return "error" if code[:1] in ("E", "F") else "warning"


def _first(item: Mapping[str, Any], *names: str) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _number(value: Any) -> int:
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return 0


def keys_of(found: Sequence[Diagnostic], text: str) -> tuple[tuple[str, ...], ...]:
    """Each diagnostic by what it says of which line's text, so that it is known again when lines move."""
    lines = text.split("\n")

    def key(item: Diagnostic) -> tuple[str, ...]:
        line = lines[item.line - 1] if 0 < item.line <= len(lines) else ""
        return (item.source, item.code, item.message, " ".join(line.split()))

    return tuple(key(item) for item in found)


def new_since(
    found: Sequence[Diagnostic], keys: Sequence[tuple[str, ...]], before: Sequence[tuple[str, ...]]
) -> list[Diagnostic]:
    """Those that were not there before; of several alike, as many as came to be."""
    left = Counter(before)
    new = []
    for item, key in zip(found, keys, strict=True):
        if left[key] > 0:
            left[key] -= 1
        else:
            new.append(item)
    return new
