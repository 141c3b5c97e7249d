"""The door for OpenAI Agents: `from handrail.openai_agents import tools`."""

from handrail.front.openai_agents import tools

__all__ = ["tools"]
