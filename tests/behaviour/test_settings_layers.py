"""Settings from files, environment, flags and programs: what beats what, where it stands, and what is refused."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import Misuse, SettingsFault
from handrail.settings import (
    PRESETS,
    Origin,
    TrustStore,
    cache_dir,
    config_dir,
    paths,
    preset,
    preset_text,
    runs_dir,
    state_dir,
    trust_store,
    write_new,
)
from handrail.settings.lint import lint
from handrail.words import Decision, Scope
from settings_place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home")


# ── what beats what ──────────────────────────────────────────────────────────────────────────


def test_with_nothing_said_the_defaults_hold(place: Place) -> None:
    """No file, no variable: every origin is `default` and folders are absolute."""
    loaded = place.load()
    assert {origin.layer for origin in loaded.origins.values()} == {"default"}
    assert loaded.settings.workspace.root == str(place.project)
    assert loaded.settings.runs_dir == str(place.home / ".local/state/handrail/runs")
    assert (loaded.warnings, loaded.files, loaded.settings.rules) == ((), (), ())
    assert loaded.where("limits.max_calls") == ""


def test_each_layer_beats_the_ones_before(place: Place) -> None:
    """Defaults, user, project, environment, flags, in this order, each value with its place."""
    place.user("[limits]\nmax_calls = 1\nmax_prompts = 1\nmax_processes = 1\nmax_repeats = 1\n")
    place.write("[limits]\nmax_calls = 2\nmax_prompts = 2\nmax_processes = 2\n")
    place.environment |= {"HANDRAIL_LIMITS__MAX_CALLS": "3", "HANDRAIL_LIMITS__MAX_PROMPTS": "3"}
    loaded = place.load(flags={"limits.max_calls": 4})
    limits = loaded.settings.limits
    assert (limits.max_calls, limits.max_prompts, limits.max_processes) == (4, 3, 2)
    assert (limits.max_repeats, limits.breaker_failures) == (1, 5)
    user = str(place.home / ".config/handrail/config.toml")
    assert {name: loaded.origins[f"limits.{name}"] for name in ("max_calls", "max_prompts", "max_processes")} == {
        "max_calls": Origin("flag"),
        "max_prompts": Origin("env", "HANDRAIL_LIMITS__MAX_PROMPTS"),
        "max_processes": Origin("project", "handrail.toml", 4),
    }
    assert loaded.origins["limits.max_repeats"] == Origin("user", user, 5)
    assert loaded.origins["limits.breaker_failures"] == Origin("default")
    assert [(file.layer, file.trusted) for file in loaded.files] == [("user", True), ("project", True)]


def test_a_later_list_replaces_and_a_later_table_adds(place: Place) -> None:
    """Lists are whole values; tables by tool are met entry by entry."""
    place.user('[tools]\nenable = ["fs"]\ndisable = ["grep"]\n[limits.rate]\ngrep = 5\nnow = 5\n')
    place.write("[tools]\nenable = []\n[limits.rate]\ngrep = 9\nread_file = 9\n")
    loaded = place.load()
    assert loaded.settings.tools.enable == ()
    assert loaded.settings.tools.disable == ("grep",)
    assert loaded.settings.limits.rate == {"grep": 9, "now": 5, "read_file": 9}
    assert loaded.where("limits.rate.grep") == "handrail.toml:4"
    assert loaded.where("limits.rate.now").endswith("config.toml:6")


def test_rules_of_all_layers_stand_together(place: Place) -> None:
    """In the order of the layers, numbered from 1, each with its file and line."""
    place.user('[[rules]]\neffect = "deny"\ntool = "delete_path"\n')
    place.write('# x\n\n[[rules]]\neffect = "allow"\ntouch = "fs.*"\ntarget = "out/**"\nwhy = "it is ours"\n')
    place.environment["HANDRAIL_RULES"] = '[{effect = "ask", tool = "grep"}]'
    user = f"{place.home}/.config/handrail/config.toml"
    assert [(rule.id, rule.effect, rule.where, rule.narrows) for rule in place.load().settings.rules] == [
        ("rules.1", "deny", f"{user}:1", False),
        ("rules.2", "allow", "handrail.toml:3", False),
        ("rules.3", "ask", "HANDRAIL_RULES", False),
    ]
    rule = place.load().settings.rules[1].rule()
    assert (rule.effect, rule.touch, rule.target, rule.why) == (Decision.ALLOW, "fs.*", "out/**", "it is ours")


def test_a_config_file_takes_the_place_of_user_and_project(place: Place) -> None:
    """`--config` is trusted and alone; environment and flags still apply."""
    place.user("[limits]\nmax_calls = 1\n")
    place.write("[limits]\nmax_prompts = 2\n")
    place.write('mode = "headless"\n[tools]\nenable = ["fs"]\n', "ci.toml", trusted=False)
    place.environment["HANDRAIL_LIMITS__MAX_REPEATS"] = "7"
    loaded = place.load(config=place.project / "ci.toml")
    limits = loaded.settings.limits
    assert (limits.max_calls, limits.max_prompts, limits.max_repeats) == (0, 100, 7)
    assert (loaded.settings.mode, loaded.settings.tools.enable) == ("headless", ("fs",))
    assert loaded.origins["mode"] == Origin("config", "ci.toml", 1)
    assert [file.layer for file in loaded.files] == ["config"]


def test_a_mapping_is_all_that_a_program_wants(place: Place) -> None:
    """Neither files nor environment have a say beside `Runtime.open(config={…})`; flags do."""
    place.user("[limits]\nmax_calls = 1\n")
    place.environment["HANDRAIL_LIMITS__MAX_PROMPTS"] = "3"
    config = {"workspace": {"read": [place.home / "lib"]}, "rules": [{"effect": "deny", "tool": "grep"}]}
    loaded = place.load(config=config, flags={"mode": "headless", "runs_dir": None})
    assert (loaded.settings.limits.max_calls, loaded.settings.limits.max_prompts) == (0, 100)
    assert loaded.settings.workspace.read == (f"{place.home}/lib",)
    assert loaded.origins["workspace.read"] == Origin("python")
    assert loaded.origins["mode"] == Origin("flag")
    assert loaded.settings.rules[0].where == "python"


def test_a_config_file_is_named_from_where_the_person_stands(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like every path on a command line; what it says of folders is still taken from the workspace."""
    (place.home / "ci.toml").write_text('[workspace]\nread = ["lib"]\n')
    monkeypatch.chdir(place.home)
    loaded = place.load(config=Path("ci.toml"))
    assert loaded.settings.workspace.read == (str(place.project / "lib"),)
    assert loaded.files[0].path == str(place.home / "ci.toml")


