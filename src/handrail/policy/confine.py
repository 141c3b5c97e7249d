"""Where a call may reach at all: roots and hosts. Denies; hosts of programs may be asked for."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.policy.patterns import host_and_port, host_matches
from handrail.policy.rules import FILE_KINDS
from handrail.policy.world import ASK, DENY, REACH, READ, World
from handrail.words import Finding, Touch

# Names that never belong to a public host (RFC 3172, 6761, 6762, 9476 and ICANN's `internal`).
_INNER_ENDINGS = (".localhost", ".local", ".internal", ".arpa", ".alt", ".invalid", ".onion")


def findings(touch: Touch, world: World) -> Iterator[Finding]:
    """Find what lies outside the roots or the allowed hosts."""
    if touch.kind in FILE_KINDS:
        if touch.place is None or touch.place.root not in world.roots:
            why = f"{touch.target} is outside the allowed roots ({_names(world)})"
            yield Finding("confine", "confine.roots", DENY, why, code="PATH_OUTSIDE_ROOTS")
        elif touch.kind is not READ and not touch.place.root.writable:
            why = f"{touch.shown} is beneath a root that is read-only"
            yield Finding("confine", "confine.read-only-root", DENY, why, code="PATH_OUTSIDE_ROOTS")
    elif touch.kind is REACH and not any(host_matches(pattern, touch.target) for pattern in world.allowed_hosts):
        yield _unlisted(touch, world)


def _unlisted(touch: Touch, world: World) -> Finding:
    """Deny a host that is not allowed, or ask for it where settings say so and its name can be a public one."""
    where = world.origins.get(world.hosts_setting, "")
    if world.asks_hosts and _is_public(touch.target):
        what = "the command sends data to" if touch.unsafe else "the command reaches for"
        why = (
            f"{what} {touch.target}, which {world.hosts_setting} does not name; "
            "whatever this command can read may be sent there"
        )
        return Finding("confine", "confine.hosts", ASK, why, where, code="HOST_NOT_ALLOWED")
    allowed = ", ".join(world.allowed_hosts) or "none"
    why = f"{touch.target} is not in {world.hosts_setting} (allowed: {allowed})"
    return Finding("confine", "confine.hosts", DENY, why, where, code="HOST_NOT_ALLOWED")


def _is_public(target: str) -> bool:
    """Say whether a host can be a public one by its spelling; addresses are checked before a person is asked."""
    host, _ = host_and_port(target)
    return ":" in host or ("." in host and not f".{host}".endswith(_INNER_ENDINGS))


def _names(world: World) -> str:
    return ", ".join(root.path for root in world.roots if not root.name.startswith("run:")) or "none"
