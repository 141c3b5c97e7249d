"""hash_text: the SHA-256 of a text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from handrail.catalog import tool
from handrail.errors import Code, Problem
from handrail.words import Answer


@dataclass(frozen=True, slots=True)
class TextHash:
    """The hash of a text's UTF-8 bytes, and how many there are."""

    sha256: str
    bytes: int


@tool(risk="low", pure=True)
async def hash_text(text: str) -> Answer[TextHash]:
    """Compute the SHA-256 of a text, encoded as UTF-8."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        reason = f"The text holds a lone surrogate at position {error.start}, which has no UTF-8 form."
        raise Problem(Code.INVALID_ARGS, reason, position=error.start) from None
    result = TextHash(hashlib.sha256(data).hexdigest(), len(data))
    return Answer(result, summary=f"{result.bytes} bytes, sha256 {result.sha256}")
