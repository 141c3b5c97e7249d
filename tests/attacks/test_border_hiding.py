"""Hiding from git at the border: what git would no longer show is asked for, or shown all the same."""

from __future__ import annotations

import os
import subprocess
import zlib
from hashlib import sha1
from pathlib import Path

import pytest

from attacks._border import border
from behaviour._commands import need_sandbox, run
from handrail import Outcome
from handrail.processes.git_objects import is_true_object, is_true_pack, loose_name, pack_parts
from handrail.processes.packed_refs import changes_branches_only
from handrail.testing import ScriptedApprover
from handrail.workspace.git_index import UnreadableIndex, without_notes
from workspaces import below


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture
def repository(work: Path) -> Path:
    """A repository with two commits, a remote branch and some files."""
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "b").mkdir()
    for number in range(3):
        (work / f"b/{number}").write_text(f"{number}\n")
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "Ann")
    git(work, "config", "user.email", "ann@example.org")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "one")
    git(work, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(work, "commit", "-qm", "two", "--allow-empty")
    return work


def git(folder: Path, *words: str) -> str:
    """Run git as the person would."""
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


async def at_border(work: Path, *lines: str, answer: str = "no") -> tuple[list[Outcome], ScriptedApprover]:
    """Run lines; a person who is asked says `answer`."""
    approver = ScriptedApprover(lambda _: answer)
    async with border(work, approver=approver) as opened:
        return [await run(opened, line) for line in lines], approver


HIDES = "no longer show changes"
RECORDS = "own records"
BY_HAND = """python3 - <<'E'
import hashlib
data = bytearray(open(".git/index", "rb").read())
data[data.index(b"a.txt\\0") - 2] |= 0x80
body = bytes(data[:-20])
open(".git/index", "wb").write(body + hashlib.sha1(body).digest())
E"""
SPARSE = "echo /b > .git/info/sparse-checkout; git -c core.sparseCheckout=true read-tree -m HEAD"
LINES = {
    "assume-unchanged": ("git update-index --assume-unchanged a.txt", HIDES),
    "skip-worktree": ("git update-index --skip-worktree b/1", HIDES),
    "assume-unchanged, written by hand": (BY_HAND, HIDES),
    "an index that nobody can read": ("echo DIRCxxxx > .git/index", HIDES),
    "a split index": ("git update-index --split-index", HIDES),
    "a sparse checkout": (SPARSE, RECORDS),
    "what a sparse checkout shows": ("echo /b > .git/info/sparse-checkout", RECORDS),
    "a forged remote branch": ("git update-ref refs/remotes/origin/main HEAD", RECORDS),
    "a forged remote branch, packed": ("git update-ref refs/remotes/origin/main HEAD; git pack-refs --all", RECORDS),
    "a remote branch that goes": ("git update-ref -d refs/remotes/origin/main", RECORDS),
    "a new remote branch": ("git fetch -q . main:refs/remotes/x/y", RECORDS),
    "alternates": ("echo /elsewhere/objects > .git/objects/info/alternates", RECORDS),
    "a replaced commit": ("git replace HEAD HEAD~1", RECORDS),
    "a replaced blob": ("git replace HEAD:a.txt HEAD:b/1", RECORDS),
    "a graft": ("mkdir -p .git/info; git rev-parse HEAD > .git/info/grafts", RECORDS),
    "a shallow repository": ("git rev-parse HEAD > .git/shallow", RECORDS),
    "excluded files": ("echo '*' >> .git/info/exclude", RECORDS),
    "attributes": ("mkdir -p .git/info; echo '* -diff' > .git/info/attributes", RECORDS),
    "an untracked folder of notes": ("git notes add -m x HEAD", RECORDS),
    "a link in the stead of a branch": ("cd .git/refs/heads; mv main m; ln -s m main", RECORDS),
    "a lock that stays": ("touch .git/index.lock", RECORDS),
    "a list of packs": ("touch .git/objects/pack/multi-pack-index", RECORDS),
    "a promise of objects": ("touch .git/objects/pack/pack-" + "0" * 40 + ".promisor", RECORDS),
    "a file among the objects": ("mkdir -p .git/objects/aa; echo x > .git/objects/aa/payload", RECORDS),
}


@pytest.mark.parametrize(("line", "why"), LINES.values(), ids=LINES.keys())
async def test_what_hides_from_git_is_asked_for_and_a_no_leaves_it_out(repository: Path, line: str, why: str) -> None:
    """One question that says why; afterwards git shows everything as before."""
    before = below(repository)
    [outcome], approver = await at_border(repository, line)
    assert len(approver.asked) == 1, outcome.content
    assert why in approver.asked[0].reason
    after = below(repository)
    # New objects that are what they say are kept: nothing names them.
    added = {name for name in after if name.startswith(".git/objects/") and name not in before}
    assert {name: what for name, what in after.items() if name not in added} == before
    assert all(loose_name(name[5:]) or after[name] is None for name in added)
    assert outcome.content.startswith(("Not kept: ", "EXIT_NONZERO: Not kept: "))


async def test_to_ignore_files_first_does_not_help_to_delete_them(repository: Path) -> None:
    """Being ignored by git lifts no stricter row: many deletions ask, and what is too large to be put back."""
    for number in range(20):
        (repository / f"b/{number}").write_text("x")
    with open(repository / "set.bin", "wb") as file:
        file.truncate(33 << 20)
    lines = ("printf 'b/\\n*.bin\\n' > .gitignore", "rm -r b", "rm set.bin", "git rm -rq --cached b")
    out, approver = await at_border(repository, *lines)
    assert [outcome.ok for outcome in out] == [True] * 4
    assert ["deletes more than 5" in approver.asked[0].reason, "too large" in approver.asked[1].reason] == [True, True]
    assert len(approver.asked) == 2
    assert (repository / "b/19").exists()
    assert (repository / "set.bin").exists()


# ── objects that are not what they say ──

FORGED_OBJECT = """python3 - <<'E'
import os, subprocess, zlib
name = subprocess.check_output(["git", "rev-parse", "HEAD:a.txt"], text=True).strip()
path = f".git/objects/{name[:2]}/{name[2:]}"
os.chmod(path, 0o644)
open(path, "wb").write(zlib.compress(b"blob 5\\0evil\\n"))
E"""
FORGED_LATER = """python3 - <<'E'
import hashlib, os, zlib
name = hashlib.sha1(b"blob 6\\0later\\n").hexdigest()
os.makedirs(f".git/objects/{name[:2]}", exist_ok=True)
open(f".git/objects/{name[:2]}/{name[2:]}", "wb").write(zlib.compress(b"blob 5\\0evil\\n"))
E"""
FORGED_PACK = """python3 - <<'E'
import hashlib, struct, subprocess, zlib
name = bytes.fromhex(subprocess.check_output(["git", "rev-parse", "HEAD:a.txt"], text=True))
pack = b"PACK" + struct.pack(">LL", 2, 1) + bytes([0x35]) + zlib.compress(b"evil\\n")
pack += hashlib.sha1(pack).digest()
table = [0] * name[0] + [1] * (256 - name[0])
index = b"\\377tOc" + struct.pack(">L256L", 2, *table) + name + struct.pack(">LL", 0, 12) + pack[-20:]
index += hashlib.sha1(index).digest()
stem = ".git/objects/pack/pack-" + "1" * 40
open(stem + ".pack", "wb").write(pack)
open(stem + ".idx", "wb").write(index)
E"""


@pytest.mark.parametrize("line", [FORGED_OBJECT, FORGED_LATER, FORGED_PACK], ids=["replaced", "in advance", "a pack"])
async def test_an_object_under_the_name_of_another_is_asked_for(repository: Path, line: str) -> None:
    """Git believes the name: history would show what nobody committed."""
    before = below(repository)
    [outcome], approver = await at_border(repository, line)
    assert outcome.content.startswith("Not kept: "), outcome.content
    assert len(approver.asked) == 1
    assert below(repository) == before | {name: None for name in below(repository) if name not in before}
    assert git(repository, "show", "HEAD:a.txt") == "one\ntwo"


@pytest.mark.parametrize("line", [FORGED_OBJECT, FORGED_PACK], ids=["replaced", "a pack"])
async def test_git_shows_the_forged_content_where_nobody_asks(repository: Path, line: str) -> None:
    """The control: after a yes the forgery works, so that the question is worth something."""
    await at_border(repository, line, answer="once")
    assert git(repository, "show", "HEAD:a.txt") == "evil"


async def test_a_pack_that_git_made_is_kept_without_a_question(repository: Path) -> None:
    """Its indexes name what it holds."""
    pack = "git -c pack.writeReverseIndex=true pack-objects -q .git/objects/pack/pack"
    line = f"git rev-list --objects --all | cut -c-40 | {pack}"
    [outcome], approver = await at_border(repository, line)
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert not outcome.data["not_kept"]
    assert {path.suffix for path in (repository / ".git/objects/pack").iterdir()} == {".pack", ".idx", ".rev"}


async def test_objects_that_go_in_bulk_are_asked_for(repository: Path) -> None:
    """Though git itself removes objects when it packs them."""
    _, approver = await at_border(repository, "rm -rf .git/objects/??")
    assert len(approver.asked) == 1
    assert "deletes more than 5 files" in approver.asked[0].reason
    git(repository, "fsck")


async def test_objects_that_could_not_be_put_back_are_asked_for(repository: Path) -> None:
    """A pack that is too large for undo."""
    (repository / "large").write_bytes(os.urandom(100_000))
    git(repository, "add", "large")
    git(repository, "commit", "-qm", "large")
    git(repository, "gc", "-q")
    approver = ScriptedApprover(lambda _: "no")
    async with border(repository, approver=approver, config={"undo": {"max_bytes": 50_000}}) as opened:
        await run(opened, "rm -f .git/objects/pack/*.pack")
    assert ["put back" in request.reason or RECORDS in request.reason for request in approver.asked] == [True]
    git(repository, "fsck")


# ── references ──


async def test_a_second_line_for_a_remote_branch_is_asked_for(repository: Path) -> None:
    """Git reads one of the two, and which is the attacker's choice."""
    git(repository, "pack-refs", "--all")
    name = git(repository, "rev-parse", "origin/main")
    other = "$(git rev-parse HEAD) refs/remotes/origin/main"
    line = f'sed -i "s|^{name} refs/remotes/origin/main|{other}\\n&|" .git/packed-refs'
    _, approver = await at_border(repository, line)
    assert len(approver.asked) == 1
    assert RECORDS in approver.asked[0].reason
    assert git(repository, "rev-parse", "origin/main") == name


HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
ONE, TWO = b"1" * 40, b"2" * 40


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (b"", HEADER + ONE + b" refs/heads/a\n", True),
        (HEADER + ONE + b" refs/heads/a\n", HEADER + TWO + b" refs/heads/a\n", True),
        (HEADER, HEADER + ONE + b" refs/tags/b\n^" + TWO + b"\n" + ONE + b" refs/tags/c\n", True),
        (HEADER + ONE + b" refs/heads/a\n", b"", True),
        (b"", HEADER + ONE + b" refs/remotes/a\n", False),
        (HEADER + ONE + b" refs/remotes/a\n", HEADER, False),
        (HEADER + ONE + b" refs/remotes/a\n", HEADER + TWO + b" refs/remotes/a\n", False),
        (HEADER + ONE + b" refs/remotes/a\n", HEADER + TWO + b" refs/remotes/a\n" + ONE + b" refs/remotes/a\n", False),
        (HEADER + ONE + b" refs/remotes/a\n", HEADER + ONE + b" refs/remotes/a\n^" + TWO + b"\n", False),
        (HEADER + ONE + b" refs/heads/a\n", HEADER + ONE + b" refs/heads/b\n" + ONE + b" refs/heads/a\n", False),
        (HEADER + ONE + b" refs/heads/a\n", HEADER + ONE + b" refs/heads/a\n" + TWO + b" refs/heads/a\n", False),
        (b"", b"# another header\n" + ONE + b" refs/heads/a\n", False),
        (b"", HEADER + ONE + b" refs/heads/a\x0b" + TWO + b" refs/remotes/b\n", False),
        (b"", HEADER + b"nonsense\n", False),
        (b"", HEADER + ONE + b" refs/heads/a", False),
        (b"", HEADER + b"^" + ONE + b"\n", False),
    ],
)  # fmt: skip
def test_packed_references_differ_in_branches_alone(before: bytes, after: bytes, same: bool) -> None:
    """As git reads them: line by line, sorted, each name once."""
    assert changes_branches_only(before, after) is same


