"""Turns a verdict into a confinement, as data. Pure: what is on disk is looked at by those who carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from handrail.words import Exclusion, Json, Root, Verdict, noun

MIB = 1024 * 1024


@noun
class Bounds:
    """How much one program and all it starts may use."""

    memory_bytes: int = 4096 * MIB
    processes: int = 512
    file_bytes: int = 1024 * MIB
    open_files: int = 4096
    cpu_seconds: int = 900
    scratch_bytes: int = 512 * MIB  # of /tmp, /dev/shm and the run's scratch folder each


@noun
class Plan:
    """What a program may see, change and reach."""

    read: tuple[str, ...]  # folders to read, absolute and canonical, besides the system's own programs
    write: tuple[str, ...]  # folders to change
    excluded: tuple[Exclusion, ...] = ()  # what below them is not to be seen
    locked: tuple[Exclusion, ...] = ()  # what below them is to be seen and not changed
    roots: tuple[Root, ...] = ()  # what the exclusions' names of roots mean
    hosts: tuple[str, ...] = ()  # reached through the runtime's proxy; none: no network but loopback inside
    review: bool = False  # changes go to a layer of their own
    bounds: Bounds = field(default_factory=Bounds)

    def told(self) -> dict[str, Json]:
        """What events, approvals and `policy explain` say of it; the same in every run."""
        names = {root.path: root.name for root in self.roots if root.name.startswith("run:")}
        return {
            "read": [names.get(path, path) for path in self.read],
            "write": [names.get(path, path) for path in self.write],
            "hidden": [item.pattern for item in self.excluded],
            "locked": [item.pattern for item in self.locked],
            "network": list(self.hosts) or "none",
            "workspace": "review" if self.review else "direct",
            "bounds": {name: getattr(self.bounds, name) for name in Bounds.__match_args__},
        }


def plan_of(
    verdict: Verdict, roots: tuple[Root, ...], *, hosts: tuple[str, ...] = (), review: bool = False, bounds: Bounds
) -> Plan:
    """The confinement of a call's programs: the roots, less what the verdict hides and locks."""
    return Plan(
        read=tuple(root.path for root in roots if not root.writable),
        write=tuple(root.path for root in roots if root.writable),
        excluded=verdict.excluded,
        locked=verdict.locked,
        roots=roots,
        hosts=hosts,
        review=review,
        bounds=bounds,
    )


# What a child may know of the runtime's surroundings; names that look secret never pass, whatever stands here.
PASSED = ("LANG", "LC_ALL", "LC_CTYPE", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES")
SECRET_ENDS = ("_TOKEN", "_SECRET", "_KEY", "_PASSWORD", "_PASSWD", "_CREDENTIALS", "_AUTH", "_PAT")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(given: Mapping[str, str], asked: Mapping[str, str], passed: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment of a program: an allow list of the runtime's own, then what the call asks for."""
    base = {name: given[name] for name in (*PASSED, *passed) if name in given}
    found = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", **base, **asked}  # noqa: S108  the sandbox's own
    return {name: value for name, value in found.items() if not looks_secret(name)}


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    upper = name.upper()
    return upper.endswith(SECRET_ENDS) or upper in {"TOKEN", "SECRET", "PASSWORD", "API_KEY", "APIKEY"}
