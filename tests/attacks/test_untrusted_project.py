"""A project somebody else wrote: nothing in its settings file opens what was closed, and none of it hangs the start.

Longer than 500 lines because every setting has its row in one table.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail.errors import SettingsFault
from handrail.policy import ToolFacts, World, decide
from handrail.policy.patterns import protects
from handrail.settings import Loaded, Settings, TrustStore, keys, load, trust_store
from handrail.words import Decision, Place, PlaceKind, Risk, Root, Touch, TouchKind

IGNORED = "which is ignored because handrail.toml is not trusted; review the file, then run `handrail config trust`"
NARROW = '[limits]\nmax_calls = 9\n[approvals]\nmax_scope = "call"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "project/src").mkdir(parents=True)
    return folder


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def opened(home: Path, text: str | bytes | None = None, user: str = "") -> Loaded:
    """Load the project's settings with nobody's trust, over the user's own."""
    file = home / ".config/handrail/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(user)
    if text is not None:
        (home / "project/handrail.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(home / "project", environment=environment(home))


def value_of(settings: Settings, key: str) -> Any:
    section, _, name = key.rpartition(".")
    return getattr(getattr(settings, section) if section else settings, name)


# ── nothing is opened ────────────────────────────────────────────────────────────────────────

# (what the user says, what the project says, the line, what the warning says of it)
WIDER = {
    "mode": ('mode = "headless"', 'mode = "interactive"', 1, "loosens headless to interactive"),
    "environment": ('environment = "production"', 'environment = "ci"', 1, "is for a trusted file to set"),
    "runs_dir": ("", 'runs_dir = "/tmp/elsewhere"', 1, "is for a trusted file to set"),
    "workspace.root": ("", '[workspace]\nroot = "/etc"', 2, "is for a trusted file to set"),
    "workspace.allow_absolute": ("", "[workspace]\nallow_absolute = true", 2, "loosens false to true"),
    "workspace.read": ("", '[workspace]\nread = ["/etc"]', 2, "is for a trusted file to set"),
    "workspace.write": ("", '[workspace]\nwrite = ["/etc"]', 2, "is for a trusted file to set"),
    "tools.enable": ("", '[tools]\nenable = ["fs", "delete_path"]', 2, "adds 'fs', 'delete_path'"),
    "tools.repair": ("tools.repair = false", "[tools]\nrepair = true", 2, "loosens false to true"),
    "http.allowed_hosts": ("", '[http]\nallowed_hosts = ["*"]', 2, "adds '*'"),
    "approvals.max_scope": ("", '[approvals]\nmax_scope = "session"', 2, "loosens run to session"),
    "approvals.run_covers": ("", '[approvals]\nrun_covers = "tool"', 2, "loosens target to tool"),
    "approvals.keep_after_run": ("", "[approvals]\nkeep_after_run = true", 2, "loosens false to true"),
    "approvals.notify": ("", '[approvals]\nnotify = "bell"', 2, "is for a trusted file to set"),
    "approvals.max_pending": ("", "[approvals]\nmax_pending = 101", 2, "raises 100 to 101"),
    "approvals.max_pending_bytes": ("", "[approvals]\nmax_pending_bytes = 16777217", 2, "raises 16777216 to 16777217"),
    "approvals.expiry_seconds": ("", "[approvals]\nexpiry_seconds = 86401", 2, "raises 86400 to 86401"),
    "approvals.wait_seconds": ("", "[approvals]\nwait_seconds = 301", 2, "raises 300 to 301"),
    "approvals.park": ("approvals.park = false", "[approvals]\npark = true", 2, "loosens false to true"),
    "approvals.four_eyes": ("approvals.four_eyes = true", "[approvals]\nfour_eyes = false", 2, "loosens true to false"),
    "serve.workspaces": ("", '[serve.workspaces]\nx = {path = "/"}', 1, "is for a trusted file to set"),
    "notify.ntfy": ("", '[notify]\nntfy = "https://x.org/t"', 2, "is for a trusted file to set"),
    "notify.ntfy_token_env": ("", '[notify]\nntfy_token_env = "HOME"', 2, "is for a trusted file to set"),
    "notify.after_seconds": ("", "[notify]\nafter_seconds = 4", 2, "is for a trusted file to set"),
    "serve.idle_seconds": ("", "[serve]\nidle_seconds = 601", 2, "is for a trusted file to set"),
    "serve.login_attempts": ("", "[serve]\nlogin_attempts = 11", 2, "is for a trusted file to set"),
    "limits.timeout_seconds": ("", "[limits]\ntimeout_seconds = 31", 2, "raises 30 to 31"),
    "limits.max_read_bytes": ("", "[limits]\nmax_read_bytes = 5242881", 2, "raises 5242880 to 5242881"),
    "limits.max_output_lines": ("", "[limits]\nmax_output_lines = 2001", 2, "raises 2000 to 2001"),
    "limits.max_output_bytes": ("", "[limits]\nmax_output_bytes = 51201", 2, "raises 51200 to 51201"),
    "limits.bulk_files": ("", "[limits]\nbulk_files = 21", 2, "raises 20 to 21"),
    "limits.max_calls": ("limits.max_calls = 5", "[limits]\nmax_calls = 0", 2, "raises 5 to no bound"),
    "limits.max_wall_seconds": ("limits.max_wall_seconds = 5", "[limits]\nmax_wall_seconds = 6", 2, "raises 5 to 6"),
    "limits.max_bytes_read": ("limits.max_bytes_read = 5", "[limits]\nmax_bytes_read = 0", 2, "raises 5 to no bound"),
    "limits.max_bytes_written": ("limits.max_bytes_written = 5", "[limits]\nmax_bytes_written = 6", 2, "raises 5 to 6"),
    "limits.max_files_changed": ("limits.max_files_changed = 5", "[limits]\nmax_files_changed = 6", 2, "raises 5 to 6"),
    "limits.max_processes": ("limits.max_processes = 5", "[limits]\nmax_processes = 6", 2, "raises 5 to 6"),
    "limits.max_prompts": ("", "[limits]\nmax_prompts = 0", 2, "raises 100 to no bound"),
    "limits.max_repeats": ("", "[limits]\nmax_repeats = 6", 2, "raises 5 to 6"),
    "limits.breaker_failures": ("", "[limits]\nbreaker_failures = 0", 2, "raises 5 to no bound"),
    "limits.breaker_seconds": ("", "[limits]\nbreaker_seconds = 29", 2, "lowers 30 to 29"),
    "limits.rate": ("limits.rate.grep = 5", "[limits.rate]\ngrep = 6", 1, "raises 'grep'"),
    "limits.concurrency": ("limits.concurrency.grep = 5", "[limits.concurrency]\ngrep = 6", 1, "raises 'grep'"),
    "exec.sandbox": ("", '[exec]\nsandbox = "bwrap"', 2, "loosens auto to bwrap"),
    "exec.allow_unconfined": ("", "[exec]\nallow_unconfined = true", 2, "loosens false to true"),
    "exec.min_tier": ('exec.min_tier = "A"', '[exec]\nmin_tier = "B"', 2, "loosens A to B"),
    "exec.workspace": ('exec.workspace = "review"', '[exec]\nworkspace = "direct"', 2, "loosens review to direct"),
    "exec.allowed_hosts": ("", '[exec]\nallowed_hosts = ["a.b"]', 2, "adds 'a.b'"),
    "exec.allowed_sockets": ("", '[exec]\nallowed_sockets = ["a.sock"]', 2, "adds 'a.sock'"),
    "exec.ask": ("", '[exec]\nask = "border"', 2, "loosens unless-allowed to border"),
    "exec.hosts": ("", '[exec]\nhosts = "ask"', 2, "loosens refuse to ask"),
    "exec.timeout_seconds": ("", "[exec]\ntimeout_seconds = 121", 2, "raises 120 to 121"),
    "exec.pass_env": ("", '[exec]\npass_env = ["ABC"]', 2, "adds 'ABC'"),
    "exec.allow": ("", '[exec]\nallow = ["ABC"]', 2, "adds 'ABC'"),
    "exec.max_memory_bytes": ("", "[exec]\nmax_memory_bytes = 4294967297", 2, "raises 4294967296 to 4294967297"),
    "exec.max_processes": ("", "[exec]\nmax_processes = 513", 2, "raises 512 to 513"),
    "exec.max_file_bytes": ("", "[exec]\nmax_file_bytes = 1073741825", 2, "raises 1073741824 to 1073741825"),
    "exec.max_open_files": ("", "[exec]\nmax_open_files = 4097", 2, "raises 4096 to 4097"),
    "exec.max_cpu_seconds": ("", "[exec]\nmax_cpu_seconds = 901", 2, "raises 900 to 901"),
    "exec.max_scratch_bytes": ("", "[exec]\nmax_scratch_bytes = 536870913", 2, "raises 536870912 to 536870913"),
    "exec.max_cache_bytes": ("", "[exec]\nmax_cache_bytes = 2147483649", 2, "raises 2147483648 to 2147483649"),
    "exec.max_layer_bytes": ("", "[exec]\nmax_layer_bytes = 4294967297", 2, "raises 4294967296 to 4294967297"),
    "exec.max_jobs": ("", "[exec]\nmax_jobs = 17", 2, "raises 16 to 17"),
    "exec.kill_output_bytes": ("", "[exec]\nkill_output_bytes = 1073741825", 2, "raises 1073741824 to 1073741825"),
    "http.allowed_networks": ("", '[http]\nallowed_networks = ["10.0.0.0/8"]', 2, "adds '10.0.0.0/8'"),
    "http.max_bytes": ("", "[http]\nmax_bytes = 5242881", 2, "raises 5242880 to 5242881"),
    "http.max_download_bytes": ("", "[http]\nmax_download_bytes = 104857601", 2, "raises 104857600 to 104857601"),
    "http.timeout_ms": ("", "[http]\ntimeout_ms = 15001", 2, "raises 15000 to 15001"),
    "http.max_retries": ("", "[http]\nmax_retries = 3", 2, "raises 2 to 3"),
    "http.retry_post": ("", "[http]\nretry_post = true", 2, "loosens false to true"),
    "http.user_agent": ("", '[http]\nuser_agent = "x"', 2, "is for a trusted file to set"),
    "http.spill_large": ("http.spill_large = false", "[http]\nspill_large = true", 2, "loosens false to true"),
    "http.rate_per_minute": ("http.rate_per_minute = 5", "[http]\nrate_per_minute = 6", 2, "raises 5 to 6"),
    "http.max_connections": ("", "[http]\nmax_connections = 17", 2, "raises 16 to 17"),
    "http.ca_file": ("", '[http]\nca_file = "/x"', 2, "is for a trusted file to set"),
    "http.credentials": ("", '[http.credentials]\n"x.org" = "env:HOME"', 1, "is for a trusted file to set"),
    "skills.folders": (
        "",
        '[skills]\nfolders = [".agents/skills", ".claude/skills", "ABC"]',
        2,
        "adds 'ABC'",
    ),
    "skills.user": ("skills.user = false", "[skills]\nuser = true", 2, "loosens false to true"),
    "skills.narrow": ("skills.narrow = true", "[skills]\nnarrow = false", 2, "loosens true to false"),
    "skills.script_folders": ("", '[skills]\nscript_folders = ["scripts", "."]', 2, "adds '.'"),
    "memory.enabled": ("memory.enabled = false", "[memory]\nenabled = true", 2, "loosens false to true"),
    "memory.provider": ('memory.url = "http://x"', '[memory]\nprovider = "http"', 2, "is for a trusted file to set"),
    "memory.write_mode": (
        'memory.write_mode = "disabled"',
        '[memory]\nwrite_mode = "candidate"',
        2,
        "loosens disabled to candidate",
    ),
    "memory.url": ("", '[memory]\nurl = "http://x"', 2, "is for a trusted file to set"),
    "memory.timeout_seconds": ("", "[memory]\ntimeout_seconds = 11", 2, "raises 10 to 11"),
    "search.index": ("search.index = false", "[search]\nindex = true", 2, "loosens false to true"),
    "search.max_file_bytes": ("", "[search]\nmax_file_bytes = 1048577", 2, "raises 1048576 to 1048577"),
    "search.vectors": ("", '[search]\nvectors = "on"', 2, "loosens auto to on"),
    "search.max_files": ("", "[search]\nmax_files = 100001", 2, "raises 100000 to 100001"),
    "lints": ("", '[lints]\nfoo = { command = ["x"] }', 1, "is for a trusted file to set"),
    "programs.bwrap": ("", '[programs]\nbwrap = "/opt/bin/bwrap"', 2, "is for a trusted file to set"),
    "programs.rg": ("", '[programs]\nrg = "/opt/bin/rg"', 2, "is for a trusted file to set"),
    "programs.ruff": ("", '[programs]\nruff = "/opt/bin/ruff"', 2, "is for a trusted file to set"),
    "mcp.trust_client_approval": ("", "[mcp]\ntrust_client_approval = true", 2, "loosens false to true"),
    "mcp.wait_seconds": ("", "[mcp]\nwait_seconds = 26", 2, "raises 25 to 26"),
    "mcp.listing": ("", '[mcp]\nlisting = "short"', 2, "is for a trusted file to set"),
    "mcp.page_size": ("", "[mcp]\npage_size = 5", 2, "is for a trusted file to set"),
    "hooks.ask": ('hooks.ask = "inbox"', '[hooks]\nask = "native"', 2, "loosens inbox to native"),
    "hooks.allow": ("", "[hooks]\nallow = true", 2, "loosens false to true"),
    "notify.command": ("", '[notify]\ncommand = ["/bin/true"]', 2, "is for a trusted file to set"),
    "agent.provider": ("", '[agent]\nprovider = "json"', 2, "is for a trusted file to set"),
    "agent.model": ("", '[agent]\nmodel = "x:y"', 2, "is for a trusted file to set"),
    "agent.max_turns": ("", "[agent]\nmax_turns = 51", 2, "raises 50 to 51"),
    "agent.max_wall_seconds": ("", "[agent]\nmax_wall_seconds = 3601", 2, "raises 3600 to 3601"),
    "agent.max_tokens": ("agent.max_tokens = 5", "[agent]\nmax_tokens = 0", 2, "raises 5 to no bound"),
    "agent.max_tool_calls": ("", "[agent]\nmax_tool_calls = 501", 2, "raises 500 to 501"),
    "agent.model_retries": ("", "[agent]\nmodel_retries = 4", 2, "raises 3 to 4"),
    "agent.context_bytes": ("", "[agent]\ncontext_bytes = 400001", 2, "raises 400000 to 400001"),
    "agent.instructions": ("", '[agent]\ninstructions = "x.md"', 2, "is for a trusted file to set"),
    "agent.approval_seconds": ("agent.approval_seconds = 5", "[agent]\napproval_seconds = 6", 2, "raises 5 to 6"),
    "undo.keep_days": ("", "[undo]\nkeep_days = 0", 2, "is for a trusted file to set"),
    "undo.max_bytes": ("", "[undo]\nmax_bytes = 0", 2, "is for a trusted file to set"),
    "undo.max_file_bytes": ("", "[undo]\nmax_file_bytes = 1", 2, "is for a trusted file to set"),
    "redaction.patterns": ("", '[redaction.patterns]\nall = ".+"', 1, "is for a trusted file to set"),
    "redaction.known": ("", '[redaction]\nknown = ["HOME"]', 2, "is for a trusted file to set"),
}

# Lists that protect add up, whoever wrote them: (what the user says, a shorter list of the project's).
PROTECTING = {
    "workspace.protected": (
        'workspace.protected = ["keys", "!keys/public"]',
        '[workspace]\nprotected = ["!keys", "!*"]',
    ),
    "tools.disable": ('tools.disable = ["a", "b"]', '[tools]\ndisable = ["a"]'),
    "exec.deny": ('exec.deny = ["a", "b"]', "[exec]\ndeny = []"),
    "http.blocked_networks": (
        'http.blocked_networks = ["10.0.0.0/8", "11.0.0.0/8"]',
        '[http]\nblocked_networks = ["10.0.0.0/8"]',
    ),
}


def test_every_setting_has_an_attack() -> None:
    """A setting that is added later must be attacked here, too."""
    assert {*WIDER, *PROTECTING} == {key.name for key in keys()}


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("key", PROTECTING)
def test_no_project_shortens_a_list_that_protects(home: Path, key: str, trusted: bool) -> None:
    """Not even a trusted one: what the user put in stays in."""
    user, project = PROTECTING[key]
    before = opened(home, user=user)
    opened(home, project, user)
    if trusted:
        trust_store(environment(home)).trust(home / "project/handrail.toml")
    after = opened(home, project, user)
    assert set(value_of(after.settings, key)) >= set(value_of(before.settings, key))
    assert after.protected[: len(before.protected)] == before.protected
    assert not any("trust" in warning for warning in after.warnings)


@pytest.mark.parametrize("key", WIDER)
def test_an_untrusted_project_opens_nothing(home: Path, key: str) -> None:
    """The value below stays, its origin stays, and the warning names key, file, line and the way to trust."""
    user, project, line, told = WIDER[key]
    before = opened(home, user=user)
    after = opened(home, project, user)
    assert value_of(after.settings, key) == value_of(before.settings, key)
    assert after.origins[key] == before.origins[key]
    assert after.warnings == (f"handrail.toml:{line}: `{key}` {told}, {IGNORED}",)


@pytest.mark.parametrize("key", WIDER)
def test_the_same_words_count_once_a_person_trusts_them(home: Path, key: str) -> None:
    """The control: each attack would have worked."""
    user, project, _, _ = WIDER[key]
    before = opened(home, project, user)
    trust_store(environment(home)).trust(home / "project/handrail.toml")
    after = opened(home, project, user)
    assert value_of(after.settings, key) != value_of(before.settings, key)
    assert after.warnings == ()


def test_an_untrusted_project_may_narrow(home: Path) -> None:
    """What only narrows is in force at once, with its place and without a warning."""
    project = (
        'mode = "headless"\n[workspace]\nprotected = [".env*", "!.env.example", "keys"]\n'
        '[tools]\nenable = ["a"]\ndisable = ["grep"]\nrepair = false\n[http]\nallowed_hosts = ["x.a.org:443"]\n'
        + NARROW
    )
    user = '[tools]\nenable = ["a", "b"]\n[http]\nallowed_hosts = ["*.a.org"]\n'
    loaded = opened(home, project, user)
    found = loaded.settings
    assert loaded.warnings == ()
    assert found.mode == "headless"
    assert found.workspace.protected == (".env*", "!.env.example", "keys")
    assert (found.tools.enable, found.tools.disable, found.tools.repair) == (("a",), ("grep",), False)
    assert found.http.allowed_hosts == ("x.a.org:443",)
    assert (found.limits.max_calls, found.approvals.max_scope) == (9, "call")
    assert loaded.where("mode") == "handrail.toml:1"


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in ("root", "read", "write") for value in ("src/secret", "src/..", "..", "/", "~/x")],
)
def test_an_untrusted_project_moves_no_root(home: Path, key: str, value: str) -> None:
    """Not even to a place inside: rules and protected names are told from the roots, and would be moved with them."""
    user = 'workspace.read = ["src"]\nworkspace.write = ["src"]\n'
    before = opened(home, user=user).settings.workspace
    loaded = opened(home, f"[workspace]\n{key} = {json.dumps(value if key == 'root' else [value])}\n", user)
    assert loaded.settings.workspace == before
    says = f"handrail.toml:2: `workspace.{key}` is for a trusted file to set, {IGNORED}"
    assert loaded.warnings == (() if (key, value) == ("root", "src/..") else (says,))


