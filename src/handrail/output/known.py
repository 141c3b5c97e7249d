"""Secrets known by value: which ones the environment holds, and every spelling in which one may show up.

Known values live in memory only; nothing here is ever written into a compiled database on disk.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

from handrail.output.patterns import MARK
from handrail.words import noun

Span = tuple[int, int]

MIN_LENGTH: Final = 8
# A longer value is hidden piece by piece, so that no spelling of a piece outgrows the window.
MAX_PIECE: Final = 2048
# A wrapped spelling is known by this many characters in a row; up to one less before the first break stay visible.
_UNBROKEN: Final = 4
_NEWLINE: Final = 10

_NAME_ENDS = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "token", "credential", "credentials"),
    *("api_key", "apikey", "access_key", "accesskey", "private_key", "privatekey", "secret_key", "secretkey"),
    *("encryption_key", "signing_key", "master_key", "account_key", "auth_key", "shared_key", "session_key"),
    *("authorization", "cookie", "connection_string", "client_secret", "webhook_url"),
)
_NAME_WORDS = frozenset({"pass", "pw", "auth", "bearer", "dsn"})
# Tokens that page through results or split text are no secrets.
_OPEN_NAMES = (
    r"(?:^|_)(?:next|prev|previous|page|paging|continuation|cursor|sync|pad|eos|bos|unk|sep|cls|mask|special|stop)"
    r"(?:_[a-z]+)?_token$"
)
_ENVIRONMENT_NAMES = r"_key$|_key_|_pass$|api_?key|secret|token|passw|credential|private_key|_auth$|_dsn$"
_HARMLESS = frozenset({"true", "false", "none", "null", "enabled", "disabled", "required", "optional", "changeme"})


@lru_cache(4096)
def secret_name(name: str) -> bool:
    """Tell whether a field or header of this name holds a secret."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]+", "_", name).lower().strip("_")
    return (snake in _NAME_WORDS or snake.endswith(_NAME_ENDS)) and not re.search(_OPEN_NAMES, snake)


def known_values(environment: Mapping[str, str], extra: Iterable[str] = ()) -> frozenset[str]:
    """Collect the values of variables with secret names, and the passwords inside URLs."""
    found = {value for value in extra if len(value) >= MIN_LENGTH}
    for name, value in environment.items():
        found.update(_secrets_in(name, value.strip()))
    return frozenset(found)


def _secrets_in(name: str, value: str) -> Iterator[str]:
    if "://" in value and "@" in value:
        yield from _url_passwords(value)
    elif (secret_name(name) or re.search(_ENVIRONMENT_NAMES, name.lower())) and _is_secret(value):
        yield value


def _url_passwords(value: str) -> Iterator[str]:
    from urllib.parse import unquote, urlsplit

    try:
        password = urlsplit(value).password or ""
    except ValueError:  # a bracket in it, which newer versions of Python take for a broken address
        password = value.partition("://")[2].rpartition("@")[0].partition(":")[2]
    yield from {text for text in (password, unquote(password)) if len(text) >= MIN_LENGTH}


def _is_secret(value: str) -> bool:
    """Leave out values that name a place (a path, a URL) or say nothing."""
    if len(value) < MIN_LENGTH or value.lower() in _HARMLESS or (value.isdigit() and len(value) < 12):
        return False
    return not re.match(r"(?:~|\.{1,2})?/(?:[\w.@+-]+/)+[\w.@+-]+$|/[\w.-]+$|[A-Za-z]:\\|https?://", value)


@noun
class _Form:
    """One spelling of a known value; a wrapped one may be broken over lines at any place."""

    spelling: bytes
    wraps: bool = False

    def anchors(self) -> Iterator[bytes]:
        """Yield literals one of which stands unbroken wherever this form does, if lines are 60 wide or more."""
        if not self.wraps:
            yield self.spelling
            return
        size = len(self.spelling)
        width = min(12, size // 2)
        for start in (*range(0, size - width, 48), size - width):
            yield self.spelling[start : start + width]

    def open_since(self, data: bytes, squeezed: bytes, places: list[int]) -> int:
        """Return where this form may have begun that goes on after a line break at the end of `data`."""
        if not self.wraps:
            breaks = (at + 1 for at, byte in enumerate(self.spelling) if byte == _NEWLINE)
            return min((len(data) - at for at in breaks if data.endswith(self.spelling[:at])), default=len(data))
        starts = (_unfinished(squeezed, self.spelling[skip:]) for skip in range(_UNBROKEN))
        return min((places[at] for at in starts if at < len(places)), default=len(data))


def _unfinished(text: bytes, spelling: bytes) -> int:
    """Return where a proper beginning of `spelling` starts that ends `text`."""
    head = spelling[:_UNBROKEN]
    at = text.find(head, max(0, len(text) - len(spelling) + 1))
    while at >= 0 and not spelling.startswith(text[at:]):
        at = text.find(head, at + 1)
    return at if at >= 0 else len(text)


def _squeezed(data: bytes, size: int) -> tuple[bytes, list[int]]:
    """Return the end of `data` without blanks and line ends, and where each byte of it stood."""
    first = max(0, len(data) - size)
    places = [at for at in range(first, len(data)) if data[at] not in b" \t\r\n"]
    return bytes(map(data.__getitem__, places)), places


def _forms(value: bytes) -> set[_Form]:
    text = value.decode("utf-8", "surrogatepass")
    plain = {text, *_escaped(text)}
    forms = {_Form(spelling.encode("utf-8", "surrogatepass")) for spelling in plain}
    forms |= {_Form(spelling, wraps=True) for spelling in (value.hex().encode(), value.hex().upper().encode())}
    return forms | {_Form(spelling, wraps=True) for spelling in _base64_cores(value)}


def _escaped(text: str) -> Iterator[str]:
    import json
    from html import escape
    from urllib.parse import quote, quote_plus

    for spelling in (quote(text, safe="", errors="surrogatepass"), quote(text, errors="surrogatepass")):
        yield spelling
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), spelling)
    yield quote_plus(text, errors="surrogatepass")
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped)[1:-1]  # JSON text as a value in JSON
        yield escaped.replace("\\", "\\\\")  # or shown as a literal
    yield repr(text)[1:-1]
    yield escape(text)
    yield text.replace("'", "'\\''")
    yield text.replace("\n", "\r\n")


