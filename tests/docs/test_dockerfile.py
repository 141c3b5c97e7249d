"""The Dockerfile brings every program that `handrail doctor` looks for, and looks before it serves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from handrail.settings.programs import PROGRAMS

TEXT = (Path(__file__).parents[2] / "Dockerfile").read_text()
LINES = [line for line in re.sub(r"\\\n", " ", TEXT).splitlines() if line and not line.startswith("#")]


def installed(lines: list[str]) -> set[str]:
    """The packages that apt-get installs."""
    found = re.findall(r"apt-get install ([^&|;]+)", " ".join(lines))
    return {word for words in found for word in words.split() if not word.startswith("-")}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.name))
def test_every_program_on_the_list_is_installed(program: object) -> None:
    """Required and wanted ones alike."""
    assert getattr(program, "package") in installed(LINES)  # noqa: B009


def test_a_program_that_is_left_out_is_noticed() -> None:
    """The check above can fail."""
    fewer = [line.replace("ripgrep", "") for line in LINES]
    assert installed(LINES) - installed(fewer) == {"ripgrep"}


def test_fd_is_found_under_its_own_name() -> None:
    """Debian calls it fdfind."""
    assert any("ln -s /usr/bin/fdfind /usr/local/bin/fd" in line for line in LINES)


def test_the_self_check_comes_before_anything_else() -> None:
    """The container ends where a required program is missing."""
    entry = next(line for line in LINES if line.startswith("ENTRYPOINT"))
    assert re.search(r"handrail doctor >&2 && exec handrail", entry)


def test_the_image_has_the_extras_of_its_commands_and_the_pinned_versions() -> None:
    """`handrail mcp` needs `[mcp]`; pip takes constraints.txt."""
    install = next(line for line in LINES if "pip install" in line)
    assert {"mcp", "fast", "lint", "search", "agent"} <= set(re.findall(r"\w+", install.partition("[")[2]))
    assert any("PIP_CONSTRAINT=/opt/handrail/constraints.txt" in line for line in LINES)
    assert any(line.startswith("COPY") and "constraints.txt" in line.split() for line in LINES)


def test_the_container_runs_as_a_user_and_names_its_roots() -> None:
    """Not as root; the roots come from the environment of the start."""
    assert [line for line in LINES if line.startswith("USER")] == ["USER agent"]
    assert any("AUTONOUS_TOOL_ALLOWED_ROOTS=/workspace,/state" in line for line in LINES)


def test_the_last_command_is_one_that_exists() -> None:
    """CMD names a verb."""
    from handrail.front.cli.root import VERBS

    command = next(line for line in LINES if line.startswith("CMD"))
    assert re.findall(r'"(\w+)"', command)[0] in VERBS
