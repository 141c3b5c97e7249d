"""Commands to go on with, as they can be run: with the options that the one before was given."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handrail.words import ErrorInfo, Ref

_CALL = ("run_id", "enable", "skill", "dialect", "workspace", "config", "preset")
_TOOLS = ("dialect", "workspace", "config", "preset")
_EXPLAIN = ("enable", "permissions", "skill", "workspace", "config", "preset")
_LONG = 200  # characters of an argument
_REST = re.compile(r"the rest: read_file (\{[^{}\n]*\})")


def suggested(error: ErrorInfo, given: Mapping[str, Any]) -> str | None:
    """The command that mends a problem, in the dialect of the one that had it; None where there is none."""
    call, theirs = error.next_call, given.get("dialect")
    if call is not None and theirs not in (None, "native"):
        from handrail.dialects import get

        call = get(theirs).said(call)
    if call is not None:
        return command_of(call, given)
    if error.code == "UNKNOWN_TOOL":
        near = error.details.get("near") or [""]
        return _joined("tools", *(("show", near[0]) if near[0] else ("list",)), *_flags(given, _TOOLS))
    if error.next_call is not None or error.code == "INVALID_ARGS":
        return _joined("tools", "show", given["tool"], *_flags(given, _TOOLS)) if given.get("tool") else None
    return None


def command_of(call: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Write a call as the command that makes it."""
    args, start = call.get("args") or {}, ("call", *_flags(given, _CALL), str(call["tool"]))
    if all(isinstance(value, str) and _stays_text(value) for value in args.values()):
        return _joined(*start, *(f"{name}={value}" for name, value in args.items()))
    import orjson

    return _joined(*start, "--args", orjson.dumps(args, default=str).decode())


def explaining(tool: str, given: Mapping[str, Any]) -> str:
    """The command that explains how the same call is judged; policy speaks our own names."""
    if not given.get("tool") or given.get("dialect") not in (None, "native"):
        return f"handrail policy explain {tool} … (the same arguments)"
    raw = () if given.get("raw") is None else ("--args", given["raw"])
    return _joined("policy", "explain", *_flags(given, _EXPLAIN), tool, *map(_shortened, (*given["pairs"], *raw)))


def fetchable(text: str, refs: Sequence[Ref], run_id: str, given: Mapping[str, Any]) -> str:
    """Write where the rest of a cut text is as a command: another one finds it only in the same run."""
    kept = {ref.ref for ref in refs}

    def command(notice: re.Match[str]) -> str:
        try:
            args = json.loads(notice[1])
        except ValueError:
            return notice[0]
        # A file may hold such a line, too.
        if not isinstance(args.get("path"), str) or args["path"] not in kept:
            return notice[0]
        pairs = [f"{name}={value}" for name, value in args.items()]
        flags = _flags({**given, "run_id": run_id}, ("run_id", "workspace", "config", "preset"))
        return f"the rest: {_joined('call', *flags, 'read_file', *pairs)}"

    return _REST.sub(command, text)


def _flags(given: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Those of the options that were given, as they were."""
    words: list[str] = []
    for name in names:
        value, flag = given.get(name), f"--{name.removesuffix('_id')}"
        if isinstance(value, str) and (name, value) != ("workspace", "."):
            words += (flag, value)
        elif isinstance(value, (list, tuple)):
            words += (word for item in value for word in (flag, str(item)))
    return words


def _joined(*words: str) -> str:
    return shlex.join(("handrail", *words))


def _shortened(word: str) -> str:
    return word if len(word) <= _LONG else f"{word[:_LONG]}…"


def _stays_text(value: str) -> bool:
    return bool(value) and "\n" not in value and len(value) < _LONG
