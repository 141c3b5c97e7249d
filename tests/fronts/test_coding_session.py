"""A day's work of a coding agent over MCP: what it asks, that it does what is done by hand, and taking it back."""

from __future__ import annotations

import json
import os
import pwd
import shutil
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox
from fronts.coding_projects import build_crate, build_shop, build_web, package_index, write_identity
from fronts.coding_sessions import Work, command, git_state, handrail, session, state, undo_last_run
from handrail.settings import paths

MOST_FIRST_DAY = 3
MOST_SECOND_DAY = 1
# Why a person is asked on the first day: the one host that a step reaches for.
NAMED = {"pip install": "the package index is a host that no settings name"}
FILES_IN_PACKAGES = 3000
MORE = "from shop.cart import total\n\n\ndef test_cents():\n    assert total([0.1, 0.2]) == 0.3\n"


def steps(index: str) -> list[Work]:
    """List the 28 steps of an ordinary session."""
    return [
        Work("list_dir", {"path": "."}),
        Work("read_file", {"path": "README.md"}),
        Work("read_file", {"path": "shop/cart.py"}),
        Work("read_file", {"path": "package.json"}),
        Work("grep", {"pattern": "def total", "path": "shop"}),
        command("git status"),
        command("git log --oneline -5"),
        command("ls -la && cat package.json"),
        command("python -m pytest -q"),
        command(".venv/bin/python -m pytest -q 2>&1 | tail -20"),
        _edit("shop/cart.py", "return sum(prices)", "return round(sum(prices), 2)"),
        _edit("shop/greet.py", "'Hello ' + name", "f'Hello {name}'"),
        Work("write_file", {"path": "tests/test_more.py", "content": MORE}),
        command("python -m pytest -q"),
        command("pytest -q tests/test_more.py"),
        Work("write_file", {"path": "README.md", "content": "# Shop\n\nPolite.\n", "mode": "overwrite"}),
        command("python run_report.py"),
        command('python3 -c "import shop.cart; print(shop.cart.total([1, 2]))"'),
        command("git diff"),
        command("ruff check ."),
        command("npm test"),
        command(f"pip install --index-url {index} tiny"),
        command("mkdir -p docs && mv NOTES.txt docs/ && mv PLAN.txt docs/"),
        command("rm -rf __pycache__"),
        command("git add -A && git commit -m 'Round totals, greet politely'"),
        command("git show --stat HEAD"),
        command("cd shop && wc -l *.py"),
        command("find . -name '*.py' -not -path './.venv/*' | xargs grep -n total"),
    ]


def _edit(path: str, old: str, new: str) -> Work:
    return Work("edit_file", {"path": path, "edits": [{"old": old, "new": new}]})


@pytest.fixture(autouse=True)
def user(own_user: Path) -> None:
    """Give the user a name in git, and let programs reach services of this machine once a person allows it."""
    need_sandbox()
    write_identity(own_user)
    paths.user_file().parent.mkdir(parents=True)
    paths.user_file().write_text('[http]\nallowed_networks = ["127.0.0.0/8"]\n')


def of_work(folder: Path) -> dict[str, tuple[int, str]]:
    """Give the files of a project without what holds its place or the time: git's records and the environment."""
    return {name: found for name, found in state(folder).items() if not name.startswith((".git/", ".venv/"))}


async def test_28_steps_ask_once_and_do_what_is_done_by_hand(tmp_path: Path) -> None:
    """With a person who takes the widest answer; the next day too; and one command takes it all back."""
    work, copy = (build_shop(tmp_path / place / "shop") for place in ("inside", "outside"))
    handrail(work, "init")
    (copy / "handrail.toml").write_bytes((work / "handrail.toml").read_bytes())
    before = state(work)
    with package_index(tmp_path / "index", "tiny") as index:
        tasks = steps(index)
        assert len(tasks) == 28
        first = await session(work, tasks, copy)
        assert (first.failed, first.different) == ([], [])
        assert len(first.cards) <= MOST_FIRST_DAY
        assert [card for card in first.cards if not any(name in card for name in NAMED)] == []
        assert git_state(work) == git_state(copy)
        assert of_work(work) == of_work(copy)
        assert list((work / ".venv").rglob("tiny/__init__.py"))
        undo_last_run(work)
        assert state(work) == before
        second = await session(work, tasks)
        assert second.failed == []
        assert len(second.cards) <= MOST_SECOND_DAY
        undo_last_run(work)
        assert state(work) == before
    asked = json.loads(handrail(work, "approvals", "list", "--all", "--here", "--json"))
    assert len(asked) == len(first.cards) + len(second.cards)


