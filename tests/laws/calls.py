"""Short ways to write a touch, a rule, a grant and a world in the tables of the policy tests."""

from __future__ import annotations

from typing import Any

from handrail.policy import ToolFacts, World
from handrail.policy.rules import Rule
from handrail.words import Decision, Grant, How, Place, PlaceKind, Risk, Root, Scope, Touch, TouchKind

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
FILE, FOLDER, MISSING = PlaceKind.FILE, PlaceKind.DIRECTORY, PlaceKind.MISSING
WORKSPACE = Root("workspace", "/ws", True)
DATA = Root("/data", "/data", False)
MORE = Root("/more", "/more", True)
OBSERVATIONS = Root("run:observations", "/state/runs/r1/observations", False)
SCRATCH = Root("run:workspace", "/state/runs/r1/workspace", True)
ROOTS = (WORKSPACE, DATA, MORE, OBSERVATIONS, SCRATCH)
LOW = ToolFacts("read_file", "fs", Risk.LOW)
HIGH = ToolFacts("write_file", "fs", Risk.HIGH)


def place(path: str, root: Root = WORKSPACE, kind: PlaceKind = FILE, size: int = 10) -> Place:
    return Place(root, path, kind, path, size)


def read(path: str, root: Root = WORKSPACE, **more: Any) -> Touch:
    kind = FOLDER if more.get("deep") else FILE
    return Touch(TouchKind.FS_READ, path, place=place(path, root, kind), **more)


def write(path: str, how: How = How.REPLACE, kind: PlaceKind = MISSING, root: Root = WORKSPACE, **more: Any) -> Touch:
    size = more.pop("size", 10)
    return Touch(TouchKind.FS_WRITE, path, how=how, place=place(path, root, kind, size), **more)


def delete(path: str, below: tuple[str, ...] | None = None, root: Root = WORKSPACE, **more: Any) -> Touch:
    deep = below is not None
    kind = FOLDER if deep else FILE
    return Touch(TouchKind.FS_DELETE, path, deep, place=place(path, root, kind), below=below, **more)


def move(source: str, target: str, below: tuple[str, ...] | None = None) -> tuple[Touch, Touch]:
    return delete(source, below, how=How.MOVE), write(target)


def reach(target: str, **more: Any) -> Touch:
    return Touch(TouchKind.NET_CONNECT, target, **more)


def run(line: str) -> Touch:
    return Touch(TouchKind.PROC_EXEC, line, words=tuple(line.split()))


def use(name: str = "now") -> Touch:
    return Touch(TouchKind.TOOL_USE, name)


def rule(effect: Decision, touch: str | None = None, target: str | None = None, number: int = 1, **more: Any) -> Rule:
    return Rule(effect, f"rules.{number}", touch, target, where=f"handrail.toml:{number + 10}", **more)


def grant(*touches: Touch, scope: Scope = Scope.RUN, **more: Any) -> Grant:
    fields: dict[str, Any] = {
        "id": "g1",
        "request": "q1",
        "tool": HIGH.name,
        "digest": "digest",
        "touches": tuple((touch.kind.value, touch.shown) for touch in touches),
        "run_id": "r1",
        "expires": 200.0,
        "given_by": "ann",
    }
    return Grant(scope=scope, **{**fields, **more})


def world(tool: ToolFacts = HIGH, *rules: Rule, **more: Any) -> World:
    """A world in which the tool is enabled and nothing else is said."""
    fields: dict[str, Any] = {
        "roots": ROOTS,
        "rules": rules,
        "enable": frozenset({tool.name}),
        "own_paths": ("/state/runs", "/ws/.agent/runs"),
        "digest": "digest",
        "now": 100.0,
        "run_id": "r1",
    }
    return World(tool, **{**fields, **more})
