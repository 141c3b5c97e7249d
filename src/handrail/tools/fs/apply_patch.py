"""apply_patch: change several files at once, all or none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Limits, Places, Secrets, Workspace
from handrail.tools.fs._aside import aside, cost
from handrail.tools.fs._changes import FileChange, carry_out
from handrail.tools.fs._diff import diff_texts
from handrail.tools.fs._effort import Effort
from handrail.tools.fs._hunks import Patched, apply_hunks
from handrail.tools.fs._patch import FilePatch, parse_patch
from handrail.tools.fs._standing import need_file
from handrail.tools.fs._text import decode, encode, fold_endings, is_binary, refuse_marks
from handrail.words import Answer, Evidence, How, Place, PlaceKind, Touch, TouchKind


@dataclass(frozen=True, slots=True)
class HunkResult:
    """Where a hunk stands, and how it was found."""

    line: int
    matched_by: str  # exact | line_endings | trailing_blanks | typographic | indent | appended


@dataclass(frozen=True, slots=True)
class FileResult:
    """What a patch did to one file."""

    path: str
    operation: str  # add | update | delete | move
    target: str | None
    state: str  # applied | planned (a dry run) | already (it was so before) | failed (with `atomic` false)
    hunks: list[HunkResult]
    sha256_before: str | None
    sha256_after: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PatchResult:
    """What a patch did."""

    files: list[FileResult]
    diff: str


@dataclass(frozen=True, slots=True)
class _Ready:
    """One file of a patch, worked out; or why it cannot be."""

    item: FilePatch
    change: FileChange | None = None  # None: there is nothing to do
    hunks: tuple[HunkResult, ...] = ()
    diff: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Scene:
    """What working a patch out needs."""

    files: Workspace
    places: Places
    secrets: Secrets
    limits: Limits
    effort: Effort = field(default_factory=Effort)


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    return tuple(_stated(parse_patch(args["patch"]), args["dry_run"]))


def _stated(patches: list[FilePatch], dry_run: bool) -> Iterator[Touch]:
    for item in patches:
        if dry_run or item.operation != "add":  # the diff shows what the file held
            yield Touch(TouchKind.FS_READ, item.path)
        if dry_run:
            pass
        elif item.operation == "delete":
            yield Touch(TouchKind.FS_DELETE, item.path, follow=False)
        elif item.target is not None:
            yield Touch(TouchKind.FS_DELETE, item.path, how=How.MOVE, follow=False)
        else:
            yield Touch(TouchKind.FS_WRITE, item.path, how=How.EDIT if item.operation == "update" else How.PLAIN)
        if item.target is not None:
            yield Touch(TouchKind.FS_READ if dry_run else TouchKind.FS_WRITE, item.target)


async def _preview(files: Workspace, places: Places, secrets: Secrets, limits: Limits, patch: str, **_: Any) -> str:
    scene = _Scene(files, places, secrets, limits)
    return _joined([await _worked_out(scene, item) for item in parse_patch(patch)], limits)


@tool(
    risk="high",
    touches=_touches,
    permissions=("fs.read", "fs.write", "fs.delete"),
    preview=_preview,
    previewed=("patch",),
)
async def apply_patch(
    files: Workspace,
    places: Places,
    secrets: Secrets,
    limits: Limits,
    patch: Annotated[str, "`*** Begin Patch` … `*** End Patch`, or a unified diff; line numbers are only hints"],
    dry_run: Annotated[bool, "show what would change and write nothing"] = False,
    atomic: Annotated[bool, "all files or none; false: each file for itself"] = True,
) -> Answer[PatchResult]:
    """Apply a patch to one or more files: add, update, move, delete. Hunks are found by their content."""
    scene = _Scene(files, places, secrets, limits)
    ready = [await _worked_out(scene, item, atomic) for item in parse_patch(patch)]
    if all(one.change is None and one.problem is None for one in ready):
        raise Problem(
            Code.ALREADY_APPLIED,
            f"The patch is in place already: {', '.join(one.item.path for one in ready)}.",
            files=[one.item.path for one in ready],
        )
    if not dry_run:
        ready = await _carried_out(files, ready, atomic)
    problems = [one.problem for one in ready if one.problem is not None]
    if len(problems) == sum(one.change is not None or one.problem is not None for one in ready):
        raise problems[0]
    results = [_told(one, places, dry_run) for one in ready]
    return _answer(PatchResult(results, _joined(ready, limits)))


async def _carried_out(files: Workspace, ready: list[_Ready], atomic: bool) -> list[_Ready]:
    if atomic:
        await carry_out(files, [one.change for one in ready if one.change is not None])
        return ready
    done = []
    for one in ready:
        try:
            await carry_out(files, [one.change] if one.change is not None else [])
            done.append(one)
        except Problem as problem:
            done.append(replace(one, problem=problem))
    return done


# ── what the patch means for the files as they are ───────────────────────────────────────────


async def _worked_out(scene: _Scene, item: FilePatch, strict: bool = True) -> _Ready:
    """Find out what a file becomes; its Problem is kept where others go on without it."""
    work = {"add": _add, "delete": _delete, "update": _update}[item.operation]
    try:
        return await work(scene, item, scene.places[item.path])
    except Problem as problem:
        problem.details.setdefault("path", item.path)
        if strict:
            raise
        return _Ready(item, problem=problem)


async def _add(scene: _Scene, item: FilePatch, place: Place) -> _Ready:
    data = encode(item.content)
    if place.kind is PlaceKind.FILE and (await _read(scene, place))[0] == data:
        return _Ready(item)
    if place.kind is not PlaceKind.MISSING:
        raise _taken(place, f"the patch adds it (line {item.at})")
    refuse_marks("", item.content, place.shown)
    diff = diff_texts(None, item.content, place.shown, scene.secrets, scene.limits)
    return _Ready(item, FileChange("add", place, after=data, sha256_after=_sha256(data)), (), diff)


async def _delete(scene: _Scene, item: FilePatch, place: Place) -> _Ready:
    if place.kind is PlaceKind.MISSING:
        return _Ready(item)
    need_file(scene.files, place, "read_file")
    data, sha256 = await _read(scene, place)
    shown = place.shown
    text = decode(data, shown).text if not is_binary(data) else None
    if item.hunks and fold_endings(text or "").splitlines() != [line for hunk in item.hunks for line in hunk.old]:
        raise Problem(
            Code.NO_MATCH,
            f"{shown} does not hold what the patch deletes (line {item.at}); it was changed since.",
            next_call={"tool": "read_file", "args": {"path": shown}},
        )
    diff = "" if text is None else diff_texts(text, None, shown, scene.secrets, scene.limits)
    return _Ready(item, FileChange("delete", place, before=data, sha256_before=sha256), (), diff)


async def _update(scene: _Scene, item: FilePatch, place: Place) -> _Ready:
    target = None if item.target is None else scene.places[item.target]
    if target is not None and place.kind is PlaceKind.MISSING and await _moved_before(scene, item, target):
        return _Ready(item)
    need_file(scene.files, place, "read_file")
    if target is not None and target.kind is not PlaceKind.MISSING:
        raise _taken(target, f"the patch moves {place.shown} there (line {item.at})")
    data, sha256 = await _read(scene, place)
    if not item.hunks:
        assert target is not None
        change = FileChange("move", place, target, data, data, sha256, sha256)
        return _Ready(item, change, (), _renamed(place, target))
    return await aside(_cost(data, item), partial(_patched, scene, item, place, target, data, sha256), scene.effort)


def _cost(data: bytes, item: FilePatch) -> int:
    return cost(len(data), len(item.hunks), sum(len(text) for hunk in item.hunks for _, text in hunk.lines))


def _patched(scene: _Scene, item: FilePatch, place: Place, target: Place | None, data: bytes, sha256: str) -> _Ready:
    shown = place.shown
    decoded = decode(data, shown)
    patched = _applied(scene, item, decoded.text, shown)
    if patched.done and target is None:
        return _Ready(item)
    refuse_marks(decoded.text, patched.text, shown)
    after = encode(patched.text, decoded.encoding, decoded.bom)
    change = FileChange("move" if target else "update", place, target, data, after, sha256, _sha256(after))
    hunks = tuple(HunkResult(one.start + 1, one.level) for one in patched.placed)
    diff = diff_texts(decoded.text, patched.text, (target or place).shown, scene.secrets, scene.limits)
    return _Ready(item, change, hunks, (_renamed(place, target) if target else "") + diff)


async def _moved_before(scene: _Scene, item: FilePatch, target: Place) -> bool:
    """Whether the source is gone and what it became stands at the target."""
    if target.kind is not PlaceKind.FILE:
        return False
    if not item.hunks:
        return True
    data, _ = await _read(scene, target)
    text = decode(data, target.shown).text
    try:
        work = partial(_applied, scene, item, text, target.shown)
        return (await aside(_cost(data, item), work, scene.effort)).done
    except Problem:
        return False


def _applied(scene: _Scene, item: FilePatch, text: str, shown: str) -> Patched:
    return apply_hunks(text, item.hunks, shown, partial(scene.secrets.spans, text), scene.effort)


async def _read(scene: _Scene, place: Place) -> tuple[bytes, str]:
    data = (await scene.files.read(place, scene.limits.max_read_bytes)).data
    return data, _sha256(data)


def _taken(place: Place, why: str) -> Problem:
    return Problem(
        Code.ALREADY_EXISTS,
        f"{place.shown} exists already, and {why}.",
        next_call={"tool": "read_file", "args": {"path": place.shown}} if place.kind is PlaceKind.FILE else None,
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ── what is told ─────────────────────────────────────────────────────────────────────────────


def _renamed(place: Place, target: Place) -> str:
    return f"rename from {place.shown}\nrename to {target.shown}\n"


def _joined(ready: list[_Ready], limits: Limits) -> str:
    """The diffs of all files that change, as many as fit."""
    diffs = [one.diff for one in ready if one.diff and one.problem is None]
    shown: list[str] = []
    size = 0
    for diff in diffs:
        size += len(diff.encode())
        if shown and size > limits.max_output_bytes - 4000:
            return "".join([*shown, f"[the diffs of {len(diffs) - len(shown)} more files are not shown]\n"])
        shown.append(diff)
    return "".join(shown)


def _told(one: _Ready, places: Places, dry_run: bool) -> FileResult:
    item, change = one.item, one.change
    state = "failed" if one.problem else "already" if change is None else "planned" if dry_run else "applied"
    return FileResult(
        places[item.path].shown,
        "move" if item.target is not None else item.operation,
        None if item.target is None else places[item.target].shown,
        state,
        list(one.hunks),
        (change and change.sha256_before) or None,
        (change and change.sha256_after) or None,
        None if one.problem is None else f"{one.problem.code.value}: {one.problem.message}",
    )


def _answer(result: PatchResult) -> Answer[PatchResult]:
    lines = [_line(one) for one in result.files]
    states = [one.state for one in result.files]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    changed = [one for one in result.files if one.state in ("applied", "planned")]
    evidence = tuple(
        Evidence("file", one.target or one.path, f"{one.operation} {one.state}", one.sha256_after) for one in changed
    )
    failed = tuple(f"{one.path}: {one.problem}" for one in result.files if one.problem)
    appended = tuple(
        f"{one.path}: lines were added at the end, because the patch does not say where; give a line around them"
        for one in result.files
        if any(hunk.matched_by == "appended" for hunk in one.hunks)
    )
    content = "".join(f"{line}\n" for line in lines) + result.diff
    return Answer(result, f"{len(states)} files: {counts}", content, evidence, warnings=(*failed, *appended))


def _line(one: FileResult) -> str:
    hunks = ", ".join(f"line {hunk.line} ({hunk.matched_by})" for hunk in one.hunks)
    name = one.path if one.target is None else f"{one.path} -> {one.target}"
    return (
        f"{one.state}: {one.operation} {name}{f': {hunks}' if hunks else ''}{f': {one.problem}' if one.problem else ''}"
    )
