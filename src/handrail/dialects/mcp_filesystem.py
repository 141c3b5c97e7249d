"""mcp-filesystem: the tools of the reference MCP filesystem server, with its names, schemas and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from handrail.dialects import mcp_filesystem_steps as steps
from handrail.dialects import mcp_filesystem_told as told
from handrail.dialects._dialect import Args, Dialect, Event, Message, Steps, Word, one_call
from handrail.dialects._schema import properties
from handrail.dialects._telling import asked_for, finished, problem, spoken_call
from handrail.dialects._usual import USUAL
from handrail.dialects._wording import retold
from handrail.dialects.mcp_filesystem_globs import leaving_out, read_glob
from handrail.dialects.mcp_filesystem_listed import entry
from handrail.errors import Code, Problem
from handrail.words import Json, Outcome

# Of lines; 0 is what many clients send for what is not given.
COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
STRINGS = {"type": "array", "items": {"type": "string"}}
PATHS = {**STRINGS, "minItems": 1}
EDITS = {"type": "array", "items": properties(oldText="string", newText="string")}
SORTS = {"type": "string", "enum": ["name", "size"]}
_DRIVE = re.compile(r"[A-Za-z]:(?:[\\/]|$)")


def _read(args: Args) -> Args:
    """The first of the steps where a part is asked for; 0 lines are none that anybody asked for."""
    head, tail = args.get("head"), args.get("tail")
    if head and tail:
        raise Problem(Code.INVALID_ARGS, "`head` and `tail` cannot both be given; leave one of them out.", field="tail")
    part = {"limit": head} if head else {"tail": tail} if tail else {"whole": True}
    return {"path": args["path"], **part}


def _said_read(args: Args) -> Args | None:
    if set(args) - {"path", "limit", "tail", "whole"}:
        return None
    rest = {name: value for name, value in args.items() if name in ("path", "tail") and value is not None}
    # Where ours says nothing it reads a part, and the document's the whole.
    is_whole = args.get("whole") or "tail" in rest
    head = args.get("limit") if is_whole else args.get("limit", USUAL["read_file"]["limit"])
    return rest if head is None else {**rest, "head": head}


def _named(args: Args) -> Args:
    """What makes something new takes no path of another system: it would become one strange name here."""
    for ours, name in (("path", "path"), ("target", "destination")):
        if _DRIVE.match(args.get(ours, "")):
            told = f"{args[ours]} begins with a drive's letter, which names nothing on this machine"
            raise Problem(Code.INVALID_ARGS, f"`{name}`: {told}.", field=name)
    return args


def _tree(args: Args) -> Args:
    """Refuse what the steps have refused."""
    leaving_out(args["ignore"], names=True)
    return args


def _searched(args: Args) -> Args:
    read_glob(args["pattern"])
    leaving_out(args["excludePatterns"], names=False)
    return {name: value for name, value in args.items() if name != "excludePatterns"}


def _edit(args: Args) -> Args:
    edits = [{"old": edit["oldText"], "new": edit["newText"], "match": "first"} for edit in args["edits"]]
    return {**args, "edits": edits}


def _stepping(steps: Callable[[Args], Steps | None]) -> Callable[[Args], Steps | None]:
    """Steps whose outcome is told in the document's names."""

    def retelling(going: Steps, args: Args) -> Steps:
        outcome = yield from going
        return outcome if outcome.error is None and not outcome.warnings else retold(outcome, DIALECT, args)

    def stepping(args: Args) -> Steps | None:
        going = steps(args)
        return None if going is None else retelling(going, args)

    return stepping


def _said_of(name: str, path: str, outcome: Outcome) -> Outcome:
    """What came of one path of several, in the document's names."""
    return retold(replace(outcome, asked=name), DIALECT, {"path": path})


def _reading(name: str) -> Word:
    return Word(
        name,
        "read_file",
        "Read the contents of a text file; `head` or `tail` for its first or last lines."
        + (" The older name of read_text_file." if name == "read_file" else ""),
        properties(path="string", tail_=COUNT, head_=COUNT),
        inward=_read,
        back=_said_read,
        spoken={"leave `whole` out to read it in parts": "`head` or `tail` reads a part of it"},
        steps=_stepping(partial(steps.part, name)),
        stepping=frozenset({"head", "tail"}),
        fits=told.fitting,
    )


