"""The pages that lead elsewhere leave nothing out: rooms, how-to pages, the two READMEs."""

from __future__ import annotations

import re
from pathlib import Path

import handrail

ROOT = Path(__file__).parents[2]
SOURCE = Path(handrail.__file__).parent
# Not rooms: the package itself, and short names under which users import a front end.
SHORT = {"__init__.py", "__main__.py", "pydantic_ai.py", "openai_agents.py", "langchain.py"}


def rooms() -> set[str]:
    """Every module and folder at the top of the package, as the page names it."""
    found = set()
    for path in SOURCE.iterdir():
        if path.is_dir() and path.name != "__pycache__":
            found.add(f"{path.name}/")
        elif path.suffix == ".py" and path.name not in SHORT:
            found.add(path.name)
    return found


def named(text: str) -> set[str]:
    """The rooms that the table of a text names."""
    cells = re.findall(r"^\| \d \| ([^|]+) \|", text, re.MULTILINE)
    names = re.findall(r"`([^`]+)`", " ".join(cells))
    return {name if name.endswith(".py") and "/" not in name else f"{name.split('/')[0]}/" for name in names}


def links(page: Path) -> set[Path]:
    """The files that a page links to."""
    found = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    return {(page.parent / target).resolve() for target in found if "://" not in target}


def test_the_architecture_names_every_room_and_no_other() -> None:
    """A new module has its place in the table."""
    assert named((ROOT / "ARCHITECTURE.md").read_text()) == rooms()


def test_a_room_that_is_left_out_is_noticed() -> None:
    """The check above can fail."""
    text = (ROOT / "ARCHITECTURE.md").read_text().replace("`skills/`", "")
    assert rooms() - named(text) == {"skills/"}


def test_every_how_to_page_is_listed() -> None:
    """Whoever opens the list finds all there is."""
    folder = ROOT / "docs" / "how-to"
    assert {path for path in folder.glob("*.md") if path.name != "README.md"} == links(folder / "README.md")


def test_every_page_can_be_reached_from_the_readme() -> None:
    """By links alone."""
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen and page.suffix == ".md" and page.is_file():
            seen.add(page)
            waiting += links(page)
    assert set((ROOT / "docs").rglob("*.md")) - seen == set()


def test_both_readmes_lead_to_the_same_pages() -> None:
    """But for the link to each other."""
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"
    assert links(english) - {chinese} == links(chinese) - {english}


def test_both_readmes_have_the_same_commands() -> None:
    """What one shows, the other shows."""
    shown = [
        re.findall(r"^\$ (.+)$", (ROOT / name).read_text(), re.MULTILINE) for name in ("README.md", "README.zh-CN.md")
    ]
    assert shown[0] == shown[1]


def test_decisions_are_sorted_by_number() -> None:
    """Each number once, so that a reference finds its paragraph."""
    text = (ROOT / "docs/decisions/README.md").read_text()
    numbers = [int(number) for number in re.findall(r"(?m)^## (\d+)\. ", text)]
    assert len(numbers) > 50
    assert numbers == sorted(set(numbers))
