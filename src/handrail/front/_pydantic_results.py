"""What an agent's own tool gives back through the gate: values with secrets hidden, media and content as they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.exceptions import (
    AgentRunError,
    ApprovalRequired,
    CallDeferred,
    FallbackExceptionGroup,
    ModelRetry,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
    UserError,
)
from pydantic_ai.messages import ToolReturn
from pydantic_core import to_json

from handrail.errors import Code, Problem
from handrail.front._pydantic_shown import Shown, with_files
from handrail.front._pydantic_values import Plain
from handrail.words import Answer

# What a tool says to Pydantic AI by raising it: in words for the record, and the code that fits them best.
_TOLD: dict[type[Exception], tuple[Code, str]] = {
    ModelRetry: (Code.UPSTREAM_ERROR, "asked for another try"),
    ToolRetryError: (Code.UPSTREAM_ERROR, "asked for another try"),
    ToolFailed: (Code.UPSTREAM_ERROR, "said that it failed"),
    ToolFailedError: (Code.UPSTREAM_ERROR, "said that it failed"),
    ApprovalRequired: (Code.APPROVAL_REQUIRED, "wants an approval by the program"),
    CallDeferred: (Code.OUTCOME_UNKNOWN, "is done elsewhere, and how that ends is not known here"),
    AgentRunError: (Code.UPSTREAM_ERROR, "ended the agent's run"),
    UserError: (Code.UPSTREAM_ERROR, "ended the agent's run"),
    FallbackExceptionGroup: (Code.UPSTREAM_ERROR, "ended the agent's run"),
}
SIGNALS = tuple(_TOLD)


def recorded(tool: str, signal: Exception, shown: Shown) -> Problem:
    """What is on record of a signal; that one of the agent's tools failed opens no breaker for the others."""
    code, words = next(told for kind, told in _TOLD.items() if isinstance(signal, kind))
    problem = Problem(code, f"{tool} {words}: {type(signal).__name__}.", host=tool)
    problem.answer = Answer(None, refs=tuple(shown.refs)) if shown.refs else None
    return problem


def hidden(signal: Exception, shown: Shown) -> Exception:
    """A signal whose words to the model have their secrets hidden, and are no more than a model is shown."""
    if isinstance(signal, (ModelRetry, ToolFailed)):
        told = shown.value(signal.message)
        if isinstance(told, list) and isinstance(signal, ModelRetry):
            told = shown.text(to_json(told, fallback=repr).decode())  # Pydantic AI takes a list for errors of a check
        if told is not signal.message:
            signal.message, signal.args = told, (told,)
    elif isinstance(signal, ToolRetryError):
        return ToolRetryError(replace(signal.tool_retry, content=shown.value(signal.tool_retry.content)))
    elif isinstance(signal, ToolFailedError):
        return ToolFailedError(replace(signal.tool_failed, content=shown.value(signal.tool_failed.content)))
    return signal


class Result:
    """What a tool returned: JSON values for the gate, and aside what is none."""

    __slots__ = ("_content", "_files", "_returned", "_shown", "_value")

    def __init__(self, returned: Any, shown: Shown) -> None:
        theirs = self._returned = returned if isinstance(returned, ToolReturn) else None
        plain, self._shown = Plain(shown.redactor), shown
        self._value = plain.value(returned if theirs is None else theirs.return_value)
        self._files = [(path, shown.file(item)) for path, item in plain.files]
        self._content = None if theirs is None else shown.content(theirs.content)

    def answer(self, tool: str) -> Answer[dict[str, Any]]:
        """What the gate is told; a text is shown as it is, line by line."""
        text = self._value if isinstance(self._value, str) else None
        return Answer({"result": self._value}, f"{tool} answered", text, refs=tuple(self._shown.refs))

    def given(self, told: ToolReturn[Any], data: Mapping[str, Any] | None) -> ToolReturn[Any]:
        """What the agent gets: the values that the gate let through with their files, or what it shows of too many."""
        value, aside = told.return_value, [item for _, item in self._files]
        if data is not None:
            whole, left = with_files(data["result"], self._files)
            if self._shown.fits(whole):
                value, aside = whole, left
        theirs, content = self._returned, self._content
        if aside and (content is None or isinstance(content, Sequence)):
            content = [*aside, *([content] if isinstance(content, str) else content or ())]
        if theirs is None:
            return replace(told, return_value=value, content=content)
        return replace(theirs, return_value=value, content=content, metadata=_joined(theirs.metadata, told.metadata))


def _joined(theirs: Any, ours: Any) -> Any:
    """Metadata for the program: ours where the tool gave none; else the tool's, with the outcome under our name."""
    if theirs is None:
        return ours
    return {**theirs, "handrail": ours} if isinstance(theirs, Mapping) else theirs
