"""Resources: the run's own files and skills. Both are read by calls through the gate, as a model would read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from handrail.front.mcp.wire import INVALID_PARAMS, RESOURCE_NOT_FOUND, Params, Refused
from handrail.words import Outcome

if TYPE_CHECKING:
    from handrail.runtime import Runtime

FOLDERS = ("run:observations", "run:artifacts", "run:deliverables")
SKILL = "skill://"
TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": "run:{+path}",
        "name": "run",
        "description": "A file of this run: output that was cut (run:observations/…), files made by tools.",
        "mimeType": "text/plain",
    },
    {
        "uriTemplate": "skill://{skill}/{+resource}",
        "name": "skill",
        "description": "A skill's instructions (SKILL.md) or one of its files.",
        "mimeType": "text/markdown",
    },
]


async def listed(runtime: Runtime) -> list[dict[str, Any]]:
    """All resources there are now."""
    found: list[dict[str, Any]] = []
    for folder in FOLDERS:
        outcome = await runtime.call("list_dir", {"path": folder, "depth": 3}, dialect="native")
        _check(outcome)
        if isinstance(outcome.data, dict):
            found += [_file(folder, entry) for entry in outcome.data["entries"] if entry["type"] == "file"]
    return [*found, *[_skill(item) for item in await skills(runtime)]]


def _file(folder: str, entry: Any) -> dict[str, Any]:
    path = f"{folder}/{entry['name']}"
    return {
        "uri": f"run:{quote(path.removeprefix('run:'))}",
        "name": path,
        "mimeType": "text/plain",
        "size": entry["size"],
    }


def _skill(item: Any) -> dict[str, Any]:
    about = {"uri": f"{SKILL}{quote(item['id'], safe=':')}/SKILL.md", "name": item["name"], "mimeType": "text/markdown"}
    return {**about, "description": item.get("description", "")}


def _check(outcome: Outcome) -> None:
    """Pass a problem on, but for tools that are not offered here: then there is nothing of theirs."""
    if outcome.error is not None and outcome.error.code not in ("UNKNOWN_TOOL", "POLICY_DENIED"):
        raise Refused(INVALID_PARAMS, f"{outcome.error.code}: {outcome.error.message}", {"code": outcome.error.code})


async def skills(runtime: Runtime) -> list[Any]:
    """The skills that can be loaded; none where the tools for them are not offered."""
    outcome = await runtime.call("list_skills", {}, dialect="native")
    _check(outcome)
    items: list[Any] = outcome.data["skills"] if isinstance(outcome.data, dict) else []
    return [item for item in items if not item["problems"]]


async def read(runtime: Runtime, params: Params) -> dict[str, Any]:
    """Read one resource through the gate."""
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise Refused(INVALID_PARAMS, "`uri` is missing.")
    if uri.startswith("run:"):
        path = "run:" + unquote(uri.removeprefix("run:"))
        outcome = await runtime.call("read_file", {"path": path}, dialect="native")
        return _contents(uri, outcome, "text/plain")
    if uri.startswith(SKILL):
        return _contents(uri, await _load(runtime, uri), "text/markdown")
    raise Refused(RESOURCE_NOT_FOUND, "There is no such resource; `run:` and `skill://` are served.", {"uri": uri})


async def _load(runtime: Runtime, uri: str) -> Outcome:
    skill, _, resource = unquote(uri.removeprefix(SKILL)).partition("/")
    args = {"skill_id": skill, **({} if resource in ("", "SKILL.md") else {"resource": resource})}
    return await runtime.call("load_skill", args, dialect="native")


def _contents(uri: str, outcome: Outcome, kind: str) -> dict[str, Any]:
    if outcome.error is not None:
        code = RESOURCE_NOT_FOUND if outcome.error.code in ("NOT_FOUND", "UNKNOWN_TOOL") else INVALID_PARAMS
        told = {"uri": uri, "code": outcome.error.code, "details": dict(outcome.error.details)}
        raise Refused(code, f"{outcome.error.code}: {outcome.error.message}", told)
    return {"contents": [{"uri": uri, "mimeType": kind, "text": text_of(outcome)}]}


def text_of(outcome: Outcome) -> str:
    """What was read, without notices where the whole is there."""
    data: Any = outcome.data
    whole = outcome.truncation is None and isinstance(data, dict)
    for name in ("text", "body") if whole else ():
        if isinstance(data.get(name), str):
            return str(data[name])
    return outcome.content
