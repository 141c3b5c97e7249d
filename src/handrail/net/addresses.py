"""Which addresses are public, and why the others are not. Pure.

The tables follow the registries of special-purpose addresses of IPv4 and IPv6. Every form that carries an IPv4 address
inside an IPv6 one is refused: some gateway takes it out again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from handrail.policy import builtin

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The same that policy denies by name; here wherever a name leads to, and no setting allows it.
METADATA = frozenset(map(ip_address, builtin.METADATA_ADDRESSES))
METADATA_NAMES = builtin.METADATA_NAMES
CREDENTIALS = "gives out a machine's credentials"
_SPECIAL_V4 = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "a private network"),
    ("100.64.0.0/10", "a provider's inner network"),
    ("127.0.0.0/8", "this machine"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "a private network"),
    ("192.0.0.0/24", "protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112 service"),
    ("192.52.193.0/24", "AMT relays"),
    ("192.88.99.0/24", "6to4 relays"),
    ("192.168.0.0/16", "a private network"),
    ("192.175.48.0/24", "AS112 service"),
    ("198.18.0.0/15", "benchmarks"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved or broadcast"),
)
_SPECIAL_V6 = (
    ("::/128", "no address"),
    ("::1/128", "this machine"),
    ("::ffff:0:0/96", "an IPv4 address in disguise (mapped)"),
    ("::ffff:0:0:0/96", "an IPv4 address in disguise (translated)"),
    ("::/96", "an IPv4 address in disguise (compatible)"),
    ("64:ff9b::/96", "an IPv4 address in disguise (NAT64)"),
    ("64:ff9b:1::/48", "an IPv4 address in disguise (local NAT64)"),
    ("100::/64", "discarded"),
    ("100:0:0:1::/64", "dummy addresses"),
    ("2001::/32", "an IPv4 address in disguise (Teredo)"),
    ("2001::/23", "protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "an IPv4 address in disguise (6to4)"),
    ("2620:4f:8000::/48", "AS112 service"),
    ("3fff::/20", "documentation"),
    ("5f00::/16", "segment routing"),
    ("fc00::/7", "a private network"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_V4 = tuple((IPv4Network(text), why) for text, why in _SPECIAL_V4)
_V6 = tuple((IPv6Network(text), why) for text, why in _SPECIAL_V6)
_GLOBAL_V6 = IPv6Network("2000::/3")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read networks as settings write them; ValueError names what is wrong."""
    return tuple(ip_network(text) for text in texts)


@lru_cache(maxsize=4096)
def special(text: str) -> str | None:
    """Why an address is not public; None when it is."""
    address = _read(text)
    if address is None:
        return "not an address"
    if address in METADATA:
        return CREDENTIALS
    if isinstance(address, IPv4Address):
        return next((why for network, why in _V4 if address in network), None)
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return "an IPv4 address in disguise (ISATAP)"
    why = next((why for network, why in _V6 if address in network), None)
    return why or (None if address in _GLOBAL_V6 else "not a global address")


def refused(text: str, allowed: tuple[Network, ...] = (), blocked: tuple[Network, ...] = ()) -> str | None:
    """Why an address must not be dialled under these settings; None when it may be."""
    why = special(text)
    address = _read(text)
    if address is None or address in METADATA:
        return why
    if any(address in network for network in blocked):
        return "blocked by http.blocked_networks"
    # A disguised address is allowed only as what it is, an IPv6 address: its network must be named as one.
    return None if why is None or any(address in network for network in allowed) else why


def _read(text: str) -> Address | None:
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None