# ── what an index remembers of files ──

FORGED_NOTE = """python3 - <<'E'
import hashlib, os, struct, subprocess, time
os.remove("a.txt")
open("a.txt", "w").write("ONE\\nTWO\\n")
os.utime("a.txt", (1700000000, 1700000000))
open("other", "w").write("x")
subprocess.run(["git", "add", "other"], check=True)
data = bytearray(open(".git/index", "rb").read())
seen = os.stat("a.txt")
at = data.index(b"a.txt\\0") - 62
data[at:at + 40] = struct.pack(
    ">10L", int(time.time() + {later}), 0, int(seen.st_mtime), 0, 0, seen.st_ino, 0o100644, {uid}, {gid}, seen.st_size)
body = bytes(data[:-20])
open(".git/index", "wb").write(body + hashlib.sha1(body).digest())
E"""


async def test_a_forged_note_in_an_index_hides_no_change(repository: Path) -> None:
    """Git does not look at a file whose times it knows; what a program wrote of them is taken out."""
    owner = (repository / "a.txt").stat()
    line = FORGED_NOTE.replace("{uid}", str(owner.st_uid)).replace("{gid}", str(owner.st_gid)).replace("{later}", "0")
    [outcome], approver = await at_border(repository, line)
    assert outcome.ok, outcome.content
    assert approver.asked == []
    assert git(repository, "status", "--porcelain").split("\n") == ["M a.txt", "A  other"]
    git(repository, "fsck")


