"""codebase_search where its index cannot be had, or has to be made anew: grep answers, and it is said."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from searching import fill
from tools._searched import CODE, DENY, HIDDEN, RANKING, files_of, index_folder, search


async def degraded(opens: Any, **how: Any) -> Any:
    """Search where the index cannot be had; grep must answer."""
    async with opens(**how) as runtime:
        outcome = await search(runtime, "send a message")
    assert outcome.data["index"]["ranking"] == "grep"
    assert files_of(outcome)[0] in ("app/mail.py", "docs/guide.md", "tests/test_mail.py")
    assert outcome.content.endswith("[Found by grep, without an index]")
    (warning,) = outcome.warnings
    assert "The answer comes from grep instead" in warning
    return warning


async def test_a_folder_that_cannot_be_written_leaves_grep(opens: Any, work: Path) -> None:
    """And a warning that says why."""
    fill(work, CODE)
    index_folder().parent.mkdir(parents=True)
    index_folder().write_text("a file stands where the folder should be")
    assert "The code index cannot be used" in await degraded(opens)


async def test_a_locked_index_leaves_grep(opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that holds it for long does not hold up the answer for ever."""
    monkeypatch.setattr("handrail.index.store.BUSY_SECONDS", 0.05)
    fill(work, CODE)
    async with opens() as runtime:
        await search(runtime, "x")
    (database,) = index_folder().glob("*.db")
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        (work / "new.py").write_text("x = 1\n")
        assert "locked" in await degraded(opens)
    finally:
        holder.close()
    async with opens() as runtime:
        assert (await search(runtime, "x")).data["index"]["ranking"] == RANKING


async def test_a_full_disk_leaves_grep(opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was half written is taken back."""
    from handrail.index.store import IndexStore

    def full(store: IndexStore, *_: object) -> None:
        store._db.execute("PRAGMA max_page_count = 1")
        store._db.execute("CREATE TABLE more AS SELECT hex(randomblob(100000)) AS x")

    fill(work, CODE)
    with monkeypatch.context() as patch:
        patch.setattr(IndexStore, "_add_parts", full)
        assert "full" in await degraded(opens)
    async with opens() as runtime:
        found = await search(runtime, "send message")
    assert (found.data["index"]["ranking"], found.data["index"]["updated"]) == (RANKING, 4)


@pytest.mark.parametrize("garbage", [b"", b"not a database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_an_index_that_cannot_be_read_is_made_anew(opens: Any, work: Path, garbage: bytes) -> None:
    """It can be had again from the files."""
    fill(work, CODE)
    async with opens() as runtime:
        await search(runtime, "x")
    (database,) = index_folder().glob("*.db")
    for path in index_folder().iterdir():
        path.unlink()
    database.write_bytes(garbage)
    async with opens() as runtime:
        outcome = await search(runtime, "send message")
    assert (outcome.data["index"]["ranking"], files_of(outcome)[0]) == (RANKING, "app/mail.py")


def test_an_index_that_is_busy_is_not_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody works with it: a lock, a full disk and the like say nothing about what is in it."""
    from handrail.index.store import IndexStore
    from handrail.store import private_db

    IndexStore(tmp_path / "i/a.db").close()
    before = (tmp_path / "i/a.db").stat().st_ino

    def busy(*_: object, **__: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(private_db, "connect", busy)
    with pytest.raises(sqlite3.OperationalError):
        IndexStore(tmp_path / "i/a.db")
    assert (tmp_path / "i/a.db").stat().st_ino == before


async def test_the_operator_may_do_without_an_index(opens: Any, work: Path) -> None:
    """Then none is made."""
    fill(work, CODE)
    assert "search.index = false" in await degraded(opens, config={"search": {"index": False}})
    assert not index_folder().exists()


async def test_grep_keeps_to_what_may_be_seen_too(opens: Any, work: Path) -> None:
    """Exclusions hold for it as for every search."""
    (work / ".git").mkdir()
    fill(work, HIDDEN)
    async with opens(config={**DENY, "search": {"index": False}}) as runtime:
        assert files_of(await search(runtime, "where is zebra")) == ["open/plan.py"]


def test_an_index_of_mostly_gone_contents_starts_anew(tmp_path: Path) -> None:
    """Contents are kept for the branch that comes back, and not for ever."""
    from handrail.index.store import Fresh, IndexStore

    store = IndexStore(tmp_path / "i/a.db")
    for number in range(4):
        store.take([Fresh(b"a.py", 1, number, 1, 1, bytes([number]) * 32, f"value_{number} = 1\n")])
    assert (store.waste(1), store.waste(100)) == (0.75, 0.0)
    with store.view({b"a.py": 4}) as view:
        assert [hit.first for hit in view.hits(["value"], 9)] == [1]
    store.empty()
    with store.view({b"a.py": 4}) as view:
        assert (store.waste(1), store.known(), view.hits(["value"], 9)) == (0.0, {}, [])
    store.close()


def test_old_indexes_are_forgotten(tmp_path: Path) -> None:
    """Those that nobody used for two months, when a new one is made."""
    from handrail.index.store import FORGET_SECONDS, IndexStore

    IndexStore(tmp_path / "i/old.db").close()
    IndexStore(tmp_path / "i/young.db").close()
    past = (tmp_path / "i/old.db").stat().st_mtime - FORGET_SECONDS - 10
    os.utime(tmp_path / "i/old.db", (past, past))
    IndexStore(tmp_path / "i/new.db").close()
    assert sorted(path.name for path in (tmp_path / "i").glob("*.db")) == ["new.db", "young.db"]
