"""Tokens written one after the other without anything between them: hiding one must not show the rest of the next."""

from __future__ import annotations

import time
from itertools import permutations

import pytest

from engines import DATABASE
from handrail.output.engines import has_hyperscan
from handrail.output.patterns import MARK
from handrail.output.redact import Redactor

TOKENS = {
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "other github": "gho_" + "Zz1Xx2Cc3Vv4Bb5Nn6Mm7Aa8Ss9Dd0Ff1Gg2",
    "gitlab": "glpat-" + "Qw3rTy7uIoP9aSdFgH2j",
    "aws": "AKIA" + "QWERTYUIOPASDFGH",
    "google": "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6-",
}
REDACTORS = [Redactor(engine="plain"), Redactor(database=DATABASE)]
BOTH = pytest.mark.parametrize(
    "redactor",
    [REDACTORS[0], pytest.param(REDACTORS[1], marks=pytest.mark.skipif(not has_hyperscan(), reason="no hyperscan"))],
    ids=["plain", "fast"],
)


@BOTH
@pytest.mark.parametrize("names", [*permutations(TOKENS, 2), *permutations(["github", "gitlab", "other github"])])
def test_no_part_of_joined_tokens_is_left(redactor: Redactor, names: tuple[str, ...]) -> None:
    """Neither of the second nor of the third, whichever kinds they are."""
    text = "".join(TOKENS[name] for name in names)
    left = redactor.text(f"before {text} after")
    assert all(token[number : number + 8] not in left for token in TOKENS.values() for number in range(len(token) - 7))
    assert left.startswith("before ")
    assert left.endswith(" after")
    assert MARK in left


@BOTH
@pytest.mark.parametrize("unit", ["AKIA", "ghp_", "AKIAA", "glpat-", "AIza", "xoxb-", "eyJ"])
def test_keywords_without_end_take_linear_time(redactor: Redactor, unit: str) -> None:
    """Every one of them could begin a token in the end of another."""
    began = time.process_time()
    redactor.text(unit * (200_000 // len(unit)))
    assert time.process_time() - began < 8
