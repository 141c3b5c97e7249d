"""write_file: make a file, replace one that is known, or add to its end."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from handrail.catalog import Writes, tool
from handrail.errors import Code, Problem
from handrail.output.redact import MARK
from handrail.ports import Limits, Secrets, Workspace
from handrail.tools.fs._aside import LARGE, aside
from handrail.tools.fs._diff import diff_texts
from handrail.tools.fs._standing import need_file, stale
from handrail.tools.fs._text import Decoded, decode, encode, refuse_marks
from handrail.words import Answer, Evidence, How, Place, PlaceKind, Touch, TouchKind

Mode = Literal["create", "overwrite", "append"]
_ECHOED = 4000  # characters of content that are repeated in a suggested call
_CHUNK = 1 << 20
WHATEVER = "*"  # as expected_sha256: what is there may be replaced unread; it is kept all the same


@dataclass(frozen=True, slots=True)
class FileWrite:
    """What was written."""

    path: str
    bytes: int  # of the whole file
    written: int  # by this call
    sha256: str
    created: bool
    diff: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """A write that is ready to be made."""

    data: bytes
    before: str  # hash of what is there; empty: nothing is
    diff: str
    kept: int = 0  # bytes of what is there that stay


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    how = How.EDIT if args["mode"] == "append" else How.REPLACE
    writes = Touch(TouchKind.FS_WRITE, args["path"], how=how)
    # The diff shows what the file held.
    return (writes,) if args["mode"] == "create" else (Touch(TouchKind.FS_READ, args["path"]), writes)


async def _preview(
    files: Workspace,
    secrets: Secrets,
    limits: Limits,
    path: Place,
    content: str,
    mode: Mode,
    expected_sha256: str | None,
    **_: Any,
) -> str:
    return (await _plan(files, secrets, limits, path, content, mode, expected_sha256)).diff


@tool(risk="high", touches=_touches, permissions=("fs.read", "fs.write"), preview=_preview, previewed=("content",))
async def write_file(
    files: Workspace,
    secrets: Secrets,
    limits: Limits,
    path: Writes,
    content: str,
    mode: Annotated[Mode, "create: nothing may be there; overwrite: the file must have been read; append"] = "create",
    expected_sha256: Annotated[
        str | None, "what must be there now; lets overwrite replace a file not read; `*`: whatever is there"
    ] = None,
    mkdirs: Annotated[bool, "make missing folders"] = True,
) -> Answer[FileWrite]:
    """Write a text file in one step: it is there whole or not at all. To change a part of a file, use edit_file."""
    plan = await _plan(files, secrets, limits, path, content, mode, expected_sha256)
    change = await files.write(
        path, plan.data, expected_sha256=plan.before, mkdirs=mkdirs, exclusive=mode == "create" or not plan.before
    )
    sha256, shown, size = change.after or "", path.shown, len(plan.data)
    if mode != "append":
        files.saw(path, sha256, whole=True)
    result = FileWrite(shown, size, size - plan.kept, sha256, not plan.before, plan.diff)
    said = f"{'Created' if result.created else 'Wrote'} {shown}: {size} bytes, sha256 {sha256}"
    # What a model just sent it need not read again.
    told = said if result.created else f"{said}\n{plan.diff}"
    return Answer(result, said, told, (Evidence("file", shown, f"{size} bytes", sha256),))


async def _plan(
    files: Workspace,
    secrets: Secrets,
    limits: Limits,
    path: Place,
    content: str,
    mode: Mode,
    expected_sha256: str | None,
) -> _Plan:
    if path.kind is PlaceKind.MISSING:
        if expected_sha256 and expected_sha256 != WHATEVER:
            raise stale(path, expected_sha256, "")
        shown = path.shown
        refuse_marks("", content, shown)
        data = encode(content)
        if len(content) < LARGE:
            return _Plan(data, "", diff_texts(None, content, shown, secrets, limits))
        return _Plan(data, "", await aside(len(content), partial(diff_texts, None, content, shown, secrets, limits)))
    need_file(files, path, "write_file")
    if mode == "create":
        raise _exists(files, path, content)
    old, before = await _standing(files, path, limits, mode)
    known = expected_sha256 if expected_sha256 is not None or mode == "append" else files.seen(path)
    if known == WHATEVER:
        known = before
    if known != before and not (mode == "append" and known is None):
        raise stale(path, known, before)
    size = len(old or b"") + len(content)
    return await aside(size, partial(_planned, old, before, path.shown, content, mode, secrets, limits))


def _planned(
    old: bytes | None, before: str, shown: str, content: str, mode: Mode, secrets: Secrets, limits: Limits
) -> _Plan:
    if mode == "append":
        decoded = decode(old or b"", shown)
        text, after = decoded.text, decoded.text + content
        data = encode(after, decoded.encoding, decoded.bom)
    else:
        known = _readable(old, shown)
        text, after, data = known.text if known else "", content, encode(content)
        if old is not None and known is None:
            refuse_marks(MARK * old.count(MARK.encode()), content, shown)
        if known is None:
            return _Plan(
                data, before, f"{shown} is replaced; what it held is too large or no text, so no diff is shown\n"
            )
    refuse_marks(text, after, shown)
    kept = len(old or b"") if mode == "append" else 0
    return _Plan(data, before, diff_texts(text, after, shown, secrets, limits), kept)


def _readable(old: bytes | None, shown: str) -> Decoded | None:
    try:
        return None if old is None else decode(old, shown)
    except Problem:
        return None


async def _standing(files: Workspace, path: Place, limits: Limits, mode: Mode) -> tuple[bytes | None, str]:
    """What is there, and its hash; of a large file that is replaced only the hash."""
    if path.size <= limits.max_read_bytes or mode == "append":
        data = (await files.read(path, limits.max_read_bytes)).data
        return data, hashlib.sha256(data).hexdigest()
    digest = hashlib.sha256()
    async with files.open(path) as stream:
        while chunk := await stream.read(_CHUNK):
            await aside(len(chunk), partial(digest.update, chunk))
    return None, digest.hexdigest()


def _exists(files: Workspace, path: Place, content: str) -> Problem:
    """Say that something is there, and name the call that goes on from here."""
    shown = path.shown
    if files.seen(path) is None:
        next_call: dict[str, Any] | None = {"tool": "read_file", "args": {"path": shown}}
        how = 'Read it first, then change it with edit_file or replace it with mode="overwrite".'
    else:
        args = {"path": shown, "content": content, "mode": "overwrite"}
        next_call = {"tool": "write_file", "args": args} if len(content) <= _ECHOED else None
        how = 'mode="overwrite" replaces it; edit_file changes a part of it.'
    return Problem(Code.ALREADY_EXISTS, f"{shown} exists already. {how}", next_call=next_call)
