"""Laws of foreign JSON: nothing is guessed, and what is taken is what plain JSON would give."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import strict_json
from handrail.store.plain import plain

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)


@given(VALUES, st.booleans())
def test_json_that_is_plain_comes_back_as_it_was(value: object, ascii_only: bool) -> None:
    """As text and as bytes, whatever stands in it."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert strict_json.loads(text) == value
    assert strict_json.loads(text.encode()) == value


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=4), st.data())
def test_a_key_that_stands_twice_is_refused_at_any_depth(value: dict[str, object], data: st.DataObject) -> None:
    """The last one never wins in silence."""
    twice = data.draw(st.sampled_from(sorted(value)))
    pairs = [*value.items(), (twice, 1)]
    text = "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(item)}" for name, item in pairs) + "}"
    for nested in (text, f"[{text}]", f'{{"outer": {text}}}'):
        with pytest.raises(ValueError, match="stands twice in one object"):
            strict_json.loads(nested)


def test_the_key_that_stands_twice_is_named() -> None:
    """So that whoever wrote it can find it, also where two spellings are the same key."""
    with pytest.raises(ValueError, match="the key 'path' stands twice"):
        strict_json.loads('{"path": "ok", "p\\u0061th": "/etc/passwd"}')


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_are_no_json_are_refused(constant: str) -> None:
    """By their name, wherever they stand."""
    for text in (constant, f"[{constant}]", f'{{"a": {constant}}}'):
        with pytest.raises(ValueError, match=f"{constant} is not JSON"):
            strict_json.loads(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "{'a': 1}", "01", "1 2", "\ufeff{}", '"\n"', "nan", "tru", b"\xff"]
)
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    """ValueError, as for all that cannot be taken."""
    with pytest.raises(ValueError):  # noqa: PT011
        strict_json.loads(text)


@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(opens: str, closes: str) -> None:
    """Up to the bound it is taken; beyond it, and far beyond what a stack holds, it is refused."""
    fits = strict_json.MAX_DEPTH - 1
    assert strict_json.loads(opens * fits + "1" + closes * fits) is not None
    for depth in (strict_json.MAX_DEPTH + 1, 100_000):
        with pytest.raises(ValueError, match="nested more than 200 levels deep"):
            strict_json.loads(opens * depth + "1" + closes * depth)


@pytest.mark.parametrize("text", ["1e999", "-1e999", '{"a": [1e400]}'])
def test_a_number_that_no_float_holds_is_refused(text: str) -> None:
    """Infinity is not JSON under another name either."""
    with pytest.raises(ValueError):  # noqa: PT011
        strict_json.loads(text)


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udc00": 1}'])
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    """Text that cannot be encoded cannot be journaled."""
    with pytest.raises(ValueError):  # noqa: PT011
        strict_json.loads(text)


@given(st.integers() | st.sampled_from([-(2**63) - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**400]))
def test_an_integer_is_handed_on_exactly_when_64_bits_hold_it(number: int) -> None:
    """Any is read; one that a reader could round, or a writer refuse, is named before it goes anywhere."""
    for value in (number, [number], {"a": number}):
        assert strict_json.loads(json.dumps(value)) == value
        for test in (strict_json.check, strict_json.handed_on):
            if -(2**63) <= number < 2**64:
                test(value)
                assert orjson.loads(orjson.dumps(value)) == value
            else:
                with pytest.raises(ValueError, match=f"of {number.bit_length()} bits, more than the 64"):
                    test(value)


def test_an_integer_of_thousands_of_digits_is_refused_in_plain_words() -> None:
    """The limit is Python's own; its advice is none for whoever sent the text."""
    with pytest.raises(ValueError, match=r"^an integer of more than \d+ digits$"):
        strict_json.loads("[" + "1" * 5000 + "]")


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (2**64, str(2**64)),
        (10**5000, f"an integer of {(10**5000).bit_length()} bits"),
    ],
    ids=["most", "least", "over", "endless"],
)
def test_the_journal_has_a_form_for_an_integer_of_any_size(number: int, kept: object) -> None:
    """Nothing stays unrecorded because of a number in it."""
    assert orjson.loads(orjson.dumps(plain({"a": [number]}))) == {"a": [kept]}
