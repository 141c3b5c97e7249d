"""What the verdict excludes is never shown, counted or named, however it is asked for."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handrail.policy.builtin import KEY_MATERIAL
from handrail.policy.patterns import excluded
from handrail.tools.search.find_files import find_files
from handrail.tools.search.grep import grep
from handrail.words import Exclusion, Place, PlaceKind, Root
from handrail.workspace.rg_output import Keeper
from searching import Searching, fill

EXCLUDED = (
    *(Exclusion(pattern, "builtin.key-material") for pattern in KEY_MATERIAL),
    Exclusion(".env*", "defaults.protected", except_for=(".env.example",)),
    Exclusion("/private/**", "rules.1", any_case=False),
    Exclusion("/notes/*.[kK]ey", "rules.2", any_case=False),
    Exclusion("secret*", "rules.3", root="workspace"),
    Exclusion("only-elsewhere", "rules.4", root="other"),
)
SECRET = [
    ".ssh/id_rsa",
    ".SSH/config",
    "deep/.Ssh/known",
    "id_rsa",
    "deep/er/ID_ED25519",
    ".env",
    "app/.env.local",
    ".netrc",
    "_NETRC",
    "vault.kdbx",
    "deep/VAULT.KDBX",
    "private/a.txt",
    "private/deep/b.txt",
    "notes/a.key",
    "secrets/x",
    "secret.txt",
    "Secret.TXT",
    ".config/gcloud/token.json",
    "Library/Keychains/login",
]
OPEN = [
    "a.txt",
    ".env.example",
    "notes/a.keys",
    "deep/private/a.txt",
    "PRIVATE/a.txt",
    "not-secret.txt",
    "only-elsewhere",
    "gcloud/x",
    "xid_rsa",
]
ASKED: list[dict[str, Any]] = [
    {},
    {"glob": "**/*"},
    {"glob": ".env*"},
    {"glob": "{.env,.ssh/**,id_rsa,**/id_*}"},
    {"glob": "private/**"},
    {"glob": "*.[kK]*"},
    {"glob": ".*/**"},
    {"glob": "**/.*"},
    {"type": "txt"},
    {"type": "all"},
    {"path": "private/deep"},
    {"path": "notes"},
    {"path": "deep"},
    {"path": ".config"},
    {"path": "Library"},
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files that must not be seen among files that may."""
    return fill(tmp_path, dict.fromkeys((*SECRET, *OPEN), "needle\n"))


@pytest.mark.parametrize("how", [{}, {"confined": False}, {"head_start_seconds": 0.0}, {"opener": "walk"}], ids=str)
async def test_grep_never_shows_what_is_excluded(tree: Path, how: dict[str, Any]) -> None:
    """Whatever glob, type or folder is named, in every mode."""
    async with Searching(tree, excluded=EXCLUDED, **how) as search:
        for asked, mode in itertools.product(ASKED, ("content", "files", "count")):
            answer = await search.call(grep, pattern="needle", mode=mode, **asked)
            found = {match.file for match in answer.data.matches} | {row.file for row in answer.data.files}
            assert found <= set(OPEN), asked


@pytest.mark.parametrize("how", [{}, {"confined": False}, {"head_start_seconds": 0.0}, {"opener": "walk"}], ids=str)
async def test_find_files_never_names_what_is_excluded(tree: Path, how: dict[str, Any]) -> None:
    """Files and folders, hidden and ignored ones too, in every order; and all that is open is named."""
    async with Searching(tree, excluded=EXCLUDED, **how) as search:
        for pattern, kind, sort in itertools.product(["*", ".env*", "**/.ssh/*"], ["file", "dir"], ["path", "size"]):
            args = {"pattern": pattern, "type": kind, "sort": sort, "hidden": True, "respect_ignore": False}
            answer = await search.call(find_files, **args)
            names = set(answer.data.paths)
            assert not names & {*SECRET, *(part for name in SECRET for part in parents(name))} - {*OPEN, *shared()}, (
                args
            )
            if (pattern, kind) == ("*", "file"):
                assert names == set(OPEN)


def parents(name: str) -> list[str]:
    """Every folder a path lies in."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def shared() -> set[str]:
    """Folders that are not excluded themselves."""
    return {part for name in OPEN for part in parents(name)} | {"app", "deep/er", ".config", "Library"}


async def test_the_counts_of_hidden_files_leave_out_what_is_excluded(tree: Path) -> None:
    """Not even the number of ignored files gives an excluded one away."""
    fill(tree, {".gitignore": "id_rsa\n*.log\n", "x.log": ""})
    async with Searching(tree, excluded=EXCLUDED, count_seconds=60.0) as search:
        answer = await search.call(find_files, pattern="{id_rsa,*.log}")
    assert (answer.data.paths, answer.data.hidden_by_ignore) == ([], 1)


NAME = st.text(st.sampled_from("aAkKsS.eEnNvV/ſKıİ-_*?"), min_size=1, max_size=10).map(
    lambda text: text.strip("/") or "a"
)
PATTERN = st.text(st.sampled_from("aks.env/*?[]-K"), min_size=1, max_size=8)


@example(["s.env"], ["\u017f.env"], "")
@example(["K"], ["\u212a"], "sub")
@example(["key"], ["KEY/x"], "")
@given(
    st.lists(PATTERN, min_size=1, max_size=5), st.lists(NAME, min_size=1, max_size=6), st.sampled_from(["", "sub", "K"])
)
def test_the_quick_look_agrees_with_the_exact_check(patterns: list[str], paths: list[str], folder: str) -> None:
    """A law: what is kept is what no exclusion covers, for all patterns and paths, in any case and script."""
    try:
        exclusions = [Exclusion(pattern, "test") for pattern in patterns]
        root = Root("workspace", "/work", True)
        base = f"{folder}/" if folder else ""
        exact = [path for path in paths if excluded(exclusions, root, base + path) is None]
    except Exception:
        return  # patterns that settings refuse
    keeper = Keeper(Place(root, folder, PlaceKind.DIRECTORY), tuple(exclusions), None, hidden=True)
    assert keeper.keeps(paths) == exact
