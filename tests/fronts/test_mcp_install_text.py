"""Settings of clients as text: the entry is put in, and every other byte stays."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from handrail.errors import SettingsFault
from handrail.front.mcp.install_json import laid_over as laid_over_json
from handrail.front.mcp.install_yaml import laid_over as laid_over_yaml

ENTRY = {"command": "handrail", "args": ["mcp"]}
ONE_LINE = '"handrail": {"command": "handrail", "args": ["mcp"]}'
TABS = (
    '\t"mcpServers": {\r\n\t\t"handrail": {\r\n\t\t\t"command": "handrail",\r\n\t\t\t"args": [\r\n'
    '\t\t\t\t"mcp"\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}\r\n'
)
LINES = '"handrail": {\n      "command": "handrail",\n      "args": [\n        "mcp"\n      ]\n    }'
NUMBERS = '"a": 0.12345678901234567890123,\r\n\t"b": {"c":1E2, "d":"\\u00e9"}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{{\r\n\t{NUMBERS}\r\n}}\r\n", f"{{\r\n\t{NUMBERS},\r\n{TABS}"),
        ('{"x" :[1.0 ], "mcpServers":{"o":{} } }', f'{{"x" :[1.0 ], "mcpServers":{{"o":{{}}, {ONE_LINE} }} }}'),
        ('{"mcpServers": { }, "y": -0}', f'{{"mcpServers": {{{ONE_LINE}}}, "y": -0}}'),
        (
            '{\n "mcpServers": {"handrail": {"url": "x", "timeout": 1.50, "args": 3}, "z": {}}}',
            '{\n "mcpServers": {"handrail": {"timeout": 1.50, "command": "handrail", "args": ["mcp"]}, "z": {}}}',
        ),
        (
            '{\n  "mcpServers": {\n    "handrail": 1,\n    "z": 10000000000000000000000.0}}',
            f'{{\n  "mcpServers": {{\n    {LINES},\n    "z": 10000000000000000000000.0}}}}',
        ),
    ],
)
def test_every_byte_that_is_not_ours_stays(before: str, after: str) -> None:
    """Line ends, spaces, and the digits of numbers."""
    assert laid_over_json(Path("x"), before, ENTRY) == after
    assert laid_over_json(Path("x"), after, ENTRY) == after


VALUES = strategies.recursive(
    strategies.none()
    | strategies.integers(-(2**64), 2**64)
    | strategies.floats(allow_nan=False, allow_infinity=False)
    | strategies.text(),
    lambda below: strategies.lists(below) | strategies.dictionaries(strategies.text(), below),
)
SERVERS = strategies.dictionaries(strategies.sampled_from(["a", "handrail", "{", '"']), strategies.just({"b": [1]}))


@given(
    strategies.dictionaries(strategies.text(max_size=8), VALUES, max_size=5),
    strategies.sampled_from([None, 0, 1, "\t"]),
    strategies.none() | SERVERS,
)
def test_an_entry_is_one_piece_of_text(rest: dict[str, Any], indent: int | str | None, servers: Any) -> None:
    """Before and behind it the file is as it was."""
    known = {**rest, **({} if servers is None else {"mcpServers": servers})}
    before = json.dumps(known, indent=indent, ensure_ascii=False)
    after = laid_over_json(Path("x"), before, ENTRY)
    assert json.loads(after) == {**known, "mcpServers": {**(servers or {}), "handrail": ENTRY}}
    if servers is not None and servers and "handrail" not in servers:
        head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        assert after.endswith(before[head:])


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("extensions: {a: {b: 1}}\n", "put in safely"),
        ("extensions: null\n", "put in safely"),
        ("- a\n", "not a table"),
        ("a: [\n", "mend it first"),
        ("a: 1\na: 2\n", "'a' stands twice"),
        ("extensions:\n  - a\n", "no table"),
        ("a: 2001-99-99\n", "mend it first"),
        ("a: &a [*a]\n", "a part of"),
        (f"a: {'[' * 3000}{']' * 3000}\n", "levels deep"),
        (BOMB, "values"),
        ("#" * 300_001, "characters"),
    ],
)
def test_goose_settings_of_another_form_are_not_touched(text: str, says: str) -> None:
    """Rather by hand than wrong, and told in a moment."""
    with pytest.raises(SettingsFault, match=says) as fault:
        laid_over_yaml(Path("config.yaml"), text, {"cmd": "handrail"})
    assert "by hand" in str(fault.value)


def test_goose_settings_keep_their_line_ends() -> None:
    """What is put in has the same."""
    made = laid_over_yaml(Path("x"), "a: 1\r\nextensions: # mine\r\n   b: {}\r\n", {"cmd": "h"})
    assert made == "a: 1\r\nextensions: # mine\r\n   handrail:\r\n     cmd: h\r\n   b: {}\r\n"
    assert laid_over_yaml(Path("x"), "a: 1\r\n", {"cmd": "h"}) == "a: 1\r\nextensions:\r\n  handrail:\r\n    cmd: h\r\n"
