"""run_script: a script of a skill, by path and argument list."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

import pytest

from handrail.errors import Code, Problem
from handrail.ports import Captured, Finished
from handrail.tools.exec._script import command_of
from handrail.tools.exec._told import ProgramResult, Stream
from handrail.tools.exec.run_script import run_script
from handrail.words import PlaceKind, Ref, TouchKind
from tools._skill_desk import SkillDesk, ended

HELLO = "#!/usr/bin/env python3\nprint('hello')\n"


@pytest.fixture
def desk(tmp_path: Path) -> SkillDesk:
    """A workspace with one skill that has a script."""
    desk = SkillDesk(tmp_path)
    desk.put("pdf", files={"scripts/hello.py": HELLO, "references/a.md": "#!/bin/sh\n"})
    return desk


async def test_the_script_is_run_by_path_with_its_arguments_as_they_are(desk: SkillDesk) -> None:
    """No shell reads them; the skill's folder can be read; the working folder is the run's scratch."""
    desk.processes.ends = ended(out="hello\n")
    args = ["a b", "$(id)", "; rm -rf /", "", "--x"]
    answer = await desk.call(run_script, skill="pdf", script="scripts/hello.py", args=args)
    path = str(desk.folder / "pdf/scripts/hello.py")
    (program,) = desk.processes.ran
    assert program.argv == ("python3", path, *args)
    assert (program.cwd, program.stdin, dict(program.env), program.timeout_seconds) == (None, b"", {}, 0.0)
    assert [place.absolute for place in program.reads] == [str(desk.folder / "pdf")]
    nothing = Stream(0, 0, False, None)
    written = Stream(6, 0, False, None)
    assert answer.data == ProgramResult(0, None, "hello\n", "", False, "scratch", 0.5, [], written, nothing)
    assert (answer.content, answer.exit_code) == ("hello\n[exit code 0 in 0.5 s]", 0)
    assert answer.commands == (shlex.join(("python3", path, *args)),)
    assert [item.sha256 for item in answer.evidence] == [hashlib.sha256(HELLO.encode()).hexdigest()]


async def test_the_skill_can_be_the_working_folder(desk: SkillDesk) -> None:
    """As `cwd` asks."""
    await desk.call(run_script, skill="pdf", script="scripts/hello.py", cwd="skill", timeout_seconds=5)
    (program,) = desk.processes.ran
    assert program.cwd is not None
    assert (program.cwd.absolute, program.cwd.kind) == (str(desk.folder / "pdf"), PlaceKind.DIRECTORY)
    assert program.timeout_seconds == 5


async def test_a_script_that_fails_keeps_what_it_wrote(desk: SkillDesk) -> None:
    """Another exit code than 0 is EXIT_NONZERO, with all the caller needs to mend it."""
    desk.processes.ends = ended(3, out="half", err="no such page")
    problem = await desk.problem(run_script, skill="pdf", script="scripts/hello.py")
    assert problem.code is Code.EXIT_NONZERO
    kept = {name: problem.details[name] for name in ("exit_code", "signal", "stdout", "stderr", "timed_out")}
    assert kept == {"exit_code": 3, "signal": None, "stdout": "half", "stderr": "no such page", "timed_out": False}


async def test_a_signal_and_a_time_limit_are_told_apart(desk: SkillDesk) -> None:
    """EXIT_NONZERO names the signal, TIMEOUT keeps the output."""
    desk.processes.ends = ended(None, signal="SIGSEGV")
    problem = await desk.problem(run_script, skill="pdf", script="scripts/hello.py")
    assert (problem.code, problem.details["signal"]) == (Code.EXIT_NONZERO, "SIGSEGV")
    desk.processes.ends = ended(None, signal="SIGKILL", timed_out=True, out="so far")
    problem = await desk.problem(run_script, skill="pdf", script="scripts/hello.py")
    assert (problem.code, problem.details["stdout"]) == (Code.TIMEOUT, "so far")


async def test_what_was_cut_is_named(desk: SkillDesk) -> None:
    """The whole of a long output can be read."""
    ref = Ref("run:observations/1.txt", "0" * 64, 9)
    desk.processes.ends = Finished(0, None, False, Captured("x", 9, 1, True, ref), Captured("warn"), 0.5)
    answer = await desk.call(run_script, skill="pdf", script="scripts/hello.py")
    assert (answer.refs, answer.content) == ((ref,), "x\n[stderr]\nwarn\n[exit code 0 in 0.5 s]")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("scripts/none.py", Code.NOT_FOUND),
        ("scripts/../references/a.md", Code.PATH_OUTSIDE_ROOTS),
        ("scripts/../../../../../bin/true", Code.PATH_OUTSIDE_ROOTS),
        ("references/a.md", Code.INVALID_ARGS),
        ("/bin/true", Code.INVALID_ARGS),
        ("scripts/", Code.INVALID_ARGS),
    ],
)
async def test_nothing_but_a_script_of_the_skill_is_run(desk: SkillDesk, script: str, code: Code) -> None:
    """Only what lies in its `scripts/`."""
    assert (await desk.problem(run_script, skill="pdf", script=script)).code is code
    assert desk.processes.ran == []


@pytest.mark.parametrize("args", [["x" * 4097], ["x"] * 65, [1], ["a\0b"]])
async def test_arguments_are_bounded(desk: SkillDesk, args: list[object]) -> None:
    """At most 64, each of at most 4096 characters."""
    problem = await desk.problem(run_script, skill="pdf", script="scripts/hello.py", args=args)
    assert (problem.code, desk.processes.ran) == (Code.INVALID_ARGS, [])


async def test_a_script_that_changed_since_it_was_judged_is_not_run(desk: SkillDesk) -> None:
    """Nor one whose neighbour changed: a script may read those."""
    for path in ("scripts/hello.py", "references/a.md"):
        inputs = desk.inputs(run_script, {"skill": "pdf", "script": "scripts/hello.py"})
        (desk.folder / "pdf" / path).write_text("#!/bin/sh\necho other\n")
        with pytest.raises(Problem, match="changed since"):
            await run_script.function(**inputs)
    assert desk.processes.ran == []


def test_what_will_run_is_what_is_judged(desk: SkillDesk) -> None:
    """The words are the interpreter, the script and the arguments; the script is read, beneath a root."""
    inputs = {"skill": "pdf", "script": "scripts/hello.py", "args": ["a b"], "cwd": "scratch"}
    (stated,) = run_script.touches(inputs)
    run, read = desk.skills.resolve(stated)
    path = ".agents/skills/pdf/scripts/hello.py"
    assert (run.kind, run.target) == (TouchKind.PROC_EXEC, "pdf/scripts/hello.py 'a b'")
    assert run.words == ("python3", f"{desk.root.path}/{path}", "a b")
    assert run.skill is not None
    assert (run.skill.id, run.skill.resource, len(run.skill.digest)) == ("pdf", "scripts/hello.py", 64)
    assert (read.kind, read.shown) == (TouchKind.FS_READ, path)


def test_a_script_that_is_not_there_is_in_doubt(desk: SkillDesk) -> None:
    """No rule that allows covers it."""
    (stated,) = run_script.touches({"skill": "pdf", "script": "scripts/none.py", "args": None})
    (touch,) = desk.skills.resolve(stated)
    assert (touch.words, touch.doubt) == (("scripts/none.py",), "The skill pdf has no 'scripts/none.py'.")


async def test_a_person_is_shown_the_script(desk: SkillDesk) -> None:
    """What is approved is what is seen."""
    assert run_script.preview is not None
    asked = {"skill": "pdf", "script": "scripts/hello.py", "args": ["a b"]}
    runs, name, *rest = str(await run_script.preview(**desk.inputs(run_script, asked))).split("\n")
    assert (runs, "\n".join(rest)) == ("python3 scripts/hello.py 'a b'", HELLO)
    assert name == f"scripts/hello.py of pdf, sha256 {hashlib.sha256(HELLO.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.py", b"print(1)", ("python3",)),
        ("a.PY", b"", ("python3",)),
        ("a.sh", b"echo", ("sh",)),
        ("a.bash", b"echo", ("bash",)),
        ("a.js", b"", ("node",)),
        ("a.mjs", b"", ("node",)),
        ("a.rb", b"", ("ruby",)),
        ("a.pl", b"", ("perl",)),
        ("a", b"#!/bin/bash -e\nx", ("/bin/bash", "-e")),
        ("a.py", b"#!/bin/bash\n", ("/bin/bash",)),
        ("a", b"#! /bin/sh\n", ("/bin/sh",)),
        ("a", b"#!/bin/sh\r\n", ("/bin/sh",)),
        ("a", b"#!/bin/bash -e -u\n", ("/bin/bash", "-e -u")),
        ("a", b"#!/usr/bin/env python3\n", ("python3",)),
        ("a", b"#!/bin/env node", ("node",)),
        ("a", b"#!/usr/bin/env -S deno run -A\n", ("deno", "run", "-A")),
        ("a", b"\xef\xbb\xbf#!/bin/sh\n", ("/bin/sh",)),
    ],
)
def test_the_program_is_found_by_first_line_or_name(name: str, data: bytes, words: tuple[str, ...]) -> None:
    """The first line counts before the name; its rest is one argument, as Linux has it."""
    assert command_of(f"/s/{name}", data) == (*words, f"/s/{name}")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a", b"echo"),
        ("a.txt", b"echo"),
        (".py", b"echo"),
        ("a.sh", b"#!\n"),
        ("a.sh", b"#!sh\n"),
        ("a.sh", b"#!../bin/sh\n"),
        ("a.sh", b"#!/usr/bin/env\n"),
        ("a.sh", b"#!/usr/bin/env bash -e\n"),
        ("a.sh", b"#!/usr/bin/env -i bash\n"),
        ("a.sh", b"#!/usr/bin/env PATH=. bash\n"),
        ("a.sh", b"#!/usr/bin/env -S LD_PRELOAD=x bash\n"),
        ("a.sh", b"#!/usr/bin/env -S bash -c '$x'\n"),
        ("a.sh", b"#!/bin/\xe9\n"),
        ("a.sh", b"#!/" + b"x" * 300),
    ],
)
def test_a_script_without_a_clear_program_is_refused(name: str, data: bytes) -> None:
    """A guess could run something else than a person was shown."""
    with pytest.raises(Problem) as caught:
        command_of(f"/s/{name}", data)
    assert caught.value.code is Code.INVALID_ARGS


def test_it_is_off_until_enabled_and_its_approval_holds_for_one_call() -> None:
    """Medium risk is not offered by itself; a run's grant for running programs is never offered."""
    assert (run_script.risk, run_script.permissions) == ("medium", (TouchKind.FS_READ, TouchKind.PROC_EXEC))
