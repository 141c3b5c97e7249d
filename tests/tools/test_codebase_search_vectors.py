"""codebase_search with an embedding: what it adds, that it takes nothing away, and that it asks nobody."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail.index import embedding
from handrail.index.embedding import NoEmbeddingError, load
from searching import fill
from tools._questions import OTHER_WORDS_OWN, OTHER_WORDS_PYDANTIC, OWN, PYDANTIC
from tools._searched import CODE, DENY, HIDDEN, answered, files_of, index_folder, old, search

if find_spec("wordllama") is None:
    assert os.environ.get("CI") != "true", "the embedding is missing"
    pytest.skip("the embedding is not installed (handrail[vectors])", allow_module_level=True)

ON = {"search": {"vectors": "on"}}
OFF = {"search": {"vectors": "off"}}


def vectors() -> dict[int, int]:
    """How many bytes of vectors each content has in the one index there is."""
    (path,) = index_folder().glob("*.db")
    db = sqlite3.connect(path)
    try:
        return dict(db.execute("SELECT content, length(data) FROM vectors").fetchall())
    finally:
        db.close()


# ── how well it answers ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tree", ["own", "pydantic"])
async def test_vectors_answer_no_question_worse_and_questions_in_other_words_better(tree: str) -> None:
    """In the first five: of the written-down ones as many, of those that use other words than the code, more."""
    import pydantic

    own = tree == "own"
    root = Path(handrail.__file__).parents[2] if own else Path(pydantic.__file__).parent
    written, others = (OWN, OTHER_WORDS_OWN) if own else (PYDANTIC, OTHER_WORDS_PYDANTIC)
    with_them = len(await answered(root, written, "on")), len(await answered(root, others, "on"))
    without = len(await answered(root, written, "off")), len(await answered(root, others, "off"))
    assert with_them[0] >= without[0]
    assert with_them[1] > without[1]


async def test_what_shares_no_word_is_found(opens: Any, work: Path) -> None:
    """And it is said how."""
    fill(work, {"a.py": "def remove_directory(path):\n    rmtree(path)\n", "b.py": "def send_email(to):\n    pass\n"})
    async with opens(config=ON) as runtime:
        found = await search(runtime, "erase a folder")
    assert (files_of(found)[0], found.data["index"]["ranking"]) == ("a.py", "hybrid")
    assert found.content.endswith("[Hybrid index: 2 files, 2 read anew]")
    async with opens(config=OFF) as runtime:
        found = await search(runtime, "erase a folder")
    assert (files_of(found), found.data["index"]["ranking"]) == ([], "lexical")


async def test_what_nothing_is_about_finds_nothing(opens: Any, work: Path) -> None:
    """A vector is always near another one; so near as by chance is no answer."""
    fill(work, CODE)
    async with opens(config=ON) as runtime:
        for query in ("medieval poetry of the north", "zebra", "???", "\0"):
            assert (await search(runtime, query)).data["places"] == []


# ── what is kept ─────────────────────────────────────────────────────────────────────────────


async def test_vectors_are_small_and_made_once(opens: Any, work: Path) -> None:
    """256 bytes a part, by content: a copy costs nothing, a change only itself."""
    old(fill(work, {"a.py": "def alpha(): pass\n", "b.py": "def alpha(): pass\n", "c.py": "x = 1\ndef beta(): pass\n"}))
    async with opens(config=ON) as runtime:
        await search(runtime, "alpha")
        assert sorted(vectors().values()) == [256, 512]
        (work / "a.py").write_text("def gamma(): pass\n")
        again = await search(runtime, "alpha")
        assert (again.data["index"]["updated"], len(vectors())) == (1, 3)


async def test_vectors_join_an_index_that_has_none(opens: Any, work: Path) -> None:
    """Its files are read once more for them, and not again."""
    old(fill(work, CODE))
    async with opens(config=OFF) as runtime:
        await search(runtime, "send message")
    assert vectors() == {}
    for updated in (4, 0):
        async with opens(config=ON) as runtime:
            assert (await search(runtime, "send message")).data["index"]["updated"] == updated
    assert len(vectors()) == 4
    async with opens(config=OFF) as runtime:
        assert (await search(runtime, "send message")).data["index"]["updated"] == 0


async def test_another_table_has_its_own_vectors(opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the last one are not compared with it."""
    old(fill(work, CODE))
    async with opens(config=ON) as runtime:
        await search(runtime, "send message")
    monkeypatch.setattr(embedding, "_FORM", 99)
    async with opens(config=ON) as runtime:
        assert (await search(runtime, "send message")).data["index"]["updated"] == 4
    assert len(vectors()) == 4


