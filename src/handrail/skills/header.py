"""What SKILL.md says of itself. Pure: bytes in, a Header out, with everything that is wrong with it.

Strict where a guess could open something: encoding, size, duplicate keys, anchors, tags, the shape of `allowed-tools`.
Lenient where people write the same thing differently. A problem keeps a skill from being loaded; a remark is for its
author.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from handrail.skills.frontmatter import Unreadable, fields_of
from handrail.words import noun

MAX_FILE_BYTES = 1024 * 1024
MAX_HEADER_BYTES = 16 * 1024  # all headers are read before any skill is found
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500
MAX_ITEMS = 200
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
OURS = ("permissions",)  # what a skill says it needs; shown, never granted
_SPELLINGS = {"allowedtools": "allowed-tools"}
_FENCE = re.compile(r"---[ \t]*")
_UNSAFE = re.compile(r"[^\w.-]|[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@noun
class Header:
    """The fields of SKILL.md, its body, and what is wrong with them."""

    name: str = ""
    description: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] | None = None  # as written; None: not there, so it does not narrow
    permissions: tuple[str, ...] = ()
    body: str = ""
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()  # against the specification, but clear enough to be used


def read_header(data: bytes) -> Header:
    """Read SKILL.md; never raises: what cannot be read is a header with problems."""
    try:
        head, body = _parts(_text(data))
        raw, remarks = fields_of(head)
        return _header(_renamed(raw), body, remarks)
    except Unreadable as error:
        return Header(problems=(str(error),))


def _text(data: bytes) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise Unreadable(f"SKILL.md is over {MAX_FILE_BYTES} bytes")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable("SKILL.md is UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"SKILL.md is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if "\0" in text:
        raise Unreadable("SKILL.md holds NUL, so it is no text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parts(text: str) -> tuple[str, str]:
    """Split at the lines that are `---` and nothing else; one inside a value does not end the header."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not _FENCE.fullmatch(lines[first]):
        raise Unreadable("SKILL.md does not start with a header: its first line must be `---`")
    size = 0
    for number in range(first + 1, len(lines)):
        if _FENCE.fullmatch(lines[number]):
            return "\n".join(lines[first + 1 : number]), "\n".join(lines[number + 1 :]).strip("\n")
        size += len(lines[number].encode("utf-8", "replace")) + 1
        if size > MAX_HEADER_BYTES:
            raise Unreadable(
                f"the header of SKILL.md is over {MAX_HEADER_BYTES} bytes, or its closing `---` is missing"
            )
    raise Unreadable("the header of SKILL.md has no end: a line `---` must close it")


def _renamed(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields by the names we know; one written in two ways is there twice, which nobody can mean."""
    found: dict[str, Any] = {}
    for key, value in raw.items():
        name = key.strip().casefold().replace("_", "-")
        name = _SPELLINGS.get(name, name)
        if name in found:
            raise Unreadable(f"the header has `{name}` twice")
        found[name] = value
    return found


def _header(fields: Mapping[str, Any], body: str, remarks: Sequence[str]) -> Header:
    problems: list[str] = []
    notes = list(remarks)
    name = _name(fields, problems, notes)
    description = _line(fields, "description", problems)
    if not description and "description" in fields and not problems:
        problems.append("`description` is empty")
    elif "description" not in fields:
        problems.append("the header has no `description`")
    if len(description) > MAX_DESCRIPTION:
        notes.append(f"`description` has {len(description)} characters; the specification allows {MAX_DESCRIPTION}")
    compatibility = _line(fields, "compatibility", problems)
    if len(compatibility) > MAX_COMPATIBILITY:
        notes.append(f"`compatibility` is over {MAX_COMPATIBILITY} characters")
    unknown = sorted(set(fields) - {*FIELDS, *OURS})
    if unknown:
        notes.append(f"unknown fields, which are ignored: {', '.join(unknown[:10])}")
    tools = _names(fields["allowed-tools"], "allowed-tools", problems) if "allowed-tools" in fields else None
    return Header(
        name=name,
        description=description,
        license=_line(fields, "license", problems),
        compatibility=compatibility,
        metadata=_metadata(fields, problems),
        allowed_tools=tools,
        permissions=_asked(fields, tools or (), problems),
        body=body,
        problems=tuple(problems),
        remarks=tuple(notes),
    )


def _name(fields: Mapping[str, Any], problems: list[str], notes: list[str]) -> str:
    if "name" not in fields:
        problems.append("the header has no `name`")
        return ""
    name = unicodedata.normalize("NFKC", _line(fields, "name", problems))
    if not name:
        problems.append("`name` is empty or no text")
    elif len(name) > MAX_NAME:
        problems.append(f"`name` has {len(name)} characters; {MAX_NAME} is the most")
    elif bad := _UNSAFE.search(name):
        problems.append(f"`name` holds {bad[0]!r}; use letters, digits and hyphens")
    elif name != name.lower() or name[0] in "-._" or name[-1] in "-._" or "--" in name or set(name) & set("._"):
        notes.append(f"`name` is {name!r}; the specification wants lower case letters, digits and single hyphens")
    return name


def _line(fields: Mapping[str, Any], key: str, problems: list[str]) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        problems.append(f"`{key}` must be text")
        return ""
    return _CONTROL.sub("", value).strip()


def _metadata(fields: Mapping[str, Any], problems: list[str]) -> dict[str, str]:
    value = fields.get("metadata", "")
    if value in ("", {}):
        return {}
    if not isinstance(value, dict):
        problems.append("`metadata` must be a mapping of names to texts")
        return {}
    return {str(key): item for key, item in value.items() if isinstance(item, str)}


def _asked(fields: Mapping[str, Any], tools: Sequence[str], problems: list[str]) -> tuple[str, ...]:
    """What the skill says it needs: its own words, and the patterns behind the names of its tools."""
    inner = fields.get("metadata")
    given = fields.get("permissions", inner.get("permissions", "") if isinstance(inner, dict) else "")
    asked = _names(given, "permissions", problems)
    return tuple(dict.fromkeys([*asked, *(text for text in tools if "(" in text)]))


def _names(value: Any, key: str, problems: list[str]) -> tuple[str, ...]:
    """Names as a list, or as text with commas or spaces between them; never inside parentheses."""
    found: list[str] = []
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str):
            problems.append(f"`{key}` must be a list of names, or names with commas or spaces between them")
            return ()
        parts = split_names(text)
        if parts is None:
            problems.append(f"`{key}`: the parentheses in {text[:100]!r} do not match")
            return ()
        found += parts
    if len(found) > MAX_ITEMS:
        problems.append(f"`{key}` has {len(found)} names; {MAX_ITEMS} is the most")
        return ()
    return tuple(dict.fromkeys(found))


def split_names(text: str) -> list[str] | None:
    """Split at commas and spaces that stand outside parentheses; None where these do not match."""
    names, name, depth = [], "", 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return None
        if depth == 0 and (char == "," or char.isspace()):
            names.append(name)
            name = ""
        else:
            name += char
    names.append(name)
    clean = [_CONTROL.sub("", item).strip("'\"`") for item in names]
    return None if depth else [item for item in clean if item]
