"""How the server's run is opened: once at the start, and again when settings have changed.

What a run is made of takes longer to load than all else, so it is loaded when one is opened, not with this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import dialects
from handrail.errors import SettingsFault
from handrail.front.mcp.approvals import Console, McpApprover
from handrail.ports import Progress
from handrail.settings import Loaded, TrustStore, load, trust_store

if TYPE_CHECKING:
    from handrail.catalog import Tool
    from handrail.runtime import Runtime


class Welcome(TrustStore):
    """The user's own store; besides, it keeps a project's file out that no run could be opened with."""

    def __init__(self) -> None:
        super().__init__(trust_store(os.environ).path)
        self.tried = ""  # the pin of the project's file that was asked for last
        self._out = self._why = ""

    def trusts(self, file: Path, sha256: str) -> bool:
        """Whether a person reviewed this file; SettingsFault where it is kept out: what it said before counts."""
        self.tried = sha256
        if sha256 and sha256 == self._out:
            raise SettingsFault(f"{file.name}: {self._why}")
        return super().trusts(file, sha256)

    def keep_out(self, former: Loaded, error: Exception) -> bool:
        """Keep the content out that was tried last; False where it counted before, so that it is not to blame."""
        if not self.tried or any(file.layer == "project" and file.pin == self.tried for file in former.files):
            return False
        self._out, self._why = self.tried, f"no run can be opened with it: {error}"
        return True

    def let_in(self) -> None:
        """Keep nothing out."""
        self._out = ""


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
    asked_by: str = ""  # the identity behind the client, where the service knows one
    replay_flags: Callable[[Runtime], str] | None = None  # of the command line that replays a request
    welcome: Welcome = field(default_factory=Welcome, compare=False, repr=False)

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
            asked_by=self.asked_by,
            progress=self.progress,
            former=former,
            trust=self.welcome,
        )
        return Runtime(options, self.dialect)

    def check(self) -> None:
        """Refuse, by a Fault, what can be known to be wrong before the run is opened: settings, the dialect."""
        if self.dialect not in dialects.names():
            dialects.get(self.dialect)
        self.settings()

    def settings(self, former: Loaded | None = None) -> Loaded:
        """The settings as they are now; SettingsFault when they cannot be taken."""
        where = Path(self.workspace)
        return load(where, config=self._config, environment=os.environ, former=former, trust=self.welcome)

    @property
    def _config(self) -> Path | Mapping[str, Any] | None:
        return Path(self.config) if isinstance(self.config, str) else self.config
