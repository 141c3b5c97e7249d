"""The pinned versions satisfy the ranges that users install by, and name no registry."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PINS = (ROOT / "constraints.txt").read_text()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def read_pins(text: str) -> dict[str, list[Version]]:
    """Return the versions pinned for each name; a name has several where markers tell them apart."""
    pins: dict[str, list[Version]] = {}
    for line in text.splitlines():
        requirement = Requirement(line)
        (pin,) = requirement.specifier
        assert pin.operator == "==", line
        pins.setdefault(canonicalize_name(requirement.name), []).append(Version(pin.version))
    return pins


def requirements() -> Iterator[Requirement]:
    """Yield every range of pyproject.toml: of the package, its extras, the groups and the build."""
    project = PROJECT["project"]
    lists = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PROJECT["dependency-groups"].values(),
        PROJECT["build-system"]["requires"],
    ]
    for text in (text for items in lists for text in items):
        requirement = Requirement(text)
        if requirement.name != project["name"]:
            yield requirement


def unsatisfied(requirement: Requirement, pins: dict[str, list[Version]]) -> str | None:
    """Describe why the pins do not satisfy a range, or return None."""
    found = pins.get(canonicalize_name(requirement.name))
    if found is None:
        return f"{requirement.name} is not pinned: run `make lock`"
    wrong = [str(version) for version in found if version not in requirement.specifier]
    return f"{requirement.name} {wrong} is not {requirement.specifier}" if wrong else None


@pytest.mark.parametrize("requirement", list(requirements()), ids=str)
def test_every_range_is_satisfied_by_its_pin(requirement: Requirement) -> None:
    """What the tests run with is what a user may get."""
    assert unsatisfied(requirement, read_pins(PINS)) is None


def installed_for(wanted: set[str]) -> set[str]:
    """List the names of installed packages that some packages need, they and what they need in turn."""
    needed: dict[str, set[str]] = {}
    for package in metadata.distributions():
        # What only an extra asks for may be here for another reason.
        requires = [Requirement(text) for text in package.requires or () if "extra ==" not in text]
        needed[canonicalize_name(package.metadata["Name"])] = {canonicalize_name(each.name) for each in requires}
    reached: set[str] = set()
    waiting = [name for name in wanted if name in needed]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [each for each in needed[name] if each in needed]
    return reached


def test_everything_that_is_installed_with_them_is_pinned() -> None:
    """What the packages need in turn decides as much as they do."""
    reached = installed_for({canonicalize_name(each.name) for each in requirements()})
    assert len(reached) > 50
    assert sorted(reached - {"handrail"} - set(read_pins(PINS))) == []


def test_what_builds_an_editable_install_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make run` installs the package so; the build's own tool says what pip has to fetch for it."""
    from hatchling.build import get_requires_for_build_editable, get_requires_for_build_wheel

    monkeypatch.chdir(ROOT)
    asked = [*get_requires_for_build_editable(), *get_requires_for_build_wheel()]
    assert asked
    assert [unsatisfied(Requirement(text), read_pins(PINS)) for text in asked] == [None] * len(asked)


def test_a_pin_outside_its_range_is_noticed() -> None:
    """The check above can fail."""
    assert unsatisfied(Requirement("click>=8.3"), read_pins("click==8.2.1")) == "click ['8.2.1'] is not >=8.3"
    assert unsatisfied(Requirement("click>=8.3"), {}) == "click is not pinned: run `make lock`"


def test_the_pins_name_no_address() -> None:
    """They are versions of names and nothing else."""
    assert not re.search(r"://|--|@", PINS)
