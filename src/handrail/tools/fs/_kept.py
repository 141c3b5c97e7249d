"""The whole of what is shown in part, written into a file of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from handrail.errors import Problem
from handrail.output.redact import MARK
from handrail.ports import Limits, Spill
from handrail.words import Answer

T = TypeVar("T")
_BYTES = 120  # of the line that names the file


def leave_room(limits: Limits) -> Limits:
    """Leave room for the line that names the file."""
    lines = max(1, limits.max_output_lines - 1)
    return replace(limits, max_output_lines=lines, max_output_bytes=max(1, limits.max_output_bytes - _BYTES))


def keep_whole(answer: Answer[T], text: str, name: str, spill: Spill) -> Answer[T]:
    """Write a text, in which secrets are hidden, into the run's folder, and say where it is."""
    assert answer.truncation is not None
    try:
        ref = spill.put(text, name)
    except Problem as problem:
        warning = f"The whole is not kept: {problem.message}"
        return replace(answer, warnings=(*answer.warnings, warning))
    what = f"All of it, secrets hidden as {MARK}," if MARK in text else "All of it"
    content = f"{answer.content}\n[{what} is in {ref.ref}]"
    return replace(answer, content=content, truncation=replace(answer.truncation, ref=ref.ref), refs=(ref,))
