"""read_lints: what linters say of files.

A linter is named by the operator's settings or by an installed package, never by the call, so that a call touches what
it reads: the files, and the folder in which linters look for their configuration. Programs run confined, with the roots
to be read only and without a network.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Finished, Limits, Linter, Linters, LintLook, Places, Searcher, Workspace
from handrail.queries import FileQuery
from handrail.tools.quality._diagnostics import Diagnostic, keys_of, new_since, read_output
from handrail.tools.quality._syntax import MAX_BYTES, checker_for
from handrail.words import Answer, Evidence, Place, PlaceKind, Touch, TouchKind

_AT_ONCE = 4  # linters running side by side
_MOST_FILES = 200
_RUFF = "Python is checked by ruff, which is not installed here: pip install 'handrail[lint]', or ruff itself"


@dataclass(frozen=True, slots=True)
class Linted:
    """One file: what checked it, and the hash of exactly the bytes that were checked."""

    file: str
    sha256: str | None
    linter: str | None
    status: Literal["checked", "no linter", "not checked"]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Lints:
    """Diagnostics in order of file and line, and the files they are about."""

    diagnostics: list[Diagnostic]
    files: list[Linted]


@dataclass(slots=True)
class _Look:
    """What looking at one file came to."""

    linted: Linted
    found: list[Diagnostic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    command: str = ""  # the program that was run


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    """The files, and the workspace for what linters read beside them: what policy excludes there they do not see."""
    found = [Touch(TouchKind.FS_READ, path, deep=True) for path in dict.fromkeys(args["paths"])]
    return found if "." in args["paths"] else [*found, Touch(TouchKind.FS_READ, ".", deep=True)]


@tool(risk="low", touches=_touches, permissions=["fs.read"], timeout_seconds=120.0)
async def read_lints(
    linters: Linters,
    files: Workspace,
    searcher: Searcher,
    places: Places,
    limits: Limits,
    paths: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4096)]],
        Field(min_length=1, max_length=50),
        "Files or folders",
    ],
    new_only: Annotated[
        bool, "Only what is new since this run's last look at a file, or its last change of it"
    ] = False,
) -> Answer[Lints]:
    """Check files with the linters there are: Python, shell, JSON, TOML, YAML, and what the operator added."""
    found, notes = await _files(paths, places, files, searcher)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def look(place: Place) -> _Look:
        async with slots:
            return await _Looking(linters, files, limits, new_only).at(place)

    try:
        async with asyncio.TaskGroup() as group:  # no linter runs on when the call has failed
            looks = [group.create_task(look(place)) for place in found]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return _answer([task.result() for task in looks], notes, new_only)


async def _files(
    paths: Sequence[str], places: Places, files: Workspace, searcher: Searcher
) -> tuple[list[Place], list[str]]:
    """The files that are asked about, those below folders included."""
    found: dict[str, Place] = {}
    notes = []
    for path in paths:
        place = places[path]
        if place.kind is PlaceKind.MISSING:
            near = files.near(place)
            hint = f" Near: {', '.join(near)}" if near else ""
            raise Problem(Code.NOT_FOUND, f"{place.shown} does not exist.{hint}", path=place.shown, near=list(near))
        if place.kind is not PlaceKind.DIRECTORY:
            found[place.absolute] = place
            continue
        listed = await searcher.files(place, FileQuery(limit=_MOST_FILES))
        base = f"{place.path}/" if place.path else ""
        for name in listed.paths:
            inner = Place(place.root, f"{base}{name}", PlaceKind.FILE)
            found.setdefault(inner.absolute, inner)
        if listed.more:
            notes.append(f"[Of {place.shown} only the first {_MOST_FILES} files were looked at; name deeper folders]")
    return list(found.values()), notes


@dataclass(frozen=True, slots=True)
class _Looking:
    """One way of looking at files."""

    linters: Linters
    files: Workspace
    limits: Limits
    new_only: bool

    async def at(self, place: Place) -> _Look:
        """Look at one file; what cannot be checked is told, and is no failure."""
        shown = place.shown
        linter, check = self.linters.find(shown), checker_for(shown)
        if linter is None and check is None:
            return _Look(Linted(shown, None, None, "no linter", _missing(shown)))
        try:
            data = (await self.files.read(place, self.limits.max_read_bytes)).data
        except Problem as problem:
            return _Look(Linted(shown, None, None, "not checked", problem.message))
        digest = hashlib.sha256(data).hexdigest()
        name = linter.source if linter is not None else shown.rpartition(".")[2].lower()
        try:
            found = await self._diagnostics(linter, place, data)
        except Problem as problem:
            return _Look(Linted(shown, digest, name, "not checked", problem.message))
        command = "" if linter is None else shlex.join(linter.argv)
        look = _Look(Linted(shown, digest, name, "checked"), found, command=command)
        if linter is not None and not linter.stdin:
            await self._still(place, digest, look)
        await self._compare(place, linter, data, digest, look)
        return look

    async def _diagnostics(self, linter: Linter | None, place: Place, data: bytes) -> list[Diagnostic]:
        if linter is not None:
            finished = await self.linters.run(linter, place, data)
            return _read(finished, linter, place.shown)
        check = checker_for(place.shown)
        assert check is not None
        if len(data) > MAX_BYTES:
            raise Problem(Code.FILE_TOO_LARGE, f"{len(data)} bytes are more than the {MAX_BYTES} that are checked.")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            return [Diagnostic(place.shown, line, 0, "error", "encoding", f"not UTF-8: {error.reason}", "utf-8")]
        fault = await asyncio.to_thread(check, text, place.shown)
        return [] if fault is None else [fault]

    async def _still(self, place: Place, digest: str, look: _Look) -> None:
        """A linter that opens the path itself must have seen the same bytes."""
        data = (await self.files.read(place, self.limits.max_read_bytes)).data
        if hashlib.sha256(data).hexdigest() != digest:
            look.warnings.append(f"{place.shown} changed while it was checked; look again")
            look.linted = Linted(place.shown, None, look.linted.linter, "not checked", "changed while it was checked")
            look.found = []

    async def _compare(self, place: Place, linter: Linter | None, data: bytes, digest: str, look: _Look) -> None:
        """Remember what was found, and leave out what was there before where that was asked."""
        if look.linted.status != "checked":
            return
        keys = keys_of(look.found, data.decode("utf-8", "replace"))
        last = self.linters.last(place)
        self.linters.looked(place, LintLook(digest, keys))
        if not self.new_only:
            return
        before = last.keys if last is not None else await self._former(place, linter)
        if before is None:
            look.warnings.append(f"{place.shown}: no earlier look in this run to compare with, so everything is shown")
        else:
            look.found = new_since(look.found, keys, before)

    async def _former(self, place: Place, linter: Linter | None) -> tuple[tuple[str, ...], ...] | None:
        data = await self.linters.former(place)
        if data is None or (linter is not None and not linter.stdin):
            return None
        found = await self._diagnostics(linter, place, data)
        return keys_of(found, data.decode("utf-8", "replace"))


def _read(finished: Finished, linter: Linter, shown: str) -> list[Diagnostic]:
    """The diagnostics of a linter that did its work; a Problem says why it did not."""
    if finished.timed_out or finished.exit_code not in linter.exit_codes:
        how = "took too long" if finished.timed_out else f"ended with {finished.exit_code or finished.signal}"
        said = (finished.stderr.text or finished.stdout.text).strip()[:300]
        raise Problem(Code.EXIT_NONZERO, f"{linter.source} {how}{': ' if said else ''}{said}")
    text = (
        finished.stdout.text if linter.format in ("ruff", "json") else f"{finished.stdout.text}\n{finished.stderr.text}"
    )
    found = list(read_output(text, linter.format, shown, linter.source))
    if finished.exit_code and not found and linter.format == "bash":
        raise Problem(Code.EXIT_NONZERO, f"{linter.source}: {text.strip()[:300]}")
    return found


def _answer(looks: Sequence[_Look], notes: Sequence[str], new_only: bool) -> Answer[Lints]:
    found = sorted(
        (item for look in looks for item in look.found), key=lambda item: (item.file, item.line, item.column)
    )
    checked = [look.linted for look in looks if look.linted.status == "checked"]
    kind = "new diagnostic" if new_only else "diagnostic"
    count = f"{len(found)} {kind}{'' if len(found) == 1 else 's'}"
    summary = f"{count} in {len(checked)} of {len(looks)} file{'' if len(looks) == 1 else 's'}"
    lines = [_line(item) for item in found]
    lines += [_without(look.linted) for look in looks if look.linted.status != "checked"]
    return Answer(
        Lints(found, [look.linted for look in looks]),
        summary=summary,
        content="\n".join([*lines, *notes, f"[{summary}]"]),
        evidence=tuple(Evidence("file", item.file, item.linter or "", item.sha256) for item in checked[:50])
        or (Evidence("tool", "read_lints", summary),),
        commands=tuple(dict.fromkeys(look.command for look in looks if look.command)),
        warnings=tuple(warning for look in looks for warning in look.warnings),
    )


def _line(item: Diagnostic) -> str:
    place = f"{item.file}:{item.line}:{item.column}" if item.column else f"{item.file}:{item.line}"
    return f"{place}: {item.severity}: {item.message} [{item.source}{' ' if item.code else ''}{item.code}]"


def _missing(shown: str) -> str | None:
    """What to install for a file that would be checked if its linter were here."""
    return _RUFF if shown.endswith((".py", ".pyi")) else None


def _without(linted: Linted) -> str:
    if linted.status == "no linter":
        return f"{linted.file}: {linted.note or 'there is no linter for this'}"
    return f"{linted.file}: not checked: {linted.note}"
