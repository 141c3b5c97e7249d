"""What the list of tools says of the reference filesystem server's tools beside their names: of use to a model only.

The schemas that calls are held against stay bare, so that a call is checked in no more time than that takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.dialects._dialect import Word
from handrail.words import Json


def _object(**fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
_STRING = {"type": "string"}
_RESOURCE = {**_object(uri=_STRING, mimeType=_STRING, blob=_STRING), "required": ["uri", "blob"]}
_BLOCK = {
    "anyOf": [
        _object(type={"type": "string", "enum": ["image", "audio"]}, data=_STRING, mimeType=_STRING),
        _object(type={"type": "string", "const": "resource"}, resource=_RESOURCE),
    ]
}
_TEXT = {**_DRAFT, **_object(content=_STRING)}
_BLOCKS = {**_DRAFT, **_object(content={"type": "array", "items": _BLOCK})}
_FILE = {"path": {"description": "the file, below one of the folders that list_allowed_directories gives"}}
_FOLDER = {"path": {"description": "the folder, or one of those that list_allowed_directories gives"}}
_READING = {
    **_FILE,
    "head": {"description": "how many lines from the beginning; left out or 0: all of them. Not together with `tail`"},
    "tail": {"description": "how many lines from the end; left out or 0: all of them. Not together with `head`"},
}
_EDIT = {
    "oldText": {"type": "string", "description": "text that stands in the file; its first place is changed"},
    "newText": {"type": "string", "description": "what is to stand there instead"},
}
_LEFT_OUT = {"description": "globs of what is left out, with all below it", "default": []}

# tool -> argument -> what its schema says besides
_SAID: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "read_text_file": _READING,
    "read_file": _READING,
    "read_media_file": _FILE,
    "read_multiple_files": {"paths": {"description": "the files to read, at least one"}},
    "write_file": {
        "path": {"description": "the file; folders on the way to it that are missing are made"},
        "content": {"description": "all that the file is to hold"},
    },
    "edit_file": {
        **_FILE,
        "edits": {
            "description": "what to change; all are looked for in the file as it is, and all are made or none",
            "items": {
                "type": "object",
                "properties": _EDIT,
                "required": ["oldText", "newText"],
                "additionalProperties": False,
            },
        },
        "dryRun": {"description": "only show the diff, and write nothing", "default": False},
    },
    "create_directory": {"path": {"description": "the folder; it may be there already"}},
    "list_directory": _FOLDER,
    "list_directory_with_sizes": {
        **_FOLDER,
        "sortBy": {"description": "by name, or the largest first", "default": "name"},
    },
    "directory_tree": {
        **_FOLDER,
        "excludePatterns": {**_LEFT_OUT, "description": f"{_LEFT_OUT['description']}; a plain name at any depth"},
    },
    "move_file": {
        "source": {"description": "the file or folder to move"},
        "destination": {"description": "its new path, not the folder to move it into; nothing may stand there"},
    },
    "search_files": {
        "path": {"description": "the folder to search below"},
        "pattern": {"description": "a glob for the path below that folder: `*` within a name, `**` across folders"},
        "excludePatterns": _LEFT_OUT,
    },
    "get_file_info": {"path": {"description": "a file or folder; a link tells of what it leads to"}},
}
# What our tool does only sometimes, and this one always: the same content twice is the same file.
_HINTS: Mapping[str, Mapping[str, bool]] = {"write_file": {"idempotentHint": True}}


def entry(word: Word) -> dict[str, Json]:
    """What the document's list says beside names and what our own hints do not know."""
    title = " ".join(part.capitalize() for part in word.name.split("_")).replace(" With ", " with ")
    title += " (Deprecated)" if word.name == "read_file" else ""
    said = _SAID.get(word.name, {})
    fields = {name: {**field, **said.get(name, {})} for name, field in word.args["properties"].items()}
    told: dict[str, Json] = {
        "title": title,
        "inputSchema": {**word.args, "properties": fields},
        "outputSchema": _BLOCKS if word.name == "read_media_file" else _TEXT,
    }
    return {**told, "annotations": dict(_HINTS[word.name])} if word.name in _HINTS else told
