"""The skills of a run: found anew for each call, one of them active, on record in the journal."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Problem
from handrail.output.redact import Redactor
from handrail.ports import ActiveSkill, Journal, Skill, SkillFile, Work
from handrail.skills.sources import canonical
from handrail.spelling import nearest
from handrail.store.state import RunState
from handrail.words import Place, PlaceKind, SkillPart, Touch, TouchKind, noun

if TYPE_CHECKING:
    from handrail.skills.finding import Found, Library, Whole


@noun
class Terms:
    """What settings say of skills in use."""

    narrow: bool = False  # an active skill's `allowed-tools` refuses every other tool
    script_folders: tuple[str, ...] = ("scripts",)  # folders of a skill whose programs may be run


class RunSkills:
    """Satisfies `ports.SkillsInForce`; gives each call the `ports.Skills` that is bound to it."""

    def __init__(
        self,
        library: Callable[[], Library],
        state: RunState,
        journal: Journal,
        redactor: Redactor,
        terms: Terms | None = None,
    ) -> None:
        """Take what makes the library: most runs use no skill, and then it is never made."""
        self._make, self._state, self._journal, self._redactor = library, state, journal, redactor
        self._made: Library | None = None
        self.terms = terms or Terms()
        self.active: ActiveSkill | None = self._active(state.skill)

    @property
    def _library(self) -> Library:
        if self._made is None:
            self._made = self._make()
        return self._made

    def named(self, skill_id: str) -> ActiveSkill:
        """The skill that a call names; one that is unknown or broken allows nothing."""
        try:
            whole = self.find(skill_id)
        except Problem:
            return ActiveSkill(skill_id, frozenset())
        return ActiveSkill(whole.skill.id, self._narrowed(whole.skill.allowed_tools))

    def _narrowed(self, tools: frozenset[str] | None) -> frozenset[str] | None:
        """What a skill's `allowed-tools` leaves to be called; None where it refuses nothing."""
        return tools if self.terms.narrow else None

    def _active(self, known: Any) -> ActiveSkill | None:
        """The skill that an earlier opening of the run left active."""
        if known is None:
            return None
        tools = known["allowed_tools"]
        return ActiveSkill(str(known["id"]), self._narrowed(None if tools is None else frozenset(tools)))

    def resolve(self, touch: Touch) -> tuple[Touch, ...]:
        """Complete a touch of a skill; of a script, the words that would run and the file that would be read."""
        from handrail.tools.exec._script import command_of, need_script_folder

        part = touch.skill
        assert part is not None
        try:
            whole = self.find(part.id)
        except Problem as problem:
            return (replace(touch, doubt=problem.message),)
        skill = whole.skill
        known = SkillPart(skill.id, part.resource, skill.digest, self._narrowed(skill.allowed_tools))
        touch = replace(touch, skill=known)
        if touch.kind is not TouchKind.PROC_EXEC:
            return (touch,)
        need_script_folder(part.resource, self.terms.script_folders, [file.path for file in whole.files])
        try:
            place = self.place(whole, part.resource)
            words = (*command_of(place.absolute, self.read(whole, part.resource)), *touch.words[1:])
        except Problem as problem:
            return (replace(touch, doubt=problem.message),)
        return (replace(touch, words=words), Touch(TouchKind.FS_READ, place.asked, place=place, skill=known))

    def list(self) -> Sequence[Skill]:
        """All that were found, broken ones too."""
        return [self._library.whole(found).skill for found in self._library.found()]

    def find(self, skill_id: str) -> Whole:
        """Give one that can be used; NOT_FOUND with near ids, POLICY_DENIED with its problems."""
        listed = self._library.found()
        found = next((item for item in listed if item.id == skill_id), None) or _of_source(skill_id, listed)
        if found is None:
            raise _missing(skill_id, listed)
        whole = self._library.whole(found)
        if whole.skill.problems:
            text = f"The skill {skill_id} is broken and cannot be used: {'; '.join(whole.skill.problems[:5])}."
            raise Problem(Code.POLICY_DENIED, text, problems=list(whole.skill.problems))
        return whole

    def read(self, whole: Whole, resource: str) -> bytes:
        """One resource as it was when the skill was read; STALE_FILE where it changed since."""
        from handrail.skills.folder import MAX_RESOURCE_BYTES, read_inside

        path = _inner(resource)
        data = read_inside(whole.skill.folder, path, MAX_RESOURCE_BYTES)
        known = next((file.sha256 for file in whole.files if file.path == path), None)
        if known is None:
            raise _no_resource(whole, resource)
        if hashlib.sha256(data).hexdigest() != known:
            raise Problem(Code.STALE_FILE, f"{resource} of {whole.skill.id} changed while it was read; try again.")
        return data

    def place(self, whole: Whole, resource: str) -> Place:
        """Where the skill's folder or one resource stands; a link is what it leads to, inside the folder."""
        base = whole.skill.folder
        absolute = canonical(os.path.join(base, _inner(resource))) if resource else base
        if absolute != base and not absolute.startswith(f"{base}/"):
            raise Problem(Code.PATH_OUTSIDE_ROOTS, f"{resource} leads out of the skill's folder.")
        try:
            found = os.lstat(absolute)
        except OSError:
            raise _no_resource(whole, resource) from None
        kind = PlaceKind.FILE if resource else PlaceKind.DIRECTORY
        path = absolute[len(whole.root.path) :].lstrip("/")
        return Place(whole.root, path, kind, resource, found.st_size, found.st_mtime_ns, found.st_ino, found.st_nlink)

    def activate(self, call_id: str, skill: Skill) -> None:
        """Make a skill the active one of the run, on record first."""
        tools = None if skill.allowed_tools is None else sorted(skill.allowed_tools)
        told: Any = {
            "id": skill.id,
            "name": skill.name,
            "source": skill.source,
            "digest": skill.digest,
            "allowed_tools": tools,
            "permissions": list(skill.permissions),
        }
        hidden: Any = self._redactor.value(told)
        self._journal.append("skill.loaded", call_id, {**hidden, "allowed_tools": tools})
        self._journal.flush()
        self._state.skill = {name: told[name] for name in ("id", "digest", "allowed_tools", "permissions")}
        self.active = ActiveSkill(skill.id, self._narrowed(skill.allowed_tools))

    def bind(self, work: Work) -> CallSkills:
        """Give the skills of one call, which may use only what was judged."""
        judged = {touch.skill.id: touch.skill.digest for touch in work.touches if touch.skill is not None}
        return CallSkills(self, work.call_id, judged, self.active)


