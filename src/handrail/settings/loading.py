"""`load`: find the layers, lay them over each other, and hand out the settings in force with their origins."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, NamedTuple

from handrail.errors import SettingsFault
from handrail.settings import paths
from handrail.settings.files import Document, document_of, project_documents, read_document, way_to
from handrail.settings.layers import (
    Base,
    Layer,
    NamedSettings,
    Origin,
    environment_layer,
    file_layer,
    mapping_layer,
)
from handrail.settings.merge import Merged
from handrail.settings.model import BY_NAME, RuleEntry, Settings, Written
from handrail.settings.trust import TrustStore, trust_store
from handrail.words import noun


@noun
class ReadFile:
    """A settings file that was read, and whether all of it counts."""

    path: str  # absolute
    layer: str
    sha256: str
    trusted: bool = True
    pin: str = ""  # what `handrail config trust` binds trust to
    text: str = field(default="", repr=False)
    way: tuple[str, ...] = ()  # the links that lead to it, and the file itself, as canonical paths


@noun
class Loaded:
    """The settings in force, and everything about where they come from."""

    settings: Settings
    origins: Mapping[str, Origin]  # every setting by its dotted name; entries of tables too, once set
    warnings: tuple[str, ...]
    files: tuple[ReadFile, ...]
    digest: str  # of the effective values, not of their places
    workspace: str = ""  # the folder the project's file was looked for in
    protected: tuple[tuple[str, ...], ...] = ()  # workspace.protected in groups: a `!name` counts within its own
    fault: str = ""  # why the project's file, as it is now, was not taken: what it said before counts

    def where(self, key: str) -> str:
        """The place of a setting, such as `handrail.toml:14`; empty for a default."""
        origin = self.origins[key]
        return "" if origin.layer == "default" else origin.where

    def describe_origin(self, key: str, value: object) -> str:
        """Name every place that a value comes from: a list that adds up has one for each layer that lengthened it."""
        whole = self.origins[key]
        if not isinstance(value, list | tuple) or not value:
            return whole.where
        return ", ".join(dict.fromkeys(self.origins.get(f"{key}.{item}", whole).where for item in value))


def fix(loaded: Loaded, values: Mapping[str, Any]) -> Loaded:
    """Give settings in which a front end's own values stand, by dotted names; they are known to fit."""
    settings = loaded.settings
    for name, value in values.items():
        section, _, inner = name.partition(".")
        changed = getattr(settings, section).model_copy(update={inner: value})
        settings = settings.model_copy(update={section: changed})
    origins = {**loaded.origins, **dict.fromkeys(values, Origin("hook"))}
    return replace(loaded, settings=settings, origins=origins)


class Sources(NamedTuple):
    """Where to look."""

    base: Base
    config: Path | Mapping[str, Any] | None
    flags: Mapping[str, Any] | None
    user_file: Path
    store: TrustStore


def load(
    workspace: Path,
    *,
    config: Path | Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str],
    user_config: Path | None = None,
    trust: TrustStore | None = None,
    former: Loaded | None = None,
) -> Loaded:
    """Load settings in layers, each over the one before; SettingsFault names file, line and fix.

    Without `config`: defaults, the user's file, the project's file, environment, flags. A `config` takes the place of
    the user's and the project's file, which are then not read. A path is what `--config` names, so the environment
    still applies, as it does to a preset or another system's file that a command line names (`NamedSettings`). Any
    other mapping comes from a program that says all it wants, so the environment does not apply.
    Folders that settings name are taken from `workspace`, a relative `config` from the current folder.
    With `former`, a project's file that cannot be taken counts as it did there: whoever can write it must not decide
    whether a change of the others counts.
    """
    base = Base(os.path.realpath(workspace), environment)
    store = trust_store(environment) if trust is None else trust
    sources = Sources(base, config, flags, user_config or paths.user_file(environment), store)
    try:
        _check_way(former)
        return _laid(sources, None)
    except Exception as fault:
        if former is not None and config is None:
            with suppress(Exception):  # not the project's file, then: the first fault is told
                kept = _laid(sources, former)
                text = str(fault) if isinstance(fault, SettingsFault) else f"{type(fault).__name__}: {fault}"
                return replace(kept, fault=text, warnings=(*kept.warnings, text))
        raise


