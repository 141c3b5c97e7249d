"""Secrets that no string shows alone: keys kept line by line, spelled with escapes, or spread over fields."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Opens
from handrail.hiding import hidden
from handrail.output.patterns import MARK
from handrail.output.redact import Redactor
from serving import Server, http_settings, serving

BODY = [b64encode(bytes((number * 7 + place * 31) % 256 for place in range(48))).decode() for number in range(1, 20)]
KEY = ["-----BEGIN RSA " + "PRIVATE KEY-----", *BODY, "-----END RSA " + "PRIVATE KEY-----"]
VALUES: dict[str, Any] = {
    "a list of lines": {"cert_lines": KEY, "port": 1},
    "fields in order": {"k": {f"l{number}": line for number, line in enumerate(KEY)}, "port": 1},
    "objects in a list": [{"n": number, "line": line} for number, line in enumerate(KEY)],
    "lists in a list": [[line] for line in KEY],
    "names of fields": {"k": {line: number for number, line in enumerate(KEY)}},
    "with line ends": {"source": [f"{line}\n" for line in KEY]},
    "half of it in one": ["\n".join(KEY[:2]), *KEY[2:]],
    "with other things": [thing for line in KEY for thing in (line, 5, None, True)],
}
WAYS: dict[str, Callable[[Any], str]] = {
    "short": json.dumps,
    "indented": lambda value: json.dumps(value, indent=1),
    "escaped": lambda value: json.dumps(value).replace("-", "\\u002d"),
}
REDACTOR = Redactor(engine="plain")
EXPRESSIONS = ["@", "*", "*[]", "[]", "[*].line", "k.keys(@)", "k.*", "k.values(@)", "[?contains(@, '=')]", "[].[0][]"]


def shown(told: Any) -> list[str]:
    """The lines of the key that something shows."""
    text = json.dumps(told)
    return [line for line in BODY if line[4:24] in text]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with serving() as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VALUES)
async def test_no_selection_shows_what_the_file_hides(opens: Opens, work: Path, name: str, way: str) -> None:
    """Whatever the expression takes out of it."""
    (work / "k.json").write_text(WAYS[way](VALUES[name]))
    async with opens() as runtime:
        for expression in EXPRESSIONS:
            outcome = await runtime.call("json_select", {"path": "k.json", "expression": expression})
            assert shown(outcome.to_dict()) == [], expression


@pytest.mark.parametrize("select", [None, "@", "*[]", "[].line"])
async def test_no_answer_of_a_host_shows_it(opens: Opens, server: Server, select: str | None) -> None:
    """Neither whole nor picked from."""
    asked = {"select": select} if select else {}
    async with opens(config=http_settings(f"127.0.0.1:{server.port}"), mode="headless") as runtime:
        for number, value in enumerate(VALUES.values()):
            server.on(f"/{number}", json.dumps(value, indent=1))
            outcome = await runtime.call("http_json", {"url": server.url(f"/{number}"), **asked})
            assert outcome.ok
            assert shown(outcome.to_dict()) == []


def test_what_stands_around_a_key_stays() -> None:
    """Only what is hidden in the text is hidden in the value."""
    value = {"before": ["a", 1], "key": KEY, "after": {"b": "c", "d": [True, None, 2.5]}}
    found = hidden(value, REDACTOR, json.dumps(value))
    assert found == {**value, "key": [MARK] * len(KEY)}


def test_a_secret_inside_a_long_string_leaves_the_rest() -> None:
    """Counted in characters of the value, whatever escapes its spelling has."""
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    value = {"note": f'é\n"quoted" \U0001f600 {token} and\tmore'}
    want = {"note": f'é\n"quoted" \U0001f600 {MARK} and\tmore'}
    assert [hidden(value, REDACTOR, json.dumps(value, ensure_ascii=way)) for way in (True, False)] == [want] * 2


def test_hidden_names_do_not_push_each_other_out() -> None:
    """Each field is still there."""
    names = ["ghp_" + letter * 3 + "1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7" for letter in "abc"]
    value = {name: number for number, name in enumerate(names)}
    assert hidden(value, REDACTOR, json.dumps(value)) == {MARK: 0, f"{MARK} 2": 1, f"{MARK} 3": 2}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


KEPT = [
    "",
    "z",
    "zq",
    "zq8",
    "zq8",
    "zq8\n",
    "zq8\n",
    'zq8\n"',
    'zq8\n"J',
    'zq8\n"Jk',
]


class Place:
    """Hides one place of one text."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text, self.span = text, (start, end)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """What is hidden there."""
        return [self.span] if text == self.text else []


@given(JSON_VALUES, st.booleans(), st.integers(0, 9))
def test_tokens_and_values_are_counted_alike(value: Any, ascii_only: bool, first: int) -> None:
    """Where a part of one string of a text is hidden, it is hidden in the value, and all else stays."""
    whole = [value, {"field": ["before", 'zq8\n"Jk2', "after"]}]
    text = json.dumps(whole, ensure_ascii=ascii_only)
    at = text.rindex("zq8")
    found = hidden(whole, Place(text, at + first, at + 10), text)
    assert found == [value, {"field": ["before", KEPT[first] + MARK, "after"]}]
