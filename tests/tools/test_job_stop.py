"""job_stop: end a program in the background."""

from __future__ import annotations

from dataclasses import replace

from handrail.tools.exec.job_stop import job_stop
from tools._programs import STATE, ScriptedPrograms


async def test_stopping_tells_how_it_ended() -> None:
    """By which signal."""
    programs = ScriptedPrograms(state=replace(STATE, running=False, signal="SIGTERM"))
    answer = await job_stop.function(processes=programs, job="job-1")
    assert programs.asked == ["job-1"]
    assert answer.summary == "job-1 was ended by SIGTERM"
