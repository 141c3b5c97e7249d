"""Dialects of agents that carry their calls out themselves: their tools, mapped to ours and to touches. Pure.

A call names, besides what the agent gave the tool, the folder it is made in (`@cwd`) and whether the file that it
writes is missing (`@missing`); both come from who speaks to the agent, never from the agent's arguments.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from handrail.arguments import short
from handrail.dialects._dialect import Args, Dialect, Event, Heard, Message, Word
from handrail.errors import Code, Problem
from handrail.policy.shell import outside, read_line
from handrail.words import Json, Outcome, Touch, TouchKind, noun

USES, OWN = "agent_use", "agent_own"  # tools of ours that stand for those of an agent: one asks, one does not
CWD, MISSING = "@cwd", "@missing"
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "any": (object,),
}
_MOST_PATTERN = 1024
_MOST_TEXTS = 2000  # of the arguments of a tool that is not known


@noun
class Where:
    """From where an agent calls."""

    cwd: str = "."
    missing: bool = False  # the file that it writes is not there

    def path(self, text: str) -> str:
        """Write a path from the agent's folder on; INVALID_ARGS where programs differ on what it names."""
        odd = text != text.strip() or text.startswith(("~", "$", "file:", "@")) or "://" in text or not text
        if odd or len(text) > 4096:
            raise Problem(
                Code.INVALID_ARGS,
                f"{short(text)} may name one file to the agent and another to Handrail. Write the path from / on, or "
                "from the working folder on, without ~, variables and blanks around it.",
                field="path",
            )
        return text if text.startswith("/") else f"{self.cwd}/{text}"

    def folder(self, text: str | None) -> str:
        """Write a folder that may be left out."""
        return self.path(text) if text else self.cwd


@noun
class Meant:
    """What a call of an agent is in our words."""

    tool: str
    args: Args
    further: tuple[Touch, ...] = ()


@noun
class AgentTool:
    """One tool of an agent: its arguments by JSON type (`?` at the end: may be left out), and what it is to us."""

    takes: Mapping[str, str]
    means: Callable[[Args, Where], Meant]
    says: str = ""
    ours: str = USES

    def check(self, name: str, given: Mapping[str, Json]) -> None:
        """Refuse arguments that are missing or of another type; INVALID_ARGS."""
        for key, kind in self.takes.items():
            if key not in given or given[key] is None:
                if not kind.endswith("?"):
                    raise Problem(Code.INVALID_ARGS, f"{name} needs `{key}`, and it is missing.", field=key)
                continue
            value, wanted = given[key], kind.removesuffix("?")
            fits = isinstance(value, _TYPES[wanted]) and (wanted in ("boolean", "any") or not isinstance(value, bool))
            if not fits:
                told = f"{name}: `{key}` must be of type {wanted}; it is {short(value)}."
                raise Problem(Code.INVALID_ARGS, told, field=key)

    def word(self, name: str) -> Word:
        """Describe the tool as dialects do."""
        known = {key: {"type": kind.removesuffix("?")} for key, kind in self.takes.items() if kind.rstrip("?") != "any"}
        needed = [key for key, kind in self.takes.items() if not kind.endswith("?")]
        schema = {"type": "object", "properties": known, "required": needed}
        return Word(name, self.ours, self.says, schema)


@noun
class AgentDialect(Dialect):
    """The tools of an agent that carries its calls out itself."""

    tools: Mapping[str, AgentTool] = field(default_factory=dict)
    harmless: frozenset[str] = frozenset()  # tools that touch nothing but the agent itself

    def heard(self, tool: str, args: Mapping[str, Json], version: str | None = None, *, repair: bool = True) -> Heard:  # noqa: ARG002
        """Translate a call; a tool that is not known is one that asks. INVALID_ARGS for arguments that do not fit."""
        if not isinstance(tool, str) or not isinstance(args, Mapping):
            raise Problem(Code.INVALID_ARGS, "A call of an agent names a tool and gives it an object.")
        where = Where(str(args.get(CWD, ".")), bool(args.get(MISSING, False)))
        given = {name: value for name, value in args.items() if not name.startswith("@")}
        known = self.tools.get(tool)
        if known is None:
            ours = OWN if tool in self.harmless else USES
            word = Word(tool, ours, "", {"type": "object"})
            keys = [_key_path(text, where) for text in _texts(given) if outside.names_key(text)]
            further = tuple(Touch(TouchKind.FS_READ, path) for path in dict.fromkeys(keys))
            return Heard(ours, {"tool": tool, "arguments": given}, word, agent=self.name, further=further)
        known.check(tool, given)
        meant = known.means({name: value for name, value in given.items() if value is not None}, where)
        # An argument that nobody here knows may change what the tool does, so it asks.
        unknown = [
            Touch(TouchKind.TOOL_USE, f"{tool}({name})", unsafe=True) for name in given if name not in known.takes
        ]
        return Heard(meant.tool, meant.args, known.word(tool), agent=self.name, further=(*meant.further, *unknown))

    def word(self, tool: str) -> Word:
        """Give the word of a tool; one that is not known stands for itself."""
        known = self.tools.get(tool)
        return known.word(tool) if known is not None else Word(tool, USES, "", {"type": "object"})


