"""Syntax of JSON, TOML and YAML, checked in-process on the bytes that were read; bounded. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from handrail.tools.quality._diagnostics import Diagnostic

MAX_BYTES = 1 << 20  # parsers of hostile text take their time
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
Checker = Callable[[str, str], Diagnostic | None]


def checker_for(name: str) -> Checker | None:
    """The check for a file, by its name."""
    return _CHECKERS.get(name.rpartition(".")[2].lower()) if "." in name else None


def check_json(text: str, file: str) -> Diagnostic | None:
    """The first fault of a JSON text."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _fault(file, error.lineno, error.colno, error.msg, "json")
    except RecursionError:
        return _fault(file, 0, 0, "nested too deep to be read", "json")
    except ValueError as error:  # a number of too many digits
        return _fault(file, 0, 0, str(error), "json")
    return None


def check_toml(text: str, file: str) -> Diagnostic | None:
    """The first fault of a TOML text."""
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        at = _AT.search(message)
        line, column = (int(at[1]), int(at[2])) if at and at[1] else (text.count("\n") + 1, 0)
        return _fault(file, line, column, _AT.sub("", message), "toml")
    except (RecursionError, ValueError) as error:
        return _fault(file, 0, 0, str(error) or "nested too deep to be read", "toml")
    return None


def check_yaml(text: str, file: str) -> Diagnostic | None:
    """The first fault of a YAML text; aliases are not followed, so none can blow up."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        for _ in yaml.parse(text, Loader=loader):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        return _fault(file, line, column, error.problem or str(error), "yaml")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return _fault(file, 0, 0, str(error).split("\n")[0] or "nested too deep to be read", "yaml")
    return None


def _fault(file: str, line: int, column: int, message: str, source: str) -> Diagnostic:
    return Diagnostic(file, line, column, "error", "syntax", message, source)


_CHECKERS: dict[str, Checker] = {"json": check_json, "toml": check_toml, "yaml": check_yaml, "yml": check_yaml}
