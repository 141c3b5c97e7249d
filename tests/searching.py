"""What tests of searching share: a workspace on a folder, and tools called with its real ports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handrail.catalog import Tool
from handrail.output.redact import Redactor
from handrail.ports import Limits
from handrail.store.spill import FileSpill
from handrail.words import Answer, Exclusion, Root
from handrail.workspace.beneath import OpenerName
from handrail.workspace.files import WorkspaceFiles
from handrail.workspace.ripgrep import Ripgrep

NOT_SECRET = Redactor(engine="plain")


class Searching:
    """A workspace whose search tools can be called; keyword arguments of Ripgrep pass through."""

    def __init__(
        self,
        root: Path,
        *,
        excluded: Sequence[Exclusion] = (),
        limits: Limits | None = None,
        opener: OpenerName = "auto",
        **how: Any,
    ) -> None:
        self.root = root
        self.excluded = excluded
        self.limits = limits or Limits()
        self.files = WorkspaceFiles([Root("workspace", str(root), True)], opener=opener)
        self.ripgrep = Ripgrep(self.files, **how)

    async def __aenter__(self) -> Searching:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.files.close()

    async def call(self, tool: Tool, **args: Any) -> Any:
        """Parse, resolve and run, as the kernel does; give the tool's Answer."""
        parsed, _ = tool.parse(args)
        for name, _mark in tool.targets:
            if parsed[name] is not None:
                parsed[name] = self.files.resolve(parsed[name])
        ports = {
            "searcher": self.ripgrep.bind(self.excluded),
            "files": self.files.bind("call", self.excluded),
            "secrets": NOT_SECRET,
            "limits": self.limits,
            "spill": FileSpill(self.root.parent / f"{self.root.name}-observations"),
        }
        answer: Answer[Any] = await tool.function(**parsed, **{name: ports[name] for name, _ in tool.injected})
        tool.shape.result(answer.data)
        return answer


def fill(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files, with the folders they need."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def children() -> set[str]:
    """The processes this one has started and not reaped."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()) | {
        child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
    }
