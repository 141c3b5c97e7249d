"""The closed list of problem codes, and the faults that are never shown to a model.

Exception
├── Problem    something a model may be told: a code, what happened, how to mend it
└── Fault      something only the operator may be told
    ├── Misuse          the API was used wrongly
    ├── SettingsFault   a settings file or rule cannot be taken, with file and line
    └── RunFault        a run cannot be opened (busy, tampered, unreadable)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from handrail.words import Answer


class CodeFacts(NamedTuple):
    """What every use of a code has in common."""

    error_class: str  # validation | policy | tool_exec | timeout | unknown
    when: str
    retryable: bool = False


class Code(StrEnum):
    """Every code an outcome can carry."""

    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    INVALID_ARGS = "INVALID_ARGS"
    INVALID_RESULT = "INVALID_RESULT"
    POLICY_DENIED = "POLICY_DENIED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    APPROVAL_DENIED = "APPROVAL_DENIED"
    PATH_OUTSIDE_ROOTS = "PATH_OUTSIDE_ROOTS"
    PATH_PROTECTED = "PATH_PROTECTED"
    HOST_NOT_ALLOWED = "HOST_NOT_ALLOWED"
    COMMAND_NOT_ALLOWED = "COMMAND_NOT_ALLOWED"
    SANDBOX_UNAVAILABLE = "SANDBOX_UNAVAILABLE"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    RATE_LIMITED = "RATE_LIMITED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"
    RUN_BUSY = "RUN_BUSY"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    NOT_FOUND = "NOT_FOUND"
    NOT_A_FILE = "NOT_A_FILE"
    NOT_A_DIRECTORY = "NOT_A_DIRECTORY"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    FILE_TOO_LARGE = "FILE_TOO_LARGE"
    NOT_TEXT = "NOT_TEXT"
    BAD_ENCODING = "BAD_ENCODING"
    NO_MATCH = "NO_MATCH"
    AMBIGUOUS_MATCH = "AMBIGUOUS_MATCH"
    ALREADY_APPLIED = "ALREADY_APPLIED"
    STALE_FILE = "STALE_FILE"
    TIMEOUT = "TIMEOUT"
    EXIT_NONZERO = "EXIT_NONZERO"
    HTTP_TOO_LARGE = "HTTP_TOO_LARGE"
    UPSTREAM_ERROR = "UPSTREAM_ERROR"
    IO_ERROR = "IO_ERROR"
    CANCELLED = "CANCELLED"
    INTERNAL = "INTERNAL"


FACTS: dict[Code, CodeFacts] = {
    Code.UNKNOWN_TOOL: CodeFacts("validation", "no such tool in this catalog or dialect; the nearest names are given"),
    Code.UNSUPPORTED_VERSION: CodeFacts("validation", "the call names a version that is neither spoken nor adapted"),
    Code.INVALID_ARGS: CodeFacts(
        "validation",
        "a missing, extra or wrongly typed argument; also a pattern, expression, template, time zone or URL "
        "that cannot be read, with the place",
    ),
    Code.INVALID_RESULT: CodeFacts("tool_exec", "the tool's result does not fit its schema"),
    Code.POLICY_DENIED: CodeFacts("policy", "a rule, a default or a missing enablement denies"),
    Code.APPROVAL_REQUIRED: CodeFacts(
        "policy", "a person must approve and none can be asked here; the replayable request is in `details`", True
    ),
    Code.APPROVAL_DENIED: CodeFacts("policy", "a person said no, or the approval expired or does not fit this call"),
    Code.PATH_OUTSIDE_ROOTS: CodeFacts("policy", "outside the allowed roots, also by link, `..` or race"),
    Code.PATH_PROTECTED: CodeFacts("policy", "credentials, keys, Handrail's own files; changing repository hooks"),
    Code.HOST_NOT_ALLOWED: CodeFacts("policy", "the host, port or resolved address is not allowed"),
    Code.COMMAND_NOT_ALLOWED: CodeFacts("policy", "a command in the line is denied or cannot be understood"),
    Code.SANDBOX_UNAVAILABLE: CodeFacts("policy", "the confinement asked for cannot be given here"),
    Code.BUDGET_EXHAUSTED: CodeFacts("policy", "a budget of the run is used up; `details` names it"),
    Code.RATE_LIMITED: CodeFacts("policy", "too many calls in a short time; `details` says when to try again", True),
    Code.CIRCUIT_OPEN: CodeFacts(
        "policy", "the tool failed too often in a row; `details` says when to try again", True
    ),
    Code.JOURNAL_UNAVAILABLE: CodeFacts("unknown", "nothing was run: the journal cannot be written", True),
    Code.RUN_BUSY: CodeFacts("unknown", "nothing was run: another process owns the run", True),
    Code.OUTCOME_UNKNOWN: CodeFacts("unknown", "the call was started before, and how it ended was not kept"),
    Code.NOT_FOUND: CodeFacts("tool_exec", "nothing is there; near names are given"),
    Code.NOT_A_FILE: CodeFacts("tool_exec", "a folder, device or pipe stands where a file is needed"),
    Code.NOT_A_DIRECTORY: CodeFacts("tool_exec", "something else stands where a folder is needed"),
    Code.ALREADY_EXISTS: CodeFacts("tool_exec", "something is there already"),
    Code.FILE_TOO_LARGE: CodeFacts("tool_exec", "the file is over the limit the call or the settings give"),
    Code.NOT_TEXT: CodeFacts("tool_exec", "the file is binary; size, type and first bytes are given"),
    Code.BAD_ENCODING: CodeFacts("tool_exec", "the bytes do not fit the encoding; the place is given"),
    Code.NO_MATCH: CodeFacts("tool_exec", "the text to change is not in the file; the nearest place is shown"),
    Code.AMBIGUOUS_MATCH: CodeFacts("tool_exec", "the text to change is there more than once; the lines are given"),
    Code.ALREADY_APPLIED: CodeFacts("tool_exec", "the new text is there already"),
    Code.STALE_FILE: CodeFacts("tool_exec", "the file changed since it was read, or was never read whole"),
    Code.TIMEOUT: CodeFacts("timeout", "the call's deadline passed; what it started is gone", True),
    Code.EXIT_NONZERO: CodeFacts("tool_exec", "a process ended with another code than 0"),
    Code.HTTP_TOO_LARGE: CodeFacts("tool_exec", "the response is over the limit"),
    Code.UPSTREAM_ERROR: CodeFacts("tool_exec", "the other side failed", True),
    Code.IO_ERROR: CodeFacts("tool_exec", "the disk or the system failed, with errno", True),
    Code.CANCELLED: CodeFacts("unknown", "the caller gave up"),
    Code.INTERNAL: CodeFacts("unknown", "a bug of the runtime or of a tool: an id to look up in the log"),
}


class Problem(Exception):
    """Something a model may be told: what happened and how to mend it."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        next_call: Mapping[str, Any] | None = None,
        details: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: dict[str, Any] = {**(details or {}), **more}
        self.next_call = next_call
        self.answer: Answer[Any] | None = None  # what a tool has to show all the same: output, refs, commands


class Fault(Exception):
    """Something only the operator may be told."""


class Misuse(Fault):
    """The API was used wrongly: a mistake in the calling program."""


class SettingsFault(Fault):
    """A settings file or rule cannot be taken; the text names file, line and fix."""


class RunFault(Fault):
    """A run cannot be opened; `code` says why in the contract's words."""

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.details = details
