"""Run lines in real bash in the product's own sandbox, and see which reach the forbidden program."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from handrail.errors import Problem
from handrail.sandbox.choose import choose
from handrail.sandbox.launching import Sandbox
from handrail.sandbox.plan import Plan
from handrail.words import Root

MARKER = "zapper"
# Programs that no harmless line may reach: in the folder of the fuzz each of them is the marker.
MANY = [
    "zapper",
    "evil",
    "gpg",
    "gpg2",
    "ssh",
    "pr",
    "vi",
    "vim",
    "ed",
    "nano",
    "less",
    "more",
    "pager",
    "sensible-pager",
    "lesspipe",
    "gzip",
    "bzip2",
    "xz",
    "zstd",
    "lz4",
    "uncompress",
    "curl",
    "wget",
    "nc",
    "ncat",
    "telnet",
    "rm",
    "touch",
    "mkdir",
    "cp",
    "mv",
    "ln",
    "chmod",
    "chown",
    "dd",
    "tee",
    "make",
    "perl",
    "node",
    "ruby",
    "php",
    "lua",
    "tclsh",
    "npm",
    "npx",
    "pip",
    "pip3",
    "gcc",
    "cc",
    "g++",
    "ld",
    "as",
    "tar",
    "zip",
    "unzip",
    "rsync",
    "scp",
    "sftp",
    "busybox",
    "sudo",
    "doas",
    "su",
    "script",
    "expect",
    "at",
    "crontab",
    "mail",
    "sendmail",
    "git-x",
    "emacs",
    "screen",
    "tmux",
    "docker",
    "podman",
    "kubectl",
    "mount",
    "umount",
    "insmod",
    "modprobe",
    "kill",
    "pkill",
    "killall",
    "reboot",
    "shutdown",
    "mkfs",
    "fdisk",
    "iptables",
    "ip",
    "ifconfig",
    "ping",
    "dig",
    "host",
    "xdg-open",
    "open",
    "start",
    "zap",
    "x",
    "y",
    "z",
    "foo",
    "bar",
    "baz",
    "cmd",
    "run",
    "test.sh",
    "a",
    "b",
    "c",
]


def needs_bash() -> None:
    """Skip where there is no bash; fail in CI."""
    if shutil.which("bash") is None:
        reason = "bash is not installed"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


@cache
def _sandbox() -> Sandbox:
    """The product's own strongest confinement; skip where there is none, fail in CI."""
    try:
        sandbox = choose(min_tier="A")
    except Problem as problem:
        pytest.fail(problem.message) if os.environ.get("CI") == "true" else pytest.skip(problem.message)
    atexit.register(sandbox.close)
    return sandbox


def _confined(folder: Path, line: str, env: dict[str, str], seconds: float) -> None:
    """Run bash as the tool would: no network, the folder to write in, nothing else of the machine but its programs."""
    place = str(folder.resolve())
    plan = Plan(read=(), write=(place,), roots=(Root("workspace", place, True),))
    quiet = os.open(os.devnull, os.O_RDWR)
    try:
        child = _sandbox().spawn(
            plan, ["/bin/bash", "-c", line], cwd=place, env=env, stdin=quiet, stdout=quiet, stderr=quiet
        )
    finally:
        os.close(quiet)
    if child.wait_blocking(seconds) is None:
        child.kill()
        child.wait_blocking(10)
        pytest.fail("the lines took too long")


