"""What a tool is given with a call: its arguments, resolved places in the stead of paths, and ports."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from handrail.catalog import Tool
from handrail.gates.step import FILES, Step
from handrail.ports import Places, Work
from handrail.words import Finding, Touch, TouchKind, noun

if TYPE_CHECKING:
    from handrail.kernel import Parts

_FILES = "Workspace"
Reviewing = Callable[[Step, Sequence[Touch], str, Any, Mapping[str, Sequence[str]]], Awaitable[Sequence[Touch]]]

Reaching = Callable[[Step, Touch], Awaitable[bool]]
Sorting = Callable[[Step, Sequence[Touch]], tuple[Sequence[Touch], Sequence[Finding]]]


@noun
class Desk:
    """What stays the same for all calls of a tool."""

    shared: dict[str, Any]  # ports that all calls share, by parameter
    files: tuple[str, ...]  # parameters that are given the call's workspace
    own: tuple[tuple[str, Callable[[Work], Any]], ...]  # further ports that are made for each call
    paths: tuple[str, ...]  # arguments that are paths
    path: str | None  # the only one, where there is just one


class Desks:
    """Lays out a tool's parameters; one desk a tool."""

    def __init__(
        self,
        parts: Parts,
        judge: Callable[[Step, Touch], None],
        review: Reviewing,
        reach: Reaching,
        sort: Sorting,
    ) -> None:
        self._parts, self._files, self._judge, self._review = parts, parts.files, judge, review
        self._reach = reach
        self._sort = sort
        self._known: dict[str, Desk] = {}

    def inputs(self, step: Step) -> dict[str, Any]:
        """Give the parameters of the call's tool, and bind the call's workspace."""
        tool, question, verdict, touches = step.tool, step.question, step.verdict, step.touches
        assert tool is not None and question is not None and verdict is not None
        desk = self._known.get(tool.name) or self._desk(tool)
        inputs = {**question.args, **desk.shared}
        if desk.path is not None and len(touches) == 1:
            inputs[desk.path] = touches[0].place
        elif desk.paths:
            places = Places(touches)
            for name in desk.paths:
                inputs[name] = places.of(question.args[name])
        files = step.files = self._files.bind(step.id, verdict.excluded)
        for name in desk.files:
            inputs[name] = files
        if desk.own:
            work = Work(
                step.id,
                files,
                touches,
                verdict.excluded,
                verdict.locked,
                partial(self._judge, step),
                step.call.idempotency_key,
                partial(self._review, step),
                partial(self._reach, step),
                partial(self._sort, step) if verdict.border else None,
                verdict.direct,
            )
            for name, port in desk.own:
                inputs[name] = port(work)
        return inputs

    def _desk(self, tool: Tool) -> Desk:
        shared, made = self._parts.shared, self._parts.ports
        paths = tuple(name for name, mark in tool.targets if mark.kind in FILES)
        own = [(name, port.__name__) for name, port in tool.injected if port.__name__ not in shared]
        simple = len(paths) == 1 and tool.touches_of is None and paths[0] in tool.single_paths
        simple = simple and not any(mark.deep and mark.kind is not TouchKind.FS_READ for _, mark in tool.targets)
        desk = self._known[tool.name] = Desk(
            shared={name: shared[port.__name__] for name, port in tool.injected if port.__name__ in shared},
            files=tuple(name for name, port in own if port == _FILES),
            own=tuple((name, made[port]) for name, port in own if port != _FILES),
            paths=paths,
            path=paths[0] if simple else None,
        )
        return desk
