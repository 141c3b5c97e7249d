"""Which addresses are public: every special range and every disguise, whatever the spelling."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.net.addresses import METADATA, networks, refused, special

PUBLIC = [
    *(
        "8.8.8.8",
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
    ),
    *(
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.167.255.255",
    ),
    *("192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2003::1"),
]
INNER = {
    "this network": ["0.0.0.0", "0.255.255.255"],
    "a private network": ["10.0.0.0", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1"],
    "a provider's inner network": ["100.64.0.0", "100.127.255.255"],
    "this machine": ["127.0.0.1", "127.255.255.255", "::1"],
    "link-local": ["169.254.0.1", "fe80::1", "febf::1"],
    "documentation": ["192.0.2.7", "198.51.100.7", "203.0.113.7", "2001:db8::7", "3fff::7"],
    "benchmarks": ["198.18.0.1", "198.19.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1"],
    "reserved or broadcast": ["240.0.0.1", "255.255.255.255"],
    "an IPv4 address in disguise (mapped)": ["::ffff:8.8.8.8", "::ffff:127.0.0.1"],
    "an IPv4 address in disguise (translated)": ["::ffff:0:8.8.8.8"],
    "an IPv4 address in disguise (compatible)": ["::8.8.8.8", "::127.0.0.1"],
    "an IPv4 address in disguise (NAT64)": ["64:ff9b::8.8.8.8", "64:ff9b::7f00:1"],
    "an IPv4 address in disguise (local NAT64)": ["64:ff9b:1::7f00:1"],
    "an IPv4 address in disguise (Teredo)": ["2001::1", "2001:0:53aa:64c::80ff:fffe"],
    "an IPv4 address in disguise (6to4)": ["2002:7f00:1::", "2002:808:808::"],
    "an IPv4 address in disguise (ISATAP)": ["2a00::5efe:7f00:1", "2a00::200:5efe:7f00:1"],
    "site-local": ["fec0::1"],
    "not a global address": ["4000::1", "1::1", "e000::1"],
    "gives out a machine's credentials": ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"],
    "not an address": ["", "localhost", "127.1", "fe80::1%lo", "1.2.3.4.5", "0x7f.1"],
}


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    """Also right beside a special range."""
    assert special(address) is None


@pytest.mark.parametrize(("address", "why"), [(text, why) for why, texts in INNER.items() for text in texts])
def test_a_special_address_has_its_reason(address: str, why: str) -> None:
    """The reason names the range."""
    assert special(address) == why


@given(st.ip_addresses())
def test_what_python_calls_inner_is_never_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Ours is stricter than the standard library's, never laxer."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert special(str(address)) is not None


@given(st.ip_addresses(v=4))
def test_no_disguise_makes_an_address_public(address: ipaddress.IPv4Address) -> None:
    """Every form that carries an IPv4 address is refused, whatever it carries."""
    number = int(address)
    forms = [number, 0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80]
    assert all(special(str(ipaddress.IPv6Address(form))) is not None for form in forms)


@given(st.ip_addresses(), st.integers(0, 32))
def test_an_allowed_network_allows_exactly_itself(address: ipaddress.IPv4Address, prefix: int) -> None:
    """And never an address of metadata, and never what is blocked."""
    allowed = networks([str(ipaddress.ip_network((address, prefix), strict=False))])
    assert (refused(str(address), allowed) is None) == (address not in METADATA)
    assert refused(str(address), allowed, allowed) is not None
    other = ipaddress.ip_address(int(address) ^ 1 << (address.max_prefixlen - 1))
    if prefix and other not in METADATA:
        assert refused(str(other), allowed) == special(str(other))


def test_a_network_with_host_bits_is_refused() -> None:
    """`10.1.0.0/8` may be meant in two ways."""
    with pytest.raises(ValueError, match="host bits"):
        networks(["10.1.0.0/8"])
