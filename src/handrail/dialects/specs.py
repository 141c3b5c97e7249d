"""How tools are described to a model: ours, or exactly those of a dialect's document."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Protocol

from handrail.dialects._dialect import Dialect, Word, encoded
from handrail.words import Json


class Described(Protocol):
    """A tool of the catalog, as far as it is described."""

    @property
    def name(self) -> str:
        """Its name."""

    def spec(self) -> dict[str, Json]:
        """Its description for function-calling APIs."""


def specs(dialect: Dialect, tools: Iterable[tuple[Described, bool]], *, every: bool = False) -> list[dict[str, Json]]:
    """Describe the tools that are enabled; with `every` the others, too, and which are."""
    shown = [(tool, on) for tool, on in tools if on or every]
    if dialect.name == "native":
        return [{**tool.spec(), "enabled": on} if every else tool.spec() for tool, on in shown]
    known = {tool.name: (tool, on) for tool, on in shown}
    found = [(word, *known[word.ours]) for word in dialect.words.values() if word.ours in known]
    return [{**spec(word, tool), "enabled": on} if every else spec(word, tool) for word, tool, on in found]


def spec(word: Word, tool: Described) -> dict[str, Json]:
    """Describe one tool of a document: its own names and schemas, our risk and touches."""
    ours = tool.spec()
    told: dict[str, Any] = {
        **ours,
        "name": word.name,
        "function_name": encoded(word.name),
        "version": word.version,
        "description": word.says,
        "args_schema": deepcopy(dict(word.args)),
        "return_schema": deepcopy(dict(ours["return_schema"] if word.result is None else word.result)),
    }
    if word.toolset:
        told["toolset"] = word.toolset
    if word.capabilities:
        told["capabilities"] = list(word.capabilities)
    return told
