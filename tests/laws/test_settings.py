"""Laws of settings: lines are found, layers meet soundly, and every key is told."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.policy.patterns import host_matches, path_matches, protects
from handrail.settings import Settings, keys, load, rule_keys
from handrail.settings.layers import Layer, Origin
from handrail.settings.lines import Lines, TooDeepError
from handrail.settings.lint_rules import _paths_cover
from handrail.settings.merge import Merged, met_untrusted
from handrail.settings.model import BY_NAME, Key, Meets, RuleText, Written

# ── lines ────────────────────────────────────────────────────────────────────────────────────

# Strings that a careless scanner takes for structure. None of them holds a `key<number>`.
VALUES = [
    "1",
    "-2.5e3",
    "true",
    "1979-05-27 07:32:00",
    '"# no comment"',
    '"[[rules]]"',
    '"a \\" b"',
    "'C:\\'",
    '""',
    "''",
    '"""one\n[[rules]]\n# two"""',
    '"""ends with two quotes"""""',
    '"""\\"""" ',
    "'''raw\n[x]\n\\'''",
    "'''two more'''''",
    "[]",
    "{}",
    "[1, 2]",
    '[ # a comment ]\n  "x", # another\n  [ "]" ],\n]',
]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A TOML text whose every key is unique: `key1`, `key2`, …"""
    count = 0

    def name() -> str:
        nonlocal count
        count += 1
        return draw(st.sampled_from([f"key{count}", f'"key{count}"', f"'key{count}'"]))

    def value(depth: int) -> str:
        if depth < 3 and draw(st.integers(0, 4)) == 0:
            pairs = [f"{name()} = {value(depth + 1)}" for _ in range(draw(st.integers(1, 3)))]
            inline = "{ " + ", ".join(pairs) + " }"
            return draw(st.sampled_from([inline, f"[\n{inline} ,\n]"]))
        return draw(st.sampled_from(VALUES))

    def pairs() -> list[str]:
        lines = []
        for _ in range(draw(st.integers(0, 4))):
            key = name() if draw(st.booleans()) else f"{name()} . {name()}"
            lines.append(f"{key} = {value(0)}" + draw(st.sampled_from(["", " # [x]", "\n", "\n# y = 1"])))
        return lines

    text = pairs()
    for _ in range(draw(st.integers(0, 5))):
        table = name()
        if draw(st.booleans()):
            for _ in range(draw(st.integers(1, 3))):
                text += [f"[[ {table} ]]", *pairs()]
                if draw(st.booleans()):
                    text += [f"[{table}.{name()}]", *pairs()]
        else:
            text += [f"[{table}]", *pairs()]
    return draw(st.sampled_from(["\n", "\r\n"])).join(text) + "\n"


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of everything in parsed TOML that has a name of its own."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in [(*path, key), *paths_of(item, (*path, key))]]


@settings(max_examples=300)
@given(documents())
def test_every_key_stands_on_the_line_that_is_named(text: str) -> None:
    """Whatever strings, comments and nesting surround a key, its line is the one a person would point at."""
    data = tomllib.loads(text)
    found = Lines(text)
    rows = text.split("\n")
    for path in paths_of(data):
        line = found.found[path]
        if isinstance(path[-1], str):
            assert re.search(rf"\b{path[-1]}\b", rows[line - 1])
        else:
            assert line >= found.of(path[:-1])


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('x = """\n[[rules]]\n"""\n[[rules]]\neffect = 1\n[[rules]]\n', ("rules", 0), 4),
        ('x = """\n[[rules]]\n"""\n[[rules]]\neffect = 1\n[[rules]]\n', ("rules", 0, "effect"), 5),
        ('x = """\n[[rules]]\n"""\n[[rules]]\neffect = 1\n[[rules]]\n', ("rules", 1), 6),
        ("rules = [\n  {effect = 1},\n  {effect = 2},\n]\n", ("rules", 1, "effect"), 3),
        ("[a]\nb.c = 1\n", ("a", "b", "c"), 2),
        ("[a]\nb = 1\n", ("a", "missing"), 1),
        ("a = 1\n", ("other",), 0),
        ('"a\\u0062" = 1\n', ("ab",), 1),
        ("[[a]]\n[a.b]\nc = 1\n[[a]]\n[a.b]\nc = 1\n", ("a", 1, "b", "c"), 6),
    ],
)
def test_a_line_is_found(text: str, path: tuple[str | int, ...], line: int) -> None:
    """Places that matter most, one by one."""
    assert Lines(text).of(path) == line


@given(st.text(alphabet="[]{}=,.#\"'\\ \n\tab1", max_size=60))
def test_no_text_breaks_the_search_for_lines(text: str) -> None:
    """Text that is no TOML ends the search; it neither raises nor hangs."""
    try:
        found = Lines(text)
    except TooDeepError:
        return
    assert all(1 <= line <= text.count("\n") + 1 for line in found.found.values())


# ── how layers meet ──────────────────────────────────────────────────────────────────────────

PATHS = ["/", "/w", "/w/project", "/w/project/src", "/w/project-b", "/w/other", "/home/u"]
HOSTS = [
    "*",
    "*:*",
    "*.org",
    "a.org",
    "a.org:443",
    "a.org:8080",
    "a.org:*",
    "x.a.org",
    "*.a.org",
    "*.a.org:80",
    "[::1]:80",
]
FORBIDDING = ("tools.disable", "exec.deny", "http.blocked_networks")
PROTECTED_NAMES = [".env", ".env.example", "secrets", "a/secrets/b", "k.pem", "plain"]
PATTERNS = [".env*", "!.env.example", ".env.example", "secrets", "!secrets", "*.pem", "!*"]


def values_of(key: Key) -> st.SearchStrategy[Any]:
    """Values that a layer may give a setting, after loading."""
    if key.name == "mode" or key.order:
        return st.sampled_from(key.order)
    if key.name == "workspace.root":
        return st.sampled_from([*PATHS, "run:workspace"])
    pools = {"http.allowed_hosts": HOSTS, "workspace.protected": PATTERNS, "workspace.read": PATHS}
    pool = pools.get(key.name, PATHS if key.name == "workspace.write" else ["a", "b", "c"])
    if key.type == "list":
        return st.lists(st.sampled_from(pool), max_size=4).map(tuple)
    if key.name == "redaction.patterns":
        return st.dictionaries(st.sampled_from("xy"), st.just("z+"))
    if key.type == "table":
        return st.dictionaries(st.sampled_from(["grep", "read_file"]), st.integers(1, 5))
    if key.name == "runs_dir":
        return st.sampled_from(PATHS)
    return st.integers(0 if key.unbounded else 1, 5)


def allows(key: Key, value: Any) -> Any:
    """What a value lets happen, as a set or a number: smaller is stricter. Written apart from the code under test."""
    if key.name == "http.allowed_hosts":
        targets = [f"{host}:{port}" for host in ("a.org", "x.a.org", "b.org", "[::1]") for port in (80, 443, 8080)]
        return frozenset(target for target in targets if any(host_matches(item, target) for item in value))
    if key.name == "workspace.protected":
        return frozenset(name for name in PROTECTED_NAMES if protects(value, name) is None)
    if key.name in FORBIDDING:
        return frozenset("abc") - frozenset(value)
    if key.type == "list":
        return frozenset(value)
    if key.order:
        return -key.order.index(value)
    if key.type == "table":
        return [value.get(name, float("inf")) for name in ("grep", "read_file")]
    if key.meets is Meets.HIGHER:
        return -value
    return float("inf") if key.unbounded and value == 0 else value


def no_wider(key: Key, new: Any, old: Any) -> bool:
    after, before = allows(key, new), allows(key, old)
    if isinstance(after, list):
        return all(a <= b for a, b in zip(after, before, strict=True))
    return bool(after <= before)


@pytest.mark.parametrize("key", keys(), ids=lambda key: key.name)
@settings(max_examples=50)
@given(data=st.data())
def test_an_untrusted_value_never_widens(key: Key, data: st.DataObject) -> None:
    """Whatever a project says and whatever stood before, no more is allowed than before."""
    base, value = data.draw(values_of(key)), data.draw(values_of(key))
    if key.name == "workspace.protected":
        merged = Merged({key.name: base})
        merged.take(Layer({key.name: value}, (), lambda _: Origin("project"), trusted=data.draw(st.booleans())))
        for name in PROTECTED_NAMES:
            before, own = protects(base, name), protects(value, name)
            after = any(protects(group, name) for group in merged.protected)
            assert after == (before is not None or own is not None)
        return
    met = met_untrusted(key, base, value)
    if key.meets is Meets.IGNORED:
        assert met.value == base
    else:
        assert no_wider(key, met.value, base)


@pytest.mark.parametrize("key", keys(), ids=lambda key: key.name)
@settings(max_examples=50)
@given(data=st.data())
def test_a_narrower_value_is_taken_whole_and_in_silence(key: Key, data: st.DataObject) -> None:
    """What only narrows needs no trust: it is in force, and nobody is warned."""
    if key.meets is Meets.IGNORED or key.name in ("workspace.protected", "tools.enable"):
        return
    base, value = data.draw(values_of(key)), data.draw(values_of(key))
    if key.name in FORBIDDING or key.type == "table":
        value = (*base, *value) if isinstance(base, tuple) else {**base, **value}
    if key.name == "http.allowed_hosts":
        value = tuple(item for item in base if item in value)
    if no_wider(key, value, base):
        met = met_untrusted(key, base, value)
        assert (allows(key, met.value), met.refused) == (allows(key, value), "")


@pytest.mark.parametrize("key", keys(), ids=lambda key: key.name)
@settings(max_examples=50)
@given(data=st.data())
def test_what_is_not_taken_is_told(key: Key, data: st.DataObject) -> None:
    """A value that would widen leaves a reason behind, unless it is the value in force; lists that protect add up."""
    if key.meets is Meets.LONGER:
        return
    base, value = data.draw(values_of(key)), data.draw(values_of(key))
    value = {**base, **value} if key.type == "table" else value  # what a table leaves out stays
    met = met_untrusted(key, base, value)
    if value != base and (key.meets is Meets.IGNORED or not no_wider(key, value, base)):
        assert met.refused


SEGMENTS = st.sampled_from(["a", "b", "*", "**", "?", "[ab]", "a*"])
GLOBS = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/"]),
    st.lists(SEGMENTS, min_size=1, max_size=3),
    st.sampled_from(["", "/", "/**"]),
)


@settings(max_examples=400)
@given(GLOBS, GLOBS, st.sampled_from([(False, False), (False, True), (True, True)]))
def test_a_rule_is_called_beaten_only_if_it_is(narrow: str, wide: str, restrict: tuple[bool, bool]) -> None:
    """Where lint says that one target covers another, no path fits the narrow one alone."""
    narrow_restricts, wide_restricts = restrict
    if not _paths_cover(wide, narrow, wide_restricts):
        return
    names = ["a", "b", "ab"]
    paths = [*names, *(f"{x}/{y}" for x in names for y in names), "a/b/a", "a/a/b/b", "b/a/a/a"]
    for path in paths:
        path = f"/{path}" if narrow.startswith("/") else path
        if path_matches(narrow, path, covers_below=narrow_restricts):
            assert path_matches(wide, path, covers_below=wide_restricts)


# ── the model ────────────────────────────────────────────────────────────────────────────────


def test_the_defaults_are_the_contract() -> None:
    """What holds where nothing is said, whole."""
    assert {key.name: key.default for key in keys()} == {
        "mode": "interactive",
        "environment": "",
        "agent.provider": "pydantic-ai",
        "agent.model": None,
        "agent.max_turns": 50,
        "agent.max_wall_seconds": 3600.0,
        "agent.max_tokens": 0,
        "agent.max_tool_calls": 500,
        "agent.model_retries": 3,
        "agent.context_bytes": 400_000,
        "agent.instructions": None,
        "agent.approval_seconds": 0.0,
        "programs.bwrap": None,
        "programs.rg": None,
        "programs.ruff": None,
        "runs_dir": None,
        "workspace.root": ".",
        "workspace.allow_absolute": False,
        "workspace.protected": (".env*", "!.env.example"),
        "workspace.read": (),
        "workspace.write": (),
        "tools.enable": (),
        "tools.disable": (),
        "tools.repair": True,
        "exec.sandbox": "auto",
        "exec.allow_unconfined": False,
        "exec.min_tier": "B",
        "exec.workspace": "direct",
        "exec.ask": "unless-allowed",
        "exec.allowed_hosts": (),
        "exec.hosts": "refuse",
        "exec.allowed_sockets": (),
        "exec.max_cache_bytes": 2 * 1024**3,
        "exec.timeout_seconds": 120,
        "exec.pass_env": (),
        "exec.allow": (),
        "exec.deny": (),
        "exec.max_memory_bytes": 4294967296,
        "exec.max_processes": 512,
        "exec.max_file_bytes": 1073741824,
        "exec.max_open_files": 4096,
        "exec.max_cpu_seconds": 900,
        "exec.max_scratch_bytes": 536870912,
        "exec.max_layer_bytes": 4294967296,
        "exec.max_jobs": 16,
        "exec.kill_output_bytes": 1073741824,
        "http.allowed_hosts": (),
        "http.allowed_networks": (),
        "http.blocked_networks": (),
        "http.max_bytes": 5242880,
        "http.max_download_bytes": 104857600,
        "http.timeout_ms": 15000,
        "http.max_retries": 2,
        "http.retry_post": False,
        "http.user_agent": "handrail",
        "http.spill_large": True,
        "http.rate_per_minute": 0,
        "http.max_connections": 16,
        "http.ca_file": None,
        "http.credentials": {},
        "skills.folders": (".agents/skills", ".claude/skills"),
        "skills.user": True,
        "skills.narrow": False,
        "skills.script_folders": ("scripts",),
        "memory.enabled": True,
        "memory.provider": "sqlite",
        "memory.write_mode": "candidate",
        "memory.url": None,
        "memory.timeout_seconds": 10,
        "search.index": True,
        "search.max_file_bytes": 1048576,
        "search.max_files": 100000,
        "search.vectors": "auto",
        "lints": {},
        "approvals.max_scope": "run",
        "approvals.run_covers": "target",
        "approvals.max_pending": 100,
        "approvals.max_pending_bytes": 16 * 1024 * 1024,
        "approvals.keep_after_run": False,
        "approvals.expiry_seconds": 86400,
        "approvals.park": True,
        "approvals.four_eyes": False,
        "approvals.wait_seconds": 300,
        "mcp.trust_client_approval": False,
        "mcp.wait_seconds": 25,
        "mcp.page_size": 100,
        "mcp.listing": "whole",
        "approvals.notify": None,
        "hooks.ask": "native",
        "hooks.allow": False,
        "notify.command": (),
        "notify.ntfy": None,
        "notify.ntfy_token_env": None,
        "notify.after_seconds": 3,
        "serve.workspaces": {},
        "serve.idle_seconds": 600,
        "serve.login_attempts": 10,
        "limits.timeout_seconds": 30,
        "limits.max_read_bytes": 5242880,
        "limits.max_output_lines": 2000,
        "limits.max_output_bytes": 51200,
        "limits.bulk_files": 20,
        "limits.max_calls": 0,
        "limits.max_wall_seconds": 0,
        "limits.max_bytes_read": 0,
        "limits.max_bytes_written": 0,
        "limits.max_files_changed": 0,
        "limits.max_processes": 0,
        "limits.max_prompts": 100,
        "limits.max_repeats": 5,
        "limits.breaker_failures": 5,
        "limits.breaker_seconds": 30,
        "limits.rate": {},
        "limits.concurrency": {},
        "undo.keep_days": 30,
        "undo.max_bytes": 268435456,
        "undo.max_file_bytes": 33554432,
        "redaction.patterns": {},
        "redaction.known": (),
    }


def test_every_setting_says_what_it_means_and_how_layers_meet() -> None:
    """The reference page is made from these sentences."""
    for key in (*keys(), *rule_keys()):
        assert key.says.endswith("."), key.name
        assert len(key.says) > 15, key.name
        assert key.type in ("text", "list", "table", "boolean", "integer", "number") or " | " in key.type
        assert (key.meets is Meets.STRICTER) == bool(key.order), key.name
    assert set(BY_NAME) == {key.name for key in keys()}


def test_the_defaults_pass_their_own_check() -> None:
    """Defaults are not validated when they are used, so they are here."""
    assert Written.model_validate(Written().model_dump()) == Written()


def test_what_is_loaded_passes_the_check_again(tmp_path: Path) -> None:
    """Settings are put together from checked values without a second check; this is that check."""
    (tmp_path / "handrail.toml").write_text('mode = "headless"\n[limits]\nmax_calls = 3\n[limits.rate]\ngrep = 2\n')
    loaded = load(tmp_path, environment={"HOME": str(tmp_path)}).settings
    again = Settings.model_validate(loaded.model_dump())
    assert again == loaded


def test_a_rule_keeps_every_field_on_its_way_to_policy() -> None:
    """Nothing that was written is lost between the file and the rule that is judged by."""
    from dataclasses import fields

    from handrail.policy.rules import Rule
    from handrail.settings import RuleEntry

    assert {item.name for item in fields(Rule)} == set(RuleEntry.model_fields)
    said: dict[str, Any] = {name: ("x",) if name in ("matches", "misses") else "x" for name in RuleText.model_fields}
    said |= {"effect": "deny", "touch": "fs.*", "risk": "high", "id": "rules.7", "where": "f:1", "narrows": True}
    rule = RuleEntry.model_validate(said).rule()
    told = {item.name: getattr(rule, item.name) for item in fields(Rule)}
    assert told | {"effect": rule.effect.word} == said