def test_a_missing_config_file_is_a_fault(place: Place) -> None:
    """Falling back to other settings would be a guess."""
    with pytest.raises(SettingsFault, match="there is no such settings file"):
        place.load(config=Path("nowhere.toml"))


def test_pyproject_serves_where_there_is_no_handrail_toml(place: Place) -> None:
    """`[tool.handrail]` is read with the lines of pyproject.toml; handrail.toml hides it."""
    place.write('[project]\nname = "x"\n[tool.handrail.limits]\nmax_calls = 3\n', "pyproject.toml")
    loaded = place.load()
    assert loaded.settings.limits.max_calls == 3
    assert loaded.origins["limits.max_calls"] == Origin("project", "pyproject.toml", 4)
    place.write("[limits]\nmax_prompts = 7\n")
    loaded = place.load()
    assert (loaded.settings.limits.max_calls, loaded.settings.limits.max_prompts) == (0, 7)


def test_a_new_dependency_leaves_pyproject_trusted(place: Place) -> None:
    """Trust in pyproject.toml is bound to our table, in handrail.toml to the whole file."""
    ours = '[tool.handrail.tools]\nenable = ["fs"]\n'
    place.write(ours, "pyproject.toml")
    place.write(f'[project]\nname = "x"\n{ours}', "pyproject.toml", trusted=False)
    assert place.load().settings.tools.enable == ("fs",)
    place.write('[tool.handrail.tools]\nenable = ["fs", "exec"]\n', "pyproject.toml", trusted=False)
    assert place.load().settings.tools.enable == ()


def test_a_pyproject_of_somebody_else_is_passed_over(place: Place) -> None:
    """A pyproject.toml without our table is no settings file, even when it names us."""
    place.write('[project]\ndependencies = ["handrail"]\n', "pyproject.toml", trusted=False)
    assert place.load().files == ()


@pytest.mark.parametrize(
    ("text", "shown"),
    [(".", ""), ("src", "/src"), ("../other", "/../other"), ("~", "/.."), ("~/lib", "/../lib"), ("/", None)],
)
def test_folders_are_taken_from_the_workspace(place: Place, text: str, shown: str | None) -> None:
    """Relative ones from the workspace wherever they are written, `~` from the user's home."""
    place.user(f'[workspace]\nroot = "{text}"\nread = ["{text}"]\n')
    expected = "/" if shown is None else os.path.realpath(f"{place.project}{shown}")
    workspace = place.load().settings.workspace
    assert (workspace.root, workspace.read) == (expected, (expected,))


