"""The entry that connects a client, put into its settings file without losing anything that stands there."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from handrail import strict_json
from handrail.errors import SettingsFault
from handrail.settings import paths

NAME = "handrail"


@dataclass(frozen=True, slots=True)
class Client:
    """One client: where its settings lie, and in which shape."""

    name: str
    about: str
    project: str = ""  # relative to the project; empty: it has none
    user: str = ""  # relative to the user's home
    mac: str = ""  # the same on macOS, where it differs
    yaml: bool = False
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
        Client("cursor", "Cursor", ".cursor/mcp.json", ".cursor/mcp.json", variable="${env:%s}"),
        Client("gemini-cli", "Gemini CLI", ".gemini/settings.json", ".gemini/settings.json"),
        Client("goose", "Goose", user=".config/goose/config.yaml", yaml=True),
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
    def diff(self) -> str:
        """What would change."""
        old = [] if self.before is None else self.before.splitlines(keepends=True)
        name = str(self.path)
        return "".join(_whole(line) for line in unified_diff(old, self.after.splitlines(keepends=True), name, name))


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
    env = {name: client.variable % name for name in variables}
    found = shutil.which(NAME)
    program = found or str(Path(sys.executable).with_name(NAME))
    shared = not user and bool(client.project)
    if (config := flags.get("config")) is not None and not os.path.isabs(config):
        flags = {**flags, "config": os.path.relpath(config, workspace) if shared else os.path.abspath(config)}
    said = tuple(word for name, value in flags.items() for word in (f"--{name}", value))
    if shared:
        return Entry(NAME if found else program, ("mcp", *said), env)
    return Entry(program, ("mcp", "--workspace", str(workspace.resolve()), *said), env)


def place_of(client: Client, workspace: Path, *, user: bool) -> Path:
    """Where the client's settings really lie, links followed; SettingsFault where it has no such place."""
    if user or not client.project:
        beneath = client.mac if client.mac and sys.platform == "darwin" else client.user
        if not beneath:
            raise SettingsFault(f"{client.name} has no settings of the user that could be written; leave out --user")
        return Path(os.path.realpath(paths.home_dir() / beneath))
    return Path(os.path.realpath(workspace / client.project))


def planned(client: Client, path: Path, entry: Entry) -> Plan:
    """Lay the entry over what is there; SettingsFault where that cannot be done without losing something."""
    try:
        before = path.read_text("utf-8")
    except FileNotFoundError:
        before = None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise SettingsFault(f"{path}: cannot be read: {reason}") from None
    if client.yaml:
        from handrail.front.mcp.install_yaml import laid_over

        return Plan(path, before, laid_over(path, before, entry.for_goose()))
    return Plan(path, before, _json_after(path, before, entry))


def snippet(client: Client, entry: Entry) -> str:
    """The entry by itself, as the client reads it."""
    if client.yaml:
        from handrail.front.mcp.install_yaml import shown

        return shown(entry.for_goose())
    return json.dumps({"mcpServers": {NAME: entry.for_json()}}, indent=2) + "\n"


def _json_after(path: Path, before: str | None, entry: Entry) -> str:
    known: Any = {}
    if before is not None and before.strip():
        try:
            known = strict_json.loads(before)
        except ValueError as error:
            comments = "//" in before or "/*" in before
            advice = "comments would be lost" if comments else "mend it first"
            raise SettingsFault(
                f"{path}: is not plain JSON ({error}); {advice}, so nothing is written: "
                "add the entry by hand, `--print` shows it"
            ) from None
    servers = known.get("mcpServers", {}) if isinstance(known, dict) else None
    if not isinstance(servers, dict):
        raise SettingsFault(f"{path}: there is no object where mcpServers should be; add the entry by hand (--print)")
    had = servers.get(NAME)
    merged = {**had, **entry.for_json()} if isinstance(had, dict) else entry.for_json()
    after = {**known, "mcpServers": {**servers, NAME: merged}}
    end = "" if before is not None and before.strip() and not before.endswith("\n") else "\n"
    return json.dumps(after, indent=_indent(before), ensure_ascii=False) + end


def _indent(text: str | None) -> int | str:
    """How far a file indents, so that the difference is only what is new."""
    for line in (text or "").splitlines():
        white = line[: len(line) - len(line.lstrip())]
        if white:
            return white if "\t" in white else len(white)
    return 2


def write(plan: Plan) -> Path | None:
    """Write the file whole or not at all; what was there is kept beside it, and its place is given."""
    try:
        return _written(plan)
    except OSError as error:
        reason = error.strerror or error
        raise SettingsFault(f"{plan.path}: cannot be written ({reason}); --print shows the entry") from None


def _written(plan: Plan) -> Path | None:
    target = plan.path
    target.parent.mkdir(parents=True, exist_ok=True)
    kept, mode = None, 0o644
    if plan.before is not None:
        if target.read_text("utf-8") != plan.before:
            raise SettingsFault(f"{plan.path}: has changed since it was read; nothing is written, try again")
        mode = target.stat().st_mode & 0o777
        kept = _free(target)
        shutil.copy2(target, kept)
    handle, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(plan.after)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, mode)
        os.replace(made, target)
    except BaseException:
        os.unlink(made)
        raise
    return kept


def _free(target: Path) -> Path:
    number = 1
    while (found := target.with_name(f"{target.name}.bak{number if number > 1 else ''}")).exists():
        number += 1
    return found


def _whole(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
