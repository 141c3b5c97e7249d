"""Settings that cannot be taken: each refusal names file, line, key and what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.errors import SettingsFault
from handrail.words import TouchKind
from settings_place import Place

A_HOST = 'a host such as "api.example.org", "*.example.org" or "10.0.0.7:8080"'
TOUCHES = ", ".join([*TouchKind, "fs.*", "proc.*", "net.*", "git.*", "memory.*", "tool.*"])

SECTIONS = [
    "workspace",
    "tools",
    "exec",
    "http",
    "skills",
    "memory",
    "search",
    "programs",
    "approvals",
    "mcp",
    "hooks",
    "notify",
    "serve",
    "limits",
    "agent",
    "undo",
    "redaction",
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[limits]\ntimeout = 3\n", "2: limits.timeout: no such key; did you mean `limits.timeout_seconds`?"),
        ("timeout_seconds = 3\n", "1: timeout_seconds: no such key; did you mean `exec.timeout_seconds`?"),
        ("[limit]\nmax_calls = 3\n", "1: limit: no such key; did you mean `limits`?"),
        ("[tool]\nenabled = []\n", "1: tool: no such key; did you mean `tools`?"),
        (
            "\n[zzz]\n",
            f"2: zzz: no such key; the sections are {', '.join(SECTIONS)}",
        ),
        (
            'mode = "headles"\n',
            "1: mode: expected one of interactive, headless (did you mean 'headless'?), got 'headles'",
        ),
        ("limits = 3\n", "1: limits: expected a table, got 3"),
        ('[tools]\nenable = "fs"\n', "2: tools.enable: expected a list, got 'fs'"),
        ('[tools]\nenable = [\n"fs",\n3]\n', "4: tools.enable[2]: expected text, got 3"),
        ('[tools]\nrepair = "no"\n', "2: tools.repair: expected true or false, got 'no'"),
        ("[limits]\nmax_calls = true\n", "2: limits.max_calls: expected a whole number, got true"),
        ("[limits]\nmax_calls = 2.0\n", "2: limits.max_calls: expected a whole number, got 2.0"),
        ("[limits]\nmax_calls = -1\n", "2: limits.max_calls: expected at least 0, got -1"),
        ("[limits]\ntimeout_seconds = 0\n", "2: limits.timeout_seconds: expected more than 0, got 0"),
        ("[limits]\ntimeout_seconds = inf\n", "2: limits.timeout_seconds: expected a finite number, got inf"),
        ("[limits.rate]\ngrep = 0\n", "2: limits.rate.grep: expected at least 1, got 0"),
        (
            '[http]\nallowed_hosts = ["https://a.org/"]\n',
            f"2: http.allowed_hosts[1]: expected {A_HOST}, got 'https://a.org/'",
        ),
        (
            '[workspace]\nroot = "a\\u0000b"\n',
            "2: workspace.root: expected text without control characters, and not empty, got 'a\\x00b'",
        ),
        ('[workspace]\nread = ["~root/x"]\n', "2: write '~root/x' in full; only `~` itself is known"),
        (
            '[workspace]\nread = ["run:workspace"]\n',
            "2: 'run:workspace' is no folder; only workspace.root takes \"run:workspace\"",
        ),
        (
            '[rules]\neffect = "ask"\n',
            "1: rules: expected a list of tables, each under `[[rules]]`, got {'effect': 'ask'}",
        ),
        (
            '[[rules]]\ntool = "x"\n',
            '1: rules[1].effect: is missing; a rule needs an effect: "allow", "ask" or "deny"',
        ),
        ('[[rules]]\neffect = "deny"\n', "1: a rule needs at least one of `tool`, `touch`, `target`, `risk`"),
        (
            '[[rules]]\neffect = "deny"\nskill = "x"\ncaller = "mcp"\n',
            "1: a rule needs at least one of `tool`, `touch`, `target`, `risk`",
        ),
        (
            '[[rules]]\neffect = "deny"\ntool = "x"\n[[rules]]\neffect = "deny"\ntools = "x"\n',
            "6: rules[2].tools: no such key; did you mean `tool`?",
        ),
        (
            '[[rules]]\neffect = "deny"\nid = "rules.9"\ntool = "x"\n',
            (
                "3: rules[1].id: no such key; a rule has effect, touch, target, tool, skill, caller, risk, "
                "environment, why, matches, misses"
            ),
        ),
        (
            '[[rules]]\neffect = "deny"\ntouch = "fs.reed"\n',
            f"3: rules[1].touch: expected one of {TOUCHES} (did you mean 'fs.read'?), got 'fs.reed'",
        ),
        (
            '[[rules]]\neffect = "deny"\ntouch = "fs.read"\ntarget = "src/*"\nmatches = ["lib/a"]\n',
            "1: rule rules.1 should match 'lib/a' and does not",
        ),
        (
            '[[rules]]\neffect = "ask"\ntouch = "fs.read"\ntarget = "src/**"\nmisses = ["src/a"]\n',
            "1: rule rules.1 should not match 'src/a' and does",
        ),
        (
            '[redaction.patterns]\nticket = "T-("\n',
            "2: redaction.patterns.ticket: is no regular expression: missing ): T-(",
        ),
        (
            '[redaction.patterns]\nticket = "x*"\n',
            "2: redaction.patterns.ticket: matches the empty text, so it would hide nothing",
        ),
        (
            "[redaction.patterns]\nticket = '\\bT-[0-9^$]+'\n",
            "2: redaction.patterns.ticket: \\b depends on what stands around a secret",
        ),
        (
            '[http]\nallowed_networks = ["x"]\n',
            '2: http.allowed_networks[1]: expected a network such as "10.1.0.0/16" or "fd00::/8", got \'x\'',
        ),
        ('mode = "headless\n', "1: is not TOML in column 17: Illegal character '\\n'"),
        ("[limits]\nmax_calls = 1\nmax_calls = 2\n", "3: is not TOML in column 14: Cannot overwrite a value"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_place(place: Place, text: str, fault: str) -> None:
    """Every refusal names file, line, key, and what was expected."""
    place.write(text, trusted=False)
    with pytest.raises(SettingsFault) as caught:
        place.load()
    assert str(caught.value) == f"handrail.toml:{fault}"


def test_all_mistakes_are_told_at_once(place: Place) -> None:
    """Nobody has to mend a file one error at a time."""
    place.user('mode = "x"\n[limits]\nmax_call = 1\nmax_prompts = "2"\n')
    with pytest.raises(SettingsFault) as caught:
        place.load()
    keys = {line.split(": ")[1] for line in str(caught.value).split("\n")}
    assert keys == {"mode", "limits.max_call", "limits.max_prompts"}


@pytest.mark.parametrize(
    ("variable", "text", "fault"),
    [
        ("HANDRAIL_LIMITS__MAX_CALL", "3", "limits.max_call: no such key; did you mean `limits.max_calls`?"),
        ("HANDRAIL_LIMITS__MAX_CALLS", "many", "limits.max_calls: expected a whole number, got 'many'"),
        ("HANDRAIL_LIMITS_MAX_CALLS", "3", "write HANDRAIL_LIMITS__MAX_CALLS, with two underscores"),
        ("HANDRAIL_LIMITS", "3", "names a section; write HANDRAIL_LIMITS__KEY"),
        ("HANDRAIL_MOED", "headless", "no such setting; did you mean HANDRAIL_MODE?"),
        ("HANDRAIL_MODE", "", "mode: expected one of interactive, headless, got ''"),
        ("HANDRAIL_TOOLS__DISABLE", "", "tools.disable: expected a list, got ''"),
        ("HANDRAIL_MODE__X", "1", "mode: expected one of interactive, headless, got {'x': 1}"),
        (
            "HANDRAIL_LIMITS__MAX_CALLS",
            "3\n[tools]\nenable = ['fs']",
            "limits.max_calls: expected a whole number, got \"3\\n[tools]\\nenable = ['fs']\"",
        ),
    ],
)
def test_a_variable_that_cannot_be_taken_is_refused(place: Place, variable: str, text: str, fault: str) -> None:
    """A slip in a variable's name or value is never passed over in silence."""
    place.environment[variable] = text
    with pytest.raises(SettingsFault) as caught:
        place.load()
    assert str(caught.value) == f"{variable}: {fault}"


@pytest.mark.parametrize(
    ("flags", "fault"), [({"limits.max_call": 1}, "no such key"), ({"mode": 3}, "expected one of")]
)
def test_a_flag_that_cannot_be_taken_is_refused(place: Place, flags: dict[str, Any], fault: str) -> None:
    """Flags are checked like files."""
    with pytest.raises(SettingsFault, match=fault):
        place.load(flags=flags)
