"""The quick tests of names and paths in a walk: they agree with the exact rules, and spare nearly every file those."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from handrail.policy.patterns import could_exclude, excluded
from handrail.sandbox.masks import HIDE, LOCK, masks, rules_of
from handrail.sandbox.plan import Plan
from handrail.words import Exclusion, Root
from handrail.workspace.exclude import leaves_out

ROOT = Root("work", "/top/work", writable=True)
NAMES = ("a", "b", "Secrets", "secrets", "x.pem", ".env", "ab", "run")
PATTERNS = (
    *("/**/secrets/**", "secrets", "/a/**", "/**", "**", "a/**/*", "/a/*/b", "**/*.pem", "[ab]b", "x[a/b]", "a**b"),
    *("secrets/", "/secrets/**/", "*/secrets", "//top/work/a/**", "//top/**", "//top/work/secrets", "/run:a/**", "?"),
    *("[!a]", "**/**", "a/**/**", "[**]", "[*", ".env*"),
)
EXCEPTED = ((), (), ("a",), ("/secrets",), ("secrets/b",))


def paths(random: Random) -> list[str]:
    """A few hundred paths with every folder above them."""
    found: dict[str, None] = {}
    for _ in range(300):
        parts = [random.choice(NAMES) for _ in range(random.randint(1, 4))]
        found |= dict.fromkeys("/".join(parts[: count + 1]) for count in range(len(parts)))
    return list(found)


@pytest.mark.parametrize("seed", range(40))
def test_a_walk_leaves_out_exactly_what_the_rules_cover(seed: int) -> None:
    """Whatever the patterns: entries are judged top down, and nothing below a covered folder is judged."""
    random = Random(seed)
    items = tuple(
        Exclusion(random.choice(PATTERNS), "rule", except_for=random.choice(EXCEPTED), any_case=random.random() < 0.5)
        for _ in range(random.randint(1, 3))
    )
    leaves = leaves_out(items, ROOT)
    possible = could_exclude(items, ROOT)
    covered: set[str] = set()
    for path in sorted(paths(random), key=lambda path: path.count("/")):
        above, _, name = path.rpartition("/")
        if above in covered:
            covered.add(path)
            continue
        exact = excluded(items, ROOT, path) is not None
        assert possible(path) or not exact, (items, path)
        if not any(item.except_for for item in items):
            assert leaves(name, path) == exact, (items, path)
        if exact:
            covered.add(path)


@pytest.mark.parametrize("target", ["**/secrets/**", "secrets/**", "**/secrets/", "deploy/secrets/**"])
def test_a_rule_for_a_folder_leaves_no_other_file_to_be_judged(target: str, tmp_path: Path) -> None:
    """One compiled set says no to every other name; what the rules cover is hidden all the same."""
    for name in ("one.py", "two.py", "src/three.py", "deploy/four.py", "deploy/secrets/key.txt", "secrets/key.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    rule = (Exclusion(f"/{target}", "rule", any_case=False),)
    lock = (Exclusion("/**/*.lock", "lock", any_case=False),)
    plan = Plan((), (str(tmp_path),), excluded=rule, locked=lock)
    ((_, rules),) = rules_of(plan)
    judged = {name for folder in (".", "src", "deploy") for name, _ in rules.looks.at(str(tmp_path / folder)).suspects}
    assert judged == {"secrets"}
    beneath = [(path, how) for path, how in masks(plan).paths if path.startswith(f"{tmp_path}/")]
    hidden = {path.removeprefix(f"{tmp_path}/") for path, how in beneath if how in (HIDE, LOCK)}
    expected = {"deploy/secrets", "secrets"}
    if target.startswith("secrets"):
        expected = {"secrets"}
    elif target.startswith("deploy"):
        expected = {"deploy/secrets"}
    assert hidden == expected
