"""All skills of a workspace and its user: where they lie, what their ids are, what is wrong with them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from handrail.errors import Problem
from handrail.ports import Skill, SkillFile
from handrail.skills.dialects import our_tools, unknown_names
from handrail.skills.folder import HEADERS, Hashes, contents, read_inside
from handrail.skills.header import MAX_DESCRIPTION, MAX_FILE_BYTES, Header, read_header
from handrail.skills.sources import Source, canonical
from handrail.words import Root, noun

MOST_SKILLS = 1000  # of one folder
_TRIES = 3


@noun
class Found:
    """A skill by its header alone: enough to know its id."""

    id: str
    name: str
    source: Source
    folder: str  # absolute and canonical
    header: Header
    sha256: str  # of SKILL.md


@noun
class Whole:
    """A skill with all that lies in its folder."""

    skill: Skill
    root: Root
    header: Header
    files: tuple[SkillFile, ...]
    remarks: tuple[str, ...]  # against the specification
    notes: tuple[str, ...] = ()  # of interest to its author


class Library:
    """Finds skills anew each time it is asked: folders change while a run goes on."""

    def __init__(self, sources: Callable[[], Iterable[Source]], tools: Callable[[], Iterable[str]]) -> None:
        self._sources = sources
        self._tools = tools
        self._hashes = Hashes()
        self._headers: dict[str, Header] = {}  # by the hash of SKILL.md

    def found(self) -> list[Found]:
        """Every skill by its header, with its id; in the order of the sources, then by name."""
        known: set[str] = set()
        listed: list[Found] = []
        for source in self._sources():
            if source.problem:
                listed.append(_broken(source, source.folder, source.problem))
                continue
            for folder in _folders(source):
                real = canonical(folder)
                if real not in known and (found := self._one(source, folder, real)) is not None:
                    known.add(real)
                    listed.append(found)
        return _with_ids(listed)

    def at(self, folder: str) -> Found:
        """One skill by its folder, wherever that lies; for its author."""
        real = canonical(folder)
        source = Source("path", real, Root(real, real, writable=False))
        found = self._one(source, real, real) or _broken(source, real, "there is no SKILL.md")
        return replace(found, id=found.name)

    def whole(self, found: Found) -> Whole:
        """Read all of a skill; one that changes all the while is broken, and one that leads out is not read."""
        if not found.sha256:
            return self._completed(found, (), "", ())
        for _ in range(_TRIES):
            inside = contents(found.folder, self._hashes)
            if inside.problems or found.header.problems:
                return self._completed(found, inside.files, inside.digest, inside.problems)
            again = self._header(found.folder)
            if again is not None and again[1] == found.sha256 and inside.header:
                return self._completed(found, inside.files, inside.digest, ())
            found = found if again is None else replace(found, header=again[0], sha256=again[1])
        return self._completed(found, (), "", ("the skill changes while it is read",))

    def _one(self, source: Source, folder: str, real: str) -> Found | None:
        if not f"{real}/".startswith(f"{source.root.path.rstrip('/')}/"):
            if not any(os.path.lexists(os.path.join(folder, name)) for name in HEADERS):
                return None
            return _broken(source, folder, f"the folder is a link that leads out of {source.root.path}")
        read = self._header(real)
        if read is None:
            return None
        header, sha256 = read
        basename = os.path.basename(folder)
        return Found("", header.name or basename, source, real, header, sha256)

    def _header(self, folder: str) -> tuple[Header, str] | None:
        for name in HEADERS:
            if not os.path.lexists(os.path.join(folder, name)):
                continue
            try:
                data = read_inside(folder, name, MAX_FILE_BYTES)
            except Problem as problem:
                return Header(problems=(problem.message,)), ""
            sha256 = hashlib.sha256(data).hexdigest()
            header = self._headers.get(sha256)
            if header is None:
                if len(self._headers) > 2 * MOST_SKILLS:
                    self._headers.clear()
                header = self._headers[sha256] = read_header(data)
            return header, sha256
        return None

    def _completed(self, found: Found, files: tuple[SkillFile, ...], digest: str, problems: Sequence[str]) -> Whole:
        header, basename = found.header, os.path.basename(found.folder)
        wrong = (*header.problems, *problems)
        remarks = list(header.remarks)
        if header.name and header.name != basename:
            remarks.append(f"`name` is {header.name} and the folder is {basename}; the specification wants them equal")
        tools: frozenset[str] | None = None
        notes: tuple[str, ...] = ()
        if header.allowed_tools is not None:
            tools = our_tools(header.allowed_tools, self._tools())
            if unknown := unknown_names(header.allowed_tools, self._tools()):
                notes = (f"`allowed-tools` names what stands for no tool here: {', '.join(unknown[:10])}",)
        skill = Skill(
            id=found.id,
            name=found.name,
            description=_cut(header.description),
            source=found.source.label,
            folder=found.folder,
            digest="" if wrong else digest,
            allowed_tools=frozenset() if wrong else tools,
            permissions=header.permissions,
            problems=wrong,
        )
        return Whole(skill, found.source.root, header, files, tuple(remarks), notes)


def _folders(source: Source) -> list[str]:
    try:
        with os.scandir(source.folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
    return [os.path.join(source.folder, name) for name in names[:MOST_SKILLS]]


def _broken(source: Source, folder: str, problem: str) -> Found:
    return Found("", os.path.basename(folder), source, folder, Header(problems=(problem,)), "")


def _with_ids(listed: list[Found]) -> list[Found]:
    """`name`, or `source:name` where two share one; two of one source that do are both broken."""
    names = Counter(found.name for found in listed)
    owned = Counter((found.source.label, found.name) for found in listed)
    told = []
    for found in listed:
        label, header = found.source.label, found.header
        skill_id = found.name if names[found.name] == 1 else f"{label}:{found.name}"
        if owned[label, found.name] > 1:
            skill_id = f"{label}:{os.path.basename(found.folder)}"
            wrong = f"another skill in {label} has the name {found.name}, too"
            header = replace(header, problems=(*header.problems, wrong))
        told.append(replace(found, id=skill_id, header=header))
    return told


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1]}…"
