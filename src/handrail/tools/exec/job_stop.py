"""job_stop: end a program in the background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.catalog import tool
from handrail.ports import Processes
from handrail.tools.exec._jobs import JobInfo, JobName, info, standing
from handrail.words import Answer, Evidence, Touch, TouchKind


def _touches(_: Mapping[str, Any]) -> tuple[Touch, ...]:
    return (Touch(TouchKind.TOOL_USE, "job_stop", unsafe=True),)


@tool(risk="medium", touches=_touches, permissions=("tool.use",), changing=True, does="destroys")
async def job_stop(processes: Processes, job: JobName) -> Answer[JobInfo]:
    """End a background program and everything it started."""
    state = await processes.stop_job(job)
    said = standing(state)
    return Answer(info(state), said, f"[{said}]", (Evidence("process", job, said),))
