"""What kernel and tools need from outside, as protocols: one file a subject, loaded when first named.

No implementation belongs here. Most calls need few of them, and making a class takes time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handrail.ports.approvals import (
        Answered as Answered,
    )
    from handrail.ports.approvals import (
        Approver as Approver,
    )
    from handrail.ports.approvals import (
        Ledger as Ledger,
    )
    from handrail.ports.approvals import (
        Parking as Parking,
    )
    from handrail.ports.approvals import (
        Recorded as Recorded,
    )
    from handrail.ports.approvals import (
        Reply as Reply,
    )
    from handrail.ports.approvals import (
        Request as Request,
    )
    from handrail.ports.approvals import (
        SharedLedger as SharedLedger,
    )
    from handrail.ports.files import (
        BoundWorkspace as BoundWorkspace,
    )
    from handrail.ports.files import (
        Content as Content,
    )
    from handrail.ports.files import (
        Entry as Entry,
    )
    from handrail.ports.files import (
        Files as Files,
    )
    from handrail.ports.files import (
        Listing as Listing,
    )
    from handrail.ports.files import (
        Reach as Reach,
    )
    from handrail.ports.files import (
        Review as Review,
    )
    from handrail.ports.files import (
        Sink as Sink,
    )
    from handrail.ports.files import (
        Stat as Stat,
    )
    from handrail.ports.files import (
        Stream as Stream,
    )
    from handrail.ports.files import (
        Work as Work,
    )
    from handrail.ports.files import (
        Workspace as Workspace,
    )
    from handrail.ports.journal import (
        Cancelled as Cancelled,
    )
    from handrail.ports.journal import (
        Journal as Journal,
    )
    from handrail.ports.journal import (
        Keys as Keys,
    )
    from handrail.ports.journal import (
        Progress as Progress,
    )
    from handrail.ports.journal import (
        Sleep as Sleep,
    )
    from handrail.ports.memory import (
        Memory as Memory,
    )
    from handrail.ports.memory import (
        MemoryProvider as MemoryProvider,
    )
    from handrail.ports.memory import (
        Note as Note,
    )
    from handrail.ports.memory import (
        NoteChange as NoteChange,
    )
    from handrail.ports.memory import (
        NoteKept as NoteKept,
    )
    from handrail.ports.network import (
        Beside as Beside,
    )
    from handrail.ports.network import (
        HttpRequest as HttpRequest,
    )
    from handrail.ports.network import (
        HttpResponse as HttpResponse,
    )
    from handrail.ports.network import (
        Net as Net,
    )
    from handrail.ports.processes import (
        Captured as Captured,
    )
    from handrail.ports.processes import (
        Finished as Finished,
    )
    from handrail.ports.processes import (
        JobOutput as JobOutput,
    )
    from handrail.ports.processes import (
        JobState as JobState,
    )
    from handrail.ports.processes import (
        Processes as Processes,
    )
    from handrail.ports.processes import (
        Program as Program,
    )
    from handrail.ports.quality import (
        Linter as Linter,
    )
    from handrail.ports.quality import (
        Linters as Linters,
    )
    from handrail.ports.quality import (
        LintLook as LintLook,
    )
    from handrail.ports.search import (
        Index as Index,
    )
    from handrail.ports.search import (
        IndexState as IndexState,
    )
    from handrail.ports.search import (
        Passage as Passage,
    )
    from handrail.ports.search import (
        Searcher as Searcher,
    )
    from handrail.ports.showing import (
        Archive as Archive,
    )
    from handrail.ports.showing import (
        Clock as Clock,
    )
    from handrail.ports.showing import (
        Limits as Limits,
    )
    from handrail.ports.showing import (
        Places as Places,
    )
    from handrail.ports.showing import (
        Roots as Roots,
    )
    from handrail.ports.showing import (
        Screen as Screen,
    )
    from handrail.ports.showing import (
        Secrets as Secrets,
    )
    from handrail.ports.showing import (
        Spill as Spill,
    )
    from handrail.ports.showing import (
        Spool as Spool,
    )
    from handrail.ports.skills import (
        ActiveSkill as ActiveSkill,
    )
    from handrail.ports.skills import (
        NoSkills as NoSkills,
    )
    from handrail.ports.skills import (
        Skill as Skill,
    )
    from handrail.ports.skills import (
        SkillFile as SkillFile,
    )
    from handrail.ports.skills import (
        Skills as Skills,
    )
    from handrail.ports.skills import (
        SkillsInForce as SkillsInForce,
    )

_WHERE = {
    "files": "Stat Entry Listing Content Stream Sink Workspace Files BoundWorkspace Reach Review Work",
    "search": "Searcher Passage IndexState Index",
    "processes": "Program Captured Finished JobState JobOutput Processes",
    "network": "Beside HttpRequest HttpResponse Net",
    "skills": "SkillFile Skill Skills ActiveSkill SkillsInForce NoSkills",
    "memory": "Note NoteChange NoteKept MemoryProvider Memory",
    "quality": "Linter LintLook Linters",
    "showing": "Secrets Screen Clock Places Limits Roots Archive Draft Spool Spill",
    "approvals": "Request Reply Recorded Answered Approver Ledger Parking SharedLedger",
    "journal": "Journal Keys Cancelled Progress Sleep",
}
_MODULES = {name: module for module, names in _WHERE.items() for name in names.split()}

# What a tool may ask for: a parameter of one of these types is handed in by the kernel.
INJECTED = frozenset(
    {
        *("Workspace", "Searcher", "Index", "Processes", "Net", "Skills", "Memory", "Linters"),
        *("Secrets", "Screen", "Clock", "Places", "Limits", "Roots", "Spill", "Archive"),
    }
)


def is_port(hint: object) -> bool:
    """Whether a type is one that the kernel hands in."""
    return isinstance(hint, type) and hint.__name__ in INJECTED and hint.__module__.startswith(f"{__name__}.")


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
