"""read_file: text of a file, whole or in part, whatever its size."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from hashlib import sha256 as _sha256
from typing import Annotated

from pydantic import Field

from handrail.catalog import Reads, tool
from handrail.errors import Code, Problem
from handrail.ports import Content, Limits, Secrets, Spill, Workspace
from handrail.tools.fs._aside import aside
from handrail.tools.fs._excerpt import room_of_notice
from handrail.tools.fs._kept import keep_whole, leave_room
from handrail.tools.fs._parts import LINES, Facts, FileText, Show, Want, part_of_stream, part_of_text
from handrail.tools.fs._standing import need_file
from handrail.tools.fs._text import Decoded, decode, lines_and_eol, plain_text
from handrail.words import Answer, Evidence, Place, PlaceKind

_ALL = Want()
_MOST = 8 * 1024 * 1024  # bytes of `data` as JSON
_ROOM = 4096  # for what `data` says beside the text
_RUN = "run:"  # what the run keeps already is not kept twice
_WIDEST = 6  # bytes that JSON writes for one


@tool(risk="low", max_bytes=_MOST)
async def read_file(
    files: Workspace,
    secrets: Secrets,
    limits: Limits,
    spill: Spill,
    path: Reads,
    offset: Annotated[int, Field(ge=1), "first line to show, from 1"] = 1,
    limit: Annotated[int, Field(ge=1), "how many lines to show"] = LINES,
    tail: Annotated[int | None, Field(ge=1), "show the last so many lines"] = None,
    column: Annotated[int | None, Field(ge=1), "show each line from this character on; for long lines"] = None,
    byte_offset: Annotated[int | None, Field(ge=0), "show bytes from here on instead of lines"] = None,
    byte_limit: Annotated[int | None, Field(ge=1), "how many bytes to show, with byte_offset"] = None,
    max_bytes: Annotated[
        int | None, Field(ge=1), "a larger file gives an excerpt of at most so many bytes; none: as settings say"
    ] = None,
    whole: Annotated[bool, "give all of it or fail with FILE_TOO_LARGE"] = False,
    keep: Annotated[bool, "write the whole text to a file of the run where its beginning is not all"] = False,
) -> Answer[FileText]:
    """Read a text file: lines from an offset, the last lines, or a byte range; what is cut says how to go on."""
    if path.kind is not PlaceKind.FILE:
        need_file(files, path, "read_file")
    part = offset != 1 or tail is not None or column is not None or byte_offset is not None or byte_limit is not None
    if part or whole:
        want = Want(offset, limit, tail, column, byte_offset, byte_limit)
        _check(want, path.shown, whole)
        part = part or path.size * _WIDEST > _MOST  # may be too much for one answer
    else:
        want = _ALL if limit == LINES else Want(1, limit)
    most = limits.max_read_bytes if max_bytes is None else min(max_bytes, limits.max_read_bytes)
    if max_bytes is not None and max_bytes < path.size and not whole:
        limits, want = _bound_excerpt(limits, want, max_bytes, path.shown)
    content = await _content(files, path, most)
    if content is None:
        return await _streamed(files, path, want, Show(path.shown, limits, secrets), most, whole)
    if not part:
        answer = _at_once(path.shown, content.data, limit, limits)
        if answer is not None:
            files.saw(path, answer.data.sha256, whole=True)
            return answer
    keeper = spill if keep and not part and not path.shown.startswith(_RUN) else None
    return await _read(files, path, content.data, want, Show(path.shown, limits, secrets), whole, keeper)


async def _content(files: Workspace, path: Place, most: int) -> Content | None:
    """Read a file into memory; None where it is larger than that may be."""
    if path.size > most:
        return None
    try:
        return await files.read(path, most)
    except Problem as problem:
        # It may have grown since it was resolved.
        if problem.code is not Code.FILE_TOO_LARGE:
            raise
    return None


def _bound_excerpt(limits: Limits, want: Want, max_bytes: int, shown: str) -> tuple[Limits, Want]:
    """Limit an excerpt to what the caller wants to read; the line that says how to go on comes on top."""
    room = max_bytes + room_of_notice(shown)
    bounded = replace(
        limits,
        max_output_bytes=min(room, limits.max_output_bytes),
        max_line_chars=min(max_bytes, limits.max_line_chars),
    )
    if want.byte_offset is None:
        return bounded, want
    return bounded, replace(want, byte_limit=min(want.byte_limit or max_bytes, max_bytes))


def _at_once(shown: str, data: bytes, limit: int, limits: Limits) -> Answer[FileText] | None:
    """The answer for what most calls read: a small plain text, shown whole. None: it is something else."""
    size = len(data)
    text = plain_text(data) if size <= limits.max_output_bytes else None
    if text is None:
        return None
    lines, eol = lines_and_eol(text)
    if lines > limit or lines > limits.max_output_lines or not (size <= limits.max_line_chars or _narrow(text, limits)):
        return None
    sha256 = _sha256(data).hexdigest()
    return Answer(
        FileText(text, 1, lines, lines, size, sha256, "utf-8", False, eol, True),
        f"Lines 1-{lines} of {lines} of {shown}",
        text,
        (Evidence("file", shown, f"{size} bytes", sha256),),
    )


async def _read(
    files: Workspace, path: Place, data: bytes, want: Want, show: Show, whole: bool, keeper: Spill | None
) -> Answer[FileText]:
    """Show a file that is in memory, whole where it fits; else the whole goes to the keeper, where there is one."""
    decoded, facts = await aside(len(data), partial(_taken_in, data, show.path))
    if whole and len(data) * _WIDEST > _MOST:
        size = await aside(len(data), partial(_as_json, decoded.text, show.secrets))
        if size > _MOST:
            raise _too_large(show.path, len(data), f"{size} as JSON, more than the {_MOST} of one answer", _MOST)
    if keeper is not None:
        show = replace(show, limits=leave_room(show.limits))
    answer = await part_of_text(decoded.text, data, facts, want, show)
    files.saw(path, facts.sha256, whole=answer.data.complete)
    # What a smaller limit of the caller leaves out was not asked for.
    if keeper is not None and answer.truncation is not None and (want.limit >= LINES or answer.data.end < want.limit):
        hidden = await aside(len(data), partial(show.secrets.text, decoded.text))
        answer = keep_whole(answer, hidden, "read_file", keeper)
    return _with_all(answer, decoded.text, facts) if whole and not answer.data.complete else answer


async def _streamed(files: Workspace, path: Place, want: Want, show: Show, most: int, whole: bool) -> Answer[FileText]:
    """Show a part of a file that is too large to be read whole."""
    if whole:
        raise _too_large(show.path, path.size, f"more than the {most} that may be read whole", most)
    answer = await part_of_stream(files, path, want, show)
    files.saw(path, answer.data.sha256, whole=False)
    return answer


def _too_large(shown: str, size: int, why: str, most: int) -> Problem:
    return Problem(
        Code.FILE_TOO_LARGE,
        f"{shown} has {size} bytes, {why}; leave `whole` out to read it in parts.",
        next_call={"tool": "read_file", "args": {"path": shown}},
        bytes=size,
        max_bytes=most,
    )


def _as_json(text: str, secrets: Secrets) -> int:
    """How many bytes `data` takes with this text in it, as it is shown."""
    import orjson

    return len(orjson.dumps(secrets.text(text))) + _ROOM


def _taken_in(data: bytes, shown: str) -> tuple[Decoded, Facts]:
    decoded = decode(data, shown)
    lines, eol = lines_and_eol(decoded.text)
    return decoded, Facts(lines, len(data), _sha256(data).hexdigest(), decoded.encoding, decoded.bom, eol)


def _narrow(text: str, limits: Limits) -> bool:
    """Whether no line is too long to show."""
    most = limits.max_line_chars
    return len(text) <= most or max(map(len, text.replace("\r", "\n").split("\n"))) <= most


def _with_all(answer: Answer[FileText], text: str, facts: Facts) -> Answer[FileText]:
    """Put the whole text into the data; what a model reads stays within the limits."""
    known = facts.total_lines, facts.size, facts.sha256, facts.encoding, bool(facts.bom), facts.eol
    data = FileText(text, 1, facts.total_lines, *known, True)
    return Answer(data, answer.summary, answer.content, answer.evidence, answer.truncation)


def _check(want: Want, shown: str, whole: bool) -> None:
    """Refuse arguments that name two different parts."""
    given = {
        "offset": want.offset != 1,
        "tail": want.tail is not None,
        "byte_offset": want.byte_offset is not None,
        "whole": whole,
    }
    names = [name for name, there in given.items() if there]
    if whole and (want.column is not None or want.limit != LINES):
        names.append("column or limit")
    if want.byte_offset is not None and want.column is not None:
        names.append("column")
    if len(names) > 1:
        raise Problem(
            Code.INVALID_ARGS,
            f"{' and '.join(names)} name different parts of {shown}; give one of them.",
            next_call={"tool": "read_file", "args": {"path": shown}},
        )
    if want.byte_limit is not None and want.byte_offset is None:
        raise Problem(
            Code.INVALID_ARGS,
            "byte_limit goes with byte_offset.",
            next_call={"tool": "read_file", "args": {"path": shown, "byte_offset": 0, "byte_limit": want.byte_limit}},
        )