def dialect(
    name: str, about: str, tools: Mapping[str, AgentTool], harmless: Iterable[str], former: Mapping[str, str]
) -> AgentDialect:
    """Make the dialect of an agent; all but its tools is as ours."""
    named = {**tools, **{old: tools[new] for old, new in former.items()}}
    return AgentDialect(
        name=name,
        about=about,
        words={key: tool.word(key) for key, tool in named.items()},
        errors={code: code.value for code in Code},
        envelope=Outcome.to_dict,
        events=_events,
        approval=dict,
        messages=_messages,
        tools=named,
        harmless=frozenset(harmless),
    )


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    return (dict(event) for event in events)


def _messages(message: Mapping[str, Any]) -> Message:
    raise Problem(Code.INVALID_ARGS, f"An agent speaks through its hooks: `handrail hook`. Got {short(message)}.")


# ── what tools of several agents have in common ─────────────────────────────────────────────


def command(line: str, where: Where, *, background: bool = False, further: Iterable[Touch] = ()) -> Meant:
    """Read a shell line that the agent runs itself: the files that harmless commands name are touched, too."""
    reading = read_line(line)
    read = [Touch(TouchKind.FS_READ, path) for path in dict.fromkeys(outside.read_by(reading, where.cwd))]
    if outside.leaves_too_often(reading):
        why = "the line changes its folder too often to be followed"
        read.append(Touch(TouchKind.PROC_EXEC, line, doubt=why, unsafe=True))
    why = "what its variables stand for is not known outside the sandbox"
    unknown = [part.text for part in reading.parts if part.words in reading.expands]
    read += [Touch(TouchKind.PROC_EXEC, text, doubt=why, unsafe=True) for text in dict.fromkeys(unknown)]
    read += [Touch(TouchKind.FS_WRITE, path) for path in outside.written_at_home(reading)]
    emptied = [path if path.startswith("/") else f"{where.cwd}/{path}" for path in outside.emptied_elsewhere(reading)]
    read += [Touch(TouchKind.FS_DELETE, path) for path in emptied]
    args = {"command": line, "cwd": where.cwd, "background": background}
    return Meant("run_command", args, (*read, *further))


def read(path: str, where: Where) -> Meant:
    """Read one file."""
    return Meant("read_file", {"path": where.path(path)})


def write(path: str, content: str, where: Where) -> Meant:
    """Write a file whole."""
    new = {"path": where.path(path), "content": content}
    if where.missing:
        return Meant("write_file", {**new, "mode": "create"})
    return Meant("write_file", {**new, "mode": "overwrite", "expected_sha256": "*"})


def edit(path: str, edits: Iterable[tuple[str, str, bool]], where: Where) -> Meant:
    """Change parts of a file."""
    made = [{"old": old, "new": new, "match": "all" if every else "unique"} for old, new, every in edits]
    return Meant("edit_file", {"path": where.path(path), "edits": made})


def find(pattern: str, folder: str | None, where: Where) -> Meant:
    """Find files by a pattern; one that leads elsewhere touches that place."""
    base = where.folder(folder)
    return Meant("find_files", {"pattern": pattern[:_MOST_PATTERN] or "*", "path": base}, _named(pattern, base, where))


def search(pattern: str, folder: str | None, globs: Iterable[str], where: Where) -> Meant:
    """Search in files; a glob that names hidden files touches them."""
    base = where.folder(folder)
    further = tuple(touch for glob in globs for touch in _named(glob, base, where))
    return Meant("grep", {"pattern": pattern[:_MOST_PATTERN] or ".", "path": base}, further)


def _texts(value: Any) -> Iterator[str]:
    """Give the texts in the arguments of a tool, as many as are looked at."""
    waiting = [value]
    for _ in range(_MOST_TEXTS):
        if not waiting:
            return
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item


def _key_path(text: str, where: Where) -> str:
    """Write the path of key material so that it is judged where it lies."""
    if text.startswith("/"):
        return text
    return f"/{text}" if text.startswith(("~", "$")) else f"{where.cwd}/{text}"


def uses(tool: str, given: Args, further: Iterable[Touch] = ()) -> Meant:
    """Use a tool of which only its name is known."""
    return Meant(USES, {"tool": tool, "arguments": given}, tuple(further))


def _named(pattern: str, base: str, where: Where) -> tuple[Touch, ...]:
    """Touch what a pattern names beyond the folder that is searched, and what it names by a hidden or whole name."""
    fixed = pattern[: next((at for at, sign in enumerate(pattern) if sign in "*?[{"), len(pattern))]
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        folder = fixed.rpartition("/")[0] or "/"
        return (Touch(TouchKind.FS_READ, where.path(folder), deep=True),)
    last = re.sub(r"[{}]", "", pattern).rpartition("/")[2]
    names = [name for name in last.split(",") if name and (name.startswith(".") or name == last == fixed)]
    folder = posixpath.join(base, *fixed.split("/")[:-1])
    usable = [name for name in names if name.isprintable() and len(name.encode()) <= 255]
    return tuple(Touch(TouchKind.FS_READ, f"{folder}/{name}") for name in usable)
