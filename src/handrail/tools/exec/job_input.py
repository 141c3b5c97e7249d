"""job_input: send text to a program in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from handrail.catalog import tool
from handrail.ports import Processes
from handrail.tools.exec._jobs import JobInfo, JobName, info, standing
from handrail.words import Answer, Evidence, Touch, TouchKind

_SHORT = 200


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    # What a program is told may be a command to it, so it is judged as one that cannot be read.
    target = f"{args['job']} <<< {args['text'][:_SHORT]}"
    return (Touch(TouchKind.PROC_EXEC, target, doubt="text for a running program"),)


@tool(risk="medium", touches=_touches, permissions=("proc.exec",))
async def job_input(
    processes: Processes,
    job: JobName,
    text: Annotated[str, Field(max_length=1_000_000), "a line needs its line end"] = "",
    close: Annotated[bool, "end the input afterwards"] = False,
) -> Answer[JobInfo]:
    """Send text to the input of a background program."""
    data = text.encode("utf-8", "surrogatepass")
    state = await processes.write_job(job, data, close=close)
    said = f"{len(data)} bytes sent{', input closed' if close else ''}; {standing(state)}"
    return Answer(info(state), said, f"[{said}]", (Evidence("process", job, said),))
