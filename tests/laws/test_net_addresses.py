"""Which addresses are public: every special range and every disguise, whatever the spelling."""

from __future__ import annotations

import ipaddress
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.net import addresses
from handrail.net.addresses import CREDENTIALS, METADATA, METADATA_NAMES, networks, refused, special
from handrail.policy.builtin import METADATA_HOSTS

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
    *("192.31.195.255", "192.31.197.0", "192.52.192.255", "192.52.194.0", "192.88.98.255", "192.88.100.0"),
    *("192.175.47.255", "192.175.49.0", "2001:200::1", "2620:4f:7fff::1", "2620:4f:8001::1"),
    *("192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2003::1"),
]
INNER = {
    "this network": ["0.0.0.0", "0.255.255.255"],
    "a private network": ["10.0.0.0", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1"],
    "a provider's inner network": ["100.64.0.0", "100.127.255.255"],
    "this machine": ["127.0.0.1", "127.255.255.255", "::1"],
    "link-local": ["169.254.0.1", "fe80::1", "febf::1"],
    "protocol assignments": ["192.0.0.1", "192.0.0.255", "2001:2::1", "2001:1ff::1"],
    "AS112 service": ["192.31.196.1", "192.175.48.1", "2620:4f:8000::1"],
    "AMT relays": ["192.52.193.1"],
    "6to4 relays": ["192.88.99.1"],
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
    "no address": ["::"],
    "discarded": ["100::1"],
    "dummy addresses": ["100:0:0:1::1"],
    "segment routing": ["5f00::1"],
    "site-local": ["fec0::1"],
    "not a global address": ["4000::1", "1::1", "e000::1"],
    "gives out a machine's credentials": ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"],
    "not an address": ["", "localhost", "127.1", "fe80::1%lo", "1.2.3.4.5", "0x7f.1"],
}
# As the registries of special-purpose addresses list them, with multicast and what is set aside for later.
REGISTERED = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/128", "::1/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64"),
    *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7"),
    *("fe80::/10", "fec0::/10", "ff00::/8"),
]
CLOUD_ADDRESSES = [
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.123", "169.254.169.253", "100.100.100.200"),
    *("168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
]
CLOUD_NAMES = [
    *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
    *("metadata.azure.internal", "metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    """Also right beside a special range."""
    assert special(address) is None


@pytest.mark.parametrize(("address", "why"), [(text, why) for why, texts in INNER.items() for text in texts])
def test_a_special_address_has_its_reason(address: str, why: str) -> None:
    """The reason names the range."""
    assert special(address) == why


@pytest.mark.parametrize("network", REGISTERED)
def test_no_address_of_a_registered_range_is_public(network: str) -> None:
    """Neither its first nor its last, nor any between."""
    found = ipaddress.ip_network(network)
    chance = random.Random(network)
    numbers = [0, found.num_addresses - 1, *(chance.randrange(found.num_addresses) for _ in range(50))]
    texts = [str(found[number]) for number in numbers]
    assert [text for text in texts if special(text) is None] == []


def test_every_range_has_an_address_that_it_alone_explains() -> None:
    """Whoever adds a range adds an address of it here, so that it cannot be lost again unnoticed."""
    tried = [
        (ipaddress.ip_address(text), why) for why, texts in INNER.items() if why != "not an address" for text in texts
    ]
    rows: list[tuple[addresses.Network, str]] = [*addresses._V4, *addresses._V6]
    explained = [
        (network, why) for network, why in rows if any(said == why and address in network for address, said in tried)
    ]
    assert explained == rows


def test_what_gives_out_credentials_is_named_once_for_policy_and_network() -> None:
    """Eleven addresses and nine names; neither list may lack one that the other has."""
    assert {str(address) for address in METADATA} == set(CLOUD_ADDRESSES)
    assert sorted(METADATA_NAMES) == sorted(CLOUD_NAMES)
    assert {*CLOUD_ADDRESSES, *CLOUD_NAMES} == METADATA_HOSTS


@pytest.mark.parametrize("address", CLOUD_ADDRESSES)
def test_no_setting_allows_an_address_that_gives_out_credentials(address: str) -> None:
    """Neither by its own network nor by all of them."""
    own = str(ipaddress.ip_network(address))
    assert [refused(address, networks(allowed)) for allowed in ([], [own], ["0.0.0.0/0", "::/0"])] == [CREDENTIALS] * 3


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