def _base64_cores(value: bytes) -> Iterator[bytes]:
    """Encode at all three alignments, without the characters that also depend on what stands around the value."""
    from base64 import b64encode, urlsafe_b64encode

    for skip in range(3):
        start, end = -(-8 * skip // 6), 8 * (skip + len(value)) // 6
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(b"\0" * skip + value)[start:end]


def _pieces(value: str) -> Iterator[bytes]:
    # The mark is what hiding leaves behind: no value may match inside it or across its edge.
    for part in value.replace(MARK, "***").split("***"):
        part = part.strip("*")
        if len(part) >= MIN_LENGTH:
            data = part.encode("utf-8", "surrogatepass")
            yield from _chop(data)


def _chop(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = start + MAX_PIECE if len(data) - start > MAX_PIECE + 64 else len(data)
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[start:end]
        start = end


@cache
def _wrapped(spelling: bytes) -> re.Pattern[bytes]:
    """Match a spelling that is broken over lines anywhere but in its first characters."""
    broken = rb"(?:[ \t]*\r?\n[ \t]*|\\r\\n|\\n)?"
    letters = [re.escape(spelling[at : at + 1]) for at in range(len(spelling))]
    begin = 2 * _UNBROKEN - 1
    heads = [
        broken.join([b"".join(letters[skip : skip + _UNBROKEN]), *letters[skip + _UNBROKEN : begin]])
        for skip in range(_UNBROKEN)
    ]
    return re.compile(broken.join([b"(?:" + b"|".join(heads) + b")", *letters[begin:]]))


@dataclass(slots=True)
class KnownValues:
    """Finds known values in all their spellings."""

    values: frozenset[str]
    _find: Callable[[bytes], list[tuple[int, int, int]]] | None = None
    _breaking: list[_Form] = field(default_factory=list)
    _longest: int = 0
    _anchors: list[bytes] = field(default_factory=list)
    _owners: list[list[_Form]] = field(default_factory=list)

    def anchors(self) -> list[bytes]:
        """Return literals one of which is in every text that holds a known value."""
        self._prepare()
        return self._anchors

    def spans(self, data: bytes) -> list[Span]:
        """Find where known values stand."""
        if not self.values:
            return []
        self._prepare()
        if self._find is None:
            return []
        hits = self._find(data)
        return [span for anchor, start, end in hits for span in self._confirm(data, anchor, start, end)]

    def open_since(self, data: bytes) -> int:
        """Return where a known value may have begun that goes on, over a line break, after the end of `data`."""
        if not self.values:
            return len(data)
        self._prepare()
        squeezed, places = _squeezed(data, 2 * self._longest)
        return min((form.open_since(data, squeezed, places) for form in self._breaking), default=len(data))

    def _prepare(self) -> None:
        if self._anchors or not self.values:
            return
        owners: dict[bytes, list[_Form]] = {}
        forms = {form for value in self.values for piece in _pieces(value) for form in _forms(piece)}
        for form in forms:
            for anchor in form.anchors():
                owners.setdefault(anchor, []).append(form)
        if not owners:
            return
        from ahocorasick_rs import BytesAhoCorasick

        find = BytesAhoCorasick(list(owners)).find_matches_as_indexes
        self._find = lambda data: find(data, overlapping=True)
        self._breaking = [form for form in forms if form.wraps or b"\n" in form.spelling]
        self._longest = max((len(form.spelling) for form in self._breaking), default=0)
        self._owners, self._anchors = list(owners.values()), list(owners)

    def _confirm(self, data: bytes, anchor: int, start: int, end: int) -> Iterator[Span]:
        for form in self._owners[anchor]:
            if not form.wraps:
                yield start, end
                continue
            reach = 2 * len(form.spelling)
            window = max(0, start - reach)
            for match in _wrapped(form.spelling).finditer(data, window, end + reach):
                yield match.span()
