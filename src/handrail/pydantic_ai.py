"""The door for Pydantic AI: `from handrail.pydantic_ai import HandrailToolset, Governance`."""

from handrail.front.pydantic_ai import APPROVAL, Governance, HandrailToolset

__all__ = ["APPROVAL", "Governance", "HandrailToolset"]
