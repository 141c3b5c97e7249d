"""mcp-filesystem: the tools of the reference MCP filesystem server, as far as ours serve them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from handrail.dialects._dialect import Args, Dialect, Event, Message, Word, one_call
from handrail.dialects._schema import properties
from handrail.dialects._telling import finished, problem, spoken_call
from handrail.errors import Code
from handrail.words import Json, Outcome

DEEPEST = 10
ONE = {"type": "integer", "minimum": 1}
STRINGS = {"type": "array", "items": {"type": "string"}}
EDITS = {"type": "array", "items": properties(oldText="string", newText="string")}


def _read(args: Args) -> Args:
    head = args.pop("head", None)
    return args if head is None else {**args, "limit": head}


def _edit(args: Args) -> Args:
    edits = [{"old": edit["oldText"], "new": edit["newText"], "match": "first"} for edit in args["edits"]]
    return {**args, "edits": edits}


def _sizes(args: Args) -> Args:
    sort = args.pop("sortBy", "name")
    return {**args, "sort": sort}


def _listed(outcome: Outcome) -> str:
    return "\n".join(
        f"{'[DIR]' if item['type'] == 'directory' else '[FILE]'} {item['name']}" for item in outcome.data["entries"]
    )


def _listed_sizes(outcome: Outcome) -> str:
    rows = outcome.data["entries"]
    lines = [
        f"[DIR] {item['name']}" if item["type"] == "directory" else f"[FILE] {item['name']} {item['size']} B"
        for item in rows
    ]
    files = [item for item in rows if item["type"] != "directory"]
    total = f"Total: {len(files)} files, {len(rows) - len(files)} directories"
    return "\n".join([*lines, "", total, f"Combined size: {sum(item['size'] for item in files)} B"])


def _tree(outcome: Outcome) -> str:
    """A JSON tree of {name, type, children}, from entries whose names are paths below the folder."""
    top: list[dict[str, Any]] = []
    known: dict[str, list[dict[str, Any]]] = {"": top}
    for item in sorted(outcome.data["entries"], key=lambda entry: entry["name"].split("/")):
        folder, _, name = item["name"].rpartition("/")
        node: dict[str, Any] = {"name": name, "type": "directory" if item["type"] == "directory" else "file"}
        if node["type"] == "directory":
            known[item["name"]] = node["children"] = []
        known.get(folder, top).append(node)
    return json.dumps(top, indent=2, ensure_ascii=False)


def _info(outcome: Outcome) -> str:
    data = outcome.data
    kind = data["type"]
    told = {
        "size": data["size"],
        "modified": data["mtime"],
        "isDirectory": str(kind == "directory").lower(),
        "isFile": str(kind == "file").lower(),
        "permissions": data["mode"][-3:],
    }
    return "\n".join(f"{name}: {value}" for name, value in told.items())


WORDS = (
    Word(
        "read_text_file",
        "read_file",
        "Read the contents of a text file; `head` or `tail` for its first or last lines.",
        properties(path="string", tail_=ONE, head_=ONE),
        inward=_read,
        outward=lambda outcome: outcome.data["text"],
    ),
    Word(
        "write_file",
        "write_file",
        "Create a file, or replace one with new content.",
        properties(path="string", content="string"),
        always={"mode": "overwrite", "expected_sha256": "*"},
        back=lambda args: {"path": args["path"], "content": args["content"]},
        outward=lambda outcome: f"Successfully wrote to {outcome.data['path']}",
    ),
    Word(
        "edit_file",
        "edit_file",
        "Replace texts in a file, and show the diff.",
        properties(path="string", edits=EDITS, dryRun_="boolean"),
        names={"dryRun": "dry_run"},
        inward=_edit,
        back=lambda _: None,
        outward=lambda outcome: outcome.data["diff"],
    ),
    Word(
        "create_directory",
        "make_dir",
        "Make a folder, with those above it.",
        properties(path="string"),
        outward=lambda outcome: f"Successfully created directory {outcome.data['path']}",
    ),
    Word("list_directory", "list_dir", "List a folder.", properties(path="string"), outward=_listed),
    Word(
        "list_directory_with_sizes",
        "list_dir",
        "List a folder with sizes.",
        properties(path="string", sortBy_={"type": "string", "enum": ["name", "size"]}),
        inward=_sizes,
        outward=_listed_sizes,
    ),
    Word(
        "directory_tree",
        "list_dir",
        "Show what lies below a folder as a JSON tree.",
        properties(path="string", excludePatterns_=STRINGS),
        names={"excludePatterns": "ignore"},
        always={"depth": DEEPEST},
        outward=_tree,
    ),
    Word(
        "move_file",
        "move_path",
        "Move or rename a file or folder; never over an existing one.",
        properties(source="string", destination="string"),
        names={"destination": "target"},
        outward=lambda outcome: f"Successfully moved {outcome.data['source']} to {outcome.data['target']}",
    ),
    Word(
        "search_files",
        "find_files",
        "Find files whose path fits a glob.",
        properties(path="string", pattern="string"),
        outward=lambda outcome: "\n".join(outcome.data["paths"]) or "No matches found",
    ),
    Word("get_file_info", "stat_path", "Tell what stands at a path.", properties(path="string"), outward=_info),
)


def _envelope(outcome: Outcome) -> dict[str, Json]:
    """A tool result of MCP: text content, `isError`, and for errors what would mend the call."""
    if outcome.error is not None:
        text = json.dumps(problem(outcome, DIALECT), ensure_ascii=False, default=str)
        return {
            "content": [{"type": "text", "text": f"{outcome.error.message}\n{text}"}],
            "isError": True,
        }
    word = DIALECT.of(outcome.tool, outcome.asked)
    known = isinstance(outcome.data, dict) and word is not None and word.outward is not None
    text = word.outward(outcome) if known and word is not None and word.outward is not None else outcome.content
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"content": text}, "isError": False}


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    for event in finished(events):
        if str(event.get("kind")).startswith("tool."):
            name, args = spoken_call(event, DIALECT)
            event = {**event, "tool": name, "args": args}
            event.pop("asked", None)
        yield dict(event)


def _messages(message: Mapping[str, Any]) -> Message:
    """The parameters of `tools/call`."""
    return one_call(message, "name", "arguments")


DIALECT = Dialect(
    name="mcp-filesystem",
    about="the reference MCP filesystem server",
    words={word.name: word for word in WORDS},
    errors={code: code.value for code in Code},
    envelope=_envelope,
    events=_events,
    approval=dict,
    messages=_messages,
    former={"read_file": "read_text_file"},
    refused={
        "read_media_file": "binary content is not handed to a model here; get_file_info tells what it is",
        "read_multiple_files": "one call reads one file, so that each is judged by itself: read_text_file for each",
        "list_allowed_directories": "paths are relative to the workspace; list_directory shows it",
    },
)
