"""hash_file: the SHA-256 of a file of any size."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from handrail.catalog import Reads, tool
from handrail.ports import Workspace
from handrail.tools.fs._standing import need_file
from handrail.words import Answer, Evidence

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileHash:
    """The hash of a file's bytes, and how many there are."""

    sha256: str
    bytes: int


@tool(risk="low")
async def hash_file(files: Workspace, path: Reads) -> Answer[FileHash]:
    """Compute the SHA-256 of a file without loading it whole."""
    need_file(files, path, "hash_file")
    digest, size = hashlib.sha256(), 0
    async with files.open(path) as stream:
        while chunk := await stream.read(CHUNK):
            digest.update(chunk)
            size += len(chunk)
    result = FileHash(digest.hexdigest(), size)
    files.saw(path, result.sha256, whole=False)
    return Answer(
        result,
        summary=f"{path.shown}: {size} bytes, sha256 {result.sha256}",
        evidence=(Evidence("file", path.shown, f"{size} bytes", result.sha256),),
    )
