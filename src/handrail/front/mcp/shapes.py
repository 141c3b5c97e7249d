"""Shapes of messages: which ones are exactly as the protocol says, and what is told without asking the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.front.mcp import wire
from handrail.front.mcp.door import INSTRUCTIONS, capabilities, server_info
from handrail.front.mcp.ongoing import Peer
from handrail.front.mcp.wire import HANDSHAKE_VERSIONS, MODERN_VERSION, SERVER_KEY

_CACHED = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "server/discover"}
)
_UNCACHED: Mapping[str, Any] = {"ttlMs": 0, "cacheScope": "private"}


def told(method: str, peer: Peer) -> dict[str, Any] | None:
    """What is answered without asking the runtime; None for what is not known here."""
    if method == "ping" and not peer.modern:
        return {}
    about = {"capabilities": capabilities(modern=peer.modern), "instructions": INSTRUCTIONS}
    if method == "server/discover" and peer.modern:
        return {"supportedVersions": [MODERN_VERSION], **about}
    if method == "initialize" and not peer.modern:
        return {"protocolVersion": peer.version, "serverInfo": server_info(), **about}
    return None


def stamped(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """Give a result what the stateless era wants in every one."""
    meta = {**result.get("_meta", {}), SERVER_KEY: server_info()}
    cache = _UNCACHED if method in _CACHED else {}
    return {"resultType": "complete", **cache, **result, "_meta": meta}


def is_call(params: Any) -> bool:
    """Whether params are those of a call, in the shape that the protocol says."""
    if params.__class__ is not dict or params.get("name").__class__ is not str:
        return False
    if params.get("arguments", {}).__class__ is not dict:
        return False
    return "_meta" not in params or has_plain_meta(params)


def has_plain_meta(params: Mapping[str, Any]) -> bool:
    """Whether the `_meta` of a request, where it has any, has the shape that the protocol says."""
    meta = params.get("_meta")
    if meta is None:
        return "_meta" not in params
    return meta.__class__ is dict and ("progressToken" not in meta or wire.is_id(meta["progressToken"]))


def is_handshake(params: Any) -> bool:
    """Whether params are those of `initialize`, in the shape that the protocol says."""
    if params.__class__ is not dict or not has_plain_meta(params):
        return False
    info = params.get("clientInfo")
    named = info.__class__ is dict and info.get("name").__class__ is str and info.get("version").__class__ is str
    return named and params.get("protocolVersion").__class__ is str and params.get("capabilities").__class__ is dict


def negotiated(params: Mapping[str, Any]) -> str:
    """The version that a handshake ends with."""
    asked: str = params["protocolVersion"]
    return asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
