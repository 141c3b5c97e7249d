"""What of a plan's patterns is found on disk, and how it is masked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handrail.sandbox import masks as module
from handrail.sandbox.launching import SetupFailed
from handrail.sandbox.looks import Looks
from handrail.sandbox.masks import masks
from handrail.sandbox.plan import Plan
from handrail.words import Exclusion, Root

REPOSITORY = tuple(Exclusion(f".git/**/{name}", "test") for name in ("hooks", "config"))


def planned(root: Path, *, excluded: tuple[str, ...] = (), locked: tuple[Exclusion, ...] = REPOSITORY) -> Plan:
    """A plan with one writable root."""
    hidden = tuple(Exclusion(name, "test") for name in excluded)
    roots = (Root("workspace", str(root), True),)
    return Plan(read=(), write=(str(root),), excluded=hidden, locked=locked, roots=roots)


def made(root: Path, *paths: str) -> None:
    """Make files, and folders where a path ends in a slash."""
    for path in paths:
        place = root / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(path)


def found(root: Path, plan: Plan) -> list[tuple[str, str]]:
    """List the masks beneath the root; the machine's own folders may have some as well."""
    beneath = [(path, how) for path, how in masks(plan).paths if path.startswith(f"{root}/")]
    return [(path.removeprefix(f"{root}/"), how) for path, how in beneath]


def test_hooks_and_config_are_locked_and_all_above_them_pinned(tmp_path: Path) -> None:
    """Shorter paths come first, so that what is below is mounted on top."""
    made(tmp_path, ".git/hooks/pre-commit", ".git/config", ".git/HEAD", "a/b/.git/config", "src/x")
    assert found(tmp_path, planned(tmp_path)) == [
        (".git", "pin"), ("a", "pin"), (".git/config", "lock"), (".git/hooks", "lock"), ("a/b", "pin"),
        ("a/b/.git", "pin"), ("a/b/.git/config", "lock"),
    ]  # fmt: skip


def test_what_stands_for_a_repository_is_locked_itself(tmp_path: Path) -> None:
    """The `.git` file of a worktree, and an empty `.git`."""
    made(tmp_path, "tree/.git", "empty/.git/")
    assert found(tmp_path, planned(tmp_path)) == [("tree", "pin"), ("empty/.git", "pin"), ("tree/.git", "lock")]


def test_hiding_wins_over_locking_and_goes_on_inside_what_is_locked(tmp_path: Path) -> None:
    """A key below the hooks is hidden, too."""
    made(tmp_path, ".git/hooks/.ssh/key", ".SSH/x", "deep/er/.netrc")
    plan = planned(tmp_path, excluded=(".ssh", ".netrc"))
    assert found(tmp_path, plan) == [
        (".SSH", "hide"), (".git", "pin"), ("deep", "pin"), (".git/hooks", "lock"), ("deep/er", "pin"),
        (".git/hooks/.ssh", "hide"), ("deep/er/.netrc", "hide"),
    ]  # fmt: skip


def test_an_exception_is_left_visible(tmp_path: Path) -> None:
    """As the exclusion says to the letter."""
    made(tmp_path, ".env", ".env.example", "sub/.env.local")
    hidden = (Exclusion(".env*", "test", except_for=(".env.example",)),)
    plan = Plan(read=(), write=(str(tmp_path),), excluded=hidden)
    assert found(tmp_path, plan) == [(".env", "hide"), ("sub", "pin"), ("sub/.env.local", "hide")]


def test_links_are_never_followed_and_never_mounted_on(tmp_path: Path) -> None:
    """A link that is to be locked is told, since it can be replaced."""
    made(tmp_path, "other/x", ".git/config")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / ".netrc").symlink_to("other/x")
    (tmp_path / ".git/hooks").symlink_to("../other")
    plan = planned(tmp_path, excluded=(".netrc",))
    assert found(tmp_path, plan) == [(".git", "pin"), (".git/config", "lock")]
    assert masks(plan).links == (f"{tmp_path}/.git/hooks",)


def test_too_much_to_look_at_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not looked at is not shown."""
    made(tmp_path, *(f"f{number}" for number in range(20)))
    monkeypatch.setattr(module, "MAX_ENTRIES", 20)
    assert found(tmp_path, planned(tmp_path)) == []
    monkeypatch.setattr(module, "MAX_ENTRIES", 19)
    with pytest.raises(SetupFailed, match="19 entries"):
        masks(planned(tmp_path))


def test_too_many_masks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounting thousands would take longer than a command."""
    made(tmp_path, *(f"d{number}/.netrc" for number in range(5)))
    monkeypatch.setattr(module, "MAX_MASKS", 4)
    with pytest.raises(SetupFailed, match="more than 4"):
        masks(planned(tmp_path, excluded=(".netrc",)))


