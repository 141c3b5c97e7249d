"""How the ledger keeps its file: private, erased where promised, and never trusted when broken."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from approving import FOR_RUN, NO, NOW, YES, asking, granted
from handrail.errors import Code, Problem
from handrail.store import _ledger_file
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
from handrail.words import Grant, Scope

# ── raw arguments ───────────────────────────────────────────────────────────────────────────────

SECRET = "tr0ub4dor"


@pytest.mark.parametrize("end", ["denied", "expired", "used", "revoked", "grant expired"])
@pytest.mark.parametrize("size", [1, 3000], ids=["small", "many pages"])
def test_raw_arguments_leave_the_disk_when_they_cannot_be_replayed(
    ledger: SqliteLedger, clock: FixedClock, end: str, size: int
) -> None:
    """No byte of them is left in the ledger, its log or its index."""
    made = ledger.request(asking(), {"token": SECRET * size})
    assert ledger.args(made.id) == {"token": SECRET * size}
    grant = ledger.answer(made.id, NO if end == "denied" else YES) if end != "expired" else None
    if grant is not None:
        assert ledger.args(made.id) == {"token": SECRET * size}
        assert SECRET.encode() in everything(ledger)
    if end == "used":
        assert grant is not None
        assert ledger.use(grant, NOW)
    if end == "revoked":
        assert ledger.revoke(made.id)
    clock.advance(900)
    ledger.expire(clock.now())
    assert SECRET.encode() not in everything(ledger)
    with pytest.raises(Problem) as gone:
        ledger.args(made.id)
    assert gone.value.code is Code.APPROVAL_DENIED


def everything(ledger: SqliteLedger) -> bytes:
    """Give every byte in the ledger's folder."""
    return b"".join(path.read_bytes() for path in sorted(Path(ledger.path).parent.iterdir()))


def test_erasing_is_made_up_for_when_a_reader_was_in_the_way(ledger: SqliteLedger, clock: FixedClock) -> None:
    """The next write empties the log."""
    made = ledger.request(asking(), {"token": SECRET})
    with sqlite3.connect(ledger.path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM requests").fetchall()
        ledger.answer(made.id, NO)
        assert SECRET.encode() in everything(ledger)
    reader.close()
    ledger.expire(clock.now())
    assert SECRET.encode() not in everything(ledger)


# ── the file ────────────────────────────────────────────────────────────────────────────────────


def test_only_the_owner_can_read_the_ledger(ledger: SqliteLedger) -> None:
    """Whatever the umask says: folder 0700, every file in it 0600."""
    before = os.umask(0)
    try:
        ledger.request(asking(), {})
    finally:
        os.umask(before)
    folder = Path(ledger.path).parent
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_others_can_read_is_closed_to_them(ledger: SqliteLedger) -> None:
    """A folder or file of the owner that is merely readable is made private."""
    folder = Path(ledger.path).parent
    folder.mkdir(0o755)
    Path(ledger.path).touch(0o644)
    ledger.request(asking(), {})
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, Path(ledger.path))] == [0o700, 0o600]


def writable_folder(path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o600)
    path.parent.chmod(0o777)


def writable_file(path: Path) -> None:
    path.parent.mkdir(0o700)
    path.touch()
    path.chmod(0o620)


def link(path: Path) -> None:
    path.parent.mkdir(0o700)
    path.symlink_to(path.parent.parent / "elsewhere.db")


def second_name(path: Path) -> None:
    path.parent.mkdir(0o700)
    path.touch(0o600)
    path.with_name("second").hardlink_to(path)


def pipe(path: Path) -> None:
    path.parent.mkdir(0o700)
    os.mkfifo(path, 0o600)


def not_a_folder(path: Path) -> None:
    path.parent.write_text("")


def garbage(path: Path) -> None:
    path.parent.mkdir(0o700)
    path.touch(0o600)
    path.write_bytes(b"no database, just bytes" * 400)


def newer(path: Path) -> None:
    SqliteLedger(path, FixedClock(NOW)).request(asking(), {})
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 3")
    db.close()


BROKEN = {
    writable_folder: "other users can write to",
    writable_file: "other users can write to",
    link: "it is no plain file of its own",
    second_name: "it is no plain file of its own",
    pipe: "it is no plain file of its own",
    garbage: "file is not a database",
    newer: "it has version 3, this handrail knows 2",
}


@pytest.mark.parametrize(("how", "reason"), [*BROKEN.items(), (not_a_folder, "File exists")])
def test_a_ledger_that_cannot_be_trusted_refuses_and_says_what_to_do(
    ledger: SqliteLedger, how: Callable[[Path], None], reason: str
) -> None:
    """Nothing is put on record, and the operator is told why and the way out."""
    how(Path(ledger.path))
    with pytest.raises(Problem) as refused:
        ledger.request(asking(), {})
    problem = refused.value
    assert problem.code is Code.APPROVAL_DENIED
    assert problem.message == (
        "Nothing was run: the approval ledger cannot be used "
        f"({problem.details['reason']}). For the operator: {problem.details['fix']}."
    )
    assert reason in problem.details["reason"]


