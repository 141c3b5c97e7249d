"""The schemas of tool-hub, as its document prints them; where it names only fields, those fields."""

from __future__ import annotations

from typing import Any

from handrail.dialects._schema import properties

DEFAULT_GLOB = "**/*.{md,txt,log,json,ts,js,py,java,scala}"
_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_HEADERS = {"type": "object", "additionalProperties": {"type": "string"}}
_URL = {"type": "string", "format": "uri"}
_CURSOR = {"type": "string"}
_FETCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "url": _URL,
        "method": {"type": "string", "enum": ["GET", "POST"]},
        "headers": _HEADERS,
        "body": {"type": ["string", "null"]},
        "timeoutMs": {"type": "integer", "minimum": 1000, "maximum": 60000},
        "maxBytes": {"type": "integer", "minimum": 1024, "maximum": 10485760},
    },
    "required": ["url"],
    "additionalProperties": False,
}
ARGS: dict[str, dict[str, Any]] = {
    "core/fs.readText": {
        "type": "object",
        "properties": {"path": _TEXT, "maxBytes": {"type": "integer", "minimum": 1024, "maximum": 10485760}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "core/fs.writeText": {
        "type": "object",
        "properties": {
            "path": _TEXT,
            "text": _TEXT,
            "overwrite": {"type": "boolean"},
            "mkdirp": {"type": "boolean"},
        },
        "required": ["path", "text"],
        "additionalProperties": False,
    },
    "core/fs.listDir": {
        "type": "object",
        "properties": {
            "path": _TEXT,
            "maxEntries": {"type": "integer", "minimum": 1, "maximum": 5000},
            "includeHidden": {"type": "boolean"},
            "recursive": {"type": "boolean"},
            "maxDepth": {"type": "integer", "minimum": 1, "maximum": 10},
            "cursor": _CURSOR,
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    "core/fs.searchText": {
        "type": "object",
        "properties": {
            "root": _TEXT,
            "query": _TEXT,
            "glob": _TEXT,
            "maxMatches": {"type": "integer", "minimum": 1, "maximum": 5000},
            "maxFiles": {"type": "integer", "minimum": 1, "maximum": 2000},
            "cursor": _CURSOR,
        },
        "required": ["root", "query"],
        "additionalProperties": False,
    },
    "core/fs.sha256": properties(path="string"),
    "core/fs.deletePath": properties(path="string", confirm_="boolean"),
    "core/http.fetchText": {**_FETCH, "properties": {**_FETCH["properties"], "cursor": _CURSOR}},
    "core/http.fetchJson": _FETCH,
    "core/http.downloadFile": {
        "type": "object",
        "properties": {
            "url": _URL,
            "destPath": _TEXT,
            "timeoutMs": {"type": "integer", "minimum": 1000, "maximum": 120000},
            "maxBytes": {"type": "integer", "minimum": 1024, "maximum": 104857600},
            "overwrite": {"type": "boolean"},
        },
        "required": ["url", "destPath"],
        "additionalProperties": False,
    },
    "core/http.head": properties(
        url=_URL, headers_=_HEADERS, timeoutMs_={"type": "integer", "minimum": 1000, "maximum": 60000}
    ),
    "core/util.json.select": properties(json={}, path="string"),
    "core/util.text.truncate": properties(text="string", maxChars={"type": "integer", "minimum": 0}),
    "core/util.hash.sha256Text": properties(text="string"),
    "core/util.time.now": properties(timezone_="string"),
    "core/util.template.render": properties(template="string", data_={}),
}
_ENTRY = properties(name="string", type="string", size="integer", mtime="string")
_MATCH = properties(file="string", lineNo="integer", excerpt="string")
_HASHED = properties(path="string", bytes="integer", sha256="string")
RESULTS: dict[str, dict[str, Any]] = {
    "core/fs.readText": properties(path="string", text="string", bytes="integer"),
    "core/fs.writeText": _HASHED,
    "core/fs.listDir": properties(entries={"type": "array", "items": _ENTRY}, nextCursor_="string"),
    "core/fs.searchText": properties(matches={"type": "array", "items": _MATCH}, nextCursor_="string"),
    "core/fs.sha256": properties(sha256="string", bytes="integer"),
    "core/fs.deletePath": properties(path="string", removed="integer"),
    "core/http.fetchText": {
        "type": "object",
        "properties": {"url": _TEXT, "status": _COUNT, "headers": _HEADERS, "text": _TEXT, "bytes": _COUNT}
        | {"nextCursor": _CURSOR, "fileRef": _TEXT},
        "required": ["url", "status", "text", "bytes"],
        "additionalProperties": False,
    },
    "core/http.fetchJson": properties(json={}, status="integer"),
    "core/http.downloadFile": properties(destPath="string", bytes="integer", sha256="string"),
    "core/http.head": properties(status="integer", headers=_HEADERS),
    "core/util.json.select": properties(value={}, fileRef_="string"),
    "core/util.text.truncate": properties(text="string", fileRef_="string"),
    "core/util.hash.sha256Text": properties(sha256="string"),
    "core/util.time.now": properties(iso="string", epochMs="integer", timezone="string"),
    "core/util.template.render": properties(text="string", fileRef_="string"),
}
