"""edit_file: replace quoted text in a file, and not a byte else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

from handrail.catalog import Edits, tool
from handrail.ports import Limits, Secrets, Workspace
from handrail.tools.fs._aside import aside, cost
from handrail.tools.fs._diff import diff_texts
from handrail.tools.fs._edits import Edit, Edited, apply_edits
from handrail.tools.fs._effort import Effort
from handrail.tools.fs._standing import need_file, stale
from handrail.tools.fs._text import Decoded, decode, encode, refuse_marks
from handrail.words import Answer, Evidence, How, Place, PlaceKind, Touch, TouchKind

_ECHOED = 8000  # characters of edits that are repeated in a suggested call


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What an edit changed."""

    path: str
    replacements: int
    first_changed_line: int
    matched_by: list[str]  # exact | line_endings | trailing_blanks | typographic | indent, one per edit
    diff: str
    sha256_before: str
    sha256_after: str
    written: bool  # False after a dry run


@dataclass(frozen=True, slots=True)
class _Plan:
    """An edit that is ready to be written."""

    data: bytes
    result: FileEdit
    content: str


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    # The diff, and what is said where nothing matches, show what the file holds.
    reads = Touch(TouchKind.FS_READ, args["path"])
    return (reads,) if args["dry_run"] else (reads, Touch(TouchKind.FS_WRITE, args["path"], how=How.EDIT))


async def _preview(files: Workspace, secrets: Secrets, limits: Limits, path: Place, **args: Any) -> str:
    return (await _plan(files, secrets, limits, path, args["edits"], args["expected_sha256"])).result.diff


@tool(risk="high", touches=_touches, permissions=("fs.read", "fs.write"), preview=_preview, previewed=("edits",))
async def edit_file(
    files: Workspace,
    secrets: Secrets,
    limits: Limits,
    path: Edits,
    edits: Annotated[list[Edit], "all are found in the file as it is now; each `old` must be there exactly once"],
    expected_sha256: Annotated[str | None, "refuse if the file is another one by now"] = None,
    dry_run: Annotated[bool, "show what would change and write nothing"] = False,
) -> Answer[FileEdit]:
    """Replace text in a file: quote `old` as it stands there, give `new`; everything else stays byte for byte."""
    plan = await _plan(files, secrets, limits, path, edits, expected_sha256)
    result = plan.result
    if dry_run:
        return Answer(result, f"Would change {_said(result)}", plan.content, _evidence(result))
    knew = files.seen(path) == result.sha256_before
    await files.write(path, plan.data, expected_sha256=result.sha256_before)
    if knew or not result.sha256_before:
        files.saw(path, result.sha256_after, whole=True)
    result = FileEdit(**{**asdict(result), "written": True})
    return Answer(result, f"Changed {_said(result)}", plan.content, _evidence(result))


async def _plan(
    files: Workspace, secrets: Secrets, limits: Limits, path: Place, edits: list[Edit], expected_sha256: str | None
) -> _Plan:
    if path.kind is PlaceKind.MISSING and _fills(edits):
        before, old = "", b""
    else:
        need_file(files, path, "edit_file")
        old = (await files.read(path, limits.max_read_bytes)).data
        before = hashlib.sha256(old).hexdigest()
    if expected_sha256 is not None and expected_sha256 != before:
        raise stale(path, expected_sha256, before)
    effort = Effort()
    work = partial(_worked_out, old, before, edits, path.shown, secrets, limits, effort)
    return await aside(_cost(len(old), edits), work, effort)


def _cost(size: int, edits: list[Edit]) -> int:
    """What making edits may take: the text for each of them, and what each may put into it."""
    quoted = sum(len(edit.old) + edit.old.count("\n") * edit.new.count("\n") for edit in edits)
    given = sum(len(edit.new) * (size // (len(edit.old) or 1) if edit.match == "all" else 1) for edit in edits)
    return cost(size, len(edits), quoted + given)


def _worked_out(
    old: bytes, before: str, edits: list[Edit], shown: str, secrets: Secrets, limits: Limits, effort: Effort
) -> _Plan:
    decoded = decode(old, shown)
    text = decoded.text

    def again(others: list[Edit]) -> dict[str, Any] | None:
        known = [{name: value for name, value in asdict(edit).items() if value is not None} for edit in others]
        if sum(len(edit.old) + len(edit.new) for edit in others) > _ECHOED:
            return None
        return {"tool": "edit_file", "args": {"path": shown, "edits": known}}

    if not text and _fills(edits):
        edited = _filled(edits[0])
    else:
        edited = apply_edits(text, edits, shown, partial(secrets.spans, text), again, effort)
    refuse_marks(text, edited.text, shown)
    return _planned(decoded, edited, before, shown, secrets, limits)


def _planned(decoded: Decoded, edited: Edited, before: str, shown: str, secrets: Secrets, limits: Limits) -> _Plan:
    data = encode(edited.text, decoded.encoding, decoded.bom)
    diff = diff_texts(decoded.text if before else None, edited.text, shown, secrets, limits)
    after = hashlib.sha256(data).hexdigest()
    by = list(edited.matched_by)
    result = FileEdit(shown, edited.replacements, edited.first_changed_line, by, diff, before, after, False)
    loose = [f"edits.{index} by {level}" for index, level in enumerate(by) if level != "exact"]
    note = f"Matched loosely: {', '.join(loose)}.\n" if loose else ""
    return _Plan(data, result, f"{note}{diff}" or "The change is inside a hidden value.")


def _fills(edits: list[Edit]) -> bool:
    """Whether the only edit puts text where there is none."""
    return len(edits) == 1 and edits[0].old == "" and edits[0].new != ""


def _filled(edit: Edit) -> Edited:
    return Edited(edit.new, 1, 1, ("exact",))


def _said(result: FileEdit) -> str:
    times = "1 place" if result.replacements == 1 else f"{result.replacements} places"
    return f"{times} of {result.path}, from line {result.first_changed_line} on"


def _evidence(result: FileEdit) -> tuple[Evidence, ...]:
    return (Evidence("file", result.path, f"{result.replacements} replaced", result.sha256_after),)
