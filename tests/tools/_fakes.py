"""A workspace over a folder, and a way to call one tool in it as the kernel does, without policy and journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from handrail.catalog import Tool
from handrail.errors import Problem
from handrail.output.redact import Redactor
from handrail.ports import Limits, Places, Secrets, Spill, Workspace
from handrail.store.spill import FileSpill
from handrail.words import Answer, Change, Exclusion, PlaceKind, Root, Touch, TouchKind
from handrail.workspace.files import WorkspaceFiles

FILES = {TouchKind.FS_READ, TouchKind.FS_WRITE, TouchKind.FS_DELETE}


class Desk:
    """One run's workspace, and the tools called in it."""

    def __init__(self, folder: Path, limits: Limits, known: tuple[str, ...], excluded: tuple[Exclusion, ...]) -> None:
        self.folder = folder
        self.limits = limits
        self.files = WorkspaceFiles([Root("workspace", str(folder), True)])
        self.changes: list[Change] = []  # of the last call
        self.touches: tuple[Touch, ...] = ()
        self._secrets = Redactor(known, engine="plain")
        self._excluded = excluded

    def put(self, path: str, data: str | bytes) -> Path:
        """Put a file there; text as UTF-8, its line endings as they are."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def bytes(self, path: str) -> bytes:
        """What stands there."""
        return (self.folder / path).read_bytes()

    async def call(self, tool: Tool, **args: Any) -> Answer[Any]:
        """Call a tool; its Problem is raised. The result is checked against its schema."""
        parsed, _ = tool.parse(args)
        inputs = self._inputs(tool, parsed)
        try:
            answer = await tool.function(**inputs)
        finally:
            self.changes = list(inputs["files"].changes) if "files" in inputs else []
        assert isinstance(answer, Answer)
        tool.shape.result(answer.data)
        return answer

    async def preview(self, tool: Tool, **args: Any) -> str:
        """What a person would be shown before approving."""
        parsed, _ = tool.parse(args)
        assert tool.preview is not None
        return str(await tool.preview(**self._inputs(tool, parsed)))

    async def problem(self, tool: Tool, **args: Any) -> Problem:
        """Call a tool that must fail; gives its Problem."""
        try:
            answer = await self.call(tool, **args)
        except Problem as problem:
            return problem
        raise AssertionError(f"{tool.name} gave {answer.summary!r}")

    def _inputs(self, tool: Tool, parsed: dict[str, Any]) -> dict[str, Any]:
        self.touches = tuple(self._resolved(touch) for touch in tool.touches(parsed))
        places = Places(self.touches)
        bound = self.files.bind("call", self._excluded)
        ports: dict[type, Any] = {Workspace: bound, Secrets: self._secrets, Limits: self.limits, Places: places}
        ports[Spill] = FileSpill(self.folder.parent / f"{self.folder.name}-observations")
        for name, mark in tool.targets:
            if mark.kind in FILES:
                parsed[name] = places.of(parsed[name])
        return {**parsed, **{name: ports[port] for name, port in tool.injected}}

    def _resolved(self, touch: Touch) -> Touch:
        place = self.files.resolve(touch.target, follow=touch.follow)
        takes_away = touch.deep and touch.kind is not TouchKind.FS_READ and place.kind is PlaceKind.DIRECTORY
        return replace(touch, place=place, below=self.files.below(place) if takes_away else None)


@asynccontextmanager
async def desk_at(
    folder: Path,
    limits: Limits | None = None,
    known: tuple[str, ...] = (),
    excluded: tuple[Exclusion, ...] = (),
) -> AsyncIterator[Desk]:
    """Open a workspace over a folder and close it afterwards."""
    desk = Desk(folder, limits or Limits(), known, excluded)
    try:
        yield desk
    finally:
        await desk.files.close()
