"""Claude Code: its own tools, which it runs itself once they are judged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from handrail.dialects._agent import AgentTool, Meant, Where, command, dialect, edit, find, read, search, uses, write
from handrail.dialects._dialect import Args
from handrail.errors import Code, Problem
from handrail.words import Touch, TouchKind

_LINE = {
    "command": "string",
    "description": "string?",
    "timeout": "number?",
    "run_in_background": "boolean?",
    "dangerouslyDisableSandbox": "boolean?",
}


def _bash(given: Args, where: Where) -> Meant:
    return command(given["command"], where, background=bool(given.get("run_in_background")), further=_open(given))


def _open(given: Args) -> tuple[Touch, ...]:
    """Turning the agent's own sandbox off asks."""
    if not given.get("dangerouslyDisableSandbox"):
        return ()
    return (Touch(TouchKind.TOOL_USE, "Bash(dangerouslyDisableSandbox)", unsafe=True),)


def _powershell(given: Args, where: Where) -> Meant:
    line = shlex.join(["pwsh", "-NoProfile", "-Command", given["command"]])
    return command(line, where, background=bool(given.get("run_in_background")), further=_open(given))


def _monitor(given: Args, where: Where) -> Meant:
    if "command" not in given or set(given) & {"ws", "url"}:
        return uses("Monitor", given)
    return command(given["command"], where, background=True)


def _edits(given: Args, where: Where) -> Meant:
    found = [_edit_of(item) for item in given["edits"]]
    if not found:
        raise Problem(Code.INVALID_ARGS, "MultiEdit needs at least one edit in `edits`.", field="edits")
    return edit(given["file_path"], found, where)


def _edit_of(item: Any) -> tuple[str, str, bool]:
    texts = (item.get("old_string"), item.get("new_string")) if isinstance(item, Mapping) else (None, None)
    if not isinstance(texts[0], str) or not isinstance(texts[1], str):
        raise Problem(
            Code.INVALID_ARGS, "Each of `edits` needs the texts `old_string` and `new_string`.", field="edits"
        )
    return texts[0], texts[1], bool(item.get("replace_all"))


def _notebook(given: Args, where: Where) -> Meant:
    cell = given.get("cell_id") or given.get("edit_mode") or "cell"
    return edit(given["notebook_path"], [(str(cell), given.get("new_source") or "", False)], where)


_GREP = {
    "pattern": "string",
    "path": "string?",
    "glob": "string?",
    "type": "string?",
    "output_mode": "string?",
    **dict.fromkeys(("-i", "-n", "-o", "multiline"), "boolean?"),
    **dict.fromkeys(("-A", "-B", "-C", "context", "head_limit", "offset"), "number?"),
}
TOOLS = {
    "Bash": AgentTool(_LINE, _bash, "Run a shell line.", "run_command"),
    "PowerShell": AgentTool(_LINE, _powershell, "Run a line of PowerShell.", "run_command"),
    "Monitor": AgentTool(
        {"command": "string?", "ws": "any?", "url": "string?", "description": "string?", "timeout": "number?",
         "timeout_ms": "number?", "persistent": "boolean?"},
        _monitor, "Follow the output of a command.", "run_command",
    ),
    "Read": AgentTool(
        {"file_path": "string", "offset": "number?", "limit": "number?", "pages": "string?"},
        lambda given, where: read(given["file_path"], where), "Read a file.", "read_file",
    ),
    "Write": AgentTool(
        {"file_path": "string", "content": "string"},
        lambda given, where: write(given["file_path"], given["content"], where), "Write a file whole.", "write_file",
    ),
    "Edit": AgentTool(
        {"file_path": "string", "old_string": "string", "new_string": "string", "replace_all": "boolean?"},
        lambda given, where: edit(given["file_path"], [_edit_of(given)], where), "Replace text in a file.", "edit_file",
    ),
    "MultiEdit": AgentTool({"file_path": "string", "edits": "array"}, _edits, "Replace several texts.", "edit_file"),
    "NotebookEdit": AgentTool(
        {"notebook_path": "string", "new_source": "string?", "cell_id": "string?", "cell_number": "number?",
         "cell_type": "string?", "edit_mode": "string?"},
        _notebook, "Change a cell of a notebook.", "edit_file",
    ),
    "Glob": AgentTool(
        {"pattern": "string", "path": "string?"},
        lambda given, where: find(given["pattern"], given.get("path"), where), "Find files by name.", "find_files",
    ),
    "Grep": AgentTool(
        _GREP,
        lambda given, where: search(given["pattern"], given.get("path"), [given.get("glob") or ""], where),
        "Search in files.", "grep",
    ),
    "LS": AgentTool(
        {"path": "string", "ignore": "array?"},
        lambda given, where: Meant("list_dir", {"path": where.path(given["path"])}), "List a folder.", "list_dir",
    ),
    "WebFetch": AgentTool(
        {"url": "string", "prompt": "string?"},
        lambda given, _: Meant("http_fetch", {"url": given["url"]}), "Fetch a page.", "http_fetch",
    ),
}  # fmt: skip
# They plan, ask the person, or work through tools that are judged themselves. A search is made by the model's provider.
HARMLESS = (
    *("TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "Agent", "Task"),
    *("AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "WebSearch", "ToolSearch", "Skill"),
    *("BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop", "StructuredOutput"),
)
DIALECT = dialect("claude-code", "Claude Code, through its hooks", TOOLS, HARMLESS, {})
