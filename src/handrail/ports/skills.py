"""Skills: what they say, and which one is in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from handrail.words import Place, Touch, noun


@noun
class SkillFile:
    """One resource of a skill."""

    path: str  # relative to the skill's folder
    bytes: int
    sha256: str


@noun
class Skill:
    """A folder with SKILL.md: what it says of itself, and what is wrong with it."""

    id: str  # `name`, or `source:name` where two share one
    name: str
    description: str
    source: str  # "project:.agents/skills", "user" …
    folder: str  # absolute
    digest: str  # of SKILL.md and all resources
    allowed_tools: frozenset[str] | None  # our names; None: it does not narrow
    permissions: tuple[str, ...] = ()  # what it asks for; shown, never granted by it
    problems: tuple[str, ...] = ()  # anything here: not loadable
    narrows: bool = True  # whether `allowed_tools` refuses the others while it is active: `skills.narrow`
    script_folders: tuple[str, ...] = ("scripts",)  # whose programs may be run: `skills.script_folders`


class Skills(Protocol):
    """The skills of a run; bound to one call."""

    def list(self) -> Sequence[Skill]:
        """All that were found, broken ones too."""

    def find(self, skill_id: str) -> Skill:
        """Give one; NOT_FOUND with near ids, POLICY_DENIED with its problems when it is broken."""

    def body(self, skill: Skill) -> str:
        """What SKILL.md says below its header."""

    def files(self, skill: Skill) -> Sequence[SkillFile]:
        """Its resources."""

    def read(self, skill: Skill, resource: str) -> bytes:
        """One resource; PATH_OUTSIDE_ROOTS for anything that leads out of the skill's folder."""

    def place(self, skill: Skill, resource: str) -> Place:
        """Where one resource stands, for a program to run it."""

    def activate(self, skill: Skill) -> None:
        """Make it the active skill of the run, on record in the journal."""


@noun
class ActiveSkill:
    """A skill under which calls are judged."""

    id: str
    tools: frozenset[str] | None  # what may be called; None: it does not narrow


class SkillsInForce(Protocol):
    """Skills as the kernel sees them: which one is active, and what a call would load or run of one."""

    active: ActiveSkill | None  # the last one loaded in the run; another object after every loading

    def named(self, skill_id: str) -> ActiveSkill:
        """The skill that a call names; one that is unknown or broken allows nothing."""

    def resolve(self, touch: Touch) -> tuple[Touch, ...]:
        """Complete a touch of a skill with what is there now, and state what else it touches.

        INVALID_ARGS for a script outside the folders whose programs may be run; no other problem is raised.
        """


class NoSkills:
    """Satisfies `SkillsInForce` where there are none."""

    active: ActiveSkill | None = None

    def named(self, skill_id: str) -> ActiveSkill:
        """Allow nothing."""
        return ActiveSkill(skill_id, frozenset())

    def resolve(self, touch: Touch) -> tuple[Touch, ...]:
        """Complete nothing."""
        return (touch,)
