"""What is taken but probably not meant: settings that open too much, do nothing, or give something away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from handrail.settings.files import PROJECT_FILE, PYPROJECT, read_document
from handrail.settings.layers import SCRATCH
from handrail.settings.loading import Loaded
from handrail.settings.paths import Environment, home_dir
from handrail.settings.starting import toolset_folders
from handrail.settings.telling import nearest

if TYPE_CHECKING:
    from handrail.catalog import Catalog

LEVELS = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Lint:
    """One thing to look at, and what to do about it."""

    level: str  # error: opens what nobody should | warning: hardly meant | note: good to know
    where: str  # "handrail.toml:14"
    text: str
    fix: str = ""


def lint(loaded: Loaded, catalog: Catalog | None = None, environment: Environment | None = None) -> list[Lint]:
    """Look over the settings in force, errors first; without a `catalog` the built-in tools are known.

    A project's file that is not trusted yet is looked over as it would count, for whoever is about to trust it.
    """
    catalog = catalog or _builtin_catalog()
    found = _all(loaded, catalog, environment)
    if not all(file.trusted for file in loaded.files):
        found += [
            replace(item, text=f"{item.text} (once it is trusted)")
            for item in _trusted(loaded, catalog, environment)
            if item not in found
        ]
    return sorted(found, key=lambda item: LEVELS.index(item.level))


def _trusted(loaded: Loaded, catalog: Catalog, environment: Environment | None) -> list[Lint]:
    """What would be found, were the project's file trusted as it stands."""
    from pathlib import Path

    from handrail.errors import SettingsFault
    from handrail.settings.loading import load
    from handrail.settings.trust import EveryFile

    variables = os.environ if environment is None else environment
    try:
        then = load(Path(loaded.workspace), environment=variables, trust=EveryFile(Path(os.devnull)))
    except SettingsFault as fault:  # in what did not count until now
        where, _, text = str(fault).partition(": ")
        return [Lint("error", where, text)]
    return _all(then, catalog, environment)


def _all(loaded: Loaded, catalog: Catalog, environment: Environment | None) -> list[Lint]:
    from handrail.settings.lint_broad import broad_lint
    from handrail.settings.lint_rules import rules_lint

    return [
        *_roots(loaded, environment),
        *_lists(loaded),
        *broad_lint(loaded),
        *_tool_names(loaded, catalog),
        *rules_lint(loaded, catalog),
        *_files(loaded),
        *_passed_over(loaded),
    ]


def _builtin_catalog() -> Catalog:
    from handrail.catalog import Catalog
    from handrail.tools import builtin

    return Catalog(lazy=builtin())


def _roots(loaded: Loaded, environment: Environment | None) -> Iterator[Lint]:
    workspace = loaded.settings.workspace
    home = os.path.realpath(home_dir(environment))
    named = [("workspace.root", workspace.root)]
    named += [("workspace.read", path) for path in workspace.read]
    named += [("workspace.write", path) for path in workspace.write]
    for key, path in named:
        fix = f"name the one folder that is meant in {key}"
        if path == "/":
            yield Lint("error", loaded.where(key), f"{key} is `/`: tools reach the whole machine", fix)
        elif path == home or home.startswith(f"{path}/"):
            yield Lint("error", loaded.where(key), f"{key} is {path}, which holds the whole home folder", fix)
        elif path != SCRATCH and "{run_id}" not in path and not os.path.isdir(path):
            yield Lint("warning", loaded.where(key), f"{key}: there is no folder {path}", "make it, or leave it out")


