"""What programs find around them: the project's own commands, an author for commits, a cache of packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from behaviour._commands import need_sandbox, run, runtime
from behaviour.test_processes_hosts_asked import wheel
from handrail.front.cli.root import run as handrail
from handrail.sandbox.backends import OFFERED
from handrail.sandbox.search_path import SearchPath
from handrail.settings import paths
from handrail.words import Root
from handrail.workspace.git_identity import find_identity, write_config


@pytest.fixture
def sandbox() -> None:
    """Programs are started."""
    need_sandbox()


def make_venv(work: Path) -> None:
    """Make a project with a venv that has pytest, by the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(work / ".venv")], check=True)
    site = next((work / ".venv/lib").glob("python3.*/site-packages"))
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py"):
        subprocess.run(["cp", "-r", f"{sysconfig.get_path('purelib')}/{name}", str(site)], check=True)
    command = work / ".venv/bin/pytest"
    command.write_text(
        f"#!{work}/.venv/bin/python\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n"
    )
    command.chmod(0o755)
    (work / "test_a.py").write_text("def test_a():\n    assert 1 + 1 == 2\n")


@pytest.mark.usefixtures("sandbox")
async def test_the_projects_own_venv_runs_its_tests(work: Path) -> None:
    """Its python is a link into a toolchain, and its commands come first."""
    make_venv(work)
    async with runtime(work) as opened:
        by_name = await run(opened, "pytest -q")
        as_module = await run(opened, "python -m pytest -q")
        by_path = await run(opened, ".venv/bin/python -m pytest -q 2>&1 | tail -20")
        which = await run(opened, "command -v python")
    for outcome in (by_name, as_module, by_path):
        assert outcome.ok, outcome.content
        assert "1 passed" in outcome.content
    assert which.data["stdout"] == f"{work}/.venv/bin/python\n"


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("own_pip", [True, False], ids=["with pip", "without pip"])
@pytest.mark.skipif(not Path("/usr/bin/pip3").exists(), reason="needs the system's pip")
async def test_pip_is_that_of_the_projects_venv(work: Path, own_pip: bool) -> None:
    """Also where the venv was made without one, as uv does: the system's pip installs into it, and complains not."""
    make = ["/usr/bin/python3", "-m", "venv", *([] if own_pip else ["--without-pip"]), str(work / ".venv")]
    subprocess.run(make, check=True)
    (work / "tiny-1.0-py3-none-any.whl").write_bytes(wheel())
    async with runtime(work) as opened:
        installed = await run(opened, "pip install --no-index ./tiny-1.0-py3-none-any.whl", timeout_seconds=120)
        imported = await run(opened, "python -c 'import tiny; print(tiny.__file__)'")
        module = await run(opened, "python -m pip --version") if own_pip else None
    assert installed.ok, installed.content
    assert "externally" not in installed.content
    assert imported.data["stdout"].startswith(f"{work}/.venv/lib/"), imported.content
    assert module is None or f"from {work}/.venv/lib" in module.data["stdout"]


