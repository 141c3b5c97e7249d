"""Other systems' names, arguments, envelopes, errors and events, spoken over our tools. Pure: one file a dialect.

A dialect translates. It adds no behaviour, grants nothing, skips nothing, and touches neither policy nor settings: what
a document's system does by default is a preset.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from handrail.errors import Misuse

if TYPE_CHECKING:
    from handrail.dialects._dialect import Dialect

_FILES = {
    "native": "native",
    "skills-agent": "skills_agent",
    "clude": "clude",
    "tool-hub": "tool_hub",
    "kgent": "kgent",
    "autonous": "autonous",
    "mcp-filesystem": "mcp_filesystem",
}
# Agents that carry their calls out themselves: spoken by hooks, never offered to a model.
_AGENTS = {"claude-code": "claude_code", "codex": "codex", "gemini-cli": "gemini_cli"}
_loaded: dict[str, Dialect] = {}


def names() -> tuple[str, ...]:
    """All dialects, ours first."""
    return tuple(_FILES)


def agents() -> tuple[str, ...]:
    """All dialects of agents that carry their calls out themselves."""
    return tuple(_AGENTS)


def get(name: str) -> Dialect:
    """Give a dialect; its file is loaded when it is first asked for. Misuse names those there are."""
    found = _loaded.get(name)
    if found is None:
        file = _FILES.get(name) or _AGENTS.get(name) if isinstance(name, str) else None
        if file is None:
            raise Misuse(f"there is no dialect {name!r}; there are {', '.join(_FILES)}")
        found = _loaded[name] = import_module(f"handrail.dialects.{file}").DIALECT
    return found
