"""Gemini CLI: its own tools, which it runs itself once they are judged."""

from __future__ import annotations

import re
from dataclasses import replace

from handrail.dialects._agent import AgentTool, Meant, Where, command, dialect, edit, find, read, search, uses, write
from handrail.dialects._dialect import Args
from handrail.errors import Code, Problem
from handrail.urls import reached
from handrail.words import Touch, TouchKind

_URL = re.compile(r"\bhttps?://[^\s<>\"'`)\]}]+", re.IGNORECASE)


def _folder(given: Args) -> str | None:
    """Give the folder of a call, by the name that it has in one version or another."""
    return next((given[name] for name in ("dir_path", "directory", "path") if given.get(name)), None)


def _shell(given: Args, where: Where) -> Meant:
    there = replace(where, cwd=where.folder(_folder(given)))
    return command(given["command"], there, background=bool(given.get("is_background")))


def _file(given: Args) -> str:
    named = given.get("file_path") or given.get("absolute_path")
    if not named:
        raise Problem(Code.INVALID_ARGS, "The call names no file: `file_path` is missing.", field="file_path")
    return str(named)


def _many(given: Args, where: Where) -> Meant:
    wanted = [item for name in ("include", "paths") for item in given.get(name) or ()]
    if not wanted or not all(isinstance(item, str) for item in wanted):
        raise Problem(Code.INVALID_ARGS, "`include` must be a list of paths or patterns.", field="include")
    named = tuple(touch for item in wanted for touch in find(item, None, where).further)
    return replace(find("*", None, where), further=named)


def _fetch(given: Args, _: Where) -> Meant:
    """A page is named in the prompt; without one nobody knows what is fetched."""
    urls = [found[0].rstrip(".,;:!?") for found in _URL.finditer(given["prompt"])]
    if not urls:
        return uses("web_fetch", given)
    further = tuple(Touch(TouchKind.NET_CONNECT, reached(url)) for url in urls[1:])
    return Meant("http_fetch", {"url": urls[0]}, further)


_DIR = {"dir_path": "string?", "path": "string?"}
_FLAGS = ("case_sensitive", "respect_git_ignore", "no_ignore", "names_only", "fixed_strings")
_SEARCH = {
    "pattern": "string",
    **_DIR,
    **dict.fromkeys(("include_pattern", "include", "exclude_pattern"), "string?"),
    **dict.fromkeys(_FLAGS, "boolean?"),
    **dict.fromkeys(("max_matches_per_file", "total_max_matches", "context", "before", "after"), "number?"),
}
TOOLS = {
    "run_shell_command": AgentTool(
        {"command": "string", "description": "string?", "directory": "string?", "is_background": "boolean?", **_DIR},
        _shell, "Run a shell line.", "run_command",
    ),
    "read_file": AgentTool(
        {"file_path": "string?", "absolute_path": "string?",
         **dict.fromkeys(("start_line", "end_line", "offset", "limit"), "number?")},
        lambda given, where: read(_file(given), where), "Read a file.", "read_file",
    ),
    "read_many_files": AgentTool(
        {"include": "array?", "paths": "array?", "exclude": "array?", "recursive": "boolean?",
         "useDefaultExcludes": "boolean?", "file_filtering_options": "object?"},
        _many, "Read several files.", "find_files",
    ),
    "write_file": AgentTool(
        {"file_path": "string?", "absolute_path": "string?", "content": "string", "modified_by_user": "boolean?",
         "ai_proposed_content": "string?"},
        lambda given, where: write(_file(given), given["content"], where), "Write a file whole.", "write_file",
    ),
    "replace": AgentTool(
        {"file_path": "string", "instruction": "string?", "old_string": "string", "new_string": "string",
         "allow_multiple": "boolean?", "expected_replacements": "number?", "modified_by_user": "boolean?",
         "ai_proposed_content": "string?"},
        lambda given, where: edit(
            given["file_path"],
            [(given["old_string"], given["new_string"], bool(given.get("allow_multiple")))],
            where,
        ),
        "Replace text in a file.", "edit_file",
    ),
    "list_directory": AgentTool(
        {**_DIR, "ignore": "array?", "file_filtering_options": "object?"},
        lambda given, where: Meant("list_dir", {"path": where.folder(_folder(given))}), "List a folder.", "list_dir",
    ),
    "glob": AgentTool(
        {"pattern": "string", **_DIR, "case_sensitive": "boolean?", "respect_git_ignore": "boolean?",
         "respect_gemini_ignore": "boolean?"},
        lambda given, where: find(given["pattern"], _folder(given), where), "Find files by name.", "find_files",
    ),
    "grep_search": AgentTool(
        _SEARCH,
        lambda given, where: search(
            given["pattern"], _folder(given), [given.get("include_pattern") or given.get("include") or ""], where
        ),
        "Search in files.", "grep",
    ),
    "web_fetch": AgentTool({"prompt": "string"}, _fetch, "Fetch a page named in a prompt.", "http_fetch"),
}  # fmt: skip
# They plan, ask the person, or start agents whose tools are judged themselves. The provider makes a search.
HARMLESS = (
    *("google_web_search", "write_todos", "invoke_agent", "ask_user", "enter_plan_mode", "exit_plan_mode"),
    *("complete_task", "update_topic"),
)
DIALECT = dialect(
    "gemini-cli", "Gemini CLI, through its hooks", TOOLS, HARMLESS, {"search_file_content": "grep_search"}
)
