"""Fakes of what a tool or a runtime is given, for the tests of people who build on Handrail.

A runtime takes the clock, the screen and the approver when it is opened. The other ports are put in with `lend`:
`lend(runtime.kernel, Net=ScriptedNet({...}))`, and the tool is then called through the real gate.
"""

from __future__ import annotations

from handrail.testing.knowledge import ListedIndex, MemoryNotes, MemorySkills
from handrail.testing.lending import lend
from handrail.testing.network import ScriptedNet
from handrail.testing.programs import ScriptedLinters, ScriptedProcesses
from handrail.testing.run import FixedClock, MemoryJournal, RecordingScreen, ScriptedApprover

__all__ = [
    "FixedClock",
    "ListedIndex",
    "MemoryJournal",
    "MemoryNotes",
    "MemorySkills",
    "RecordingScreen",
    "ScriptedApprover",
    "ScriptedLinters",
    "ScriptedNet",
    "ScriptedProcesses",
    "lend",
]
