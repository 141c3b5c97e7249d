"""Notes from a run to the next: a person answers candidates."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from handrail.front.cli.root import run
from handrail.memory import candidates as waiting
from handrail.output.redact import Redactor
from handrail.ports import Note
from tools._memories import put, stored


def wanted(work: Path, opens: Any, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Have a run ask for notes; gives the candidates' ids."""

    async def ask() -> list[str]:
        async with opens(enable=("memory",)) as runtime:
            return [(await runtime.call(name, args)).data["id"] for name, args in calls]

    return asyncio.run(ask())


def listed(capsys: pytest.CaptureFixture[str], work: Path, *more: str) -> list[dict[str, Any]]:
    """What `handrail memory list --json` prints."""
    capsys.readouterr()
    assert run(["memory", "list", "--json", "-w", str(work), *more]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_an_accepted_note_is_recalled_and_a_rejected_one_is_not(
    opens: Any, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both leave the list of what waits, and stay on record."""
    first, second = wanted(
        work,
        opens,
        ("write_memory", {"content": "keep me", "tags": ["a"]}),
        ("update_memory", {"action": "create", "title": "t", "content": "drop me", "scope": "user"}),
    )
    assert [(item["id"], item["content"], item["state"]) for item in listed(capsys, work)] == [
        (first, "keep me", "pending"),
        (second, "drop me", "pending"),
    ]
    assert run(["memory", "accept", first[-12:], "-w", str(work)]) == 0
    assert run(["memory", "reject", second, "-w", str(work)]) == 0
    assert listed(capsys, work) == []
    assert [item["state"] for item in listed(capsys, work, "--all")] == ["accepted", "rejected"]
    assert asyncio.run(stored(work)) == [("workspace", "", "keep me")]


def test_a_note_does_nothing_to_the_terminal_it_is_listed_on(
    opens: Any, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Escape sequences and markup are shown as what they are, one line a note."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "a\x1b]0;owned\x07b\n[red]c[/]\u202ed"}))
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["memory", "list", "-w", str(work)]) == 0
    out = capsys.readouterr().out
    assert (out.count("\n"), note[-12:] in out, "[red]c[/]" in out) == (2, True, True)
    assert not set(out) & {"\x1b", "\x07", "\u202e"}


def test_a_second_answer_is_told_of_the_first(opens: Any, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever it was."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    assert run(["memory", "accept", note, "-w", str(work)]) == 0
    for verb in ("accept", "reject"):
        assert run(["memory", verb, note, "-w", str(work)]) == 1
        assert f"Candidate {note} is accepted already" in capsys.readouterr().err
    assert run(["memory", "accept", "nope", "-w", str(work)]) == 2
    assert asyncio.run(stored(work)) == [("workspace", "", "x")]


def test_what_was_rejected_cannot_be_accepted(opens: Any, work: Path) -> None:
    """The provider hears nothing of it."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    assert run(["memory", "reject", note, "-w", str(work)]) == 0
    assert run(["memory", "accept", note, "-w", str(work)]) == 1
    assert asyncio.run(stored(work)) == []


def test_changes_and_deletions_wait_as_well(opens: Any, work: Path) -> None:
    """They are carried out when they are accepted, on what the notes are then."""
    asyncio.run(put(work, Note("n1", "old", "t"), Note("n2", "gone")))
    change, deletion = wanted(
        work,
        opens,
        ("update_memory", {"action": "update", "id": "n1", "content": "new"}),
        ("update_memory", {"action": "delete", "id": "n2"}),
    )
    assert sorted(asyncio.run(stored(work))) == [("workspace", "", "gone"), ("workspace", "t", "old")]
    assert run(["memory", "accept", change, deletion, "-w", str(work)]) == 0
    assert asyncio.run(stored(work)) == [("workspace", "t", "new")]


def test_accepting_leaves_no_run_behind(opens: Any, work: Path, own_user: Path) -> None:
    """Nothing was called."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    runs = own_user / "state/handrail/runs"
    before = sorted(path.name for path in runs.iterdir())
    assert run(["memory", "accept", note, "-w", str(work)]) == 0
    assert sorted(path.name for path in runs.iterdir()) == before


class Torn:
    """A provider that is there, and a disk that fails right after it."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    async def add(self, note: Note) -> Note:
        """Keep the note, then fail as if the process had died before the answer was on record."""
        await self.provider.add(note)
        raise OSError("the lights went out")


def test_accepting_again_after_a_crash_keeps_one_note(opens: Any, work: Path, own_user: Path) -> None:
    """The candidate brings its id along."""
    from handrail.faculties import memory_files
    from handrail.memory.sqlite import SqliteMemory

    wanted(work, opens, ("write_memory", {"content": "once"}))
    runs = own_user / "state/handrail/runs"

    async def twice() -> None:
        (candidate,) = waiting.listed(runs)
        provider = SqliteMemory(memory_files(str(work)))
        with pytest.raises(OSError, match="lights"):
            await waiting.accept(runs, candidate, Torn(provider), Redactor(), 1.0)  # type: ignore[arg-type]
        assert waiting.listed(runs) == [candidate]
        await waiting.accept(runs, candidate, provider, Redactor(), 2.0)
        await provider.close()

    asyncio.run(twice())
    assert waiting.listed(runs) == []
    assert asyncio.run(stored(work)) == [("workspace", "", "once")]


def test_what_is_no_candidate_is_passed_over(opens: Any, work: Path, own_user: Path) -> None:
    """Broken, foreign and renamed files in the archive are not listed, and a file does not say its own run."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "x"}))
    runs = own_user / "state/handrail/runs"
    (path,) = runs.glob("*/archive/memory/*.json")
    whole = json.loads(path.read_text())
    for name, text in {
        "a": "{",
        "b": "[]",
        "c": json.dumps({**whole, "id": "c", "more": 1}),
        "d": json.dumps({**whole, "id": "other"}),
        "e": json.dumps({**whole, "id": "e", "created": "yesterday"}),
        "f": json.dumps({**whole, "id": "f", "content": 5}),
        "g": json.dumps({**whole, "id": "g", "tags": [["a"]]}),
    }.items():
        path.with_name(f"{name}.json").write_text(text)
    os.mkfifo(path.with_name("h.json"))
    path.write_text(json.dumps({**whole, "run_id": "../elsewhere", "state": "accepted"}))
    assert [(item.id, item.run_id, item.state) for item in waiting.listed(runs)] == [
        (note, path.parents[2].name, "pending")
    ]


def _edited(path: Path) -> None:
    path.write_text(path.read_text().replace("keep me", "obey me"))


def _without_event(path: Path) -> None:
    journal = path.parents[2] / "events.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b"memory.candidate" not in line))


def _forged(path: Path) -> None:
    """The file and the event changed alike, which breaks the chain."""
    journal = path.parents[2] / "events.jsonl"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    _edited(path)
    after = hashlib.sha256(path.read_bytes()).hexdigest()
    journal.write_text(journal.read_text().replace(before, after))


@pytest.mark.parametrize("change", [_edited, _without_event, _forged], ids=["edited", "unknown", "forged"])
def test_only_what_the_run_wrote_down_can_be_accepted(
    opens: Any, work: Path, own_user: Path, capsys: pytest.CaptureFixture[str], change: Any
) -> None:
    """A file that somebody changed since, or that no journal knows, is not remembered; it can be put aside."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "keep me"}))
    (path,) = (own_user / "state/handrail/runs").glob("*/archive/memory/*.json")
    change(path)
    assert run(["memory", "accept", note, "-w", str(work)]) == 1
    assert "is not what its run wrote down" in capsys.readouterr().err
    assert asyncio.run(stored(work)) == []
    assert run(["memory", "reject", note, "-w", str(work)]) == 0


def test_what_is_known_as_a_secret_by_then_is_not_accepted(
    opens: Any, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value became that of a secret variable after the note was written."""
    (note,) = wanted(work, opens, ("write_memory", {"content": "the word is Correct-Horse-9327"}))
    monkeypatch.setenv("SHOP_PASSWORD", "Correct-Horse-9327")
    assert run(["memory", "accept", note, "-w", str(work)]) == 1
    assert "Notes never hold secrets" in capsys.readouterr().err
    assert asyncio.run(stored(work)) == []


def test_a_note_on_a_workspace_that_is_gone_does_not_go_into_another(
    opens: Any, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever the person stands who accepts it; one of the user has no workspace to miss."""
    mine, users = wanted(
        work,
        opens,
        ("write_memory", {"content": "of this project"}),
        ("write_memory", {"content": "of the user", "scope": "user"}),
    )
    shutil.rmtree(work)
    other = tmp_path / "other"
    other.mkdir()
    assert run(["memory", "accept", mine, "-w", str(other)]) == 2
    assert "which is gone" in capsys.readouterr().err
    assert run(["memory", "accept", users, "-w", str(other)]) == 0
    assert asyncio.run(stored(other)) == [("user", "", "of the user")]
