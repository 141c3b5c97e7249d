"""Our lines in an agent's settings: put in as text, and taken out again so that the file is as it was, to the byte."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from handrail import json_edit
from handrail.errors import SettingsFault
from handrail.front.mcp import install_files
from handrail.hook_files import MARK
from handrail.hooks import client
from handrail.hooks.payloads import Agent, Hook, Stage
from handrail.settings import paths
from handrail.store.private import make_folder, read_private, write_atomic
from handrail.words import noun

INSTALLED = "installed.json"
FAILED = "Handrail could not be started, so the call is denied. Run: handrail hook status"
_MATCH = {"gemini-cli": ".*"}  # it reads a regular expression; to the others * is everything


@noun
class HookPlan:
    """What would be written to an agent's settings; None: there is no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """Show what would change."""
        name = str(self.path)
        texts = ((self.before or "").splitlines(keepends=True), (self.after or "").splitlines(keepends=True))
        lines = unified_diff(*texts, name, name)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def line_of(agent: Agent, hook: Hook, state: Path | None = None) -> str:
    """Write the shell line of one hook.

    Everything in it is named by its place, so that no variable of the agent chooses what runs. What the client prints
    counts only when it ended well; else a deny that needs nothing of ours is printed.
    """
    folder = str(state or paths.state_dir())
    program = [sys.executable, "-I", "-S", os.path.realpath(client.__file__), agent.name, hook.event]
    words = shlex.join([*program, "--state", folder, "--seconds", str(hook.seconds)])
    stage = agent.stages[hook.event]
    if stage not in (Stage.BEFORE, Stage.DIALOG):
        return f"{words} 2>/dev/null || :"
    denied = shlex.quote(client.denial(agent.name, hook.event, FAILED).decode())
    return f'o=$({words} 2>/dev/null) && printf %s "$o" || printf %s {denied}'


def entries_of(agent: Agent, state: Path | None = None) -> dict[str, dict[str, Any]]:
    """Give the entry of each event, as it stands in the agent's settings."""
    found: dict[str, dict[str, Any]] = {}
    for hook in agent.hooks:
        line = {"type": "command", "command": line_of(agent, hook, state), "timeout": hook.seconds * agent.unit}
        matcher = {"matcher": _MATCH.get(agent.name, "*")} if hook.matched else {}
        found[hook.event] = {**matcher, "hooks": [line]}
    return found


def place_of(agent: Agent, workspace: Path, *, user: bool) -> Path:
    """Find the settings file; a project's file that a link leads out of the project to is refused."""
    if user:
        return Path(os.path.realpath(paths.home_dir() / agent.place.user))
    return install_files.within(workspace, agent.place.project)


def plan_install(agent: Agent, path: Path) -> HookPlan:
    """Put our entries in, in the place of those of before; SettingsFault where that cannot be done safely."""
    before = install_files.text_of(path)
    there = find_ours(before or "")
    if {event: entry for event, _, entry in there} == entries_of(agent) and len(there) == len(agent.hooks):
        return HookPlan(path, before, before)
    text = _without_ours(path, before or "")
    wanted = _read(path, text)
    for event, entry in entries_of(agent).items():
        text = json_edit.appended(text, ("hooks", event), entry)
        _hooks(path, wanted).setdefault(event, []).append(entry)
    _check(path, text, wanted)
    return HookPlan(path, before, text)


def plan_uninstall(path: Path) -> HookPlan:
    """Take our entries out: the file is as it was before, where nobody else has changed it."""
    before = install_files.text_of(path)
    if before is None:
        return HookPlan(path, None, None)
    known = _records().get(str(path))
    if known is not None and known["after"] == _sha256(before):
        return HookPlan(path, before, known["before"])
    return HookPlan(path, before, _without_ours(path, before))


def carry_out(plan: HookPlan) -> None:
    """Write the file whole or not at all, and remember how it was before ours came in."""
    try:
        if plan.after is None:
            os.unlink(plan.path)
            _remove_made(plan.path)
        else:
            install_files.replaced(plan.path, plan.before, plan.after, keep=False)
    except OSError as error:
        raise SettingsFault(f"{plan.path}: cannot be written ({error.strerror or error})") from None