def test_a_protected_name_is_not_taken_out(home: Path) -> None:
    """A `!` of the project counts for its own list only, and what it adds is kept."""
    loaded = opened(home, '[workspace]\nprotected = [".env*", "!.env.example", "!.env.production", ".env.example"]\n')
    assert loaded.protected[0] == (".env*", "!.env.example")
    names = (".env.production", ".env.example")
    found = {name: [protects(group, name) for group in loaded.protected] for name in names}
    assert found == {".env.production": [".env*", None], ".env.example": [None, ".env.example"]}
    assert "'.env*' (default) still protects it" in loaded.warnings[0]


def test_a_protected_name_may_be_closed_again(home: Path) -> None:
    """A project that leaves the user's `!` out means it, and that only narrows."""
    loaded = opened(home, '[workspace]\nprotected = [".env*"]\n')
    assert loaded.settings.workspace.protected == (".env*", "!.env.example", ".env*")
    assert loaded.warnings == ()


RULES = """
[[rules]]
effect = "allow"
touch = "fs.*"
target = "**"
[[rules]]
effect = "ask"
touch = "fs.read"
target = "**"
[[rules]]
effect = "deny"
tool = "grep"
"""


def test_an_untrusted_project_adds_no_allow_rule(home: Path) -> None:
    """Asking and denying rules are taken and marked as narrowing; an allow is ignored and named."""
    loaded = opened(home, RULES)
    assert [(rule.id, rule.effect, rule.where, rule.narrows) for rule in loaded.settings.rules] == [
        ("rules.1", "ask", "handrail.toml:6", True),
        ("rules.2", "deny", "handrail.toml:10", True),
    ]
    assert loaded.warnings == (f"handrail.toml:2: `rules` allows something, {IGNORED}",)


