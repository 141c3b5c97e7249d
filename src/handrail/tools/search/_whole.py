"""The whole of a result that was cut, written page by page into a file of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from hashlib import sha256

from handrail.errors import Problem
from handrail.output.redact import MARK
from handrail.ports import Secrets, Spill
from handrail.words import Ref


async def keep_whole(
    spill: Spill, secrets: Secrets, name: str, pages: AsyncIterator[Iterable[str]]
) -> tuple[Ref | None, str]:
    """Write all lines of all pages, secrets hidden; give where they are, and what is to be said about them.

    One page is in memory at a time. A page that fails leaves nothing: a part would pass for the whole.
    """
    digest = sha256()
    hidden = False
    draft = spill.draft(name)
    try:
        async for lines in pages:
            text = secrets.text("".join(f"{line}\n" for line in lines))
            hidden = hidden or MARK in text
            data = text.encode("utf-8", "backslashreplace")
            digest.update(data)
            draft.add(data)
        ref = draft.keep(digest.hexdigest())
        what = f"All of it, secrets hidden as {MARK}," if hidden else "All of it"
        return ref, f"{what} is in {ref.ref}"
    except Problem as problem:
        return None, f"The whole result is not kept: {problem.message}"
    finally:
        draft.discard()