def install(plan: HookPlan) -> None:
    """Carry an installation out."""
    records = _records()
    former = records.get(str(plan.path))
    # Installed again over our own: what stood there before the first time counts.
    kept = former["before"] if former and former["after"] == _sha256(plan.before or "") else plan.before
    made = [str(folder) for folder in _missing(plan.path)]
    carry_out(plan)
    made = former["made"] if former and not made else made
    records[str(plan.path)] = {"before": kept, "after": _sha256(plan.after or ""), "made": made}
    _keep(records)
    _keep_places()


def uninstall(plan: HookPlan) -> None:
    """Carry a removal out."""
    carry_out(plan)
    records = _records()
    records.pop(str(plan.path), None)
    _keep(records)


def find_ours(text: str) -> list[tuple[str, int, Mapping[str, Any]]]:
    """List our entries in a text: the event, the place in its list, the entry. Empty where it is no JSON."""
    try:
        found = json_edit.read(text) if text.strip() else {}
    except ValueError:
        return []
    hooks = found.get("hooks") if isinstance(found, dict) else None
    return [*_ours(hooks)] if isinstance(hooks, dict) else []


def _ours(hooks: Mapping[str, Any]) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    for event, entries in hooks.items():
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if any(MARK in command for command in commands_of(entry)):
                yield event, index, entry


def commands_of(entry: Any) -> list[str]:
    """List the shell lines of an entry."""
    inner = entry.get("hooks") if isinstance(entry, dict) else None
    items = inner if isinstance(inner, list) else []
    return [item["command"] for item in items if isinstance(item, dict) and isinstance(item.get("command"), str)]


def _without_ours(path: Path, text: str) -> str:
    """Give the text without our entries, and without lists that hold nothing then."""
    wanted = _read(path, text)
    for event, index, _ in reversed(find_ours(text)):
        text = json_edit.removed(text, ("hooks", event, index))
        del wanted["hooks"][event][index]
        if not wanted["hooks"][event]:
            text = json_edit.removed(text, ("hooks", event))
            del wanted["hooks"][event]
        if not wanted["hooks"]:
            text = json_edit.removed(text, ("hooks",))
            del wanted["hooks"]
    _check(path, text, wanted)
    return text


def _read(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json_edit.read(text) if text.strip() else {}
    except ValueError as error:
        raise SettingsFault(f"{path}: is no JSON ({error}); mend it first, nothing is written") from None
    if not isinstance(found, dict):
        raise SettingsFault(f"{path}: holds no JSON object; nothing is written")
    _hooks(path, dict(found))
    return found


def _hooks(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict) or not all(isinstance(entries, list) for entries in hooks.values()):
        raise SettingsFault(f"{path}: `hooks` has a form that is not known; nothing is written")
    return hooks


def _check(path: Path, text: str, wanted: Any) -> None:
    """Refuse a text that does not say exactly what is meant."""
    try:
        fits = (json_edit.read(text) if text.strip() else {}) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise SettingsFault(f"{path}: our lines cannot be put in or taken out safely; nothing is written")


def _missing(path: Path) -> list[Path]:
    return [folder for folder in path.parents if not folder.exists()]


def _remove_made(path: Path) -> None:
    """Remove the folders that we made for a file, as far as they are empty."""
    for folder in (_records().get(str(path)) or {}).get("made", ()):
        try:
            os.rmdir(folder)
        except OSError:
            return


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _folder() -> Path:
    return Path(client.folder_of(str(paths.state_dir())))


def _records() -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(read_private(_folder() / INSTALLED))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _keep(records: Mapping[str, Any]) -> None:
    make_folder(_folder())
    write_atomic(_folder() / INSTALLED, [json.dumps(records).encode()])


def _keep_places() -> None:
    """Fix where the user's folders are: a hook's environment is the agent's, and says nothing of that."""
    places = {"HOME": str(paths.home_dir())}
    places |= {"XDG_CONFIG_HOME": str(paths.config_dir().parent), "XDG_CACHE_HOME": str(paths.cache_dir().parent)}
    write_atomic(_folder() / client.PLACE, [json.dumps(places).encode()])