def test_an_asking_rule_of_an_untrusted_project_lifts_no_denial(home: Path) -> None:
    """Reading `.env` is denied by default; a project's `ask` for it must not make that a question."""
    loaded = opened(home, RULES)
    root = Root("workspace", str(home / "project"), writable=True)

    def verdict(path: str) -> Decision:
        place = Place(root, path, PlaceKind.FILE)
        rules = tuple(entry.rule() for entry in loaded.settings.rules)
        world = World(ToolFacts("read_file", "fs", Risk.LOW), roots=(root,), rules=rules)
        return decide([Touch(TouchKind.FS_READ, path, place=place)], world).decision

    assert {path: verdict(path) for path in (".env", "README.md")} == {".env": Decision.DENY, "README.md": Decision.ASK}


# ── random projects ──────────────────────────────────────────────────────────────────────────

names = st.sampled_from(["fs", "a", "b", "delete_path"])
hosts = st.sampled_from(["*", "a.org", "*.a.org", "x.a.org", "a.org:8080"])
folders = st.sampled_from([".", "src", "..", "/", "/etc", "~", "src/.."])
amounts = st.integers(0, 50)
projects = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(["interactive", "headless"]),
        "runs_dir": folders,
        "workspace": st.fixed_dictionaries(
            {},
            optional={
                "root": folders,
                "allow_absolute": st.booleans(),
                "protected": st.lists(st.sampled_from([".env*", "!.env", "x", "!x"]), max_size=3),
                "read": st.lists(folders, max_size=3),
                "write": st.lists(folders, max_size=3),
            },
        ),
        "tools": st.fixed_dictionaries(
            {}, optional={"enable": st.lists(names, max_size=3), "disable": st.lists(names), "repair": st.booleans()}
        ),
        "http": st.fixed_dictionaries({}, optional={"allowed_hosts": st.lists(hosts, max_size=3)}),
        "limits": st.fixed_dictionaries({}, optional={"max_calls": amounts, "max_prompts": amounts}),
    },
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(user=projects, project=projects)
def test_no_project_opens_more_than_its_user_did(home: Path, user: dict[str, Any], project: dict[str, Any]) -> None:
    """Whatever two files say, loading the project's never widens what a call could do."""
    user_text, project_text = toml(user), toml(project)
    (home / "project/handrail.toml").unlink(missing_ok=True)
    loaded_before, loaded_after = opened(home, user=user_text), opened(home, project_text, user_text)
    before, after = loaded_before.settings, loaded_after.settings
    assert (before.mode, after.mode) != ("headless", "interactive")
    assert after.runs_dir == before.runs_dir
    assert (after.workspace.root, after.workspace.read) == (before.workspace.root, before.workspace.read)
    assert after.workspace.allow_absolute <= before.workspace.allow_absolute
    assert after.workspace.write == before.workspace.write
    for name in (".env", ".env.local", ".env.example", "x", "x/y"):
        kept = any(protects(group, name) for group in loaded_before.protected)
        assert not kept or any(protects(group, name) for group in loaded_after.protected)
    assert set(after.tools.enable) <= set(before.tools.enable)
    assert set(after.tools.disable) >= set(before.tools.disable)
    assert after.tools.repair <= before.tools.repair
    for name in ("max_calls", "max_prompts"):
        assert (getattr(after.limits, name) or 10**9) <= (getattr(before.limits, name) or 10**9)


