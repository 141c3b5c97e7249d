"""Attacks on the code index: through names, links, races, hidden files, secrets, its query language and its file."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.index.store import Fresh, IndexStore
from searching import fill
from tools._searched import CODE, DENY, files_of, index_folder, old, search

HOSTILE = [
    b'quote".py', b"new\nline.py", b"-rf.py", b"\x1b[31mred.py", b"\xff\xfe.py", b"a' OR 1=1 --.py",
    "\u202egnp.py".encode(), b"x" * 240 + b".py", b"$(touch owned).py", b" .py", b"*.py", b"{a,b}.py", b"!x.py",
    b"words MATCH x.py",
]  # fmt: skip


# ── names and links ──────────────────────────────────────────────────────────────────────────


async def test_no_name_of_a_file_breaks_the_index(opens: Any, work: Path) -> None:
    """Each is found, shown on one line, and nothing is run."""
    for number, name in enumerate(HOSTILE):
        Path(work, os.fsdecode(name)).write_text(f"def zebra_{number}(): pass\n")
    async with opens() as runtime:
        for number in range(len(HOSTILE)):
            (best, *_) = (await search(runtime, f"zebra_{number}")).data["places"]
            assert best["symbol"] == f"zebra_{number}"
            assert best["file"].isprintable() or "\u202e" in best["file"] or "\\" in best["file"]
            assert "\n" not in best["file"]
            assert "\x1b" not in best["file"]
    assert not (work / "owned").exists()


async def test_a_file_that_becomes_a_link_while_it_is_read_leads_nowhere(
    opens: Any, work: Path, tmp_path: Path, scale: int
) -> None:
    """What lies outside is neither shown nor indexed, however often names are exchanged."""
    outside = tmp_path / "outside.py"
    outside.write_text("def outsidersecret(): pass\n")
    fill(work, {f"f{number}.py": f"def zebra_{number}(): pass\n" for number in range(20)})
    done = threading.Event()

    def swap() -> None:
        chance, link, real = random.Random(3), tmp_path / "link", tmp_path / "real"
        while not done.is_set():
            name = work / f"f{chance.randrange(20)}.py"
            link.symlink_to(outside)
            os.replace(link, name)
            real.write_text(f"def zebra_{chance.random()}(): pass\n")
            os.replace(real, name)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        async with opens(config={"limits": {"max_repeats": 0}}) as runtime:
            for number in range(10 * scale):
                found = await search(runtime, ("outsidersecret", "zebra")[number % 2])
                assert "outsidersecret()" not in str(found.to_dict())
    finally:
        done.set()
        thread.join()
    assert all(b"outsidersecret" not in path.read_bytes() for path in index_folder().iterdir())


# ── hidden files ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hidden", ["alpha " * 50, "gamma " * 50])
async def test_scores_do_not_tell_which_words_hidden_files_hold(
    opens: Any, work: Path, tmp_path: Path, hidden: str
) -> None:
    """How rare a word is would say so: only what may be seen counts."""
    fill(work, {"a.py": "def alpha(): pass\n", "b.py": "def beta(): pass\n", "c.py": "def other(): pass\n"})
    fill(work, {f"private/alpha_{number}.py": hidden for number in range(30)})
    fill(work, {f"private/{number}.py": f"{hidden} {number}\n" for number in range(30)})
    query = "alpha beta"
    async with opens() as runtime:
        await search(runtime, query)  # it was allowed to see everything
    async with opens(config={**DENY, "search": {"vectors": "off"}}) as runtime:
        outcome = await search(runtime, query)
    scores = [place["score"] for place in outcome.data["places"]]
    assert (sorted(files_of(outcome)), outcome.data["index"]["files"]) == (["a.py", "b.py"], 3)
    assert scores[0] == scores[1]  # the two words are equally rare in what may be seen
    assert "private" not in str(outcome.to_dict())


async def test_many_hidden_files_do_not_crowd_out_what_may_be_seen(opens: Any, work: Path) -> None:
    """Though every one of them fits better."""
    fill(work, {f"private/zebra_{number}.py": f"def zebra_zebra_{number}(): pass\n" for number in range(1200)})
    fill(work, {"open/other.py": "x = 1  # zebra\n", "open/zebra_name.py": "y = 2\n"})
    async with opens() as runtime:
        await search(runtime, "zebra")
    async with opens(config={**DENY, "search": {"vectors": "off"}}) as runtime:
        outcome = await search(runtime, "zebra")
    assert sorted(files_of(outcome)) == ["open/other.py", "open/zebra_name.py"]
    assert outcome.data["index"]["files"] == 2


# ── secrets ──────────────────────────────────────────────────────────────────────────────────


async def test_a_value_that_turns_out_to_be_secret_is_no_longer_found(
    opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither whole nor by one of its words; the rest of its file stays."""
    old(fill(work, {"a.py": "def connect():\n    return 'walrus-Umbrella-77x'\n", "b.py": "def walk(): pass\n"}))
    async with opens(config={"search": {"vectors": "off"}}) as runtime:
        assert files_of(await search(runtime, "walrus")) == ["a.py"]
    monkeypatch.setenv("DEPLOY_TOKEN", "walrus-Umbrella-77x")
    for _ in range(2):
        async with opens(config={"search": {"vectors": "off"}}) as runtime:
            for query in ("walrus", "umbrella", "walrus-Umbrella-77x"):
                assert files_of(await search(runtime, query)) == []
            assert files_of(await search(runtime, "connect")) == ["a.py"]
            assert files_of(await search(runtime, "walk")) == ["b.py"]