# ── what may be seen ─────────────────────────────────────────────────────────────────────────


async def test_vectors_of_what_policy_leaves_out_are_not_compared(opens: Any, work: Path) -> None:
    """Though they are in the index, because an earlier run was allowed to see it."""
    (work / ".git").mkdir()
    fill(work, HIDDEN | {"private/erase.py": "def remove_directory(path):\n    rmtree(path)\n"})
    async with opens(config=ON) as runtime:
        assert "private/erase.py" in files_of(await search(runtime, "erase a folder"))
    async with opens(config={**DENY, **ON}) as runtime:
        outcome = await search(runtime, "erase a folder")
    assert "private" not in str(outcome.to_dict())


# ── where it cannot be had ───────────────────────────────────────────────────────────────────


async def test_without_the_package_words_answer(opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In silence, unless settings ask for vectors: then it is said what brings them."""
    fill(work, CODE)
    monkeypatch.setattr(embedding, "find_module", lambda _name: None)
    async with opens(config={}) as runtime:
        silent = await search(runtime, "send message")
    async with opens(config=ON) as runtime:
        asked = await search(runtime, "send message")
    assert (silent.data["index"]["ranking"], silent.warnings) == ("lexical", ())
    assert (asked.data["index"]["ranking"], files_of(asked)[0]) == ("lexical", "app/mail.py")
    says = "the embedding is not installed; pip install 'handrail[vectors]'. The answer is ranked by words alone."
    assert asked.warnings == (f'search.vectors is "on", but {says}',)


@pytest.mark.parametrize("harm", ["cut", "header", "gone", "tokens"])
def test_a_table_that_is_not_what_it_should_be_is_refused(tmp_path: Path, harm: str) -> None:
    """Whatever is wrong with its files."""
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    for name in ("weights", "tokenizers"):
        shutil.copytree(Path(spec.origin).parent / name, tmp_path / name)
    weights = tmp_path / "weights/l2_supercat_256.safetensors"
    if harm == "cut":
        os.truncate(weights, 5000)
    elif harm == "header":
        weights.write_bytes(b"\xff" * 5000)
    elif harm == "gone":
        weights.unlink()
    else:
        (tmp_path / "tokenizers/l2_supercat_tokenizer_config.json").write_text("{")
    with pytest.raises(NoEmbeddingError, match="cannot be loaded"):
        embedding.Embedding(tmp_path)


async def test_no_request_is_made(opens: Any, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is anything imported that could make one."""
    fill(work, CODE)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    async with opens(config=ON) as runtime:
        assert (await search(runtime, "send message")).data["index"]["ranking"] == "hybrid"
    code = (
        "import sys; from handrail.index.embedding import load; load().of([('def read_file(): pass', 'read_file')]); "
        "print(sorted({'wordllama', 'huggingface_hub', 'requests', 'httpx', 'urllib.request'} & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "[]\n"


def test_a_vector_is_its_different_words_and_nothing_else() -> None:
    """Order, repetition and spelling do not matter; a text without a word has none."""
    table = load()
    one, two, none, long = table.of([("read_file path", ""), ("path readFile path", ""), ("()[]", ""), ("x" * 500, "")])
    assert (one == two).all()
    assert not none.any()
    assert not long.any()
    assert table.likeness(one, two.tobytes())[0] > 0.999


def test_more_names_than_are_remembered_do_not_change_a_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are learned again."""
    table = load()
    before = table.of([("read the file", "")])
    monkeypatch.setattr(embedding, "_KEEP", 50)
    for number in range(20):
        table.of([(" ".join(f"name{number}x{inner}" for inner in range(30)), "")])
    assert (table.of([("read the file", "")]) == before).all()
    assert len(table._written) <= 50
