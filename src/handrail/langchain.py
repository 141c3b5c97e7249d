"""The door for LangChain: `from handrail.langchain import tools`."""

from handrail.front.langchain import tools

__all__ = ["tools"]
