"""URLs and host names in the one spelling that is judged, resolved, dialled and told. Pure.

What is read here is never read again: policy judges the host and port of a `Url`, and the transport dials them.
Nothing is guessed; a spelling that programs read in different ways is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NoReturn

from handrail.errors import Code, Problem
from handrail.words import noun

PORTS = {"http": 80, "https": 443}
MAX_URL, MAX_HOST = 8192, 253
HIDDEN = "…"

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Nothing but what may stand in a request line as it is; the rest is percent-encoded.
_UNSENT = re.compile(r"[^!$&'()*+,./:;=?@_~A-Za-z0-9%\[\]-]|%(?![0-9A-Fa-f]{2})")
_UNPRINTED = re.compile(r"[\x00-\x20\x7f-\xa0\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\\]")


@noun
class Url:
    """A URL that was understood whole."""

    scheme: str
    host: str  # ASCII, lower case, no dot at the end; an IPv6 address without brackets
    port: int
    target: str  # path and query as they are sent

    @property
    def authority(self) -> str:
        """Host and port, an IPv6 address in brackets: what a net.connect touch names."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, the port left out where the scheme says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            f"{self.scheme}://{host}" if self.port == PORTS.get(self.scheme) else f"{self.scheme}://{host}:{self.port}"
        )

    @property
    def text(self) -> str:
        """The whole URL, as it is sent."""
        return f"{self.origin}{self.target}"

    @property
    def shown(self) -> str:
        """The URL with the values of its query left out, as evidence names it."""
        path, mark, query = self.target.partition("?")
        names = [part.partition("=")[0] + f"={HIDDEN}" * ("=" in part) for part in query.split("&")]
        return f"{self.origin}{path}{mark}{'&'.join(names)}"


@lru_cache(maxsize=1024)
def parse(text: str) -> Url:
    """Read an http or https URL; INVALID_ARGS says what is wrong with it."""
    url = _read(text)
    if url.scheme not in PORTS:
        _refuse(text, f"{url.scheme} is not spoken; write http:// or https://")
    return url


def join(base: Url, reference: str) -> Url:
    """Read where a redirect leads to, seen from where it came from."""
    from urllib.parse import urljoin

    reference = reference.strip(" \t")
    if _UNPRINTED.search(reference):
        _refuse(reference, "it holds blanks, control characters or backslashes")
    if reference.startswith("//"):
        return parse(f"{base.scheme}:{reference}")
    try:
        return parse(reference if _URL.fullmatch(reference) else urljoin(base.text, reference))
    except ValueError as error:
        _refuse(reference, str(error))


@lru_cache(maxsize=1024)
def reached(text: str) -> str:
    """Name the host and port that a URL of any scheme, or `host:port`, reaches; INVALID_ARGS where it names none."""
    return _read(text if "://" in text else f"https://{text.removeprefix('//')}").authority


def _read(text: str) -> Url:
    if len(text) > MAX_URL:
        _refuse(text, f"it is longer than {MAX_URL} characters")
    if _UNPRINTED.search(text):
        _refuse(text, "it holds blanks, control characters or backslashes")
    found = _URL.fullmatch(text)
    if found is None:
        _refuse(text, "write it as https://host/path")
    scheme, authority, target = found[1].lower(), found[2], found[3]
    if "@" in authority:
        shown = f"{scheme}://{HIDDEN}@{authority.rpartition('@')[2]}{target}"
        _refuse(shown, "user names and passwords do not belong in a URL; the operator sets http.credentials")
    place = _AUTHORITY.fullmatch(authority)
    if place is None or not place[1]:
        _refuse(text, f"{authority!r} names no host and port" if authority else "it names no host")
    port = PORTS.get(scheme, 443) if place[2] is None else int(place[2])
    if not 0 < port < 65536:
        _refuse(text, f"there is no port {port}")
    try:
        host = canonical_host(place[1])
    except ValueError as error:
        _refuse(text, str(error))
    target = target if target.startswith("/") else f"/{target}"
    return Url(scheme, host, port, _UNSENT.sub(_encoded, target))


@lru_cache(maxsize=1024)
def canonical_host(name: str) -> str:
    """Give a host's one spelling; ValueError with the reason where it has none."""
    if name.startswith("["):
        return _ipv6(name[1:-1])
    host = name.lower() if name.isascii() else _ascii(name)
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(host) > MAX_HOST or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{name!r} is not a host name")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(host, name)
    return host


def _ipv4(host: str, name: str) -> str:
    try:
        address = str(IPv4Address(host))
    except AddressValueError:
        address = ""
    # Short, octal, hexadecimal and whole-number forms are read in different ways by different programs.
    if not address or address != name.removesuffix("."):
        raise ValueError(f"{name!r} is a number; write an address as four decimal numbers, 192.0.2.1")
    return address


def _ipv6(text: str) -> str:
    if "%" in text:
        raise ValueError("an address with a zone is not reached")
    try:
        return str(IPv6Address(text))
    except AddressValueError as error:
        raise ValueError(f"[{text}] is not an IPv6 address: {error}") from None


def _ascii(name: str) -> str:
    """Give an international name in the form that is looked up; all the dots that people write are dots."""
    import idna

    try:
        return idna.encode(name, uts46=True, std3_rules=True, transitional=False).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError(f"{name!r} is not a host name: {error}") from None


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _refuse(text: str, why: str) -> NoReturn:
    # Never a part of it: what a cut leaves of a secret is not known as one.
    shown = repr(text) if len(text) <= 500 else f"A text of {len(text)} characters"
    raise Problem(Code.INVALID_ARGS, f"{shown} is no URL that can be reached: {why}.")
