"""Configuration for contributors: it runs what `make check` and `.ci/run` run, on the supported versions."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def check_commands(makefile: str) -> list[str]:
    """List the commands of `make check`."""
    found = re.search(r"^check: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert found is not None
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in found[1].splitlines()]


def test_pre_commit_runs_what_make_check_runs() -> None:
    """The same commands in the same order."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    hooks = [hook for repo in yaml.safe_load(text)["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == check_commands((ROOT / "Makefile").read_text())
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)


def test_the_workflow_calls_ci_run_on_every_supported_python() -> None:
    """The versions are those of the classifiers."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    job = workflow["jobs"]["test"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = [word.rpartition(" ")[2] for word in project["classifiers"] if re.search(r":: 3\.\d+$", word)]
    assert job["strategy"]["matrix"]["python"] == supported
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_issue_templates_can_be_read() -> None:
    """Each has a name, a description and at least one required answer."""
    forms = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) == 2
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert form["name"]
        assert form["description"]
        assert any(part.get("validations", {}).get("required") for part in form["body"])


def test_editorconfig_agrees_with_ruff() -> None:
    """One line length."""
    length = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    assert f"max_line_length = {length}" in (ROOT / ".editorconfig").read_text()


def test_the_picture_of_the_rooms_is_current() -> None:
    """`make picture` draws it again."""
    images = ROOT / "docs/images"
    drawn = runpy.run_path(str(images / "rooms.py"))["picture"]()
    assert drawn == (images / "rooms.svg").read_text(encoding="utf-8")


def test_a_release_without_its_section_in_the_changelog_is_noticed() -> None:
    """The release check can fail."""
    check = runpy.run_path(str(ROOT / ".ci/release_check.py"))["check_changelog"]
    assert list(check({"version": "0.1.0"})) == []
    assert list(check({"version": "98.7.6"})) == ["CHANGELOG.md has no section 98.7.6"]


def test_the_walk_through_a_call_names_files_that_exist() -> None:
    """A file that is moved or renamed is noticed."""
    text = (ROOT / "docs/explanation/a-call-step-by-step.md").read_text()
    named = set(re.findall(r"`([a-z_/]+(?:\.py|/))`", text)) - {"docs/images/rooms.py"}
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "src/handrail" / name).exists()] == []
