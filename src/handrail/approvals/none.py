"""Nobody can be asked here."""

from __future__ import annotations

from handrail.ports import Reply, Request
from handrail.words import Scope


class NoApprover:
    """Leaves every request on record, to be answered and replayed later."""

    asks = False

    async def ask(self, request: Request) -> Reply:  # noqa: ARG002
        """Reply `pending` at once."""
        return Reply("pending", Scope.NONE)
