"""Handrail: the gate between an AI agent and the machine it works on.

Everything a user needs comes from here; each name is imported when first used, so that `import handrail` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.catalog import (
        Deletes,
        DeletesBelow,
        Edits,
        Reaches,
        Reads,
        ReadsBelow,
        ReadsItself,
        Runs,
        Tool,
        Writes,
        at,
        tool,
    )
    from handrail.errors import Code, Fault, Misuse, Problem, RunFault, SettingsFault
    from handrail.ports import (
        Approver,
        Clock,
        HttpRequest,
        Index,
        Limits,
        Linters,
        Memory,
        Net,
        Places,
        Processes,
        Reply,
        Request,
        Screen,
        Searcher,
        Secrets,
        Skills,
        Spill,
        Workspace,
    )
    from handrail.runtime import Explanation, Runtime
    from handrail.settings import preset
    from handrail.tools.util._mustache import register_lambda
    from handrail.words import (
        Answer,
        Call,
        Decision,
        Evidence,
        Finding,
        Grant,
        How,
        Outcome,
        Place,
        Risk,
        Scope,
        Status,
        Touch,
        TouchKind,
        Verdict,
    )

__version__ = "0.1.0"

_HOMES = {
    "errors": ("Code", "Fault", "Misuse", "Problem", "RunFault", "SettingsFault"),
    "ports": (
        "Approver",
        "Clock",
        "HttpRequest",
        "Index",
        "Limits",
        "Linters",
        "Memory",
        "Net",
        "Places",
        "Processes",
        "Reply",
        "Request",
        "Screen",
        "Searcher",
        "Secrets",
        "Skills",
        "Spill",
        "Workspace",
    ),
    "runtime": ("Explanation", "Runtime"),
    "settings": ("preset",),
    "tools.util._mustache": ("register_lambda",),
    "catalog": (
        "Deletes",
        "DeletesBelow",
        "Edits",
        "Reaches",
        "Reads",
        "ReadsBelow",
        "ReadsItself",
        "Runs",
        "Tool",
        "Writes",
        "at",
        "tool",
    ),
    "words": (
        "Answer",
        "Call",
        "Decision",
        "Evidence",
        "Finding",
        "Grant",
        "How",
        "Outcome",
        "Place",
        "Risk",
        "Scope",
        "Status",
        "Touch",
        "TouchKind",
        "Verdict",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "Approver",
    "Call",
    "Clock",
    "Code",
    "Decision",
    "Deletes",
    "DeletesBelow",
    "Edits",
    "Evidence",
    "Explanation",
    "Fault",
    "Finding",
    "Grant",
    "How",
    "HttpRequest",
    "Index",
    "Limits",
    "Linters",
    "Memory",
    "Misuse",
    "Net",
    "Outcome",
    "Place",
    "Places",
    "Problem",
    "Processes",
    "Reaches",
    "Reads",
    "ReadsBelow",
    "ReadsItself",
    "Reply",
    "Request",
    "Risk",
    "RunFault",
    "Runs",
    "Runtime",
    "Scope",
    "Screen",
    "Searcher",
    "Secrets",
    "SettingsFault",
    "Skills",
    "Spill",
    "Status",
    "Tool",
    "Touch",
    "TouchKind",
    "Verdict",
    "Workspace",
    "Writes",
    "__version__",
    "at",
    "preset",
    "register_lambda",
    "tool",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'handrail' has no attribute {name!r}")
    value = getattr(import_module(f"handrail.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