WORDS = (
    _reading("read_text_file"),
    _reading("read_file"),
    Word(
        "read_media_file",
        "read_media",
        "Read an image or a sound as base64 with its MIME type; any other file as a resource.",
        properties(path="string"),
        steps=_stepping(steps.media),
    ),
    Word(
        "read_multiple_files",
        "read_file",
        "Read several text files; each is judged by itself, and one that fails stops no other.",
        properties(paths=PATHS),
        inward=lambda args: {"path": args["paths"][0], "whole": True},
        back=lambda args: None if set(args) - {"path", "whole"} else {"paths": [args["path"]]},
        spoken={"leave `whole` out to read it in parts": "read_text_file reads a part of it"},
        steps=partial(steps.several, partial(_said_of, "read_multiple_files")),
    ),
    Word(
        "write_file",
        "write_file",
        "Create a file, or replace one with new content.",
        properties(path="string", content="string"),
        inward=_named,
        always={"mode": "overwrite", "expected_sha256": "*"},
        back=lambda args: {"path": args["path"], "content": args["content"]},
    ),
    Word(
        "edit_file",
        "edit_file",
        "Replace texts in a file, and show the diff.",
        properties(path="string", edits=EDITS, dryRun_="boolean"),
        names={"dryRun": "dry_run"},
        inward=_edit,
        spoken={
            ".old`": ".oldText`",
            "`old`": "`oldText`",
            "`new`": "`newText`",
            "{old, new}": "{oldText, newText}",
        },
        back=lambda _: None,
    ),
    Word(
        "create_directory",
        "make_dir",
        "Make a folder, with those above it.",
        properties(path="string"),
        inward=_named,
    ),
    Word(
        "list_directory",
        "list_dir",
        "List a folder.",
        properties(path="string"),
        always={"hidden": True},
        steps=_stepping(partial(steps.listing, "list_directory")),
    ),
    Word(
        "list_directory_with_sizes",
        "list_dir",
        "List a folder with sizes.",
        properties(path="string", sortBy_=SORTS),
        names={"sortBy": "sort"},
        defaults={"sortBy": "name"},
        always={"hidden": True},
        steps=_stepping(partial(steps.listing, "list_directory_with_sizes")),
    ),
    Word(
        "directory_tree",
        "list_dir",
        "Show what lies below a folder as a JSON tree.",
        properties(path="string", excludePatterns_=STRINGS),
        names={"excludePatterns": "ignore"},
        defaults={"excludePatterns": []},
        inward=_tree,
        always={"depth": steps.DEEPEST, "hidden": True},
        steps=_stepping(steps.tree),
    ),
    Word(
        "move_file",
        "move_path",
        "Move or rename a file or folder; never over an existing one.",
        properties(source="string", destination="string"),
        names={"destination": "target"},
        inward=_named,
    ),
    Word(
        "search_files",
        "find_files",
        "Find files and folders whose path below the given one fits a glob: `*.py` there, `**/*.py` at any depth.",
        properties(path="string", pattern="string", excludePatterns_=STRINGS),
        defaults={"excludePatterns": []},
        inward=_searched,
        always={"hidden": True, "respect_ignore": False},
        steps=_stepping(steps.search),
    ),
    Word(
        "get_file_info",
        "stat_path",
        "Tell what stands at a path: its size, times, kind and permissions.",
        properties(path="string"),
        always={"follow": True},
        steps=partial(steps.info, partial(_said_of, "get_file_info")),
    ),
    Word("list_allowed_directories", "list_roots", "List the folders that can be reached.", properties()),
)
FIRST = {word.ours: word.name for word in reversed(WORDS)}  # for an outcome that does not say how it was asked for
TOLD: Mapping[str, Callable[[Outcome, told.Asked], Any]] = {
    "read_text_file": told.text,
    "read_file": told.text,
    "read_media_file": told.media,
    "read_multiple_files": told.joined,
    "write_file": told.wrote,
    "edit_file": told.diff,
    "create_directory": told.made,
    "list_directory": told.listed,
    "list_directory_with_sizes": told.sizes,
    "directory_tree": told.tree,
    "move_file": told.moved,
    "search_files": told.found,
    "get_file_info": told.info,
    "list_allowed_directories": told.roots,
}


def _envelope(outcome: Outcome) -> dict[str, Json]:
    return _reply(outcome, {})


def _reply(outcome: Outcome, asked: Mapping[str, Json]) -> dict[str, Json]:
    """A tool result of MCP: text or other content, and for errors what would mend the call."""
    if outcome.error is not None:
        details = problem(outcome, DIALECT)
        text = json.dumps(details, ensure_ascii=False, default=str)
        return {"content": [{"type": "text", "text": f"{outcome.error.message}\n{text}"}], "isError": True}
    name = outcome.asked if outcome.asked in TOLD else FIRST.get(outcome.tool, outcome.tool)
    if outcome.data is None or name not in TOLD:
        return {"content": [{"type": "text", "text": outcome.content}], "isError": outcome.data is None}
    said = TOLD[name](outcome, asked)
    content = said if isinstance(said, list) else [{"type": "text", "text": said}]
    more = [{"type": "text", "text": note} for note in _cut(outcome)]
    return {"content": [*content, *more], "structuredContent": {"content": said}, "isError": False}


def _cut(outcome: Outcome) -> Iterator[str]:
    """Say what is missing of what was asked for."""
    cut, is_read = outcome.truncation, outcome.tool == "read_file"
    if cut is None or (is_read and outcome.data.get("complete")):
        return  # only what a model is shown of the text is cut; here it is whole
    mend = "no more are shown at once" if is_read else "ask for a part of it"
    yield f"[not all: {cut.shown} of {cut.total or 'more'} {cut.by}; {mend}]"


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    for event in finished(events):
        if str(event.get("kind")).startswith("tool."):
            name, args = spoken_call(event, DIALECT)
            event = {**event, "tool": name, "args": args}
            event.pop("asked", None)
        yield dict(event)


def _approval(request: Mapping[str, Any]) -> dict[str, Json]:
    told = asked_for(request, DIALECT)
    if isinstance(replay := told.get("replay"), Mapping) and isinstance(again := replay.get("request"), Mapping):
        told["replay"] = {**replay, "request": {**again, "tool": told.get("tool")}}
    return told


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
    approval=_approval,
    messages=_messages,
    reply=_reply,
    entry=entry,
)
