"""job_list: the programs in the background."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.catalog import tool
from handrail.ports import Processes
from handrail.tools.exec._jobs import JobInfo, info, standing
from handrail.words import Answer, Evidence


@dataclass(frozen=True, slots=True)
class JobListing:
    """All jobs of this run, ended ones too."""

    jobs: list[JobInfo]


@tool(risk="medium", permissions=("tool.use",))
async def job_list(processes: Processes) -> Answer[JobListing]:
    """List the programs in the background, those that ended too."""
    states = processes.jobs()
    lines = [f"{standing(state)}  pid {state.pid}  {state.bytes} bytes  {state.argv[-1][:200]}" for state in states]
    said = f"{sum(state.running for state in states)} running, {len(states)} in all"
    content = "".join(f"{line}\n" for line in lines) + f"[{said}]"
    return Answer(JobListing([info(state) for state in states]), said, content, (Evidence("process", "jobs", said),))