def test_a_fresh_workspace_for_each_run_stays_a_word(place: Place) -> None:
    """`run:workspace` names no folder before there is a run."""
    place.user('[workspace]\nroot = "run:workspace"\n')
    assert place.load().settings.workspace.root == "run:workspace"


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("HANDRAIL_MODE", "headless", "mode", "headless"),
        ("HANDRAIL_MODE", '"headless"', "mode", "headless"),
        ("HANDRAIL_TOOLS__ENABLE", '["fs", "x"]', "tools.enable", ("fs", "x")),
        ("HANDRAIL_TOOLS__REPAIR", "false", "tools.repair", False),
        ("HANDRAIL_LIMITS__TIMEOUT_SECONDS", "2", "limits.timeout_seconds", 2.0),
        ("HANDRAIL_LIMITS__RATE__GREP", "3", "limits.rate", {"grep": 3}),
        ("HANDRAIL_LIMITS__RATE", "{grep = 3}", "limits.rate", {"grep": 3}),
        ("HANDRAIL_RUNS_DIR", "/var/runs/1", "runs_dir", "/var/runs/1"),
        ("HANDRAIL_WORKSPACE__ROOT", "/2024", "workspace.root", "/2024"),
    ],
)
def test_variables_are_read_as_toml_or_text(place: Place, variable: str, text: str, key: str, value: Any) -> None:
    """Text needs no quotes, everything else is a TOML value."""
    place.environment[variable] = text
    loaded = place.load()
    section, _, name = key.rpartition(".")
    assert getattr(getattr(loaded.settings, section) if section else loaded.settings, name) == value
    assert loaded.origins[key].layer == "env"


def test_a_number_can_name_a_folder(place: Place) -> None:
    """A variable for a text setting is text, even where it looks like a number."""
    place.environment["HANDRAIL_WORKSPACE__ROOT"] = "2024"
    assert place.load().settings.workspace.root == str(place.project / "2024")


def test_other_variables_of_ours_are_no_settings(place: Place) -> None:
    """`HANDRAIL_TOKEN` and the like are left alone."""
    place.environment |= {"HANDRAIL_TOKEN": "x", "HANDRAIL_TEST_SCALE": "20", "HANDRAILS": "y"}
    assert {origin.layer for origin in place.load().origins.values()} == {"default"}


def test_the_digest_is_of_values_and_not_of_places(place: Place) -> None:
    """Moving a setting to another file or line changes nothing; changing one value does."""
    place.user('mode = "headless"\n[[rules]]\neffect = "deny"\ntool = "grep"\n')
    first = place.load().digest
    place.user("")
    place.write('# moved\n\nmode = "headless"\n[[rules]]\neffect = "deny"\ntool = "grep"\n')
    assert place.load().digest == first
    place.write('mode = "headless"\n[[rules]]\neffect = "ask"\ntool = "grep"\n')
    assert place.load().digest != first


def test_an_empty_list_means_nothing(place: Place) -> None:
    """Empty is a value of its own, not `not given`."""
    place.user('[tools]\nenable = ["fs"]\n[http]\nallowed_hosts = ["a.org"]\n')
    place.write("[tools]\nenable = []\n[http]\nallowed_hosts = []\n")
    loaded = place.load()
    assert (loaded.settings.tools.enable, loaded.settings.http.allowed_hosts) == ((), ())


def test_the_widest_scope_is_what_policy_compares(place: Place) -> None:
    """The word of the file becomes the ordered scope."""
    assert place.load(flags={"approvals.max_scope": "session"}).settings.approvals.widest is Scope.SESSION


# ── trust ────────────────────────────────────────────────────────────────────────────────────


def test_trust_lasts_until_the_file_changes(place: Place) -> None:
    """Trusted, changed, trusted again, forgotten."""
    file = place.write('[tools]\nenable = ["fs"]\n')
    assert place.load().settings.tools.enable == ("fs",)
    file.write_text('[tools]\nenable = ["fs", "exec"]\n')
    changed = place.load()
    assert changed.settings.tools.enable == ()
    warning = "`tools.enable` adds 'fs', 'exec', which is ignored because handrail.toml changed since it was trusted"
    assert changed.warnings == (f"handrail.toml:2: {warning}; review the file, then run `handrail config trust`",)
    store = trust_store(place.environment)
    assert store.trust(file) == store.pinned(file)
    assert place.load().warnings == ()
    assert [store.forget(file), store.forget(file)] == [True, False]
    assert "is not trusted" in place.load().warnings[0]


def test_the_store_is_for_its_owner_alone(place: Place) -> None:
    """Made 0600 in a folder 0700."""
    place.write("")
    path = trust_store(place.environment).path
    assert path == place.home / ".local/state/handrail/trust.json"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_trust_is_given_to_what_was_reviewed(place: Place) -> None:
    """A file that changed between looking and trusting is refused."""
    file = place.write("", trusted=False)
    reviewed = place.load().files[0].pin
    file.write_text('[tools]\nenable = ["fs"]\n')
    with pytest.raises(SettingsFault, match="changed while it was reviewed"):
        trust_store(place.environment).trust(file, reviewed)
    with pytest.raises(SettingsFault, match="no settings to trust"):
        trust_store(place.environment).trust(place.project / "nothing.toml")


