"""Settings in the form of other systems, as mappings for `Runtime.open(config=…)`. Each starts from its preset."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from handrail import strict_json
from handrail.errors import SettingsFault
from handrail.settings import programs
from handrail.settings.presets import preset
from handrail.spelling import nearest

Config = dict[str, Any]


def _start(name: str) -> Config:
    return deepcopy(dict(preset(name)))


def _known(given: Any, names: Iterable[str], what: str) -> None:
    """Refuse what is no mapping, and a key that the form does not have; name the nearest."""
    if not isinstance(given, Mapping):
        raise SettingsFault(f"{what}: expected a mapping, got {given!r}")
    known = list(names)
    for name in given:
        if name not in known:
            near = nearest(str(name), known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SettingsFault(f"{what}: unknown key {name!r}; {hint}")


def _texts(given: Mapping[str, Any], name: str, what: str) -> list[str]:
    """A list of texts; a text alone would be taken for a list of letters."""
    found = given.get(name)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)) or not all(isinstance(item, str) for item in found):
        raise SettingsFault(f"{what}: {name}: expected a list of texts, got {found!r}")
    return list(found)


# ── files ────────────────────────────────────────────────────────────────────────────────────

_ENDINGS = (".json", ".yaml", ".yml")


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether a settings file is in another system's form: ours are TOML."""
    return os.fspath(path).lower().endswith(_ENDINGS)


def from_file(system: str, path: Path) -> Config:
    """Settings from a JSON or YAML file in the form of the system that is named; SettingsFault tells what is wrong."""
    from handrail.settings.files import read_text

    if system == "autonous":
        raise SettingsFault(f"{path}: autonous is set up by AUTONOUS_TOOL_* variables, not by a file")
    if system not in _FORMS:
        known = ", ".join(_FORMS)
        raise SettingsFault(f"{path}: JSON and YAML are other systems' forms; say whose by --dialect: {known}")
    text = read_text(path)
    try:
        data = strict_json.loads(text) if str(path).lower().endswith(".json") else _yaml(text)
        if not isinstance(data, dict):
            raise SettingsFault("a mapping is needed")
        return _FORMS[system](data)
    except (SettingsFault, ValueError) as error:
        raise SettingsFault(f"{path}: {error}") from None


# ── autonous ─────────────────────────────────────────────────────────────────────────────────

PREFIX = "AUTONOUS_TOOL_"
ROOTS, DENYLIST = f"{PREFIX}ALLOWED_ROOTS", f"{PREFIX}BASH_DENYLIST"
_NUMBERS = {
    "AUTONOUS_TOOL_TIMEOUT_SECONDS": (30, (("limits", "timeout_seconds"), ("exec", "timeout_seconds"))),
    "AUTONOUS_TOOL_MAX_OUTPUT_LINES": (2000, (("limits", "max_output_lines"),)),
    "AUTONOUS_TOOL_MAX_OUTPUT_BYTES": (51200, (("limits", "max_output_bytes"),)),
}


def autonous(environment: Mapping[str, str], *, find: Callable[[str], str | None] = programs.which) -> Config:
    """Settings from AUTONOUS_TOOL_* variables, after the self-check of programs.

    Allowed roots are required, absolute, cleaned and without doubles, and fixed until the next start. The first is the
    workspace. SettingsFault refuses to start.
    """
    config = _start("autonous")
    told = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
    _known(told, (ROOTS, DENYLIST, *_NUMBERS), "environment")
    roots = allowed_roots(environment.get(ROOTS, ""))
    programs.require(find)
    config["workspace"] |= {"root": roots[0], "write": list(roots[1:])}
    for name, (default, places) in _NUMBERS.items():
        value = _number(name, environment.get(name), default)
        for section, key in places:
            config[section][key] = float(value) if key == "timeout_seconds" else value
    listed = [item.strip() for item in environment.get(DENYLIST, "").split(",") if item.strip()]
    config["exec"]["deny"] = list(dict.fromkeys([*config["exec"]["deny"], *listed]))
    return config


def has_variables(environment: Mapping[str, str]) -> bool:
    """Whether any of its variables is set."""
    return any(name.startswith(PREFIX) for name in environment)


