"""job_read: what a program in the background has written since."""

from __future__ import annotations

from dataclasses import replace

from handrail.ports import JobOutput
from handrail.tools.exec.job_read import job_read
from tools._programs import STATE, ScriptedPrograms


async def test_the_text_comes_with_the_call_that_goes_on() -> None:
    """Arguments are handed on as they are."""
    programs = ScriptedPrograms()
    answer = await job_read.function(processes=programs, job="job-1", cursor=0, wait_seconds=2.0)
    assert programs.asked == [("job-1", 0, 2.0)]
    assert (answer.data.text, answer.data.cursor, answer.data.skipped) == ("line\n", 5, 0)
    assert answer.content == 'line\n[job-1 is running; go on with job_read {"job": "job-1", "cursor": 5}]'


async def test_an_end_and_a_loss_are_told() -> None:
    """How it ended, and what is no longer kept."""
    ended = replace(STATE, running=False, exit_code=3)
    programs = ScriptedPrograms(output=JobOutput(ended, "", 90, 40))
    answer = await job_read.function(processes=programs, job="job-1", cursor=None, wait_seconds=0.0)
    assert answer.summary == "job-1 ended with exit code 3; 40 bytes before this are no longer kept"