async def test_after_a_commit_at_the_border_git_finds_nothing_changed(repository: Path) -> None:
    """What is taken out of an index costs git one look."""
    line = "echo x >> a.txt; git mv b/1 c; git add -A; git commit -qm three; git status --porcelain"
    [outcome], approver = await at_border(repository, line)
    assert (outcome.data["stdout"], approver.asked) == ("", [])
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "diff-index", "--cached", "HEAD") == ""


def test_notes_of_new_and_changed_entries_go_and_all_else_stays(repository: Path) -> None:
    """Entries that are as before keep theirs; lists of trees and of untracked files go."""
    path = repository / ".git/index"
    before = path.read_bytes()
    (repository / "n").write_text("new\n")
    git(repository, "add", "n")
    git(repository, "write-tree")
    after = path.read_bytes()
    plain = without_notes(before, after)
    assert b"TREE" in after
    assert b"TREE" not in plain
    path.write_bytes(plain)
    assert git(repository, "ls-files", "--stage") == git(repository, "ls-files", "-s")
    sizes = {line.split()[1] for line in git(repository, "ls-files", "--debug").splitlines() if "size:" in line}
    assert sizes >= {"0", "8"}
    assert without_notes(after, after)[-20:] == sha1(without_notes(after, after)[:-20]).digest()
    with pytest.raises(UnreadableIndex):
        without_notes(before, after[:-1])


