"""A session of an agent over MCP, the same work done by hand in a copy, and the person who answers meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from fronts.mcp_process import HANDRAIL
from fronts.terminal import Terminal, at_terminal
from handrail.policy.caches import cache_folder

_OFFER = re.compile(r"Answer \(([^)]*)\): ")
_WIDEST = ("always", "run", "once")


@dataclass(frozen=True, slots=True)
class Work:
    """One step of a session: a command, or a tool of files."""

    tool: str
    args: Mapping[str, Any]

    def __str__(self) -> str:
        return str(self.args.get("command") or f"{self.tool} {self.args.get('path', '')}")


def command(line: str, **more: Any) -> Work:
    """Write a step that runs a command line."""
    return Work("run_command", {"command": line, **more})


@dataclass(frozen=True, slots=True)
class Done:
    """How a step ended: whether it worked, its exit code and what it wrote to stdout."""

    ok: bool
    code: int | None = None
    printed: str = ""


class Person:
    """Somebody at a terminal with `approvals watch --here`, who takes the widest answer that is offered."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._read_to = 0
        self.cards: list[str] = []  # what was shown up to each question

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the terminal."""
        self._stopped.set()
        self._thread.join()
        self._terminal.type("\x03")
        self._terminal.end()

    def _answer(self) -> None:
        while not self._stopped.is_set():
            self._terminal.read(0.05)
            shown = self._terminal.shown
            asked = _OFFER.search(shown, self._read_to)
            if asked is not None:
                self.cards.append(shown[self._read_to : asked.end()])
                self._read_to = asked.end()
                offered = asked[1].split(", ")
                self._terminal.type(f"{next(word for word in _WIDEST if word in offered)}\n")


@contextmanager
def person(work: Path) -> Iterator[Person]:
    """Put somebody in front of `approvals watch --here`, at 80 columns."""
    with at_terminal(["approvals", "watch", "--here"], work, dict(os.environ), columns=80, rows=50) as terminal:
        terminal.wait_for("Waiting for approval requests")
        watching = Person(terminal)
        watching.start()
        try:
            yield watching
        finally:
            watching.stop()


@asynccontextmanager
async def agent(work: Path, *flags: str) -> AsyncIterator[Client]:
    """Connect as a client does: a process of its own that is started in the project."""
    path = f"{Path(HANDRAIL).parent}:{os.environ['PATH']}"
    server = StdioServerParameters(
        command=HANDRAIL, args=["mcp", *flags], cwd=str(work), env={**os.environ, "PATH": path}
    )
    async with Client(stdio_client(server), mode="auto", read_timeout_seconds=120) as made:
        yield made


@dataclass(slots=True)
class Inside:
    """The steps as calls over MCP."""

    client: Client
    answers: list[str] = field(default_factory=list)

    async def do(self, step: Work) -> Done:
        """Make one call."""
        result = await self.client.call_tool(step.tool, dict(step.args))
        first = result.content[0]
        assert isinstance(first, TextContent)
        text = first.text
        self.answers.append(text)
        return _ended(step.tool, not result.is_error, result.structured_content or {}, text)


def _ended(tool: str, ok: bool, data: Mapping[str, Any], text: str) -> Done:
    if tool == "run_command":
        return Done(ok, data.get("exit_code"), str(data["stdout"]) if "stdout" in data else text)
    if tool == "grep":
        return Done(ok, None, "".join(f"{row['file']}:{row['line']}:{row['text']}\n" for row in data["matches"]))
    return Done(ok, None, text if tool == "read_file" else "")


class Outside:
    """The same steps by hand: a shell with the project's programs first, and plain files."""

    def __init__(self, work: Path) -> None:
        self._work = work
        folders = (work / ".venv/bin", work / "node_modules/.bin")
        # Settings of package managers in this machine's environment are no part of the work.
        kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("pip_", "npm_"))}
        self._env = {**kept, "PATH": ":".join([*map(str, folders), os.environ["PATH"]])}

    def do(self, step: Work) -> Done:
        """Do one step."""
        if step.tool == "run_command":
            line = ["bash", "-c", step.args["command"]]
            ran = subprocess.run(line, cwd=self._work, env=self._env, capture_output=True, text=True, check=False)
            return Done(ran.returncode == 0, ran.returncode, ran.stdout)
        return getattr(self, f"_{step.tool}")(step.args)  # type: ignore[no-any-return]

    def _list_dir(self, args: Mapping[str, Any]) -> Done:
        os.listdir(self._work / args["path"])
        return Done(True)

    def _read_file(self, args: Mapping[str, Any]) -> Done:
        return Done(True, None, (self._work / args["path"]).read_text())

    def _grep(self, args: Mapping[str, Any]) -> Done:
        line = ["grep", "-rnE", "--exclude-dir=node_modules", args["pattern"], args["path"]]
        ran = subprocess.run(line, cwd=self._work, capture_output=True, text=True, check=True)
        return Done(True, None, "".join(sorted(ran.stdout.replace("\n./", "\n").removeprefix("./").splitlines(True))))

    def _edit_file(self, args: Mapping[str, Any]) -> Done:
        path = self._work / args["path"]
        text = path.read_text()
        for edit in args["edits"]:
            assert text.count(edit["old"]) == 1
            text = text.replace(edit["old"], edit["new"])
        path.write_text(text)
        return Done(True)

    def _write_file(self, args: Mapping[str, Any]) -> Done:
        path = self._work / args["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(args["content"])
        return Done(True)


def plain(text: str, work: Path) -> Sequence[str]:
    """Leave out of a printed text what differs from one time to the next: places, durations, hashes, dates."""
    text = text.replace(str(work), "WORK")
    text = re.sub(r"\bin [0-9.]+ ?m?s\b", "in TIME", text)
    text = re.sub(r"\b[0-9a-f]{7,40}\b", "HASH", text)
    text = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b.*", "DATE", text)
    return text.splitlines()


def compared(done: Done, step: Work, work: Path) -> tuple[bool, int | None, Sequence[str]]:
    """Give what a step came to without what differs by place and time."""
    lines = [*plain(done.printed, work)]
    if "ls -la" in str(step):  # owners, sizes of folders and times are the sandbox's own
        lines = [
            re.sub(r"^([d-])[rwx-]{9} .* (\S+)$", r"\1 \2", line) for line in lines if not line.startswith("total")
        ]
    if "find" in str(step):
        lines.sort()
    return done.ok, done.code, lines


@dataclass(slots=True)
class Day:
    """What came of a session."""

    cards: list[str]  # that the person was shown
    failed: list[str]  # steps that did not work, with what was answered
    different: list[str]  # steps that did something else than by hand


async def session(work: Path, tasks: Sequence[Work], by_hand: Path | None = None) -> Day:
    """Do the steps over MCP with a person at hand, and each step by hand in a copy."""
    outside = None if by_hand is None else Outside(by_hand)
    with person(work) as who:
        day = Day(who.cards, [], [])
        async with agent(work) as client:
            inside = Inside(client)
            for number, step in enumerate(tasks, 1):
                asked = len(who.cards)
                done = await inside.do(step)
                if not done.ok:
                    day.failed.append(f"{number} {step}: {inside.answers[-1]}")
                if len(who.cards) > asked:
                    print(f"step {number} asked: {step}")
                if outside is not None and by_hand is not None:
                    own, theirs = compared(done, step, work), compared(outside.do(step), step, by_hand)
                    day.different += [f"{number} {step}: {own} and by hand {theirs}"] if own != theirs else []
    print(f"{len(tasks)} steps in {work.name}: {len(day.cards)} questions")
    return day


def handrail(work: Path, *words: str) -> str:
    """Run the command line in a project."""
    ran = subprocess.run([HANDRAIL, *words], cwd=work, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def undo_last_run(work: Path) -> None:
    """Take back all that the newest run changed."""
    runs = [
        run for run in json.loads(handrail(work, "runs", "list", "--json")) if run["description"]["caller"] == "mcp"
    ]
    handrail(work, "runs", "undo", max(runs, key=lambda run: str(run["started"]))["run_id"])


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Give every file below a folder with its mode and content, but for caches that are made again."""
    return {path: found for path, found in _entries(folder) if cache_folder(f"{path}/") is None}


def _entries(folder: Path) -> Iterator[tuple[str, tuple[int, str]]]:
    for path in sorted(folder.rglob("*")):
        name, about = path.relative_to(folder).as_posix(), path.lstat()
        if path.is_symlink():
            yield name, (0, os.readlink(path))
        elif path.is_file():
            yield name, (about.st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        else:
            yield name, (about.st_mode, "folder")


def git_state(folder: Path) -> list[str]:
    """Say what git knows: its commits with their authors, what is changed, and the files of the last commit."""
    lines = (["log", "--format=%s %an %ae"], ["status", "--porcelain"], ["ls-tree", "-r", "HEAD"], ["fsck"])
    git = ["git", "--no-optional-locks"]  # looking must not write the index anew, which would be a change
    return [
        subprocess.run([*git, *line], cwd=folder, capture_output=True, text=True, check=True).stdout for line in lines
    ]
