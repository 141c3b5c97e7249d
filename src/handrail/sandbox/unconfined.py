"""No confinement: only where the operator's settings say so twice. The tree still dies with its program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from handrail.sandbox.fork_server import ForkServer
from handrail.sandbox.launching import Child, Confined, SetupFailed
from handrail.sandbox.native import asked, common
from handrail.sandbox.plan import Plan


class Unconfined:
    """Programs that can do all that the runtime can."""

    def __init__(self, server: ForkServer, confined: Confined) -> None:
        self.confined = confined
        self._server = server

    def spawn(
        self, plan: Plan, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
    ) -> Child:
        """Start a program; back once it was executed. Raises SetupFailed for what only a sandbox can do."""
        if plan.hosts or plan.review:
            advice = 'Choose a sandbox, or leave `exec.allowed_hosts` empty and `exec.workspace = "direct"`.'
            raise SetupFailed("plan", 0, advice, "hosts and review need a sandbox")
        spec = {**common(plan), **asked(argv, cwd, env), "tier": "none", "confined": False}
        return self._server.spawn(spec, stdin, stdout, stderr)

    def close(self) -> None:
        """End the fork server, and with it every program that still runs."""
        self._server.close()