def _lists(loaded: Loaded) -> Iterator[Lint]:
    tools = loaded.settings.tools
    if not tools.enable and loaded.where("tools.enable"):
        text = "tools.enable is empty: only low-risk tools are offered, nothing that writes"
        yield Lint("note", loaded.where("tools.enable"), text, 'enable = ["fs"] if files are to be written')
    if not loaded.settings.http.allowed_hosts and loaded.where("http.allowed_hosts"):
        text = "http.allowed_hosts is empty: no host can be reached"
        yield Lint("note", loaded.where("http.allowed_hosts"), text)
    for name in sorted(set(tools.enable) & set(tools.disable)):
        text = f"{name!r} is both enabled and disabled, so it is disabled"
        yield Lint("warning", loaded.where("tools.disable"), text, "take it out of one of the lists")


def enabled_names(loaded: Loaded, catalog: Catalog) -> Iterator[Lint]:
    """Names that switch nothing on or off; tools are loaded only to look for a toolset that is not built in."""
    tools = loaded.settings.tools
    for key, names in (("tools.enable", tools.enable), ("tools.disable", tools.disable)):
        for name in names:
            if not _is_known(name, catalog):
                yield _unknown_tool(loaded.where(key), key, name, [*catalog.names(), *toolset_folders()])


def _is_known(name: str, catalog: Catalog) -> bool:
    if name in catalog or name in toolset_folders():
        return True
    return name in catalog.names() or name in _toolsets(catalog)  # these take longer: other packages are looked for


def _toolsets(catalog: Catalog) -> set[str]:
    """The toolsets of tools that are not built in; one that cannot be loaded has none."""
    from handrail.tools import builtin

    found = set()
    for name in {*catalog.names()} - {*builtin()}:
        with suppress(Exception):  # whatever is wrong with another package's tool is told when it is used
            found.add(catalog.get(name).toolset)
    return found


def _tool_names(loaded: Loaded, catalog: Catalog) -> Iterator[Lint]:
    yield from enabled_names(loaded, catalog)
    settings = loaded.settings
    for key in ("limits.rate", "limits.concurrency"):
        for name in getattr(settings.limits, key.rpartition(".")[2]):
            if name not in catalog:
                yield _unknown_tool(loaded.where(f"{key}.{name}"), key, name, catalog.names())


def _unknown_tool(where: str, key: str, name: str, known: list[str]) -> Lint:
    near = nearest(name, known)
    fix = f"did you mean {near!r}?" if near else "`handrail tools list` shows all names"
    return Lint("warning", where, f"{key}: there is no tool {name!r}", fix)


def _files(loaded: Loaded) -> Iterator[Lint]:
    """Look at the files themselves: who may write them, and whether they give a secret away."""
    for file in loaded.files:
        shown = file.path.removeprefix(f"{loaded.workspace}/")
        try:
            mode = os.stat(file.path).st_mode
        except OSError:
            continue
        if mode & 0o002:
            fix = f"chmod o-w {file.path}"
            yield Lint("error", shown, f"{shown} can be written by every user of this machine", fix)
        yield from _secrets(shown, file.text)


def _secrets(shown: str, text: str) -> Iterator[Lint]:
    from handrail.output.redact import Redactor

    lines = {text.count("\n", 0, start) + 1 for start, _ in Redactor().spans(text)}
    for line in sorted(lines):
        fix = "take it out, and replace the secret: it was on disk in clear text"
        yield Lint("error", f"{shown}:{line}", "this looks like a secret; settings need none", fix)


def _passed_over(loaded: Loaded) -> Iterator[Lint]:
    """A `[tool.handrail]` beside a handrail.toml says nothing, which its author may not know."""
    for file in loaded.files:
        folder, name = os.path.split(file.path)
        if file.layer == "project" and name == PROJECT_FILE and _holds_settings(folder):
            text = f"[tool.handrail] of {PYPROJECT} is not read, because there is a {PROJECT_FILE}"
            yield Lint("warning", PYPROJECT, text, f"move what it says to {PROJECT_FILE}")


def _holds_settings(folder: str) -> bool:
    from pathlib import Path

    from handrail.errors import SettingsFault

    try:
        return read_document(Path(folder, PYPROJECT)) is not None
    except SettingsFault:
        return False