def _of_source(skill_id: str, listed: Sequence[Found]) -> Found | None:
    """The one skill that is named with its source, `project:NAME`, where the name alone would do."""
    source, _, name = skill_id.rpartition(":")
    fitting = [
        item
        for item in listed
        if source and item.name == name and source in (item.source.label, item.source.label.partition(":")[0])
    ]
    return fitting[0] if len(fitting) == 1 else None


@dataclass(slots=True)
class CallSkills:
    """Satisfies `ports.Skills` for one call: a skill that changed since it was judged is refused."""

    skills: RunSkills
    call_id: str
    judged: dict[str, str]  # id -> digest
    active: ActiveSkill | None  # under which the call was judged
    _known: dict[str, Whole] = field(default_factory=dict)

    def list(self) -> Sequence[Skill]:
        """All that were found, broken ones too."""
        return self.skills.list()

    def find(self, skill_id: str) -> Skill:
        """Give one as it was judged; NOT_FOUND with near ids, POLICY_DENIED with its problems, STALE_FILE."""
        whole = self.skills.find(skill_id)
        if self.judged.get(whole.skill.id) != whole.skill.digest:
            text = f"The skill {skill_id} changed since the call was judged. Repeat the call."
            raise Problem(Code.STALE_FILE, text, skill=skill_id)
        self._known[whole.skill.id] = whole
        terms = self.skills.terms
        return replace(whole.skill, narrows=terms.narrow, script_folders=terms.script_folders)

    def body(self, skill: Skill) -> str:
        """What SKILL.md says below its header."""
        return self._whole(skill).header.body

    def files(self, skill: Skill) -> Sequence[SkillFile]:
        """Its resources."""
        return self._whole(skill).files

    def read(self, skill: Skill, resource: str) -> bytes:
        """One resource; PATH_OUTSIDE_ROOTS for anything that leads out of the skill's folder."""
        return self.skills.read(self._whole(skill), resource)

    def place(self, skill: Skill, resource: str) -> Place:
        """Where one resource stands, for a program to run it; an empty one is the skill's folder."""
        return self.skills.place(self._whole(skill), resource)

    def activate(self, skill: Skill) -> None:
        """Make it the active skill of the run, on record in the journal."""
        if self.skills.active is not self.active:
            raise Problem(Code.STALE_FILE, "Another skill was loaded since the call was judged. Repeat the call.")
        self.skills.activate(self.call_id, self._whole(skill).skill)

    def _whole(self, skill: Skill) -> Whole:
        return self._known[skill.id]


def _inner(resource: str) -> str:
    """A path in a skill's folder as text; PATH_OUTSIDE_ROOTS where it is meant to lead out."""
    if resource.startswith("/") or "\0" in resource or ".." in resource.split("/"):
        raise Problem(Code.PATH_OUTSIDE_ROOTS, f"{resource!r} is not a path within the skill's folder.")
    return os.path.normpath(resource)


def _missing(skill_id: str, listed: Sequence[Found]) -> Problem:
    ids = [found.id for found in listed]
    same = [found.id for found in listed if found.name == skill_id]
    near = same or nearest(skill_id, ids, 3, 0.4)
    hint = f" Did you mean {' or '.join(near)}?" if near else " list_skills names those there are."
    return Problem(
        Code.NOT_FOUND,
        f"There is no skill {skill_id!r}.{hint}",
        next_call={"tool": "list_skills", "args": {}},
        near=near,
    )


def _no_resource(whole: Whole, resource: str) -> Problem:
    paths = [file.path for file in whole.files]
    near = nearest(resource, paths, 3, 0.4) or paths[:10]
    return Problem(Code.NOT_FOUND, f"The skill {whole.skill.id} has no {resource!r}.", near=near)
