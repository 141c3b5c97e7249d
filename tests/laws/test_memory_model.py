"""Laws of notes: the embedded provider does what a dictionary would, and finds what it holds."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.errors import Problem
from handrail.memory.sqlite import SqliteMemory
from handrail.ports import Note, NoteChange

IDS = st.sampled_from(["a", "b", "c"])
SCOPES = st.sampled_from(["user", "workspace"])
TEXTS = st.text(alphabet="xyzäß 中\n\"'*()-:\0", max_size=12)
STEPS = st.one_of(
    st.tuples(st.just("add"), IDS, SCOPES, TEXTS),
    st.tuples(st.just("change"), IDS, SCOPES, TEXTS),
    st.tuples(st.just("remove"), IDS, SCOPES, st.just("")),
)


@given(steps=st.lists(STEPS, max_size=12), query=TEXTS)
@settings(max_examples=30, deadline=None)
def test_the_provider_does_what_a_dictionary_would(steps: list[Any], query: str) -> None:
    """An id is added once, changed and removed only where it is; a query of any text is answered."""

    async def compare(folder: Path) -> None:
        memory = SqliteMemory({scope: folder / f"{scope}.db" for scope in ("user", "workspace")})
        model: dict[tuple[str, str], str] = {}
        for number, (what, note_id, scope, text) in enumerate(steps):
            there = (scope, note_id) in model
            if what == "add":
                await memory.add(Note(note_id, text, scope=scope, created=number, updated=number))
                model.setdefault((scope, note_id), text)
                continue
            gone = NoteChange("update", note_id, text, scope=scope)
            with nullcontext() if there else pytest.raises(Problem, match="There is no note"):
                await (memory.change(gone, number) if what == "change" else memory.remove(note_id, scope))
            if there and what == "change":
                model[scope, note_id] = text
            model = {key: value for key, value in model.items() if what == "change" or key != (scope, note_id)}
        found = await memory.search("", None, 100)
        assert {(note.scope, note.id): note.content for note in found} == model
        await memory.search(query, None, 100)
        for (scope, note_id), text in model.items():
            words = [word for word in text.split() if word.isalnum() and "\0" not in text]
            if words:
                hits = await memory.search(words[0], scope, 100)
                assert note_id in {note.id for note in hits}
        await memory.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))
