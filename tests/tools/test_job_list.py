"""job_list: the programs in the background."""

from __future__ import annotations

from handrail.tools.exec._jobs import JobInfo
from handrail.tools.exec.job_list import JobListing, job_list
from tools._programs import ScriptedPrograms


async def test_every_job_is_listed_with_its_start_and_its_state() -> None:
    """As data, and one line each."""
    answer = await job_list.function(processes=ScriptedPrograms())
    argv = ["/bin/bash", "-c", "make"]
    assert answer.data == JobListing([JobInfo("job-1", 41, argv, "2023-11-14T22:13:20Z", True, None, None, 7)])
    assert answer.content == "job-1 is running  pid 41  7 bytes  make\n[1 running, 1 in all]"
