"""Agents and turns in the tree of a run, and the tree in another system's names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from rich.tree import Tree

from handrail.agent.tree import TreeNode
from handrail.front.cli._tables import STATUS, plain

_COLOUR = {"completed": STATUS["ok"], "failed": STATUS["failed"], "running": STATUS["pending"]}


class TurnBranches:
    """Adds agents, turns and what was said in them to a tree of calls, in the order of the events."""

    def __init__(self, tree: Tree, nodes: dict[str, Tree], events: Iterable[Mapping[str, Any]], width: int) -> None:
        self._tree = tree
        self._nodes = nodes  # by id; calls are added by the caller
        kinds = ("agent.", "turn.", "question.", "message.")
        self._left = deque(event for event in events if str(event["kind"]).startswith(kinds))
        self._width = width

    def add_before(self, seq: int | None) -> None:
        """Add what came before an event; None: all that is left."""
        while self._left and (seq is None or self._left[0]["seq"] < seq):
            self._add(self._left.popleft())

    def _add(self, event: Mapping[str, Any]) -> None:
        first, _, what = str(event["kind"]).partition(".")
        above = self._nodes.get(str(event.get("parent") or event.get("agent") or ""), self._tree)
        if what == "started":
            self._nodes[str(event.get("id") or event.get("agent"))] = above.add(_began(first, event, self._width))
        elif said := _said(first, what, event):
            above.add(f"[yellow]{plain(_one_line(said, self._width))}[/]")


def _began(first: str, event: Mapping[str, Any], width: int) -> str:
    if first == "turn":
        return f"[bold]turn {event.get('turn')}[/]"
    model = event.get("model") or event.get("provider")
    return f"[bold]agent[/] {plain(_one_line(str(event.get('task')), width - 30))} [dim]{plain(model)}[/]"


def _said(first: str, what: str, event: Mapping[str, Any]) -> str:
    if first == "agent" and what == "completed":
        return f"answered: {event.get('answer')}"
    if first == "agent":
        return f"failed ({event.get('reason')}): {event.get('message')}"
    if first == "question" and what == "asked":
        return f"asked: {event.get('text')}"
    if first in ("question", "message"):
        return f"{event.get('by') or 'somebody'} said: {event.get('answer') or event.get('text')}"
    return ""


def _one_line(text: str, width: int) -> str:
    flat = " ".join(text.split())
    room = max(width - 16, 20)
    return flat if len(flat) <= room else f"{flat[: room - 1]}…"


def draw_tree(name: str, nodes: Iterable[TreeNode], width: int) -> Tree:
    """Draw nodes that were built from the events of a dialect."""
    tree = Tree(f"[bold]run[/] {plain(name)}")
    for node in nodes:
        _draw(tree, node, width)
    return tree


def _draw(above: Tree, node: TreeNode, width: int) -> None:
    kind = "tool_call" if node.kind == "call" else node.kind
    label = plain(_one_line(node.label, width - 20))
    below = above.add(f"[bold]{kind}[/] {label} [{_COLOUR[node.state]}]{node.state}[/]")
    for note in node.notes:
        below.add(f"[yellow]{plain(_one_line(note, width))}[/]")
    for child in node.children:
        _draw(below, child, width)
