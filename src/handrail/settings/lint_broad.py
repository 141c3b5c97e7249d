"""Allowances that leave nothing to judge: rules, commands and hosts that fit whatever comes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from handrail.policy.patterns import host_matches, path_matches, words_match
from handrail.settings.lint import Lint
from handrail.settings.loading import Loaded
from handrail.settings.model import RuleEntry

# Spellings that mean everything, also those that fit only part of it, or nothing here.
BROAD = frozenset({"*", "**", "/", "~", "/*", "/**", "~/", "~/*", "~/**", "**/*", "*/**", "**/**", "*:*", "* *"})
_CHANGING = frozenset(
    {"fs.*", "fs.write", "fs.delete", "proc.*", "proc.exec", "net.*", "net.connect", "git.*", "git.write"}
)
_WIDE_4, _WIDE_6 = 7, 6  # bits of a network that holds more than any private one: 10.0.0.0/8, fc00::/7
# Made up: what fits these fits anything.
_PATHS = ("some-name", "some-folder/some-name")
_HOST = "some-host.example:443"
_COMMANDS = (("some-program",), ("some-program", "some-word", "another"))
_TOP_LEVEL = re.compile(r"\*\.[^.:]+\.?(?::(?:\d+|\*))?")  # `*.com`
_RUNS_CODE = re.compile(r"[a-z]*sh|(?:perl|python|pypy|ruby|php|lua|node|nodejs|deno|bun|tclsh)[0-9.]*")


def broad_lint(loaded: Loaded) -> Iterator[Lint]:
    """Look for what allows everything, wherever it can be said."""
    for rule in loaded.settings.rules:
        if rule.effect == "allow":
            yield from _rule(rule)
    yield from _commands(loaded)
    yield from _hosts(loaded)
    yield from _networks(loaded)


def _rule(rule: RuleEntry) -> Iterator[Lint]:
    if rule.target is not None:
        if rule.target in BROAD or _fits_anything(rule.touch, rule.target):
            fix = "name the folder, host or command that is meant"
            yield Lint("warning", rule.where, f"{rule.id} allows everything ({rule.target})", fix)
        elif _about(rule.touch, "proc") and (name := _runs_code(rule.target)):
            yield _code(rule.where, f"{rule.id} allows {rule.target!r}", name)
    elif rule.tool is None and rule.touch is None:
        yield Lint("warning", rule.where, f"{rule.id} allows all that tools of {rule.risk} risk do", "give it a touch")
    elif rule.tool is None and rule.touch in _CHANGING:
        yield Lint("warning", rule.where, f"{rule.id} allows every {rule.touch}", "give it a target")
    elif rule.tool is not None and _about(rule.touch, "proc") and rule.tool.startswith("run_"):
        yield Lint("note", rule.where, f"{rule.id} lets {rule.tool} run every command", "give it a target")


def _commands(loaded: Loaded) -> Iterator[Lint]:
    where = loaded.where("exec.allow")
    for words in loaded.settings.exec.allow:
        if _fits_anything("proc.exec", words):
            text = f"exec.allow has {words!r}: every command runs without being asked for"
            yield Lint("warning", where, text, "name the commands that are meant")
        elif name := _runs_code(words):
            yield _code(where, f"exec.allow has {words!r}", name)


def _hosts(loaded: Loaded) -> Iterator[Lint]:
    http, programs = loaded.settings.http.allowed_hosts, loaded.settings.exec.allowed_hosts
    for key, who, hosts in (("http.allowed_hosts", "tools", http), ("exec.allowed_hosts", "programs", programs)):
        for host in hosts:
            if _any_host(host):
                text = f"{key} has {host!r}: {who} may send anything to any public host"
                yield Lint("warning", loaded.where(key), text, "name the hosts that are meant")


def _networks(loaded: Loaded) -> Iterator[Lint]:
    from ipaddress import ip_network

    for network in loaded.settings.http.allowed_networks:
        try:
            found = ip_network(network, strict=False)
        except ValueError as error:
            yield Lint("error", loaded.where("http.allowed_networks"), f"http.allowed_networks: {error}")
            continue
        if found.prefixlen <= (_WIDE_4 if found.version == 4 else _WIDE_6):
            text = f"http.allowed_networks has {network!r}: the inner network and this machine itself can be reached"
            yield Lint("warning", loaded.where("http.allowed_networks"), text, "name the networks that are meant")


def _fits_anything(touch: str | None, target: str) -> bool:
    front = "/" if target.startswith("/") else ""
    return (
        (_about(touch, "net") and _any_host(target))
        or (_about(touch, "proc") and any(words_match(target, words) for words in _COMMANDS))
        or (
            not (touch or "").startswith(("net", "proc")) and all(path_matches(target, front + path) for path in _PATHS)
        )
    )


def _about(touch: str | None, family: str) -> bool:
    return touch is None or touch.startswith(f"{family}.")


def _any_host(pattern: str) -> bool:
    """Whether a pattern fits every host, or all of a whole top-level domain."""
    anywhere = pattern if pattern.endswith(":*") else f"{pattern.partition(':')[0]}:*"
    return host_matches(anywhere, _HOST) or _TOP_LEVEL.fullmatch(pattern) is not None


def _runs_code(target: str) -> str:
    """The program of `python *` and the like, which runs whatever it is given; empty for others."""
    words = target.split()
    name = words[0].rsplit("/", 1)[-1] if len(words) == 2 and words[1] == "*" else ""
    return name if _RUNS_CODE.fullmatch(name) else ""


def _code(where: str, what: str, name: str) -> Lint:
    return Lint("warning", where, f"{what}: {name} runs any code that it is given", "name the script or module, too")