# ── checks of objects, by themselves ──


def test_names_of_objects_and_packs_are_told_from_others() -> None:
    """Nothing else below `objects` is one."""
    name = "ab" + "c" * 38
    assert loose_name(f"objects/ab/{'c' * 38}") == name
    assert loose_name(f"objects/ab/{'c' * 62}") == "ab" + "c" * 62
    others = ("objects/ab/c", f"objects/AB/{'c' * 38}", f"objects/ab/{'c' * 38}/x", "objects/info/alternates")
    assert [loose_name(other) for other in others] == [""] * 4
    stem = f"objects/pack/pack-{'d' * 40}"
    assert pack_parts(f"{stem}.idx") == (stem, "idx")
    unknown = (f"{stem}.bitmap", f"{stem}.keep", "objects/pack/multi-pack-index", "objects/pack/tmp_pack_x")
    assert [pack_parts(other) for other in unknown] == [None] * 4


@pytest.mark.parametrize("data", [b"", b"x", zlib.compress(b"blob 1\0y"), zlib.compress(b"blob 1\0x")[:-1]])
def test_a_loose_object_is_what_its_name_says(data: bytes) -> None:
    """Neither cut off nor another."""
    name = sha1(b"blob 1\0x").hexdigest()
    assert is_true_object(name, zlib.compress(b"blob 1\0x"))
    assert not is_true_object(name, data)


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_every_byte_of_a_packs_indexes_counts(tmp_path: Path, form: str) -> None:
    """Packs with deltas, of both kinds of names; one bit that differs is found."""
    git(tmp_path, "init", "-q", f"--object-format={form}")
    text = [f"line {number}\n" for number in range(300)]
    for number in range(8):
        text[number * 30] = f"changed {number}\n"
        (tmp_path / "f").write_text("".join(text))
        git(tmp_path, "add", "f")
        git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", str(number))
    git(tmp_path, "-c", "pack.writeReverseIndex=true", "repack", "-adq")
    [pack] = (tmp_path / ".git/objects/pack").glob("*.pack")
    held = pack.read_bytes()
    index = pack.with_suffix(".idx").read_bytes()
    reverse = pack.with_suffix(".rev").read_bytes()
    assert is_true_pack(held, index, reverse)
    for at in range(0, len(index), 7):
        assert not is_true_pack(held, index[:at] + bytes([index[at] ^ 1]) + index[at + 1 :], None)
    for at in range(0, len(held), 31):
        assert not is_true_pack(held[:at] + bytes([held[at] ^ 1]) + held[at + 1 :], index, None)
    assert not is_true_pack(held, index, reverse[:12] + reverse[16:20] + reverse[12:16] + reverse[20:])
    assert not is_true_pack(held[:40], index, None)
