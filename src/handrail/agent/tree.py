"""The tree of a run, rebuilt from its events alone: agent → turn → call. Pure; also from the events of a dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any]
_NAMES = {"agent": "agent", "turn": "id"}  # by the first word of a kind: the field that names the node


@dataclass(slots=True)
class TreeNode:
    """One agent, turn or call, with what lies below it in the order in which it began."""

    kind: str  # agent | turn | call
    id: str
    label: str  # the task, the number of the turn, the name of the tool
    state: str = "running"  # running | completed | failed
    parent: str = ""
    facts: dict[str, Any] = field(default_factory=dict)  # of its first and last event
    notes: list[str] = field(default_factory=list)
    children: list[TreeNode] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the node and all below it as plain JSON values."""
        below = [child.to_json() for child in self.children]
        told = {"kind": self.kind, "id": self.id, "label": self.label, "state": self.state}
        return {**told, "notes": self.notes, "children": below}

    def walk(self) -> Iterator[TreeNode]:
        """Give the node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def build_tree(events: Iterable[Event]) -> list[TreeNode]:
    """Build the nodes of a run that have no parent on record, in the order in which they began."""
    nodes: dict[str, TreeNode] = {}
    roots: list[TreeNode] = []
    for event in events:
        kind = str(event.get("kind", "")).replace("tool_call.", "tool.")
        about = {**event, **(event.get("payload") or {})}
        first, _, what = kind.partition(".")
        if first in ("agent", "turn", "tool"):
            node = _node(first, about, nodes, roots)
            if what in ("completed", "failed", "finished"):
                node.state = "completed" if what == "finished" else what
            node.facts |= about
        elif note := _note(kind, about):
            _add_note(nodes.get(str(about.get("parent") or about.get("call_id"))), note)
    return roots


def _node(first: str, about: Event, nodes: dict[str, TreeNode], roots: list[TreeNode]) -> TreeNode:
    """Return the node that an event is about; made at its first event, below its parent."""
    name = str(about.get("call_id") if first == "tool" else about.get(_NAMES[first]))
    if name in nodes:
        return nodes[name]
    kind = "call" if first == "tool" else first
    node = nodes[name] = TreeNode(kind, name, _label(first, about), parent=str(about.get("parent") or ""))
    above = nodes.get(node.parent)
    (roots if above is None else above.children).append(node)
    return node


def _label(first: str, about: Event) -> str:
    if first == "agent":
        return str(about.get("task", ""))
    return str(about.get("turn", "")) if first == "turn" else str(about.get("tool_name") or about.get("tool"))


def _note(kind: str, about: Event) -> str:
    if kind == "question.asked":
        return f"asked: {about.get('text', '')}"
    if kind == "question.answered":
        return f"answered by {about.get('by') or 'somebody'}: {about.get('answer', '')}"
    return (
        f"message from {about.get('by') or 'somebody'}: {about.get('text', '')}" if kind == "message.received" else ""
    )


def _add_note(node: TreeNode | None, note: str) -> None:
    if node is not None:
        node.notes.append(note)
