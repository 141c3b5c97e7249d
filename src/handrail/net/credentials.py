"""Credentials by host: looked up when a request leaves, after policy; nobody above this layer sees them."""

from __future__ import annotations

import inspect
import os
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from handrail.errors import Code, Misuse, Problem, SettingsFault
from handrail.net.headers import checked
from handrail.policy.patterns import host_matches
from handrail.urls import PORTS, Url

Provider = Callable[[str], str | Awaitable[str]]  # given the host, gives the value
MAX_FILE = 64 * 1024


class Credentials:
    """Finds the credential of a host: `env:NAME`, `file:PATH` or `python:module:function`."""

    def __init__(self, sources: Mapping[str, str], learn: Callable[[Iterable[str]], None]) -> None:
        # The narrowest name first: an exact host before a wildcard, a long one before a short one.
        self._sources = sorted(sources.items(), key=lambda item: (item[0].startswith("*"), -len(item[0])))
        self._learn = learn

    async def header(self, url: Url) -> tuple[str, str] | None:
        """Give the header to add to a request, and have its value hidden wherever it may come back."""
        source = next((source for pattern, source in self._sources if _meant(pattern, url)), None)
        if source is None:
            return None
        value = (await _value(source, url.host)).strip()
        if not value:
            raise _missing(url.host)
        self._learn(_secrets(value))
        name, value = _header(value)
        try:
            checked({name: value})
        except Problem:
            raise _missing(url.host) from None
        return name, value


def _meant(pattern: str, url: Url) -> bool:
    """Whether a credential is for this URL: in clear text only where the operator names the port."""
    _, colon, port = pattern.rpartition(":")
    named = bool(colon) and (port.isdigit() or port == "*") and not pattern.endswith("]")
    # Port 443 is named by who means https; plain text is never meant for it.
    clear = named and url.port != PORTS["https"]
    return host_matches(pattern, url.authority) and (url.scheme == "https" or clear)


def standing(sources: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[str]:
    """What must be hidden before anything is sent; SettingsFault for a source that cannot be read at all."""
    for host, source in sources.items():
        kind, _, rest = source.partition(":")
        if kind not in ("env", "file", "python") or not rest:
            how = "write env:NAME, file:PATH or python:module:function"
            raise SettingsFault(f"http.credentials for {host}: {kind!r} is no source; {how}")
        if kind != "python":
            yield from _secrets((environment.get(rest, "") if kind == "env" else _read(rest)).strip())


async def _value(source: str, host: str) -> str:
    kind, _, rest = source.partition(":")
    if kind == "env":
        return os.environ.get(rest, "")
    if kind == "file":
        return _read(rest)
    provider = _provider(rest)
    try:
        given = provider(host)
        value = await given if inspect.isawaitable(given) else given
    except Exception as error:  # noqa: BLE001  the operator's own code; what it says may hold the secret
        raise _missing(host, f" ({type(error).__name__} in its provider)") from None
    return value if isinstance(value, str) else ""


def _read(path: str) -> str:
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            return file.read(MAX_FILE)
    except (OSError, UnicodeError):
        return ""


def _provider(text: str) -> Provider:
    module, _, function = text.partition(":")
    try:
        found: Provider = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise Misuse(f"http.credentials: python:{text} cannot be loaded: {error}") from None
    return found


def _header(value: str) -> tuple[str, str]:
    """`Name: value` names its header; two words are an Authorization; one word is a bearer token."""
    name, colon, rest = value.partition(": ")
    if colon and " " not in name:
        return name.lower(), rest.strip()
    return "authorization", value if " " in value else f"Bearer {value}"


def _secrets(value: str) -> Iterator[str]:
    """Everything in a credential that must not come back: the whole, each word, and what Basic packs."""
    yield value
    for word in value.replace(": ", " ").split():
        yield word
        try:
            plain = b64decode(word, validate=True).decode()
        except ValueError:
            continue
        yield from (plain, plain.partition(":")[2])


def _missing(host: str, why: str = "") -> Problem:
    return Problem(
        Code.UPSTREAM_ERROR,
        f"The credential for {host} is missing or cannot be sent{why}; the operator sets it in http.credentials. "
        "Nothing was sent.",
        host=host,
    )
