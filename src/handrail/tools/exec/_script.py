"""How a script is run: where it may lie, and which program reads it, by its first line or its name. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from posixpath import normpath

from handrail.errors import Code, Problem
from handrail.spelling import nearest

MAX_LINE = 256  # bytes; what Linux itself reads of a first line
BY_EXTENSION: Mapping[str, tuple[str, ...]] = {
    ".py": ("python3",),
    ".sh": ("sh",),
    ".bash": ("bash",),
    ".js": ("node",),
    ".mjs": ("node",),
    ".rb": ("ruby",),
    ".pl": ("perl",),
}
_ENV = re.compile(r"(?:/usr)?/bin/env")
_SPLIT = ("-S", "--split-string", "-vS")
_PLAIN = re.compile(r"[^\s'\"\\$`;|&<>(){}*?\[\]~#!]+")


def need_script_folder(script: str, folders: Sequence[str], files: Sequence[str]) -> None:
    """Refuse a script outside the folders whose programs may be run; INVALID_ARGS names what there is instead."""
    if ".." in script.split("/") or _lies_in(script, folders):  # the first is refused with the path itself
        return
    runnable = [path for path in files if _lies_in(path, folders)]
    meant = [path for path in runnable if path.endswith(f"/{script.strip('/')}")]
    near = meant or nearest(script, runnable, 3, 0.6)
    where = " and ".join(f"{normpath(folder)}/" for folder in folders) or "no folder"
    text = f"{script!r} does not lie in {where} of the skill, whose programs alone can be run."
    if near:
        text += f" Did you mean {' or '.join(near)}?"
    if script in files and not meant:
        wider = json.dumps([*folders, script.rpartition("/")[0] or "."])
        text += f" A person can open its folder: `skills.script_folders = {wider}`."
    raise Problem(Code.INVALID_ARGS, text, script=script, near=near)


def _lies_in(path: str, folders: Sequence[str]) -> bool:
    plain = normpath(path)
    if plain.startswith(("/", "..")) or plain == "." or path.endswith("/"):
        return False
    return any(normpath(folder) == "." or plain.startswith(f"{normpath(folder)}/") for folder in folders)


def command_of(path: str, data: bytes) -> tuple[str, ...]:
    """The program and its options, then the script's path; INVALID_ARGS where nothing says which program."""
    return (*(_first_line(path, data) or _by_name(path)), path)


def _first_line(path: str, data: bytes) -> tuple[str, ...]:
    """The words of `#!`: the program, then one option as it stands, as Linux reads them; `env` is looked through."""
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    if not data.startswith(b"#!"):
        return ()
    line, end, _ = data[: MAX_LINE + 1].partition(b"\n")
    if not end and len(data) > MAX_LINE:
        raise _unusable(path, f"its first line is over {MAX_LINE} bytes")
    try:
        text = line[2:].decode("ascii").strip()
    except UnicodeDecodeError:
        raise _unusable(path, "its first line is not plain text") from None
    program, _, option = text.partition(" ") if " " in text else text.partition("\t")
    option = option.strip()
    if _ENV.fullmatch(program):
        return _through_env(path, option)
    if not program.startswith("/") or not _PLAIN.fullmatch(program):
        raise _unusable(path, f"its first line names no program: {text[:60]!r}")
    return (program, option) if option else (program,)


def _through_env(path: str, option: str) -> tuple[str, ...]:
    """The program that `env` would look for; assignments and further options of `env` are not taken."""
    words = option.split()
    if words and words[0] in _SPLIT:
        words = words[1:]
    elif len(words) > 1:
        raise _unusable(path, f"`env` takes one word without -S: {option[:60]!r}")
    if not words or words[0].startswith("-") or "=" in words[0] or not all(_PLAIN.fullmatch(word) for word in words):
        raise _unusable(path, f"its first line asks `env` for {option[:60]!r}")
    return tuple(words)


def _by_name(path: str) -> tuple[str, ...]:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    found = BY_EXTENSION.get(name[dot:].lower(), ()) if dot > 0 else ()
    if not found:
        known = ", ".join(BY_EXTENSION)
        raise _unusable(path, f"it neither starts with `#!` nor ends in one of {known}")
    return found


def _unusable(path: str, why: str) -> Problem:
    name = path.rpartition("/")[2]
    return Problem(Code.INVALID_ARGS, f"Which program runs {name} is not clear: {why}.", script=name)