@pytest.mark.parametrize("how", BROKEN)
def test_a_ledger_that_cannot_be_trusted_never_says_granted(ledger: SqliteLedger, how: Callable[[Path], None]) -> None:
    """Every way to ask it for a grant raises."""
    how(Path(ledger.path))
    grant = Grant("grant_1", "apr_1", Scope.CALL, "write_file", "d1", (), "run-1", NOW + 9, 1)
    for ask in (
        lambda: ledger.granted("d1", NOW),
        lambda: ledger.grants("run-1", NOW, "/home/a"),
        lambda: ledger.use(grant, NOW),
        lambda: ledger.find("apr_1"),
    ):
        with pytest.raises(Problem):
            ask()


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ("UPDATE requests SET body = ?", ["{"]),
        ("UPDATE requests SET body = ?", ["[]"]),
        ("UPDATE requests SET body = ?", ['{"id": "apr_1"}']),
        ("UPDATE requests SET reply = ?", ['{"state": "granted"}']),
        ("UPDATE requests SET reply = ?", ['{"state": "granted", "scope": "everything", "patterns": null}']),
    ],
)
def test_a_record_that_cannot_be_read_is_a_refusal(ledger: SqliteLedger, change: str, values: list[str]) -> None:
    """Damage inside the database is found when the record is read, and is no KeyError."""
    grant = granted(ledger, asking())
    ledger.close()
    db = sqlite3.connect(ledger.path)
    with db:
        db.execute(change, values)
    db.close()
    with pytest.raises(Problem) as refused:
        ledger.find(grant.request)
    assert "move" in refused.value.details["fix"]


def test_a_ledger_held_by_another_refuses_in_time_and_can_still_be_read(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that hangs inside a write does not hang the others."""
    monkeypatch.setattr(_ledger_file, "BUSY_SECONDS", 0.05)
    grant = granted(ledger, asking())
    db = sqlite3.connect(ledger.path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(Problem, match="another process holds it"):
        ledger.use(grant, NOW)
    assert ledger.granted("d1", NOW) == grant
    db.execute("ROLLBACK")
    db.close()
    assert ledger.use(grant, NOW)


def test_looking_makes_no_ledger_and_loads_no_database(tmp_path: Path) -> None:
    """A call that never asks pays nothing."""
    program = f"""
import sys
from handrail.store.ledger import SqliteLedger
from handrail.testing import FixedClock
ledger = SqliteLedger({str(tmp_path / "state" / "ledger.db")!r}, FixedClock())
print(ledger.granted("d", 0), ledger.grants("r", 0, "w"), ledger.pending(0), ledger.list(), ledger.expire(0),
      ledger.changed(), "sqlite3" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None () () () 0 False False\n"
    assert not (tmp_path / "state").exists()


def test_a_reopened_ledger_knows_everything(ledger: SqliteLedger, clock: FixedClock) -> None:
    """Requests and grants outlive the process."""
    made, grant = ledger.request(asking("d2"), {"n": 1}), granted(ledger, asking(), FOR_RUN)
    ledger.close()
    again = SqliteLedger(ledger.path, clock)
    assert (again.pending(NOW), again.args(made.id)) == ((made,), {"n": 1})
    assert again.grants("run-1", NOW, "/home/a") == (grant,)
    again.close()


V1 = Path(__file__).parent / "ledger-0.1.0.sql"


def test_a_ledger_of_the_first_version_is_migrated_with_what_waits_in_it(tmp_path: Path) -> None:
    """Requests stay in the order they were made, can be answered, replayed and bounded; grants hold."""
    path = tmp_path / "state" / "ledger.db"
    path.parent.mkdir(0o700)
    db = sqlite3.connect(path)
    db.executescript(V1.read_text())
    db.close()
    ledger = SqliteLedger(path, FixedClock(NOW))
    assert [request.id for request in ledger.pending(NOW)] == ["apr_first", "apr_second"]
    assert ledger.args("apr_first") == {"path": "a.txt", "token": "raw"}
    assert len(ledger.confirmation("apr_first")) == 16
    assert ledger.confirmation("apr_first") != ledger.confirmation("apr_second")
    (held,) = ledger.grants("run-1", NOW, "/home/a")
    assert (held.request, ledger.use(held, NOW)) == ("apr_granted", True)
    grant = ledger.answer("apr_first", YES)
    assert grant is not None
    assert ledger.use(grant, NOW)
    made = ledger.request(asking("new"), {})
    assert [request.id for request in ledger.pending(NOW)] == ["apr_second", made.id]
    ledger.close()


def test_large_texts_are_stored_once_and_survive(ledger: SqliteLedger) -> None:
    """The content of arguments, parameters and further requests; erased with the last that needs it."""
    text = "large \ud800" * 100_000
    made = [
        ledger.request(asking(name, params={"edits": [{"new": text}]}), {"edits": [{"new": text}]}) for name in "ab"
    ]
    assert [ledger.find(item.id).request for item in made] == made
    assert ledger.args(made[0].id) == {"edits": [{"new": text}]}
    assert len(everything(ledger)) < 4 * len(text.encode("utf-8", "surrogatepass"))
    for item in made:
        ledger.answer(item.id, NO)
    assert ledger.find(made[0].id).request == made[0]
