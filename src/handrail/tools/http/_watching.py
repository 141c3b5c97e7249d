"""Looking for secrets in a text while it comes. Pure."""

from __future__ import annotations

from collections.abc import Callable

from handrail.output.redact import CONTEXT
from handrail.ports import Secrets


class Look:
    """One look through a text that comes in parts, each with what lies near it on both sides."""

    __slots__ = ("_before", "_engine", "_plain", "_quiet", "_secrets", "_seen")

    def __init__(self, secrets: Secrets, *, plain: bool) -> None:
        self._secrets, self._plain, self._engine = secrets, plain, secrets.engine
        self._before = b""  # as much of it as can matter for what follows
        self._seen, self._quiet = 0, True

    def take(self, part: bytes) -> None:
        """Look at one more part."""
        if not self._plain and not self._seen and is_html("", part[:1024].decode("utf-8", "ignore")):
            self._quiet = False  # what is shown and kept is another text
        if not self._quiet:
            return
        before, quiet = self._before, self._secrets.quiet
        self._quiet = quiet(part) and (not before or quiet(before + part[:CONTEXT]))
        self._before = part[-CONTEXT:] if len(part) >= CONTEXT else (before + part)[-CONTEXT:]
        self._seen += len(part)

    def quiet(self, size: int) -> bool:
        """Tell for certain that nothing in a text of this size needs hiding: all was seen, by what looks now."""
        return self._quiet and self._seen == size and self._secrets.engine is self._engine


class Watched:
    """The last look: each try of a request has its own, and one that was given up may still be under way."""

    __slots__ = ("_look", "_plain", "_secrets")

    def __init__(self, secrets: Secrets, *, plain: bool = True) -> None:
        self._secrets, self._plain = secrets, plain  # plain: HTML is shown as it is
        self._look: Look | None = None

    def anew(self) -> Callable[[bytes], None]:
        """Begin another look; gives what takes the parts."""
        self._look = Look(self._secrets, plain=self._plain)
        return self._look.take

    def quiet(self, size: int) -> bool:
        """Tell for certain that nothing in what came needs hiding."""
        return self._look is not None and self._look.quiet(size)


def is_html(kind: str, start: str) -> bool:
    """Whether a body is HTML: by what its header says, or how it begins."""
    media = kind.partition(";")[0].strip().lower()
    if media:
        return media in ("text/html", "application/xhtml+xml")
    return start.lstrip().lower().startswith(("<!doctype html", "<html"))
