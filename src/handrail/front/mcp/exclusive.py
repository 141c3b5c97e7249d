"""A client whose own tools are turned off: what stays ungoverned beside our server, and the lines that end it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail import json_edit
from handrail.errors import SettingsFault
from handrail.front.mcp import install_files, install_toml, install_yaml
from handrail.front.mcp.install import Client, Plan

Values = Sequence[tuple[tuple[str, ...], Any]]
_OURS = "mcp__handrail__*"
_CLAUDE_TOOLS = (
    *("Bash", "PowerShell", "Monitor", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS"),
    *("WebFetch", "WebSearch", "Agent", "Task", "CronCreate", "EnterWorktree"),
)
_FEATURES = ("shell_tool", "view_image", "multi_agent")


@dataclass(frozen=True, slots=True)
class Exclusive:
    """What is said of one client, and what turns its own tools off."""

    stays: str  # what goes on without asking Handrail
    lines: str = ""  # how a person turns it off; empty: there is nothing to turn off
    hook: str = ""  # the agent of `handrail hook` that governs those tools instead
    values: Values = ()  # that `--exclusive` writes into the settings that hold the entry
    lists: Values = ()  # likewise lists that are added to
    project: str = ""  # where they are written, if that is another file; below the project
    rest: str = ""  # what is left even then
    refused: str = ""  # why no file turns the tools off


CLAUDE = {"permissions": {"deny": list(_CLAUDE_TOOLS), "allow": [_OURS]}}
ZED = {"name": "Handrail", "tools": {}, "enable_all_context_servers": True, "context_servers": {}}
EXCLUSIVE: Mapping[str, Exclusive] = {
    "claude-code": Exclusive(
        "Claude Code's own tools (Bash, Read, Write, Edit, WebFetch …)",
        f"in .claude/settings.json:\n{json.dumps(CLAUDE)}\n"
        f'or for one session: claude --tools "" --strict-mcp-config --mcp-config .mcp.json --allowedTools "{_OURS}"',
        "claude-code",
        lists=((("permissions", "deny"), _CLAUDE_TOOLS), (("permissions", "allow"), (_OURS,))),
        project=".claude/settings.json",
    ),
    "claude-desktop": Exclusive("other MCP servers and extensions that are connected there"),
    "codex": Exclusive(
        "Codex's own tools (commands, apply_patch, view_image, web search)",
        "codex --disable shell_tool --disable view_image --disable multi_agent -c web_search=\"disabled\" "
        "-c sandbox_mode=\"read-only\"   (apply_patch has no switch; a read-only sandbox refuses it)",
        "codex",
        rest="apply_patch has no switch: the read-only sandbox refuses what it would write.",
        values=(
            *((("features", name), False) for name in _FEATURES),
            (("web_search",), "disabled"),
            (("sandbox_mode",), "read-only"),
            (("mcp_servers", "handrail", "default_tools_approval_mode"), "approve"),
        ),
    ),
    "cursor": Exclusive(
        "Cursor's own tools (terminal, edits, search)",
        refused="no settings file of Cursor turns its own tools off: untick them in a custom mode",
    ),
    "gemini-cli": Exclusive(
        "Gemini CLI's own tools (run_shell_command, write_file, replace, web_fetch …)",
        'in its settings.json: "tools": {"core": []}, "mcp": {"allowed": ["handrail"]}, '
        '"mcpServers": {"handrail": {"trust": true}}',
        "gemini-cli",
        values=(
            (("tools", "core"), []),
            (("mcp", "allowed"), ["handrail"]),
            (("mcpServers", "handrail", "trust"), True),
        ),
    ),
    "goose": Exclusive(
        "Goose's own extensions (developer: shell and edits)",
        "in config.yaml: extensions.developer.enabled: false (or `goose configure`, Toggle Extensions)",
        values=((("extensions", "developer", "enabled"), False),),
    ),
    "opencode": Exclusive(
        "opencode's own tools (bash, edit, write, webfetch …)",
        'in opencode.json: "permission": {"*": "deny", "handrail_*": "allow"}',
        values=((("permission",), {"*": "deny", "handrail_*": "allow"}),),
    ),
    "vscode": Exclusive(
        "VS Code's own tools (terminal, edits, fetch)",
        refused="no settings file of VS Code turns its own tools off: untick them under Configure Tools, or use a "
        "custom agent whose `tools` are ['handrail/*']",
    ),
    "windsurf": Exclusive(
        "Windsurf's own tools (terminal, edits, web)",
        refused="no settings file of Windsurf turns its own tools off: set terminal execution to Off in its settings",
    ),
    "zed": Exclusive(
        "Zed's own tools (terminal, edit_file, fetch …)",
        f'in settings.json: "agent": {{"profiles": {{"handrail": {json.dumps(ZED)}}}, "default_profile": "handrail"}}',
        values=((("agent", "profiles", "handrail"), ZED), (("agent", "default_profile"), "handrail")),
    ),
    "mcp-json": Exclusive("the client's own tools"),
}  # fmt: skip


def plan_exclusive(client: Client, workspace: Path, entry: Plan) -> list[Plan]:
    """Plan the files that turn a client's own tools off; SettingsFault where no file does."""
    about = EXCLUSIVE[client.name]
    if about.refused or not (about.values or about.lists):
        raise SettingsFault(f"--exclusive: {about.refused or f'{client.about} has no tools of its own to turn off'}")
    if not about.project:
        return [Plan(entry.path, entry.before, _changed(client, entry.path, entry.after, about))]
    path = install_files.within(workspace, about.project)
    before = install_files.text_of(path)
    return [entry, Plan(path, before, _changed(client, path, before or "", about))]


def _changed(client: Client, path: Path, text: str, about: Exclusive) -> str:
    if client.shape == "toml":
        return install_toml.put_all(path, text, about.values)
    if client.shape == "yaml":
        return install_yaml.turned_off(path, text, "developer")
    try:
        wanted = json_edit.read(text) if text.strip() else {}
        for keys, value in (*about.values, *((keys, _added(wanted, keys, more)) for keys, more in about.lists)):
            text = json_edit.put(text, keys, value)
            _set(wanted, keys, value)
        fits = json_edit.read(text) == wanted
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        fits = False
    if not fits:
        raise SettingsFault(f"{path}: cannot be changed safely; add by hand: {about.lines}")
    return text


def _added(settings: Any, keys: Sequence[str], more: Sequence[str]) -> list[str]:
    for key in keys:
        settings = settings.get(key, {}) if isinstance(settings, dict) else {}
    there = settings if isinstance(settings, list) else []
    return [*there, *(item for item in more if item not in there)]


def _set(into: Any, keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        into = into.setdefault(key, {})
    into[keys[-1]] = value


def tell(client: Client, *, exclusive: bool) -> str:
    """Say what stays ungoverned, how it is turned off, and which hook governs it instead."""
    about = EXCLUSIVE[client.name]
    if exclusive:
        return f"Turned off: {about.stays}.{f' {about.rest}' if about.rest else ''}\n"
    told = f"Not governed: {about.stays}.\n"
    if about.refused:
        told += f"To turn them off: {about.refused}.\n"
    elif about.lines:
        told += f"To turn them off (--exclusive writes it): {about.lines}\n"
    if about.hook:
        told += f"Or have them ask Handrail: `handrail hook install {about.hook}`.\n"
    return told
