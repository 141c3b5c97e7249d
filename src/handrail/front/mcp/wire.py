"""The protocol's own words, and JSON as it comes in and goes out. Nothing here knows a runtime or the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from handrail import strict_json

# As `mcp_types.version` has them; a test compares. Importing the SDK for a few words would double the start-up.
HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION: Final = "2026-07-28"
# Versions whose results have the same shape as ours; the SDK takes out for older ones what they do not know.
WHOLE_VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25", MODERN_VERSION})

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
CONNECTION_CLOSED: Final = -32000

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"
TASKS: Final = "io.modelcontextprotocol/tasks"
OUTCOME_KEY: Final = "handrail/outcome"  # in a result's `_meta`: the rest of our envelope

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
_MAX_PLAIN_DEPTH = 30

Params = Mapping[str, Any]


class Refused(Exception):
    """A request that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def parse(raw: bytes) -> Any:
    """Read one message strictly; ValueError with the reason."""
    try:
        value = orjson.loads(raw)
        # Every colon of a message stands behind a key or inside a text. As many colons as keys: no key stood twice.
        if _keys(value, 0) == raw.count(b":"):
            return value
    except ValueError:
        pass
    return strict_json.loads(raw)


def crooked(raw: bytes) -> tuple[str | int | None, dict[str, Any] | None]:
    """Of a message that cannot be read strictly: a request's id, so that nobody waits for an answer to it for ever.

    And the message itself where nothing is wrong but half a surrogate pair in the arguments of a call: these are
    refused by the gate that all arguments pass, in words from which a model can mend the call.
    """
    try:
        message = strict_json.loads(raw, half_pairs=True)
        request_id = _asked_as(message)
        if request_id is not None and message["method"] == "tools/call" and message["params"].__class__ is dict:
            strict_json.check({**message, "params": {**message["params"], "arguments": None}})
            return request_id, message
    except (ValueError, KeyError):
        request_id = _asked_as(_guessed(raw))
    return request_id, None


def unreadable(request_id: str | int | None, reason: str) -> Refused:
    """Say why a message is not read: one without an id is no message at all."""
    if request_id is None:
        return Refused(PARSE_ERROR, f"Parse error: {reason}")
    return Refused(INVALID_REQUEST, f"The message is no strict JSON: {reason}")


def _asked_as(message: Any) -> str | int | None:
    """The id of a request; None where a message is none, or an answer with it would be another's."""
    if message.__class__ is not dict or message.get("method").__class__ is not str or not is_id(message.get("id")):
        return None
    request_id: str | int = message["id"]
    return request_id if request_id.__class__ is int or strict_json.is_text(request_id) else None


def _guessed(raw: bytes) -> Any:
    """A message as plain `json` reads it, without an id that it names twice; None where that cannot be read either."""
    import json

    try:
        return json.loads(raw, object_pairs_hook=_named_once)
    except (ValueError, RecursionError):
        return None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs) and [name for name, _ in pairs].count("id") > 1:
        del found["id"]
    return found


def _keys(value: Any, depth: int) -> int:
    """Count the keys in a value; ValueError for what only the slow reader may judge."""
    if depth > _MAX_PLAIN_DEPTH:
        raise ValueError("deep")
    found = 0
    if value.__class__ is dict:
        found = len(value)
        value = value.values()
    elif value.__class__ is float:
        raise ValueError("perhaps a long integer")
    elif value.__class__ is not list:
        return 0
    for item in value:
        if item.__class__ is dict or item.__class__ is list or item.__class__ is float:
            found += _keys(item, depth + 1)
    return found


def dump(message: Any) -> bytes:
    """Write one message; half surrogates, which no JSON can hold, become question marks."""
    try:
        return orjson.dumps(message)
    except TypeError:
        import json

        text = json.dumps(message, ensure_ascii=False, default=str, allow_nan=False)
        return text.encode("utf-8", "replace")


def error(request_id: Any, refused: Refused) -> dict[str, Any]:
    """Write a JSON-RPC error response."""
    told: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        told["data"] = refused.data
    return {"jsonrpc": "2.0", "id": request_id, "error": told}


def is_id(value: Any) -> bool:
    """Whether a value can be a request's id."""
    return value.__class__ is str or value.__class__ is int


def is_modern(params: Any) -> bool:
    """Whether a request carries the envelope of the stateless era, whole and of the version spoken here."""
    meta = params.get("_meta") if params.__class__ is dict else None
    return (
        meta.__class__ is dict
        and meta.get(VERSION_KEY) == MODERN_VERSION
        and meta.get(CAPABILITIES_KEY).__class__ is dict
    )
