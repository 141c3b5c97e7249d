"""Spellings of inner addresses that some program somewhere reads as one; `{c}` is the canary's port."""

from __future__ import annotations


def addresses() -> list[str]:
    """127.0.0.1 as a host, in every spelling some program reads as it."""
    plain = ["127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.0.0.01", "127.000.000.001", "0127.0.0.1", "2130706433"]
    octal = [
        "0177.0.0.1",
        "0177.0.0.01",
        "0177.0000.0000.0001",
        "017700000001",
        "0177.1",
        "00000177.0.0.1",
        "0o177.0.0.1",
    ]
    hexes = [
        "0x7f.0.0.1",
        "0x7f.1",
        "0x7f000001",
        "0X7F000001",
        "0x7f.0x0.0x0.0x1",
        "0x0000007f.0.0.1",
        "0x7f.0.1",
        "0x",
    ]
    large = ["383.0.0.1", "127.0.0.257", "127.256", "4294967297", "127.0.0.1.0", "127..0.0.1", ".127.0.0.1", "127.0.0"]
    zeros = ["0", "0.0.0.0", "0.0", "0x0", "00", "000.000.000.000", "127.0.0.0", "127.255.255.255", "127.12.34.56"]
    others = [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.1.1",
        "198.18.0.1",
        "192.0.0.1",
        "224.0.0.1",
    ]
    more = ["255.255.255.255", "240.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "0.1.2.3"]
    return [*plain, *octal, *hexes, *large, *zeros, *others, *more]


def metadata() -> list[str]:
    """What hands out credentials in clouds."""
    hosts = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "[fd00:ec2::254]", "2852039166"]
    return [
        *hosts,
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
        "0xa9fea9fe",
        "metadata.google.internal.",
    ]


def sixes() -> list[str]:
    """Inner addresses as IPv6, plain and in disguise."""
    plain = [
        "::1",
        "0:0:0:0:0:0:0:1",
        "::",
        "0000::1",
        "::0001",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ]
    mapped = [
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "0:0:0:0:0:ffff:7f00:1",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",
        "::7f00:1",
    ]
    moving = ["64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:7f00:0001::1"]
    teredo = [
        "2001:0:7f00:1::",
        "2001::80ff:fffe",
        "2001:0:53aa:64c::80ff:fffe",
        "fe80::5efe:7f00:1",
        "2a00::5efe:7f00:1",
    ]
    zones = ["fe80::1%25lo", "::1%25lo", "fe80::1%lo", "::1%251", "2001:db8::1", "100::1", "3fff::1", "5f00::1"]
    broken = ["::1]", "[::1", "::g", "1::2::3", "::ffff:0x7f.0.0.1", "::ffff:0177.0.0.1", "::ffff:127.1", ""]
    return [f"[{text}]" for text in (*plain, *mapped, *moving, *teredo, *zones, *broken)]


def unicode_hosts() -> list[str]:
    """Digits and dots that look like others, or become others."""
    dots = [
        "127。0。0。1",
        "127．0．0．1",
        "127｡0｡0｡1",
        "127.0。0.1",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "１２７．０．０．１",
    ]
    names = [
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
        "ｌｏｃａｌｈｏｓｔ",
        "loc\u00adalhost",
        "local\u200bhost",
        "localhost\u2024",
        "𝟏𝟐𝟕.𝟎.𝟎.𝟏",
        "0𝚡7f.1",
    ]
    return [*dots, *names, "LOCALHOST", "localhost.", "localhost", "LoCaLhOsT", "ℓocalhost", "ĺocalhost"]


