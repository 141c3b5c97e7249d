"""Git's index, read and rewritten as bytes, compared with what git itself makes of it."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from handrail.workspace.git_index import (
    UnreadableIndex,
    clear_skipped,
    hidden_entries,
    new_hidden,
    parse_index,
    set_skipped,
    tracked_beneath,
)

FILES = (".env", "a", "secrets/x.json", "secrets/y/z.json", "src/app.py", "src/" + "n" * 4090, "zoo")


def git(folder: Path, *words: str) -> str:
    """Run git as a user does."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def make(folder: Path, *settings: str, form: str = "sha1") -> Path:
    """Make a repository with a few files; gives its index."""
    git(folder, "init", "-q", f"--object-format={form}", ".")
    for setting in settings:
        git(folder, "config", *setting.split("="))
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=folder, input=b"x\n", check=True, capture_output=True
    )
    lines = "".join(f"100644 {blob.stdout.decode().strip()}\t{name}\n" for name in FILES)
    subprocess.run(["git", "update-index", "--index-info"], cwd=folder, input=lines.encode(), check=True)
    git(folder, "commit", "-qm", "a")
    return folder / ".git/index"


def flags(folder: Path) -> dict[str, str]:
    """What git says of every entry: S is skip-worktree, small letters are assume-unchanged."""
    lines = git(folder, "ls-files", "-v", "-z").split("\0")
    return {line[2:]: line[0] for line in lines if line}


KINDS = [
    ("sha1", ("index.version=2",)),
    ("sha1", ("index.version=4",)),
    ("sha256", ("index.version=2",)),
    ("sha256", ("index.version=4",)),
    ("sha1", ("core.untrackedCache=true", "index.version=2")),
    ("sha1", ("index.skipHash=true", "index.version=2")),
]


@pytest.mark.parametrize(("form", "settings"), KINDS)
def test_bits_are_set_as_git_reads_them_and_taken_out_to_the_byte(
    tmp_path: Path, form: str, settings: tuple[str, ...]
) -> None:
    """Files and what lies in folders; git agrees on every entry."""
    index = make(tmp_path, *settings, form=form)
    before = index.read_bytes()
    assert [entry.path.decode() for entry in parse_index(before).entries] == list(FILES)
    changed, names = set_skipped(before, [".env", "secrets", "src/ap", "none"])
    assert names == {".env", "secrets/x.json", "secrets/y/z.json"}
    index.write_bytes(changed)
    assert {path for path, flag in flags(tmp_path).items() if flag == "S"} == names
    git(tmp_path, "ls-files", "--debug")
    assert hidden_entries(changed) == names
    assert clear_skipped(changed, names) == before


def test_bits_of_the_user_are_neither_claimed_nor_taken_out(tmp_path: Path) -> None:
    """Only what was set here is named."""
    index = make(tmp_path)
    git(tmp_path, "update-index", "--skip-worktree", "secrets/x.json")
    git(tmp_path, "update-index", "--assume-unchanged", "secrets/y/z.json", "a")
    before = index.read_bytes()
    changed, names = set_skipped(before, [".env", "secrets"])
    assert names == {".env"}
    assert clear_skipped(changed, names) == before
    assert hidden_entries(before) == {"secrets/x.json", "secrets/y/z.json", "a"}


def test_offsets_that_git_does_without_are_left_out(tmp_path: Path) -> None:
    """With several threads the index names places in itself, which would be wrong afterwards."""
    index = make(tmp_path, "index.threads=4")
    before = index.read_bytes()
    assert b"EOIE" in before
    changed, names = set_skipped(before, [".env"])
    assert b"EOIE" not in changed
    index.write_bytes(changed)
    git(tmp_path, "fsck")
    assert flags(tmp_path)[".env"] == "S"
    assert parse_index(clear_skipped(changed, names)).entries == parse_index(before).entries


def test_a_merge_conflict_stays_as_it_is(tmp_path: Path) -> None:
    """Entries in stages 1 to 3 get no bit."""
    index = make(tmp_path)
    blob = git(tmp_path, "rev-parse", "HEAD:a").strip()
    lines = f"0 {'0' * 40}\t.env\n" + "".join(f"100644 {blob} {stage}\t.env\n" for stage in (1, 2, 3))
    subprocess.run(["git", "update-index", "--index-info"], cwd=tmp_path, input=lines.encode(), check=True)
    before = index.read_bytes()
    assert set_skipped(before, [".env"]) == (before, frozenset())
    assert tracked_beneath(before, [".env"]) == (".env",)


