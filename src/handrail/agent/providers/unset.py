"""A model that was not set up: a task that asks it is told what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from handrail.agent.conversation import Conversation, ToolOffer, Turn
from handrail.agent.providers import ModelFailure


class UnsetModel:
    """Fails with the reason why there is no model."""

    name = "none"
    model = ""

    def __init__(self, failure: ModelFailure) -> None:
        self._failure = failure

    async def next(self, messages: Conversation, tools: Sequence[ToolOffer]) -> Turn:  # noqa: ARG002
        """Say what is missing."""
        raise self._failure