async def test_a_pattern_of_secrets_that_is_new_holds_for_what_was_indexed_before(opens: Any, work: Path) -> None:
    """It has an index of its own."""
    old(fill(work, {"a.py": "def connect():\n    return 'corp-walrus-99'\n"}))
    plain: dict[str, Any] = {"search": {"vectors": "off"}}
    async with opens(config=plain) as runtime:
        assert files_of(await search(runtime, "walrus")) == ["a.py"]
    async with opens(config={**plain, "redaction": {"patterns": {"corp": "corp-[a-z]+-[0-9]+"}}}) as runtime:
        assert files_of(await search(runtime, "walrus")) == []
        shown = await search(runtime, "connect")
    assert "walrus" not in str(shown.to_dict())


# ── the query language ───────────────────────────────────────────────────────────────────────

SIGNS = st.text(
    st.sampled_from(['"', "'", "*", "^", "(", ")", ":", "+", "-", "{", "}", "a", " ", "\0", ";", "é", "\ud800"])
)
WORDS = st.sampled_from(["AND", "OR", "NOT", "NEAR", "NEAR(a b, 3)", "symbol:", "words", "rank", "delete-all", "--"])


@given(query=st.lists(SIGNS | WORDS, max_size=12).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_no_question_is_read_as_a_command(query: str) -> None:
    """Whatever signs it holds: the index answers, and is the same afterwards."""
    store = IndexStore(None)
    store.take([Fresh(b"a.py", 1, 1, 1, 1, b"1" * 32, "def a(): pass\n")])
    terms = query.encode("utf-8", "replace").decode().split()
    with store.view({b"a.py": 1}) as view:
        view.hits([query.encode("utf-8", "replace").decode(), *terms], 9)
        view.named_files(terms, 9)
        view.holding([1], terms)
        assert [hit.symbol for hit in view.hits(["a"], 9)] == ["a"]
    store.close()


# ── the file ─────────────────────────────────────────────────────────────────────────────────


async def test_an_index_with_any_bytes_changed_answers_right_or_is_made_anew(
    opens: Any, work: Path, scale: int
) -> None:
    """Torn, cut off or overwritten: the files themselves are what is shown, and the next search is well again."""
    old(fill(work, CODE | {f"g{number}.py": f"def helper_{number}(): pass\n" for number in range(200)}))
    async with opens() as runtime:
        await search(runtime, "send message")
    (path,) = index_folder().glob("*.db")
    sound, chance = path.read_bytes(), random.Random(11)
    for number in range(6 * scale):
        for extra in index_folder().glob("*.db-*"):
            extra.unlink()
        data = bytearray(sound)
        if number % 3 == 0:
            del data[chance.randrange(len(data)) :]
        else:
            start = chance.randrange(len(data) - 4096)
            data[start : start + 4096] = chance.randbytes(4096)
        path.write_bytes(data)
        for _ in range(2):
            async with opens() as runtime:
                outcome = await search(runtime, "send message")
                assert {place["file"] for place in outcome.data["places"]} <= {*map(str, CODE), *_helpers()}
        assert outcome.data["index"]["ranking"] != "grep", outcome.warnings


def _helpers() -> list[str]:
    return [f"g{number}.py" for number in range(200)]


async def test_an_index_that_others_empty_meanwhile_gives_no_wrong_places(opens: Any, work: Path) -> None:
    """Numbers of contents may be given again; what no longer is what it was is left out."""
    old(fill(work, CODE))
    async with opens() as runtime:
        await search(runtime, "send message")
        (path,) = index_folder().glob("*.db")
        other = IndexStore(path)
        contents = {name: known.content for name, known in other.known().items()}
        other.empty()
        moved = next(name for name, content in contents.items() if content != 1)
        other.take([Fresh(moved, 1, 1, 1, 1, b"9" * 32, "def send_message(): pass\n")])  # it has the number 1 now
        with other.view(contents) as view:
            assert view.hits(["send"], 9) == []
        other.close()
        assert files_of(await search(runtime, "send message"))[0] == "app/mail.py"


async def test_a_call_that_is_cancelled_leaves_an_index_that_goes_on(opens: Any, work: Path) -> None:
    """Whenever it is cancelled."""
    old(fill(work, {f"f{number}.py": f"def zebra_{number}(): pass\n" for number in range(400)}))
    async with opens() as runtime:
        for seconds in (0.0, 0.02, 0.1):
            task = asyncio.create_task(runtime.call("codebase_search", {"query": "zebra"}))
            await asyncio.wait([task], timeout=seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert (await search(runtime, "zebra_7")).data["index"]["files"] == 400
