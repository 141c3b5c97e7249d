"""What several verbs share: opening a runtime from flags, the state folders, printing."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from handrail import dialects

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from rich.console import Console

    from handrail.runtime import Runtime
    from handrail.settings import Loaded
    from handrail.store.ledger import SqliteLedger

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

WORKSPACE = click.option(
    "--workspace", "-w", default=".", metavar="FOLDER", help="the folder to work in, whose settings count"
)
_CONFIG = click.option(
    "--config",
    "-c",
    metavar="FILE",
    help="a settings file instead of the user's and the project's; .json and .yaml are in the form of --dialect",
)
_PRESET = click.option(
    "--preset", metavar="NAME", help="settings to use instead of any file; `handrail init` names them"
)
DIALECT = click.option("--dialect", metavar="NAME", help="speak another system's names and arguments, such as tool-hub")
JSON = click.option("--json", "as_json", is_flag=True, help="print one JSON document")

# After a terminal is gone: until then a question that stood there has seen it, and is left for another time.
HANG_UP_SECONDS = 0.2

_warned: set[str] = set()


def CONFIG(command: Command) -> Command:  # noqa: N802  stands among the decorators above
    """Let a verb be told which settings count."""
    return _CONFIG(_PRESET(command))


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; an interrupt or a request to terminate cancels what runs, and that is on record."""
    import asyncio
    import signal

    heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if heard:
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))

    async def terminable() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        end = partial(signal.raise_signal, signal.SIGINT) if heard else task.cancel
        if not heard:  # in the background of a shell: Ctrl-C is not meant for it, a request to terminate is
            loop.add_signal_handler(signal.SIGTERM, end)
        _on_hang_up(loop, end)
        return await work

    try:
        return asyncio.run(terminable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _on_hang_up(loop: AbstractEventLoop, end: Callable[[], object]) -> None:
    """End the work when the terminal is gone, unless nobody minds that, as under nohup."""
    import signal

    def hung_up(*_: object) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a shell sends it once more
        if not loop.is_closed():
            loop.call_soon_threadsafe(loop.call_later, HANG_UP_SECONDS, end)

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, hung_up)


@asynccontextmanager
async def opened(given: Mapping[str, Any], **how: Any) -> AsyncIterator[Runtime]:
    """Open a runtime as the command line asks for it, and pass on what its settings warn of."""
    import logging

    from handrail.runtime import Runtime
    from handrail.worlds import Options

    # What a person must know is said in the command line's own words.
    logging.getLogger("handrail").setLevel(logging.ERROR)
    flags: dict[str, Any] = {"tools.enable": list(given["enable"])} if given.get("enable") else {}
    caller = "cli"
    if given.get("dialect") in dialects.agents():  # judged as its hooks are, and only that
        from handrail.hooks.sessions import FIXED

        how["fixed"] = FIXED
        caller = given["dialect"]
    if given.get("wait") is not None:
        flags["approvals.wait_seconds"] = given["wait"]
    if given.get("approve"):
        how.setdefault("approver", terminal_approver())
    how.setdefault("screen", Stderr(live=bool(given.get("live"))))
    from handrail.front.cli._settings import config_of

    workspace = workspace_of(given)
    config = config_of(given, workspace)
    options = Options(
        Path(workspace),
        config=Path(config) if isinstance(config, str) else config,
        run_id=given.get("run_id"),
        mode="headless" if given.get("headless") else None,
        caller=caller,
        flags=flags,
        progress=progress,
        **how,
    )
    runtime = Runtime(options)
    async with runtime:
        runtime.parts.ledger.replay_flags = replay_flags(given, runtime)
        warn(runtime.parts.loaded)
        yield runtime


def replay_flags(given: Mapping[str, Any], runtime: Runtime) -> str:
    """Write the flags that say which settings count: a call is replayed only under those it was asked for."""
    import shlex

    words = [
        (f"--{name}", given[name]) for name in ("preset", "dialect") if given.get(name) not in (None, "", "native")
    ]
    if given.get("config"):
        words.append(("--config", os.path.abspath(given["config"])))
    words += [("--enable", name) for name in given.get("enable") or ()]
    # A run with a folder of its own does not tell by it which project's settings count.
    if (project := runtime.parts.loaded.workspace) != runtime.kernel.parts.workspace:
        words.append(("--workspace", project))
    return shlex.join(word for pair in words for word in pair)


def dialect_of(name: str | None) -> Any:
    """The dialect that was asked for; ours where none was."""
    from handrail import dialects

    if name is not None and name not in dialects.names():
        raise unknown("dialect", name, dialects.names())
    return dialects.get(name or "native")


