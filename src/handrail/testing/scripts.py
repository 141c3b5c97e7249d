"""Answers from a list, for fakes that follow a script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handrail.errors import Problem
from handrail.ports import Captured, Finished


class Script:
    """Answers from a list: values, problems to raise, or functions of what is asked. The last answers on."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = list(answers)

    def next(self, asked: Any) -> Any:
        """Give the next answer."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return given_of(answer, asked)


def given_of(answer: Any, asked: Any) -> Any:
    given = answer(asked) if callable(answer) else answer
    if isinstance(given, Problem):
        raise given
    return given


def finished_of(given: str | int | Finished) -> Finished:
    """A program's end from what it printed, from its exit code, or as it is."""
    if isinstance(given, Finished):
        return given
    text, code = (given, 0) if isinstance(given, str) else ("", given)
    shown = Captured(text, len(text.encode()), len(text.splitlines()))
    return Finished(code, None, timed_out=False, stdout=shown, stderr=Captured(), seconds=0.0, confined="fake")
