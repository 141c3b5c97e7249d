"""job_read: what a program in the background has written since."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from handrail.catalog import tool
from handrail.ports import Processes
from handrail.tools.exec._jobs import JobInfo, JobName, info, standing
from handrail.words import Answer, Evidence


@dataclass(frozen=True, slots=True)
class JobText:
    """What a job wrote, both streams as they came, and where to go on."""

    text: str
    cursor: int
    skipped: int  # bytes that were no longer kept
    state: JobInfo


@tool(risk="medium", permissions=("tool.use",), timeout_seconds=90)
async def job_read(
    processes: Processes,
    job: JobName,
    cursor: Annotated[int | None, Field(ge=0), "go on from here; none: after what was read last"] = None,
    wait_seconds: Annotated[float, Field(ge=0, le=60), "how long to wait for something new"] = 0.0,
) -> Answer[JobText]:
    """Read what a background program wrote since the last read; nothing is given twice unless asked for by cursor."""
    found = await processes.read_job(job, cursor, wait_seconds)
    state = found.state
    lost = f"; {found.skipped} bytes before this are no longer kept" if found.skipped else ""
    again = json.dumps({"job": state.job, "cursor": found.cursor})
    said = f"{standing(state)}{lost}"
    content = f"{found.text}{'' if found.text.endswith(chr(10)) or not found.text else chr(10)}"
    data = JobText(found.text, found.cursor, found.skipped, info(state))
    return Answer(data, said, f"{content}[{said}; go on with job_read {again}]", (Evidence("process", job, said),))
