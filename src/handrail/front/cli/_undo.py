"""Taking back what a run changed, and showing why not where a file has changed since."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handrail.approvals.show import visible
from handrail.errors import Code, Problem, RunFault
from handrail.front.cli._common import harmless, opened
from handrail.words import Outcome

if TYPE_CHECKING:
    from handrail.runtime import Runtime

MAX_BYTES = 5 * 1024 * 1024
MAX_LINES = 200
MAX_OTHERS = 5  # calls that are named beside one that cannot be taken back


async def take_back(folder: Path, call_id: str | None, given: Mapping[str, Any]) -> int:
    """Undo in the run itself, or in a new one that names it where another process has it open."""
    from handrail.front.cli._settings import place_of_run
    from handrail.store.folders import RunFolder

    about = RunFolder(folder).description()
    root = str(about.get("workspace") or given["workspace"])
    there = {**given, "workspace": place_of_run(folder.name, root, given, (about.get("project"), root))}
    call_id = _whole_id(folder, call_id)
    try:
        async with opened({**there, "run_id": folder.name}) as runtime:
            return await _undo(runtime, folder, call_id, as_json=given["as_json"])
    except RunFault as fault:
        # A new run would work in a folder of its own where each has one, and find nothing of this one there.
        if fault.code is not Code.RUN_BUSY or about.get("project") not in (None, root):
            raise
    async with opened(there, parent_run=folder.name) as runtime:
        return await _undo(runtime, folder, call_id, as_json=given["as_json"])


def _whole_id(folder: Path, call_id: str | None) -> str | None:
    """The call that an id, or the end of it as `runs show` prints it, stands for."""
    from handrail.store.reader import events

    if call_id is None:
        return None
    known = {event["call_id"] for event in events(folder) if event.get("call_id")}
    fitting = [name for name in known if name == call_id] or [name for name in known if name.endswith(call_id)]
    if len(fitting) != 1:
        many = f"{len(fitting)} calls of run {folder.name} end with {call_id!r}; give more of the id."
        raise click.UsageError(many if fitting else f"Run {folder.name} has no call {call_id!r}.")
    return str(fitting[0])


async def _undo(runtime: Runtime, folder: Path, call_id: str | None, *, as_json: bool) -> int:
    from handrail.front.cli.call import show

    outcome = await runtime.undo(call_id, run=folder.name)
    code = show(outcome, as_json=as_json)
    if as_json:
        return code
    if outcome.error is not None and "call" in outcome.error.details:
        stale = outcome.error.code == Code.STALE_FILE
        for line in [*(await _difference(runtime, folder, outcome) if stale else ()), *_instead(folder, outcome)]:
            sys.stderr.write(f"{harmless(line)}\n")
    elif outcome.ok:
        sys.stderr.write("".join(f"{harmless(line)}\n" for line in _left(folder)))
    return code


def _left(folder: Path) -> Iterator[str]:
    """What of the run is still there to be taken back."""
    from handrail.undoing import recorded

    left = [item for item in recorded(folder) if item.left]
    if left:
        last = f"the last one is {left[-1].tool} of {visible(left[-1].paths)}"
        more = f"{len(left)} more calls of run {folder.name} changed" if len(left) > 1 else f"Run {folder.name} changed"
        yield f"{more} something that is not taken back; {last}. `handrail runs undo {folder.name}` takes back all."


def _instead(folder: Path, outcome: Outcome) -> Iterator[str]:
    """What a person can do where a file has changed since."""
    from handrail.undoing import recorded

    assert outcome.error is not None
    path, call = str(outcome.error.details.get("path", "")), str(outcome.error.details.get("call", ""))
    calls = recorded(folder)
    changes = [change for item in calls if item.call == call for change in item.changes if change["path"] == path]
    if changes:
        yield f"  by hand: {_by_hand(folder, changes[0])}"
    yield f"  to pass over call {call[-12:]}: take back the others one by one, each with --call, the last one first"
    others = [item for item in reversed(calls) if item.left and path not in {step["path"] for step in item.changes}]
    for item in others[:MAX_OTHERS]:
        what = f"{item.tool}: {visible(item.paths)}"
        yield f"  another: handrail runs undo {folder.name} --call {item.call[-12:]}   ({what})"


def _by_hand(folder: Path, change: Mapping[str, Any]) -> str:
    from handrail.store.images import Images

    images, before = Images(folder / "archive", 0), change.get("before")
    if change["op"] == "create":
        return "the call made this file; delete it to be as before"
    if isinstance(before, str) and len(before) == 64 and images.has(before):
        return f"what stood there before the call is kept in {images.path(before)}"
    return "what stood there before the call was not kept"


async def _difference(runtime: Runtime, folder: Path, outcome: Outcome) -> list[str]:
    """The lines between what is known to have stood there and what stands there now."""
    assert outcome.error is not None
    details = outcome.error.details
    path, left, call = str(details.get("path", "")), details.get("expected_sha256"), str(details.get("call", ""))
    name, before = _kept(folder, path, left, call)
    if before is None:
        return ["  What the call left was not kept, so there is no difference to show."]
    now = await _standing(runtime, path)
    lines = list(_lines(before, now, name, f"{path} now"))
    hidden = runtime.parts.redactor.text("\n".join(lines)).split("\n")
    cut = [f"… {more} more line{'' if more == 1 else 's'}"] if (more := len(hidden) - MAX_LINES) > 0 else []
    return [visible(line) for line in hidden[:MAX_LINES]] + cut


def _kept(folder: Path, path: str, left: Any, call: str) -> tuple[str, bytes | None]:
    """What the call left, where it is kept; else what it found, which is what undo would put back."""
    from handrail.store.images import Images
    from handrail.store.reader import events

    images = Images(folder / "archive", 0)
    changes = [
        change
        for event in events(folder)
        if event.get("call_id") == call
        for change in event.get("files_changed") or ()
        if change["path"] == path
    ]
    found = changes[-1].get("before") if changes else None
    for name, digest in ((f"{path} as the call left it", left), (f"{path} as it would be put back", found)):
        if isinstance(digest, str) and len(digest) == 64 and images.has(digest):
            return name, images.load(digest)
    return "", None


async def _standing(runtime: Runtime, path: str) -> bytes:
    files = runtime.parts.files
    try:
        content = await files.bind("", ()).read(files.resolve(path), MAX_BYTES)
    except Problem:
        return b""
    return content.data


def _lines(before: bytes, now: bytes, name: str, name_now: str) -> Iterator[str]:
    texts = [data.decode("utf-8", "replace").splitlines() for data in (before, now)]
    if b"\0" in before or b"\0" in now:
        yield "  The content is not text, so there is no difference to show."
        return
    yield from difflib.unified_diff(texts[0], texts[1], name, name_now, lineterm="")
