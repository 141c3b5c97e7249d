"""The entry that connects a client, put into its settings file without losing anything that stands there."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from handrail.errors import SettingsFault
from handrail.front.mcp import install_files, install_json
from handrail.sandbox.executables import find_executable
from handrail.settings import paths
from handrail.strict_json import is_text

NAME = "handrail"
_NAMED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Client:
    """One client: where its settings lie, and in which shape."""

    name: str
    about: str
    project: str = ""  # relative to the project; empty: it has none
    user: str = ""  # relative to the user's home
    mac: str = ""  # the same on macOS, where it differs
    shape: str = "json"  # of its settings: json, jsonc (with comments), toml, or Goose's yaml
    key: str = "mcpServers"  # beneath which servers stand, in JSON
    variable: str = "${%s}"  # how a variable of the user is named there; empty: values stand there as they are


CLIENTS = {
    client.name: client
    for client in (
        Client("claude-code", "Claude Code, for everybody in this project", ".mcp.json"),
        Client(
            "claude-desktop",
            "Claude Desktop",
            user=".config/Claude/claude_desktop_config.json",
            mac="Library/Application Support/Claude/claude_desktop_config.json",
            variable="",
        ),
        Client("codex", "Codex", ".codex/config.toml", ".codex/config.toml", shape="toml"),
        Client("cursor", "Cursor", ".cursor/mcp.json", ".cursor/mcp.json", variable="${env:%s}"),
        Client("gemini-cli", "Gemini CLI", ".gemini/settings.json", ".gemini/settings.json"),
        Client("goose", "Goose", user=".config/goose/config.yaml", shape="yaml"),
        Client(
            "opencode",
            "opencode",
            "opencode.json",
            ".config/opencode/opencode.json",
            shape="jsonc",
            key="mcp",
            variable="{env:%s}",
        ),
        Client(
            "vscode",
            "VS Code",
            ".vscode/mcp.json",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            shape="jsonc",
            key="servers",
            variable="${env:%s}",
        ),
        Client("windsurf", "Windsurf", user=".codeium/windsurf/mcp_config.json", variable="${env:%s}"),
        Client(
            "zed",
            "Zed",
            ".zed/settings.json",
            ".config/zed/settings.json",
            shape="jsonc",
            key="context_servers",
            variable="",
        ),
        Client("mcp-json", "any client that reads .mcp.json", ".mcp.json"),
    )
}


@dataclass(frozen=True, slots=True)
class Entry:
    """How a client starts the server."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def for_json(self) -> dict[str, Any]:
        """The entry beneath `mcpServers`."""
        made: dict[str, Any] = {"command": self.command, "args": list(self.args)}
        return {**made, "env": dict(self.env)} if self.env else made

    def for_client(self, client: Client) -> dict[str, Any]:
        """The entry as a client reads it."""
        words = [self.command, *self.args]
        if client.name == "opencode":
            made: dict[str, Any] = {"type": "local", "command": words, "enabled": True}
            return {**made, "environment": dict(self.env)} if self.env else made
        if client.shape == "toml":
            made = {"command": self.command, "args": list(self.args)}
            return {**made, "env_vars": list(self.env)} if self.env else made
        first = {"vscode": {"type": "stdio"}, "zed": {"source": "custom"}}.get(client.name, {})
        return {**first, **self.for_json()}

    def for_goose(self) -> dict[str, Any]:
        """The entry beneath `extensions`."""
        about = {"name": NAME, "type": "stdio", "enabled": True, "cmd": self.command, "args": list(self.args)}
        return {**about, "timeout": 300, "env_keys": list(self.env)}


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be written."""

    path: Path
    before: str | None  # None: there is no file yet
    after: str

    @property
    def is_written(self) -> bool:
        """Whether the file says now what was planned."""
        return install_files.text_of(self.path) == self.after

    @property
    def diff(self) -> str:
        """What would change."""
        name = str(self.path)
        return "".join(_whole(line) for line in unified_diff(_lines(self.before or ""), _lines(self.after), name, name))


def entry_for(
    client: Client, workspace: Path, flags: Mapping[str, str], variables: Sequence[str], *, user: bool
) -> Entry:
    """Make the entry: a shared file names the program alone, a private one also where it and the project are.

    Where the program is not on the path, no file can do without its place. A settings file is named as it is found
    from where the client starts the server: in the project for a shared entry, anywhere for a private one.
    """
    if variables and not client.variable:
        raise SettingsFault(
            f"{client.about} takes variables as they are written and fills in none, so --env {variables[0]} would hand "
            f"over the name instead of the value; leave --env out, and put the value under `env` by hand"
        )
    if not all(map(_NAMED.fullmatch, variables)):
        raise SettingsFault("--env takes the name of a variable alone; its value is what the client's environment has")
    env = {name: client.variable % name for name in variables}
    shared = not user and bool(client.project)
    home = str(workspace.resolve())
    found = shutil.which(NAME)
    # A client never starts what a tool may have written, or what a relative part of PATH names.
    by_name = found is not None and os.path.isabs(found) and not os.path.realpath(found).startswith(f"{home}/")
    own = find_executable(NAME, [home]) or str(Path(sys.executable).with_name(NAME))
    program = found if by_name and found is not None else own
    if (config := flags.get("config")) is not None and not os.path.isabs(config):
        flags = {**flags, "config": os.path.relpath(config, workspace) if shared else os.path.abspath(config)}
    said = tuple(word for name, value in flags.items() for word in (f"--{name}", value))
    if shared:
        return Entry(NAME if by_name else program, ("mcp", *said), env)
    return Entry(program, ("mcp", "--workspace", str(workspace.resolve()), *said), env)


def place_of(client: Client, workspace: Path, *, user: bool) -> Path:
    """Where the client's settings really lie; SettingsFault where it has no such place.

    Links are followed: those of the user anywhere, those of a project, which may be a stranger's, only within it.
    """
    if user or not client.project:
        beneath = client.mac if client.mac and sys.platform == "darwin" else client.user
        if not beneath:
            raise SettingsFault(f"{client.name} has no settings of the user that could be written; leave out --user")
        return Path(os.path.realpath(paths.home_dir() / beneath))
    return install_files.within(workspace, client.project)


def planned(client: Client, path: Path, entry: Entry) -> Plan:
    """Lay the entry over what is there; SettingsFault where that cannot be done without losing something."""
    if not all(map(is_text, (entry.command, *entry.args))):
        raise SettingsFault(f"{path}: the entry would name a path that is not UTF-8, which this file cannot hold")
    before = install_files.text_of(path)
    if client.shape == "yaml":
        from handrail.front.mcp import install_yaml

        return Plan(path, before, install_yaml.laid_over(path, before, entry.for_goose()))
    made = entry.for_client(client)
    if client.shape == "toml":
        from handrail.front.mcp import install_toml

        return Plan(path, before, install_toml.laid_over(path, before, made))
    form = install_json.Form(client.key, comments=client.shape == "jsonc")
    return Plan(path, before, install_json.laid_over(path, before, made, form))


def snippet(client: Client, entry: Entry) -> str:
    """The entry by itself, as the client reads it."""
    if client.shape == "yaml":
        from handrail.front.mcp import install_yaml

        return install_yaml.shown(entry.for_goose())
    made = entry.for_client(client)
    if client.shape == "toml":
        from handrail.front.mcp import install_toml

        return install_toml.shown(made)
    return install_json.shown(made, client.key)


def write(plan: Plan) -> Path | None:
    """Write the file whole or not at all; what was there is kept beside it, and its place is given."""
    try:
        return install_files.replaced(plan.path, plan.before, plan.after)
    except OSError as error:
        reason = error.strerror or error
        raise SettingsFault(f"{plan.path}: cannot be written ({reason}); --print shows the entry") from None


def _lines(text: str) -> list[str]:
    """Lines with their ends; no other character ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _whole(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