@pytest.mark.parametrize(
    "said",
    [
        *("bash: line 1: mytool: command not found", "./build.sh: line 12: mytool: command not found"),
        *("sh: 1: mytool: not found", "/bin/sh: 3: mytool: not found", "make: mytool: No such file or directory"),
        *("make[1]: mytool: No such file or directory", "xargs: mytool: No such file or directory"),
        *("env: 'mytool': No such file or directory", "/usr/bin/env: ‘mytool’: No such file or directory"),
        "timeout: failed to run command ‘mytool’: No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: 'mytool'",
        "Error: spawn mytool ENOENT",
    ],
)
def test_a_command_that_is_not_shown_is_explained_whoever_missed_it(tmp_path: Path, said: str) -> None:
    """Shells, make, wrappers, Python and node; a command that the caller does not have either is not spoken of."""
    work, hidden = tmp_path / "work", tmp_path / "hidden"
    for folder in (work, hidden):
        folder.mkdir()
    search = SearchPath((Root("workspace", str(work), writable=True),), {"PATH": f"{hidden}:/usr/bin"})
    assert search.describe_missing(f"before\n{said}\nafter\n") == []
    (hidden / "mytool").write_text("#!/bin/sh\n")
    (hidden / "mytool").chmod(0o755)
    (told,) = search.describe_missing(f"before\n{said}\nafter\n", said)
    assert told == (
        f"`mytool` is in {hidden}, which the sandbox does not show; "
        f'add workspace.read = ["{hidden}"] to the settings to show it, read-only'
    )
    assert search.describe_missing(f"{said}".replace("mytool", "../mytool")) == []


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    "line", ["sh -c mytool", "make -s -f - <<< 'all:; mytool'", "env mytool", "mytool 2>&1 | tail"]
)
async def test_a_missing_command_is_explained_first_in_the_outcome(
    work: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """Through whatever it was started, and into whichever stream it was said."""
    hidden = work.parent / "hidden"
    hidden.mkdir()
    (hidden / "mytool").write_text("#!/bin/sh\n")
    (hidden / "mytool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{hidden}:{os.environ['PATH']}")
    async with runtime(work) as opened:
        outcome = await run(opened, line)
    told = outcome.error.message if outcome.error is not None else " ".join(outcome.warnings)
    assert told.startswith(f"`mytool` is in {hidden}, which the sandbox does not show"), outcome.content


@pytest.mark.usefixtures("sandbox")
async def test_commits_have_the_author_of_the_homes_config(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository's own author comes before it."""
    home = work.parent / "a-home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[user]\n\tname = Ada \\"L\\" Byron\n\temail = ada@example.org\n[core]\n\tpager = evil\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in ("one", "two"):
        subprocess.run(["git", "init", "-q", str(work / name)], check=True)
    subprocess.run(["git", "config", "user.email", "own@example.org"], cwd=work / "two", check=True)
    commit = "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>'"
    async with runtime(work) as opened:
        one = await run(opened, commit, cwd="one")
        two = await run(opened, commit, cwd="two")
        changed = await run(opened, 'git config --global user.name Eve; echo x >> "$GIT_CONFIG_GLOBAL"')
        shown = await run(opened, "git config --list --show-origin | grep -v command", cwd="one")
    assert one.data["stdout"] == 'Ada "L" Byron <ada@example.org>\n', one.error
    assert two.data["stdout"] == 'Ada "L" Byron <own@example.org>\n', two.error
    assert not changed.ok
    assert "evil" not in shown.content


def test_an_author_is_found_with_includes_that_hold_for_the_workspace(tmp_path: Path) -> None:
    """Conditions on the repository's folder are heeded, in the order of the file."""
    home, work = tmp_path / "home", tmp_path / "home/jobs/shop"
    (work / ".git").mkdir(parents=True)
    (home / ".gitconfig").write_text(
        '[user]\n\tname = Ada\n\temail = home@example.org\n[includeIf "gitdir:~/jobs/"]\n\tpath = job.inc\n'
        '[includeIf "gitdir:~/other/"]\n\tpath = other.inc\n[include]\n\tpath = ~/missing.inc\n'
    )
    (home / "job.inc").write_text("[user]\n\temail = job@example.org\n")
    (home / "other.inc").write_text("[user]\n\temail = other@example.org\n")
    found = find_identity(str(work), {"HOME": str(home)})
    assert found == {"user.name": "Ada", "user.email": "job@example.org"}
    assert find_identity(str(tmp_path), {"HOME": str(home)})["user.email"] == "home@example.org"


def test_an_author_is_written_so_that_git_reads_the_same(tmp_path: Path) -> None:
    """Whatever signs the name holds, it sets nothing else."""
    identity = {"user.name": 'a"\n[core]\n\tpager = evil\\ # ;', "user.email": "a@example.org"}
    config = tmp_path / "config"
    config.write_bytes(write_config(identity))
    listed = subprocess.run(
        ["git", "config", "-f", str(config), "--list", "-z"], capture_output=True, text=True, check=True
    )
    found = dict(entry.split("\n", 1) for entry in listed.stdout.split("\0") if entry)
    assert found == identity
    assert write_config({}) == b""


def test_folders_of_the_caller_are_searched_where_they_are_shown(tmp_path: Path) -> None:
    """The project's own first, then the caller's, then the system's; relative ones and those not shown never."""
    work, other = tmp_path / "work", tmp_path / "other"
    for folder in (work / ".venv/bin", work / "node_modules/.bin", work / "tools", other):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(work / "tools")
    path = f"relative:{other}:{tmp_path}/link:/usr/bin::."
    search = SearchPath((Root("workspace", str(work), writable=True),), {"PATH": path})
    start = [f"{work}/.venv/bin", f"{work}/node_modules/.bin", f"{work}/tools", "/usr/bin"]
    found = search.value().split(":")
    assert found[:4] == start
    assert "/usr/local/bin" in found[4:]
    assert str(other) not in found
    assert not [folder for folder in search.value(project=False).split(":") if folder.startswith(str(tmp_path))]


@pytest.mark.usefixtures("sandbox")
async def test_package_caches_last_and_can_be_cleared(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They lie outside the roots, are the workspace's own, and are told as no change."""
    async with runtime(work) as opened:
        wrote = await run(opened, 'mkdir -p "$PIP_CACHE_DIR" && echo kept > "$PIP_CACHE_DIR/a"')
    async with runtime(work) as opened:
        read = await run(opened, 'cat "$PIP_CACHE_DIR/a"')
        outside = await run(opened, 'ls "$PIP_CACHE_DIR/../../.."')
    folder = paths.packages_dir(str(work))
    assert wrote.ok, wrote.error
    assert wrote.data["files_changed"] == []
    assert read.data["stdout"] == "kept\n", read.error
    assert "index" not in outside.content
    assert not folder.is_relative_to(work)
    assert (folder / "pip/a").read_text() == "kept\n"
    assert handrail(["cache", "clear", "-w", str(work)]) == 0
    assert os.listdir(folder) == []
    assert "Emptied" in capsys.readouterr().err


@pytest.mark.usefixtures("sandbox")
async def test_a_cache_that_has_grown_too_large_is_emptied(work: Path) -> None:
    """At the end of the run; none is kept where its size is 0."""
    fill = 'mkdir -p "$UV_CACHE_DIR" && head -c 300000 /dev/zero > "$UV_CACHE_DIR/a"'
    async with runtime(work, config={"exec": {"max_cache_bytes": 100_000}}) as opened:
        outcome = await run(opened, fill)
        assert outcome.ok, outcome.content
        assert (paths.packages_dir(str(work)) / "uv/a").stat().st_size == 300_000
    assert os.listdir(paths.packages_dir(str(work))) == []
    async with runtime(work, config={"exec": {"max_cache_bytes": 0}}) as opened:
        none = await run(opened, 'echo "[$UV_CACHE_DIR]"')
    assert none.data["stdout"] == "[]\n"


@pytest.mark.usefixtures("sandbox")
async def test_a_command_that_failed_after_a_refused_connection_says_so_first(work: Path) -> None:
    """The reason comes before the exit code."""
    line = "python3 -c 'import urllib.request; urllib.request.urlopen(\"http://evil.example/\", timeout=5)' 2>/dev/null"
    async with runtime(work, config={"exec": {"allowed_hosts": ["good.example"]}}) as opened:
        outcome = await run(opened, line)
    assert outcome.error is not None
    assert outcome.error.message.startswith("A connection to evil.example")
    assert outcome.error.message.endswith("ended with exit code 1.")


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("way", ["native", "bwrap", "supervised"])
async def test_every_backend_shows_the_author_and_the_cache(
    work: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Tier B has no view of its own: there the author's file is a copy in the program's folder."""
    offer = dict(zip(("native", "bwrap", "supervised"), OFFERED, strict=True))[way]
    if way == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    config = work.parent / "gitconfig"
    config.write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (work / ".venv/bin").mkdir(parents=True)
    tool = work / ".venv/bin/own-tool"
    tool.write_text("#!/bin/sh\necho own\n")
    tool.chmod(0o755)
    line = 'git config user.email; mkdir -p "$PIP_CACHE_DIR" && echo kept > "$PIP_CACHE_DIR/a"; own-tool'
    async with runtime(work) as opened:
        opened.parts.programs.choose = offer.make
        outcome = await run(opened, line)
    assert outcome.ok, outcome.content
    assert outcome.data["stdout"] == "ada@example.org\nown\n"
    assert (paths.packages_dir(str(work)) / "pip/a").read_text() == "kept\n"
