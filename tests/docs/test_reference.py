"""The reference pages say what the code says, and leave nothing out."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import handrail
from handrail.errors import FACTS, Code
from handrail.front.reference import PAGES, main
from handrail.front.reference_names import GROUPS, Group
from handrail.front.reference_python import find
from handrail.gates.record import EVENTS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "handrail"


def test_the_pages_are_up_to_date() -> None:
    """`make docs` would change nothing."""
    assert main(["--check", str(ROOT / "docs" / "reference")]) == 0


def test_every_code_has_its_facts() -> None:
    """The list is closed in both directions."""
    assert list(FACTS) == list(Code)


def test_every_event_that_is_written_is_documented() -> None:
    """No kind is appended anywhere that the list does not have, and none is only listed."""
    written = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        written |= set(re.findall(r'append\(\s*"([a-z]+\.[a-z]+|display)"', text))
        written |= set(re.findall(r'\.end\("([a-z.]+)"', text))
        written |= set(re.findall(r'_append\("([a-z.]+)"', text))
        written |= set(re.findall(r'\.write(?:_turn|_once)?\(\s*"([a-z]+\.[a-z]+)"', text))
        written |= {kind for pair in re.findall(r'return "(net\.\w+)" if .+ else "(net\.\w+)"', text) for kind in pair}
    assert written == set(EVENTS)


def test_no_page_is_missing() -> None:
    """Every generated page is there and starts with where it comes from."""
    for name in PAGES:
        assert "make docs" in (ROOT / "docs" / "reference" / name).read_text().splitlines()[0]


@cache
def python_page() -> str:
    """The page as it would be written, made once."""
    return "".join(PAGES["python.md"]())


def names_of(module: str) -> set[str]:
    """What a module offers, without loading a framework: the names in its `__all__`."""
    path = SOURCE / module.replace(".", "/")
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    found = re.search(r"^__all__ = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return set(ast.literal_eval(found[1]))


def told_of(module: str, groups: Sequence[Group] = GROUPS) -> set[str]:
    """What the page tells of a module."""
    return {name for group in groups if group.module == module for name in group.names.split() if "." not in name}


def test_the_python_page_tells_of_every_public_name() -> None:
    """Of each door all that it offers and nothing else; what is exported may stand where it is defined."""
    elsewhere = {"Evidence", "__version__"}  # with the other parts of an outcome; in the page's head
    assert told_of("handrail") | elsewhere == set(handrail.__all__)
    assert "Evidence" in told_of("handrail.words")
    assert "handrail.__version__" in python_page()
    for door in ("testing", "pydantic_ai", "langchain", "openai_agents"):
        assert told_of(f"handrail.{door}") == names_of(door)


def test_a_public_name_that_is_left_out_is_noticed() -> None:
    """The check above can fail."""
    shorter = [replace(group, names=group.names.replace("Status", "")) for group in GROUPS]
    assert set(handrail.__all__) - told_of("handrail", shorter) == {"Status", "Evidence", "__version__"}


def test_something_is_said_of_every_public_name() -> None:
    """Each class and function has its sentence, and so has each public method."""
    for group in GROUPS:
        for name in group.names.split():
            node = find(f"{group.module}.{name}").node
            if not isinstance(node, ast.Assign):
                assert ast.get_docstring(node), name  # type: ignore[arg-type]
    assert re.findall(r"^- `[^`]*`: *$", python_page(), re.MULTILINE) == []


def test_every_public_part_of_a_runtime_has_a_heading() -> None:
    """But for what front ends and tests reach into, which stands in the list of the class itself."""
    told = {name.removeprefix("Runtime.") for group in GROUPS for name in group.names.split() if "." in name}
    assert {name for name in vars(handrail.Runtime) if name[0] != "_"} - told == {"parts", "kernel"}


def test_a_name_that_is_nowhere_is_an_error() -> None:
    """No page is written with a hole in it."""
    for address in ("handrail.Nothing", "handrail.Runtime.nothing", "handrail.testing.nothing"):
        with pytest.raises(LookupError, match=address):
            find(address)


def test_fields_and_parameters_have_the_comment_beside_them() -> None:
    """As it stands in the source, without what is meant for a linter."""
    text = python_page()
    assert "| `by` | `str` |  | lines \\| bytes \\| entries |\n" in text
    assert "| `args` | `Mapping[str, Json] \\| None` | `None` | checked strictly;" in text
    assert re.findall("noqa|type: ignore", text) == []


def test_no_link_of_the_python_page_leads_to_a_heading_that_is_not_there() -> None:
    """Neither within it nor in the pages that explain."""
    page = ROOT / "docs" / "reference" / "python.md"
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        lines = (page.parent / target if target else page).read_text().splitlines()
        headings = {line.lstrip("# ").lower().replace(" ", "-") for line in lines if line.startswith("#")}
        assert anchor in headings, f"{target}#{anchor}"
