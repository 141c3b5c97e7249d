"""Where settings come from: each source becomes a Layer of checked values that remember their place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError

from handrail.errors import SettingsFault
from handrail.settings.files import Document
from handrail.settings.model import BY_NAME, SECTIONS, RuleText, Section, Written
from handrail.settings.paths import Environment, home_dir
from handrail.settings.telling import nearest, told
from handrail.words import noun

PREFIX = "HANDRAIL_"
SCRATCH = "run:workspace"
MOST_TOLD = 20  # faults of one file: looking for the key that was meant takes its time
_FOLDERS = ("runs_dir", "workspace.root", "workspace.read", "workspace.write")
_TOP = ("mode", "environment", "runs_dir", "rules")
_LITERALS = re.compile(r"\\[^bBAz]|\[\^?\]?(?:\\.|[^\]\\])*\]")  # escapes and character classes


@noun
class Origin:
    """Where a value came from."""

    layer: str  # default | user | project | config | env | flag | python
    file: str = ""  # for env the variable's name
    line: int = 0

    @property
    def where(self) -> str:
        """`handrail.toml:14`, a variable, or the layer's name."""
        return f"{self.file}:{self.line}" if self.line else self.file or self.layer


Source = Callable[[tuple[str | int, ...]], Origin]  # gives the place of a key, by its path


class Layer(NamedTuple):
    """What one source says, checked, with folders made absolute."""

    values: Mapping[str, Any]
    rules: tuple[tuple[RuleText, Origin], ...]
    source: Source
    trusted: bool = True
    changed: bool = False  # a person trusted another content of this file

    def origin(self, key: str, *inner: str) -> Origin:
        """Where a setting of this layer, or an entry of it, stands."""
        return self.source((*key.split("."), *inner))


class Base(NamedTuple):
    """What relative folders and `~` mean."""

    workspace: str  # canonical
    environment: Environment

    def folder(self, text: str, where: str) -> str:
        """Make a folder's name absolute and canonical."""
        if text == "~" or text.startswith("~/"):
            text = f"{home_dir(self.environment)}{text[1:]}"
        elif text.startswith("~"):
            raise SettingsFault(f"{where}: write {text!r} in full; only `~` itself is known")
        elif text.startswith("run:"):
            raise SettingsFault(f'{where}: {text!r} is no folder; only workspace.root takes "{SCRATCH}"')
        return os.path.realpath(os.path.join(self.workspace, text))


def file_layer(document: Document, name: str, base: Base, *, trusted: bool = True, changed: bool = False) -> Layer:
    """Check a settings file."""

    def source(path: tuple[str | int, ...]) -> Origin:
        return Origin(name, document.shown, document.line(path))

    return _layer(document.data, source, base, trusted=trusted, changed=changed)


def mapping_layer(data: Mapping[str, Any], name: str, base: Base) -> Layer:
    """Check settings that a program or the command line hands over; dotted names are taken apart."""
    nested: dict[str, Any] = {}
    for key, value in data.items():
        if value is not None:
            _put(nested, tuple(str(key).split(".")), _plain(value), str(key))
    return _layer(nested, lambda _path: Origin(name), base)


class NamedSettings(dict[str, Any]):
    """Settings that a command line names by a preset or another system's file: HANDRAIL_ variables beat them."""


def environment_layer(environment: Environment, base: Base) -> Layer | None:
    """Check `HANDRAIL_SECTION__KEY` variables; None where there is none."""
    nested: dict[str, Any] = {}
    variables: dict[tuple[str | int, ...], str] = {}
    for variable in sorted(name for name in environment if name.startswith(PREFIX)):
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        if len(path) == 1 and path[0] not in _TOP:
            _refuse_slip(variable, path[0])
            continue
        variables[path] = variable
        _put(nested, path, _variable(".".join(path), environment[variable]), variable)
    if not nested:
        return None

    def source(path: tuple[str | int, ...]) -> Origin:
        for length in range(len(path), 0, -1):
            for known, variable in variables.items():
                if known[:length] == path[:length]:
                    return Origin("env", variable)
        return Origin("env")

    return _layer(nested, source, base)


