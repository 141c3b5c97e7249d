"""run_command: what a line touches, what a program is given, and what is told of its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from handrail.errors import Code, Problem
from handrail.ports import Captured, Program
from handrail.tools.exec.run_command import run_command
from handrail.words import Answer, Evidence, How, Place, PlaceKind, Ref, Root, Touch, TouchKind
from tools._programs import DONE, ScriptedPrograms

ROOT = Root("workspace", "/w", writable=True)
HERE = Place(ROOT, "", PlaceKind.DIRECTORY, ".")
RUN, READ, WRITE, GIT = TouchKind.PROC_EXEC, TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.GIT_WRITE


def touches(command: str, **args: Any) -> tuple[Touch, ...]:
    """What a call would state."""
    return run_command.touches(run_command.parse({"command": command, **args})[0])


async def call(programs: ScriptedPrograms, command: str, cwd: Place = HERE, **args: Any) -> Answer[Any]:
    """Call the tool without a kernel."""
    parsed = run_command.parse({"command": command, **args})[0]
    answer: Answer[Any] = await run_command.function(processes=programs, **{**parsed, "cwd": cwd})
    run_command.shape.result(answer.data)
    return answer


@pytest.mark.parametrize(
    ("command", "args", "stated"),
    [
        ("ls -l", {}, [Touch(RUN, "ls -l", words=("ls", "-l"))]),
        (
            "make && npm test",
            {},
            [Touch(RUN, "make", words=("make",)), Touch(RUN, "npm test", words=("npm", "test"))],
        ),
        (
            "cat < in.txt > out.txt",
            {"cwd": "sub"},
            [
                Touch(RUN, "cat < in.txt > out.txt", words=("cat",)),
                Touch(WRITE, "sub/out.txt", how=How.REPLACE),
                Touch(READ, "sub/in.txt"),
            ],
        ),
        ("ls > /dev/null 2>&1", {}, [Touch(RUN, "ls > /dev/null 2>&1", words=("ls",))]),
        (
            "git commit -m x",
            {},
            [Touch(RUN, "git commit -m x", words=("git", "commit", "-m", "x")), Touch(GIT, "commit")],
        ),
        ("ls", {"env": {"LANG": "C", "NO_COLOR": "1"}}, [Touch(RUN, "ls", words=("ls",))]),
    ],
)
def test_a_line_states_each_command_and_each_file(command: str, args: dict[str, Any], stated: list[Touch]) -> None:
    """One touch a command, one a redirect, relative to where it runs; the folder itself is read."""
    assert touches(command, **args) == (Touch(READ, args.get("cwd", ".")), *stated)


@pytest.mark.parametrize("name", ["BASH_ENV", "PATH", "LD_PRELOAD", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "FOO"])
def test_a_variable_that_may_change_what_runs_makes_the_line_doubtful(name: str) -> None:
    """Harmless words are not harmless in another environment."""
    doubts = [touch.doubt for touch in touches("ls", env={name: "x"}) if touch.doubt]
    assert doubts == [f"env sets {name}, which can change what the commands do"]


@pytest.mark.parametrize("command", ["echo 'open", "x=1", "$(", "case x in"])
def test_what_cannot_be_read_is_stated_with_doubt(command: str) -> None:
    """No line passes without a touch that asks."""
    assert any(touch.kind is RUN and touch.doubt for touch in touches(command))


async def test_bash_gets_the_line_as_one_argument() -> None:
    """Without its start-up files, and with what the call gives it."""
    programs = ScriptedPrograms()
    await call(programs, "echo $A", stdin="in", env={"A": "b"}, timeout_seconds=7)
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", "echo $A")
    assert programs.asked == [Program(argv, HERE, b"in", {"A": "b"}, 7.0)]


@pytest.mark.parametrize(
    ("changed", "caches", "told"),
    [(("a", "c/1", "c/2"), 2, "; 1 changed: a; 2 in caches"), (("c/1",), 1, "; 1 in caches"), ((), 0, "")],
)
async def test_of_caches_only_their_number_is_told(changed: tuple[str, ...], caches: int, told: str) -> None:
    """They are made again, and would hide what the command was for; the data names them all."""
    answer = await call(ScriptedPrograms(replace(DONE, changed=changed, caches=caches)), "make")
    assert answer.summary == f"exit code 0 in 0.25 s{told}"
    assert answer.data.files_changed == [*changed]


async def test_the_answer_tells_all() -> None:
    """Summary, content, evidence, refs and cut."""
    ref = Ref("run:observations/stdout_1.txt", "ab", 900)
    done = replace(DONE, stdout=Captured("head\n", 900, 90, True, ref), changed=("a", "b"), warnings=("careful",))
    answer = await call(ScriptedPrograms(done), "make")
    assert answer.summary == "exit code 0 in 0.25 s; 2 changed: a, b"
    assert answer.content == "head\n[exit code 0 in 0.25 s; 2 changed: a, b]"
    assert answer.evidence == (Evidence("process", "make", "exit code 0, native A"),)
    assert (answer.refs, answer.commands, answer.warnings, answer.exit_code) == ((ref,), ("make",), ("careful",), 0)
    assert answer.truncation is not None
    assert (answer.truncation.shown, answer.truncation.total, answer.truncation.ref) == (5, 900, ref.ref)


@pytest.mark.parametrize(
    ("done", "code", "message"),
    [
        (replace(DONE, exit_code=2), Code.EXIT_NONZERO, "`make` ended with exit code 2."),
        (replace(DONE, exit_code=None, signal="SIGSEGV"), Code.EXIT_NONZERO, "`make` was ended by SIGSEGV."),
        (
            replace(DONE, exit_code=None, signal="SIGKILL", timed_out=True, seconds=3.0),
            Code.TIMEOUT,
            "`make` did not end within 3 s; all it started is gone.",
        ),
        (
            replace(DONE, exit_code=None, signal="SIGKILL", flooded=True),
            Code.EXIT_NONZERO,
            "`make` was ended: it wrote more than exec.kill_output_bytes. Write less, or into a file.",
        ),
    ],
)
async def test_every_bad_end_is_a_problem_that_keeps_the_output(done: Any, code: Code, message: str) -> None:
    """The output is in the details and in what a model reads."""
    with pytest.raises(Problem) as caught:
        await call(ScriptedPrograms(done), "make")
    problem = caught.value
    assert (problem.code, problem.message) == (code, message)
    assert problem.details["stdout"] == "out\n"
    assert problem.answer is not None
    assert (problem.answer.content or "").startswith("out\n[")


async def test_in_the_background_a_job_is_named() -> None:
    """With the calls that go on from there."""
    answer = await call(ScriptedPrograms(), "make", background=True)
    assert (answer.data.job, answer.data.pid) == ("job-1", 41)
    assert 'job_read {"job": "job-1"}' in (answer.content or "")


@pytest.mark.parametrize("args", [{"timeout_seconds": 0}, {"timeout_seconds": 601}, {"command": ""}, {"shell": "zsh"}])
def test_arguments_out_of_bounds_are_refused(args: dict[str, Any]) -> None:
    """At most ten minutes, at least one character, no other shell."""
    with pytest.raises(Problem) as caught:
        run_command.parse({"command": "ls", **args})
    assert caught.value.code is Code.INVALID_ARGS


@pytest.mark.parametrize(
    ("env", "field"), [({"A_TOKEN": "x"}, "env.A_TOKEN"), ({"1A": "x"}, "env"), ({"A": "x\0"}, "env")]
)
async def test_variables_that_would_not_arrive_are_refused(env: dict[str, str], field: str) -> None:
    """Rather than dropped silently; nothing runs."""
    programs = ScriptedPrograms()
    with pytest.raises(Problem) as caught:
        await call(programs, "ls", env=env)
    assert (caught.value.code, caught.value.details["field"]) == (Code.INVALID_ARGS, field)
    assert programs.asked == []
