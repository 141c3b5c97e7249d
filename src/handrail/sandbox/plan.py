"""Turns a verdict into a confinement, as data. Pure: what is on disk is looked at by those who carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from handrail.words import Exclusion, Json, Root, Verdict, noun

MIB = 1024 * 1024
SCRATCH = "run:sandbox"  # the run's scratch folder: only programs of the run reach it, no tool does
EVERYTHING = "/**"  # the pattern of a rule without a target

GAP_MEMORY = (
    "memory of all processes together is measured four times a second, shared pages once; pages of a shared mapping "
    "that a program has given up are not seen"
)


@noun
class Bounds:
    """How much one program and all it starts may use."""

    memory_bytes: int = 4096 * MIB
    processes: int = 512
    file_bytes: int = 1024 * MIB
    open_files: int = 4096
    cpu_seconds: int = 900
    scratch_bytes: int = 512 * MIB  # of /tmp, /dev/shm and the run's scratch folder each


def layers_beside(root: str) -> str:
    """Name the folder beside a root that takes what programs change, where the state folder cannot."""
    return f"{root.rpartition('/')[0]}/.handrail-layers"


class LayerMaker(Protocol):
    """Makes folders on disk for what programs change."""

    def make(self, root: str) -> Any:
        """Make the layer of a root; None where it has to be in memory."""

    def use_memory(self) -> None:
        """Make no more of them: layers cannot be mounted from there."""

    def close(self) -> None:
        """Remove those that wait to be used."""


@noun
class Plan:
    """What a program may see, change and reach."""

    read: tuple[str, ...]  # folders to read, absolute and canonical, besides the system's own programs
    write: tuple[str, ...]  # folders to change
    excluded: tuple[Exclusion, ...] = ()  # what below them is not to be seen
    locked: tuple[Exclusion, ...] = ()  # what below them is to be seen and not changed
    roots: tuple[Root, ...] = ()  # what the exclusions' names of roots mean
    hosts: tuple[str, ...] = ()  # reached through the runtime's proxy; none: no network but loopback inside
    asks_hosts: bool = False  # further hosts are asked for, through the same proxy
    review: bool = False  # changes go to a layer of their own
    bounds: Bounds = field(default_factory=Bounds)
    sockets: tuple[str, ...] = ()  # patterns of sockets and FIFOs below the roots that are shown; all others are hidden
    own: tuple[str, ...] = ()  # Handrail's own paths, hidden wherever they would be shown
    cache: str = ""  # a folder for package caches, written directly and outside the roots; empty: none
    files: tuple[tuple[str, bytes], ...] = ()  # small files of ours to be seen and not changed: path, content
    layers: LayerMaker | None = None  # makes the layers on disk; none: they are in memory

    @property
    def listens(self) -> bool:
        """Whether programs have a way out: the runtime's proxy."""
        return bool(self.hosts) or self.asks_hosts

    def told(self) -> dict[str, Json]:
        """What events, approvals and `policy explain` say of it; the same in every run."""
        names = {root.path: root.name for root in self.roots if root.name.startswith("run:")}
        return {
            "read": [names.get(path, path) for path in self.read],
            "write": [names.get(path, path) for path in self.write],
            "hidden": [item.pattern for item in self.excluded],
            "locked": [item.pattern for item in self.locked],
            "network": [*self.hosts, *(["others are asked for"] if self.asks_hosts else [])] or "none",
            "sockets": list(self.sockets),
            "cache": bool(self.cache),
            "workspace": "review" if self.review else "direct",
            "bounds": {name: getattr(self.bounds, name) for name in Bounds.__match_args__},
        }


def plan_of(
    verdict: Verdict,
    roots: tuple[Root, ...],
    *,
    hosts: tuple[str, ...] = (),
    asks_hosts: bool = False,
    review: bool = False,
    bounds: Bounds,
    sockets: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
    cache: str = "",
    files: tuple[tuple[str, bytes], ...] = (),
    layers: LayerMaker | None = None,
) -> Plan:
    """Build the confinement of a call's programs: the roots, less what the verdict hides and locks.

    Where everything is locked the roots are read-only as such, so that nothing new can be made in them either. The
    run's own scratch folder is no part of what rules speak of, and stays writable.
    """
    everything = [item for item in verdict.locked if item.pattern == EVERYTHING and not item.except_for]
    locked = {item.root for item in everything}
    write = [root.path for root in roots if root.writable and (root.name == SCRATCH or not locked & {"", root.name})]
    return Plan(
        read=tuple(root.path for root in roots if root.path not in write),
        write=tuple(write),
        excluded=verdict.excluded,
        locked=tuple(item for item in verdict.locked if item not in everything),
        roots=roots,
        hosts=hosts,
        asks_hosts=asks_hosts,
        review=review,
        bounds=bounds,
        sockets=sockets,
        own=own,
        cache=cache,
        files=files,
        layers=layers,
    )


# What a child may know of the runtime's surroundings; names that look secret never pass, whatever stands here.
PASSED = ("LANG", "LC_ALL", "LC_CTYPE", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES")
SECRET_ENDS = ("_TOKEN", "_SECRET", "_KEY", "_PASSWORD", "_PASSWD", "_CREDENTIALS", "_AUTH", "_PAT")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


# Settings that git takes over those of any repository: it runs no watcher and no pager that a repository names, and
# takes no folder for a repository that is not called `.git`, unless a line names it.
GIT_SETTINGS = (("core.fsmonitor", "false"), ("safe.bareRepository", "explicit"), ("core.pager", "cat"))


def environment(
    given: Mapping[str, str],
    asked: Mapping[str, str],
    passed: tuple[str, ...] = (),
    *,
    ours: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Give the environment of a program: an allow list of the runtime's own, what is ours, what the call asks for."""
    base = {name: given[name] for name in (*PASSED, *passed) if name in given}
    own = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "GIT_PAGER": "cat"}  # noqa: S108  the sandbox's own
    every = own | base | dict(ours or {}) | dict(asked)
    found = {name: value for name, value in every.items() if not looks_secret(name)}
    return found | _git_settings(found.get("GIT_CONFIG_COUNT", ""))


def _git_settings(count: str) -> dict[str, str]:
    """Add our settings for git behind those that are given already: the last one of a key counts."""
    start = int(count) if count.isascii() and count.isdigit() and len(count) < 4 else 0
    found = {"GIT_CONFIG_COUNT": str(start + len(GIT_SETTINGS))}
    for number, (key, value) in enumerate(GIT_SETTINGS, start):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    upper = name.upper()
    return upper.endswith(SECRET_ENDS) or upper in {"TOKEN", "SECRET", "PASSWORD", "API_KEY", "APIKEY"}