def _layer(
    data: Mapping[str, Any], source: Source, base: Base, *, trusted: bool = True, changed: bool = False
) -> Layer:
    try:
        written = Written.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False)
        faults = [f"{source(item['loc']).where}: {told(item)}" for item in found[:MOST_TOLD]]
        more = [f"and {len(found) - MOST_TOLD} more"] if len(found) > MOST_TOLD else []
        raise SettingsFault("\n".join([*faults, *more])) from None
    values = {name: _absolute(name, value, source, base) for name, value in _said(written).items()}
    # Those of an untrusted file do not count: so many are looked at as a person would write.
    for name, pattern in islice(values.get("redaction.patterns", {}).items(), None if trusted else MOST_TOLD):
        _check_pattern(pattern, source(("redaction", "patterns", name)).where, name)
    rules = tuple((rule, source(("rules", number))) for number, rule in enumerate(written.rules))
    for rule, origin in rules:
        if rule.tool is None and rule.touch is None and rule.target is None and rule.risk is None:
            raise SettingsFault(f"{origin.where}: a rule needs at least one of `tool`, `touch`, `target`, `risk`")
    return Layer(values, rules, source, trusted, changed)


def _said(written: Written) -> dict[str, Any]:
    """The values that a layer gives, by their dotted names."""
    said: dict[str, Any] = {}
    for name in written.model_fields_set - {"rules"}:
        value = getattr(written, name)
        if isinstance(value, Section):
            said |= {f"{name}.{inner}": getattr(value, inner) for inner in value.model_fields_set}
        elif value is not None:
            said[name] = value
    return {name: said[name] for name in BY_NAME if name in said}


def _absolute(name: str, value: Any, source: Source, base: Base) -> Any:
    if name not in _FOLDERS or (name == "workspace.root" and value == SCRATCH):
        return value
    path = tuple(name.split("."))
    if isinstance(value, str):
        return base.folder(value, source(path).where)
    return tuple(base.folder(item, source((*path, number)).where) for number, item in enumerate(value))


def _check_pattern(pattern: str, where: str, name: str) -> None:
    """Refuse a pattern that the redactor could not use, or that would hide differently in a slice than in the whole."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise SettingsFault(f"{where}: redaction.patterns.{name}: is no regular expression: {_reason(error)}") from None
    if compiled.fullmatch("") is not None:
        raise SettingsFault(f"{where}: redaction.patterns.{name}: matches the empty text, so it would hide nothing")
    if anchor := re.search(r"\\[bBAz]|[$^]", _LITERALS.sub("", pattern)):
        raise SettingsFault(f"{where}: redaction.patterns.{name}: {anchor[0]} depends on what stands around a secret")


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _put(nested: dict[str, Any], path: tuple[str, ...], value: Any, where: str) -> None:
    *parents, last = path
    for part in parents:
        nested = nested.setdefault(part, {})
        if not isinstance(nested, dict):
            raise SettingsFault(f"{where}: {part!r} has a value already and holds no keys")
    known = nested.get(last)
    nested[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """Take what programs hand over for what a file would hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _variable(name: str, text: str) -> Any:
    """Read a variable's value as TOML where the setting is not plain text."""
    import tomllib

    known = BY_NAME.get(name)
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    if parsed.keys() != {"value"}:  # a line break smuggled in more keys
        return text
    value = parsed["value"]
    is_text = known is not None and (known.type == "text" or "|" in known.type)
    return text if is_text and not isinstance(value, str) else value


def _refuse_slip(variable: str, name: str) -> None:
    """A variable that was meant as a setting must not be passed over in silence."""
    if name in SECTIONS:
        raise SettingsFault(f"{variable}: names a section; write {PREFIX}{name.upper()}__KEY")
    section = next((item for item in SECTIONS if name.startswith(f"{item}_")), None)
    if section is not None:
        key = name.removeprefix(f"{section}_")
        raise SettingsFault(f"{variable}: write {PREFIX}{section.upper()}__{key.upper()}, with two underscores")
    near = nearest(name, _TOP, 0.7)
    if near is not None:
        raise SettingsFault(f"{variable}: no such setting; did you mean {PREFIX}{near.upper()}?")
