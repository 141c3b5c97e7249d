"""http_download: a file from an allowed host, into the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256 as new_digest
from typing import Annotated, Any

from pydantic import Field

from handrail.catalog import Writes, tool
from handrail.errors import Code, Problem
from handrail.ports import Net, Secrets, Workspace
from handrail.tools.http import _request as ask
from handrail.words import Answer, Evidence, How, Place, PlaceKind, Touch, TouchKind


@dataclass(frozen=True, slots=True)
class Downloaded:
    """What was written."""

    path: str
    bytes: int
    sha256: str
    url: str
    status: int


def _touches(args: Mapping[str, Any]) -> Sequence[Touch]:
    return (*ask.touches(args), Touch(TouchKind.FS_WRITE, args["path"], how=How.REPLACE))


async def _preview(path: Place, overwrite: bool, **_: Any) -> str:
    """Nothing to show; but what is in the way is said before a person is asked."""
    _need_room(path, overwrite)
    return ""


@tool(risk="high", touches=_touches, permissions=("net.connect", "fs.write"), timeout_seconds=125, preview=_preview)
async def http_download(
    net: Net,
    files: Workspace,
    secrets: Secrets,
    url: ask.Address,
    path: Writes,
    headers: ask.Headers = None,
    timeout_ms: Annotated[int, Field(ge=1000, le=120000), "milliseconds for all of it"] = 120000,
    max_bytes: ask.MaxBytes = None,
    overwrite: Annotated[bool, "replace a file that is there"] = False,
    sha256: Annotated[str | None, Field(pattern="^[0-9A-Fa-f]{64}$"), "what the file must be"] = None,
) -> Answer[Downloaded]:
    """Download a file from an allowed host into the workspace; it is there whole or not at all."""
    _need_room(path, overwrite)
    asked = ask.request(url, "GET", headers, timeout_ms=timeout_ms, max_bytes=max_bytes)
    async with files.writing(path, expected_sha256=None, exclusive=not overwrite) as sink:
        digest = new_digest()

        async def write(piece: bytes) -> None:
            digest.update(piece)
            await sink.write(piece)

        response = await net.download(asked, write)
        if not 200 <= response.status < 300:
            raise ask.failed(response, secrets)
        _check(sha256, digest.hexdigest(), path.shown)
        await sink.commit()
    data = Downloaded(path.shown, response.bytes, digest.hexdigest(), ask.shown(response.url), response.status)
    said = f"Downloaded {data.url} to {data.path}: {data.bytes} bytes, sha256 {data.sha256}"
    file = Evidence("file", data.path, f"{data.bytes} bytes", data.sha256)
    return Answer(data, said, said, (ask.evidence("GET", response, sha256=data.sha256), file))


def _need_room(path: Place, overwrite: bool) -> None:
    if path.kind is not PlaceKind.MISSING and not overwrite:
        text = f"{path.shown} exists already; `overwrite: true` replaces it."
        raise Problem(Code.ALREADY_EXISTS, text, path=path.shown)


def _check(wanted: str | None, found: str, shown: str) -> None:
    if wanted is not None and wanted.lower() != found:
        text = f"What came has another sha256 than the one asked for, so {shown} was not written."
        raise Problem(Code.UPSTREAM_ERROR, text, expected_sha256=wanted.lower(), sha256=found)
