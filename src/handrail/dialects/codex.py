"""Codex: its own tools, which it runs itself once they are judged."""

from __future__ import annotations

import re

from handrail.dialects._agent import AgentTool, Meant, Where, command, dialect
from handrail.dialects._dialect import Args
from handrail.words import How, Touch, TouchKind

_HEADER = re.compile(r"(?P<before>\s*)(?P<mark>\*\*\* (?:(?P<what>Add|Update|Delete) File|Move to):)\s*(?P<path>.+)")


def _patch(given: Args, where: Where) -> Meant:
    """Read a patch whose paths are told from the agent's folder.

    A line that only looks like the head of a section once the blanks before it are gone may be one to the agent.
    """
    further: list[Touch] = []
    lines: list[str] = []
    for line in given["command"].split("\n"):
        found = _HEADER.fullmatch(line.rstrip())
        if found is None:
            lines.append(line)
            continue
        path = where.path(found["path"].strip())
        lines.append(f"{found['before']}{found['mark']} {path}")
        if found["before"]:
            deletes = found["what"] == "Delete"
            kind = TouchKind.FS_DELETE if deletes else TouchKind.FS_WRITE
            further.append(Touch(kind, path, how=How.PLAIN if deletes else How.EDIT, follow=not deletes))
    return Meant("apply_patch", {"patch": "\n".join(lines)}, tuple(further))


TOOLS = {
    "Bash": AgentTool(
        {"command": "string", "description": "string?"},
        lambda given, where: command(given["command"], where), "Run a shell line.", "run_command",
    ),
    "apply_patch": AgentTool({"command": "string"}, _patch, "Change files by a patch.", "apply_patch"),
    "view_image": AgentTool(
        {"path": "string", "detail": "string?"},
        lambda given, where: Meant("read_media", {"path": where.path(given["path"])}), "View an image.", "read_media",
    ),
}  # fmt: skip
# They plan, or start and steer agents whose tools are judged themselves.
HARMLESS = ("update_plan", "spawn_agent", "Agent", "wait", "wait_agent", "close_agent", "send_input", "list_agents")
DIALECT = dialect("codex", "Codex, through its hooks", TOOLS, HARMLESS, {})
