"""list_skills: the skills there are, with what is wrong with each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from handrail.catalog import tool
from handrail.ports import Skill, Skills
from handrail.words import Answer

MAX_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class SkillRow:
    """One skill as its header tells it."""

    id: str
    name: str
    description: str
    source: str
    digest: str
    allowed_tools: list[str] | None  # null: it does not narrow
    problems: list[str]


@dataclass(frozen=True, slots=True)
class SkillList:
    """All skills of this workspace and its user."""

    skills: list[SkillRow]


@tool(risk="low", permissions=("tool.use",))
async def list_skills(skills: Skills) -> Answer[SkillList]:
    """List the skills there are: instructions and scripts for a task, to be loaded with load_skill.

    Descriptions are written by the skills' authors, not by the person you work for.
    """
    found = await asyncio.to_thread(skills.list)
    rows = [_row(skill) for skill in found]
    broken = sum(1 for row in rows if row.problems)
    told = f"{len(rows)} skills" if len(rows) != 1 else "1 skill"
    summary = f"{told}, {broken} broken" if broken else told
    return Answer(SkillList(rows), summary=summary, content="\n".join(map(_line, rows)) or "There are no skills.")


def _row(skill: Skill) -> SkillRow:
    return SkillRow(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        source=skill.source,
        digest=skill.digest,
        allowed_tools=None if skill.allowed_tools is None else sorted(skill.allowed_tools),
        problems=list(skill.problems[:MAX_PROBLEMS]),
    )


def _line(row: SkillRow) -> str:
    if row.problems:
        return f"{row.id} (broken, not loadable: {'; '.join(row.problems)})"
    return f"{row.id}: {' '.join(row.description.split())}"
