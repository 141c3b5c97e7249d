"""How the server's run is opened: once at the start, and again when settings have changed.

What a run is made of takes longer to load than all else, so it is loaded when one is opened, not with this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import dialects
from handrail.front.mcp.approvals import Console, McpApprover
from handrail.ports import Progress
from handrail.settings import Loaded, load

if TYPE_CHECKING:
    from handrail.catalog import Tool
    from handrail.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Opening:
    """What `handrail mcp` was asked for."""

    workspace: str = "."
    config: str | Mapping[str, Any] | None = None
    run_id: str | None = None
    dialect: str = "native"
    tools: tuple[Tool, ...] = ()
    progress: Progress | None = None
    console: Console | None = None  # where people answer requests in a browser, if anything serves that

    def runtime(self, approver: McpApprover, run_id: str | None, former: Loaded | None = None) -> Runtime:
        """Prepare the run; with a name, the one of this name, whose settings were `former`."""
        from handrail.runtime import Runtime
        from handrail.worlds import Options

        if self.dialect != "native":
            dialects.get(self.dialect)
        options = Options(
            Path(self.workspace),
            config=self._config,
            run_id=run_id or self.run_id,
            approver=approver,
            tools=self.tools,
            caller="mcp",
            progress=self.progress,
            former=former,
        )
        return Runtime(options, self.dialect)

    def check(self) -> None:
        """Refuse, by a Fault, what can be known to be wrong before the run is opened: settings, the dialect."""
        if self.dialect not in dialects.names():
            dialects.get(self.dialect)
        self.settings()

    def settings(self, former: Loaded | None = None) -> Loaded:
        """The settings as they are now; SettingsFault when they cannot be taken."""
        return load(Path(self.workspace), config=self._config, environment=os.environ, former=former)

    @property
    def _config(self) -> Path | Mapping[str, Any] | None:
        return Path(self.config) if isinstance(self.config, str) else self.config
