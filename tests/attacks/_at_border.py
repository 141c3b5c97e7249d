"""Which attacks are made a second time with `exec.ask = "border"`, and what is said elsewhere.

All settings of a test stay; only the border is added. So a test that passes twice says: the wall is no thinner there.
"""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Runtime

UNLESS_ALLOWED, BORDER = "unless-allowed", "border"
FLAGS = {"exec.workspace": "review", "exec.ask": BORDER}

# Attacks by tools, programs and files in the workspace.
SUITES = frozenset(
    {
        "test_files_that_run_programs", "test_folder_races", "test_git_environment", "test_helpers_on_path",
        "test_hidden_in_requests", "test_hostile_calls", "test_other_repositories", "test_other_runs", "test_own_code",
        "test_planted", "test_planted_commands", "test_planted_to_stay", "test_process_floods",
        "test_races_through_tools", "test_sandbox_places", "test_settings_planted", "test_traversal",
    }
)  # fmt: skip
# Attacks that no program takes part in, which takes long: a second time in `make test-full` alone.
LONG = frozenset(
    {
        "test_approval_floods", "test_declared_touches", "test_http_hostile", "test_index", "test_search_exclusions",
        "test_secrets_everywhere", "test_split_secrets", "test_ssrf", "test_ssrf_proxy", "test_untrusted_project",
    }
)  # fmt: skip

_LINES = "the line runs inside the sandbox without a question; what it changes is judged: test_border_suites.py"
_KEPT = "nothing is planted in the workspace itself, so nothing is taken away: test_border_suites.py"
_TEXT = "says how a review or a direct change is described, which is another text at the border"
_ALIKE = "is about other processes, in which nothing is different at the border"
# Tests that say something which is not so at the border, each with the reason and where the like is said of it.
OTHERWISE = {
    "test_a_planted_command_asks": _LINES,
    "test_a_planted_link_to_another_program_asks": _LINES,
    "test_a_repository_that_names_programs_asks_and_names_the_key": _LINES,
    "test_programs_in_included_and_worktree_configs_and_other_repositories_ask": _LINES,
    "test_a_hook_that_reading_runs_asks": _LINES,
    "test_what_writes_or_runs_something_asks": _LINES,
    "test_an_allowed_git_status_runs_no_watcher_that_a_repository_names": _LINES,
    "test_hooks_and_settings_that_a_program_plants_are_taken_away_and_the_rest_is_told": _KEPT,
    "test_a_program_that_does_not_end_well_keeps_nothing_planted_either": _KEPT,
    "test_a_tree_too_deep_to_be_watched_hides_no_planted_hook": _KEPT,
    "test_a_hook_planted_by_a_running_program_is_gone_within_moments": _KEPT,
    "test_many_protected_files_elsewhere_hide_no_planted_hook": _KEPT,
    "test_nothing_beside_a_planted_hook_keeps_it_from_being_taken_away": _KEPT,
    "test_what_cannot_be_taken_away_is_said_to_be_in_effect": _KEPT,
    "test_a_program_turns_no_used_folder_into_a_repository": _KEPT,
    "test_a_bare_repository_that_a_program_makes_is_described_and_stays": _KEPT,
    "test_a_program_writes_no_hook_where_a_config_looks_for_them": _KEPT,
    "test_a_link_that_leads_to_hooks_is_told": _KEPT,
    "test_commands_that_a_program_leaves_in_a_rebase_are_told": _KEPT,
    "test_a_repository_that_a_program_makes_is_told_and_works": _TEXT,
    "test_a_file_name_can_be_neither_a_second_line_nor_broken_text": _TEXT,
    "test_a_review_leaves_out_names_that_no_tool_takes": _TEXT,
    "test_a_review_does_not_show_one_path_and_write_another": _TEXT,
    "test_a_review_shows_that_a_file_can_be_executed_now": _TEXT,
    "test_the_ledger_beneath_a_workspace_cannot_be_moved_into_reach": "nobody is asked, so there is no ledger",
    "test_a_workspace_below_var_tmp_is_shown_at_its_place_and_nothing_beside_it": "names its own kind of changes",
    "test_no_descriptor_is_left_by_many_commands": "layers are removed in the background: test_border_edges.py",
    "test_tools_and_programs_cannot_change_a_gate_in_the_project": "is run by test_border_suites.py",
    "test_a_projects_own_environment_without_handrail_is_ordinary_work": _ALIKE,
    "test_doctor_warns_of_a_gate_in_the_project": _ALIKE,
    "test_nothing_is_imported_for_the_gate_from_the_workspace": _ALIKE,
    "test_entry_points_beneath_a_write_root_are_ignored": _ALIKE,
    "test_the_index_helper_loads_no_library_from_the_workspace": _ALIKE,
}


def runs_twice(module: str, name: str, scale: int) -> bool:
    """Say whether a test is run a second time at the border."""
    return (module in SUITES or (module in LONG and scale > 1)) and name not in OTHERWISE


def open_at_border(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every runtime of this process opened at the border."""
    plain = Runtime.open

    def opened(*args: Any, **how: Any) -> Runtime:
        how["flags"] = {**FLAGS, **(how.get("flags") or {})}
        return plain(*args, **how)

    monkeypatch.setattr(Runtime, "open", opened)
