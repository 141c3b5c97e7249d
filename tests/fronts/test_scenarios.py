"""The same scenarios through every front end: the same decisions, outcomes, exit codes and files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from fronts.front_ends import FRONTS, Done, Front, Place
from fronts.scenarios import ALL, Answer, Do, Edit, Replay, Rest, Scenario, Undo
from fronts.zygote import Zygote

EXIT = {"ok": 0, "failed": 1, "denied": 3, "pending": 4, "refused": 3}
IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|apr_[a-z2-7]{10}")
FLAGS = re.compile(
    r"(?<=--approval <id>) --config (?:'[^']*'|[^\"\s]+)"
)  # of fronts that are given their settings by a flag
OWN_TEXT = re.compile(r'"(call_id|created|expires|caller|client|digest|policy_digest)":("[^"]*"|[0-9.e+]+)')
TOOK = re.compile(r"\b\d+(\.\d+)? m?s\b")
# What belongs to one call, one place or one front end.
OWN = {"call_id", "duration_ms", "created", "expires", "caller", "digest", "policy_digest", "replay", "seconds"}
OWN |= {"client", "folder"}
OWN |= {"atime", "birthtime"}  # of a file that each front end was given anew


@pytest.mark.parametrize("scenario", ALL, ids=str)
def test_a_scenario_ends_alike_through_every_front_end(scenario: Scenario, tmp_path: Path, zygote: Zygote) -> None:
    """As the table says, and equal as whole values but for ids and times."""
    told: dict[str, list[Any]] = {}
    for name, front in FRONTS.items():
        place = furnished(scenario, tmp_path / name, zygote)
        told[name] = walked(scenario, front(place), place)
        for path, text in scenario.after.items():
            found = place.work / path
            assert (found.read_text() if found.is_file() else "" if found.exists() else None) == text, (name, path)
    first, *others = told.values()
    for other in others:
        assert other == first


def furnished(scenario: Scenario, folder: Path, zygote: Zygote) -> Place:
    """Make a workspace with the scenario's files, all of one age, and its settings beside it."""
    work = folder / "work"
    work.mkdir(parents=True)
    for path, text in scenario.files.items():
        file = work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for there in (*work.rglob("*"), work):
        os.utime(there, (1_700_000_000, 1_700_000_000))
    config = folder / "settings.toml"
    config.write_text(f"approvals.keep_after_run = true\n{scenario.settings}")
    return Place(work, config, folder / "home", zygote)


def walked(scenario: Scenario, front: Front, place: Place) -> list[Any]:
    """Do all steps; give what each call came to, without what no two calls share."""
    request, last, told = "", Done(None), list[Any]()
    for step in scenario.steps:
        if isinstance(step, Edit):
            (place.work / step.path).write_text(step.text)
            continue
        if isinstance(step, Answer):
            front.answer(request, step.word)
            continue
        last = done(front, step, request, last)
        request = approval_of(last) or request
        checked(step, last)
        told.append(None if scenario.volatile else plain(last.outcome, str(place.work.parent)))
    return told


def done(front: Front, step: Do | Replay | Rest | Undo, request: str, last: Done) -> Done:
    """One step that ends with an outcome."""
    if isinstance(step, Do):
        return front.call(step)
    if isinstance(step, Replay):
        return front.replay(request)
    if isinstance(step, Undo):
        return front.undo()
    assert last.outcome is not None
    return front.call(Do("read_file", {"path": last.outcome["truncation"]["ref"], "tail": 3}))


def checked(step: Do | Replay | Rest | Undo, ended: Done) -> None:
    """Compare with the table."""
    if isinstance(step, Rest):
        assert ended.outcome is not None
        assert ended.outcome["ok"], ended
        assert step.shows in ended.outcome["content"]
        return
    expected = step.status if step.status != "refused" else None
    assert (ended.code, ended.outcome and ended.outcome["status"]) == (step.code, expected), ended
    assert ended.exit in (None, EXIT[step.status]), ended
    if ended.outcome is not None:
        if not isinstance(step, Undo):
            assert ended.outcome["policy"]["decision"] == step.decision, ended
        assert ended.outcome["evidence"]
        # What a model reads never tells how to grant what it waits for.
        assert "approvals grant" not in ended.outcome["content"]
        assert "--approval" not in ended.outcome["content"] or step.code != "APPROVAL_REQUIRED"
        said = "A person must approve this; repeat the same call when they have."
        assert (said in ended.outcome["content"]) == (step.code == "APPROVAL_REQUIRED")
    if isinstance(step, Do) and ended.outcome is not None:
        assert step.shows in ended.outcome["content"]
        assert not step.hides or step.hides not in str(ended.outcome)


def approval_of(ended: Done) -> str:
    """The id of the request that a pending call made."""
    error = (ended.outcome or {}).get("error") or {}
    approval = error.get("details", {}).get("approval") if error.get("code") == "APPROVAL_REQUIRED" else None
    return approval["id"] if isinstance(approval, dict) else ""


def plain(value: Any, place: str) -> Any:
    """A value without ids, times and the place it was made in."""
    if isinstance(value, dict):
        made = {name: plain(item, place) for name, item in value.items() if name not in OWN}
        if made.get("type") == "tool":  # proven by a hash over text that holds ids
            made.pop("sha256", None)
        return made
    if isinstance(value, list):
        return [plain(item, place) for item in value]
    if isinstance(value, str):
        told = TOOK.sub("<time>", FLAGS.sub("", IDS.sub("<id>", value)))
        return OWN_TEXT.sub(r'"\1":…', told).replace(place, "<place>")
    return value
