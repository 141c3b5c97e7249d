"""Reader of git's config format. Reading by git itself could run what a config names."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SECTION = re.compile(r'\[[ \t]*([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\[^\n])*)")?[ \t]*\]')
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_BLANK = re.compile(r"(?:[ \t\r\n\f\v]+|[#;][^\n]*)*")
_COMMENT = re.compile(r"[^\n]*")
_PLAIN = re.compile(r"[#;]|[^\"\\\n#;]+")  # a comment's sign is plain within quotes
_SPACES = re.compile(r"[ \t\r\f\v]*")
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"'}


def settings_of(text: str) -> list[tuple[str, str]]:
    """List the settings of a config as (`section.subsection.key`, value). Raises ValueError where it is malformed."""
    return list(_settings(text.removeprefix("\ufeff").replace("\r\n", "\n")))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    at = _end(_BLANK, text, 0)
    while at < len(text):
        if text[at] == "[":
            found = _SECTION.match(text, at)
            if found is None:
                raise ValueError("malformed section")
            subsection = re.sub(r"\\(.)", r"\1", found[2] or "")
            section = f"{found[1].lower()}.{subsection}" if subsection else found[1].lower()
            at = found.end()
        else:
            key = _KEY.match(text, at)
            if key is None or not section:
                raise ValueError("malformed setting")
            value, at = _value(text, _end(_SPACES, text, key.end()))
            yield f"{section}.{key[0].lower()}", value
        at = _end(_BLANK, text, at)


def _value(text: str, at: int) -> tuple[str, int]:
    """Read what follows a key; one without `=` is true."""
    if at >= len(text) or text[at] in "\n#;":
        return "true", at
    if text[at] != "=":
        raise ValueError("malformed setting")
    at = _end(_SPACES, text, at + 1)
    value = ""
    kept = 0  # characters of the value that are no blanks at its end
    quoted = False
    while at < len(text) and text[at] != "\n":
        sign = text[at]
        if sign in "#;" and not quoted:
            at = _end(_COMMENT, text, at)
            break
        if sign == '"':
            quoted = not quoted
            kept = len(value)
        elif sign == "\\":
            at += 1
            following = text[at : at + 1]
            if following != "\n":
                if following not in _ESCAPED or not following:
                    raise ValueError("malformed escape")
                value += _ESCAPED[following]
                kept = len(value)
        else:
            run = _PLAIN.match(text, at)
            assert run is not None
            ends = len(run[0] if quoted else run[0].rstrip())
            kept = len(value) + ends if ends else kept
            value += run[0]
            at = run.end()
            continue
        at += 1
    if quoted:
        raise ValueError("quotes that do not end")
    return value[:kept], at


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at
