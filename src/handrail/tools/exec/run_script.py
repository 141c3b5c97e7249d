"""run_script: run a script that belongs to a skill, by its path and an argument list; no shell reads anything."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.ports import Processes, Program, Skill, Skills
from handrail.tools.exec._script import command_of, need_script_folder
from handrail.tools.exec._told import ProgramResult, outcome_of
from handrail.words import Answer, SkillPart, Touch, TouchKind

MAX_ARGS, MAX_ARG_CHARS, MAX_SECONDS = 64, 4096, 600
SHOWN_CHARS = 20_000  # of the script, to the person who is asked

Args = Annotated[
    list[Annotated[str, Field(max_length=MAX_ARG_CHARS)]] | None,
    Field(max_length=MAX_ARGS),
    "Handed over as they are; no shell reads them",
]


Script = Annotated[str, Field(min_length=1, max_length=1024), "Such as scripts/convert.py"]


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    """One program; the runtime completes which one, and the file it reads, from the skill as it stands."""
    words = (args["script"], *(args["args"] or ()))
    target = shlex.join((f"{args['skill']}/{words[0]}", *words[1:]))
    return (Touch(TouchKind.PROC_EXEC, target, words=words, skill=SkillPart(args["skill"], args["script"])),)


async def _preview(skills: Skills, skill: str, script: str, **others: Any) -> str:
    """The script itself: what a person approves is what they see."""
    data = (await _read(skills, skill, script, others["args"]))[1]
    text = data.decode("utf-8", "replace")
    more = f"\n… {len(text) - SHOWN_CHARS} characters more" if len(text) > SHOWN_CHARS else ""
    runs = shlex.join((*command_of(script, data), *(others["args"] or ())))
    return f"{runs}\n{script} of {skill}, sha256 {hashlib.sha256(data).hexdigest()}\n{text[:SHOWN_CHARS]}{more}"


@tool(
    risk="medium",
    touches=_touches,
    permissions=("proc.exec", "fs.read"),
    timeout_seconds=MAX_SECONDS + 30,
    preview=_preview,
)
async def run_script(
    skills: Skills,
    processes: Processes,
    skill: Annotated[str, Field(min_length=1, max_length=300), "Id of the skill, as list_skills gives it"],
    script: Script,
    args: Args = None,
    cwd: Annotated[Literal["scratch", "skill"], "The run's scratch folder, or the skill's own, to read"] = "scratch",
    timeout_seconds: Annotated[float | None, Field(gt=0, le=MAX_SECONDS), "none: as settings say (120)"] = None,
) -> Answer[ProgramResult]:
    """Run a script of a skill in the sandbox, by path and argument list. Never a shell line."""
    found, data = await _read(skills, skill, script, args)
    place, folder = skills.place(found, script), skills.place(found, "")
    argv = (*command_of(place.absolute, data), *(args or ()))
    program = Program(
        argv=argv,
        cwd=folder if cwd == "skill" else None,
        timeout_seconds=timeout_seconds or 0.0,
        reads=(folder,),
    )
    done = await processes.run(program)
    where = folder.shown if cwd == "skill" else "scratch"
    answer = outcome_of(done, shlex.join(argv), where, timeout_seconds or done.seconds, frozenset({0}))
    sha256 = hashlib.sha256(data).hexdigest()
    return replace(answer, evidence=tuple(replace(item, sha256=sha256) for item in answer.evidence))


async def _read(skills: Skills, skill: str, script: str, args: list[str] | None) -> tuple[Skill, bytes]:
    if any("\0" in text for text in args or ()):
        raise Problem(Code.INVALID_ARGS, "An argument holds NUL, which no program can be given.")
    found = await asyncio.to_thread(skills.find, skill)
    need_script_folder(script, found.script_folders, [file.path for file in skills.files(found)])
    data = await asyncio.to_thread(skills.read, found, script)
    return found, data
