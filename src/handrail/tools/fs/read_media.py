"""read_media: the bytes of an image, a sound or any other file, for a model that can take them."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from posixpath import splitext

from handrail.catalog import Reads, tool
from handrail.errors import Code, Problem
from handrail.ports import Limits, Secrets, Workspace
from handrail.tools.fs._aside import aside
from handrail.tools.fs._standing import need_file
from handrail.tools.fs._text import decode
from handrail.words import Answer, Evidence

_LINE, _LONG = 16, 4096
_READABLE = re.compile(rb"[\t\n\r\x20-\x7e]{8,}")
UNKNOWN = "application/octet-stream"
KINDS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".svg": "image/svg+xml",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".pdf": "application/pdf",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}


@dataclass(frozen=True, slots=True)
class Media:
    """A file's bytes, and what its name says they are."""

    path: str
    mime_type: str
    bytes: int
    sha256: str
    base64: str  # may be broken into lines


@tool(risk="low", max_bytes=16 * 1024 * 1024)
async def read_media(files: Workspace, secrets: Secrets, limits: Limits, path: Reads) -> Answer[Media]:
    """Read an image, a sound or another file that is no text, as base64 with its MIME type; read_file is for text."""
    need_file(files, path, "read_media")
    data = (await files.read(path, limits.max_read_bytes)).data
    encoded = await aside(len(data), partial(_encoded, data, path.shown, secrets))
    kind = KINDS.get(splitext(path.path)[1].lower(), UNKNOWN)
    media = Media(path.shown, kind, len(data), sha256(data).hexdigest(), encoded)
    files.saw(path, media.sha256, whole=True)
    said = f"{path.shown}: {kind}, {media.bytes} bytes"
    return Answer(media, said, said, (Evidence("file", path.shown, said, media.sha256),))


def _encoded(data: bytes, shown: str, secrets: Secrets) -> str:
    """Give the bytes as base64; what holds a secret is refused, since nothing can be hidden in it."""
    if any(_tells(secrets, reading) for reading in _readings(data, shown)):
        why = f"{shown} holds what looks like a secret, which cannot be hidden in bytes; read_file shows it as text."
        raise Problem(Code.POLICY_DENIED, why, next_call={"tool": "read_file", "args": {"path": shown}})
    text = base64.b64encode(data).decode("ascii")
    if not _tells(secrets, text):
        return text
    # Noise looks like a token once in some megabytes. In lines, as base64 may be written, it does not.
    lines = "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))
    if len(text) < _LONG or _tells(secrets, lines):
        raise Problem(Code.POLICY_DENIED, f"{shown} looks like a secret once it is written as base64.")
    return lines


def _tells(secrets: Secrets, text: str) -> bool:
    return not secrets.quiet(text.encode("utf-8", "replace")) and secrets.text(text) != text


def _readings(data: bytes, shown: str) -> list[str]:
    """The texts that stand in the bytes: readable stretches, in one byte a letter or two, and all of what is text."""
    found = [_stretches(data)]
    if b"\x00" in data:
        found.append(_stretches(data.replace(b"\x00", b"")))
    with suppress(Problem):
        found.append(decode(data, shown).text)
    return found


def _stretches(data: bytes) -> str:
    return b"\n".join(_READABLE.findall(data)).decode("ascii")