def allowed_roots(text: str) -> tuple[str, ...]:
    """Read the list of roots; SettingsFault where it is empty or one is not absolute."""
    found = [item.strip() for item in text.split(",") if item.strip()]
    if not found:
        raise SettingsFault(f"{ROOTS} is empty: name at least one absolute folder, such as /workspace,/state")
    for item in found:
        if not os.path.isabs(item):
            raise SettingsFault(f"{ROOTS}: {item!r} is not absolute")
        if "\0" in item:
            raise SettingsFault(f"{ROOTS}: {item!r} is no folder's name")
    return tuple(dict.fromkeys(os.path.normpath(f"/{item.lstrip('/')}") for item in found))


def _number(name: str, text: str | None, default: int) -> int:
    if text is None or not text.strip():
        return default
    if not text.strip().isascii() or not text.strip().isdigit() or int(text) < 1:
        raise SettingsFault(f"{name}: {text!r} is not a whole number above 0")
    return int(text)


# ── tool-hub ─────────────────────────────────────────────────────────────────────────────────

_CORE_TOOLS = {
    "maxReadBytes": ("limits", "max_read_bytes"),
    "maxHttpBytes": ("http", "max_bytes"),
    "maxDownloadBytes": ("http", "max_download_bytes"),
    "allowedHosts": ("http", "allowed_hosts"),
    "blockedCidrs": ("http", "blocked_networks"),
    "defaultTimeoutMs": ("http", "timeout_ms"),
    "httpUserAgent": ("http", "user_agent"),
    "enableAutoWriteLargeResponses": ("http", "spill_large"),
}


def tool_hub(core_tools: Mapping[str, Any]) -> Config:
    """Settings from a CoreToolsConfig; private ranges stay blocked whatever `blockedCidrs` says.

    An inner address is reached where `allowedHosts` names its network, such as "10.1.0.0/16", beside the host.
    """
    _known(core_tools, ("sandboxRoot", *_CORE_TOOLS), "CoreToolsConfig")
    root = core_tools.get("sandboxRoot")
    if not isinstance(root, str) or not os.path.isabs(root):
        raise SettingsFault("CoreToolsConfig: sandboxRoot is needed, as an absolute folder")
    config = _start("tool-hub")
    config["workspace"]["root"] = f"{os.path.normpath(root)}/{{run_id}}"
    for name, (section, key) in _CORE_TOOLS.items():
        if name in core_tools:
            value = core_tools[name]
            config[section][key] = list(value) if isinstance(value, (list, tuple)) else value
    if "allowedHosts" in core_tools:
        hosts = _texts(core_tools, "allowedHosts", "CoreToolsConfig")
        config["http"]["allowed_hosts"] = [host for host in hosts if "/" not in host]
        config["http"]["allowed_networks"] = [host for host in hosts if "/" in host]
    return config


# ── kgent ────────────────────────────────────────────────────────────────────────────────────


def kgent(text: str | Mapping[str, Any]) -> Config:
    """Settings from its YAML: the `memory:` block, and `tools:` with what is enabled and disabled, in its names."""
    given = _yaml(text) if isinstance(text, str) else dict(text)
    if given.get("memory", 0) is None:  # the block as it is printed, which has lost its indent
        rest = {"tools": given.pop("tools")} if "tools" in given else {}
        given = {"memory": {name: value for name, value in given.items() if name != "memory"}, **rest}
    _known(given, ("memory", "tools"), "kgent configuration")
    config = _start("kgent")
    if (memory := given.get("memory")) is not None:
        config["memory"] |= _kgent_memory(memory)
    if (tools := given.get("tools")) is not None:
        _kgent_tools(config, tools)
    return config


def _kgent_memory(block: Mapping[str, Any]) -> Config:
    _known(block, ("enabled", "provider", "write_mode", "url"), "memory")
    told: Config = {name: block[name] for name in ("enabled", "write_mode", "url") if name in block}
    if (mode := told.get("write_mode", "candidate")) not in ("disabled", "candidate", "external"):
        raise SettingsFault(f"memory: write_mode {mode!r} is none of disabled, candidate, external")
    provider = block.get("provider", "external")
    if provider not in ("external", "sqlite", "http"):
        raise SettingsFault(f"memory: provider {provider!r} is none of external, sqlite, http")
    # "external" is whichever provider is set up: a service where an address is given, the embedded one otherwise.
    return {**told, "provider": ("http" if "url" in block else "sqlite") if provider == "external" else provider}


