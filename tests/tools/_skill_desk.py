"""Skill folders, and a way to call one tool with them as the kernel does, without policy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handrail.catalog import Tool
from handrail.errors import Problem
from handrail.output.redact import Redactor
from handrail.ports import Captured, Finished, Limits, Program, Work
from handrail.skills.finding import Library
from handrail.skills.run import RunSkills, Terms
from handrail.skills.sources import Source, project_sources
from handrail.store.state import RunState
from handrail.testing import MemoryJournal
from handrail.words import Answer, Root

TOOLS = ("read_file", "write_file", "edit_file", "grep", "run_script", "list_skills", "load_skill", "display")


def put_skill(
    folder: Path, name: str, *lines: str, body: str = "Do it.", files: Mapping[str, str | bytes] | None = None
) -> Path:
    """Put a skill into a folder of skills; `lines` are further lines of its header."""
    skill = folder / name
    skill.mkdir(parents=True, exist_ok=True)
    head = "\n".join((f"name: {name}", f"description: About {name}.", *lines))
    (skill / "SKILL.md").write_text(f"---\n{head}\n---\n{body}\n")
    for path, data in (files or {}).items():
        file = skill / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
    return skill


class SkillDesk:
    """The skills of a workspace, and the tools called with them."""

    def __init__(
        self, workspace: Path, *, folders: tuple[str, ...] = (".agents/skills",), terms: Terms | None = None
    ) -> None:
        self.folder = workspace / folders[0]
        self.root = Root("workspace", str(workspace.resolve()), writable=True)
        self.journal, self.state, self.processes = MemoryJournal(), RunState(), ScriptedProcesses()
        self.limits = Limits()
        self._folders = folders
        self.skills = RunSkills(
            lambda: Library(self._sources, lambda: TOOLS),
            self.state,
            self.journal,
            Redactor(),
            terms or Terms(narrow=True),
        )

    def _sources(self) -> list[Source]:
        return list(project_sources(self.root, self._folders))

    def put(self, name: str, *lines: str, **more: Any) -> Path:
        """Put a skill into the first folder."""
        return put_skill(self.folder, name, *lines, **more)

    async def call(self, tool: Tool, **args: Any) -> Answer[Any]:
        """Call a tool; its Problem is raised. The result is checked against its schema."""
        answer = await tool.function(**self.inputs(tool, args))
        assert isinstance(answer, Answer)
        tool.shape.result(answer.data)
        return answer

    async def problem(self, tool: Tool, **args: Any) -> Problem:
        """Call a tool that must fail, and give its Problem."""
        try:
            answer = await self.call(tool, **args)
        except Problem as problem:
            return problem
        raise AssertionError(f"it did not fail: {answer}")

    def inputs(self, tool: Tool, args: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a tool, bound to what a judged call would touch."""
        parsed, _ = tool.parse(args)
        touches = tuple(
            found
            for touch in tool.touches(parsed)
            for found in (self.skills.resolve(touch) if touch.skill is not None else (touch,))
        )
        work = Work("c1", None, touches, ())  # type: ignore[arg-type]
        ports = {"skills": self.skills.bind(work), "processes": self.processes, "limits": self.limits}
        return {**parsed, **{name: ports[name] for name, _ in tool.injected}}


class ScriptedProcesses:
    """Runs nothing: keeps what it was asked to run, and ends it as told."""

    def __init__(self) -> None:
        self.ran: list[Program] = []
        self.ends = ended()

    async def run(self, program: Program) -> Finished:
        """Keep the program."""
        await asyncio.sleep(0)
        self.ran.append(program)
        return self.ends


def ended(
    exit_code: int | None = 0, *, out: str = "", err: str = "", signal: str | None = None, timed_out: bool = False
) -> Finished:
    """How a program ended."""
    return Finished(exit_code, signal, timed_out, Captured(out, len(out)), Captured(err, len(err)), 0.5)