def test_what_a_program_hides_is_named(tmp_path: Path) -> None:
    """Both flags; what was hidden before is not new."""
    index = make(tmp_path)
    git(tmp_path, "update-index", "--skip-worktree", "zoo")
    before = index.read_bytes()
    git(tmp_path, "update-index", "--skip-worktree", "src/app.py")
    git(tmp_path, "update-index", "--assume-unchanged", "a")
    after = index.read_bytes()
    assert new_hidden(before, after) == ("a", "src/app.py")
    assert new_hidden(after, before) == ()
    assert new_hidden(b"", after) == ("a", "src/app.py", "zoo")
    assert new_hidden(before, b"") == ()


def test_a_sparse_index_that_is_expanded_hides_nothing_new(tmp_path: Path) -> None:
    """Files beneath a folder that was left out as a whole."""
    index = make(tmp_path)
    git(tmp_path, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    sparse = index.read_bytes()
    assert "secrets/" in hidden_entries(sparse)
    git(tmp_path, "sparse-checkout", "reapply", "--no-sparse-index")
    expanded = index.read_bytes()
    assert "secrets/x.json" in hidden_entries(expanded)
    assert new_hidden(sparse, expanded) == ()


def test_a_split_index_is_not_read_and_may_hide_everything(tmp_path: Path) -> None:
    """The entries are in another file."""
    index = make(tmp_path)
    before = index.read_bytes()
    git(tmp_path, "update-index", "--split-index")
    with pytest.raises(UnreadableIndex, match="split"):
        parse_index(index.read_bytes())
    (said,) = new_hidden(before, index.read_bytes())
    assert said.startswith("(every file")


def test_malformed_bytes_are_refused_and_never_crash(tmp_path: Path) -> None:
    """Cut off, changed, or with a right checksum over nonsense."""
    import hashlib

    index = make(tmp_path, "index.version=4")
    four = index.read_bytes()
    git(tmp_path, "update-index", "--index-version", "2")
    two = index.read_bytes()
    chance = random.Random(7)
    refused = 0
    for turn in range(2000):
        whole = two if turn % 2 else four
        body = bytearray(whole[:-20])
        for _ in range(chance.randint(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        cut = bytes(body[: chance.randrange(len(body))] if turn % 3 == 0 else body)
        try:
            read = parse_index(cut + hashlib.sha1(cut).digest())
        except UnreadableIndex:
            refused += 1
            assert new_hidden(whole, cut)[0].startswith("(every file")
        else:
            assert b"".join(read.data[entry.start : entry.end] for entry in read.entries) == cut[12 : read.end]
    assert refused > 500
    with pytest.raises(UnreadableIndex, match="checksum"):
        parse_index(two[:-1] + bytes([two[-1] ^ 1]))
    for nothing in (b"", b"DIRC", bytes(64), b"DIRC" + b"\xff" * 60):
        with pytest.raises(UnreadableIndex):
            parse_index(nothing)


def test_twenty_thousand_entries_take_a_moment(tmp_path: Path) -> None:
    """Preparing and taking out again; a repository that tracks nothing hidden is not even taken apart."""
    index = make(tmp_path)
    blob = git(tmp_path, "rev-parse", "HEAD:a").strip()
    lines = "".join(f"100644 {blob}\tsrc/pack{number % 97}/module{number}.py\n" for number in range(20_000))
    subprocess.run(["git", "update-index", "--index-info"], cwd=tmp_path, input=lines.encode(), check=True)
    before = index.read_bytes()
    begun = time.perf_counter()
    changed, names = set_skipped(before, [".env", "secrets"])
    assert clear_skipped(changed, names) == before
    both = time.perf_counter() - begun
    begun = time.perf_counter()
    assert set_skipped(before, ["other/.env", "keys"])[0] is before
    none = time.perf_counter() - begun
    print(f"set and cleared in {both * 1000:.0f} ms, none tracked {none * 1000:.2f} ms")
    assert both < 2
    assert none < both / 4
