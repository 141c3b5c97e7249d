"""What tools are said to do: the hints that a client shows a person, or lets a call pass by."""

from __future__ import annotations

from handrail import tool
from handrail.catalog import Reaches, Writes
from handrail.front.mcp.results import hints
from handrail.tools import builtin

Hints = tuple[bool, bool, bool, bool]  # read-only, destructive, idempotent, open world

READS: Hints = (True, False, True, False)
ASKS_OUTSIDE: Hints = (True, False, True, True)
ADDS: Hints = (False, False, False, False)
ADDS_ONCE: Hints = (False, False, True, False)
DESTROYS: Hints = (False, True, False, False)
DESTROYS_OUTSIDE: Hints = (False, True, False, True)
HINTS = {
    "agent_own": (True, False, True, False),
    "agent_use": (False, False, False, False),
    "apply_patch": DESTROYS,
    "codebase_search": READS,
    "delete_path": DESTROYS,
    "display": READS,
    "edit_file": DESTROYS,
    "find_files": READS,
    "grep": READS,
    "hash_file": READS,
    "hash_text": READS,
    "http_download": DESTROYS_OUTSIDE,  # it may replace a file
    "http_fetch": DESTROYS_OUTSIDE,  # it may POST
    "http_head": ASKS_OUTSIDE,
    "http_json": DESTROYS_OUTSIDE,
    "job_input": DESTROYS_OUTSIDE,
    "job_list": READS,
    "job_read": READS,
    "job_stop": DESTROYS,  # it ends programs
    "json_select": READS,
    "list_dir": READS,
    "list_roots": READS,
    "list_skills": READS,
    "load_skill": ADDS,  # it becomes the active skill
    "make_dir": ADDS_ONCE,
    "move_path": DESTROYS,
    "now": READS,
    "read_file": READS,
    "read_lints": READS,
    "read_media": READS,
    "recall_memory": READS,
    "render_template": READS,
    "run_command": DESTROYS_OUTSIDE,
    "run_script": DESTROYS_OUTSIDE,
    "stat_path": READS,
    "truncate_text": READS,
    "undo_changes": DESTROYS,
    "update_memory": DESTROYS,  # it may delete or overwrite a note
    "write_file": DESTROYS,
    "write_memory": ADDS,
}


def test_the_hints_of_every_tool_tell_the_truth() -> None:
    """A tool that is added must be added here."""
    assert {name: tuple(hints(load()).values()) for name, load in builtin().items()} == HINTS


def test_a_tool_that_declares_nothing_may_do_anything() -> None:
    """The worst is told of it."""

    @tool()
    async def unknown() -> str:
        """Do something."""
        return ""

    assert tuple(hints(unknown).values()) == (False, True, False, True)


def test_a_tool_that_writes_cannot_say_that_it_reads() -> None:
    """Its touches weigh more than its word."""

    @tool(does="reads")
    async def sends(url: Reaches, path: Writes) -> str:
        """Do both."""
        return ""

    assert tuple(hints(sends).values()) == (False, True, False, True)


def test_a_tool_that_declares_nothing_cannot_say_that_it_reads() -> None:
    """Nobody was told what it touches."""

    @tool(does="reads")
    async def unknown() -> str:
        """Do something."""
        return ""

    assert tuple(hints(unknown).values()) == (False, True, False, True)
