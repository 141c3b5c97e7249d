"""kunora-kgent: filesystem, skill and memory toolsets, ToolResult {ok, summary, data, artifacts, error}."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from handrail.dialects._cursor import as_cursor, following, goes_on
from handrail.dialects._dialect import Dialect, Event, Message, Word, one_call, overwriting
from handrail.dialects._schema import CURSOR, LIMIT, STRINGS, properties
from handrail.dialects._telling import asked_for, files_changed, finished, picked, problem, spoken_call
from handrail.dialects._wording import retold_message
from handrail.errors import FACTS, Code
from handrail.words import Json, Outcome

TOOLSETS = {
    "FilesystemToolset": ("read_file", "write_file", "list_files", "grep_files"),
    "SkillToolset": ("list_skills", "load_skill"),
    "MemoryToolset": ("recall_memory", "write_memory"),
}
_GROUPS = {name: group for group, names in TOOLSETS.items() for name in names}


_WORDS = (
    Word(
        "read_file",
        "read_file",
        "Read a text file of the sandbox; of a large one the first part, the whole is an artifact.",
        properties(path="string", cursor_=CURSOR),
        inward=goes_on,
        back=as_cursor,
        spoken={"byte_offset ": "The cursor's byte ", "offset ": "The cursor's line "},
        always={"keep": True},
    ),
    Word(
        "write_file",
        "write_file",
        "Write a text file of the sandbox, replacing one that was read before.",
        properties(path="string", content="string"),
        always={"mode": "overwrite"},
        back=overwriting,
    ),
    Word(
        "list_files",
        "list_dir",
        "List a folder of the sandbox.",
        properties(path="string", cursor_=CURSOR),
        always={"keep": True},
    ),
    Word(
        "grep_files",
        "grep",
        "Search the files below a path for a pattern.",
        properties(pattern="string", path="string", cursor_=CURSOR),
        always={"keep": True},
    ),
    Word("list_skills", "list_skills", "List the skills there are.", properties()),
    Word("load_skill", "load_skill", "Load a skill by its id.", properties(skill_id="string")),
    Word(
        "recall_memory",
        "recall_memory",
        "Recall notes that fit a query.",
        properties(query="string", scope_="string", limit_=LIMIT),
    ),
    Word(
        "write_memory",
        "write_memory",
        "Propose a note to remember; a person accepts it.",
        properties(content="string", scope_="string", tags_=STRINGS),
    ),
)
WORDS = tuple(replace(word, toolset=_GROUPS[word.name]) for word in _WORDS)


def _envelope(outcome: Outcome) -> dict[str, Json]:
    """ToolResult; what was too large for it stands in `artifacts` as references."""
    error = outcome.error
    kept = [{"ref": ref.ref, "sha256": ref.sha256, "bytes": ref.bytes} for ref in outcome.refs] or _whole_file(outcome)
    changed = [{"ref": change.path, "sha256": change.after, "op": change.op} for change in outcome.changes]
    return {
        "ok": outcome.ok,
        "summary": outcome.summary,
        "data": _data(outcome),
        "artifacts": [*changed, *kept],
        "error": None
        if error is None
        else {
            "code": error.code,
            "message": error.message,
            "details": problem(outcome, DIALECT),
            "retryable": error.retryable,
        },
    }


def _whole_file(outcome: Outcome) -> list[dict[str, Json]]:
    """Refer to a file that is shown in part and too large to be kept once more: it is its own whole."""
    data = outcome.data
    if outcome.tool != "read_file" or outcome.truncation is None or not isinstance(data, dict):
        return []
    path = outcome.evidence[0].ref
    return [] if path.startswith("run:") else [{"ref": path, "sha256": data["sha256"], "bytes": data["bytes"]}]


def _data(outcome: Outcome) -> Json:
    """Ours; of a file that is shown in part, with the cursor that goes on, as lists have it."""
    cut = outcome.truncation
    if cut is None or outcome.tool != "read_file" or not isinstance(outcome.data, dict):
        return outcome.data
    return {**outcome.data, "next_cursor": following(cut.next_cursor)}


def _events(events: Iterable[Event]) -> Iterator[dict[str, Json]]:
    """tool.started, tool.completed, tool.failed with the tool as the document names it, duration and status."""
    for event in finished(events):
        kind = str(event.get("kind"))
        if not kind.startswith("tool."):
            yield dict(event)
            continue
        name, args = spoken_call(event, DIALECT)
        told = {**picked(event, "seq", "ts", "run_id", "call_id"), "kind": kind, "tool": name}
        if kind == "tool.started":
            yield {**told, "args": args}
            continue
        ended = {"status": event.get("status"), "duration_ms": event.get("duration_ms")}
        error = {"error": _failure(event)} if "code" in event else {}
        refs = [ref.get("ref") for ref in event.get("refs") or () if isinstance(ref, Mapping)]
        yield {**told, **ended, "artifacts": [*files_changed(event), *refs], **error}


def _failure(event: Event) -> dict[str, Json]:
    """What a failed call says in an event: enough to tell whether trying again may help."""
    code = event["code"]
    again = code in FACTS and FACTS[Code(code)].retryable
    return {"code": code, "message": retold_message(event, DIALECT), "retryable": again}


def _approval(request: Mapping[str, Any]) -> dict[str, Json]:
    """Approval comes later in its document; where settings ask, the request is ours in its names."""
    return asked_for(request, DIALECT)


def _messages(message: Mapping[str, Any]) -> Message:
    return one_call(message, "tool", "args")


DIALECT = Dialect(
    name="kgent",
    about="kunora-kgent, Tool System: filesystem, skills and memory",
    words={word.name: word for word in WORDS},
    errors={code: code.value for code in Code},
    envelope=_envelope,
    events=_events,
    approval=_approval,
    messages=_messages,
    sandboxed=True,
)