def _trust(store: Path, file: Path) -> None:
    TrustStore(store).trust(file)


def test_trust_given_at_once_is_not_lost(tmp_path: Path) -> None:
    """Sixteen processes that trust sixteen files leave sixteen pins."""
    from multiprocessing import get_context

    files = [tmp_path / f"{number}.toml" for number in range(16)]
    for file in files:
        file.write_text("")
    store = tmp_path / "state/trust.json"
    context = get_context("spawn")
    with context.Pool(4) as pool:
        pool.starmap(_trust, [(store, file) for file in files])
    assert all(TrustStore(store).pinned(file) for file in files)


# ── folders, presets, new files ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("environment", "folder", "expected"),
    [
        ({"HOME": "/h"}, config_dir, "/h/.config/handrail"),
        ({"HOME": "/h"}, state_dir, "/h/.local/state/handrail"),
        ({"HOME": "/h"}, cache_dir, "/h/.cache/handrail"),
        ({"HOME": "/h"}, runs_dir, "/h/.local/state/handrail/runs"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, runs_dir, "/s/handrail/runs"),
        ({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}, config_dir, "/h/.config/handrail"),
        ({"HOME": "/h", "XDG_CACHE_HOME": ""}, cache_dir, "/h/.cache/handrail"),
    ],
)
def test_folders_follow_the_xdg_rules(environment: dict[str, str], folder: Callable[..., Path], expected: str) -> None:
    """Relative and empty values are ignored, as the rules demand."""
    assert folder(environment) == Path(expected)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_loads_without_a_complaint(place: Place, name: str) -> None:
    """As the file that `init` writes and trusts, and as the mapping a program takes, with the same result."""
    file = place.project / "handrail.toml"
    pin = write_new(file, preset_text(name))
    trust_store(place.environment).trust(file, pin)
    from_file, from_program = place.load(), place.load(config=preset(name))
    assert (from_file.warnings, from_file.digest) == ((), from_program.digest)
    assert [item for item in lint(from_file, environment=place.environment) if item.level != "note"] == []
    assert all(line.startswith("#") or "#" not in line for line in preset_text(name).split("\n"))


def test_a_preset_that_is_not_there_is_misuse() -> None:
    """The names that are there are told."""
    with pytest.raises(Misuse, match="there are readonly, coding"):
        preset("everything")


def test_a_new_file_never_replaces_one(place: Place) -> None:
    """Neither a file nor what a link points to."""
    kept = place.write("# mine\n", trusted=False)
    (place.project / "link.toml").symlink_to("elsewhere.toml")
    for name in ("handrail.toml", "link.toml"):
        with pytest.raises(SettingsFault, match="is there already"):
            write_new(place.project / name, "")
    with pytest.raises(SettingsFault, match="cannot be written"):
        write_new(place.project / "no/folder.toml", "")
    assert (kept.read_text(), (place.project / "elsewhere.toml").exists()) == ("# mine\n", False)


async def test_a_file_that_holds_settings_may_be_read_and_never_written(tmp_path: Path) -> None:
    """Also where it is the project's pyproject.toml, which is not ours alone."""
    from handrail import Runtime

    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.handrail.tools]\ndisable = ["grep"]\n')
    edit = {"path": "pyproject.toml", "edits": [{"old": '["grep"]', "new": "[]"}]}
    async with Runtime.open(tmp_path, flags={"tools.enable": ["fs"]}, mode="headless") as runtime:
        read = await runtime.call("read_file", {"path": "pyproject.toml"})
        written = await runtime.call("edit_file", edit)
    assert read.ok
    assert written.error is not None
    assert (written.error.code, written.error.details["rule"]) == ("PATH_PROTECTED", "builtin.settings")


def test_a_path_that_is_no_text_is_told_by_its_cause() -> None:
    """Its bytes are no UTF-8, or they are and the locale cannot read them."""
    assert paths.unreadable("/srv/\udcff") == (
        "the path of the workspace, b'/srv/\\xff', is not UTF-8; rename the folder"
    )
    assert paths.unreadable("/srv/\udcc3\udcbc") == (
        "this locale cannot read the path of the workspace, /srv/ü; set LC_ALL=C.UTF-8, or unset PYTHONUTF8"
    )


def test_a_home_that_follows_the_current_folder_is_none() -> None:
    """What is kept there would be found in that folder alone."""
    known = pwd.getpwuid(os.getuid()).pw_dir
    for environment in ({"HOME": "here"}, {"HOME": ""}, {}):
        assert paths.state_dir(environment) == Path(known, ".local/state/handrail")
