"""Words to vectors by a table that came with a package: nothing is downloaded, and no model is run or asked.

A text's vector is the sum of the vectors of its different words, as small whole numbers; only its direction counts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail.index.words import names_in, spoken
from handrail.installed import find_module

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Bytes = npt.NDArray[np.int8]

INSTALL = "pip install 'handrail[vectors]'"
_WEIGHTS, _TOKENS = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
_MAX_HEADER = 1 << 20
_KEEP = 20_000  # names whose vectors are remembered
_FORM = 1  # of what is made of the table; another number has every vector made anew


class NoEmbeddingError(Exception):
    """The table cannot be had; says why, and what brings it."""


class Embedding:
    """The table, and the vectors of names met so far; used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Read the table of a folder; NoEmbeddingError where it is not what it should be."""
        try:
            import numpy as np
            from tokenizers import Tokenizer

            self._numpy: Any = np
            self._table, digest = _table(np, folder / _WEIGHTS)
            # Reads this file and nothing else; what could reach a network is never imported.
            self._tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENS))
        except Exception as error:  # the tokenizer raises bare ones; whatever it is, words still work
            raise NoEmbeddingError(f"the embedding cannot be loaded ({error}); {INSTALL}") from error
        self.dims = int(self._table.shape[1])
        self.name = f"l2_supercat/{digest}/{self.dims}/{_FORM}"
        self._written: dict[str, int] = {}
        self._said: dict[str, int] = {"": 0}  # whose vector is zero
        self._known: Floats = np.zeros((_KEEP + 1, self.dims), np.float32)

    def of(self, texts: Sequence[tuple[str, str]]) -> Bytes:
        """The vectors of texts, each with the name that it defines, which counts once more."""
        numpy = self._numpy
        sums = numpy.zeros((len(texts), self.dims), numpy.float32)
        for number, (text, name) in enumerate(texts):
            if rows := [*self._rows_of(names_in(text)), *self._rows_of(names_in(name))]:
                sums[number] = self._known[rows].sum(0)
        largest = numpy.abs(sums).max(1, keepdims=True, initial=0.0)
        return numpy.rint(sums * (127.0 / numpy.maximum(largest, 1e-9))).astype(numpy.int8)  # type: ignore[no-any-return]

    def _rows_of(self, names: set[str]) -> set[int]:
        """Where the vectors of these names stand; names that are said alike share one."""
        written = self._written
        fresh = [name for name in names if name not in written]
        if len(written) + len(fresh) > _KEEP:
            written.clear()
            self._said = {"": 0}
            fresh = list(names)[: _KEEP - 1]
        if fresh:
            self._learn(fresh)
        return {written[name] for name in names if name in written}

    def _learn(self, names: Sequence[str]) -> None:
        said = [spoken(name) for name in names]
        for words in said:
            if words not in self._said:
                # One at a time: a batch starts threads of its own, which no process should have that forks.
                tokens = self._tokenizer.encode(words, add_special_tokens=False).ids
                row = self._said[words] = len(self._said)
                self._known[row] = self._table[tokens].sum(0, dtype=self._numpy.float32)
        self._written.update(zip(names, (self._said[words] for words in said), strict=True))

    def likeness(self, question: Bytes, rows: bytes) -> Floats:
        """How near each of some vectors is to a question's, from -1 to 1."""
        numpy = self._numpy
        asked = question.astype(numpy.float32)
        asked /= max(float(numpy.linalg.norm(asked)), 1e-9)
        there = numpy.frombuffer(rows, numpy.int8).reshape(-1, self.dims).astype(numpy.float32)
        lengths = numpy.sqrt(numpy.einsum("ij,ij->i", there, there))
        return (there @ asked) / numpy.maximum(lengths, 1e-9)  # type: ignore[no-any-return]


def load() -> Embedding:
    """Load the table that is installed; NoEmbeddingError where none is."""
    found = find_module("wordllama")
    if found is None or found.origin is None:
        raise NoEmbeddingError(f"the embedding is not installed; {INSTALL}")
    return Embedding(Path(found.origin).parent)


def _table(numpy: Any, path: Path) -> tuple[Any, str]:
    """The weights as a table of half floats, read as they are asked for; and what they are known by."""
    raw = numpy.memmap(path, numpy.uint8, "r")
    length = int.from_bytes(raw[:8].tobytes(), "little")
    if not 0 < length < min(_MAX_HEADER, len(raw)):
        raise ValueError(f"{path.name} has no header")
    header = raw[8 : 8 + length].tobytes()
    ((_, about),) = [item for item in json.loads(header).items() if item[0] != "__metadata__"]
    start, end = (8 + length + offset for offset in about["data_offsets"])
    rows, dims = about["shape"]
    if about["dtype"] != "F16" or end - start != rows * dims * 2 or end > len(raw):
        raise ValueError(f"{path.name} has another form than is known")
    table = raw[start:end].view(numpy.ndarray).view(numpy.dtype("<f2")).reshape(rows, dims)
    return table, hashlib.sha256(header + raw[start : start + (1 << 16)].tobytes()).hexdigest()[:12]
