"""Text from bytes: the charset that the header, the bytes themselves or a meta tag name. Pure."""

from __future__ import annotations

import codecs
import re

from handrail.words import noun

_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\0\0", "utf-32-le"),  # no text in UTF-16 begins with NUL
    (b"\0\0\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_MARKS = tuple(mark for mark, _ in _BOMS)
_WIDE = ("utf-16", "utf-32")
# As browsers read them.
_MEANT = {"iso-8859-1": "windows-1252", "latin-1": "windows-1252", "latin1": "windows-1252", "ascii": "windows-1252"}
_MEANT |= {"us-ascii": "windows-1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "utf8": "utf-8"}
_LOOKED_AT = 4096
_KEEP_ASCII = frozenset({"utf-8", "cp1252", "iso8859-15", "gb18030", "cp932", "euc_jp", "euc_kr", "big5", "koi8-r"})
_CONTROL = bytes(set(range(32)) - {9, 10, 12, 13, 27})


@noun
class Charset:
    """How a body was read."""

    name: str
    by: str  # header | bom | meta | bytes | guess
    replaced: int = 0  # characters that could not be read


def decode(body: bytes, content_type: str) -> tuple[str, Charset]:
    """Read a body as text; what cannot be read becomes the replacement character, and is counted."""
    for mark, marked in _BOMS:
        if body.startswith(mark):
            return _read(body[len(mark) :], marked, "bom")
    named, head = _named(body, content_type), body[:_LOOKED_AT]
    if b"\0" in head and (named is None or not named[0].startswith(_WIDE)) and (wide := _utf16(head)):
        return _read(body, wide, "bytes")  # no other charset has NUL: whoever names one is wrong
    return _detected(body) if named is None else _read(body, *named)


def as_it_is(
    body: bytes, content_type: str, *, ascii_alone: bool | None = None, utf8: bool = False, nul: bool | None = None
) -> Charset | None:
    """How a body is read that is its own text: ASCII in a charset that changes nothing of it, or `utf8` in none other.

    None for any other, and for one with NUL in it: some of it may be in another charset, where no secret is known as
    one. With `ascii_alone`, `utf8` and `nul` known of the whole body, its beginning is enough.
    """
    if (b"\0" in body if nul is None else nul) or body.startswith(_BOMS[0][0]):
        return None
    name, by = _named(body, content_type) or ("utf-8", "bytes")
    if body.isascii() if ascii_alone is None else ascii_alone:
        return Charset(name, by) if name in _KEEP_ASCII else None
    return Charset(name, by) if utf8 and name == "utf-8" else None


def _named(body: bytes, content_type: str) -> tuple[str, str] | None:
    """The charset that the header or the body itself names, and which of them."""
    if (found := _HEADER.search(content_type)) and (name := _known(found[1])):
        return name, "header"
    head = body[:_LOOKED_AT]
    if (meta := _META.search(head) or _XML.search(head)) and (name := _known(meta[1].decode("ascii"))):
        # A page that can be read to its meta tag byte by byte is not UTF-16, whatever it says.
        return "utf-8" if name.startswith("utf-16") else name, "meta"
    return None


def is_binary(body: bytes, content_type: str) -> bool:
    """Whether a body is no text: NUL or many control characters, unless it is said to be UTF-16 or UTF-32."""
    kind = content_type.lower()
    if body.startswith(_MARKS) or "utf-16" in kind or "utf-32" in kind:
        return False
    head = body[:_LOOKED_AT]
    if b"\0" in head:
        return _utf16(head) is None
    return (len(head) - len(head.translate(None, _CONTROL))) * 20 > len(head)


def _detected(body: bytes) -> tuple[str, Charset]:
    try:
        return body.decode(), Charset("utf-8", "bytes")
    except UnicodeDecodeError as error:
        # Cut in the middle of a character, where others are whole: a first one at the very end is a letter with a mark.
        if error.reason == "unexpected end of data" and not body[: error.start].isascii():
            return _read(body, "utf-8", "bytes")
    from handrail.tools.http._guessing import guessed

    return _read(body, guessed(body), "guess")


def _utf16(head: bytes) -> str | None:
    """UTF-16 without a mark: every other byte of Western text is NUL."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = max(1, len(head) // 2)
    if odd > 0.4 * half and even < 0.05 * half:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 * half and odd < 0.05 * half else None


def _read(body: bytes, name: str, by: str) -> tuple[str, Charset]:
    text = body.decode(name, "replace")
    return text, Charset(name, by, 0 if "\ufffd" not in text else text.count("\ufffd"))


def _known(name: str) -> str | None:
    name = _MEANT.get(name.lower(), name.lower())
    try:
        codec = codecs.lookup(name)
    except LookupError:
        return None
    # Codecs that are no charset ("zip", "rot13") would run over foreign bytes.
    return codec.name if getattr(codec, "_is_text_encoding", False) and codec.name not in _NO_CHARSETS else None


_NO_CHARSETS = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "mbcs", "oem", "utf-7"}
)