def unknown(what: str, name: str, known: Iterable[str]) -> click.UsageError:
    """What to say of a name that is none of a few: the nearest one, and all there are."""
    from handrail.spelling import nearest

    names = list(known)
    near = [item for item in names if item.startswith(name)] or nearest(name, names, 1, 0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return click.UsageError(f"There is no {what} {name!r}; there are: {', '.join(names)}.{hint}")


@asynccontextmanager
async def judging(given: Mapping[str, Any]) -> AsyncIterator[Runtime]:
    """Open a runtime to ask it about policy, also where nothing can be kept: nothing is called."""
    from contextlib import AsyncExitStack

    from handrail.errors import Code, RunFault

    async with AsyncExitStack() as stack:
        try:
            runtime = await stack.enter_async_context(_leaving_nothing(given))
        except RunFault as fault:
            if fault.code is not Code.JOURNAL_UNAVAILABLE:
                raise
            try:
                aside = stack.enter_context(_aside())
            except OSError:
                raise fault from None
            runtime = await stack.enter_async_context(_leaving_nothing(given, aside))
        yield runtime


@contextmanager
def _aside() -> Iterator[Path]:
    """A folder for a moment, with what the user's ledger says if it is one that calls would trust."""
    import shutil
    from contextlib import suppress
    from tempfile import TemporaryDirectory

    from handrail.settings import paths

    with TemporaryDirectory(prefix="handrail-") as name:
        for file in (paths.state_dir() / "ledger.db", paths.state_dir() / "ledger.db-wal"):
            with suppress(OSError):
                found = file.lstat()
                if found.st_uid == os.geteuid() and not found.st_mode & 0o022:
                    shutil.copy(file, name, follow_symlinks=False)
        yield Path(name)


@asynccontextmanager
async def _leaving_nothing(given: Mapping[str, Any], aside: Path | None = None) -> AsyncIterator[Runtime]:
    import shutil

    folder = None
    try:
        async with opened(given, aside=aside) as runtime:
            folder = runtime.parts.folder.path
            yield runtime
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def loaded(given: Mapping[str, Any], *, quiet: bool = False) -> Loaded:
    """The settings in force, without opening a run; what they warn of is passed on, unless it is the matter itself."""
    from handrail.front.cli._settings import named
    from handrail.own_code import guard_imports, write_roots
    from handrail.settings import load

    config = named(given)
    path = Path(config) if isinstance(config, str) else config
    found = load(Path(workspace_of(given)), config=path, environment=os.environ)
    guard_imports(write_roots(found))
    if not quiet:
        warn(found)
    return found


def workspace_of(given: Mapping[str, Any]) -> str:
    """The workspace that was asked for, if it is a folder."""
    folder = str(given.get("workspace") or ".")
    if not os.path.isdir(folder):
        what = "is not a folder" if os.path.lexists(folder) else "does not exist"
        raise click.UsageError(f"The workspace {folder} {what}.")
    return folder


def harmless(text: str) -> str:
    """Text in which nothing from a file, a page or a program steers the terminal it is shown on; lines stay lines."""
    import re

    from handrail.approvals.show import visible

    return "".join(part if part in "\t\n" else visible(part) for part in re.split("([\t\n])", text))


def warn(found: Loaded) -> None:
    """Pass on what settings warn of, each warning once."""
    for warning in found.warnings:
        if warning not in _warned:
            _warned.add(warning)
            sys.stderr.write(f"warning: {harmless(warning)}\n")


class Stderr:
    """Shows what tools display: a panel where a person looks, a line elsewhere."""

    def __init__(self, *, live: bool) -> None:
        self._live = live

    def show(self, fields: Mapping[str, Any]) -> None:
        """Show one display."""
        level, content = str(fields.get("level", "info")), str(fields.get("content", ""))
        if not (self._live or sys.stderr.isatty()):
            sys.stderr.write(f"[{level}] {harmless(content[:200])}\n")
            return
        from handrail.front.cli._tables import display_panel

        out = console(error=True)
        out.print(display_panel(fields, min(out.width, 100)))


def terminal_approver(what: str = "--approve", **how: Any) -> Any:
    """The approver that asks at this terminal; an error where there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{what} needs a terminal: a person must see the request to answer it.")
    from handrail.approvals.terminal import TerminalApprover

    return TerminalApprover(ledger(), clock(), **how)


def clock() -> Any:
    """The machine's own time."""
    from handrail.compose import SystemClock

    return SystemClock()


def ledger() -> SqliteLedger:
    """The user's ledger of approvals."""
    from handrail.settings import paths
    from handrail.store.ledger import SqliteLedger

    return SqliteLedger(paths.state_dir() / "ledger.db", clock())


def runs_folder(given: Mapping[str, Any]) -> Path:
    """Where the runs of this workspace lie."""
    from handrail.settings import paths

    settings = loaded(given).settings
    return Path(settings.runs_dir) if settings.runs_dir else paths.runs_dir()


def console(*, error: bool = False) -> Console:
    """A console that honours NO_COLOR; where nobody looks, lines are as long as they are."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else 10_000
    return Console(stderr=error, highlight=False, emoji=False, width=wide)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    import orjson

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS, default=str).decode()
    sys.stdout.write(f"{text}\n")


def progress(done: int, total: int) -> None:
    """Show how far a long opening is, where a person looks."""
    if sys.stderr.isatty() and total:
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\rreading the journal: {done * 100 // total} %{end}")
        sys.stderr.flush()