def texts() -> list[str]:
    """Whole URLs that programs read in different ways."""
    users = [
        "http://good.test:{g}@127.0.0.1:{c}/", "http://good.test@127.0.0.1:{c}/", "http://a:b@127.0.0.1:{c}/",
        "http://127.0.0.1:{c}@good.test:{g}/", "http://good.test%40127.0.0.1:{c}/", "http://@127.0.0.1:{c}/",
        "http://good.test:{g}%2f@127.0.0.1:{c}/", "http://a@b@127.0.0.1:{c}/", "http://:@127.0.0.1:{c}/",
    ]  # fmt: skip
    slashes = [
        "http://127.0.0.1:{c}\\@good.test:{g}/", "http://good.test:{g}\\@127.0.0.1:{c}/", "http:\\\\127.0.0.1:{c}\\",
        "http:/\\127.0.0.1:{c}/", "http:///127.0.0.1:{c}/", "http:127.0.0.1:{c}/", "http:/127.0.0.1:{c}/",
        "//127.0.0.1:{c}/", "http:////127.0.0.1:{c}/", "http://\\127.0.0.1:{c}/", "127.0.0.1:{c}", "/\\127.0.0.1:{c}",
    ]  # fmt: skip
    parts = [
        "http://127.0.0.1:{c}#@good.test:{g}/", "http://127.0.0.1:{c}?@good.test:{g}/", "http://127.0.0.1:{c};good.test/",
        "http://127.0.0.1:{c}#good.test", "http://good.test#.127.0.0.1:{c}", "http://127.0.0.1:{c}/..;/", "http://127%2e0.0.1:{c}/",
        "http://%31%32%37.0.0.1:{c}/", "http://127.0.0.1%00.good.test:{c}/", "http://127.0.0.1%23.good.test:{c}/",
        "http://[127.0.0.1]:{c}/", "http://127.0.0.1:{c}:80/", "http://127.0.0.1:{c}a/", "http://127.0.0.1: {c}/",
        "http://127.0.0.1 :{c}/", " http://127.0.0.1:{c}/", "http://127.0.0.1:{c}/ ", "http://127.0.0.1\t:{c}/",
        "http://127.0.0.1\r\n:{c}/", "http://127.0.0.1\u2028:{c}/", "http://127.0.0.1:٣", "http://127.0.0.1:+{c}/",
    ]  # fmt: skip
    lines = [
        "http://127.0.0.1:{c}/\r\nHost: good.test\r\n\r\n", "http://good.test:{g}/\r\nGET http://127.0.0.1:{c}/",
        "http://good.test:{g}/\nX: y", "http://good.test\r\n@127.0.0.1:{c}/", "http://127.0.0.1:{c}/\x00", "http://127.0.0.1:{c}/\x7f",
    ]  # fmt: skip
    schemes = [
        "file:///etc/passwd", "ftp://127.0.0.1:{c}/", "gopher://127.0.0.1:{c}/_x", "dict://127.0.0.1:{c}/", "ws://127.0.0.1:{c}/",
        "wss://127.0.0.1:{c}/", "javascript:fetch('http://127.0.0.1:{c}')", "data:text/plain,x", "unix:///var/run/docker.sock",
        "http+unix://%2fvar%2frun%2fdocker.sock/", "jar:http://127.0.0.1:{c}!/", "tftp://127.0.0.1:{c}/", "ldap://127.0.0.1:{c}/",
        "HTTP://127.0.0.1:{c}/", "hTtPs://127.0.0.1:{c}/", "url:http://127.0.0.1:{c}/", "view-source:http://127.0.0.1:{c}/",
        "http:\t//127.0.0.1:{c}/", "blob:http://127.0.0.1:{c}/", "netdoc:///etc/passwd", "ssh://127.0.0.1:{c}", "http2://127.0.0.1:{c}/",
    ]  # fmt: skip
    return [*users, *slashes, *parts, *lines, *schemes]


def suffixes() -> list[str]:
    """Names that hold an address, or belong to services that give it out."""
    names = [
        "127.0.0.1.nip.example",
        "www.127.0.0.1.example",
        "127-0-0-1.example",
        "localtest.example",
        "7f000001.example",
    ]
    return [*names, "localhost.localdomain", "ip6-localhost", "inner.test", "INNER.test.", "inner。test"]


SPELLINGS = [
    *(f"http://{host}:{{c}}/" for host in (*addresses(), *sixes(), *unicode_hosts(), *metadata(), *suffixes())),
    *(f"http://{host}/" for host in (*metadata(), "127.0.0.1", "[::1]", "0.0.0.0")),
    *texts(),
]
