"""Syntax of JSON, TOML and YAML, checked in-process on the bytes that were read; bounded. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from handrail.errors import Code, Problem
from handrail.tools.quality._diagnostics import Diagnostic, one_line

MAX_BYTES = 1 << 20  # parsers of hostile text take their time
MAX_DEPTH = 200
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
MAX_PARTS = 100  # of a dotted key
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_PARTS}}}", re.MULTILINE)
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
    """The first fault of a TOML text; Problem for one that would take forever."""
    import tomllib

    # The parser takes the square of a key's parts, and no thread of it can be stopped.
    if found := _LONG_KEY.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise Problem(Code.FILE_TOO_LARGE, f"line {line} reads like a key of more than {MAX_PARTS} parts.")
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
    depth = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            # Each further level makes every token dearer, for as long as there is text.
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 0
                return _fault(file, line, 0, f"nested more than {MAX_DEPTH} levels deep", "yaml")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        return _fault(file, line, column, error.problem or str(error), "yaml")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return _fault(file, 0, 0, str(error).split("\n")[0] or "nested too deep to be read", "yaml")
    return None


def _fault(file: str, line: int, column: int, message: str, source: str) -> Diagnostic:
    return Diagnostic(file, line, column, "error", "syntax", one_line(message), source)


_CHECKERS: dict[str, Checker] = {"json": check_json, "toml": check_toml, "yaml": check_yaml, "yml": check_yaml}