def _laid(sources: Sources, former: Loaded | None) -> Loaded:
    """Lay the layers over each other; with `former`, the project's file as it was read there."""
    base, config = sources.base, sources.config
    merged = Merged(_defaults(base))
    files: list[ReadFile] = []
    if isinstance(config, Mapping):
        merged.take(mapping_layer(config, "python", base))
    elif config is not None:
        merged.take(_config_layer(Path(config), base, files))
    else:
        for layer in _file_layers(sources, former, files):
            merged.take(layer)
    from_program = isinstance(config, Mapping) and not isinstance(config, NamedSettings)
    if not from_program and (variables := environment_layer(base.environment, base)) is not None:
        merged.take(variables)
    if sources.flags:
        merged.take(mapping_layer(sources.flags, "flag", base))
    _check_examples(merged.rules)
    merged.warnings += _links(files, base)
    return Loaded(
        _settings(merged),
        merged.origins,
        tuple(merged.warnings),
        tuple(files),
        _digest(merged),
        base.workspace,
        merged.protected,
    )


def _defaults(base: Base) -> dict[str, Any]:
    values = {name: key.default for name, key in BY_NAME.items()}
    return values | {"workspace.root": base.workspace, "runs_dir": str(paths.runs_dir(base.environment))}


def _config_layer(path: Path, base: Base, files: list[ReadFile]) -> Layer:
    path = Path(os.path.abspath(path))
    document = read_document(path, _shown(path, base))
    if document is None:
        raise SettingsFault(f"{path}: there is no such settings file")
    files.append(_read(document, "config"))
    return file_layer(document, "config", base)


def _file_layers(sources: Sources, former: Loaded | None, files: list[ReadFile]) -> Iterator[Layer]:
    base, store = sources.base, sources.store
    user = read_document(sources.user_file, _shown(sources.user_file, base))
    if user is not None:
        files.append(_read(user, "user"))
        yield file_layer(user, "user", base)
    projects = project_documents(Path(base.workspace)) if former is None else _as_they_were(former)
    for project in _that_count(projects, store):
        trusted = store.trusts(project.path, project.pin)
        read = _read(project, "project", trusted=trusted)
        was = next((file for file in _projects_of(former) if file.path == read.path), read)
        files.append(replace(read, way=was.way))
        changed = not trusted and store.pinned(project.path) is not None
        yield file_layer(project, "project", base, trusted=trusted, changed=changed)


def _that_count(projects: Sequence[Document], store: TrustStore) -> Sequence[Document]:
    """A handrail.toml stands in the place of a table in pyproject.toml once it is trusted; until then it only narrows.

    Else whoever makes an empty one would lift what the table says.
    """
    own = projects[-1:]
    return own if own and store.trusts(own[0].path, own[0].pin) else projects


def _links(files: Iterable[ReadFile], base: Base) -> Iterator[str]:
    """Warn of links to settings: a file can be locked for programs, a name that leads to it cannot."""
    for file in files:
        if link := next((name for name in file.way[:-1] if name.startswith(f"{base.workspace}/")), None):
            shown = os.path.relpath(link, base.workspace)
            yield f"{shown}: is a link that leads to settings, which a program can take away; put the file itself there"


def _check_way(former: Loaded | None) -> None:
    """Refuse a project's file that was reached by a link, and is not any more: a program could have taken it away."""
    for file in _projects_of(former):
        if len(file.way) > 1 and way_to(Path(file.path)) != file.way:
            name = os.path.basename(file.path)
            raise SettingsFault(f"{name}: a link on the way to it has changed; start anew to have that count")


def _as_they_were(former: Loaded) -> list[Document]:
    """The project's files with the content that was read then."""
    read = [(Path(file.path), file) for file in _projects_of(former)]
    found = [document_of(path, path.name, file.text, file.sha256) for path, file in read]
    return [document for document in found if document is not None]


def _projects_of(loaded: Loaded | None) -> list[ReadFile]:
    return [] if loaded is None else [file for file in loaded.files if file.layer == "project"]


def _read(document: Document, layer: str, *, trusted: bool = True) -> ReadFile:
    way = way_to(document.path)
    return ReadFile(str(document.path), layer, document.sha256, trusted, document.pin, document.text, way)


def _shown(path: Path, base: Base) -> str:
    return os.path.relpath(path, base.workspace) if path.is_relative_to(base.workspace) else str(path)


def _check_examples(rules: Iterable[RuleEntry]) -> None:
    for entry in rules:
        if entry.matches or entry.misses:
            from handrail.policy.rules import check_examples

            check_examples(entry.rule())


def _settings(merged: Merged) -> Settings:
    """Build the settings from values that each layer has checked already."""
    sections: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {"rules": tuple(merged.rules)}
    for name, value in merged.values.items():
        section, _, inner = name.rpartition(".")
        if section:
            sections.setdefault(section, {})[inner] = value
        else:
            top[name] = value
    for name, values in sections.items():
        top[name] = type(Written.model_fields[name].default).model_construct(**values)
    return Settings.model_construct(**top)


def _digest(merged: Merged) -> str:
    rules = [{name: value for name, value in rule if name not in ("id", "where")} for rule in merged.rules]
    text = json.dumps({**merged.values, "rules": rules}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
