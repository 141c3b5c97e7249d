"""Headers: which ones a caller may set, which ones go along to another host, which ones are shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from handrail.errors import Code, Problem
from handrail.output.known import secret_name

MAX_GIVEN, MAX_VALUE = 64, 8192

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# These say where a message goes and where it ends; they are the transport's own.
_OURS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer"),
        *("expect", "accept-encoding", "http2-settings", "proxy-authorization", "proxy-connection"),
        # What makes a GET something else at the other end; it is the method that was judged.
        *("x-http-method-override", "x-http-method", "x-method-override"),
    }
)
# What may be told to a host that a redirect leads to; everything else was meant for the first one.
_TRAVELLING = frozenset({"accept", "accept-encoding", "accept-language", "user-agent", "range", "if-range"})
_HIDDEN = frozenset({"set-cookie", "set-cookie2", "cookie", "authorization", "proxy-authenticate", "www-authenticate"})


def checked(given: Mapping[str, str]) -> dict[str, str]:
    """Take a caller's headers; INVALID_ARGS for what is malformed or not a caller's to set."""
    if len(given) > MAX_GIVEN:
        raise Problem(Code.INVALID_ARGS, f"{len(given)} headers are too many; at most {MAX_GIVEN}.")
    taken: dict[str, str] = {}
    for name, value in given.items():
        if _NAME.fullmatch(name) is None:
            raise Problem(Code.INVALID_ARGS, f"{name[:100]!r} is no header name.")
        if len(value) > MAX_VALUE or _VALUE.fullmatch(value) is None:
            raise Problem(
                Code.INVALID_ARGS, f"The header {name} holds line breaks, control characters or too much text."
            )
        lower = name.lower()
        if lower in _OURS or lower.startswith("proxy-"):
            raise Problem(Code.INVALID_ARGS, f"The header {name} is set by the runtime; leave it out.", header=name)
        if lower in taken:
            raise Problem(Code.INVALID_ARGS, f"The header {name} is given twice.", header=name)
        taken[lower] = value.strip(" \t")
    return taken


def travelling(headers: Mapping[str, str]) -> dict[str, str]:
    """What of a request's headers another host may see."""
    return {name: value for name, value in headers.items() if name in _TRAVELLING}


def shown(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A response's headers as a caller is told them: names in lower case, no cookie, no credential."""
    told: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower in _HIDDEN or secret_name(lower):
            continue
        value = value if value.isascii() else _text(value)
        told[lower] = f"{told[lower]}, {value}" if lower in told else value
    return told


def _text(value: str) -> str:
    """A value as text that can be written down, whatever bytes were sent."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
