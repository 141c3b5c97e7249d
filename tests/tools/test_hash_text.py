"""hash_text."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from handrail.errors import Code
from handrail.tools.util.hash_text import TextHash, hash_text
from workspaces import refused


@given(st.text(st.characters(exclude_categories=["Cs"])))
async def test_the_hash_is_that_of_the_utf8_bytes(text: str) -> None:
    """A law: for every text."""
    data = text.encode()
    assert (await hash_text.function(text)).data == TextHash(hashlib.sha256(data).hexdigest(), len(data))


async def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    """It has no UTF-8 form, so there is nothing to hash."""
    problem = await refused(hash_text.function("ab\ud800"))
    assert (problem.code, problem.details) == (Code.INVALID_ARGS, {"position": 2})


def test_it_is_pure() -> None:
    """No touch, no permission."""
    assert (hash_text.pure, hash_text.permissions) == (True, ())
