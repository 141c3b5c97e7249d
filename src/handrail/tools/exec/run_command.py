"""run_command: a line for bash, confined; its output, how it ended, and what it changed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from handrail.catalog import Reads, at, tool
from handrail.errors import Code, Problem
from handrail.ports import Processes, Program
from handrail.sandbox.plan import looks_secret
from handrail.tools.exec._line import fine_codes, is_name, touches_of_line
from handrail.tools.exec._told import ProgramResult, outcome_of, short
from handrail.words import Answer, Evidence, Place, PlaceKind

_HERE = at(".")
_BASH = ("/bin/bash", "--noprofile", "--norc", "-c")
_LONGEST = 600.0
_STDIN_CHARS = 1_000_000


@tool(
    risk="medium",
    touches=touches_of_line,
    permissions=("proc.exec", "fs.read", "fs.write", "git.write"),
    timeout_seconds=_LONGEST + 60,  # its own limit ends it before, and keeps the output
)
async def run_command(
    processes: Processes,
    command: Annotated[str, Field(min_length=1, max_length=65_536), "a line (or script) for bash"],
    cwd: Annotated[Reads, "the folder to run in"] = _HERE,
    timeout_seconds: Annotated[float | None, Field(gt=0, le=_LONGEST), "none: as settings say (120)"] = None,
    background: Annotated[bool, "go on without waiting; job_read shows what it writes"] = False,
    stdin: Annotated[str | None, Field(max_length=_STDIN_CHARS), "what it reads; none: nothing"] = None,
    env: Annotated[dict[str, str] | None, Field(max_length=100), "further environment variables"] = None,
) -> Answer[ProgramResult]:
    """Run a command line with bash in the sandbox: files only beneath the roots, no network unless settings allow it.

    Long output keeps its head and tail; the whole is kept and can be read. Exit code 1 of grep, diff and test is no
    failure. Everything the line started is gone when it ends, unless it runs in the background.
    """
    _check(cwd, env or {})
    program = Program(
        (*_BASH, command), cwd, (stdin or "").encode("utf-8", "surrogatepass"), env or {}, timeout_seconds or 0.0
    )
    if background:
        return await _started(processes, program, command, cwd.shown)
    done = await processes.run(program)
    return outcome_of(done, command, cwd.shown, timeout_seconds or done.seconds, fine_codes(command))


async def _started(processes: Processes, program: Program, command: str, cwd: str) -> Answer[ProgramResult]:
    state = await processes.start(program)
    result = ProgramResult(None, None, "", "", False, cwd, 0.0, [], job=state.job, pid=state.pid)
    said = f"{state.job} runs `{short(command)}` in the background"
    told = f'{said}; job_read {{"job": "{state.job}"}} shows what it writes, job_stop ends it'
    return Answer(result, said, told, (Evidence("process", f"{state.job} pid {state.pid}", said),), commands=(command,))


def _check(cwd: Place, env: dict[str, str]) -> None:
    """Refuse a folder that is none, and variables that would never arrive."""
    if cwd.kind is PlaceKind.MISSING:
        raise Problem(Code.NOT_FOUND, f"The folder {cwd.shown} does not exist; nothing was run.", path=cwd.shown)
    if cwd.kind is not PlaceKind.DIRECTORY:
        raise Problem(Code.NOT_A_DIRECTORY, f"{cwd.shown} is no folder to run in; nothing was run.", path=cwd.shown)
    for name, value in env.items():
        if not is_name(name) or "\0" in value:
            raise Problem(
                Code.INVALID_ARGS, f"env: {name!r} is no variable that a program could be given.", field="env"
            )
        if looks_secret(name):
            text = f"env: {name} looks like a secret; programs are never given one. Leave it out."
            raise Problem(Code.INVALID_ARGS, text, field=f"env.{name}")
