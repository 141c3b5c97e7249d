"""An adapter whose framework is missing says in one line what to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from handrail.front._needed import needed

ROOT = Path(__file__).parents[2]
NEEDS = {
    "langchain": ("langchain_core", "handrail.langchain needs LangChain: pip install langchain-core"),
    "openai_agents": ("agents", "handrail.openai_agents needs OpenAI Agents: pip install openai-agents"),
    "pydantic_ai": ("pydantic_ai", "handrail.pydantic_ai needs Pydantic AI: pip install 'handrail[agent]'"),
}


@pytest.mark.parametrize("door", NEEDS)
def test_a_missing_framework_is_named_with_how_to_install_it(door: str) -> None:
    """The last line is all there is to read: no second error stands above it."""
    package, says = NEEDS[door]
    code = f"import sys; sys.modules[{package!r}] = None; import handrail.{door}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {says}"
    assert done.stderr.count("Traceback") == 1


def test_what_is_to_be_installed_is_what_the_tests_run_with() -> None:
    """Each named package is one of ours to develop with; the extra holds Pydantic AI."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tested = {re.split("[<>=]", item)[0] for item in project["dependency-groups"]["dev"]}
    assert {"langchain-core", "openai-agents"} <= tested
    assert [re.split("[<>=]", item)[0] for item in project["project"]["optional-dependencies"]["agent"]] == [
        "pydantic-ai-slim"
    ]


def test_a_framework_that_is_too_old_to_have_a_part_is_told_the_same_way() -> None:
    """What is missing stays named for programs."""
    with (
        pytest.raises(ModuleNotFoundError, match=r"^install it$") as raised,
        needed("frame", "install it"),
    ):
        raise ModuleNotFoundError("No module named 'frame.part'", name="frame.part")
    assert raised.value.name == "frame.part"


def test_what_the_framework_itself_lacks_is_not_mistaken_for_it() -> None:
    """Installing the framework again would not help."""
    with (
        pytest.raises(ModuleNotFoundError, match="No module named 'frames'"),
        needed("frame", "install it"),
    ):
        raise ModuleNotFoundError("No module named 'frames'", name="frames")