def test_too_many_masks_are_told_with_the_folder_that_holds_most_and_a_rule_that_makes_them_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule does what is said of it."""
    made(tmp_path, "src/.netrc", *(f"third/party/d{number}/.netrc" for number in range(20)))
    monkeypatch.setattr(module, "MAX_MASKS", 12)
    with pytest.raises(SetupFailed) as caught:
        masks(planned(tmp_path, excluded=(".netrc",)))
    assert caught.value.message == (
        "nothing was run: the sandbox failed at masks (more than 12 protected paths lie below the roots, most of "
        'them in "third/party"). Narrow the roots of the run to the folders that are worked on; or, if programs need '
        'nothing of "third/party", hide it as a whole by a rule: '
        '{effect = "deny", touch = "fs.read", target = "third/party/**"}.'
    )
    hidden = found(tmp_path, planned(tmp_path, excluded=(".netrc", "/third/party/**")))
    assert [item for item in hidden if item[1] == "hide"] == [("src/.netrc", "hide"), ("third/party", "hide")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root lists every folder")
def test_a_folder_that_cannot_be_listed_is_hidden(tmp_path: Path) -> None:
    """What lies in it cannot be judged."""
    made(tmp_path, "shut/.netrc")
    (tmp_path / "shut").chmod(0o311)
    assert found(tmp_path, planned(tmp_path, excluded=(".netrc",))) == [("shut", "hide")]
    (tmp_path / "shut").chmod(0o755)


def test_what_was_seen_counts_only_while_the_folder_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protected name that comes later is found, also where the folder's time of change is set back."""
    monkeypatch.setattr("handrail.sandbox.looks._SETTLED_NS", -(10**18))  # remember even what changed just now
    made(tmp_path, "a/b/plain")
    plan = planned(tmp_path, excluded=(".netrc",))
    assert found(tmp_path, plan) == []
    before = os.stat(tmp_path / "a/b")
    while os.stat(tmp_path / "a/b").st_ctime_ns == before.st_ctime_ns:  # two changes may fall into one tick
        (tmp_path / "a/b/.netrc").unlink(missing_ok=True)
        made(tmp_path, "a/b/.netrc")
    os.utime(tmp_path / "a/b", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(tmp_path, plan) == [("a", "pin"), ("a/b", "pin"), ("a/b/.netrc", "hide")]


def test_a_folder_that_changed_just_now_is_looked_at_again(tmp_path: Path) -> None:
    """Nothing is remembered of it."""
    made(tmp_path, "a/plain")
    looks = Looks(lambda name: name == ".netrc")
    assert looks.at(str(tmp_path / "a")).suspects == ()
    assert looks._seen == {}


def test_a_plan_without_patterns_is_looked_at_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is hidden then; more entries than can be looked at are refused as ever."""
    os.mkfifo(tmp_path / "pipe")
    plan = Plan(read=(), write=(str(tmp_path),))
    assert found(tmp_path, plan) == [("pipe", "hide")]
    monkeypatch.setattr(module, "MAX_ENTRIES", -1)
    with pytest.raises(SetupFailed):
        masks(plan)


def test_folders_above_what_is_hidden_are_pinned(tmp_path: Path) -> None:
    """Moved, a file that a path hides would be read, and any would be missed by a walk in that moment."""
    made(tmp_path, "conf/secrets/a", ".config/gcloud/key", "sub/deep/.env")
    plan = planned(tmp_path, excluded=("/conf/secrets/**", ".config/gcloud", ".env*"), locked=())
    assert found(tmp_path, plan) == [
        (".config", "pin"), ("conf", "pin"), ("sub", "pin"), (".config/gcloud", "hide"), ("conf/secrets", "hide"),
        ("sub/deep", "pin"), ("sub/deep/.env", "hide"),
    ]  # fmt: skip


def test_folders_above_a_root_in_a_root_are_pinned(tmp_path: Path) -> None:
    """Moved with them, a root that is only read would be one for writing."""
    made(tmp_path, "a/b/read/")
    plan = Plan(read=(f"{tmp_path}/a/b/read",), write=(str(tmp_path),))
    assert found(tmp_path, plan) == [("a", "pin"), ("a/b", "pin")]