def prepared(folder: Path, names: Sequence[str] = (MARKER,)) -> Path:
    """A folder with the files that lines speak of, and the marker under these names in `bin`."""
    for name in ("bin", "src", "fake", "names", "options", "home"):
        (folder / name).mkdir(parents=True)
    program = f'#!/bin/sh\nread -r number < {folder}/number\necho "${{LINE_NUMBER:-$number}} $0" >> {folder}/marks\n'
    for name in names:
        _program(folder / "bin" / name, program)
    _program(folder / "fake" / "ls", program)
    _program(folder / "evil.sh", "zapper\n")
    if ripgrep := shutil.which("rg", path=sysconfig.get_path("scripts")) or shutil.which("rg"):
        shutil.copy(ripgrep, folder / "bin" / "rg")  # a link would lead nowhere once /tmp is covered
    texts = {
        "a.txt": "one\n",
        "b.txt": "two\n",
        "lines.txt": "zapper\n",
        "README.md": "# x\n",
        "src/main.py": "def main(): ...\n",
        "data.csv": "h,i\na,b\n",
        "package.json": '{"name": "x", "scripts": {}, "dependencies": {"y": "1"}}\n',
        "server.log": "error\n",
        "run.awk": 'BEGIN { system("zapper") }\n',
        "run.sed": "1e zapper\n",
        "run.py": "import os\nos.system('zapper')\n",
        "rgrc": "--pre=zapper\n",
        "Makefile": "all:\n\tzapper\n",
        "x.c": "int x;\n",
        "names/zapper": "",
        "+": "",
        "options/--compress-program=zapper": "",
        "options/big.txt": "".join(f"{number * 7919 % 5000}\n" for number in range(5000)),
        "big.txt": "".join(f"{number * 7919 % 5000}\n" for number in range(5000)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    subprocess.run(["tar", "cf", "t.tar", "a.txt"], cwd=folder, check=True)
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}")
    path.chmod(0o755)


def hostile(folder: Path, git: str | None = shutil.which("git")) -> None:
    """Make the folder a repository whose settings run the marker wherever git lets them."""
    if git is None:
        return
    env = {**os.environ, "HOME": str(folder / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    for where in (folder, folder / "repo2"):
        where.mkdir(exist_ok=True)
        (where / "a.txt").write_text("one\n")
        identity = ["-c", "user.name=x", "-c", "user.email=x@x"]
        for words in (
            ["init", "-q"],
            ["add", "a.txt"],
            ["commit", "-qm", "one"],
            ["commit", "-qm", "two", "--allow-empty"],
        ):
            subprocess.run([git, *identity, *words], cwd=where, env=env, check=True, capture_output=True)
        _sign(git, where, env)
        (where / "a.txt").write_text("one changed\n")
        (where / ".gitattributes").write_text("* diff=z filter=z merge=z\n")
        marker = folder / "bin" / MARKER
        with (where / ".git" / "config").open("a") as file:
            file.write(_HOSTILE.format(marker=marker))
        hooks = where / "hooks"
        hooks.mkdir()
        for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction", "pre-push"):
            _program(hooks / name, f"#!/bin/sh\n{marker}\n")


def _sign(git: str, where: Path, env: dict[str, str]) -> None:
    """Put a commit with a signature on top, which git shows by asking a program."""

    def ask(*words: str, given: str = "") -> str:
        done = subprocess.run(
            [git, *words], cwd=where, env=env, input=given, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    head, tree = ask("rev-parse", "HEAD"), ask("rev-parse", "HEAD^{tree}")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
    person = "x <x@x> 1700000000 +0000"
    text = f"tree {tree}\nparent {head}\nauthor {person}\ncommitter {person}\n{signature}\n\nthree\n"
    ask("reset", "-q", "--hard", ask("hash-object", "-t", "commit", "-w", "--stdin", given=text))


_HOSTILE = """
[core]
    fsmonitor = {marker}
    pager = {marker}
    editor = {marker}
    hooksPath = hooks
    sshCommand = {marker}
[diff]
    external = {marker}
[diff "z"]
    textconv = {marker}
    command = {marker}
[filter "z"]
    clean = {marker}
    smudge = {marker}
[log]
    showSignature = true
[gpg]
    program = {marker}
[alias]
    mine = !{marker}
[branch]
    sort = -committerdate
[user]
    name = x
    email = x@x
[pager]
    branch = {marker}
    config = {marker}
    remote = {marker}
[interactive]
    diffFilter = {marker}
[protocol "ext"]
    allow = always
"""


def run_all(folder: Path, lines: Sequence[str], *, fresh: bool = True, seconds: int = 5) -> list[list[str]]:
    """Run each line in real bash, each in its own copy of the folder, and give the marks that each left."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        listed = Path(place) / "lines"
        listed.mkdir()
        for number, line in enumerate(lines):
            (listed / str(number)).write_bytes(line.encode("utf-8", "surrogateescape"))
        marks = folder / "marks"
        marks.unlink(missing_ok=True)
        run = "/tmp/run"  # the sandbox's own
        copy = f"rm -rf {run}; cp -a {folder} {run}; cd {run}" if fresh else f"cd {folder}"
        loop = (
            f"for n in {{0..{len(lines) - 1}}}; do {copy}; echo $n > {folder}/number; "
            f'LINE_NUMBER=$n timeout -k 1 {seconds} bash -c "$(< {listed}/$n)" </dev/null >/dev/null 2>&1; cd /; done'
        )
        env = {"PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin", "HOME": f"{folder}/home", "LANG": "C.UTF-8"}
        env |= {"GIT_CONFIG_NOSYSTEM": "1"}
        _confined(folder.parent, loop, env, 30 + len(lines))
        found: list[list[str]] = [[] for _ in lines]
        for mark in marks.read_text().splitlines() if marks.exists() else ():
            index, _, name = mark.partition(" ")
            found[int(index or 0)].append(name.rsplit("/", 1)[-1])
        return found