def toml(data: dict[str, Any]) -> str:
    """Write plain values as TOML; JSON is close enough for them."""
    top = [f"{key} = {json.dumps(value)}" for key, value in data.items() if not isinstance(value, dict)]
    for key, table in data.items():
        if isinstance(table, dict):
            top += [f"[{key}]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    return "\n".join(top) + "\n"


# ── trust cannot be borrowed ─────────────────────────────────────────────────────────────────

WIDE = '[tools]\nenable = ["fs"]\n'


def enabled(home: Path, project: str = "project") -> tuple[str, ...]:
    return load(home / project, environment=environment(home)).settings.tools.enable


def trusted_project(home: Path) -> Path:
    file = home / "project/handrail.toml"
    file.write_text(WIDE)
    trust_store(environment(home)).trust(file)
    assert enabled(home) == ("fs",)
    return file


def test_a_copy_of_a_trusted_file_is_not_trusted(home: Path) -> None:
    """Trust is given to one file, not to whatever says the same."""
    file = trusted_project(home)
    (home / "other").mkdir()
    (home / "other/handrail.toml").write_bytes(file.read_bytes())
    assert enabled(home, "other") == ()


def test_a_link_to_a_trusted_file_is_not_trusted(home: Path) -> None:
    """Nor is it borrowed by pointing at it."""
    file = trusted_project(home)
    (home / "other").mkdir()
    (home / "other/handrail.toml").symlink_to(file)
    assert enabled(home, "other") == ()


def test_a_project_is_trusted_by_whatever_way_it_is_reached(home: Path) -> None:
    """The control: a link to the folder leads to the same file."""
    trusted_project(home)
    (home / "way").symlink_to("project")
    assert enabled(home, "way") == ("fs",)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_store_that_others_may_write_trusts_nothing(home: Path, mode: int) -> None:
    """Whoever can write the store could trust any project in the user's name."""
    trusted_project(home)
    store = trust_store(environment(home))
    store.path.chmod(mode)
    assert enabled(home) == ()
    with pytest.raises(SettingsFault, match="chmod 600"):
        store.trust(home / "project/handrail.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")
def test_a_store_of_another_user_trusts_nothing(home: Path) -> None:
    """A store somebody else planted is not believed."""
    trusted_project(home)
    os.chown(trust_store(environment(home)).path, 12345, 12345)
    assert enabled(home) == ()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"null"])
def test_a_damaged_store_trusts_nothing(home: Path, content: bytes) -> None:
    """What cannot be read is not guessed at, and not overwritten."""
    trusted_project(home)
    store = trust_store(environment(home))
    store.path.write_bytes(content)
    assert enabled(home) == ()
    with pytest.raises(SettingsFault, match="is damaged"):
        store.trust(home / "project/handrail.toml")
    assert store.path.read_bytes() == content


def test_a_store_behind_a_link_trusts_nothing(home: Path, tmp_path: Path) -> None:
    """A link planted in place of the store leads nowhere."""
    file = trusted_project(home)
    store = trust_store(environment(home))
    store.path.rename(tmp_path / "moved.json")
    store.path.symlink_to(tmp_path / "moved.json")
    assert enabled(home) == ()
    assert TrustStore(tmp_path / "moved.json").pinned(file) is not None


def test_no_pin_is_no_trust(home: Path) -> None:
    """An empty hash is never the one on record."""
    assert not trust_store(environment(home)).trusts(home / "project/handrail.toml", "")
