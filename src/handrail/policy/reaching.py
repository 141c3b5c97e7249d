"""Which commands are known to reach out to a network, and where, as far as their words tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.policy.patterns import host_and_port

_ALWAYS = frozenset(("curl", "wget", "ssh", "scp", "sftp", "npx", "pipx", "uvx", "ping"))
_WITH: dict[str, frozenset[str]] = {
    "git": frozenset(("clone", "fetch", "pull", "push", "ls-remote")),
    "pip": frozenset(("install", "download")),
    "pip3": frozenset(("install", "download")),
    "uv": frozenset(("add", "sync", "lock", "pip")),
    "npm": frozenset(("install", "i", "ci", "add", "update", "publish")),
    "pnpm": frozenset(("install", "i", "add", "update", "publish")),
    "yarn": frozenset(("install", "add", "up")),
    "cargo": frozenset(("install", "fetch", "update", "add")),
    "go": frozenset(("get", "install", "mod")),
    "gem": frozenset(("install", "update")),
    "apt": frozenset(("install", "update", "upgrade")),
    "apt-get": frozenset(("install", "update", "upgrade")),
}
_PORTS = {"https": "443", "http": "80", "ssh": "22", "git": "9418"}


def reaches_out(words: Sequence[str]) -> bool:
    """Whether a command is one that is known to need a network."""
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    inner = _WITH.get(program, frozenset())
    return program in _ALWAYS or any(word in inner for word in words[1:])


def hosts_of(words: Sequence[str]) -> list[str]:
    """The hosts, each with its port, of the addresses that stand among a command's words."""
    found = []
    for word in words:
        scheme, mark, rest = word.partition("://")
        if mark and scheme.lower() in _PORTS:
            name = rest.partition("/")[0].partition("?")[0].rpartition("@")[2].lower()
            host, port = host_and_port(name)
            found.append(f"{host}:{port or _PORTS[scheme.lower()]}" if host else "")
    return [host for host in dict.fromkeys(found) if host]