# ── other projects ───────────────────────────────────────────────────────────────────────────


def bring_cargo(home: Path) -> None:
    """Give the test's user the toolchain of the machine's; skip where there is none."""
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)
    cargo, rustup = real / ".cargo/bin", real / ".rustup"
    if not (cargo / "cargo").exists() or not (rustup / "settings.toml").is_file():
        pytest.skip("cargo is not installed by rustup in the home of this account")
    for name in ("toolchains", "update-hashes"):
        (home / ".rustup").mkdir(exist_ok=True)
        (home / ".rustup" / name).symlink_to(rustup / name)
    shutil.copy(rustup / "settings.toml", home / ".rustup/settings.toml")
    (home / ".cargo").mkdir()
    (home / ".cargo/bin").symlink_to(cargo)


MORE_RUST = "#[test]\nfn more() {\n    assert_eq!(sum::add(2, 2), 4);\n}\n"
RUST = [
    Work("list_dir", {"path": "."}),
    Work("read_file", {"path": "src/lib.rs"}),
    Work("grep", {"pattern": "pub fn", "path": "src"}),
    command("git status"),
    command("cargo test --offline 2>/dev/null | grep '^test '"),
    _edit("src/lib.rs", "a + b", "a.wrapping_add(b)"),
    Work("write_file", {"path": "tests/more.rs", "content": MORE_RUST}),
    command("cargo test --offline 2>/dev/null | grep '^test '"),
    command("cargo build --offline --quiet"),
    command("cargo run --offline --quiet"),
    command("cargo fmt && git diff --stat"),
    command("cargo clippy --offline --quiet"),
    command("rm -rf target"),
    command("cargo build --offline --quiet"),
    _edit("src/main.rs", "add(1, 2)", "add(2, 3)"),
    command("cargo run --offline --quiet"),
    command("git add -A && git commit -m 'Add without overflow'"),
    command("git show --stat HEAD"),
]


async def test_a_rust_project_asks_nothing(tmp_path: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests, builds, lints and commits; `Cargo.lock` is cargo's to write, and `target` is made again."""
    bring_cargo(own_user)
    monkeypatch.setenv("PATH", f"{own_user}/.cargo/bin:{os.environ['PATH']}")
    work, copy = (build_crate(tmp_path / place / "sum") for place in ("inside", "outside"))
    handrail(work, "init")
    (copy / "handrail.toml").write_bytes((work / "handrail.toml").read_bytes())
    before = state(work)
    day = await session(work, RUST, copy)
    assert (day.failed, day.different, day.cards) == ([], [], [])
    assert (git_state(work), of_work(work)) == (git_state(copy), of_work(copy))
    undo_last_run(work)
    assert state(work) == before


WEB = [
    Work("list_dir", {"path": "."}),
    Work("read_file", {"path": "src/page.js"}),
    Work("grep", {"pattern": "render", "path": "."}),
    command("git status"),
    command("ls node_modules | wc -l && cat package.json"),
    command("npm test"),
    _edit("src/page.js", "<p>", "<p id=big>"),
    command("npm run build && cat dist/index.html"),
    command("npm test && npm run lint"),
    command("rm -rf dist && npm run build"),
    command("rm -rf node_modules/package1"),
    command("mkdir -p node_modules/.cache && echo x > node_modules/.cache/build"),
    command("git diff"),
    command("git add -A && git commit -m 'Bigger text'"),
    command("git show --stat HEAD"),
]


async def test_a_web_project_with_many_packages_asks_nothing(tmp_path: Path, scale: int) -> None:
    """60,000 files in node_modules in `make test-full`; what lies there is made again, and undone within the budget."""
    files = FILES_IN_PACKAGES * scale
    work, copy = (build_web(tmp_path / place / "web", files) for place in ("inside", "outside"))
    handrail(work, "init")
    (copy / "handrail.toml").write_bytes((work / "handrail.toml").read_bytes())
    before = state(work)
    day = await session(work, WEB, copy)
    assert (day.failed, day.different, day.cards) == ([], [], [])
    assert (git_state(work), of_work(work)) == (git_state(copy), of_work(copy))
    undo_last_run(work)
    assert state(work) == before
    assert sum(len(found) for _, _, found in os.walk(work / "node_modules")) == files
