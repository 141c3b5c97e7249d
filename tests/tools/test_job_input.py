"""job_input: send text to a program in the background."""

from __future__ import annotations

from handrail.tools.exec.job_input import job_input
from handrail.words import Touch, TouchKind
from tools._programs import ScriptedPrograms


async def test_text_is_sent_and_input_ended() -> None:
    """As UTF-8."""
    programs = ScriptedPrograms()
    answer = await job_input.function(processes=programs, job="job-1", text="grün\n", close=True)
    assert programs.asked == [("job-1", "grün\n".encode(), True)]
    assert answer.summary == "6 bytes sent, input closed; job-1 is running"


def test_input_is_judged_as_a_command_that_cannot_be_read() -> None:
    """What a shell in the background is told it runs."""
    args = job_input.parse({"job": "job-1", "text": "rm -rf /"})[0]
    stated = Touch(TouchKind.PROC_EXEC, "job-1 <<< rm -rf /", doubt="text for a running program")
    assert job_input.touches(args) == (stated,)