def _kgent_tools(config: Config, tools: Mapping[str, Any]) -> None:
    from handrail.dialects import get

    _known(tools, ("enable", "disable"), "tools")
    words = get("kgent").words
    for key in ("enable", "disable"):
        for name in _texts(tools, key, "tools"):
            if name not in words:
                _known({name: None}, words, f"tools.{key}")
            config["tools"][key].append(words[name].ours)
    off = set(config["tools"]["disable"])
    config["tools"]["enable"] = [name for name in dict.fromkeys(config["tools"]["enable"]) if name not in off]


def _yaml(text: str) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsFault(f"kgent configuration: is not YAML: {error}") from None
    if not isinstance(found, dict):
        raise SettingsFault("kgent configuration: a mapping is needed, such as `memory: {enabled: true}`")
    return found


# ── clude ────────────────────────────────────────────────────────────────────────────────────

_CLUDE = (
    "command_allowlist",
    "command_denylist",
    "network_allowlist",
    "denied_paths",
    "allow_absolute_paths",
    "timeout_ms",
    "max_output_bytes",
)


def clude(policy: Mapping[str, Any]) -> Config:
    """Settings from its policy lists: commands that run or never run, hosts, paths out of reach."""
    _known(policy, _CLUDE, "clude policy")
    config = _start("clude")
    what = "clude policy"
    config["exec"]["allow"] = [*config["exec"]["allow"], *_texts(policy, "command_allowlist", what)]
    config["exec"]["deny"] = [*config["exec"]["deny"], *_texts(policy, "command_denylist", what)]
    config["workspace"]["protected"] = [*config["workspace"]["protected"], *_texts(policy, "denied_paths", what)]
    config["workspace"]["allow_absolute"] = policy.get("allow_absolute_paths", False)
    if (timeout := policy.get("timeout_ms")) is not None:
        if not isinstance(timeout, (int, float)) or isinstance(timeout, bool):
            raise SettingsFault(f"{what}: timeout_ms: expected a number, got {timeout!r}")
        config["exec"]["timeout_seconds"] = timeout / 1000
    if (most := policy.get("max_output_bytes")) is not None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise SettingsFault(f"{what}: max_output_bytes: expected a whole number above 0, got {most!r}")
        # No line is shorter than one byte, so bytes are what bounds.
        config["limits"] = {**config["limits"], "max_output_bytes": most, "max_output_lines": most}
    if hosts := _texts(policy, "network_allowlist", what):
        names = [host for host in hosts if "/" not in host]
        networks = [*(host for host in hosts if "/" in host), *filter(None, map(_own_network, names))]
        config["http"] |= {"allowed_hosts": names, "allowed_networks": networks}
        config["exec"]["allowed_hosts"] = names
        config["rules"] = [rule for rule in config["rules"] if rule.get("touch") != "net.connect"]
    return config


def _own_network(host: str) -> str | None:
    """Give the network of the one address that is named, with a port or without; None for a name."""
    bare = host.rpartition(":")[0] if host.count(":") == 1 or "]:" in host else host
    try:
        return str(ipaddress.ip_network(bare.strip("[]")))
    except ValueError:
        return None


# ── skills-agent ─────────────────────────────────────────────────────────────────────────────


def skills_agent(allowed_tools: Iterable[str]) -> Config:
    """Settings from its global list of allowed tools, in its names: what is not listed is not offered."""
    from handrail.dialects import get

    words, allowed = get("skills-agent").words, list(allowed_tools)
    for name in allowed:
        _known({name: None}, words, "allowed tools")
    config = _start("skills-agent")
    config["tools"]["enable"] = [word.ours for word in words.values() if word.name in allowed]
    config["tools"]["disable"] = [word.ours for word in words.values() if word.name not in allowed]
    return config


def _skills_agent_file(data: Mapping[str, Any]) -> Config:
    _known(data, ("allowed_tools",), "skills-agent configuration")
    return skills_agent(_texts(data, "allowed_tools", "skills-agent configuration"))


_FORMS: Mapping[str, Callable[[Mapping[str, Any]], Config]] = {
    "skills-agent": _skills_agent_file,
    "clude": clude,
    "tool-hub": tool_hub,
    "kgent": kgent,
}
