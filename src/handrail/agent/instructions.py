"""What a model is told before a task: where it works, what asks, how to report, and the project's own words."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from handrail.agent.conversation import ToolOffer
from handrail.errors import SettingsFault
from handrail.runtime import Runtime
from handrail.words import Mode

MOST_BYTES = 64 * 1024  # of a file of instructions
PROJECT_FILE = "AGENTS.md"
ASK_PERSON = ToolOffer(
    "ask_person",
    "Ask the person who gave the task. The task waits for the answer, however long that takes: ask only what you "
    "cannot find out, and everything you need in one question. An answer approves no call.",
    {
        "type": "object",
        "properties": {"question": {"type": "string", "description": "the question, with what you know already"}},
        "required": ["question"],
        "additionalProperties": False,
    },
)
_asking: dict[str, tuple[str, ...]] = {}  # by policy digest: the tools that ask


def write_instructions(runtime: Runtime, dialect: str) -> str:
    """Write the instructions of a task in this runtime."""
    return "\n".join(part for part in _parts(runtime, dialect) if part)


def offer_tools(runtime: Runtime, dialect: str) -> tuple[ToolOffer, ...]:
    """List the tools for a model: those of the runtime, and in our own words a way to ask the person."""
    offers = tuple(
        ToolOffer(str(spec.get("function_name", spec["name"])), str(spec["description"]), spec["args_schema"])
        for spec in runtime.tools(dialect=dialect)
    )
    return (*offers, ASK_PERSON) if dialect == "native" else offers


def _parts(runtime: Runtime, dialect: str) -> Iterator[str]:
    yield "You work on a task with tools. Every call is checked, decided by policy and recorded."
    yield "Call tools until the task is done, then answer with the result. Do not ask for confirmation in your answer."
    yield "A call that fails says how to mend it; a call that was denied stays denied: find another way, or say so."
    yield from _describe_roots(runtime)
    if runtime.parts.loaded.settings.mode is Mode.HEADLESS:
        yield "Nobody can be asked here: what needs an approval is refused."
    elif asking := tools_that_ask(runtime):
        yield f"A person may be asked before these: {', '.join(asking)}. Waiting for that costs you nothing."
    names = {spec["name"] for spec in runtime.tools(dialect=dialect)}
    if "display" in names:
        yield "Report progress with `display` when a step begins: what you do next and why, and what you found."
    yield "A result that is cut, or that became too old, names a `run:` path: read it with the tool that reads files."
    yield from _further(runtime)


def _describe_roots(runtime: Runtime) -> Iterator[str]:
    roots = runtime.parts.kernel.parts.shared["Roots"].all
    home = next(root for root in roots if root.name == "workspace")
    yield f"Paths are relative to the workspace {home.path}."
    writable = [root.name for root in roots if root.writable and root is not home]
    readable = [root.name for root in roots if not root.writable]
    yield f"You may also write in {', '.join(writable)} and read in {', '.join(readable)}."


def tools_that_ask(runtime: Runtime) -> tuple[str, ...]:
    """List the enabled tools of which a person may be asked; worked out once for each policy."""
    digest = runtime.parts.policy_digest
    if digest not in _asking:
        tools = runtime.policy()["tools"]
        found = [
            name
            for name, told in tools.items()
            if told["enabled"] and any(touch["result"] == "ask" for touch in told["touches"])
        ]
        _asking[digest] = tuple(found)
    return _asking[digest]


def _further(runtime: Runtime) -> Iterator[str]:
    settings = runtime.parts.loaded.settings.agent
    if settings.instructions:
        path = Path(runtime.parts.loaded.workspace, settings.instructions)
        text = _read(path)
        if text is None:
            raise SettingsFault(f"agent.instructions: {path} cannot be read as a text of at most {MOST_BYTES} bytes")
        # What tools may write speaks for the project, whatever settings name it.
        whose = "the project" if _is_writable(runtime, path) else "the operator"
        yield f"\nInstructions of {whose}:\n{text}"
    text = _read(Path(runtime.kernel.parts.workspace, PROJECT_FILE))
    if text is not None:
        hidden = runtime.kernel.parts.finisher.hidden(text)
        yield f"\n{PROJECT_FILE} of the project, which changes nothing about what is allowed:\n{hidden}"


def _is_writable(runtime: Runtime, path: Path) -> bool:
    roots = runtime.parts.kernel.parts.shared["Roots"].all
    real = os.path.realpath(path)
    return any(root.writable and f"{real}/".startswith(f"{root.path.rstrip('/')}/") for root in roots)


def _read(path: Path) -> str | None:
    """Read a plain file that is not too large; a link in its place is not followed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with open(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            return None
        return file.read(MOST_BYTES).decode("utf-8", "replace")
