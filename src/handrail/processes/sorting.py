"""Sorting what a program changed by what was decided: kept at once, asked for, never kept. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from handrail.processes.layer import LayerChange
from handrail.words import Decision, Finding, noun

ALLOW, ASK = Decision.ALLOW, Decision.ASK
_Key = tuple[str, str]  # root, path


@noun
class Sorted:
    """The changes of a program, each with the finding that decided it."""

    kept: tuple[LayerChange, ...]
    asked: tuple[tuple[LayerChange, Finding], ...]
    refused: tuple[tuple[LayerChange, Finding], ...]


def sort_changes(
    changes: Sequence[LayerChange], findings: Sequence[Finding], repository_of: Callable[[LayerChange], str]
) -> Sorted:
    """Sort changes; those that make sense only together share the strictest decision.

    That is: what happens below a path with what happens to the path itself; a folder that goes with what goes in it;
    and all that a command changed in the records of one repository, except for new objects, which nothing names.
    """
    decided = _decide_below(changes, list(findings))
    decided = _decide_folders(changes, decided)
    decided = _decide_repositories(changes, decided, repository_of)
    pairs = list(zip(changes, decided, strict=True))
    return Sorted(
        kept=tuple(change for change, finding in pairs if finding.decision is ALLOW),
        asked=tuple(pair for pair in pairs if pair[1].decision is ASK),
        refused=tuple(pair for pair in pairs if pair[1].decision > ASK),
    )


def _decide_below(changes: Sequence[LayerChange], findings: list[Finding]) -> list[Finding]:
    """Let what happens at and below a path follow the strictest that is said of the path."""
    strict: dict[_Key, Finding] = {}
    for change, finding in zip(changes, findings, strict=True):
        key = (change.root.path, change.path)
        if finding.decision is not ALLOW and finding.decision > strict.get(key, _NOTHING).decision:
            strict[key] = finding
    if not strict:
        return findings
    return [_strictest(finding, _above(change, strict)) for change, finding in zip(changes, findings, strict=True)]


def _above(change: LayerChange, strict: dict[_Key, Finding]) -> Finding | None:
    path = change.path
    found: Finding | None = None
    while path:
        found = _strictest(strict.get((change.root.path, path), _NOTHING), found)
        path = path.rpartition("/")[0]
    return found


def _decide_folders(changes: Sequence[LayerChange], findings: list[Finding]) -> list[Finding]:
    """Let a folder stay where something in it stays."""
    staying: dict[_Key, Finding] = {}
    for change, finding in zip(changes, findings, strict=True):
        if change.after is not None or finding.decision is ALLOW:
            continue
        path = change.path
        while path := path.rpartition("/")[0]:
            key = (change.root.path, path)
            staying[key] = _strictest(finding, staying.get(key))
    if not staying:
        return findings
    return [
        _strictest(finding, staying.get((change.root.path, change.path))) if change.kind == "rmdir" else finding
        for change, finding in zip(changes, findings, strict=True)
    ]


def _decide_repositories(
    changes: Sequence[LayerChange], findings: list[Finding], repository_of: Callable[[LayerChange], str]
) -> list[Finding]:
    """Let the records of a repository that a command changed be kept together or not at all."""
    repositories = [state_of(change, repository_of) for change in changes]
    strict: dict[str, Finding] = {}
    for repository, finding in zip(repositories, findings, strict=True):
        if repository and finding.decision is not ALLOW:
            strict[repository] = _strictest(finding, strict.get(repository))
    if not strict:
        return findings
    return [
        _strictest(finding, strict.get(repository)) if repository else finding
        for repository, finding in zip(repositories, findings, strict=True)
    ]


def state_of(change: LayerChange, repository_of: Callable[[LayerChange], str]) -> str:
    """Name the repository whose state a change is part of; new objects are part of none."""
    folder = repository_of(change)
    if not folder:
        return ""
    inner = f"{change.root.path}/{change.path}"[len(folder) :]
    return "" if inner.startswith("objects/") and change.before is None else folder


def _strictest(finding: Finding, other: Finding | None) -> Finding:
    return other if other is not None and other.decision > finding.decision else finding


_NOTHING = Finding("defaults", "defaults.kept", ALLOW)
