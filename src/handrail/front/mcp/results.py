"""Tools and outcomes in the shapes of MCP: pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from handrail import dialects
from handrail.front.mcp.wire import OUTCOME_KEY
from handrail.words import How, Json, Outcome, TouchKind

if TYPE_CHECKING:
    from handrail.catalog import Tool

# Kinds that may take something away that was there; a write that only adds is the one in `_adds_only`.
_DESTRUCTIVE = frozenset(
    {TouchKind.FS_WRITE, TouchKind.FS_DELETE, TouchKind.PROC_EXEC, TouchKind.NET_CONNECT, TouchKind.GIT_WRITE}
)
_ONLY_ASKS = frozenset({TouchKind.FS_READ, TouchKind.TOOL_USE, TouchKind.NET_CONNECT})
_OPEN_WORLD = frozenset({TouchKind.PROC_EXEC, TouchKind.NET_CONNECT})


def tool_entry(tool: Tool) -> dict[str, Json]:
    """Describe a tool as `tools/list` does; making schemas takes long, so each is made once."""
    known = _ENTRIES.pop(id(tool), None)
    if known is None or known[0] is not tool:
        known = (tool, _entry(tool))
    _ENTRIES[id(tool)] = known
    if len(_ENTRIES) > _MOST_ENTRIES:
        del _ENTRIES[next(iter(_ENTRIES))]
    return known[1]


# By identity, with the tool itself kept, so that no other can have its place; the least used makes room.
_ENTRIES: dict[int, tuple[Tool, dict[str, Json]]] = {}
_MOST_ENTRIES = 500


def is_wrapped(tool: Tool) -> bool:
    """Whether a tool's data is no object, so that results put it into one."""
    return bool(tool.shape.result_schema().get("type") != "object")


def _entry(tool: Tool) -> dict[str, Json]:
    spec = tool.spec()
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": spec["args_schema"],
        "outputSchema": output_schema(spec["return_schema"]),
        "annotations": hints(tool),
        "_meta": {"handrail/version": tool.version, "handrail/toolset": tool.toolset, "handrail/risk": tool.risk.value},
    }


def hints(tool: Tool) -> dict[str, bool]:
    """Tell what calls of a tool may do, from what it declares; one that declares nothing may do anything."""
    kinds = frozenset(tool.permissions)
    unknown = not kinds and not tool.pure
    destroys = tool.does == "destroys"
    reads = not destroys and (not tool.changing or _asks_only(tool))
    may_destroy = unknown or (bool(kinds & _DESTRUCTIVE) and not _adds_only(tool))
    return {
        "readOnlyHint": reads,
        "destructiveHint": destroys or (not reads and may_destroy),
        "idempotentHint": reads or _adds_only(tool),
        "openWorldHint": unknown or bool(kinds & _OPEN_WORLD),
    }


def _asks_only(tool: Tool) -> bool:
    """Whether a tool that reaches others says that it only reads there; one that writes cannot say so."""
    return tool.does == "reads" and bool(tool.permissions) and _ONLY_ASKS.issuperset(tool.permissions)


def _adds_only(tool: Tool) -> bool:
    """Whether a tool only makes what is not there yet: all its touches stand in its signature, and are plain."""
    marks = [mark for _, mark in tool.targets]
    plain = all(mark.kind is TouchKind.FS_WRITE and mark.how in (How.PLAIN, How.MAKE) for mark in marks)
    return bool(marks) and plain and tool.touches_of is None and frozenset(tool.permissions) == {TouchKind.FS_WRITE}


def output_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make a schema that describes an object, which is all that structured content can be."""
    if schema.get("type") == "object":
        return dict(schema)
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {"$defs": schema["$defs"], **wrapped} if "$defs" in schema else wrapped


def short_entry(entry: Mapping[str, Json]) -> dict[str, Json]:
    """Describe a tool without what only programs read."""
    kept = {name: value for name, value in entry.items() if name != "_meta"}
    return {**kept, "outputSchema": _short_schema(entry["outputSchema"])}


def _short_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an object by the names and types of its parts alone: each value that fits the whole schema fits this."""
    parts = {name: _type_of(part) for name, part in schema.get("properties", {}).items()}
    return {"type": "object", "properties": parts}


def _type_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give a schema that knows the type alone, or nothing where that is not one of a few words."""
    if "$ref" in schema:
        return {"type": "object"}  # a definition of ours is always one of a dataclass
    kinds = [_type_of(item).get("type") for item in schema.get("anyOf", ())]
    if kinds and all(isinstance(kind, str) for kind in kinds):
        return {"type": list(dict.fromkeys(kinds))}
    return {"type": schema["type"]} if "type" in schema else {}


def call_result(outcome: Outcome, *, wrapped: bool = False) -> dict[str, Any]:
    """Give an outcome as the result of `tools/call`: text, data, and the rest of the envelope beside them.

    A problem keeps its code, message, details and next call in the text, so that a model can mend its own call.
    """
    content = [{"type": "text", "text": outcome.content}, *_media(outcome)]
    rest = outcome.to_dict()
    del rest["content"]
    data = rest.pop("data")
    result: dict[str, Any] = {"content": content, "isError": outcome.error is not None, "_meta": {OUTCOME_KEY: rest}}
    if outcome.error is None:
        if wrapped or data.__class__ is dict:
            result["structuredContent"] = {"result": data} if wrapped else data
        else:
            # Too large to hand over: a client that was promised structured content would fail on a plain success.
            result["isError"] = True
    return result


def _media(outcome: Outcome) -> list[dict[str, Any]]:
    """An image or a sound as content that a client shows."""
    if outcome.tool != "read_media" or outcome.data is None:
        return []
    kind = outcome.data["mime_type"]
    family = kind.partition("/")[0]
    if family not in ("image", "audio"):
        return []
    return [{"type": family, "data": outcome.data["base64"].replace("\n", ""), "mimeType": kind}]


def spoken_result(outcome: Outcome, name: str, asked: Mapping[str, Json]) -> dict[str, Any]:
    """Give an outcome in a dialect's envelope: as it is where that is a result already, else as text and data."""
    reply = dialects.get(name).reply
    envelope = outcome.to(name) if reply is None else reply(outcome, asked)
    rest = outcome.to_dict()
    del rest["content"], rest["data"]
    if isinstance(envelope.get("content"), list):
        return {**envelope, "_meta": {OUTCOME_KEY: rest}}
    text = orjson.dumps(envelope, default=str).decode()
    shown = {"content": [{"type": "text", "text": text}], "structuredContent": envelope}
    return {**shown, "isError": outcome.error is not None, "_meta": {OUTCOME_KEY: rest}}


def outcome_of(result: Mapping[str, Any], *, wrapped: bool = False) -> dict[str, Any]:
    """Give the envelope back that a result was made from: what a client of ours and tests read."""
    rest = dict(result["_meta"][OUTCOME_KEY])
    data = result.get("structuredContent")
    text = result["content"][0]["text"]
    return {**rest, "content": text, "data": data["result"] if wrapped and data is not None else data}
