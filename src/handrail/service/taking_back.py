"""Undo as people do it: first what would be put back, as a diff, and what cannot be; then the governed call."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.errors import Code, Misuse, Problem
from handrail.service import judging
from handrail.service.identities import Identity
from handrail.service.open_runs import OpenRuns, open_runtime
from handrail.store.folders import RunFolder
from handrail.store.images import Images
from handrail.undoing import plan, recorded
from handrail.words import Outcome

if TYPE_CHECKING:
    from handrail.runtime import Runtime

CALLER = "console"
_MOST_BYTES = 5 * 1024 * 1024
_MOST_STEPS = 500
_BACK = {
    "create": "is removed",
    "replace": "gets its former content",
    "delete": "comes back",
    "move": "goes back",
    "mkdir": "is removed if it is empty",
    "rmdir": "comes back",
}


@asynccontextmanager
async def opened(runs: OpenRuns, folder: Path, identity: Identity) -> AsyncIterator[Runtime]:
    """Open a run to take back from it: itself where it is free or ours, else one of its own that names it."""
    held = runs.held(folder.name)
    if held is not None:
        yield held
        return
    about, project = RunFolder(folder).description(), project_of(folder)
    how: dict[str, Any] = {"caller": CALLER, "asked_by": identity.name}
    try:
        runtime = await open_runtime(project, run_id=folder.name, **how)
    except Problem as problem:
        if problem.code is not Code.RUN_BUSY:
            raise
        runtime = await open_runtime(project, parent_run=folder.name, **how)
    try:
        if about.get("workspace") not in (None, runtime.kernel.parts.workspace):
            where = about.get("workspace")
            text = f"The run worked in {where}, and settings now lead elsewhere; use `handrail runs undo`."
            raise Problem(Code.NOT_FOUND, text)
        yield runtime
    finally:
        await runtime.__aexit__(None, None, None)


async def preview(folder: Path, call_id: str | None) -> dict[str, Any]:
    """Tell what would be put back, as a diff for each file, what cannot be and why; nothing is changed."""
    calls = recorded(folder)
    if call_id is not None and not any(item.call == call_id for item in calls):
        raise Problem(Code.NOT_FOUND, f"The run has no call {call_id[:128]!r} that ended.")
    found = plan(_events(folder), call_id)
    last: dict[str, dict[str, Any]] = {}
    for step in found.steps[:_MOST_STEPS]:
        newest = last[step["path"]]["newest"] if step["path"] in last else step
        last[step["path"]] = {**step, "newest": newest}

    async def shown(runtime: Runtime) -> list[dict[str, Any]]:
        return [await _file(runtime, folder, step) for step in last.values()]

    return {
        "run": folder.name,
        "call": call_id,
        "files": await judging.ask(project_of(folder), shown) if last else [],
        "calls": list(dict.fromkeys(str(step["call"]) for step in found.steps)),
        "cannot": list(found.lost),
        "first": list(found.first),
        "left_out": max(0, len(found.steps) - _MOST_STEPS),
    }


def project_of(folder: Path) -> str:
    """Give the folder to open a run from again, so that it works where it did."""
    about = RunFolder(folder).description()
    return str(about.get("project") or about.get("workspace") or "")


def _events(folder: Path) -> list[dict[str, Any]]:
    from handrail.store.reader import events

    return list(events(folder))


async def _file(runtime: Runtime, folder: Path, step: Mapping[str, Any]) -> dict[str, Any]:
    """Show one path: as it is now, and as it would be."""
    path, op = str(step["path"]), str(step["op"])
    told = {"path": path, "op": op, "says": _BACK.get(op, op), "call": step["call"], "problem": "", "diff": ""}
    if op in ("move", "mkdir", "rmdir") or step.get("link") is not None:
        told["says"] = f"goes back to {step.get('source')}" if op == "move" else told["says"]
        return told
    now, digest = await _standing(runtime, path)
    newest = step["newest"]
    if newest.get("after") and digest and digest != newest["after"]:
        told["problem"] = "it has changed since, so undo will refuse"
    before = b"" if op == "create" else _former(folder, step.get("before"))
    if before is None:
        told["problem"] = "what stood there before was not kept"
        return told
    told["diff"] = runtime.parts.redactor.text(_diff(now, before, path))
    return told


def _former(folder: Path, digest: Any) -> bytes | None:
    images = Images(folder / "archive", 0)
    if not isinstance(digest, str) or len(digest) != 64 or not images.has(digest):
        return None
    return images.load(digest)


async def _standing(runtime: Runtime, path: str) -> tuple[bytes, str]:
    from hashlib import sha256

    files = runtime.parts.files
    try:
        content = await files.bind("", ()).read(files.resolve(path), _MOST_BYTES)
    except Problem:
        return b"", ""
    return content.data, sha256(content.data).hexdigest()


def _diff(now: bytes, then: bytes, path: str) -> str:
    if b"\0" in now or b"\0" in then:
        return f"{path} is not text: {len(now)} bytes now, {len(then)} bytes afterwards\n"
    texts = [data.decode("utf-8", "replace").splitlines() for data in (now, then)]
    lines = difflib.unified_diff(texts[0], texts[1], f"{path} now", f"{path} afterwards", lineterm="")
    return "\n".join(lines)


async def take_back(runtime: Runtime, folder: Path, call_id: str | None) -> Outcome:
    """Take back, as a governed call."""
    try:
        return await runtime.undo(call_id, run=folder.name)
    except Misuse as misuse:
        raise Problem(Code.NOT_FOUND, str(misuse)) from None
